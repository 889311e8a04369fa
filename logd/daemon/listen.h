/* SPDX-License-Identifier: BSD-2-Clause */
/* listen.h: the daemon's socket, and that there is only one of it. */
#ifndef LOGD_DAEMON_LISTEN_H
#define LOGD_DAEMON_LISTEN_H

#include <stddef.h>

#define LISTEN_STALL_TIMEOUT_MS 3000

/*
 * A listening socket at path, its directory made (0700) if need be.  The lock
 * next to it is held until the process ends, however it ends: one that is about
 * to end, and answers nobody, is waited for, up to LISTEN_STALL_TIMEOUT_MS.  -errno and
 * a sentence; -EALREADY: another daemon serves it.
 */
int listen_open(const char *path, char *error, size_t error_size);

#endif
