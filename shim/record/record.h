/* SPDX-License-Identifier: BSD-2-Clause */
/* record.h: the record engine, one of the two engines behind the wrappers. */
#ifndef SHIM_RECORD_RECORD_H
#define SHIM_RECORD_RECORD_H

#include <stdint.h>

#include "shim/core/settings.h"

/* Which part of the process the trace covers; the manifest says so, too. */
enum sr_record_from {
	SR_RECORD_FROM_START,
	SR_RECORD_FROM_OPEN, /* from the first device that the process opens */
	SR_RECORD_FROM_FORK, /* a child of a recorded process */
};

/*
 * Connects to the daemon and sets sr_engine. On failure it says why on standard error,
 * once, and leaves the process inert: the program runs unrecorded.  image: NULL for the first
 * one of the process.
 */
void sr_record_start(const struct sr_settings *settings, enum sr_record_from from,
		     const struct sr_image_origin *image);

#endif
