/* SPDX-License-Identifier: BSD-2-Clause */
/* source.h: a thread's stream of records, call by call; and the rank that merges those of all its threads (rank.c). */
#ifndef REPLAY_ANALYSIS_LOG_SOURCE_H
#define REPLAY_ANALYSIS_LOG_SOURCE_H

#include "logd/trace/reader.h"
#include "replay/analysis/log/calls.h"
#include "shim/core/call.h"
#include "shim/core/order.h"

/* The thread's last call, as SR_REC_REPEAT stands for it. */
struct sr_log_repeated {
	uint8_t payload[SR_REPEAT_MAX];
	size_t size; /* 0: it does not matter, or is too long to be repeated */
	enum sr_what what;
	uint16_t kind;
	uint64_t left, sn; /* how often it is still to be repeated, and the next SN */
};

/* Orders that were found together, in front of the thread's next call. */
struct sr_log_found {
	uint64_t behind;        /* behind this event */
	uint64_t first;         /* their first event of the rank's clock */
	size_t clocks, exposed; /* so many of the source's are theirs, with what came before; 0: there are none */
};

/* A thread's stream, at its next relevant call. */
struct sr_log_source {
	struct sr_stream *stream;
	uint32_t thread;
	uint64_t key;   /* number of the call's event; without one, of the last event */
	uint64_t clock; /* of the rank's clock: what was found behind the same event comes in this order; 0: a call */
	uint64_t last;  /* event number that the stream has shown last */
	struct sr_log_call call;
	struct sr_entry entry;
	struct sr_order_stream orders;
	struct sr_log_clock *clocks;
	size_t clocks_n, clocks_room;
	struct sr_log_exposed *exposed;
	size_t exposed_n, exposed_room;
	uint8_t *bytes; /* payloads of SR_REC_EXPOSED */
	size_t bytes_n, bytes_room;
	struct sr_log_found found;
	uint32_t stops; /* since its last call (sr_group_stop) */
	bool holds; /* a part was handed out: `entry` is still to be taken */
	uint64_t last_sn, offset;
	uint64_t size; /* of the stream's file, when it was opened */
	struct sr_log_repeated again;
	bool over;
	bool cut; /* the last record is neither the thread's end nor the process's */
};

struct sr_log_rank {
	struct sr_log_kinds kinds;
	int32_t number;
	const char *name; /* the trace's */
	bool control_only, has_places;
	struct sr_log_wanted wanted;
	struct sr_log_source *sources;
	size_t sources_n;
	struct sr_log_source **heap; /* sources that are not over, lowest key on top */
	size_t heap_n;
	struct sr_log_source *given; /* its call was handed out: it advances at the next request */
	uint64_t clock; /* the highest event of the rank's clock that was handed out */
	uint64_t size, records, holes;
	struct sr_picked_payload *picked;
	size_t picked_n, picked_room;
	struct sr_changed_payload *changed;
	size_t changed_n, changed_room;
};

/* 1: s->call is the thread's next relevant call, or a part of one; 0: the end; -errno. */
int sr_log_advance(struct sr_log_rank *r, struct sr_log_source *s);

#endif
