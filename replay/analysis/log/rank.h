/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rank.h: the calls of one recorded process in one order, from the streams of
 * its threads.
 *
 * The order is that of their event numbers (shim/core/order.h), in which all that the
 * threads saw of each other can have happened.  Records that are no calls (clocks,
 * values of exposed regions) come with the call behind them, as they were written in
 * front of it.
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

/* In front of a call: an order that was found, or an event alone. */
struct sr_log_clock {
	uint64_t event;
	bool found; /* is there an order, or only the event? */
	struct sr_order order;
};

/* In front of a call as well: what was found in memory that peers write (SR_REC_EXPOSED). */
struct sr_log_exposed {
	size_t clocks;   /* so many of the clocks were in front of it */
	size_t at, size; /* the payload, in `exposed_regions_bytes` */
};

struct sr_log_call {
	enum sr_what what; /* SR_WHAT_NOTHING: it is only what the clocks happened at */
	uint8_t opcode;
	uint32_t thread;
	uint64_t sn; /* at the end of a stream: of its last call */
	uint64_t site, result;
	const uint8_t *in, *out; /* until the next one is asked for */
	size_t in_size, out_size;
	const struct sr_log_clock *clocks;
	size_t clocks_n;
	const struct sr_log_exposed *regions;
	size_t exposed_regions_n;
	const uint8_t *exposed_regions_bytes;
};

/* control_only: without the data path, and without clocks.  0, or -errno and a sentence. */
int sr_log_rank_open(struct sr_log_rank **rank, struct sr_trace *t, int32_t number,
		     bool control_only, struct sr_error *err);
void sr_log_rank_close(struct sr_log_rank *r);

/* The next call that matters: 1; 0 at the end; -errno and a sentence. */
int sr_log_rank_next(struct sr_log_rank *r, struct sr_log_call *call, struct sr_error *err);

/* How far it is: bytes of its streams, and of how many. */
uint64_t sr_log_rank_done(const struct sr_log_rank *r);
uint64_t sr_log_rank_size(const struct sr_log_rank *r);
/* Records so far. */
uint64_t sr_log_rank_records(const struct sr_log_rank *r);

/* Calls that the trace lacks: with --lossy.  Streams that are torn, or have no end. */
uint64_t sr_log_rank_holes(const struct sr_log_rank *r);
/* Threads that may have done more than the trace has: killed, or no longer recorded. */
size_t sr_log_rank_cut(const struct sr_log_rank *r);

/* Of its threads, ascending: its number, and the places that reading has found. */
size_t sr_log_rank_threads(const struct sr_log_rank *r);
uint32_t sr_log_rank_thread(const struct sr_log_rank *r, size_t i,
			    const struct sr_stream_place **places, size_t *n);

#endif
