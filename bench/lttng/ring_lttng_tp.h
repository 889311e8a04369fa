/* SPDX-License-Identifier: BSD-2-Clause */
/* The events that bench/ring_lttng.c records: a payload of n bytes. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER ring_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./ring_lttng_tp.h"

#if !defined(RING_LTTNG_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define RING_LTTNG_TP_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(ring_bench, word, LTTNG_UST_TP_ARGS(uint64_t, value),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, value, value)))

LTTNG_UST_TRACEPOINT_EVENT(
	ring_bench, bytes, LTTNG_UST_TP_ARGS(const uint8_t *, data, size_t, size),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_sequence(uint8_t, data, data, size_t, size)))

#endif

#include <lttng/tracepoint-event.h>
