/* SPDX-License-Identifier: BSD-2-Clause */
/* stores.h: what the CPUs of the ranks stored to memory that requests access, as replays found it. */
#ifndef REPLAY_ANALYSIS_RACES_STORES_H
#define REPLAY_ANALYSIS_RACES_STORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/analysis/races/model.h"

/* Bytes that were stored before a call, or before this fault after it. */
struct sr_race_store {
	uint64_t sn, address;
	uint32_t rank, thread, length, fault;
};

struct sr_race_stores {
	struct sr_race_store *all;
	size_t n, room;
	size_t *next;  /* by the first of each rank and thread: how many were given */
	uint8_t *doubts; /* by rank: SR_DOUBT_* of its stores */
};

/* A file that the watched replay of a rank has written (replay/abi/watch.h).  0, -ENOMEM or -EIO. */
int sr_race_stores_read(struct sr_race_stores *s, uint32_t rank, const char *path);
/* When all are read.  0 or -ENOMEM. */
int sr_race_stores_sort(struct sr_race_stores *s);
void sr_race_stores_free(struct sr_race_stores *s);

/* The next store of this thread up to this fault after this call that was not asked for yet; NULL: none. */
const struct sr_race_store *sr_race_stores_due(struct sr_race_stores *s, uint32_t rank, uint32_t thread, uint64_t sn,
					       uint32_t fault);

/*
 * Writes the file for the replay of a rank: the pages of its memory that other accesses than its CPU's are to.
 * Their number, or -errno.
 */
int sr_race_stores_ask(const struct sr_race_model *m, uint32_t rank, const char *path);

#endif
