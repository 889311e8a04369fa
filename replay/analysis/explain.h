/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explain.h: the values that entered at one call, and what was written to their memory.
 *
 * Two passes over the traces: the first finds the values of the call, the second what was
 * written over the same memory, before and since.
 */
#ifndef REPLAY_ANALYSIS_EXPLAIN_H
#define REPLAY_ANALYSIS_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/links.h"
#include "replay/analysis/process/process.h"

#define SR_VALUES_KEPT    256 /* of one call */
#define SR_WRITES_KEPT    4   /* to one place, of each rank */
#define SR_EXPLAIN_MARGIN 64  /* bytes around a value, of which earlier values tell */

/* A request that wrote to a value's memory. */
struct sr_written {
	struct sr_position at;
	uint64_t address, length, checksum;
	uint8_t opcode;
};

struct sr_explained {
	struct sr_value v;
	uint8_t *data, *before; /* before: what an earlier value left there */
	bool *before_known;
	/*
	 * The memory around it, from SR_EXPLAIN_MARGIN before it.  Bytes that no value had are
	 * zero, as memory mostly is when it becomes an exposed region.
	 */
	uint8_t *image;
	uint64_t before_sn;
	struct sr_position *known;
	/* By rank, requests to its place: the last ones before it, the first ones after. */
	struct sr_written *last, *since;
	size_t *last_n, *since_n;
};

struct sr_explanation {
	struct sr_trace *trace;
	int32_t rank_number;
	uint32_t thread;
	uint64_t sn;

	struct sr_links links;
	size_t rank; /* index of the call's */
	struct sr_explained values[SR_VALUES_KEPT];
	size_t values_n;
	bool too_many;
	bool reached; /* the first pass is at the call */
};

/* trace, rank_number, thread and sn are filled in.  0, or -errno and a sentence. */
int sr_explain(struct sr_explanation *x, struct sr_error *err);
void sr_explain_free(struct sr_explanation *x);

/* The rank whose memory the value was in before, and the address there; false: a message. */
bool sr_explained_place(const struct sr_explained *k, size_t *memory, uint64_t *address);

/* How many of n counted writes are kept. */
size_t sr_writes_kept(size_t n);
/* The first of n writes that has the value's bytes, by its checksum; n: none. */
size_t sr_writes_matching(const struct sr_explained *k, const struct sr_written *w, size_t n,
			  uint64_t address);

#endif
