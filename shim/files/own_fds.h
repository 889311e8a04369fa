/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own_fds.h: sreplay's own descriptors in the program's process.  To the program
 * there are none of these numbers: it cannot close them, and programs that close
 * all numbers go on being recorded, or replayed.  Any thread.
 */
#ifndef SHIM_FILES_OWN_FDS_H
#define SHIM_FILES_OWN_FDS_H

#include <stdbool.h>

/* The lowest from this one on, or -1. */
int sr_own_fd_from(int fd);
bool sr_is_own_fd(int fd);

/* For sr_engine.own_fd_from: the lower one of two, of those from `from` on. */
static inline int sr_lower_fd(int first, int fd, int from)
{
	return fd >= from && (first < 0 || fd < first) ? fd : first;
}

#endif
