/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * packet.h: one struct sr_message, and perhaps one file descriptor, over a
 * socket; for both sides of protocol.h.  Raw system calls only, and never waits.
 */
#ifndef LOGD_RING_PACKET_H
#define LOGD_RING_PACKET_H

#include "logd/ring/protocol.h"

/* fd: -1 for none.  0; -EAGAIN: the other side has not taken enough yet; -errno. */
int sr_packet_send(int socket, const struct sr_message *m, int fd);

/*
 * 0; -EAGAIN: nothing there; -ECONNRESET: the other side has closed; -EPROTO:
 * another version, or no message at all; -errno.  *fd: what came with it, the
 * caller's to close whatever is returned; or -1.
 */
int sr_packet_receive(int socket, struct sr_message *m, int *fd);

#endif
