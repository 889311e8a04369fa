/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * written.h: who wrote a rank's memory last, by pieces, as log processing passes over the run.
 *
 * Each piece keeps its last writer and the one before: an atomic fetches what was there before
 * itself, and of two writers only one may be known to be before an access.
 */
#ifndef REPLAY_ANALYSIS_WRITTEN_H
#define REPLAY_ANALYSIS_WRITTEN_H

#include <stddef.h>
#include <stdint.h>

#define SR_SLICE_RANKS 256
/* A set of ranks. */
struct sr_rank_set {
	uint64_t bits[SR_SLICE_RANKS / 64];
};

struct sr_writer {
	size_t rank;              /* SR_NO_RANK: nobody */
	uint64_t step;            /* of its post */
	struct sr_rank_set slice; /* whose values the writer had had by then */
};

struct sr_written_piece {
	uint64_t begin, end;
	struct sr_writer last, before;
};

/* One rank's memory: pieces that do not overlap, ascending. */
struct sr_written_memory {
	struct sr_written_piece *pieces;
	size_t n, room;
};

/* 0 or -ENOMEM. */
int sr_written_add(struct sr_written_memory *m, uint64_t begin, uint64_t length,
		   const struct sr_writer *writer);
void sr_written_free(struct sr_written_memory *m);

/* The first piece that ends behind `address`; m->n: none. */
size_t sr_written_find(const struct sr_written_memory *m, uint64_t address);

#endif
