/* SPDX-License-Identifier: BSD-2-Clause */
/* listen.h: the daemon's socket, which only one daemon of a user has at a time. */
#ifndef LOGD_DAEMON_LISTEN_H
#define LOGD_DAEMON_LISTEN_H

#include <stddef.h>

/*
 * A listening socket at path, its directory made (0700) if need be.  A lock next to it is
 * held until the process ends, in whatever way.  A daemon that has the lock and answers
 * nobody is about to end, and is waited for (HANDOVER_MS).  -errno and a sentence;
 * -EALREADY: another daemon serves the socket.
 */
int listen_open(const char *path, char *error, size_t error_size);

#endif
