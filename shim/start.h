/* SPDX-License-Identifier: BSD-2-Clause */
/* start.h: the process's beginning and end. */
#ifndef SHIM_START_H
#define SHIM_START_H

/*
 * It ends with this status, past exit handlers.  Does nothing later on.  Returns the status with which it is to end: where
 * another thread has begun to end it before, and that is written down, that one's.
 */
int sr_process_exits(int status);

#endif
