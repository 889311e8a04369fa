/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own_facts.h: what a process reads of itself in /proc for the daemon.
 *
 * The daemon may not read it: of a process that has become another user, or whose executable nobody may read, unless it may trace
 * every process (which root in a container may not).
 */
#ifndef LOGD_RING_OWN_FACTS_H
#define LOGD_RING_OWN_FACTS_H

#include <stddef.h>
#include <sys/uio.h>

#include "logd/ring/protocol.h"

struct sr_own_facts {
	struct iovec texts[SR_FACTS]; /* of size 0: it cannot be read, or is too long */
	void *area;
};

void sr_own_facts_read(struct sr_own_facts *f);
void sr_own_facts_free(struct sr_own_facts *f);

#endif
