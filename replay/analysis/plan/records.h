/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * records.h: what `sreplay process` finds out about a trace, for a group of its ranks.
 *
 * A plan is made from the traces of all recorded ranks and read by the replay,
 * by `sreplay explain` and by `sreplay graph`.  docs/format/plan-format.md has the
 * directory; the structs here are the layouts.  One writer (process), many
 * readers, none of them inside of a recorded process.
 *
 * Nothing in a plan decides what a replayed program sees: that is in the trace.
 * A plan says when, and where from.
 *
 *     DIR.srec/plan/
 *       plan.json                  group, identity of the trace, counts, what is ambiguous
 *       rank-N/thread-T.KIND       records of one kind for one thread, ascending by `sn`
 *       rank-N/found               after a replay: who produced what (below)
 *
 * A file that would have no records is not there.
 *
 * Positions.  A call is (rank, thread, SN).  Of a call that came again
 * (SR_REC_REPEAT) the first SN stands for all.  In a call with several requests
 * (a chain of post_send, a batch of ibv_wr_*: its SN is that of wr_complete) or
 * several completions (poll_cq) they are numbered from 0, in their order.
 */
#ifndef REPLAY_ANALYSIS_PLAN_RECORDS_H
#define REPLAY_ANALYSIS_PLAN_RECORDS_H

#include <stdint.h>

#include "replay/abi/group.h"

/* Raised with every change; a plan of another version is made anew. */
#define SR_PLAN_VERSION 4

/* A rank that the trace does not tell: see SR_PLAN_AMBIGUOUS. */
#define SR_PLAN_UNKNOWN (-2)

enum sr_plan_kind {
	SR_PLAN_WAIT,    /* struct sr_plan_wait    .wait */
	SR_PLAN_WAKE,    /* struct sr_plan_wake    .wake */
	SR_PLAN_CHECK,   /* struct sr_plan_check   .check */
	SR_PLAN_REQUEST, /* struct sr_plan_request .request */
	SR_PLAN_PEER,    /* struct sr_plan_peer    .peer */
	SR_PLAN_PLACE,   /* struct sr_plan_place   .index */
	SR_PLAN_PICK,    /* struct sr_plan_pick    .pick */
	SR_PLAN_FOUND,   /* struct sr_found_value, of all threads: rank-N/found */
	SR_PLAN_KINDS,
};

/* Flags of all kinds, so that a number means one thing. */
enum sr_plan_flags {
	SR_PLAN_BY_CELL = 1,      /* order found in a clock cell: a post of that rank's */
	SR_PLAN_BY_OWN = 2,       /* order found in its own number: its CPU had come so far */
	SR_PLAN_BY_MESSAGE = 4,   /* a SEND, or a WRITE with immediate, and its receive */
	SR_PLAN_INDIRECT = 8,     /* through ranks that are not in the group */
	SR_PLAN_EXACT = 16,       /* of a check: this request is what that completion brought */
	SR_PLAN_AMBIGUOUS = 32,   /* several explanations fit the trace; this is the likeliest */
	SR_PLAN_WEAKENED = 64,    /* an older position than the one found: see docs/format/plan-format.md */
	SR_PLAN_UNFINISHED = 128, /* of a request: the trace ends before it completes */
};

/*
 * The call `sn` of this thread may return once rank for_rank has entered its call (for_thread,
 * for_sn), or has come to a stop behind it.  A return waits for an entry, as in the recording, so
 * waits never form a cycle.  Waits that others imply are left out.
 */
struct sr_plan_wait {
	uint64_t sn;
	uint64_t for_sn;
	int32_t for_rank;
	uint32_t for_thread;
	uint16_t flags; /* BY_*, INDIRECT, AMBIGUOUS, WEAKENED */
	uint16_t for_stop; /* not 0: for this stop of the thread behind that call (sr_group_stop) */
	uint32_t fault; /* not 0: this fault of the thread after the call waits */
};

/* The same from the other side: the wait for this thread's entry of call `sn`, or its stop behind it. */
struct sr_plan_wake {
	uint64_t sn;
	uint64_t their_sn; /* whose return waits */
	int32_t their_rank;
	uint32_t their_thread;
	uint16_t flags;
	uint16_t stop;
	uint32_t their_fault; /* not 0: this fault after call their_sn waits */
};

/*
 * Algorithm 3 of SReplay.  After call `sn` of this thread, its rank compares what it wrote
 * (WRITEs, SENDs, atomics, and its own memory, if the value was READ from there) with the values
 * that entered (their_rank, their_thread) up to and including call their_sn, since the previous
 * check with that thread.
 *
 * With EXACT the source is known: `request` of call `sn` is what completion `completion` of call
 * their_sn brought.
 */
struct sr_plan_check {
	uint64_t sn;
	uint64_t their_sn;
	int32_t their_rank;
	uint32_t their_thread;
	uint16_t request;    /* EXACT only */
	uint16_t completion; /* EXACT only */
	uint32_t flags;
	uint32_t their_fault; /* not 0: up to and including this fault after call their_sn */
	uint32_t reserved;
};

/*
 * A request that fetches (READ, atomics): the completion at which its bytes had arrived.  A replay
 * that repeats it does so once the waits of that call hold.  Requests to the outside are included.
 */
struct sr_plan_request {
	uint64_t sn; /* of the post */
	uint64_t completed_sn;
	uint32_t completed_thread;
	uint16_t request; /* which of the post's */
	uint16_t
	    completion; /* which of the poll's proved it: its own, or a later one of the queue */
	int32_t peer;   /* rank, SR_RANK_OUTSIDE, SR_PLAN_UNKNOWN */
	uint32_t flags; /* UNFINISHED: completed_* are 0 */
};

/* From call `sn` on (the transition to RTR, or librdmacm's connection) this is the other end. */
struct sr_plan_peer {
	uint64_t sn;
	uint64_t qp; /* address of the struct ibv_qp in this rank */
	uint32_t qp_num;
	uint32_t peer_qp_num;
	uint64_t peer_qp; /* address in the peer; 0 outside */
	int32_t peer;     /* rank, SR_RANK_OUTSIDE, SR_PLAN_UNKNOWN */
	uint32_t flags;   /* AMBIGUOUS */
};

/* The frame at `offset` of the stream begins with a record, and with this SN at the earliest. */
struct sr_plan_place {
	uint64_t sn;
	uint64_t offset;
	uint64_t ring_position;
};

/* The completions of this poll do not say whose they are: this send (0) or receive queue's (1). */
struct sr_plan_pick {
	uint64_t sn;
	uint32_t qp_num; /* SR_PICK_LEFT_OUT: that, or what came, cannot be told, because a rank's trace ends early */
	uint32_t receives; /* ... and then that rank */
};

/* Precedes the records of each file. */
#define SR_PLAN_MAGIC "srplan01"

struct sr_plan_header {
	char magic[8];
	uint32_t version; /* SR_PLAN_VERSION */
	uint32_t kind;    /* enum sr_plan_kind */
	int32_t rank;
	uint32_t thread;          /* 0 in found */
	uint64_t identity;        /* of the trace; see sr_plan_identity */
	uint64_t count;           /* of records */
	uint64_t checksum;        /* XXH3 of the records */
	uint64_t group;           /* XXH3 of the group's ranks, int32_t each */
	uint64_t header_checksum; /* XXH3 of all in front of it */
};

_Static_assert(sizeof(struct sr_plan_wait) == 32 && sizeof(struct sr_plan_wake) == 32 &&
		   sizeof(struct sr_plan_check) == 40 && sizeof(struct sr_plan_request) == 32 &&
		   sizeof(struct sr_plan_peer) == 40 && sizeof(struct sr_plan_place) == 24 && sizeof(struct sr_plan_pick) == 16 &&
		   sizeof(struct sr_plan_header) == 64,
	       "on disk");

#endif
