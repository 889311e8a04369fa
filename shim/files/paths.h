/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * paths.h: the path of an open file, from the kernel.  Any thread, in a section.
 *
 * To look up the name below /proc takes longer than opening the file did, so that a recorded process has
 * the directory open.
 */
#ifndef SHIM_FILES_PATHS_H
#define SHIM_FILES_PATHS_H

#include <stddef.h>

void sr_paths_start(void);
void sr_paths_stop(void);

/* The directory's descriptor, or -1. */
int sr_paths_own_fd(void);

/* The full path as the process sees it, or "" if it does not fit. */
void sr_find_path(int fd, char *path, size_t size);

#endif
