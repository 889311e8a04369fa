/* SPDX-License-Identifier: BSD-2-Clause */
/* found.h: a rank's part of the communication report (plan.h), on the command's side. */
#ifndef REPLAY_HOST_PRODUCERS_FOUND_H
#define REPLAY_HOST_PRODUCERS_FOUND_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/host/producers/producers.h"
#include "replay/analysis/plan/plan.h"

/* Where the replayed process puts its records: a memory file; -errno. */
int sr_found_open(void);

/*
 * Bytes that entered: by a member of the group, and from outside; and that nobody can
 * have written, of which the first are kept.
 */
struct sr_found_bytes {
	uint64_t inside, outside, nobody;
	struct sr_found_value first;
	uint8_t first_bytes[16];
};

/*
 * The rank's file in the plan, from what is there, with what was put off settled;
 * false after a message.
 */
bool sr_found_save(int fd, const char *dir, const struct sr_plan *p, int32_t rank,
		   struct sr_producers *producers, struct sr_found_bytes *bytes);

#endif
