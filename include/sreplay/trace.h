/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace.h: what a record looks like, in a ring and in a trace.
 *
 * A record is the same sequence of bytes from the reserve in the recorded
 * thread to the reader of the trace: the daemon moves records, it does not
 * translate them.  docs/format/trace-format.md describes what stands around them on
 * disk (frames, streams, the directory).
 *
 * Integers are little-endian.
 */
#ifndef SREPLAY_TRACE_H
#define SREPLAY_TRACE_H

#include <stdint.h>

/* Raised with every change that an older reader would misread. */
#define SR_TRACE_VERSION 2

/*
 * Records start at multiples of this, in the ring and inside a frame.  The
 * padding behind a record is zero.
 */
#define SR_RECORD_ALIGN  8u

struct sr_record {
	uint32_t size;  /* header and payload, without the padding that follows */
	uint16_t kind;  /* enum sr_record_kind, or SR_REC_CALL + number of the call */
	uint16_t flags; /* SR_RECORD_* */
};

/*
 * The record was larger than a ring takes at once: its payload goes on in the
 * next record of the same stream, which has the same kind.  Readers see the
 * whole only.
 */
#define SR_RECORD_MORE 1u

enum sr_record_kind {
	/* Filler, skipped by every reader. */
	SR_REC_PAD = 0,
	/*
	 * The previous call happened again, with the same arguments and
	 * results: struct sr_repeat_payload.  Counts as that many SNs.
	 * Written by the record engine for idle polling.
	 */
	SR_REC_REPEAT = 1,
	/*
	 * Written by the record engine as the last one of a stream:
	 * struct sr_exit_payload.
	 */
	SR_REC_EXIT = 2,
	/*
	 * The stream ends here without SR_REC_EXIT, or has a hole here (a
	 * stream with neither at its end is being written, or was lost):
	 * struct sr_mark_payload.  Written by the daemon, but for
	 * SR_MARK_DROPPED, which the ring's producer puts where the hole is.
	 */
	SR_REC_MARK = 3,
	/*
	 * In front of a heap operation: this thread takes the program's heap over
	 * from another one: struct sr_heap_payload.  Written by the record
	 * engine in a process with threads.
	 */
	SR_REC_HEAP = 4,
	/*
	 * An event of the process's clock, with the orders found at it
	 * (nicclock/order_code.h).  Written by the record engine in front of
	 * the call at which it happened, or between calls.
	 */
	SR_REC_CLOCK = 5,
	/*
	 * What the process found changed in memory that peers write, in front of
	 * the call before which it was found: struct sr_exposed_payload.  Written
	 * by the record engine, also from its fault handler.
	 */
	SR_REC_EXPOSED = 8,
	/*
	 * Memory that peers write begins or ends, in front of the call that
	 * registers or releases it: struct sr_region_payload.
	 */
	SR_REC_REGION = 9,
	/* In front of SR_REC_EXIT: struct sr_exposed_counts_payload. */
	SR_REC_EXPOSED_COUNTS = 10,
	/*
	 * A handler of the program's ran in this thread: struct sr_signal_payload.
	 * What it called follows, before the record of the call that it
	 * interrupted, which is written when that returns.  Written by the
	 * record engine.
	 */
	SR_REC_SIGNAL = 6,
	/*
	 * The process is about to become another program: the path, as given.  If
	 * that fails, a record of the call "exec" follows; if not, nothing does.
	 */
	SR_REC_EXEC = 7,
	/*
	 * Of a process whose threads take turns (record --threads=serial): what became of
	 * the right to run the program's code, where no call's record tells it:
	 * struct sr_token_payload.  Written by the record engine.
	 */
	SR_REC_RUN_TOKEN = 11,
	/*
	 * With clocks: a queue pair was connected, or cannot carry any: struct
	 * sr_connection_payload.  In front of the call that did it.
	 */
	SR_REC_CONNECTION = 12,
	/* First of the kinds that are intercepted calls; each counts as one SN. */
	SR_REC_CALL = 64,
};

struct sr_repeat_payload {
	uint64_t count;
};

struct sr_exit_payload {
	int32_t status; /* exit status of the process */
	uint32_t reserved;
	uint64_t order; /* number of the event, 0 in a process that never had threads */
};

/* Heap operations are the calls of malloc, free and the like; a run is what one thread makes of
 * them before another one makes one. */
struct sr_heap_payload {
	uint32_t run;      /* number of the run that begins here, from 1, modulo 2^32 */
	uint32_t previous; /* operations of the run before it */
	uint64_t position; /* of this thread's, between its last run's first and here */
};

/*
 * Then `protected` times a u64, the address of a page that was found changed, and
 * `values` times struct sr_exposed_value_head with its bytes, padded to 8 by zeros.
 */
struct sr_exposed_payload {
	uint32_t fault; /* number of the thread's exposed region fault since its last call, from 1; 0: none */
	uint32_t flags; /* SR_EXPOSED_* of shim/exposed/exposed.h */
	uint64_t site;  /* the instruction that faulted; 0: not an instruction's */
	uint64_t addr;  /* where; 0: not a fault */
	uint32_t protected, values;
};

struct sr_exposed_value_head {
	uint64_t addr;
	uint32_t length;
	uint32_t reserved;
};

#define SR_REGION_ADDED   1
#define SR_REGION_REMOVED 2

struct sr_region_payload {
	uint64_t addr, length;
	uint32_t what;    /* SR_REGION_* */
	uint32_t refusal; /* why it is compared at calls: enum sr_exposed_refusal; 0: it is not */
};

/* What the exposed regions of a process did. */
struct sr_exposed_counts_payload {
	uint64_t faults, loads, polls, snapshots, stores, exchanges, pass_throughs, protected_by_change;
	uint64_t ticks, async_values, unstable;
	uint64_t jumps, by_jump; /* instructions replaced; and how many of the faults were none for that */
};

enum sr_signal_place {
	SR_SIGNAL_BEFORE = 1,  /* in front of the call that comes next, at its beginning */
	SR_SIGNAL_IN_CALL = 2, /* in the call whose record comes next at its level, if it ends */
	SR_SIGNAL_AFTER = 3,   /* at the end of the call in front, before the program went on */
	SR_SIGNAL_BETWEEN = 4, /* somewhere between two calls */
};

struct sr_signal_payload {
	uint32_t signo;
	uint16_t place;        /* enum sr_signal_place */
	uint16_t reserved;
	uint32_t level;        /* handlers that had begun in the thread and not returned */
	uint32_t reserved2;
	uint64_t order;        /* number of the event; 0 in a process that never had threads */
	uint64_t entry;        /* of the entry of the call that it interrupted, if it has one */
	uint64_t heap_position; /* as in struct sr_heap_payload */
	uint64_t mask;         /* of the interrupted code, bit n-1 for signal n */
	uint8_t info[128];     /* siginfo_t */
};

enum sr_run_token {
	SR_TOKEN_BEGINS = 1, /* the thread goes on in the program's code from this event on */
	/*
	 * So it does, but it was there before as well, beside other threads: it had made no
	 * call for so long that one of them was not made to wait any more.
	 */
	SR_TOKEN_LATE = 2,
	/* This event, of a record behind, began when the thread `other` was still there. */
	SR_TOKEN_TAKEN = 3,
};

struct sr_token_payload {
	uint32_t what; /* enum sr_run_token */
	uint32_t other;
	uint64_t event;
	uint64_t site;    /* of the call that comes next; 0: not known */
	uint64_t arrived; /* LATE: the event at which it came out of the program's code; or 0 */
};

enum sr_mark {
	SR_MARK_DIED = 1,    /* the process was gone without SR_REC_EXIT */
	SR_MARK_DROPPED = 2, /* --lossy: argument records did not fit in the ring */
	SR_MARK_STOPPED = 3, /* the recording ended before the thread; argument is an errno */
	SR_MARK_ENDED = 4,   /* the thread ended, or another one ended the process */
};

struct sr_mark_payload {
	uint32_t reason; /* enum sr_mark */
	uint32_t reserved;
	uint64_t argument;
	uint64_t
	    skipped_sns; /* SNs that the hole swallowed: the next call's SN is that much higher */
	char text[];     /* for people, to the end of the payload, no 0 at its end */
};

/* What a queue pair's requests carry from its connection on, and if no clocks, why. */
enum sr_carries {
	SR_CARRIES_CLOCKS = 0,
	SR_CARRIES_NO_READS = 1,   /* but no clocks come with what its READs bring */
	SR_CARRIES_TO_ONESELF = 2, /* needs none */
	/* None, because: */
	SR_CARRIES_NONE = 16,
	SR_CARRIES_FOREIGN = 16,    /* no process of the job is known to have the other end */
	SR_CARRIES_UNANSWERED = 17, /* the directory could not say who has */
	SR_CARRIES_UNNAMED = 18,    /* the directory does not know this end */
	SR_CARRIES_UNJOINED = 19,   /* of all its queue pairs: this process is not in the job */
	SR_CARRIES_NO_ROOM = 20,    /* the device has no larger queues, for the shim's requests */
	SR_CARRIES_NO_CELL = 21,    /* the other end's process has no clock cell left */
	SR_CARRIES_NO_SRQ = 22,     /* XRC: ... has no shared receive queue to be reached by */
	SR_CARRIES_NO_MEMORY = 23,  /* none for it, or none that the device registers */
};

struct sr_connection_payload {
	uint32_t number, peer; /* of queue pairs; 0: SR_CARRIES_UNJOINED, or not connected */
	int32_t peer_rank;     /* -1: not known */
	uint32_t carries;      /* enum sr_carries */
	int32_t error;         /* an errno, or 0 */
	uint32_t reserved;
};

static inline uint32_t sr_record_padded(uint32_t size)
{
	return (size + SR_RECORD_ALIGN - 1) & ~(SR_RECORD_ALIGN - 1);
}

#endif
