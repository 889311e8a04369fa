/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control.h: the memory that `sreplay replay` and one replayed process share.
 *
 * The command fills in the first half before it starts the process.  The process finds the
 * memory at a fixed descriptor number: its environment must be the recorded one, byte for
 * byte, so it cannot carry the number.  Records reach the process through one ring per
 * thread; the command produces into it.
 */
#ifndef REPLAY_ABI_CONTROL_H
#define REPLAY_ABI_CONTROL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sreplay/trace.h>

#include "logd/base/processor.h"

#define SR_REPLAY_MAGIC         0x31796c7065725f73ull
/* The memfd of this page has the number sr_fd_floor() (logd/base/highfd.h) in the new process. */
#define SR_REPLAY_THREADS       16384 /* streams of one process */
#define SR_REPLAY_FORKS         16   /* a child's parents */
#define SR_REPLAY_BYTES         4096 /* of arguments shown in a divergence, each side */

/* Exit statuses of `sreplay replay` that are not the program's. */
#define SR_REPLAY_EXIT_CUT      123 /* the trace ended before the program */
#define SR_REPLAY_EXIT_DIVERGED 124 /* the program did not do what was recorded */
#define SR_REPLAY_EXIT_FAILED   125 /* the replay could not be made */

/* The command sends this after the last record of a stream that has no SR_REC_EXIT: a u32,
 * enum sr_replay_outcome. */
#define SR_REC_REPLAY_END       32
/* In a group, in front of a call's record: struct sr_group_wait, struct sr_group_peer. */
#define SR_REC_REPLAY_WAIT      33
#define SR_REC_REPLAY_PEER      34
/* In place of calls whose records come again in turn: struct sr_replay_turns. */
#define SR_REC_REPLAY_TURNS     35
/* In front of a poll's record whose completions do not say whose they are: struct sr_replay_pick. */
#define SR_REC_REPLAY_PICK      36

/*
 * The completions of the poll with this SN are of this queue pair's receive (1) or send queue (0).  qp_num SR_PICK_LEFT_OUT:
 * nobody knows that, or what came, because the trace of the rank `receives` ends early.
 */
struct sr_replay_pick {
	uint64_t sn;
	uint32_t qp_num, receives;
};

/* The first of `calls` calls has the record call[0], the next one call[1]; behind call[period - 1] comes call[0] again. */
struct sr_replay_turns {
	uint32_t calls, period;
	struct sr_replay_turn {
		uint16_t kind, size;
		_Alignas(8) unsigned char payload[SR_KEPT_BYTES];
	} call[SR_CYCLE_PERIOD];
};

enum sr_replay_outcome {
	SR_REPLAY_RUNNING,
	SR_REPLAY_EXACT,       /* the program ended as recorded */
	SR_REPLAY_DIED,        /* reached the call at which the recorded program was killed */
	SR_REPLAY_CUT,         /* reached the end of an incomplete trace */
	SR_REPLAY_DIVERGED,    /* another call, or other arguments, than recorded */
	SR_REPLAY_EARLY_EXIT,  /* ended with recorded calls left, or with another status */
	SR_REPLAY_LATE_CALL,   /* a call where the recording ends with an exit */
	SR_REPLAY_UNSUPPORTED, /* a call that is recorded by name only */
	SR_REPLAY_BAD_RECORD,  /* a record that does not fit its call */
	SR_REPLAY_THREAD_CUT,  /* of a stream: another thread ended the process */
	SR_REPLAY_PEER_EXITED,    /* waits for a call of another rank, which ended before making it */
	SR_REPLAY_MISSED_LOAD, /* did not load memory that peers wrote, where the recording has a load */
	SR_REPLAY_WAITS, /* waits for memory to change where the recording has a call */
	SR_REPLAY_NO_EXPOSED,   /* an exposed region cannot be watched here as it was in the recording */
	SR_REPLAY_EXECUTED, /* the program executed another one, as recorded */
	SR_REPLAY_NOT_TRANSFERRED, /* the device did not carry out a repeated request */
	SR_REPLAY_NOT_PRODUCED, /* no rank of the replay sent a message that the trace leaves out */
	SR_REPLAY_OTHER_PRODUCED, /* ... or it sent another one */
	SR_REPLAY_CAUSES_END, /* ... or its trace ends before it sent that one */
	SR_REPLAY_OTHER_SENT, /* the sum of what it sends is not the recorded one */
	SR_REPLAY_OTHER_RECEIVED, /* ... of what it received */
};

/* What a descriptor was when the process started; 0: closed. */
#define SR_INHERITED_FDS      512 /* of lower numbers only */
#define SR_INHERITED_CAPTURED 1
#define SR_INHERITED_COPY     2 /* and more: a copy of 0, 1 or 2 */

/* One thread of the replayed process, written by itself. */
struct sr_replay_thread {
	_Atomic uint64_t calls; /* the SN of the last one that was replayed; 0: none */
	_Atomic int32_t tid;    /* 0: it has made no call yet */
	_Atomic bool over;
	_Atomic uint64_t waits_for; /* the event whose ticket it waits for; 0: none */
	/* The call of another member that it waits for; sn 0: none. */
	_Atomic uint64_t waits_for_sn;
	_Atomic int32_t waits_for_rank;
	_Atomic uint32_t waits_for_thread;
	/* Set by the command or a debugger: before this call the thread raises SIGTRAP. */
	_Atomic uint64_t stop_at;
	/* Places between two calls where it was stopped (shim/replay/places.c): how many it has come to, ... */
	_Atomic uint64_t places;
	/* ... and how often it was seen on its way to the next one, with other registers than before. */
	_Atomic uint64_t seen_on_way;
	/* Grows while it makes accesses to exposed memory that the recorded thread is known to have made before its next call, too. */
	_Atomic uint64_t accesses_seen;
};

#define SR_OUTPUT_KEPT  64  /* so many bytes of each output are in its record */
#define SR_OUTPUT_BLOCK 256 /* there is a checksum for each so many bytes, if these are not all */

/* The first block in which what a call writes is not what was recorded. */
struct sr_replay_output {
	bool differs;
	uint64_t length, recorded_length; /* of all that the call writes */
	uint64_t at;                      /* where the block begins */
	uint32_t shown, recorded_shown;   /* bytes of the block; recorded: those that were kept */
	uint8_t bytes[SR_OUTPUT_BLOCK], recorded[SR_OUTPUT_KEPT];
};

/* What was not compared. */
#define SR_UNCOMPARED_MAPPED 1u /* stored into a mapped file */
#define SR_UNCOMPARED_HIGH   2u /* written to a descriptor that is not an ordinary one (shim/files/fds.h) */
#define SR_UNCOMPARED_MOVED  4u /* moved by the kernel from a pipe or socket */
#define SR_UNCOMPARED_THREAD 8u /* done by a thread that is neither recorded nor replayed */
#define SR_UNCOMPARED_CALL   16u /* done by a system call that sreplay knows nothing of */
#define SR_UNCOMPARED_SHARED 32u /* stored into a file that is memory which processes share */
#define SR_UNCOMPARED_KILLED 64u /* stored into a mapped file, and compared unless the process is killed before */

struct sr_replay_report {
	uint32_t thread;
	int32_t sender; /* rank whose trace ends: SR_REPLAY_CAUSES_END; or that sent it: SR_REPLAY_OTHER_PRODUCED (-1: several) */
	uint64_t sn;
	uint64_t since; /* the first call of a sum: SR_REPLAY_OTHER_SENT */
	uint16_t expected, found; /* record kinds; 0: the end of the process */
	int32_t expected_status, found_status;
	uint64_t expected_site, found_site;
	uint64_t expected_address, found_address; /* of a load from an exposed region; 0: a call */
	uint32_t expected_size,
	    found_size; /* of the encoded arguments; shown up to SR_REPLAY_BYTES */
	uint64_t contended, contended_bytes; /* memory around it that several ranks write to; or 0: SR_REPLAY_OTHER_PRODUCED */
	uint8_t expected_in[SR_REPLAY_BYTES];
	uint8_t found_in[SR_REPLAY_BYTES];
	struct sr_replay_output output;
};

/* The first recorded value that a member should have sent, but sent differently in the replay. */
struct sr_replay_mismatch {
	uint32_t thread;
	uint64_t sn;
	uint64_t addr;
	uint32_t length; /* of what was received */
	uint32_t at;     /* the first byte that differs */
	int32_t from;    /* rank */
	uint32_t from_thread;
	uint64_t from_sn;
	uint8_t recorded[16], produced[16]; /* from that byte on */
};

/* The call that posted a request, for a report about it. */
struct sr_group_call {
	uint64_t sn;
	uint64_t expected_site, found_site;
	uint32_t thread;
	uint16_t kind; /* of its record */
	uint16_t reserved;
};

/* Fills in a report about a call that recording and replay agree on. */
static inline void sr_report_call(struct sr_replay_report *r, const struct sr_group_call *call)
{
	r->thread = call->thread;
	r->sn = call->sn;
	r->expected = r->found = call->kind;
	r->expected_site = call->expected_site;
	r->found_site = call->found_site;
}

/* A fork at which the process goes on as its child. */
struct sr_replay_fork {
	uint32_t number; /* of the child; 0: there are no more */
	uint32_t thread; /* that forks */
	uint64_t sn;
	int32_t pid; /* the child's, recorded */
};

struct sr_replay_control {
	uint64_t magic;
	uint32_t version; /* SR_TRACE_VERSION */
	uint32_t threads; /* their numbers are below it */
	uint32_t thread_at, thread_bytes; /* for debuggers: where thread[] is, and its stride */
	_Atomic uint32_t awaits_debugger; /* waits (futex) until one, which has attached, clears it */
	int32_t rings_fd;   /* the memfd with a ring for each recorded thread (logd/ring) */
	uint32_t ring_bytes; /* of a ring's data */
	uint32_t ring_of[SR_REPLAY_THREADS]; /* by thread number: its ring's place there, from 1; 0: it was not recorded */
	int32_t group_fd;                     /* of the group's memory (group.h); -1: none */
	uint32_t member;                      /* this process's number in the group */
	bool stdout_line_buffered;
	bool trap;     /* see shim/calls/trap/trap.h */
	bool tsc;     /* shim/kernel/tsc.h */
	int32_t descriptors_below; /* the program's: see shim/files/fds.h */
	bool probes; /* instructions may be replaced by jumps: shim/exposed/probe */
	bool huge_pages; /* programs got some where it was recorded: shim/memory/huge_pages.h */
	bool serial;  /* one thread runs at a time: shim/core/run_token.h */
	bool sums; /* checksums are not in the records: shim/core/sums.h */
	bool whole_job; /* the group has all recorded ranks */
	int32_t pid; /* recorded */
	uint64_t sns_before; /* the threads' SNs go on after this one: a later image's */
	uint8_t inherited[SR_INHERITED_FDS]; /* by number: SR_INHERITED_*; recorded */
	uint64_t main_stack; /* see shim/threads/main_stack.h */
	struct sr_processor processor; /* recorded */
	_Atomic bool traced; /* the tracer that has laid out the memory waits for SIGSTOP: replay/host/layout */
	_Atomic bool cpuid_traced; /* cpuid traps already: see shim/kernel/cpuid_trap.h */
	/* Of the private files, and of the journal about their names; -1: none (shim/files). */
	int32_t files_fd, journal_fd;
	int32_t watch_fd; /* of `sreplay races` (watch.h); -1: none */
	int32_t stacks_fd; /* the same (stacks.h) */
	int32_t produced_fd; /* of --record-ranks (produced.h); -1: none */

	struct sr_replay_fork fork[SR_REPLAY_FORKS + 1]; /* from the first parent on */

	/* Written by the process. */
	struct sr_replay_thread thread[SR_REPLAY_THREADS];
	_Atomic uint32_t forks;         /* so many of these it has made */
	_Atomic int32_t continued_as;   /* the child that goes on when it ends; 0: none */
	_Atomic int32_t process;    /* its id */
	_Atomic uint32_t children;  /* that it started in the recording, and did not start now */
	_Atomic bool cpuid_emulated;    /* the program's cpuid answers are the recorded processor's */
	_Atomic uint64_t ticket;      /* the event that may happen now: see tickets.h */
	/* With `serial`: how often a thread lost the run token so far, and the last call of this. */
	/* Places between two calls that a thread did not come to (shim/replay/places.c), and the last one. */
	_Atomic uint64_t missed;
	_Atomic uint32_t missed_thread;
	_Atomic uint64_t missed_sn, missed_site;
	/* Handlers that ran in the program's code, at a place that is not recorded. */
	_Atomic uint64_t handlers_between;
	_Atomic uint64_t late;
	_Atomic uint32_t late_thread;
	_Atomic uint64_t late_sn;
	_Atomic uint32_t uncompared; /* SR_UNCOMPARED_* */
	_Atomic uint32_t reporting; /* id of the thread that writes the report; 0: none yet */
	_Atomic uint32_t outcome;   /* enum sr_replay_outcome; set when the report is complete */
	struct sr_replay_report report;

	_Atomic int32_t produced_error; /* an errno: not all could be written to produced_fd */

	/* Of a group. */
	_Atomic uint64_t mismatches;
	struct sr_replay_mismatch mismatch;
	char not_transferred[160]; /* which request, and why */

	/* Bytes of the streams, and as far as they are sent: for the command's progress. */
	_Atomic uint64_t trace_size, trace_read;
	_Atomic uint32_t nothing_comes; /* no thread of the process can make another call that is in its trace */

	/* enum sr_verdict_kind: from the command's process for this rank to the one for the group. */
	_Atomic uint32_t verdict;
};

/* Calls replayed so far by all threads. */
static inline uint64_t sr_replay_calls(const struct sr_replay_control *c)
{
	uint64_t calls = 0;

	for (uint32_t i = 0; i < c->threads; i++) { /* the others' pages stay untouched */
		uint64_t sn = atomic_load_explicit(&c->thread[i].calls, memory_order_relaxed);

		calls += sn > c->sns_before ? sn - c->sns_before : 0;
	}
	return calls;
}

#endif
