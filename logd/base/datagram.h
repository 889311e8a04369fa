/* SPDX-License-Identifier: BSD-2-Clause */
/* datagram.h: what the verbs say of datagrams (UD): ibv_post_send(3), ibv_poll_cq(3). */
#ifndef LOGD_BASE_DATAGRAM_H
#define LOGD_BASE_DATAGRAM_H

#include <infiniband/verbs.h>

/*
 * Bytes in front of each datagram in the memory of its receive, which a completion counts, too: the GRH, where the network has
 * such headers; otherwise they are of no meaning.
 */
#define SR_DATAGRAM_HEADER ((uint32_t)sizeof(struct ibv_grh))

/* The number of a queue pair that stands for all members of a multicast group. */
#define SR_DATAGRAM_MULTICAST 0xffffffu

#endif
