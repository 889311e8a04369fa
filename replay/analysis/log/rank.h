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
#include "replay/analysis/log/calls.h"

struct sr_log_rank;

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

/* What it has read of them so far (SR_REC_PICKED, SR_REC_CHANGED), which the caller frees.  Only with control_only. */
struct sr_picked_payload *sr_log_rank_take_picked(struct sr_log_rank *r, size_t *n);
struct sr_changed_payload *sr_log_rank_take_changed(struct sr_log_rank *r, size_t *n);

/* Calls that the trace lacks: with --lossy, or in streams that are torn or have no end. */
uint64_t sr_log_rank_holes(const struct sr_log_rank *r);
/* Threads that may have done more than the trace has: killed, or no longer recorded. */
size_t sr_log_rank_cut(const struct sr_log_rank *r);

/* Its threads, ascending: number, and the places that reading has found. */
size_t sr_log_rank_threads(const struct sr_log_rank *r);
uint32_t sr_log_rank_thread(const struct sr_log_rank *r, size_t i,
			    const struct sr_stream_place **places, size_t *n);

#endif
