/* SPDX-License-Identifier: BSD-2-Clause */
/* sums_state.h: a thread's sums of checksums: see sums.h. */
#ifndef SHIM_CORE_SUMS_STATE_H
#define SHIM_CORE_SUMS_STATE_H

#include <stdint.h>

/* An event is a request, a completion, or a value that is left out. */
#define SR_CHECK_EVENTS 256

/* What a record has of a sum. */
static inline uint32_t sr_sum_shown(uint64_t sum)
{
	return (uint32_t)(sum >> 32);
}

struct sr_buf;

/* Of a record that is held back (shim/record/commutes.h): what would have been added. */
enum sr_held_what { SR_HELD_SENT, SR_HELD_RECEIVED, SR_HELD_COUNT };

struct sr_held_sum {
	uint64_t value;
	uint64_t what; /* enum sr_held_what */
};

struct sr_sums {
	uint64_t sent, received;
	uint64_t events; /* since the last record */
	struct sr_buf *kept; /* replay: what the encoded arguments lack goes there (sr_sums_keep); NULL: nowhere */
	uint64_t checked_sn; /* replay: the call with the last record */
};

#endif
