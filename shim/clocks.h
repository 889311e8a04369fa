/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clocks.h: the clocks of nicclock/ on real queue pairs.
 *
 * Every process of a job that runs under the shim has a clock region, in the
 * group or not, and tells the directory (logd/directory.h) of its connected
 * queue pairs.  A member of the group besides posts requests of the shim's own:
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
 * queue pair; queues.c posts, wq.c completes.  Any thread.
 */
#ifndef SHIM_CLOCKS_H
#define SHIM_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "logd/protocol.h"
#include "nicclock/clock.h"
#include "shim/settings.h"

/* At most so many requests for one of the program's: CLOCK, it, READER. */
#define SR_CLOCK_REQUESTS   3
#define SR_CLOCK_WORD_BYTES 8

struct sr_clock_slot;

/* A queue pair's, from its creation to its end. */
struct sr_clock_qp {
	struct ibv_qp *qp;
	struct ibv_pd *pd;
	struct sr_queue_pair names; /* as the directory has it */
	bool named;

	/* What the program asked for and has to see. */
	bool has_room; /* made with room for the shim's requests */
	bool sig_all;
	uint32_t limit; /* of requests at a time */
	uint32_t max_inline;
	int access;
	bool access_known;

	/* Once it is connected to a process of the job. */
	bool carries; /* CLOCKs go out before */
	bool reads;   /* READERs behind */
	uint32_t rkey;
	uint64_t cell;  /* address of the peer's cell for this queue pair */
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

/* Is this one of its descriptors? */
bool sr_clocks_owns_fd(int fd);

/* Are there clocks in this process, and is it a member? */
bool sr_clocks_on(void);
bool sr_clocks_is_member(void);

/* ---- life of a queue pair ---- */

/* NULL where clocks cannot be (its type, no memory). */
struct sr_clock_qp *sr_clocks_add_qp(struct ibv_qp *qp, struct ibv_pd *pd, enum ibv_qp_type type);
/* It is told to the directory now: called before the program has it. */
void sr_clocks_name_qp(struct sr_clock_qp *c);
void sr_clocks_remove_qp(struct sr_clock_qp *c);

/* Before the transition to RTR: whose is the other end? */
void sr_clocks_connect(struct sr_clock_qp *c, const struct ibv_qp_attr *attr);
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
 * The program is about to see memory that others write, or has been shown it:
 * look at the cells of our own region.  For completions and, of windows, after
 * each snapshot and live close.
 */
void sr_clocks_look(void);

/* Before a store of the program's becomes visible to others, where that is seen. */
void sr_clocks_store(void);

#endif
