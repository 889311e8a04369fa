/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sums.h: what is not in the records of calls, but in rolling sums (record --order).
 *
 * What a thread sends, where it sends it, and what it receives from recorded ranks, is compared in a replay.  Addresses,
 * lengths and checksums would be most of the trace.  So a thread adds them up, in the order of its calls, and a
 * record SR_REC_CHECK has the sums every SR_CHECK_EVENTS events, and at its end.  The codecs add, in
 * recording and replay alike; shim/record and shim/replay write and compare the records.
 *
 * Each thread has its own sums (sums_state.h).
 */
#ifndef SHIM_CORE_SUMS_H
#define SHIM_CORE_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/compiler.h"

/* Set before the program runs. */
extern bool sr_sums_on SR_HIDDEN;

struct sr_buf;

/* Do the arguments that are encoded now go into the sums? */
bool sr_sums_take(void);
/* A value that the record of a request has as 0. */
void sr_sums_sent(uint64_t value);
/* What is left out was received, or found in memory. */
void sr_sums_received(uint64_t checksum);
void sr_sums_count(uint32_t events);

/*
 * A replay that makes a detailed trace needs the arguments whole.  It does not encode them twice: they may lie in exposed
 * memory, where each look is numbered.  So what is in the buffer from `at` on, and is about to be replaced by zeros, is kept:
 * as a struct sr_sums_part with its bytes.
 */
struct sr_sums_part {
	uint32_t at, n;
};
bool sr_sums_keeps(void);
void sr_sums_keep(const struct sr_buf *b, size_t at);

#endif
