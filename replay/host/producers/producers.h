/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * producers.h: which rank wrote the bytes that entered a rank from memory, its own or
 * another's.  The command resolves that when all ranks of the group have ended.
 *
 * Which writes there were, and which came before a sample or after it, is then the same in
 * each replay: it depends on the trace, not on how fast the ranks were.
 */
#ifndef REPLAY_HOST_PRODUCERS_PRODUCERS_H
#define REPLAY_HOST_PRODUCERS_PRODUCERS_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/abi/group.h"
#include "replay/host/producers/writes.h"

struct sr_producers;

/* For the samples of member e->self.  NULL: no memory. */
struct sr_producers *sr_producers_new(const struct sr_ended_group *e);
void sr_producers_free(struct sr_producers *p);

/*
 * Resolves a pending record into what wrote its bytes, piece by piece; call in the order of
 * the samples.  0, or the first result of `add` that is not 0.
 */
int sr_producers_resolve(struct sr_producers *p, const struct sr_found_value *pending,
			 int (*add)(void *argument, const struct sr_found_value *found),
			 void *argument);

/* n bytes of a pending record's sample, from where the process has them at addr. */
void sr_producers_bytes(const struct sr_producers *p, const struct sr_found_value *pending,
			uint64_t addr, uint8_t *bytes, uint32_t n);

#endif
