/* SPDX-License-Identifier: BSD-2-Clause */
/* explained.h: where a value came from, in words: for `sreplay explain` and `sreplay report`. */
#ifndef REPLAY_PRINT_EXPLAINED_H
#define REPLAY_PRINT_EXPLAINED_H

#include <stdio.h>

#include "replay/analysis/explain.h"
#include "replay/analysis/plan/records.h"

struct sr_explained_words {
	FILE *out;
	const struct sr_links *links;
	int32_t rank; /* the value's */
	/* The report of a replay of this rank; 0: there was none. */
	const struct sr_found_value *found;
	size_t found_n;
	/* As sr_call_sites_call() and _address(): "" if nothing is known. */
	const char *(*call)(void *argument, int32_t rank, uint32_t thread, uint64_t sn);
	const char *(*address)(void *argument, int32_t rank, uint64_t return_address);
	void *argument;
};

/* "rank 2 at SN 198, poll_cq at poll_completions (transfer.c:17)" */
void sr_explained_print_call(const struct sr_explained_words *x, int32_t rank, uint32_t thread,
			     uint64_t sn);

/* The value, who wrote it, and what else was written there: some lines. */
void sr_explained_print(const struct sr_explained_words *x, const struct sr_explained *k);

/* "WRITE", "fetch and add": of an opcode that changes memory. */
const char *sr_explained_opcode(uint8_t opcode);

/* Are these bytes, which a replay compared, of this value? */
bool sr_explained_is_of(const struct sr_explained *k, const struct sr_found_value *f);

#endif
