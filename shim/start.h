/* SPDX-License-Identifier: BSD-2-Clause */
/* start.h: the process's beginning and end. */
#ifndef SHIM_START_H
#define SHIM_START_H

/*
 * The process ends with this status, past exit handlers: writes that down, the first time.  Returns the status to end with:
 * where another thread was just writing down that it ends the process, that one's.
 */
int sr_process_exits(int status);

#endif
