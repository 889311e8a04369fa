/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/buffers.h"

#include "shim/memory/heap.h"

/* Buffers that share a place are taken for one. */
#define PLACES_BITS 16

static _Atomic uint32_t *_Atomic places; /* how many receives are outstanding in each */

/* NULL: no memory. */
static _Atomic uint32_t *get_places(void)
{
	_Atomic uint32_t *p = atomic_load_explicit(&places, memory_order_acquire), *none = NULL;

	if (p)
		return p;
	p = sr_alloc_zeroed(sizeof(*p) << PLACES_BITS);
	if (p && !atomic_compare_exchange_strong(&places, &none, p)) {
		sr_free((void *)p);
		p = none;
	}
	return p;
}

/* NULL: it has no buffer, or nothing is known of it. */
static _Atomic uint32_t *place_of(const struct sr_wqe *wqe)
{
	_Atomic uint32_t *p = wqe->num_sge ? get_places() : NULL;

	return p ? &p[wqe->sge[0].addr * 0x9e3779b97f4a7c15ull >> (64 - PLACES_BITS)] : NULL;
}

void sr_buffers_post(const struct sr_wqe *wqe)
{
	_Atomic uint32_t *place = place_of(wqe);

	if (place)
		atomic_fetch_add_explicit(place, 1, memory_order_relaxed);
}

bool sr_buffers_complete(const struct sr_wqe *wqe)
{
	_Atomic uint32_t *place = place_of(wqe);

	return place && atomic_fetch_sub_explicit(place, 1, memory_order_relaxed) > 1;
}
