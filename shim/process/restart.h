/* SPDX-License-Identifier: BSD-2-Clause */
/* restart.h: a process that was started with address randomisation starts again without. */
#ifndef SHIM_PROCESS_RESTART_H
#define SHIM_PROCESS_RESTART_H

/*
 * For a process that is to be recorded, before anything else.  Does not return if it executes
 * the program again.  If it returns, there is no randomisation, or a message says why it could
 * not be switched off.
 */
void sr_restart_without_randomisation(void);

#endif
