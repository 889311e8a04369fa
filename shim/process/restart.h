/* SPDX-License-Identifier: BSD-2-Clause */
/* restart.h: executes the program of a process again, before it has begun. */
#ifndef SHIM_PROCESS_RESTART_H
#define SHIM_PROCESS_RESTART_H

/*
 * Call first in a process that will be recorded. If this executes the program again, it does not
 * return. If it returns, randomisation is off, or that is not possible.
 */
void sr_restart_without_randomisation(void);

/* With the same arguments, and the environment as it is. Returns a negative error if that fails. Calls nothing of libc's. */
int sr_execute_again(void);

#endif
