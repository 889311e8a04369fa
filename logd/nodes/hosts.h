/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hosts.h: what this daemon has found out about other nodes' hosts.
 *
 * A host is known once its daemon has shown a job's key.  A host that could not be
 * reached is avoided for AVOID_MS.  The daemon's main thread only.
 */
#ifndef LOGD_NODES_HOSTS_H
#define LOGD_NODES_HOSTS_H

#include <stdbool.h>
#include <sys/socket.h>

#define AVOID_MS 10000

/* Zeroed by its owner. */
struct hosts {
	struct host *first;
};

bool hosts_is_known(struct hosts *h, const struct sockaddr_storage *a);
void hosts_make_known(struct hosts *h, const struct sockaddr_storage *a);

/* Also true where there is no memory to remember the host. */
bool hosts_is_avoided(struct hosts *h, const struct sockaddr_storage *a);
/* From now on; it is not known any more. */
void hosts_avoid(struct hosts *h, const struct sockaddr_storage *a);

void hosts_free(struct hosts *h);

#endif
