/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * area.h: the rings of up to SR_AREA_SLOTS threads of one process, in one memfd.
 *
 * So a live thread costs no descriptor, and neither its beginning nor its end a request to the
 * daemon.  The daemon makes the memfd, so that the limits of the recorded process (files' sizes) do
 * not matter.
 *
 * A slot is free or open.  The process opens one for a thread; from then on the daemon serves it,
 * until the ring is closed and written.  Then the daemon frees it.  What a process leaves open when
 * it or the daemon dies is there for the daemon, or for its successor.
 *
 * Sizes that come from the other side are checked once, by sr_area_attach.  Functions return 0 or
 * -errno unless they say otherwise.
 */
#ifndef LOGD_RING_AREA_H
#define LOGD_RING_AREA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/ring/ring.h"

#define SR_AREA_SLOTS 1024u

enum sr_slot_state {
	SR_SLOT_FREE,
	SR_SLOT_OPEN,
};

/* First pages of the memfd; the rings follow. */
struct sr_area_shared {
	uint64_t magic;
	uint32_t version;
	uint32_t slots;
	uint64_t ring_bytes; /* of a ring's data area */
	_Atomic uint32_t unrecorded; /* in the first area: processes that this one started, which its recording does not have */
	/* How many slots were opened, and freed, since the area was made. */
	_Alignas(64) _Atomic uint32_t opened;
	_Alignas(64) _Atomic uint32_t freed;
	struct {
		_Atomic uint32_t state;
		uint32_t thread;
	} slot[SR_AREA_SLOTS];
};

/* One side's handle. */
struct sr_area {
	struct sr_area_shared *shared;
	uint32_t slots;
	uint64_t ring_bytes;
	int fd;
};

/*
 * Makes an area for rings of ring_bytes, with fewer slots if the process may not make files of that
 * size, and attaches to it.  In the daemon.
 */
int sr_area_create(struct sr_area *a, size_t ring_bytes);

/* Attaches to an existing area.  On success the handle owns memfd, on failure the caller. */
int sr_area_attach(struct sr_area *a, int memfd);

/* Unmaps the header, not the rings, and closes fd. */
void sr_area_detach(struct sr_area *a);

/* Maps the ring of a slot.  `at`: where it is mapped already, or NULL. */
int sr_area_ring(const struct sr_area *a, uint32_t slot, enum sr_ring_side side,
		 struct sr_ring_shared *at, struct sr_ring *r);

/*
 * The process: opens the slot, whose ring (of side SR_RING_PRODUCER) is empty from then on.  The
 * daemon sees it at the ring's first record.
 */
void sr_area_open_slot(struct sr_area *a, uint32_t slot, uint32_t thread, struct sr_ring *r);

/* The daemon: all of the slot's ring is written, of which `used` bytes had been used. */
void sr_area_free_slot(struct sr_area *a, uint32_t slot, uint64_t used);

static inline bool sr_area_is_open(const struct sr_area *a, uint32_t slot)
{
	return atomic_load_explicit(&a->shared->slot[slot].state, memory_order_acquire) ==
	       SR_SLOT_OPEN;
}

#endif
