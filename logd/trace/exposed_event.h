/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exposed_event.h: a record SR_REC_EXPOSED in memory, before it is written and after it is read.
 *
 * shim/exposed makes and takes these; exposed_records.h decodes them from a trace.
 */
#ifndef LOGD_TRACE_EXPOSED_EVENT_H
#define LOGD_TRACE_EXPOSED_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include <sreplay/trace.h>

/* Bytes that a peer wrote. */
struct sr_exposed_value {
	uintptr_t addr;
	uint32_t length;
	const void *data; /* belongs to the event's maker, who says how long it stays; NULL: it is left out */
	uint64_t checksum, mask; /* of what is left out (left_out.h) */
	bool still; /* recorder: no request was landing in its page when it was copied */
	bool kept; /* recorder: other things than requests of peers change that page, too */
};

struct sr_exposed_event {
	uint64_t fault; /* faults of the thread since its last call, with this one */
	uintptr_t pc;   /* the instruction that faulted */
	uintptr_t addr; /* the address that it wanted; 0: no fault */
	uint32_t flags; /* SR_EXPOSED_* */
	uint64_t yields; /* SR_EXPOSED_YIELD: times that the thread gave up its processor since its last call */
	uint64_t ticks; /* SR_EXPOSED_AT_CALL: so many came since its last access, each after 4 ms of its CPU time */
	uint32_t values_n;
	const struct sr_exposed_value *values;
	uint32_t protected_n;
	const uintptr_t *protected; /* pages that were found changed, and were protected */
};

#endif
