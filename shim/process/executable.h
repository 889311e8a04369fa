/* SPDX-License-Identifier: BSD-2-Clause */
/* executable.h: can a program that is about to be executed be recorded? */
#ifndef SHIM_PROCESS_EXECUTABLE_H
#define SHIM_PROCESS_EXECUTABLE_H

#include <stdbool.h>

/*
 * Why the program cannot be recorded, as in "FILE is ..."; NULL: it can, or it cannot be executed at
 * all.  search: a name without a slash is looked for in PATH.
 */
const char *sr_executable_obstacle(int directory, const char *path, bool search);

#endif
