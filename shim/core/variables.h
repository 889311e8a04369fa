/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * variables.h: environment variables, read without libc: a program may define a getenv and an
 * unsetenv of its own (bash does), for other variables.
 */
#ifndef SHIM_CORE_VARIABLES_H
#define SHIM_CORE_VARIABLES_H

/* NULL: it is not set. */
const char *sr_variable(const char *name);

/* Before the program's main. */
void sr_forget_variable(const char *name);

#endif
