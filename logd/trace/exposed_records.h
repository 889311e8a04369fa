/* SPDX-License-Identifier: BSD-2-Clause */
/* exposed_records.h: decodes SR_REC_EXPOSED.  Any thread; nothing is allocated. */
#ifndef LOGD_TRACE_EXPOSED_RECORDS_H
#define LOGD_TRACE_EXPOSED_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/exposed_event.h"

/* The most that one record has: see shim/exposed/page/event.c and shim/verbs/regions.c. */
#define SR_EXPOSED_VALUES_MAX    1024
#define SR_EXPOSED_PROTECTED_MAX 64

/* A decoded record; the caller provides it, for one record at a time. */
struct sr_exposed_records {
	struct sr_exposed_event event; /* its values point into the record */
	struct sr_exposed_value values[SR_EXPOSED_VALUES_MAX];
	uintptr_t protected[SR_EXPOSED_PROTECTED_MAX];
};

/* payload: a whole record's, 8-byte aligned.  False: these bytes are no such record. */
bool sr_exposed_records_decode(struct sr_exposed_records *w, const void *payload, size_t size);

#endif
