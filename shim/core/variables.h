/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * variables.h: reads environment variables without libc, because a program may define its
 * own getenv and unsetenv for other variables (bash does).
 */
#ifndef SHIM_CORE_VARIABLES_H
#define SHIM_CORE_VARIABLES_H

/* NULL if the variable is not set. */
const char *sr_variable(const char *name);

/*
 * Makes a choice that was "on" or "1" be "00" or "0".  Call before the program's main.  Without the variable, the auxiliary vector
 * would no longer stand behind the environment, where programs look for it that do not ask libc.
 */
void sr_switch_off_variable(const char *name);

#endif
