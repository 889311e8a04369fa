/* SPDX-License-Identifier: BSD-2-Clause */
/* exposed.h: records about exposed regions, for people. */
#ifndef REPLAY_PRINT_EXPOSED_H
#define REPLAY_PRINT_EXPOSED_H

#include <jansson.h>

#include "logd/trace/reader.h"

/* {"record": name, ...} of the kinds SR_REC_EXPOSED*, SR_REC_REGION; NULL: another kind, or damaged. */
json_t *sr_exposed_print(const struct sr_entry *e);

/* What a rank's streams say about its exposed regions. */
struct sr_exposed_sum {
	uint64_t values, bytes, late, ticks, not_still;
	uint64_t regions, region_bytes;
	uint64_t compared[16], compared_bytes[16]; /* by reason */
	struct sr_exposed_counts_payload counts;
	bool has_counts;
};

void sr_exposed_sum_add(struct sr_exposed_sum *sum, const struct sr_entry *e);
void sr_exposed_sum_print(const struct sr_exposed_sum *sum);
json_t *sr_exposed_sum_json(const struct sr_exposed_sum *sum);

#endif
