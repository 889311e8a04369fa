/* SPDX-License-Identifier: BSD-2-Clause */
/* The producer's side of a ring: waiting for room, dropping, and records of any size. */
#include "logd/ring/ring.h"

#include <errno.h>
#include <string.h>

#include "logd/base/lock.h"
#include "logd/ring/ring_futex.h"

void sr_ring_set_lossy(struct sr_ring *r, bool lossy)
{
	r->lossy = lossy;
}

void sr_ring_set_wait_hook(struct sr_ring *r, void (*hook)(void *), void *argument)
{
	r->wait_argument = argument;
	r->wait_hook = hook;
}

void sr_ring_set_stop_hook(struct sr_ring *r, void (*hook)(int error))
{
	r->stop_hook = hook;
}

void sr_ring_set_doorbell(struct sr_ring *r, _Atomic uint32_t *doorbell)
{
	r->doorbell = doorbell ? doorbell : &r->shared->wake;
}

void sr_ring_wake_consumer(struct sr_ring *r)
{
	/* One wake-up for each time the consumer went to sleep. */
	if (atomic_exchange(&r->shared->wake_at, NOBODY_SLEEPS) == NOBODY_SLEEPS)
		return;
	atomic_fetch_add(r->doorbell, 1);
	futex_wake_all(r->doorbell);
}

/* Reads how far the consumer came: returns how far the producer may write. */
static uint64_t refresh_limit(struct sr_ring *r)
{
	/* Acquire: the consumer has read the old records before they are overwritten. */
	uint64_t tail = atomic_load_explicit(&r->shared->tail, memory_order_acquire);

	r->limit = tail + r->mask + 1;
	return r->limit;
}

static bool has_room(struct sr_ring *r, uint64_t need)
{
	return refresh_limit(r) >= r->head + need;
}

/*
 * Sleeps until the consumer has released enough, or for SR_RING_WAIT_MS.  Enough is at least an
 * eighth of the ring: woken for each record, both sides would spend their time switching.
 */
static void wait_for_room(struct sr_ring *r, uint64_t need)
{
	struct sr_ring_shared *s = r->shared;
	uint64_t size = r->mask + 1, eighth = size / 8;
	uint64_t until = r->head + (need > eighth ? need : eighth) - size;
	uint32_t seen = atomic_load_explicit(&s->room, memory_order_acquire);

	atomic_store_explicit(&s->room_at, until, memory_order_relaxed);
	/*
	 * Full barrier, paired with that of sr_ring_release: either the consumer sees room_at, or
	 * this side sees the new tail.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	/* The fast path has no barrier and may have missed that the consumer sleeps. */
	if (atomic_load_explicit(&s->wake_at, memory_order_relaxed) != NOBODY_SLEEPS)
		sr_ring_wake_consumer(r);
	if (!has_room(r, need))
		futex_wait_ms(&s->room, seen, SR_RING_WAIT_MS);
	atomic_store_explicit(&s->room_at, NOBODY_SLEEPS, memory_order_relaxed);
}

/* Also in a fault handler of the program's code, where nobody else must take it for a sleep of the program. */
static bool wait_until_room(struct sr_ring *r, uint64_t need)
{
	_Atomic int32_t *sleeper = sr_lock_sleep_begins();
	bool room;

	atomic_fetch_add_explicit(&r->shared->waits, 1, memory_order_relaxed);
	while (!(room = has_room(r, need))) {
		wait_for_room(r, need);
		if (sr_ring_stopped(r))
			break;
		if (r->wait_hook)
			r->wait_hook(r->wait_argument);
	}
	sr_lock_sleep_ends(sleeper);
	return room;
}

void sr_ring_lose(struct sr_ring *r, uint16_t kind)
{
	struct sr_ring_shared *s = r->shared;
	uint32_t sns = kind >= SR_REC_CALL;

	/* The next reserve takes the slow path: to write the mark, or to find the ring stopped. */
	r->limit = 0;
	if (sr_ring_stopped(r)) {
		if (r->stop_hook)
			r->stop_hook(sr_ring_stop_error(r));
		r->stop_hook = NULL;
		return;
	}
	/* Atomic, since a signal handler of this thread may interrupt this. */
	atomic_fetch_add_explicit(&s->lost_records, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&s->unmarked_records, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&s->unmarked_sns, sns, memory_order_relaxed);
}

static bool has_unmarked(const struct sr_ring *r)
{
	return atomic_load_explicit(&r->shared->unmarked_records, memory_order_relaxed) != 0;
}

#define MARK_BYTES (sizeof(struct sr_record) + sizeof(struct sr_mark_payload))

/* Not by reserve and commit, since this runs within a reserve. */
static void write_hole_mark(struct sr_ring *r)
{
	struct sr_record *record = (struct sr_record *)(r->data + (r->head & r->mask));
	struct sr_mark_payload *mark = (struct sr_mark_payload *)(record + 1);
	struct sr_ring_shared *s = r->shared;
	uint64_t records = atomic_load_explicit(&s->unmarked_records, memory_order_relaxed);
	uint64_t sns = atomic_load_explicit(&s->unmarked_sns, memory_order_relaxed);

	record->size = MARK_BYTES;
	record->kind = SR_REC_MARK;
	record->flags = 0;
	mark->reason = SR_MARK_DROPPED;
	mark->flags = 0;
	mark->argument = records;
	mark->skipped_sns = sns;
	sr_ring_publish(r, r->head + sr_record_padded(MARK_BYTES));
	atomic_fetch_sub_explicit(&s->unmarked_records, records, memory_order_relaxed);
	atomic_fetch_sub_explicit(&s->unmarked_sns, sns, memory_order_relaxed);
}

/* Makes room for `need` bytes, and writes the mark of a hole in front, if there is one. */
static bool make_room_and_mark(struct sr_ring *r, uint64_t need)
{
	uint64_t mark = has_unmarked(r) ? sr_record_padded(MARK_BYTES) : 0;

	if (sr_ring_stopped(r))
		return false;
	if (!has_room(r, need + mark) && (r->lossy || !wait_until_room(r, need + mark)))
		return false;
	if (mark)
		write_hole_mark(r);
	return true;
}

bool sr_ring_make_room(struct sr_ring *r, uint16_t kind, uint64_t need)
{
	uint64_t largest = sr_record_padded(r->max_payload + sizeof(struct sr_record));

	if (need <= largest && make_room_and_mark(r, need))
		return true;
	sr_ring_lose(r, kind);
	return false;
}

/* How far a copy from several buffers has come. */
struct gather {
	const struct iovec *iov;
	size_t offset;
};

static void gather_copy(struct gather *from, unsigned char *to, size_t size)
{
	while (size) {
		size_t n = from->iov->iov_len - from->offset;

		if (n > size)
			n = size;
		memcpy(to, (const unsigned char *)from->iov->iov_base + from->offset, n);
		to += n;
		size -= n;
		from->offset += n;
		if (from->offset == from->iov->iov_len) {
			from->iov++;
			from->offset = 0;
		}
	}
}

static void put_piece(struct sr_ring *r, uint16_t kind, uint16_t flags, struct gather *from,
		      uint32_t payload)
{
	struct sr_record *record = (struct sr_record *)(r->data + (r->head & r->mask));
	uint32_t size = sizeof(*record) + payload, padded = sr_record_padded(size);

	record->size = size;
	record->kind = kind;
	record->flags = flags;
	gather_copy(from, (unsigned char *)(record + 1), payload);
	memset((unsigned char *)record + size, 0, padded - size);
	sr_ring_publish(r, r->head + padded);
}

/*
 * What all pieces of a record take.  A lossy ring begins a record only if there is room for all
 * of it, since it never waits; so it always drops a record that is larger than the ring.
 */
static uint64_t room_of_all_pieces(const struct sr_ring *r, uint64_t total)
{
	uint64_t pieces = total / r->max_payload + 1;

	return total + pieces * (sizeof(struct sr_record) + SR_RECORD_ALIGN);
}

static int write_pieces(struct sr_ring *r, uint16_t kind, uint16_t flags, const struct iovec *iov,
			uint64_t total, uint64_t *begin)
{
	struct gather from = {.iov = iov};

	if (!make_room_and_mark(r, r->lossy ? room_of_all_pieces(r, total) : 0))
		return -EPIPE;
	*begin = r->head;
	do {
		uint32_t payload = total > r->max_payload ? r->max_payload : (uint32_t)total;
		uint64_t need = sr_record_padded(sizeof(struct sr_record) + payload);

		if (!has_room(r, need) && !wait_until_room(r, need))
			return -EPIPE;
		total -= payload;
		put_piece(r, kind, total ? flags | SR_RECORD_MORE : flags, &from, payload);
	} while (total);
	return 0;
}

const void *sr_ring_written(const struct sr_ring *r, uint64_t begin, uint64_t offset, uint64_t size,
			    uint64_t *position)
{
	const uint64_t header = sizeof(struct sr_record), most = r->max_payload;

	if (offset % most + size > most)
		return NULL;
	*position = begin + offset / most * sr_record_padded((uint32_t)(header + most)) + header + offset % most;
	return r->head - *position > r->mask ? NULL : r->data + (*position & r->mask);
}

int sr_ring_writev(struct sr_ring *r, uint16_t kind, const struct iovec *iov, int n)
{
	uint64_t begin;

	return sr_ring_writev_at(r, kind, 0, iov, n, &begin);
}

int sr_ring_writev_at(struct sr_ring *r, uint16_t kind, uint16_t flags, const struct iovec *iov, int n,
		      uint64_t *begin)
{
	uint64_t total = 0;
	int ret;

	if (r->busy) {
		sr_ring_lose(r, kind);
		return -EBUSY;
	}
	r->busy = 1; /* as in sr_ring_reserve; for all pieces, so that nothing gets between them */
	atomic_signal_fence(memory_order_seq_cst);
	for (int i = 0; i < n; i++)
		total += iov[i].iov_len;
	ret = total > SR_RECORD_MAX ? -EMSGSIZE : write_pieces(r, kind, flags, iov, total, begin);
	if (ret)
		sr_ring_lose(r, kind);
	atomic_signal_fence(memory_order_seq_cst);
	r->busy = 0;
	return ret;
}

void sr_ring_lose_sns(struct sr_ring *r, uint64_t sns)
{
	if (!sr_ring_stopped(r))
		atomic_fetch_add_explicit(&r->shared->unmarked_sns, sns, memory_order_relaxed);
}

void sr_ring_set_unfinished(struct sr_ring *r, uint32_t i, uint16_t kind, const void *payload, size_t size)
{
	uint64_t words[SR_RING_UNFINISHED_WORDS] = {0};
	struct sr_ring_unfinished *u;

	if (!r->shared)
		return;
	u = &r->shared->unfinished[i];
	if (size)
		memcpy(words, payload, size);
	for (uint32_t w = 0; w < SR_RING_UNFINISHED_WORDS; w++)
		atomic_store_explicit(&u->word[w], words[w], memory_order_relaxed);
	atomic_store_explicit(&u->kind, kind, memory_order_release);
}

void sr_ring_close(struct sr_ring *r)
{
	if (has_unmarked(r) && !r->busy)
		make_room_and_mark(r, 0);
	sr_ring_close_of_other_thread(r);
}

void sr_ring_close_of_other_thread(struct sr_ring *r)
{
	/* Release: a consumer that sees it closed sees the last head. */
	atomic_store_explicit(&r->shared->closed, 1, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst); /* as a commit would need: see sr_ring_publish */
	sr_ring_wake_consumer(r);
}
