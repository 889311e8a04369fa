/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * thread.h: the shim's data for each thread of the program.
 *
 * The struct is a plain thread-local variable of the initial-exec model: it exists before
 * any constructor runs, since malloc needs it then, and reading it makes no call.
 */
#ifndef SHIM_CORE_THREAD_H
#define SHIM_CORE_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include <sreplay/trace.h>

#include "logd/base/compiler.h"
#include "logd/base/processor.h"
#include "logd/ring/ring.h"
#include "nicclock/order_code.h"
#include "shim/core/opened_file.h"
#include "shim/core/received.h"
#include "shim/core/run_token.h"
#include "shim/core/call.h"
#include "shim/core/signal_state.h"
#include "shim/core/sums_state.h"

/* Values of the selector: SYSCALL_DISPATCH_FILTER_ALLOW and _BLOCK. */
enum { SR_TRAP_ALLOW = 0, SR_TRAP_BLOCK = 1 };

/* Whose memory is allocated now; see heap.h. */
enum sr_heap {
	SR_HEAP_PROGRAM,
	SR_HEAP_LIBRARY, /* inside a verbs or libc call that the shim intercepted */
	SR_HEAP_SHIM,
};

struct ibv_cq;
struct sr_caller;
struct sr_engine;
struct sr_known;
struct sr_replay_stream;

/* Files that share a place are changed by one thread at a time (files/write_order.h). */
#define SR_FILE_PLACES 512

/* A thread that this one creates, as the record of pthread_create describes it. */
struct sr_child {
	uint32_t number;
	uint64_t stack; /* lowest address; 0: the program chose the stack */
	int32_t tid;    /* 0: not known */
};

/* A process that this thread has created: see children.c. */
struct sr_made {
	int32_t pid, error;
};

/* Recording: a poll that found nothing, and its record (verbs/idle_poll.h). */
#define SR_IDLE_BYTES 40
struct sr_idle {
	uint64_t cq, entries;
	uint64_t wc, wc_matters; /* all ones, or 0: where completions would be put does not matter */
	void *site;
	const struct sr_engine *engine; /* NULL: it takes the general way */
	uint64_t (*poll)(uint64_t cq, uint64_t entries, uint64_t wc); /* the provider's */
	struct sr_idle *follower; /* the one that came next, the last time */
	uint64_t since; /* which calls it holds for: sr_idle_polls.since */
	uint64_t kept, position; /* of its record: its number among those that may come again; in the ring */
	int error; /* errno then */
	bool exposed; /* the process has exposed regions */
	uint8_t size; /* of the record's payload; 0: the stream has none */
	unsigned char record[SR_IDLE_BYTES];
};

/* Libraries poll several queues in turn: UCX those of its transports. */
#define SR_IDLE_POLLS 16

/*
 * Idle polls that were counted instead of recorded (record/cycle.h).  How many there are is in the thread's `repeats`;
 * what they are is written later.
 */
struct sr_cycle {
	struct sr_idle *of[SR_CYCLE_PERIOD]; /* the first ones */
	uint8_t n;      /* how many of these there are; 0: all repeat the last record */
	uint8_t period; /* after which of[0] comes again; 0: not known yet */
	uint8_t at;     /* which one comes next, if the period is known */
	uint64_t most;  /* as many can be counted */
};

struct sr_idle_polls {
	/* The SN of the last one, or of a call behind it that leaves them as they are. */
	uint64_t sn;
	uint64_t since; /* rises when another call came */
	struct sr_idle *last; /* the poll that found nothing last */
	uint32_t n; /* places of `of` that were used so far, again those of the oldest ones */
	struct sr_idle of[SR_IDLE_POLLS];
	struct sr_cycle cycle;
	uint64_t kept, position; /* records that may come again, so far; of the last one in the ring */
	bool last_is_kept; /* that is the record which a REPEAT would be of */
};

/* Recording: what is held back where the program says that completions commute (record/commutes.h). */
struct sr_commutes {
	bool on;    /* the thread is in such a region */
	bool holds; /* something is held back */
	uint64_t cq, queue; /* of the last poll; of the last group */
	struct sr_buf items;
	size_t last; /* where the last group begins */
	struct sr_buf sums; /* struct sr_held_sum */
	uint32_t sums_held; /* bytes of these that belong to items */
	struct sr_buf idle; /* the record of the polls in vain behind all of that */
	uint64_t idle_polls;
};

struct sr_thread {
	int depth; /* > 0: inside an intercepted call; what is called from there is not the
		      program's */
	struct sr_caller *call_stack; /* where its next operation begins (call_stack.h); NULL: on the program's stack */
	enum sr_heap heap;
	/*
	 * In librdmacm or one of its threads: descriptors opened or closed now are the library's.
	 */
	bool inside_rdmacm;
	/*
	 * For the system-call trap (trap.h): the kernel reads selector at each system call;
	 * armed is the value of selector in the program's code.
	 */
	volatile uint8_t selector, armed;
	/* The lock call that it may wait in, and the arguments that libc has; NULL: none (verbs/waits.h). */
	const struct sr_call_desc *volatile waits_in;
	const uint64_t *volatile waits_with;
	volatile bool waits_exposed; /* memory that it waits at has become exposed: libc's system calls are trapped there, too */
	/* Recording threads: the call that it makes; one at a time: the event at which it has the run token again in it, or 0. */
	const struct sr_call_desc *makes;
	uint64_t regained;
	bool raw;             /* the current call was a system call */
	uintptr_t raw_stack;  /* ... and this was the program's stack pointer */
	struct sr_cpu_number chosen_cpu; /* that it, or its creator, has put it on */
	struct sr_opened_file opened; /* the last one */
	/* Recording: a small file whose hash is not known yet (files/small_inputs.h). */
	int late_fd; /* its descriptor + 1; 0: none */
	struct sr_late_input *late_input;
	/* The places of files that no other thread changes now (files/write_order.h). */
	bool holds_files, holds_many;
	uint32_t outputs; /* that are under way (files/last_outputs.h) */
	uint64_t held_files[SR_FILE_PLACES / 64];
	uint64_t mapped_outputs; /* how often it has compared what lies in mapped files */
	struct {
		uint64_t sn;
		uint32_t n; /* large mappings of memory since that call (calls/trap/refused.h) */
	} mapped;
	uint64_t segment_size; /* of the last attached shared memory (segments.h) */
	bool segment_empty;    /* recording: nobody had attached it before */
	/* Where its stack is known to lie, or a part of that; 0: the program chose it. */
	uintptr_t stack_low, stack_high;
	bool started;         /* its stream is open, or could not be opened */
	bool silent;          /* no stream: calls pass through unrecorded */
	bool numbered;
	bool counted; /* created through the shim, or the main thread */
	bool ended;   /* its last destructor has run */
	bool creates; /* the current pthread_create is the program's */
	bool create_is_ordered; /* ... and holds a lock: see libc_order.h */
	uint8_t destructor_rounds;
	uint32_t number;
	size_t guard; /* below the stack that the shim has mapped for it */
	void **recovery; /* where to go on after a fault; NULL: it is not guarded (guarded.h) */
	struct sr_child child;
	struct sr_made made;
	uint32_t recorded_child; /* the number of the process that it forks; 0: that is not recorded */
	bool runs_fork_handlers; /* the program's, around the real fork: libc is not to run them (fork_handlers.h) */
	bool forking; /* between the handlers of pthread_atfork: it holds the lock of our heap */
	void (*once)(void); /* the routine of the pthread_once that begins */
	bool uses_heap, leaves_heap;
	/* It is in an operation on the heap, or on what is ordered like it, of which this engine knows: see heap_order.h. */
	const struct sr_engine *in_operation;
	bool waited_at_heap; /* for the run token, in front of its operation */
	bool asked_in_operation; /* recording: to give the run token away, in one; it does so in front of the next */
	/* The program's frames lie below it; 0: not known.  What is above is libc's and the shim's. */
	uint64_t stack_top;
	uint64_t heap_ops;      /* since this thread last took the heap over: see heap_runs.h */
	struct sr_thread *next, *previous; /* recording: list of the threads with a stream */
	uint64_t sn;            /* of the current call or, between calls, of the last one */
	int *error; /* recording: its errno, once started is set */
	struct sr_ring ring;
	struct sr_buf buf;

	struct sr_order_stream orders; /* what its stream says about the process's clock */
	uint64_t shown; /* recording: the last number of order.h that its stream shows */
	/* Recording: so many points it has passed since this SN, and its stream does not say so yet (sr_engine's passes). */
	uint32_t passed;
	uint64_t passed_behind;

	/*
	 * The last record (empty if it was a long one), and how often it has been repeated since.
	 */
	uint64_t repeats;
	struct sr_idle_polls idle;
	uint16_t last_kind;
	struct sr_buf last;

	struct sr_sums sums;
	struct sr_commutes commutes;

	struct sr_known *known; /* recording: blocks that its stream has (known.h) */

	struct sr_replay_stream *stream; /* replay: see shim/replay/engine.c */

	struct sr_signal_state signals;

	struct sr_received received; /* by the thread's last poll */

	/* Recording, see single.h. */
	struct sr_single {
		const struct ibv_cq *last; /* the queue that brought a completion, until it is polled again */
		unsigned int held_back;    /* polls of others since then */
	} single;

	struct sr_token_hold run_token; /* recording */

	/* Recording: the last time that its stream says, and the last one with the clock's (stamps.h). */
	uint64_t stamp, stamp_sync;
};

extern __thread struct sr_thread sr_self
    SR_INITIAL_EXEC SR_HIDDEN;

/* Returns the thread's number; gives it the next one if it has none. */
uint32_t sr_thread_number(struct sr_thread *t);
uint32_t sr_thread_next_number(void);
/* Replay: keeps a number that the recording has used. */
void sr_thread_reserve_number(uint32_t number);

/* Is the thread writing a record? A signal handler that interrupted it there cannot write one. */
static inline bool sr_thread_is_busy(const struct sr_thread *t)
{
	return sr_ring_busy(&t->ring);
}

/* Is the thread in a section or in a call that may not be interrupted? Then signals wait. */
static inline bool sr_is_section(const struct sr_thread *t)
{
	return t->depth && !t->signals.interruptible;
}

/*
 * Begins a section, the shim's own work: calls made in it pass through, memory comes from
 * the shim's heap, and signals wait (signals.h). Sections nest.
 */
static inline enum sr_heap sr_enter(struct sr_thread *t)
{
	enum sr_heap before = t->heap;

	t->depth++;
	/* From here on signals wait; the fence keeps the following stores after the increment. */
	atomic_signal_fence(memory_order_seq_cst);
	t->selector = SR_TRAP_ALLOW;
	t->heap = SR_HEAP_SHIM;
	return before;
}

/* Call after a change of depth or armed. */
static inline void sr_select(struct sr_thread *t)
{
	t->selector = t->depth && !t->waits_exposed ? SR_TRAP_ALLOW : t->armed;
}

static inline void sr_leave(struct sr_thread *t, enum sr_heap before)
{
	t->heap = before;
	atomic_signal_fence(memory_order_seq_cst);
	t->depth--;
	sr_select(t);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(t->signals.waiting, 0))
		sr_signals_left(t);
}

/* Ends the section of an intercepted call: the handlers of waiting signals run now. */
static inline void sr_leave_call(struct sr_thread *t, enum sr_heap before)
{
	t->heap = before;
	atomic_signal_fence(memory_order_seq_cst);
	t->depth--;
	sr_select(t);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(t->signals.waiting, 0))
		sr_signals_take(t, SR_SIGNAL_AFTER);
}

#endif
