/* SPDX-License-Identifier: BSD-2-Clause */
/* socket_path.h: where a user's daemon listens. */
#ifndef LOGD_RING_SOCKET_PATH_H
#define LOGD_RING_SOCKET_PATH_H

#include <stddef.h>

/*
 * $SREPLAY_SOCKET, else ${XDG_RUNTIME_DIR:-/tmp/sreplay-$UID}/sreplay/logd.sock.  A relative path is
 * completed by the current directory, since the daemon and recorded processes change theirs.
 * -ENAMETOOLONG if it does not fit into size or into a UNIX address.
 */
int sr_socket_path(char *path, size_t size);

/* The same for a path that was given in another way. */
int sr_socket_absolute(char *path, size_t size, const char *given);

#endif
