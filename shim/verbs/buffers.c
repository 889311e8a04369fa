/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/buffers.h"

#include "logd/base/checksum.h"
#include "shim/memory/room.h"
#include "shim/verbs/regions.h"
#include "shim/verbs/wq.h"

/* Buffers that share a place are taken for one. */
#define PLACES_BITS 16

/* With how many receives are outstanding in a place: there were several at a time since there was none. */
#define COMMON (1u << 31)

static void *_Atomic places;

/* NULL: it has no buffer, or nothing is known of it. */
static _Atomic uint32_t *place_of(const struct sr_wqe *wqe)
{
	_Atomic uint32_t *p = wqe->num_sge ? sr_alloc_once(&places, sizeof(*p) << PLACES_BITS) : NULL;

	return p ? &p[wqe->sge[0].addr * 0x9e3779b97f4a7c15ull >> (64 - PLACES_BITS)] : NULL;
}

/* Messages differ in their first bytes, or not at all. */
#define BEGINNING 64

/*
 * 0: not known.  What came into exposed memory is recorded where the program loads it, so that nobody asks; and the shim's own
 * loads would fault there.
 */
static uint64_t beginning_of(const struct sr_wqe *wqe)
{
	const struct ibv_sge *sge = wqe->sge;
	uint32_t n = wqe->num_sge && sge->length < BEGINNING ? sge->length : BEGINNING;
	const void *p = wqe->num_sge ? sr_mr_memory(wqe->wq->context, sge->lkey, sge->addr, n) : NULL;

	return p && !(sr_regions_on && sr_exposed_touches(p, n)) ? sr_checksum(p, n, 0) : 0;
}

bool sr_buffers_are_untouched(const struct sr_wqe *wqe)
{
	return wqe->beginning && wqe->beginning == beginning_of(wqe);
}

void sr_buffers_post(struct sr_wqe *wqe)
{
	_Atomic uint32_t *place = place_of(wqe);
	uint32_t was;

	wqe->beginning = beginning_of(wqe);
	if (!place)
		return;
	was = atomic_load_explicit(place, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(place, &was, (was + 1) | (was ? COMMON : 0)))
		;
}

bool sr_buffers_complete(const struct sr_wqe *wqe)
{
	_Atomic uint32_t *place = place_of(wqe);
	uint32_t was;

	if (!place)
		return false;
	was = atomic_load_explicit(place, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(place, &was, (was & ~COMMON) == 1 ? 0 : was - 1))
		;
	return was & COMMON;
}
