/* SPDX-License-Identifier: BSD-2-Clause */
/* calls.h: a recorded call, with what was found in front of it. */
#ifndef REPLAY_ANALYSIS_LOG_CALLS_H
#define REPLAY_ANALYSIS_LOG_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nicclock/order_code.h"
#include "replay/analysis/log/kinds.h"

/* Before a call: an order that was found, or an event alone. */
struct sr_log_clock {
	uint64_t event;
	bool found; /* there is an order, not only an event */
	struct sr_order order;
};

/* Also before a call: what was found in exposed regions (SR_REC_EXPOSED). */
struct sr_log_exposed {
	size_t clocks;   /* number of the clocks before it */
	size_t at, size; /* the payload, in `exposed_bytes` */
};

#define SR_LOG_NOT_COUNTED UINT32_MAX

struct sr_log_call {
	enum sr_what what; /* SR_WHAT_NOTHING: it only carries the clocks */
	uint8_t opcode;
	uint32_t thread;
	bool is_wanted; /* struct sr_log_wanted */
	bool is_part;   /* only clocks and values that came in front of the call, which comes later */
	uint32_t stop;  /* not 0, of a part: it came before this stop behind the last call (sr_group_stop) */
	uint32_t accesses; /* ... and behind so many accesses to exposed memory; SR_LOG_NOT_COUNTED: that is not known */
	uint64_t sn; /* at the end of a stream: of its last call */
	uint64_t site, result;
	const uint8_t *in, *out; /* valid until the next call is requested */
	size_t in_size, out_size;
	const struct sr_log_clock *clocks;
	size_t clocks_n;
	const struct sr_log_exposed *exposed;
	size_t exposed_n;
	const uint8_t *exposed_bytes;
};

/* Other calls that are relevant, as SR_WHAT_NOTHING: asked for each, thread by thread in their order. */
struct sr_log_wanted {
	enum sr_log_place { SR_LOG_NOT_WANTED, SR_LOG_AT_ENTRY, SR_LOG_AT_RETURN } (*place)(void *argument, size_t rank,
											    uint32_t thread, uint64_t sn);
	void *argument;
	size_t rank;
};

#endif
