/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * datagrams.h: what queue pairs without a connection (UD) send to members, and from which member a datagram came.
 *
 * A datagram names the number of the queue pair that it goes to, and its completion the one that it came from.  So the
 * datagrams of a member from one number to another are a channel.  Several members may have queue pairs of that number, and
 * datagrams may be lost: it is the first one with the bytes that came.  The plan's waits have this member wait for it.  What no
 * member has sent is from outside.
 *
 * The caller holds sr_group_lock.
 */
#ifndef SHIM_REPLAY_GROUP_DATAGRAMS_H
#define SHIM_REPLAY_GROUP_DATAGRAMS_H

#include "shim/replay/group/requests.h"

/* This process has posted the request, which consists of these pieces. */
void sr_datagram_sent(const struct sr_request_qp *q, const struct sr_request *r, const struct sr_group_origin *origin,
		      const struct sr_piece *pieces, uint32_t n);

/* Whose datagram came into the memory of this receive?  NULL: no member's.  Otherwise its channel, and *m. */
struct sr_group_channel *sr_datagram_received(const struct sr_request_qp *q, const struct sr_request *r, const struct ibv_wc *wc,
					      struct sr_group_message *m);

/*
 * Where the memory of the receive overlaps that of others, so that its bytes may be of several: the next datagram of this
 * length in its channel, if one member alone has such a queue pair.
 */
struct sr_group_channel *sr_datagram_in_order(const struct sr_request_qp *q, const struct ibv_wc *wc, struct sr_group_message *m);

#endif
