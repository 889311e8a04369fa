/* SPDX-License-Identifier: BSD-2-Clause */
/* start.h: the process's beginning and end. */
#ifndef SHIM_START_H
#define SHIM_START_H

/* It ends with this status, past exit handlers.  Once; does nothing later on. */
void sr_process_exits(int status);

#endif
