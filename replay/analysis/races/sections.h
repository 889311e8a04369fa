/* SPDX-License-Identifier: BSD-2-Clause */
/* sections.h: critical sections: from when a rank knows that it has a lock until it posts what gives it back. */
#ifndef REPLAY_ANALYSIS_RACES_SECTIONS_H
#define REPLAY_ANALYSIS_RACES_SECTIONS_H

#include "replay/analysis/races/collecting.h"

struct sr_section {
	uint64_t taken, released; /* requests; 0: the program said that it has the lock */
	uint32_t begin, end;      /* moments of the rank */
	uint32_t rank, lock;
	uint32_t thread; /* of what the program said */
};

struct sr_sections {
	struct sr_section *all; /* by rank and begin, once they are sorted */
	size_t n, room;
	size_t *first;    /* by rank */
	bool *is_attempt; /* by moment: a request that tries to take a lock, or gives it back, takes effect */
};

int sr_section_add(struct sr_sections *s, const struct sr_collect *c, uint64_t taken, uint64_t released, uint32_t lock);
/* ... of a lock of which the program said so. */
int sr_section_add_annotated(struct sr_sections *s, const struct sr_annotated_lock *l, uint32_t lock);
int sr_sections_sort(struct sr_sections *s, size_t ranks);
void sr_sections_free(struct sr_sections *s);

/*
 * Sections of one lock may come in another order, unless what is in them may not: takes the orders by which one follows the
 * other out, and adds those that are needed, since one must be over before the other begins.  0 or -ENOMEM.
 */
int sr_sections_reorder(struct sr_collect *c, struct sr_sections *s);

#endif
