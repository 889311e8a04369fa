/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * candidates.h: what a value in exposed memory may be, of which a trace has only a checksum (landed.h).
 *
 * A candidate is a cut of each writer's writes, in an order, over or under what the program has stored.  candidate_writers.c
 * gathers the writes, candidate_reached.c says from which of very many on, candidate_orders.c goes through cuts and orders,
 * candidate_bytes.c says what they come to.
 * The lock of the exposed regions guards all of it.
 */
#ifndef SHIM_REPLAY_GROUP_CANDIDATES_H
#define SHIM_REPLAY_GROUP_CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/trace/exposed_event.h"
#include "shim/replay/group/own.h"
#include "shim/replay/group/unpolled.h"

#define LANDED_TRIES 4096
#define LANDED_FIRST 8 /* ... while other members may still write what is looked for */

#define WRITERS	 16   /* members that wrote to one value */
#define WRITES	 2048 /* of these, the latest that are not known to have landed */
#define OWN	 256  /* of the program's own stores, the latest */
#define SEQUENCE 8192 /* writes of a candidate */
#define AGAIN	 8    /* of each member, that have landed, but are tried again */

/* A write, and where its bytes are in the value. */
struct sr_written {
	uint64_t number, weight;
	uint64_t at; /* of its bytes, in the history */
	uint32_t from, length;
	uint16_t kind;
	uint16_t before; /* of an open atomic's word, so many bytes are in front of the value */
};

/* The writes of a member to a value, or those by one of its queue pairs, the first posted first. */
struct sr_writer {
	int32_t member;
	uint32_t queue;	 /* of the latest */
	uint32_t n;	 /* how many there are */
	uint32_t landed; /* of these, the first ones, that have landed before */
	uint32_t known;	 /* so many are known to have been posted before the value was found */
	uint32_t begin, end; /* the candidate: without these, it has none before, and none from here on */
	struct sr_written w[WRITES];
};

/* The search for one value. */
struct sr_candidates {
	/* What is looked for. */
	const struct sr_exposed_value *v;
	uint8_t *bytes; /* of the candidate */
	uint64_t knows[SR_GROUP_MEMBERS];
	const struct sr_exposed_value *given; /* values of the event in front of this one ... */
	uint32_t given_n;		      /* ... as far as they count */
	bool passed;		  /* the page was passed through: what the program has stored is there already */
	const uint8_t *before;	  /* ... over this; NULL: not known */
	uint32_t most;		  /* candidates of a kind, at most */
	bool by_queue;		  /* each queue pair is a writer */
	uint64_t first, last;	  /* numbers of the writes that are gathered; last 0: all of them */

	/* What was gathered. */
	struct sr_writer *writer;
	uint32_t writers;
	struct sr_written *own; /* the program's own stores since the last value of this page, from the last one on */
	uint32_t owns;
	bool more;    /* there are earlier writes of which it is not known that they have landed */
	bool queues;  /* not by_queue: a member has several */
	bool atomics; /* there are open ones */
	bool seen;    /* those before a write that is known to have landed are in its place already */

	/* The candidate, beside its writers' cuts. */
	uint8_t *sequence; /* the writers of its writes, in their order */
	uint32_t part;	   /* of its last write so many bytes; UINT32_MAX: all of them */
	uint32_t partial;  /* the writer that it is of */
	bool own_last;	   /* the program's own stores are over all that had landed */
	const struct sr_unpolled_piece *piece; /* of messages that have not been polled ... */
	uint32_t unpolled;		       /* ... so many are over all that had landed */

	/* candidate_orders.c */
	uint32_t tries; /* candidates of this kind so far */
	bool all_orders; /* of writes of several members that lie over each other */
	uint32_t branches;
};

/* What of a write lies in the value; of length 0: nothing. */
struct sr_written sr_written_into(const struct sr_exposed_value *v, const struct sr_group_write *w, uint64_t number);
/* Gathers the writes that the value may consist of.  False: no memory. */
bool sr_candidates_gather(struct sr_candidates *s);
/* Finds the first writes that may be new in the value, of more than can be gathered; they are what is gathered next.  False: it cannot. */
bool sr_candidates_reached(struct sr_candidates *s);
/* Has one the checksum?  With what had landed before, or without it, or some of it. */
bool sr_candidates_try(struct sr_candidates *s, bool all_orders);
/* May other orders than that of what members knew come to something else? */
bool sr_candidates_have_orders(const struct sr_candidates *s);
/* What had been posted before the value was found, and the first n pieces over it. */
bool sr_candidates_try_pieces(struct sr_candidates *s, uint32_t n);
/* Has the program stored all of it itself? */
bool sr_candidates_try_own(struct sr_candidates *s);

/* Has the candidate of the first n of the sequence the checksum? */
bool sr_candidate_fits(struct sr_candidates *s, uint32_t n);

#endif
