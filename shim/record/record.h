/* SPDX-License-Identifier: BSD-2-Clause */
/* record.h: the record engine; one of the two that stand behind the wrappers. */
#ifndef SHIM_RECORD_RECORD_H
#define SHIM_RECORD_RECORD_H

#include <stdint.h>

#include "shim/core/settings.h"

/* What the trace has of the process; the manifest says which. */
enum sr_record_from {
	SR_RECORD_FROM_START,
	SR_RECORD_FROM_OPEN, /* from the first device that it opened */
};

/*
 * Connects to the daemon and sets sr_engine.  On failure says why on standard
 * error, once, and leaves the process inert: the program runs unrecorded.
 */
void sr_record_start(const struct sr_settings *settings, enum sr_record_from from);

/* The process ends with this status: the last record, and a wait until all is on disk. */
void sr_record_exit(int status);

/* An event of the process's clock, for the calling thread's stream, and what was found at it. */
struct sr_order;
void sr_record_clock(uint64_t event, const struct sr_order *orders, uint32_t n);

/* Is this a signal handler, in the middle of a record of its thread?  It can make none. */
bool sr_record_is_interrupted(void);

/* A record of this thread's that is no call. */
struct sr_thread;
void sr_record_other(struct sr_thread *t, uint16_t kind, const void *payload, size_t size);

#endif
