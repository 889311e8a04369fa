/* SPDX-License-Identifier: BSD-2-Clause */
/* The consumer's side of a ring. */
#include "logd/ring/ring.h"

#include <errno.h>
#include <linux/membarrier.h>

#include "logd/ring/ring_futex.h"

size_t sr_ring_peek(struct sr_ring *r, const void **records)
{
	/* Acquire, paired with sr_ring_publish: the records up to head are whole. */
	r->head = atomic_load_explicit(&r->shared->head, memory_order_acquire);
	*records = r->data + (r->tail & r->mask);
	/* A program may have overwritten head, which must not lead out of the mapping. */
	if (r->head - r->tail > r->mask + 1)
		return 0;
	return r->head - r->tail;
}

void sr_ring_release(struct sr_ring *r, size_t bytes)
{
	struct sr_ring_shared *s = r->shared;

	r->tail += bytes;
	/* Release: the records have been read before the producer may overwrite them. */
	atomic_store_explicit(&s->tail, r->tail, memory_order_release);
	/* Full barrier, paired with that of wait_for_room. */
	atomic_thread_fence(memory_order_seq_cst);
	if (r->tail >= atomic_load_explicit(&s->room_at, memory_order_relaxed)) {
		atomic_store_explicit(&s->room_at, NOBODY_SLEEPS, memory_order_relaxed);
		atomic_fetch_add(&s->room, 1);
		futex_wake_all(&s->room);
	}
}

void sr_ring_arm(struct sr_ring *r, uint64_t bytes_waiting)
{
	atomic_store(&r->shared->wake_at, r->tail + bytes_waiting);
}

void sr_ring_disarm(struct sr_ring *r)
{
	atomic_store_explicit(&r->shared->wake_at, NOBODY_SLEEPS, memory_order_relaxed);
}

/*
 * A full barrier on each CPU that runs a producer, in place of the one that sr_ring_publish leaves
 * out: if a producer has loaded wake_at before it, its store of head is visible here.
 */
bool sr_ring_fence_producers(const struct sr_ring *r)
{
	atomic_thread_fence(memory_order_seq_cst);
	return r->shared->expedited && sr_sys_membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
}

#define UNFENCED_WAIT_MS 2

static int64_t time_to_sleep(const struct sr_ring *r, int64_t deadline)
{
	int64_t left = deadline < 0 ? -1 : deadline - sr_sys_now_ms();

	if (deadline >= 0 && left < 0)
		left = 0;
	if (sr_ring_fence_producers(r) || (left >= 0 && left < UNFENCED_WAIT_MS))
		return left;
	return UNFENCED_WAIT_MS;
}

int sr_ring_wait(struct sr_ring *r, int timeout_ms)
{
	int64_t deadline = timeout_ms < 0 ? -1 : sr_sys_now_ms() + timeout_ms;
	_Atomic uint32_t *word = &r->shared->wake;
	const void *records;

	for (;;) {
		uint32_t seen = atomic_load_explicit(word, memory_order_acquire);
		bool closed = sr_ring_closed(r);
		int64_t ms;

		if (sr_ring_peek(r, &records))
			return 1;
		if (closed)
			return -EPIPE;
		if (deadline >= 0 && sr_sys_now_ms() >= deadline)
			return 0;
		sr_ring_arm(r, 1);
		ms = time_to_sleep(r, deadline);
		if (!sr_ring_peek(r, &records) && !sr_ring_closed(r))
			futex_wait_ms(word, seen, ms);
		sr_ring_disarm(r);
	}
}

void sr_ring_stop(struct sr_ring_shared *s, int error)
{
	atomic_store(&s->stopped, error ? (uint32_t)error : EIO);
	atomic_fetch_add(&s->room, 1);
	futex_wake_all(&s->room);
}

uint64_t sr_ring_unmarked(const struct sr_ring *r, uint64_t *sns)
{
	*sns = atomic_load_explicit(&r->shared->unmarked_sns, memory_order_relaxed);
	return atomic_load_explicit(&r->shared->unmarked_records, memory_order_relaxed);
}

int sr_ring_resume_at(struct sr_ring *r, uint64_t position)
{
	const void *records;

	sr_ring_peek(r, &records);
	if (position < r->tail || position > r->head || (position & (SR_RECORD_ALIGN - 1)))
		return -EINVAL;
	if (position > r->tail)
		sr_ring_release(r, position - r->tail);
	return 0;
}
