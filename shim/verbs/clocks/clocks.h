/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clocks.h: the clocks of nicclock/ on real queue pairs.
 *
 * Every process of a job that runs under the shim has a clock region, whether or not it is in
 * the group, and adds its connected queue pairs to the directory (logd/nodes/directory.h).  A
 * member of the group also posts requests of the shim's own:
 *
 *   CLOCK   an inline WRITE of 16 bytes, in front of the first request of a post that
 *           changes the peer's memory or sends to the peer
 *   READER  a READ of the peer's cells, behind a READ or an atomic; the completion of
 *           the READER stands for both
 *
 * The program sees neither.  The shim makes queues larger than the program asked for, and
 * refuses the posts that the smaller queue would have refused.  It removes its own completions
 * from polls, and reports an error of a CLOCK as an error of the request behind it.
 *
 * This module owns the region, its registrations and the state of the clocks of each queue
 * pair.  post_send.c and builders.c post the requests, completions.c handles their
 * completions.  Any thread may call these functions.
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

/* One request of the program becomes at most three: a CLOCK, the request, a READER. */
#define SR_CLOCK_REQUESTS   3
#define SR_CLOCK_WORD_BYTES 16

struct sr_clock_slot;
struct sr_clock_srq;

/* The clocks of one queue pair, from its creation to its destruction. */
struct sr_clock_qp {
	struct ibv_qp *qp;
	struct ibv_pd *pd;
	struct sr_queue_pair names; /* its entry in the directory */
	int unnamed;                /* -errno if the directory did not take the entry, else 0 */
	struct sr_find find;        /* the other end */
	bool unanswered;            /* the directory did not answer the search for it */

	/* The limits that the program asked for; it must see these and not the larger ones. */
	bool has_room; /* the queue has room for the shim's requests */
	bool sig_all;
	uint32_t limit; /* outstanding requests */
	uint32_t max_inline;
	uint32_t granted_inline; /* what the provider granted; it refuses more */
	/* The program's values of the attributes that the shim raised; asked_mask (IBV_QP_*)
	 * says which. */
	struct ibv_qp_attr asked;
	int asked_mask;

	uint32_t device_reads; /* outstanding READs and atomics that this device can have */
	uint32_t peer_reads;   /* that the peer's device accepts; 0: the peer is not in the job */

	/* Valid once it is connected to a process of the job. */
	bool to_oneself; /* needs no CLOCKs, but events: others read what it writes */
	bool carries;    /* posts CLOCKs */
	bool reads;      /* posts READERs */
	uint32_t rkey;
	uint32_t shared_queue; /* XRC: the SRQ that the shim's requests name */
	/* Addresses of the words of this queue pair's cell at the peer, and which of them the next
	 * CLOCK writes. */
	uint64_t cell[SR_CLOCK_CELL_WORDS];
	uint32_t ticket;
	uint64_t cells; /* the address at the peer that READERs read from */
	uint32_t cells_count;
	unsigned int fence; /* IBV_SEND_FENCE where the device may reorder READs */
	struct sr_clock_view *view;
	struct sr_clock_slot *slot; /* READERs put the peer's cells here */
	struct ibv_sge read_sge;
	struct ibv_sge word_sge;
	struct sr_clock_copy word;

	int member;        /* at the other end, perhaps this process itself */
	uint32_t own_cell; /* the queue pair's own, in the region of this process */
	/* Messages of the connection: posted, perhaps some more, and with sr_picks_on completed. */
	uint64_t messages, received;
};

/*
 * Called before main, or when the first device is opened.  member: this process is in the group
 * and is recorded.
 */
void sr_clocks_start(const struct sr_settings *settings, bool member);
/* A forked child has none of its parent's; it gets its own if its job has a number left for it. */
void sr_clocks_forget_in_child(void);
void sr_clocks_start_in_child(const struct sr_settings *settings);
/* The number of its clock; -1: it has none. */
int sr_clocks_number(void);

/* The file descriptors that this module has open; -1 for none. */
void sr_clocks_own_fds(int fds[2]);

/* Does this process have clocks?  Is it a member with clocks? */
bool sr_clocks_on(void);
extern bool sr_clocks_member SR_HIDDEN;

static inline bool sr_clocks_is_member(void)
{
	return sr_clocks_member;
}

/*
 * Do all connections so far, of which there is one, lead to members over RC, or to this process itself?  Then nobody
 * else has written to its memory by requests, and all of these writes were carried out in the order of their posts.
 */
bool sr_clocks_only_members(void);

/*
 * Says to peers that they may READ memory here which changes without this process seeing it, or which ranks change that are
 * not recorded: for ever, or as long as a page is passed through.  A READ brings that with its clocks.
 */
void sr_clocks_unwatched(void);
void sr_clocks_passes(bool passes);
/* The member at the other end; 0 if there is none. */
static inline int sr_clocks_peer(const struct sr_clock_qp *c)
{
	return c ? c->member : 0;
}

/* A READ of this queue pair has completed with its clocks: does the peer see all that changes in the memory that it can READ? */
bool sr_clocks_peer_is_watched(const struct sr_clock_qp *c);

/* Something may enter exposed memory otherwise than by requests of members whose order is known. */
void sr_clocks_meet_stranger(void);

/* It may be that completions do not say of which queue pair they are (shim/verbs/picks.h). */
extern bool sr_picks_on SR_HIDDEN;

/* Is it an RC queue pair that is connected to a member?  Any thread, without a lock. */
bool sr_clocks_carried_to(const struct ibv_context *context, uint32_t qp_num);
/* That queue pair; NULL: none.  In a process with one thread. */
struct sr_clock_qp *sr_clocks_carrying(const struct ibv_context *context, uint32_t qp_num);

/* ---- life of a queue pair ---- */

/* Can requests of a queue pair of this type carry clocks? */
bool sr_clocks_go_over(enum ibv_qp_type type);

/*
 * Returns NULL if the queue pair cannot have clocks: because of its type, or for want of memory.
 * xrcd: for an XRC target, which has no pd.
 */
struct sr_clock_qp *sr_clocks_add_qp(struct ibv_qp *qp, struct ibv_pd *pd,
				     const struct ibv_xrcd *xrcd);
/* Adds it to the directory; called before the program gets the queue pair. */
void sr_clocks_name_qp(struct sr_clock_qp *c);
void sr_clocks_remove_qp(struct sr_clock_qp *c);

/*
 * Adds an XRC shared receive queue to the directory, before the program gets it.  Its protection
 * domain is the one through which peers reach this process's clock region.
 */
void sr_clocks_add_srq(struct ibv_srq *srq, struct ibv_pd *pd, const struct ibv_xrcd *xrcd);
/* Around a destroy: take before it; then put back if it failed, or remove. */
struct sr_clock_srq *sr_clocks_take_srq(struct ibv_srq *srq);
void sr_clocks_put_back_srq(struct ibv_srq *srq, struct sr_clock_srq *s);
void sr_clocks_remove_srq(struct sr_clock_srq *s);

/* Called before the transition to RTR: finds the process at the other end. */
void sr_clocks_connect(struct sr_clock_qp *c, const struct ibv_qp_attr *attr);
/* Called before the transition to RTS: tries again if the directory did not answer. */
void sr_clocks_connect_again(struct sr_clock_qp *c);
/*
 * How many outstanding READs and atomics the shim asks for if the program asks for `asked`.
 * Twice as many, since a READER follows each of the program's; otherwise a READER would wait
 * for the response to the request in front of it.
 */
uint8_t sr_clocks_initiated(const struct sr_clock_qp *c, uint8_t asked);
uint8_t sr_clocks_answered(const struct sr_clock_qp *c, uint8_t asked);
/* The queue pair is reset. */
void sr_clocks_disconnect(struct sr_clock_qp *c);

/* Called before the protection domain is deallocated. */
void sr_clocks_drop_pd(struct ibv_pd *pd);

/* ---- the data path ---- */

/*
 * Draws a new event for this queue pair and prepares the word for the peer's cell.  Called with
 * the lock on posts held.
 */
void sr_clocks_tick(struct sr_clock_qp *c);

/* The process's last event. */
uint64_t sr_clocks_now(void);

/*
 * The next message of this queue pair was received: the highest event of this process that its sender knew for certain
 * when it posted it (nicclock/picks.h).  In a process with one thread.
 */
uint64_t sr_clocks_known_to_sender(struct sr_clock_qp *c);

/* A word in registered memory of the shim, for one READ at a time of the caller's; NULL: there is none left. */
volatile uint64_t *sr_clocks_probe_word(void);

/* A READER of this queue pair has completed.  The caller serialises calls per queue pair. */
void sr_clocks_read(struct sr_clock_qp *c);

/*
 * Any thread may call the two functions below at any time, also inside a SIGSEGV handler and
 * while it holds locks.  They wait for no lock, make no libc call, and allocate nothing but a
 * new thread's ring.  In a process without clocks they return at once.  If nothing is new,
 * sr_clocks_sample() reads one word for each queue pair that leads here.
 *
 * They write their records to the calling thread's stream before they return.  A record that an
 * order has to precede must be written after the call.
 */

/*
 * Samples the clocks of the peers and records the new orders.  The program is about to be shown
 * memory that peers write.  Call it *after* the copy that the program will see, since a peer's
 * clock arrives before its data, and *before* the values are recorded.  That is at the end of
 * each poll, and when the exposed-region module has found changes at a fault, a call or a tick.
 */
void sr_clocks_sample_peers(void);

static inline void sr_clocks_sample(void)
{
	if (sr_clocks_member)
		sr_clocks_sample_peers();
}

/*
 * Draws a new event for a store of the program.  Call it *before* the store, so that a process
 * that sees the bytes sees at least this number.  It is called for each store that is handled
 * on its own, and when a page becomes pass-through: the later stores to that page belong to the
 * same event.  Stores that are not handled belong to the event before them, and a process that
 * reads them by RDMA is ordered after that event only.
 */
void sr_clocks_store(void);

#endif
