/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * model.h: a run as races are searched in it: moments, what comes before what, and accesses to memory.
 *
 * A moment is a point in the run of a thread or of a queue: a post, a poll, the effect of a request.  An
 * order says that one moment comes before another one, and how sure that is of other runs.  An access
 * is to a range of one rank's memory, from one moment until another one.
 *
 * Moments and orders are added while a trace is read; sweep.h then passes over them.
 */
#ifndef REPLAY_ANALYSIS_RACES_MODEL_H
#define REPLAY_ANALYSIS_RACES_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SR_NO_MOMENT UINT32_MAX
#define SR_NO_QUEUE  UINT32_MAX

/* How sure an order is.  What is surer counts wherever the less sure ones do. */
enum sr_surety {
	SR_SURE,     /* holds in every run in which the values come from where they came from */
	SR_DOUBTFUL, /* a value may have come from there */
	SR_SEEN,     /* holds in this run: a clock has seen it */
	SR_SURETIES
};

#define SR_CHOICE_BITS 28

/* There are several for each access. */
struct sr_moment_order {
	uint32_t to, next; /* next: of the orders from the same moment; SR_NO_MOMENT: none */
	uint32_t choice : SR_CHOICE_BITS; /* not 0: one of this choice */
	uint32_t surety : 2;
	uint32_t is_read : 1; /* `to` read what `from` wrote: in a race of `to` this order is left out */
	uint32_t is_bound : 1; /* `from` is the last moment that `to` may follow, in this run too */
};

struct sr_moment {
	uint32_t lane;
	uint32_t orders; /* the first of those from here; SR_NO_MOMENT: none */
	uint32_t waits, sure_waits; /* orders to here */
};

/* A lane's moments follow each other, but for those of a loose lane. */
struct sr_lane {
	uint32_t last;
	bool is_loose;
};

enum sr_access_kind {
	SR_ACCESS_WRITE,   /* of a WRITE, at its target */
	SR_ACCESS_READ,    /* of a READ, at its target */
	SR_ACCESS_ATOMIC,  /* at its target */
	SR_ACCESS_LOAD,    /* the CPU's */
	SR_ACCESS_STORE,
	SR_ACCESS_GATHER,  /* a request takes what it sends out of its own rank's memory */
	SR_ACCESS_SCATTER, /* a READ or an atomic brings what it fetched there */
	SR_ACCESS_RECV,    /* a message comes to a posted receive */
	SR_ACCESS_RELEASE, /* the memory is not registered any more */
	SR_ACCESS_CHANGE,  /* the bytes of a gather were others at its completion: what changed them may not have been seen */
	SR_ACCESS_MESSAGE, /* takes the next receive of a shared receive queue, whose number is the place */
	SR_ACCESS_KINDS
};

/* Why a race of this access may be none. */
#define SR_DOUBT_SAMPLED 1u /* it may have loaded other bytes of the page */
#define SR_DOUBT_THREADS 2u /* another thread may have stored it, at another time */
#define SR_DOUBT_OUTSIDE 4u
#define SR_DOUBT_ORDER   8u /* doubtful orders forbid it */
#define SR_DOUBT_CUT     16u
#define SR_DOUBT_SHARED  32u
#define SR_DOUBT_REPLAY  128u /* found by a replay that was not exact */
#define SR_DOUBT_SENT    64u /* what was gathered had arrived already */
#define SR_DOUBT_LOOP    256u /* orders contradicted each other, and some were dropped */
#define SR_DOUBT_BENIGN  1024u /* the program says that it does no harm */
#define SR_DOUBT_UNCLOCKED 2048u /* a process without a clock may order them */
#define SR_DOUBT_END 4096u /* of a race only: the end of a child that no wait tells of may order them */
#define SR_DOUBT_LOCKSET 512u /* something orders them, but neither a lock nor a barrier does */

/* Agents (struct sr_access) of these kinds; a queue pair's number is its own agent. */
#define SR_AGENT_CPU     0x80000000u /* and the rank */
#define SR_AGENT_RECEIVE 0x40000000u /* and the queue pair */
#define SR_AGENT_SHARED  0x20000000u /* and the shared receive queue */

enum sr_site_kind {
	SR_SITE_CALL,        /* where the call returns to whose SN it has */
	SR_SITE_INSTRUCTION, /* what accessed the memory */
	SR_SITE_CALLER,      /* where a function of the C library returns to that did */
};

/* There may be hundreds of millions. */
struct sr_access {
	uint64_t begin, end; /* addresses */
	uint64_t sn; /* of the call; of an instruction's access: of the call before it */
	union {
		uint64_t checksum; /* of what it writes or sends */
		uint64_t fetched;  /* of a READ or an atomic, with has_fetched: the first bytes that it found */
	};
	uint64_t site; /* 0: not known */
	uint64_t pc;   /* of a CPU's access: its instruction; 0: not known */
	uint32_t request;     /* 0: of no request; one request has several accesses */
	uint32_t owner, rank; /* whose memory; who accesses it */
	uint32_t thread, fault;
	uint32_t agent;                /* accesses of one agent and kind come, and end, in their order */
	uint32_t queue, place, fences; /* place: in its queue; fences: of its queue up to here */
	/*
	 * It happens at or after `from`, and has happened at `until`.  At `over` the program knows that the
	 * request has ended.  SR_NO_MOMENT: never.
	 */
	uint32_t from, until, over;
	uint32_t post; /* of a request */
	uint32_t gathered; /* of SR_ACCESS_GATHER: the request's effect; else SR_NO_MOMENT */
	/*
	 * By this key the device accesses the memory; 0: it does not.  The end of a registration (SR_ACCESS_RELEASE) is a
	 * race with what is under way by its key, unless the connection by which that comes has ended before, at `closed`.
	 */
	uint32_t key, closed;
	uint32_t sender; /* of SR_ACCESS_RECV: the queue pair that sent the message, if it keeps their order; else SR_NO_QUEUE */
	uint32_t held; /* locks that its rank has meanwhile: sr_model_hold(); 0: none */
	uint32_t doubts : 12; /* SR_DOUBT_* */
	uint32_t opcode : 8;
	uint32_t kind : 4;    /* enum sr_access_kind */
	uint32_t site_is : 2; /* enum sr_site_kind */
	uint32_t is_nearby : 1; /* of a store: `pc` has stored to the page, perhaps not to these bytes */
	uint32_t is_relaxed : 1; /* into memory of IBV_ACCESS_RELAXED_ORDERING */
	uint32_t is_asked_again : 1; /* of a READ: the next one of its queue pair reads the same bytes, once this one is over */
	uint32_t is_news : 1;        /* of a READ: its rank has not found the same there before */
	uint32_t has_fetched : 1;
	uint32_t is_polled : 1; /* it waits for the bytes to change: a READ of what READs poll, a load that is done again and again */
};

struct sr_race_model {
	struct sr_moment *moments;
	size_t moments_n, moments_room;
	struct sr_moment_order *orders;
	size_t orders_n, orders_room;
	uint32_t *choices; /* by number, less 1: how many orders it has */
	size_t choices_n, choices_room;
	struct sr_lane *lanes;
	size_t lanes_n, lanes_room;
	struct sr_access *accesses; /* ascending by `from` once sr_model_sort() was called */
	size_t accesses_n, accesses_room;
	uint64_t of_kind[SR_ACCESS_KINDS]; /* how many accesses: passes over all are slow */
	uint32_t *held; /* lists of locks, each with its length in front; at 0 is the empty one */
	size_t held_n, held_room, held_last;
	bool is_full; /* an addition failed: no memory, or too many moments */
};

void sr_model_free(struct sr_race_model *m);

/* Numbers; SR_NO_MOMENT, and is_full, if there is no memory. */
uint32_t sr_model_lane(struct sr_race_model *m, bool is_loose);
uint32_t sr_model_moment(struct sr_race_model *m, uint32_t lane);

/* Nothing happens if one of them is SR_NO_MOMENT or both are the same. */
void sr_model_order(struct sr_race_model *m, uint32_t from, uint32_t to, enum sr_surety surety, bool is_read);
/* ... of which it is only known that `to` follows something until `from`. */
void sr_model_bound(struct sr_race_model *m, uint32_t from, uint32_t to, enum sr_surety surety, bool is_read);
/* Takes out the orders by what was read, from a moment to another one, of which is_cut() says so. */
void sr_model_cut_reads(struct sr_race_model *m, bool (*is_cut)(const void *argument, uint32_t from, uint32_t to),
			const void *argument);
/*
 * A moment read a value that one of several moments left: each of them may come before it, and what comes before all
 * of them surely does.  The number of a choice; then its orders, all to one moment.
 */
uint32_t sr_model_choice(struct sr_race_model *m);
void sr_model_choose(struct sr_race_model *m, uint32_t choice, uint32_t from, uint32_t to);

/* NULL: no memory. */
struct sr_access *sr_model_access(struct sr_race_model *m, struct sr_access a);
void sr_model_sort(struct sr_race_model *m);

/* Another list of locks: its place is m->held_last.  0 or -ENOMEM. */
int sr_model_hold(struct sr_race_model *m, const uint32_t *locks, size_t n);
/* Do these two, of different ranks, hold the same lock? */
bool sr_model_excludes(const struct sr_race_model *m, const struct sr_access *a, const struct sr_access *b);

#endif
