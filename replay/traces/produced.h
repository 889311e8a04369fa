/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * produced.h: reads what a replayed process wrote to its file of produced values
 * (replay/abi/produced.h).
 *
 * The entries of each thread are read in their order.  What the file says is checked, but for the bytes
 * themselves: those of the process were.
 */
#ifndef REPLAY_TRACES_PRODUCED_H
#define REPLAY_TRACES_PRODUCED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/abi/produced.h"

struct sr_produced {
	const uint8_t *bytes; /* of the whole file */
	size_t size;
};

/* 0 or -errno.  The descriptor stays the caller's. */
int sr_produced_open(struct sr_produced *p, int fd);
void sr_produced_close(struct sr_produced *p);

/*
 * The thread's next value, which must be of `length` bytes, from *at on, which is 0 at first.  NULL:
 * there is none.
 */
const uint8_t *sr_produced_next(const struct sr_produced *p, uint32_t thread, uint32_t length,
				size_t *at);

/* Is the thread's next value none?  Then *at is behind it. */
bool sr_produced_none(const struct sr_produced *p, uint32_t thread, size_t *at);

#endif
