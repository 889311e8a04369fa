/* SPDX-License-Identifier: BSD-2-Clause */
/* found.h: a rank's part of the communication report, in the plan (rank-N/found). */
#ifndef REPLAY_HOST_PRODUCERS_FOUND_H
#define REPLAY_HOST_PRODUCERS_FOUND_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/host/producers/producers.h"
#include "replay/analysis/plan/plan.h"

/*
 * Bytes that entered from members and from outside, and those that nobody can have written; the
 * first of these are kept.
 */
struct sr_found_bytes {
	uint64_t inside, outside, nobody;
	uint64_t shared; /* through memory shared with other processes */
	struct sr_found_value first;
	uint8_t first_bytes[16];
};

/*
 * Writes the rank's file in the plan from the records of the process that has ended, and resolves pending ones. False
 * after a message.
 */
bool sr_found_save(const struct sr_ended_group *e, const char *dir, const struct sr_plan *p, int32_t rank,
		   struct sr_producers *producers, struct sr_found_bytes *bytes);

#endif
