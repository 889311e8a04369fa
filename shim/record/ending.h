/* SPDX-License-Identifier: BSD-2-Clause */
/* ending.h: a recorded process ends. */
#ifndef SHIM_RECORD_ENDING_H
#define SHIM_RECORD_ENDING_H

/* This process is the one that is recorded. */
void sr_record_expect_end(void);

/* With this status: the last record, and a wait until all is on disk. */
void sr_record_exits(int status);

/* The client's hook: the daemon does not answer any more. */
void sr_record_given_up(int error);

#endif
