/* SPDX-License-Identifier: BSD-2-Clause */
/* listen.h: the daemon's socket, and that there is only one of it. */
#ifndef LOGD_LISTEN_H
#define LOGD_LISTEN_H

#include <stddef.h>

/*
 * A listening socket at path, its directory made (0700) if need be.  The lock
 * next to it is held until the process ends, however it ends.  -errno and a
 * sentence; -EALREADY: another daemon serves it.
 */
int listen_open(const char *path, char *error, size_t error_size);

#endif
