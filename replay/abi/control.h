/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * abi/control.h: what `sreplay replay` and the process it replays share: a few pages.
 *
 * The command writes the first half before it starts the process; the process
 * finds them at a fixed descriptor number, since its environment must be
 * the recorded one, byte for byte.  Records come over one ring per thread, with
 * the command as the producer.
 */
#ifndef REPLAY_ABI_CONTROL_H
#define REPLAY_ABI_CONTROL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sreplay/trace.h>

#include "logd/base/processor.h"

#define SR_REPLAY_MAGIC         0x31796c7065725f73ull
#define SR_REPLAY_FD            511  /* of the page's memfd in the new process */
#define SR_REPLAY_THREADS       4096 /* streams of one process */
#define SR_REPLAY_BYTES         4096 /* of arguments shown in a divergence, each side */

/* Exit statuses of `sreplay replay` that are not the program's. */
#define SR_REPLAY_EXIT_CUT      123 /* the trace ended before the program */
#define SR_REPLAY_EXIT_DIVERGED 124 /* the program did not do what was recorded */
#define SR_REPLAY_EXIT_FAILED   125 /* the replay could not be made */

/* Sent by the command after a stream's last record when there was no SR_REC_EXIT: u32
 * sr_replay_outcome. */
#define SR_REC_REPLAY_END       32
/* In front of a call's record, in a group: struct sr_group_wait, struct sr_group_peer. */
#define SR_REC_REPLAY_WAIT      33
#define SR_REC_REPLAY_PEER      34

enum sr_replay_outcome {
	SR_REPLAY_RUNNING,
	SR_REPLAY_EXACT,       /* the program ended as recorded */
	SR_REPLAY_DIED,        /* came to where the recorded program was killed */
	SR_REPLAY_CUT,         /* came to the end of a trace that is not whole */
	SR_REPLAY_DIVERGED,    /* another call, or other arguments, than recorded */
	SR_REPLAY_EARLY_EXIT,  /* ended with recorded calls left, or with another status */
	SR_REPLAY_LATE_CALL,   /* a call where the recording ends with an exit */
	SR_REPLAY_UNSUPPORTED, /* a call that is recorded by name only */
	SR_REPLAY_BAD_RECORD,  /* a record that does not fit its call */
	SR_REPLAY_THREAD_CUT,  /* of a stream: another thread ended the process */
	SR_REPLAY_FORSAKEN,    /* waits for a call of another rank, which has ended without it */
	SR_REPLAY_MISSED_LOAD, /* memory that peers wrote was not looked at where it was recorded */
	SR_REPLAY_WAITS, /* for memory to change, where the recording has a call instead */
	SR_REPLAY_NO_EXPOSED,   /* such memory cannot be watched here as it was */
	SR_REPLAY_NOT_TRANSFERRED, /* a device did not do a request that was to be made again */
};

/* One thread of the replayed process, written by itself. */
struct sr_replay_thread {
	_Atomic uint64_t calls; /* replayed so far */
	_Atomic int32_t tid;    /* 0: it has made no call yet */
	_Atomic bool over;
	_Atomic uint64_t waits_for; /* the event whose turn it waits for; 0: it does not */
	/* Where it waits for another rank of its group: for which call; 0: it does not. */
	_Atomic uint64_t waits_for_sn;
	_Atomic int32_t waits_for_rank;
	_Atomic uint32_t waits_for_thread;
	/* The command's, or a debugger's: in front of this call the thread raises SIGTRAP. */
	_Atomic uint64_t stop_at;
};

struct sr_replay_report {
	uint32_t thread;
	uint64_t sn;
	uint16_t expected, found; /* record kinds; 0: the end of the process */
	int32_t expected_status, found_status;
	uint64_t expected_site, found_site;
	uint64_t expected_address, found_address; /* of memory that peers write; 0: a call */
	uint32_t expected_size,
	    found_size; /* of the encoded arguments; shown up to SR_REPLAY_BYTES */
	uint8_t expected_in[SR_REPLAY_BYTES];
	uint8_t found_in[SR_REPLAY_BYTES];
};

/*
 * A value of the recording that the group has not produced, though it comes from one
 * of it: the first is kept.
 */
struct sr_replay_mismatch {
	uint32_t thread;
	uint64_t sn;
	uint64_t addr;
	uint32_t length; /* of what was received */
	uint32_t at;     /* the first byte that differs */
	int32_t from;    /* rank */
	uint32_t from_thread;
	uint64_t from_sn;
	uint8_t recorded[16], produced[16]; /* from that byte on, as far as there are any */
};

/* The call that a request of a group is of, for a report about it. */
struct sr_group_call {
	uint64_t sn;
	uint64_t expected_site, found_site;
	uint32_t thread;
	uint16_t kind; /* of its record */
	uint16_t reserved;
};

/* Into a report: the call, which both runs had. */
static inline void sr_report_call(struct sr_replay_report *r, const struct sr_group_call *call)
{
	r->thread = call->thread;
	r->sn = call->sn;
	r->expected = r->found = call->kind;
	r->expected_site = call->expected_site;
	r->found_site = call->found_site;
}

struct sr_replay_control {
	uint64_t magic;
	uint32_t version; /* SR_TRACE_VERSION */
	uint32_t threads;
	int32_t stream_fd[SR_REPLAY_THREADS]; /* the rings' memfds, by thread number */
	int32_t found_fd;                     /* where struct sr_found_value go, or -1 */
	int32_t group_fd;                     /* of the group's memory (group/shared.h), or -1 */
	uint32_t member;                      /* this process's, in the group */
	uint32_t thread_at, thread_bytes;     /* for debuggers: where thread[] is, and its stride */
	bool stdout_line_buffered;
	bool trap;     /* see shim/calls/trap/trap.h */
	bool tsc;     /* shim/kernel/tsc.h */
	bool serial;  /* threads take turns: shim/core/run_token.h */
	int32_t pid; /* recorded */
	uint64_t main_stack; /* see shim/threads/main_stack.h */
	struct sr_processor processor; /* recorded */
	_Atomic bool cpuid_traced; /* it traps already: see shim/kernel/cpuid_trap.h */

	/* The process's. */
	struct sr_replay_thread thread[SR_REPLAY_THREADS];
	_Atomic int32_t process;    /* its id */
	_Atomic bool cpuid_told;    /* the program is told what the recorded processor was */
	_Atomic uint64_t ticket;      /* the event that is to happen now: see tickets.h */
	/* Of threads that take turns: how often one was late so far, in which call it was last. */
	_Atomic uint64_t late;
	_Atomic uint32_t late_thread;
	_Atomic uint64_t late_sn;
	_Atomic uint32_t reporting; /* id of the thread whose report it is; 0: none yet */
	_Atomic uint32_t
	    outcome; /* enum sr_replay_outcome; the report is complete before it is set */
	struct sr_replay_report report;

	/* Of a group. */
	_Atomic uint64_t mismatches;
	struct sr_replay_mismatch mismatch;
	char not_transferred[160]; /* which request, and why */

	/* Of the process that replays it, for who conducts a group: enum sr_verdict_kind. */
	_Atomic uint32_t verdict;
};

/* Of all threads. */
static inline uint64_t sr_replay_calls(const struct sr_replay_control *c)
{
	uint64_t calls = 0;

	for (int i = 0; i < SR_REPLAY_THREADS; i++)
		calls += atomic_load_explicit(&c->thread[i].calls, memory_order_relaxed);
	return calls;
}

#endif
