/* SPDX-License-Identifier: BSD-2-Clause */
/* ending.h: the end of a recorded process. */
#ifndef SHIM_RECORD_ENDING_H
#define SHIM_RECORD_ENDING_H

void sr_record_expect_end(void);

/* Ends the recording with this status: writes the last record and waits until all is on disk. */
void sr_record_exits(int status);

/* The client calls this when the daemon does not answer any more. */
void sr_record_given_up(int error);

/* The daemon has stopped a ring: says so, once for the process. */
void sr_record_ring_stopped(int error);

#endif
