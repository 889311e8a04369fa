/* SPDX-License-Identifier: BSD-2-Clause */
/* window_records.h: SR_REC_WINDOW as shim/window has its events. */
#ifndef REPLAY_WINDOW_RECORDS_H
#define REPLAY_WINDOW_RECORDS_H

#include <stdbool.h>
#include <stddef.h>

#include <sreplay/trace.h>

#include "shim/window/window.h"

/* The most that one record has: see shim/window/event.c and shim/windows.c. */
#define SR_WINDOW_VALUES_MAX 1024
#define SR_WINDOW_CLOSED_MAX 64

struct sr_window_records {
	struct sr_window_event event; /* its values point into the record */
	struct sr_window_value values[SR_WINDOW_VALUES_MAX];
	uintptr_t closed[SR_WINDOW_CLOSED_MAX];
};

/* False: it is not one. */
bool sr_window_records_decode(struct sr_window_records *w, const void *payload, size_t size);

#endif
