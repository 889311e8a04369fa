/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline.h: a whole run as calls of threads and the arrows between them, for `sreplay export` and
 * `sreplay report`.
 *
 * Most traces have no times.  The axis is causal then: a call takes one unit, and begins after the call in
 * front of it in its thread and after what it is known to follow (orders, messages, requests).  So
 * a call's time is the length of the longest chain of calls that leads to it.  With stamps of all ranks
 * (record --stamps) it is nanoseconds, and still keeps to what is known to follow what.
 *
 * Memory: some 56 bytes for each call's record and 56 for each arrow.
 */
#ifndef REPLAY_ANALYSIS_TIMELINE_TIMELINE_H
#define REPLAY_ANALYSIS_TIMELINE_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/links.h"
#include "replay/analysis/process/process.h"

/* What each call takes where times are those of a coarse clock. */
#define SR_COARSE_CALL_NS 100

/* One call's record, with those that only repeated it: at once, or in turn with others (SR_REC_CYCLE). */
struct sr_slice {
	uint64_t sn, count;   /* so many calls, from this one; each SN is higher by the stride than the one before */
	uint64_t site;        /* with its image: sr_site_address(), sr_site_image() */
	uint64_t event;       /* its first event number; 0: none, or of an earlier image */
	uint64_t begin, end;  /* on the axis */
	uint32_t bytes;       /* of its record */
	uint16_t kind;        /* SR_REC_CALL + number */
	uint16_t stride;
};

/*
 * A rank may have executed several programs: its images.  A site has the distance of its image from the
 * last one above the bits of an address.
 */
#define SR_SITE_BITS 48

static inline uint64_t sr_site_address(uint64_t site)
{
	return site & ((1ull << SR_SITE_BITS) - 1);
}

static inline uint32_t sr_site_image(uint64_t site)
{
	return (uint32_t)(site >> SR_SITE_BITS);
}

/* A thread of a rank, in all of its images. */
struct sr_track {
	size_t rank; /* index among the trace's */
	uint32_t thread;
	struct sr_slice *slices;
	size_t n, room;
};

struct sr_place {
	uint32_t track;
	uint32_t slice;
};

enum sr_flow_kind {
	SR_FLOW_ORDER,   /* by clocks: `to` returned after the entry of `from` */
	SR_FLOW_MESSAGE, /* from the post to the completion of the receive */
	SR_FLOW_REQUEST, /* from the post to its completion, in one rank */
	SR_FLOW_START,   /* a thread begins; only for the axis */
	SR_FLOWS,
};

struct sr_flow {
	uint8_t kind;   /* enum sr_flow_kind */
	uint8_t opcode; /* enum ibv_wr_opcode, of requests and messages */
	bool is_before; /* it precedes `to` as a whole, not only its end */
	uint32_t flags; /* enum sr_plan_flags */
	struct sr_place from, to;
	uint64_t from_sn, to_sn, length;
};

/* A request was posted. */
struct sr_post {
	struct sr_place at;
	size_t to; /* rank index, or SR_NO_RANK */
	uint64_t sn, length, address;
	uint32_t qp_num;
	uint16_t request;
	uint8_t opcode;
};

struct sr_timeline {
	struct sr_trace *trace;
	struct sr_links links;
	size_t ranks_n;
	struct sr_track *tracks; /* by rank, then thread */
	size_t tracks_n, tracks_room;
	size_t *first_track; /* of each rank; ranks_n + 1 of them */
	struct sr_flow *flows;
	size_t flows_n, flows_room;
	struct sr_post *posts;
	size_t posts_n, posts_room;
	struct sr_process_counts counts;
	uint32_t image; /* whose records are read or reported now: its distance from the last one */
	uint64_t slices_n, length; /* of the axis */
	uint64_t began;            /* ns since 1970, where the axis begins; 0: it is causal */
	bool is_coarse;            /* its times are of a clock that moves every few milliseconds */
	bool lacks_times;          /* of one track at least */
	uint64_t contradictions; /* arrows that the axis could not keep to; of a sound trace none */
};

/* What else is to be done with what is found; each may be NULL.  Places are of this timeline. */
struct sr_timeline_hooks {
	int (*value)(void *argument, const struct sr_value *v);
	int (*entry)(void *argument, size_t rank, const struct sr_entry *e);
	void (*progress)(void *argument, double done);
	void *argument;
};

/* 0, or -errno and a sentence.  To be freed in both cases. */
int sr_timeline_load(struct sr_timeline *t, struct sr_trace *trace,
		     const struct sr_timeline_hooks *hooks, struct sr_error *err);
void sr_timeline_free(struct sr_timeline *t);

/* The slice with this call.  False: the trace has no such call. */
bool sr_timeline_find(const struct sr_timeline *t, size_t rank, uint32_t thread, uint64_t sn,
		      struct sr_place *place);

static inline struct sr_slice *sr_timeline_slice(const struct sr_timeline *t, struct sr_place p)
{
	return &t->tracks[p.track].slices[p.slice];
}

/* For timeline.c: gives each slice its place on the axis.  0 or -ENOMEM. */
int sr_timeline_axis(struct sr_timeline *t);

/*
 * Requests that a rank had outstanding, as steps: at `time` there are `count` from now on.  A
 * malloc'ed list of *n, ascending; NULL: no memory.
 */
struct sr_step {
	uint64_t time;
	int64_t count;
};
struct sr_step *sr_timeline_outstanding(const struct sr_timeline *t, size_t rank, size_t *n);

#endif
