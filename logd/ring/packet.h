/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * packet.h: one struct sr_message, perhaps with a file descriptor, over a socket; for both sides of
 * protocol.h.  Raw system calls only.  It never waits.
 */
#ifndef LOGD_RING_PACKET_H
#define LOGD_RING_PACKET_H

#include "logd/ring/protocol.h"

/* fd goes with it, -1: none.  0; -EAGAIN: the socket is full; other -errno. */
int sr_packet_send(int socket, const struct sr_message *m, int fd);

/*
 * 0; -EAGAIN: nothing has come; -ECONNRESET: the other side has closed; -EPROTO: no message, or one
 * of another version; other -errno.  *fd: the descriptor that came with it, the caller's to
 * close in each of these cases; or -1.
 */
int sr_packet_receive(int socket, struct sr_message *m, int *fd);

#endif
