/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sums.h: checksums that are not in the records of calls, but in rolling sums (record --order).
 *
 * What a thread sends, and what it receives from recorded ranks, is compared in a replay by checksums.  Each of
 * them would be 8 bytes of the trace that no other byte tells.  So a thread adds them up, in the order of its calls, and a
 * record SR_REC_CHECK has the sums every SR_CHECK_EVENTS events, and at its end.  The codecs add, in
 * recording and replay alike; shim/record and shim/replay write and compare the records.
 *
 * Each thread has its own sums (sums_state.h).
 */
#ifndef SHIM_CORE_SUMS_H
#define SHIM_CORE_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/compiler.h"

/* Set before the program runs. */
extern bool sr_sums_on SR_HIDDEN;
/* Replay: takes each checksum of what is sent; NULL: nobody does. */
extern void (*sr_sums_keep)(uint64_t checksum) SR_HIDDEN;

/* The thread sends something: returns what its record has in place of the checksum. */
uint64_t sr_sums_sent(uint64_t checksum);
/* What is left out was received, or found in memory. */
void sr_sums_received(uint64_t checksum);
void sr_sums_count(uint32_t events);

#endif
