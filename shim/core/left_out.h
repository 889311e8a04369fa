/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * left_out.h: a segment (calls.def) of received bytes that is not in the trace (record --order), because
 * the replay of the rank that sent them produces them again.
 */
#ifndef SHIM_CORE_LEFT_OUT_H
#define SHIM_CORE_LEFT_OUT_H

#include <stdint.h>

/* Its address has this bit, and its data is struct sr_left_out. */
#define SR_SEGMENT_LEFT_OUT (1ull << 63)

/* Fewer bytes are recorded: they take hardly more than that. */
#define SR_LEFT_OUT_MIN 32

struct __attribute__((packed)) sr_left_out {
	uint32_t length;
	uint64_t checksum; /* of the bytes (logd/base/checksum.h) */
};

#endif
