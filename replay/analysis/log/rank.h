/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rank.h: the calls of one recorded process in one order, from the streams of its threads.
 *
 * The order is that of the event numbers (shim/core/order.h): the threads can have seen each other
 * in it.  Records that are no calls (clocks, values in exposed regions) come with the call that
 * follows them, or as a part of it: orders were found at their place among the numbers (SR_REC_BEHIND),
 * and other threads may have gone on between that and the call.
 */
#ifndef REPLAY_ANALYSIS_LOG_RANK_H
#define REPLAY_ANALYSIS_LOG_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "nicclock/order_code.h"
#include "replay/analysis/log/kinds.h"

struct sr_log_rank;

/* Before a call: an order that was found, or an event alone. */
struct sr_log_clock {
	uint64_t event;
	bool found; /* there is an order, not only an event */
	struct sr_order order;
};

/* Also before a call: what was found in exposed regions (SR_REC_EXPOSED). */
struct sr_log_exposed {
	size_t clocks;   /* number of the clocks before it */
	size_t at, size; /* the payload, in `exposed_bytes` */
};

struct sr_log_call {
	enum sr_what what; /* SR_WHAT_NOTHING: it only carries the clocks */
	uint8_t opcode;
	uint32_t thread;
	bool is_wanted; /* struct sr_log_wanted */
	bool is_part;   /* only clocks and values that came in front of the call, which comes later */
	uint64_t sn; /* at the end of a stream: of its last call */
	uint64_t site, result;
	const uint8_t *in, *out; /* valid until the next call is requested */
	size_t in_size, out_size;
	const struct sr_log_clock *clocks;
	size_t clocks_n;
	const struct sr_log_exposed *exposed;
	size_t exposed_n;
	const uint8_t *exposed_bytes;
};

/* Other calls that are relevant, as SR_WHAT_NOTHING: asked for each, thread by thread in their order. */
struct sr_log_wanted {
	enum sr_log_place { SR_LOG_NOT_WANTED, SR_LOG_AT_ENTRY, SR_LOG_AT_RETURN } (*place)(void *argument, size_t rank,
											    uint32_t thread, uint64_t sn);
	void *argument;
	size_t rank;
};

/* control_only: without the data path, and without clocks.  wanted: NULL: none.  0, or -errno and a sentence. */
int sr_log_rank_open(struct sr_log_rank **rank, struct sr_trace *t, int32_t number,
		     bool control_only, const struct sr_log_wanted *wanted, struct sr_error *err);
void sr_log_rank_close(struct sr_log_rank *r);

/* 1: the next relevant call; 0: the end; -errno and a sentence. */
int sr_log_rank_next(struct sr_log_rank *r, struct sr_log_call *call, struct sr_error *err);

/* Bytes of its streams, read so far and in all. */
uint64_t sr_log_rank_done(const struct sr_log_rank *r);
uint64_t sr_log_rank_size(const struct sr_log_rank *r);
/* Records so far. */
uint64_t sr_log_rank_records(const struct sr_log_rank *r);

/* What it has read of them so far (SR_REC_PICKED), which the caller frees. */
struct sr_picked_payload *sr_log_rank_take_picked(struct sr_log_rank *r, size_t *n);

/* Calls that the trace lacks: with --lossy, or in streams that are torn or have no end. */
uint64_t sr_log_rank_holes(const struct sr_log_rank *r);
/* Threads that may have done more than the trace has: killed, or no longer recorded. */
size_t sr_log_rank_cut(const struct sr_log_rank *r);

/* Its threads, ascending: number, and the places that reading has found. */
size_t sr_log_rank_threads(const struct sr_log_rank *r);
uint32_t sr_log_rank_thread(const struct sr_log_rank *r, size_t i,
			    const struct sr_stream_place **places, size_t *n);

#endif
