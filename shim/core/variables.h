/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * variables.h: reads environment variables without libc, because a program may define its
 * own getenv and unsetenv for other variables (bash does).
 */
#ifndef SHIM_CORE_VARIABLES_H
#define SHIM_CORE_VARIABLES_H

/* NULL if the variable is not set. */
const char *sr_variable(const char *name);

/* Call before the program's main. */
void sr_forget_variable(const char *name);

#endif
