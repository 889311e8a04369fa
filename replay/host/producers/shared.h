/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shared.h: memory that processes share.  A member's CPU stores there through its own mapping, and
 * requests of peers go there, so that the write is in its memory's history; others find the bytes
 * through theirs.
 */
#ifndef REPLAY_HOST_PRODUCERS_SHARED_H
#define REPLAY_HOST_PRODUCERS_SHARED_H

#include "replay/host/producers/writes.h"

/* Is it memory that other processes share, and store into without a request? */
bool sr_is_shared(const struct sr_ended_group *e, uint32_t member, uint64_t addr);

/*
 * Adds the writes that came into this member's memory through other mappings of it, at their addresses
 * in this one.  0 or -ENOMEM.
 */
int sr_shared_add(const struct sr_ended_group *e, uint32_t member, struct sr_writes *m);

#endif
