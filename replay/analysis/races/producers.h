/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * producers.h: which requests can have left the bytes that a load, a READ or an atomic found.
 *
 * All requests that change memory are told in an order in which they can have come; then, for the bytes of a
 * value, those are named that fit: they were posted before, they cover the bytes, what they wrote has the same
 * checksum where that can be compared, and nothing that followed them has been seen there.
 */
#ifndef REPLAY_ANALYSIS_RACES_PRODUCERS_H
#define REPLAY_ANALYSIS_RACES_PRODUCERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SR_PRODUCERS_MOST 16
/* Of more WRITEs of one word that nobody has seen, the first ones are forgotten. */
#define SR_SKIPPED_MOST 256

struct sr_race_producers;

/* A request that changes memory. */
struct sr_race_written {
	uint64_t number; /* of the request */
	uint64_t begin, end;
	uint64_t checksum; /* of its bytes, if they were sent from one place; 0: not known */
	uint64_t operand;  /* of an atomic: its result if it was done, less what was there for an addition */
	uint64_t entered;  /* step of its rank at which it was posted */
	uint32_t owner, queue, place;
	uint32_t rank; /* that posted it */
	uint8_t opcode;
};

/* Those of one run of bytes. */
struct sr_race_producing {
	/* To be filled in: can the reader have got the bytes of this request? */
	bool (*may_have_come)(const void *argument, const struct sr_race_written *w);
	/* Had one request, of this number, ended when its rank posted another one? */
	bool (*has_ended_before)(const void *argument, uint64_t number, uint64_t other);
	const void *argument;

	/*
	 * Requests, the last one first.  Of those of one queue, each of which was posted when the one before had ended, there are only
	 * the last one and the first one: what comes before the others is before the last one, and has the first one's before it.
	 */
	uint64_t fits[SR_PRODUCERS_MOST];
	size_t n;
	bool is_complete; /* there are no others */
	bool is_certain;  /* there is exactly one, and no CPU can have left the bytes */
	bool is_untouched; /* they are as they were, and no request can have changed them */
	bool is_from_requests; /* no store of the owner's CPU left the bytes */

	/*
	 * If it is certain: WRITEs of the same word, by the same queue, that came between the bytes that were there before and these, the
	 * first one first.  The owner's CPU may have found any of them.
	 */
	uint32_t skipped[SR_SKIPPED_MOST]; /* requests */
	size_t skipped_n;
	uint64_t word, before; /* that word, and what it was */
};

struct sr_race_producers *sr_race_producers_new(void);
void sr_race_producers_free(struct sr_race_producers *p);

/* 0 or -ENOMEM. */
int sr_race_producers_add(struct sr_race_producers *p, const struct sr_race_written *w);

/* These bytes are in the owner's memory; what is known of its memory. */
int sr_race_producers_see(struct sr_race_producers *p, uint32_t owner, uint64_t address, const uint8_t *data, uint64_t length);
void sr_race_producers_get(const struct sr_race_producers *p, uint32_t owner, uint64_t address, uint8_t *data, uint64_t length);

/* An atomic of this number returned this value. */
int sr_race_producers_result(struct sr_race_producers *p, uint64_t number, uint64_t value);

/*
 * The next run of bytes of a value at `address`: how many of `length`.  by: the request that fetched it; 0: the
 * owner's CPU found what is new there.  no_stores: CPUs have not stored there.  The
 * result is 0 if there is no memory.
 */
uint64_t sr_race_producers_next(struct sr_race_producers *p, uint32_t owner, uint64_t address, const uint8_t *data,
				uint64_t length, uint64_t by, bool no_stores, struct sr_race_producing *found);

#endif
