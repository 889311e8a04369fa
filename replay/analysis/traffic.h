/* SPDX-License-Identifier: BSD-2-Clause */
/* traffic.h: counts and bytes of requests between ranks, by kind. */
#ifndef REPLAY_ANALYSIS_TRAFFIC_H
#define REPLAY_ANALYSIS_TRAFFIC_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/opcodes.h"
#include "replay/analysis/log/links.h"

struct sr_traffic_cell {
	uint64_t count[SR_OP_KINDS], bytes[SR_OP_KINDS];
};

struct sr_traffic {
	size_t n;                      /* ranks */
	struct sr_traffic_cell *cells; /* [from][to], the outside behind the ranks */
};

extern const char *const sr_traffic_names[SR_OP_KINDS];

/* 0 or -ENOMEM. */
int sr_traffic_init(struct sr_traffic *t, size_t ranks);
void sr_traffic_free(struct sr_traffic *t);

/* Counts a request with this opcode (enum ibv_wr_opcode), if it communicates anything. */
void sr_traffic_add(struct sr_traffic *t, size_t from, size_t to, uint8_t opcode, uint64_t bytes);

/* [{"from": 0, "to": 2 or null, "writes": , "write_bytes": , ...}, ...] of those that are not 0. */
json_t *sr_traffic_json(const struct sr_traffic *t, const struct sr_links *links);

#endif
