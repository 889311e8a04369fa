/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace.h: the records of a trace.
 *
 * A recorded thread writes records into its ring, sreplay-logd moves them into the thread's
 * stream in the trace, and readers get the same bytes: nothing is translated on the way.
 * docs/format/trace-format.md describes what surrounds them on disk (frames, streams, the
 * directory).
 *
 * This header needs nothing else of sreplay, and compiles as C11 and as C++17.
 *
 * Integers are little-endian.  Fields named `reserved` are 0.  Addresses and sizes are of
 * the recorded process, in bytes.  An "event" is a point in the execution of a process whose
 * threads have to be ordered: its threads share one sequence of event numbers, from 1.
 *
 * Order: the records of one stream are in the order of its thread.  Records of different
 * threads are ordered by the event numbers in them alone.
 *
 * Writers: "the recorder" is the code in the recorded process, which writes a record in the
 * thread that it is about, from its calls and its signal handlers; "the daemon" is sreplay-logd.
 * Readers: `sreplay replay` reads all kinds; `sreplay info`, `dump` and `process` read what they
 * print.  A reader skips kinds that it does not know.
 */
#ifndef SREPLAY_TRACE_H
#define SREPLAY_TRACE_H

#include <stdint.h>

/* Raised with every change that an older reader would misread; other versions are refused. */
#define SR_TRACE_VERSION 2

/* Records start at multiples of this, in a ring and in a frame, with zeros between them. */
#define SR_RECORD_ALIGN  8u

/*
 * The largest payload, all pieces together.  A recorder loses a record that would be larger, and a reader takes it for
 * damage.  One message has up to 2 GiB, as has what one read() brings.
 */
#define SR_RECORD_MAX    ((4ull << 30) - (1ull << 20))

/* What each record begins with; the payload follows. */
struct sr_record {
	uint32_t size;  /* of header and payload; the zeros that follow do not count */
	uint16_t kind;  /* enum sr_record_kind, or SR_REC_CALL + number of the call */
	uint16_t flags; /* SR_RECORD_* */
};

/*
 * The payload goes on in the next record of the stream, which has the same kind: it was too
 * large for the ring.  Readers put the pieces together.
 */
#define SR_RECORD_MORE 1u

/*
 * Some bytes of the payload are missing: they are the same as bytes that the stream has already, most
 * often of a message that came again.  The payload, all its pieces together, ends with a struct
 * sr_reference for each such range, ascending, and with how many there are, a uint32_t.
 */
#define SR_RECORD_REFERS 2u

/*
 * The record of a call that SR_REC_CYCLE may repeat: it is in one piece, refers to nothing, and its
 * payload has at most SR_KEPT_BYTES.  Readers keep the last SR_KEPT of them.
 */
#define SR_RECORD_KEPT 4u
#define SR_KEPT        32u
#define SR_KEPT_BYTES  64u

struct sr_reference {
	uint64_t position; /* of the earlier bytes: how many bytes of the ring's records are in front */
	uint32_t offset;   /* in the whole payload, without this list: where they go */
	uint32_t size;
};

/*
 * The calls of a thread are numbered from 1: a call's serial number, SN.  The comment of a kind
 * says where it advances the SN; other kinds do not.
 */
enum sr_record_kind {
	/* Filler without meaning.  Every reader skips it. */
	SR_REC_PAD = 0,
	/*
	 * The call in front of it happened again and again, with the same arguments and results
	 * (idle polling): struct sr_repeat_payload.  Advances the SN by `count`.  By the recorder.
	 */
	SR_REC_REPEAT = 1,
	/* The process ended in this thread: struct sr_exit_payload.  By the recorder, as the last
	 * record of the stream. */
	SR_REC_EXIT = 2,
	/*
	 * Records are missing here, or the stream ends here: struct sr_mark_payload.  Advances the
	 * SN by `skipped_sns`.  By the daemon, but the recorder writes SR_MARK_DROPPED.
	 */
	SR_REC_MARK = 3,
	/*
	 * The next heap operation follows one of another thread: struct sr_heap_payload.  By the
	 * recorder, in a process with several threads.
	 */
	SR_REC_HEAP = 4,
	/*
	 * An event of the process's clock, with the orders that were found at it: bytes as
	 * nicclock/order_code.h has them.  By the recorder, in front of the call at which the event
	 * happened or, between two calls, in front of the second one.
	 */
	SR_REC_CLOCK = 5,
	/*
	 * A signal handler of the program ran: struct sr_signal_payload.  The calls of the handler
	 * follow, then the call that it interrupted, if any.  By the recorder.
	 */
	SR_REC_SIGNAL = 6,
	/*
	 * The process is about to execute another program.  Strings, each with its 0: its path as
	 * given; the number of arguments, in decimal; the arguments; the number of variables in the
	 * environment; their checksum, which is the recorder's matter.  If that fails, a record of the
	 * call "exec" follows; else the stream goes no further, and the rank has a next image, if the
	 * program can be recorded.  (Earlier builds wrote the path only, without a 0.)  By the
	 * recorder.
	 */
	SR_REC_EXEC = 7,
	/*
	 * Values that peers wrote to an exposed region, as the program saw them: struct
	 * sr_exposed_payload.  By the recorder, also from its fault handler, in front of the next
	 * call.
	 */
	SR_REC_EXPOSED = 8,
	/*
	 * Memory becomes an exposed region, or ceases to be one: struct sr_region_payload.  By the
	 * recorder, in front of the call that registers or releases the memory; with SR_REGION_AT_RETURN
	 * behind it.
	 */
	SR_REC_REGION = 9,
	/* Statistics: struct sr_exposed_counts_payload.  By the recorder, in front of EXIT. */
	SR_REC_EXPOSED_COUNTS = 10,
	/*
	 * Of a process whose threads run one at a time (record --threads=serial): the run token,
	 * which is the right to run the program's code, changed hands where no call's record
	 * shows it: struct sr_token_payload.  By the recorder.
	 */
	SR_REC_RUN_TOKEN = 11,
	/*
	 * With clocks: what a queue pair's requests carry from here on: struct
	 * sr_connection_payload.  By the recorder, in front of the call that connects the queue
	 * pair, or creates one that can carry none.  The last one of a queue pair counts.
	 */
	SR_REC_CONNECTION = 12,
	/*
	 * The exit handlers of the program have run, and libc is about to write what is left in
	 * stdio's buffers: struct sr_exit_payload.  The calls that follow are these writes; then
	 * comes EXIT.  By the recorder, where the system-call trap sees those writes.
	 */
	SR_REC_EXIT_BEGINS = 13,
	/*
	 * When the next call's record was written (record --stamps): struct sr_stamp_delta,
	 * sr_stamp_time or sr_stamp_sync, by its size.  By the recorder, in front of the records of calls; if
	 * there is none, the time has not moved.
	 */
	SR_REC_STAMP = 14,
	/*
	 * The process is about to fork a child that is recorded: struct sr_fork_payload.  The child's
	 * trace goes on here; what follows, to begin with handlers of signals and the call "forked", is
	 * its parent's alone.  By the recorder.
	 */
	SR_REC_FORK = 15,
	/*
	 * In a ring only: a small file that the program opens, struct sr_input_payload.  The daemon
	 * writes what it says to files.jsonl (and files/), and a PAD in its place to the stream.  By the
	 * recorder, in front of the call that opens the file.
	 */
	SR_REC_INPUT = 16,
	/*
	 * The thread was stopped in the program's code, between two calls, and gave the run token away:
	 * struct sr_place_payload says where.  By the recorder (--threads=serial).
	 */
	SR_REC_PLACE = 17,
	/*
	 * With --order: sums of what the records of calls lack: struct sr_check_payload.  By the
	 * recorder, behind the call at which 256 requests, completions and values had come together, and at
	 * the end of a thread.
	 */
	SR_REC_CHECK = 18,
	/*
	 * Calls came again in turn, with the same arguments and results (polls of several queues that
	 * find nothing): struct sr_cycle_payload.  Advances the SN by `calls`.  By the recorder.
	 */
	SR_REC_CYCLE = 19,
	/*
	 * Of a process with threads: the records that follow, up to the next one with an event number, came behind
	 * this event of the process: a uint64_t.  By the recorder, in front of a CLOCK with orders, where the numbers
	 * in the stream do not show it.
	 */
	SR_REC_BEHIND = 20,
	/*
	 * With --order: so many completions of a send or receive queue came since its last such record, of which
	 * the later ones do not say in their records whose they are: struct sr_picked_payload.  By the recorder, in front of the
	 * next one that says it, of a CHECK, and at the end of a thread.
	 */
	SR_REC_PICKED = 21,
	/*
	 * With --check-buffers: what a request sends was not the same when the program polled that it was over as at
	 * the post: struct sr_changed_payload.  By the recorder, in front of that poll.
	 */
	SR_REC_CHANGED = 22,
	/*
	 * Since its last call the thread has passed so many points at which there may be a call of the recorder's own
	 * (shared_mapping, mapped_output), and was none: a uint32_t.  By the recorder, in front of
	 * what comes next before a call, such as a PLACE.
	 */
	SR_REC_PASSED = 23,
	/* The first kind that is a call; the trace's schema.json describes them.  Advances the SN
	 * by one.  By the recorder, when the call has returned. */
	SR_REC_CALL = 64,
};

/*
 * The processor's time-stamp counter counts ticks of 2^SR_STAMP_SHIFT cycles here.  Times are nanoseconds
 * since 1970.
 */
#define SR_STAMP_SHIFT 4

struct sr_stamp_delta {
	uint32_t ticks; /* since the last stamp of the stream */
};

/* The kernel's coarse clock: it moves every few milliseconds. */
struct sr_stamp_time {
	uint64_t time;
};

/* The counter and the clock at one moment; the first of a stream, and again now and then. */
struct sr_stamp_sync {
	uint64_t ticks, time;
	uint64_t hz; /* ticks in a second, as measured since the process started */
};

/* Since the start of the thread. */
struct sr_check_payload {
	uint32_t sent;     /* upper half of the sum of what its requests lack */
	uint32_t received; /* ... of the checksums of what is left out */
};

struct sr_picked_payload {
	uint64_t cq;               /* address of the completion queue */
	uint32_t qp_num, receives; /* 1: the receive queue; 0: the send queue */
	uint32_t traced, untraced; /* first completions that say whose they are, then completions that do not */
};

struct sr_changed_payload {
	uint64_t sn;             /* of the call that posted it (of a builder: its wr_complete) */
	uint32_t thread, number; /* of that thread; of the request in the call, from 0 */
	uint64_t checksum;       /* at its end */
};

/* qp_num of a completion that does not say whose it is: nor does its wr_id, and where it came is only SR_LEFT_OUT. */
#define SR_PICK_LEFT_OUT UINT32_MAX

struct sr_fork_payload {
	uint32_t child; /* its number among the process's children, from 1 */
	uint32_t reserved;
};

/* Followed by the path, without a 0, and by the content if that is to be kept. */
struct sr_input_payload {
	uint64_t device, inode; /* as stat has them */
	uint64_t size;
	uint64_t hash;          /* XXH3 of the content */
	int64_t changed;        /* ns since 1970 */
	uint32_t note;          /* its number in the records of calls */
	uint32_t path_bytes;
};

struct sr_repeat_payload {
	uint64_t count; /* how many more times */
};

/* Of one record, at most; and how many different records it may repeat. */
#define SR_CYCLE_CALLS  4096u
#define SR_CYCLE_PERIOD 11u
/* The records that it repeats are in front of it by at most so many bytes of the ring's records. */
#define SR_CYCLE_WITHIN (64u << 10)

/*
 * The first of `calls` calls has the record that back[0] says, the next one that of back[1], and so
 * on; behind back[period - 1] comes back[0] again.
 */
struct sr_cycle_payload {
	uint32_t calls;
	uint8_t period;
	uint8_t back[SR_CYCLE_PERIOD]; /* 1: the last record that is KEPT, 2: the one in front of it, ...; else 0 */
};

struct sr_exit_payload {
	int32_t status; /* the process's exit status */
	uint32_t reserved;
	uint64_t order; /* number of the event; 0: the process never had several threads */
};

/*
 * Heap operations are calls of malloc(), free() and the like.  Each belongs to a run: those that
 * one thread makes until another thread makes one.  Run 0 is the main thread's, from the
 * creation of the second thread on.
 */
struct sr_heap_payload {
	uint32_t run;      /* the run that begins here, modulo 2^32 */
	uint32_t previous; /* how many operations the run before it has */
	uint64_t position; /* how many this thread has made since its last HEAP record */
};

/* In the flags of struct sr_exposed_payload.  Bit 5 (32) stays 0. */
#define SR_EXPOSED_ASYNC     1u  /* found later than the load that could have seen it */
#define SR_EXPOSED_AT_CALL   2u  /* found at the beginning of a call, not by a fault */
#define SR_EXPOSED_ALONE     4u  /* the page kept changing: the load was done without a snapshot */
#define SR_EXPOSED_AT_RETURN 8u  /* found when a call returned */
#define SR_EXPOSED_TICK      16u /* the timer protected the pages again */
#define SR_EXPOSED_REFRESHED 64u /* a new snapshot of a page that another thread saw change */
#define SR_EXPOSED_YIELD     128u /* with TICK: found when the thread gave up its processor */
#define SR_EXPOSED_MANY      256u /* with AT_CALL: `fault` is over SR_EXPOSED_MANY_FAULTS */
#define SR_EXPOSED_SNAPSHOT  512u /* the page became a snapshot, and as many pages behind it as FURTHER says */
#define SR_EXPOSED_FILLED    1024u /* the page is passed through from here on, with as many behind it */
#define SR_EXPOSED_LANDING   2048u /* with record --order: nothing is left out, as requests landed while it was copied */
#define SR_EXPOSED_BEHIND    4096u /* found behind the access, as the pages that it had open were protected again */
#define SR_EXPOSED_WRITTEN   8192u /* values in no exposed region are what other processes wrote by process_vm_writev */
#define SR_EXPOSED_AFTER_TICK 16384u /* the first access behind a tick that protected pages */
#define SR_EXPOSED_FURTHER(flags) ((flags) >> 16)

/*
 * A thread that has had more faults since its last call says so at the next one.  Without that a
 * replay could not tell a long computation on exposed memory from a loop that waits in vain.
 */
#define SR_EXPOSED_MANY_FAULTS 65536

/*
 * Followed by `protected_pages` addresses (u64) of pages that were found changed and are protected
 * again, and by `values` times a struct sr_exposed_value_head with its bytes and zeros up to
 * the next multiple of 8.
 */
struct sr_exposed_payload {
	uint32_t fault; /* faults of the thread since its last call, with this one */
	uint32_t flags; /* SR_EXPOSED_* */
	uint64_t site;  /* the instruction that faulted; 0: none.  SR_EXPOSED_YIELD, _AT_CALL: see docs/format */
	uint64_t addr;  /* the address that it wanted (of older builds its page); 0: no fault */
	uint32_t protected_pages, values;
};

struct sr_exposed_value_head {
	uint64_t addr;
	uint32_t length; /* bytes */
	uint32_t reserved;
};

/*
 * A value that is left out (record --order), because the replay of the rank that sent it produces it again: a segment of
 * received bytes (schema.json), or a value of SR_REC_EXPOSED.  Its address has this bit, and its bytes are its length, a
 * uint32_t, and the lowest 0 to 8 bytes of its XXH3.
 */
#define SR_LEFT_OUT (1ull << 63)

/* `what` of struct sr_region_payload. */
#define SR_REGION_ADDED   1
#define SR_REGION_REMOVED 2
/* A bit of it: behind the call.  Of a process with threads, which may go on between the call's two numbers. */
#define SR_REGION_AT_RETURN 0x100u

/*
 * Why memory that peers write to cannot be an exposed region.  The recorder then compares it at
 * the returns of calls, and no load of it is ordered by itself.
 */
enum sr_exposed_refusal {
	SR_EXPOSED_OK = 0,              /* it is an exposed region */
	SR_EXPOSED_REFUSED_ADDRESS = 1, /* it lies outside of the address zones */
	SR_EXPOSED_REFUSED_READ_ONLY = 2,
	SR_EXPOSED_REFUSED_HUGE = 3,     /* hugetlbfs, whose pages cannot be split */
	SR_EXPOSED_REFUSED_STACK = 4,    /* the stack of this thread, or the kernel's [stack] */
	SR_EXPOSED_REFUSED_UNMAPPED = 5, /* no memory is there, or on-demand paging of all memory */
	SR_EXPOSED_REFUSED_BY_KERNEL = 6, /* mremap or mmap failed */
	SR_EXPOSED_REFUSED_NO_MEMORY = 7,
	SR_EXPOSED_REFUSED_BY_USER = 8, /* record --exposed=compare */
	SR_EXPOSED_REFUSED_REREG = 9,   /* it is registered anew, from the program's address */
};

struct sr_region_payload {
	uint64_t addr, length;
	uint32_t what;    /* SR_REGION_* */
	uint32_t refusal; /* enum sr_exposed_refusal */
};

/* How often the exposed regions of the process did something, since its start. */
struct sr_exposed_counts_payload {
	uint64_t faults;              /* accesses that trapped, or went through a jump */
	uint64_t loads;               /* of them, loads that were done alone, without a snapshot */
	uint64_t polls;               /* of these, loads in a polling loop */
	uint64_t snapshots;           /* pages of which a snapshot was taken */
	uint64_t stores;              /* stores that were done on the program's behalf */
	uint64_t exchanges;           /* atomic operations, likewise */
	uint64_t pass_throughs;       /* pages that were opened to the NIC's memory itself */
	uint64_t protected_by_change; /* snapshots that were found outdated, and protected */
	uint64_t ticks;               /* times that the timer protected pages */
	uint64_t async_values;        /* values with SR_EXPOSED_ASYNC */
	uint64_t unstable;            /* times that memory changed while it was copied */
	uint64_t jumps;               /* instructions that were replaced by jumps */
	uint64_t by_jump;             /* of `faults`, those that such a jump saved */
};

enum sr_signal_place {
	SR_SIGNAL_BEFORE = 1,  /* at the beginning of the next call */
	SR_SIGNAL_IN_CALL = 2, /* in the call whose record comes next at this level, if one does */
	SR_SIGNAL_AFTER = 3,   /* at the end of the last call, before the program went on */
	SR_SIGNAL_BETWEEN = 4, /* anywhere between two calls */
	SR_SIGNAL_AT_HEAP = 5, /* between two calls, in front of the operation on the heap that heap_position counts */
};

/* The handler in front of it ran at a place of the program's code, and has returned there; so this one runs there as well. */
#define SR_SIGNAL_SAME_PLACE 1

struct sr_signal_payload {
	uint32_t signo;
	uint16_t place; /* enum sr_signal_place */
	uint16_t flags; /* SR_SIGNAL_* */
	uint32_t level; /* how many handlers of this thread have begun and not returned */
	uint32_t access; /* between two calls: so many accesses to exposed memory since the thread's last call came before it */
	uint64_t order;         /* number of the event; 0: the process never had several threads */
	uint64_t entry;         /* number of the event at the entry of the interrupted call; or 0 */
	uint64_t heap_position; /* heap operations of the thread since its last HEAP record */
	uint64_t mask;          /* signals blocked in the interrupted code: bit n-1 for signal n */
	uint8_t info[128];      /* siginfo_t */
};

enum sr_run_token {
	/* The thread has the token and runs the program's code from this event on. */
	SR_RUN_TOKEN_ACQUIRED = 1,
	/*
	 * The same, but the thread ran the program's code before as well, beside other threads:
	 * it had made no call for so long that one of them preempted it.
	 */
	SR_RUN_TOKEN_REACQUIRED = 2,
	/* This thread preempted the thread `other`: it had the token when `event` began. */
	SR_RUN_TOKEN_PREEMPTED = 3,
	/*
	 * Between two accesses to exposed memory, of which the first is the thread's access number
	 * `other` since its last call, the thread lets others run.  ACQUIRED follows, unless the
	 * process ended before.
	 */
	SR_RUN_TOKEN_YIELDED = 4,
	/* The same, but the thread had been preempted, and ran beside others until there. */
	SR_RUN_TOKEN_REJOINED = 5,
	/*
	 * Behind the call whose record comes next, the thread runs the program's code without the token until its next call,
	 * and others run beside it.  REACQUIRED in front of that call, or ACQUIRED if no other thread ran meanwhile.
	 */
	SR_RUN_TOKEN_PARTS = 6,
	/* The same, from here on: behind a PLACE. */
	SR_RUN_TOKEN_PARTED = 7,
	/*
	 * In front of an operation on the heap, with another thread in one, or after it had made such operations for long: the
	 * thread let others run, until the ACQUIRED behind.
	 */
	SR_RUN_TOKEN_AT_HEAP = 8,
};

/* Does the thread stop there between two of its calls, at a place that a replay finds again? */
static inline int sr_run_token_is_stop(uint32_t what)
{
	return what == SR_RUN_TOKEN_YIELDED || what == SR_RUN_TOKEN_REJOINED || what == SR_RUN_TOKEN_AT_HEAP;
}

struct sr_token_payload {
	uint32_t what;    /* enum sr_run_token */
	uint32_t other;   /* PREEMPTED: number of a thread; YIELDED, REJOINED: number of accesses; AT_HEAP: of heap operations */
	uint64_t event;   /* PREEMPTED: that of one of the next records; YIELDED, REJOINED: 0 */
	uint64_t site;    /* the address that the next call returns to; 0: not known */
	uint64_t arrived; /* REACQUIRED, REJOINED: the event at which it left the program's code; or 0 */
};

/* Flags of a place. */
#define SR_PLACE_SPIN	 1 /* a loop that came back with nothing changed: any of its turns will do */
#define SR_PLACE_JUMP	 2 /* the instruction and what follows it may be replaced by a jump */
#define SR_PLACE_UNKNOWN 4 /* the loop also does what the recorder does not follow */
#define SR_PLACE_SIGNAL	 8 /* a handler of the program ran here: its SIGNAL follows */

/* Of the program's memory at that moment; the bytes as an integer. */
struct sr_place_word {
	uint64_t addr;
	uint64_t value;
};

struct sr_place_payload {
	uint64_t pc;            /* the next instruction of the thread */
	uint64_t heap_position; /* heap operations of the thread since its last HEAP record */
	uint32_t flags;         /* SR_PLACE_* */
	uint32_t words;         /* how many follow: what the code around it loads and stores */
	uint32_t vectors;       /* registers xmm0 to xmm15 that the code around it changes: a bit for each */
	uint32_t told_by;       /* the number of a general register that the code changes, or 4 */
	uint32_t compared;      /* the general registers that tell the place: a bit for each */
	uint32_t reserved;
	uint64_t vectors_sum;   /* XXH3 of these, in their order */
	uint64_t stack_bytes;   /* from the stack pointer on ... */
	uint64_t stack_sum;     /* ... and their XXH3, in pieces of 256 with the sum before as the seed */
	uint64_t registers[16]; /* by their numbers in instructions */
};

enum sr_mark {
	SR_MARK_DIED = 1,    /* the process ended without EXIT */
	SR_MARK_DROPPED = 2, /* records are missing: they did not fit into the ring (--lossy) */
	SR_MARK_STOPPED = 3, /* the recording ended before the thread did */
	SR_MARK_ENDED = 4,   /* the thread ended, or another thread ended the process */
};

/* In the flags of DIED and ENDED: it was in a call that writes, of which there is no record. */
#define SR_MARK_WRITING 1u

struct sr_mark_payload {
	uint32_t reason; /* enum sr_mark */
	uint32_t flags;  /* SR_MARK_WRITING */
	/*
	 * DROPPED: how many records; STOPPED: an errno; DIED: for about so many ms the process had
	 * gone on without a record; else 0.
	 */
	uint64_t argument;
	uint64_t skipped_sns; /* how many calls the missing records stand for */
	__extension__ char text[]; /* for the user, up to the end of the payload, without a 0 */
};

/* Whether a queue pair's requests carry clocks from its connection on, and if not, why. */
enum sr_carries {
	SR_CARRIES_CLOCKS = 0,
	SR_CARRIES_NO_READS = 1,   /* clocks, but none come with what READs bring */
	SR_CARRIES_TO_ONESELF = 2, /* it is connected to its own process, and needs none */
	/* From here on none: */
	SR_CARRIES_NONE = 16,
	SR_CARRIES_FOREIGN = 16,    /* no process of the job is known to have the other end */
	SR_CARRIES_UNANSWERED = 17, /* the directory could not say which process has it */
	SR_CARRIES_UNNAMED = 18,    /* this end could not be reported to the directory */
	SR_CARRIES_UNJOINED = 19,   /* of all queue pairs: this process is not in the job */
	SR_CARRIES_NO_ROOM = 20,   /* the device has no larger queue, for the recorder's requests */
	SR_CARRIES_NO_CELL = 21,   /* the other end's process has no free clock cell */
	SR_CARRIES_NO_SRQ = 22,    /* XRC: it has no shared receive queue to be reached by */
	SR_CARRIES_NO_MEMORY = 23, /* no memory for clocks, or none that the device registers */
};

struct sr_connection_payload {
	uint32_t number;   /* the queue pair's; 0: all of the process (UNJOINED) */
	uint32_t peer;     /* the other end's; 0: not connected */
	int32_t peer_rank; /* -1: not known */
	uint32_t carries;  /* enum sr_carries */
	int32_t error;     /* an errno, or 0 */
	uint32_t reserved;
};

/* What a record of this size (as in its header) takes in a ring and in a frame. */
static inline uint32_t sr_record_padded(uint32_t size)
{
	return (size + SR_RECORD_ALIGN - 1) & ~(SR_RECORD_ALIGN - 1);
}

#endif
