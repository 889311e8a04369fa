/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own_memory.h: /proc/self/mem, by which a program writes to its own memory (gdb, to see whether it can; programs that
 * change their own code).
 *
 * What it reads there comes from the trace, as from any file of /proc.  What it writes, a replay writes again.
 */
#ifndef SHIM_FILES_OWN_MEMORY_H
#define SHIM_FILES_OWN_MEMORY_H

#include <stdbool.h>

/* path: a file's, without links. */
bool sr_own_memory_path(const char *path);

/* Replay: captures the number, and opens the memory there. */
void sr_own_memory_hold(int fd);

/* Replay: is it the memory, which sr_own_memory_hold() has opened? */
bool sr_own_memory_held(int fd);

#endif
