/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * emit.h: puts a record into the thread's ring.
 *
 * What each recorded call needs is inline. Called inside a section (sr_enter), in a thread
 * that has a stream.
 */
#ifndef SHIM_RECORD_EMIT_H
#define SHIM_RECORD_EMIT_H

#include <string.h>

#include "shim/core/call.h"
#include "shim/core/thread.h"
#include "shim/record/stamps.h"

bool sr_emit_in_pieces(struct sr_thread *t, uint16_t kind, const void *payload, size_t size);

/* False if it was dropped (--lossy, or a daemon that has given up). */
bool sr_emit(struct sr_thread *t, uint16_t kind, const void *payload, size_t size);

/* Writes the time, if it has moved. */
void sr_emit_stamp(struct sr_thread *t);

/* Writes a record of the calls that were only counted. */
void sr_emit_repeats(struct sr_thread *t);

/* Writes what is held back (commutes.h). */
void sr_emit_held(struct sr_thread *t);

/* Writes a record of the thread's sums, if there is anything new in them. */
void sr_emit_check(struct sr_thread *t);

/* Writes how many points the thread has passed since its last call (sr_engine's passes), in front of a record between calls. */
void sr_emit_passed(struct sr_thread *t);

/* Writes a call's record, copying the received bytes from where they arrived. */
void sr_emit_gathered(struct sr_thread *t, uint16_t kind, const struct sr_received *received);

/*
 * A usual record is too short for a call of memcpy to pay. Overlapping copies cover the
 * last bytes.
 */
static inline __attribute__((always_inline)) void copy_payload(uint8_t *to, const uint8_t *from,
							       size_t n)
{
	const size_t step = 32;

	if (__builtin_expect(n < step || n > 256, 0)) {
		memcpy(to, from, n);
		return;
	}
	__builtin_memcpy(to, from, step);
	if (n > 2 * step) {
		__builtin_memcpy(to + step, from + step, step);
		for (size_t i = 2 * step; i + step < n; i += step)
			__builtin_memcpy(to + i, from + i, step);
	}
	__builtin_memcpy(to + n - step, from + n - step, step);
}

/* Of a size that fits into the ring. */
static inline bool __attribute__((always_inline))
emit_whole(struct sr_thread *t, uint16_t kind, uint16_t flags, const void *payload, size_t size)
{
	void *room = sr_ring_reserve(&t->ring, kind, (uint32_t)size);

	if (!room)
		return false;
	((struct sr_record *)room)[-1].flags = flags;
	copy_payload(room, payload, size);
	sr_ring_commit_all(&t->ring, (uint32_t)size);
	return true;
}

/* False if it was dropped (--lossy, or a daemon that has given up). */
static inline bool __attribute__((always_inline))
sr_emit_inline(struct sr_thread *t, uint16_t kind, const void *payload, size_t size)
{
	if (__builtin_expect(size > sr_ring_max_payload(&t->ring), 0))
		return sr_emit_in_pieces(t, kind, payload, size);
	return emit_whole(t, kind, 0, payload, size);
}

static inline void sr_flush_repeats(struct sr_thread *t)
{
	if (__builtin_expect(t->commutes.holds, 0))
		sr_emit_held(t);
	if (t->repeats)
		sr_emit_repeats(t);
}

static inline uint64_t word_at(const uint8_t *p)
{
	uint64_t word;

	__builtin_memcpy(&word, p, sizeof(word));
	return word;
}

/*
 * Compares two call records; too short for a call of memcmp to pay. A word that was stored in parts a moment ago can be
 * loaded only when these have left the processor's buffer: so what was stored first is compared first, the arguments.
 */
static inline bool is_same(const uint8_t *a, const uint8_t *b, size_t n)
{
	for (size_t i = sizeof(struct sr_call_head); i + 8 <= n; i += 8)
		if (word_at(a + i) != word_at(b + i))
			return false;
	for (size_t i = 0; i < sizeof(struct sr_call_head); i += 8)
		if (word_at(a + i) != word_at(b + i))
			return false;
	return word_at(a + n - 8) == word_at(b + n - 8);
}

/*
 * Idle polling repeats one call with one result, so repeats are counted and not written.
 */
static inline bool is_repeat(const struct sr_thread *t, uint16_t kind)
{
	const struct sr_buf *b = &t->buf, *last = &t->last;

	return kind == t->last_kind && b->len <= SR_REPEAT_MAX && !t->received.gathered && b->len == last->len &&
	       b->len >= sizeof(struct sr_call_head) && is_same(b->p, last->p, b->len);
}

static inline void keep(struct sr_thread *t, uint16_t kind)
{
	struct sr_buf last = t->last;

	t->last = t->buf;
	t->last_kind = kind;
	t->buf = last;
	t->idle.last_is_kept = false;
}

static inline void __attribute__((always_inline)) sr_emit_call(struct sr_thread *t, uint16_t kind)
{
	const struct sr_buf *b = &t->buf;

	if (is_repeat(t, kind)) {
		t->repeats++;
		return;
	}
	sr_flush_repeats(t);
	if (__builtin_expect(sr_stamps_on, 0))
		sr_emit_stamp(t);
	if (t->received.gathered) {
		sr_emit_gathered(t, kind, &t->received);
		return;
	}
	/* A repeat refers to the previous record, so that one must have been written. */
	if (sr_emit_inline(t, kind, b->p, b->len) && b->len <= SR_REPEAT_MAX)
		keep(t, kind);
	else
		t->last.len = 0;
}

/* The same of a call that may come again in a cycle (cycle.h).  True: its record is the last of these in the stream. */
static inline bool sr_emit_kept(struct sr_thread *t, uint16_t kind)
{
	const struct sr_buf *b = &t->buf;
	const uint64_t position = t->ring.head;

	if (is_repeat(t, kind) || sr_stamps_on || t->received.gathered || b->len > SR_IDLE_BYTES) {
		sr_emit_call(t, kind);
		return t->last.len && t->idle.last_is_kept;
	}
	sr_flush_repeats(t);
	if (!emit_whole(t, kind, SR_RECORD_KEPT, b->p, b->len)) {
		t->last.len = 0;
		return false;
	}
	keep(t, kind);
	t->idle.last_is_kept = true;
	t->idle.kept++;
	t->idle.position = position;
	return true;
}

#endif
