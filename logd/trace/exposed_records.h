/* SPDX-License-Identifier: BSD-2-Clause */
/* exposed_records.h: SR_REC_EXPOSED as shim/exposed has its events. */
#ifndef LOGD_TRACE_EXPOSED_RECORDS_H
#define LOGD_TRACE_EXPOSED_RECORDS_H

#include <stdbool.h>
#include <stddef.h>

#include <sreplay/trace.h>

#include "shim/exposed/exposed.h"

/* The most that one record has: see shim/exposed/event.c and shim/verbs/regions.c. */
#define SR_EXPOSED_VALUES_MAX 1024
#define SR_EXPOSED_PROTECTED_MAX 64

struct sr_exposed_records {
	struct sr_exposed_event event; /* its values point into the record */
	struct sr_exposed_value values[SR_EXPOSED_VALUES_MAX];
	uintptr_t protected[SR_EXPOSED_PROTECTED_MAX];
};

/* False: it is not one. */
bool sr_exposed_records_decode(struct sr_exposed_records *w, const void *payload, size_t size);

#endif
