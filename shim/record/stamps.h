/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stamps.h: a time in front of each call's record (record --stamps).
 *
 * With --tsc=native it is the time-stamp counter.  Otherwise that is trapped, in the shim's own code as
 * well, and the time is the kernel's coarse clock, which moves every few milliseconds: a record of it is
 * written when it has moved.
 */
#ifndef SHIM_RECORD_STAMPS_H
#define SHIM_RECORD_STAMPS_H

#include <stdbool.h>
#include <stdint.h>

#include <sreplay/trace.h>

#include "logd/base/compiler.h"

struct sr_thread;

extern bool sr_stamps_on SR_HIDDEN;

/* Once, before the first record. */
void sr_stamps_start(bool is_native);

union sr_stamp {
	struct sr_stamp_delta delta;
	struct sr_stamp_time time;
	struct sr_stamp_sync sync;
};

/* The payload's size, for the time of now; 0: the stream has it already.  In a section. */
uint32_t sr_stamp(struct sr_thread *t, union sr_stamp *payload);

#endif
