/* SPDX-License-Identifier: BSD-2-Clause */
/* gather.h: what a report says of a trace, before it is written. */
#ifndef REPLAY_REPORT_GATHER_H
#define REPLAY_REPORT_GATHER_H

#include "replay/analysis/explain.h"
#include "replay/analysis/plan/plan.h"
#include "replay/analysis/timeline/names.h"
#include "replay/analysis/traffic.h"
#include "replay/print/exposed.h"

enum sr_value_class { SR_VALUE_MESSAGE, SR_VALUE_FETCHED, SR_VALUE_EXPOSED, SR_VALUE_CLASSES };

/* A value that entered, without its bytes. */
struct sr_seen_value {
	size_t rank;
	struct sr_position at;
	uint64_t site;
	uint32_t length;
	uint8_t class; /* enum sr_value_class */
};

/* A place in a rank's program: calls made there, or loads of exposed memory. */
struct sr_seen_site {
	size_t rank;
	uint64_t address;
	uint16_t kind;         /* of the call; 0: a load */
	uint64_t calls, bytes; /* bytes: of records, or of values */
};

struct sr_seen_rank {
	char end[256]; /* how the process ended, or that it has no end */
	uint64_t streams, ended, records, bytes;
	uint64_t other_bytes[16]; /* of records that are no calls, by enum sr_record_kind */
	uint64_t dropped;
	struct sr_exposed_sum exposed;
};

/* A WRITE or atomic, and the access that found what it wrote. */
struct sr_seen_write {
	struct sr_place from, to;
	uint64_t from_sn, to_sn, length;
	bool is_before;  /* the access is in front of the call `to`, else in it */
	bool is_certain; /* a replay has compared the bytes, or the checksum is theirs */
};

struct sr_gathered {
	struct sr_trace *trace;
	struct sr_timeline t;
	struct sr_names names;
	struct sr_seen_rank *ranks;
	struct sr_seen_value *values;
	size_t values_n, values_room;
	struct sr_seen_site *sites; /* most calls first */
	size_t sites_n, sites_room;
	struct sr_seen_write *writes;
	size_t writes_n, writes_room;
	struct sr_traffic traffic;
	struct sr_explanation explained;     /* of some values, or of all */
	struct sr_explained_call *calls;     /* that were explained */
	struct sr_plan *plan;                /* NULL: there is none of this trace */
	const struct sr_found_value **found; /* of a replay, by rank */
	size_t *found_n;
	bool is_replayed;
};

#define SR_REPORT_VALUES 1200 /* explained, at most */

/* 0, or -errno and a sentence.  To be freed in both cases.  progress: NULL, or called up to 1. */
int sr_gather(struct sr_gathered *g, struct sr_trace *t, void (*progress)(double done),
	      struct sr_error *err);
void sr_gather_free(struct sr_gathered *g);

#endif
