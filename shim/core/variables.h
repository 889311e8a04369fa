/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * variables.h: the environment, by itself: a program may have a getenv and an unsetenv of
 * its own (bash does), which are about other variables.
 */
#ifndef SHIM_CORE_VARIABLES_H
#define SHIM_CORE_VARIABLES_H

/* NULL: there is none. */
const char *sr_variable(const char *name);

/* Before the program's main. */
void sr_forget_variable(const char *name);

#endif
