/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clocks.h: the clocks of nicclock/ on real queue pairs.
 *
 * Every process of a job that runs under the shim has a clock region, in the
 * group or not, and adds its connected queue pairs to the directory
 * (logd/nodes/directory.h).  A member of the group besides posts requests of the shim's own:
 *
 *   CLOCK   a WRITE of 8 bytes in front of the first request of a post that
 *           changes memory of the peer's or sends to it, inline
 *   READER  a READ of the peer's cells behind a READ or an atomic, which
 *           completes in its place
 *
 * Neither is seen by the program: queues are made larger than it asked for and
 * refuse what would not have fitted, completions of the shim's are filtered
 * out, an error of a CLOCK becomes that of the request behind it.
 *
 * This module owns the region, its registrations and what it knows of each
 * queue pair; post_send.c and builders.c post, completions.c completes.  Any thread.
 */
#ifndef SHIM_VERBS_CLOCKS_CLOCKS_H
#define SHIM_VERBS_CLOCKS_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "logd/base/compiler.h"
#include "logd/ring/protocol.h"
#include "nicclock/clock.h"
#include "shim/core/settings.h"

/* At most so many requests for one of the program's: CLOCK, it, READER. */
#define SR_CLOCK_REQUESTS   3
#define SR_CLOCK_WORD_BYTES 8

struct sr_clock_slot;
struct sr_clock_srq;

/* A queue pair's, from its creation to its end. */
struct sr_clock_qp {
	struct ibv_qp *qp;
	struct ibv_pd *pd;
	struct sr_queue_pair names; /* as the directory has it */
	int unnamed;                /* -errno: it has it not; 0 */
	struct sr_find find;        /* the other end */
	bool unanswered;            /* the directory could not be asked about it */

	/* What the program asked for and has to see. */
	bool has_room; /* made with room for the shim's requests */
	bool sig_all;
	uint32_t limit; /* of requests at a time */
	uint32_t max_inline;
	uint32_t granted_inline; /* by the provider, which refuses more */
	struct ibv_qp_attr
	    asked; /* of what the shim asks for besides, and which of it (IBV_QP_*) */
	int asked_mask;

	uint32_t device_reads; /* READs and atomics that it may have under way */
	uint32_t peer_reads;   /* that the peer's device takes; 0: none of the job's */

	/* Once it is connected to a process of the job. */
	bool to_oneself; /* which needs no CLOCK, but events: others read what is written there */
	bool carries;    /* CLOCKs go out before */
	bool reads;      /* READERs behind */
	uint32_t rkey;
	uint32_t shared_queue; /* XRC: requests of the shim's name this one */
	/* Addresses of the words of the peer's cell for this queue pair, and the one that is
	 * written next. */
	uint64_t cell[SR_CLOCK_CELL_WORDS];
	uint32_t ticket;
	uint64_t cells; /* address to read from */
	uint32_t cells_count;
	unsigned int fence; /* IBV_SEND_FENCE where the device may reorder READs */
	struct sr_clock_view *view;
	struct sr_clock_slot *slot; /* where READs bring the peer's cells */
	struct ibv_sge read_sge;
	struct ibv_sge word_sge;
	uint64_t word;
};

/* Before main, or when the first device is opened.  member: in the group, and recorded. */
void sr_clocks_start(const struct sr_settings *settings, bool member);
void sr_clocks_forget_in_child(void);

/* Its descriptors, -1 where there is none. */
void sr_clocks_own_fds(int fds[2]);

/* Are there clocks in this process, and is it a member? */
bool sr_clocks_on(void);
extern bool sr_clocks_member SR_HIDDEN;

static inline bool sr_clocks_is_member(void)
{
	return sr_clocks_member;
}

/* ---- life of a queue pair ---- */

/* May requests of such a queue pair carry clocks? */
bool sr_clocks_go_over(enum ibv_qp_type type);

/* NULL where clocks cannot be (its type, no memory).  xrcd: of a target of XRC, which has no pd. */
struct sr_clock_qp *sr_clocks_add_qp(struct ibv_qp *qp, struct ibv_pd *pd,
				     const struct ibv_xrcd *xrcd);
/* Adds it to the directory: called before the program has it. */
void sr_clocks_name_qp(struct sr_clock_qp *c);
void sr_clocks_remove_qp(struct sr_clock_qp *c);

/*
 * A shared receive queue of XRC: it says by which protection domain this process's region is
 * reached.  Added to the directory before the program has it.
 */
void sr_clocks_add_srq(struct ibv_srq *srq, struct ibv_pd *pd, const struct ibv_xrcd *xrcd);
/* Before it goes; and if it does not go, or has gone. */
struct sr_clock_srq *sr_clocks_take_srq(struct ibv_srq *srq);
void sr_clocks_put_back_srq(struct ibv_srq *srq, struct sr_clock_srq *s);
void sr_clocks_remove_srq(struct sr_clock_srq *s);

/* Before the transition to RTR: whose is the other end? */
void sr_clocks_connect(struct sr_clock_qp *c, const struct ibv_qp_attr *attr);
/* Before that to RTS: if the directory did not answer then. */
void sr_clocks_connect_again(struct sr_clock_qp *c);
/*
 * A READER behind each READ or atomic: twice as many are under way, or the READER
 * would wait for the other's answer.  How many to ask for instead of so many.
 */
uint8_t sr_clocks_initiated(const struct sr_clock_qp *c, uint8_t asked);
uint8_t sr_clocks_answered(const struct sr_clock_qp *c, uint8_t asked);
/* A reset. */
void sr_clocks_disconnect(struct sr_clock_qp *c);

/* The protection domain may go away. */
void sr_clocks_drop_pd(struct ibv_pd *pd);

/* ---- the data path ---- */

/* A new event of this queue pair, its lock on posts held: the word for the peer's cell. */
void sr_clocks_tick(struct sr_clock_qp *c);

/* A READER of this queue pair has completed; calls for one queue pair are serialised. */
void sr_clocks_read(struct sr_clock_qp *c);

/*
 * Any thread may call the two below at any time, inside of a SIGSEGV handler and
 * under locks of the caller's as well.  They take no lock that they wait for,
 * make no libc call, and allocate nothing but a new thread's ring.  In a process
 * without clocks they return at once; with nothing new, sr_clocks_sample() reads
 * one word for each queue pair that leads here.
 *
 * What they write goes into the calling thread's stream, before they return:
 * what an order is to precede is written behind it.
 */

/*
 * The program is about to be shown memory that others write: their clocks are
 * sampled, and what is new is noted.  Call it *behind* the copy that the program
 * will see, since a clock lies there before its data, and *in front of* the record
 * of the values.  So: at the end of each poll, and when the exposed region module hands
 * over what a fault, a call or a tick found changed.
 */
void sr_clocks_sample_peers(void);

static inline void sr_clocks_sample(void)
{
	if (sr_clocks_member)
		sr_clocks_sample_peers();
}

/*
 * A new event for a store of the program's.  Call it *in front of* the store, so
 * that a process that sees the bytes sees at least this number.  For each store that is
 * handled alone, and when a page goes live: the stores there belong to that event.
 * Stores that need none belong to the event before, and who reads them by RDMA is
 * ordered behind that one only.
 */
void sr_clocks_store(void);

#endif
