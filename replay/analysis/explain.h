/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explain.h: the values that entered at some calls, and what was written to their memory.
 *
 * Two passes over the traces: the first finds the values of the calls, the second what was
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

/* A call whose values are asked for. */
struct sr_explained_call {
	size_t rank; /* index among the trace's */
	uint32_t thread;
	uint64_t sn;
};

/* For qsort() and bsearch(): by rank, thread, SN. */
int sr_explained_call_order(const void *a, const void *b);

struct sr_explain_index;

struct sr_explanation {
	/* To be filled in: */
	struct sr_trace *trace;
	const struct sr_explained_call *calls; /* ascending: by rank, thread, SN */
	size_t calls_n;
	size_t most; /* values to be kept */

	struct sr_links links;
	struct sr_explained *values;
	size_t values_n;
	bool too_many;
	size_t left_out; /* values that entered, and that the trace leaves out (record --order) */
	bool reached; /* the first pass is at the only call */
	struct sr_explain_index *places, *own; /* of the second pass */
};

/* 0, or -errno and a sentence.  To be freed in both cases. */
int sr_explain(struct sr_explanation *x, struct sr_error *err);
void sr_explain_free(struct sr_explanation *x);

/* The rank whose memory the value was in before, and the address there; false: a message. */
bool sr_explained_place(const struct sr_explained *k, size_t *memory, uint64_t *address);

/*
 * The write that left the value there, as far as the traces tell: the one with its bytes, by its
 * checksum (*is_certain), or the only last one known to be before.  *rank: whose; NULL: not known.
 */
const struct sr_written *sr_explained_writer(const struct sr_explained *k, size_t ranks_n, size_t *rank,
					     bool *is_certain);

/* How many of n counted writes are kept. */
size_t sr_writes_kept(size_t n);
/* The first of n writes that has the value's bytes, by its checksum; n: none. */
size_t sr_writes_matching(const struct sr_explained *k, const struct sr_written *w, size_t n,
			  uint64_t address);

#endif
