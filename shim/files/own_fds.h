/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own_fds.h: sreplay's own descriptors in the program's process. To the program these
 * numbers look closed: it cannot close or replace them, and a program that closes every
 * number is still recorded or replayed. Any thread may call these functions.
 */
#ifndef SHIM_FILES_OWN_FDS_H
#define SHIM_FILES_OWN_FDS_H

#include <stdbool.h>

bool sr_is_own_fd(int fd);

/* The lower of first and fd; a value below from does not count. -1 means none. */
static inline int sr_lower_fd(int first, int fd, int from)
{
	return fd >= from && (first < 0 || fd < first) ? fd : first;
}

#endif
