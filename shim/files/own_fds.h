/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own_fds.h: sreplay's own descriptors in the program's process.  For the program these numbers
 * do not exist: it cannot close them, and a program that closes all numbers is still recorded or
 * replayed.  Any thread.
 */
#ifndef SHIM_FILES_OWN_FDS_H
#define SHIM_FILES_OWN_FDS_H

#include <stdbool.h>

bool sr_is_own_fd(int fd);

/* The lower one of first and fd, of those that are not below from; -1 is none. */
static inline int sr_lower_fd(int first, int fd, int from)
{
	return fd >= from && (first < 0 || fd < first) ? fd : first;
}

#endif
