/* SPDX-License-Identifier: BSD-2-Clause */
/* record.h: the record engine; one of the two that stand behind the wrappers. */
#ifndef SHIM_RECORD_H
#define SHIM_RECORD_H

#include "shim/settings.h"

/*
 * Connects to the daemon and sets sr_engine.  On failure says why on standard
 * error, once, and leaves the process inert: the program runs unrecorded.
 */
void sr_record_start(const struct sr_settings *settings);

/* The process ends with this status: the last record, and a wait until all is on disk. */
void sr_record_exit(int status);

#endif
