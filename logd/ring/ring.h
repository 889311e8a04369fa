/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring.h: records from one thread of one process to another process.
 *
 * A ring is a sealed memfd with one producer and one consumer.  Its data area is mapped twice, back
 * to back, so that no record wraps.  A recorded thread is the producer for sreplay-logd;
 * `sreplay replay` is the producer for each thread of the replayed process.
 *
 * Each side may be killed at any time.  What a producer committed is in the memfd; what it only
 * reserved was never visible.  The next consumer starts at the tail that the last one released.
 *
 * Nothing here allocates, changes errno or calls a libc function that libsreplay_verbs.so
 * intercepts.  A handle (struct sr_ring) belongs to one thread.  A signal handler of that thread
 * may call the producer's functions too; within a reservation they refuse.
 *
 * Sizes and positions are in bytes; a position counts them since the ring was made.  Functions
 * that return int return 0 or -errno unless they say otherwise.
 */
#ifndef LOGD_RING_RING_H
#define LOGD_RING_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <sreplay/trace.h>

#define SR_RING_MIN_BYTES (64u << 10)
#define SR_RING_MAX_BYTES (1u << 30)
/* No record in a ring has more payload than this (nor more than half of the ring). */
#define SR_RING_MAX_PIECE ((1u << 20) - sizeof(struct sr_record))

enum sr_ring_side {
	SR_RING_PRODUCER,
	SR_RING_CONSUMER,
};

/*
 * A record of a few words that its producer still changes.  If the process ends without a word, the daemon writes it as it
 * is then.
 */
#define SR_RING_UNFINISHED	 96
#define SR_RING_UNFINISHED_WORDS 3

struct sr_ring_unfinished {
	_Atomic uint64_t kind; /* 0: there is none; raised last */
	_Atomic uint64_t word[SR_RING_UNFINISHED_WORDS];
};

/* What the two sides share: first page of the memfd.  The data area follows. */
struct sr_ring_shared {
	uint64_t magic;
	uint32_t version;
	uint32_t header_bytes;
	uint64_t data_bytes; /* a power of two */
	uint32_t expedited;  /* the producer's process is registered for membarrier */
	_Atomic uint32_t
	    stopped; /* errno of the consumer that gave up; the producer drops from then on */
	_Atomic uint32_t closed; /* the producer is done */

	/* The producer's: how far records are committed. */
	_Alignas(64) _Atomic uint64_t head;
	_Atomic uint64_t flush_to; /* the process waits until this position is written */
	/* How many calls are under way that write, and whose records will follow. */
	_Atomic uint32_t writing;
	/* The consumer's: how far they may be overwritten. */
	_Alignas(64) _Atomic uint64_t tail;

	/*
	 * Waking the consumer: it writes the position at which it wants to be
	 * woken, UINT64_MAX while it is awake.  A line of its own: the
	 * producer reads it at each commit, and nearly always finds it cached.
	 */
	_Alignas(64) _Atomic uint64_t wake_at;
	_Atomic uint32_t wake; /* futex, unless the producer was given a doorbell */

	/* Waking the producer: the tail it waits for, UINT64_MAX if it does not. */
	_Alignas(64) _Atomic uint64_t room_at;
	_Atomic uint32_t room; /* futex */

	/* Dropped since the last SR_MARK_DROPPED; the producer marks them next, or the daemon at
	 * the end. */
	_Alignas(64) _Atomic uint64_t unmarked_records;
	_Atomic uint64_t unmarked_sns;
	/* For the daemon's report. */
	_Atomic uint64_t lost_records;
	_Atomic uint64_t waits;

	struct sr_ring_unfinished unfinished[SR_RING_UNFINISHED];
};

/* One side's handle.  The fields are private to this header and its modules, but for fd. */
struct sr_ring {
	struct sr_ring_shared *shared;
	unsigned char *data;
	uint64_t mask;
	uint64_t head;  /* producer: where the next record goes */
	uint64_t limit; /* producer: how far it may write without looking at the tail */
	uint64_t tail;  /* consumer: where the next record is */
	uint32_t max_payload;
	enum sr_ring_side side;
	/* producer: within a reservation; signal handlers of the thread look at it */
	volatile uint32_t busy;
	bool lossy;
	_Atomic uint32_t *doorbell;
	void (*wait_hook)(void *argument);
	void *wait_argument;
	void (*stop_hook)(int error); /* producer */
};

/* How many bytes of a file a ring with this data area takes. */
uint64_t sr_ring_file_bytes(uint64_t data_bytes);

/* May a ring's data area have this size? */
static inline bool sr_ring_is_size(uint64_t data_bytes)
{
	return data_bytes >= SR_RING_MIN_BYTES && data_bytes <= SR_RING_MAX_BYTES && !(data_bytes & (data_bytes - 1));
}

/* Makes a file in memory whose size neither side can change.  A descriptor, or -errno. */
int sr_ring_memfd(uint64_t size);
bool sr_ring_is_sealed(int memfd);

/*
 * Makes a file in memory for so many rings, one behind the other, whose size stays as it is.  data_bytes: of each, a power
 * of two between SR_RING_MIN_BYTES and SR_RING_MAX_BYTES.  A descriptor, which the caller may close once the rings are
 * mapped; or -errno.
 */
int sr_ring_file_create(uint32_t rings, uint64_t data_bytes);

/*
 * Attaches to a ring in a file, whose sizes the caller knows or has checked (area.h), as one side or in place of a side
 * that died.  at: where its `shared` is mapped already, or NULL.  A consumer checks the ring (-EINVAL, -EPROTO: it is none
 * of this version); a producer begins with sr_ring_renew.  sr_ring_detach ends it.
 */
int sr_ring_map(struct sr_ring *r, int fd, uint64_t offset, uint64_t data_bytes,
		enum sr_ring_side side, struct sr_ring_shared *at);

/* The producer empties the ring, of which there is no consumer, for another thread. */
void sr_ring_renew(struct sr_ring *r);

/* Unmaps the ring.  The other side does not notice: see sr_ring_close. */
void sr_ring_detach(struct sr_ring *r);

/* The same of a ring of which only its place is known, without a look at it. */
void sr_ring_unmap(struct sr_ring_shared *at, size_t data_bytes);

/* ---- producer ---- */

/*
 * Where there is no room, the producer drops the record instead of waiting, and marks the hole in
 * the stream.  A record that is larger than the whole ring is always dropped then.
 */
void sr_ring_set_lossy(struct sr_ring *r, bool lossy);

/*
 * hook is called every SR_RING_WAIT_MS while the producer waits for room, in its thread.  It
 * may call sr_ring_stop.
 */
#define SR_RING_WAIT_MS 20
void sr_ring_set_wait_hook(struct sr_ring *r, void (*hook)(void *), void *argument);

/* hook is called once, in the producer's thread, at its first record after a sr_ring_stop. */
void sr_ring_set_stop_hook(struct sr_ring *r, void (*hook)(int error));

/* The consumer sleeps on this futex word, which many rings share; NULL: on the ring's own. */
void sr_ring_set_doorbell(struct sr_ring *r, _Atomic uint32_t *doorbell);

static inline uint32_t sr_ring_max_payload(const struct sr_ring *r)
{
	return r->max_payload;
}

/* Is this thread within a reservation, so that a handler's reserve would fail? */
static inline bool sr_ring_busy(const struct sr_ring *r)
{
	return r->busy != 0;
}

/* Writes a record of any size, in SR_RECORD_MORE pieces if need be.  -EBUSY: within a
 * reservation; -EPIPE: it was dropped; -EMSGSIZE: so was this one, over SR_RECORD_MAX. */
int sr_ring_writev(struct sr_ring *r, uint16_t kind, const struct iovec *iov, int n);

/* The same with these flags.  *begin: the position of the record, that is, of its first piece. */
int sr_ring_writev_at(struct sr_ring *r, uint16_t kind, uint16_t flags, const struct iovec *iov, int n,
		      uint64_t *begin);

/*
 * Of the record that was written last, at `begin`: where the `size` bytes at `offset` of its payload
 * are, and their position.  NULL: in two pieces, or overwritten by later ones.
 */
const void *sr_ring_written(const struct sr_ring *r, uint64_t begin, uint64_t offset, uint64_t size,
			    uint64_t *position);

/* Changes unfinished record number `i`; size: at most SR_RING_UNFINISHED_WORDS words.  kind 0: there is none any more. */
void sr_ring_set_unfinished(struct sr_ring *r, uint32_t i, uint16_t kind, const void *payload, size_t size);

/* No more records will come.  All that was committed stays readable. */
void sr_ring_close(struct sr_ring *r);

/*
 * The same for another thread's ring, whose producer may still be writing: what it commits from
 * here on may be lost.  The daemon marks a hole that the producer had not marked yet.
 */
void sr_ring_close_of_other_thread(struct sr_ring *r);

/* The record that was dropped last stood for so many more calls than its kind says. */
void sr_ring_lose_sns(struct sr_ring *r, uint64_t sns);

/* Slow paths of the two functions below. */
bool sr_ring_make_room(struct sr_ring *r, uint16_t kind, uint64_t need);
void sr_ring_lose(struct sr_ring *r, uint16_t kind);
void sr_ring_wake_consumer(struct sr_ring *r);

/*
 * Room for a record of this kind with up to `payload` bytes, 8-byte aligned; waits for it.  The
 * caller fills it in and calls a commit function, or sr_ring_cancel.  NULL: the record is dropped,
 * and nothing may be committed: the ring is lossy and full, or stopped, or the thread is within a
 * reservation, or `payload` is over sr_ring_max_payload.
 */
static inline void *sr_ring_reserve(struct sr_ring *r, uint16_t kind, uint32_t payload)
{
	uint64_t need = ((uint64_t)payload + sizeof(struct sr_record) + SR_RECORD_ALIGN - 1) &
			~(uint64_t)(SR_RECORD_ALIGN - 1);
	struct sr_record *record;

	if (__builtin_expect(r->busy, 0)) {
		sr_ring_lose(r, kind);
		return NULL;
	}
	r->busy = 1;
	/*
	 * A signal handler that interrupts before busy is set writes a whole record of its own; one
	 * that interrupts later finds busy.  So head is loaded only after busy is set.
	 */
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(payload > r->max_payload || r->head + need > r->limit, 0)) {
		if (!sr_ring_make_room(r, kind, need)) {
			atomic_signal_fence(memory_order_seq_cst);
			r->busy = 0;
			return NULL;
		}
	}
	record = (struct sr_record *)(r->data + (r->head & r->mask));
	/*
	 * The lines ahead are in the consumer's cache since it read them a lap ago: fetched now,
	 * they are here when the next records need them.
	 */
	__builtin_prefetch((char *)record + 512, 1);
	__builtin_prefetch((char *)record + 576, 1);
	/* Padding, if it needs any, is in the last word. */
	*(uint64_t *)((char *)record + need - sizeof(uint64_t)) = 0;
	record->size = sizeof(*record) + payload;
	record->kind = kind;
	record->flags = 0;
	return record + 1;
}

/*
 * Around a call that writes, until its record is committed.  If the process ends in between, nobody
 * knows how much was written, and the daemon says so.
 */
static inline void sr_ring_begin_write(struct sr_ring *r)
{
	uint32_t n = atomic_load_explicit(&r->shared->writing, memory_order_relaxed);

	atomic_store_explicit(&r->shared->writing, n + 1, memory_order_relaxed);
}

static inline void sr_ring_end_write(struct sr_ring *r)
{
	uint32_t n = atomic_load_explicit(&r->shared->writing, memory_order_relaxed);

	atomic_store_explicit(&r->shared->writing, n - 1, memory_order_relaxed);
}

/* Ends a reservation without a record. */
static inline void sr_ring_cancel(struct sr_ring *r)
{
	atomic_signal_fence(memory_order_seq_cst);
	r->busy = 0;
}

/* Makes the head visible, and wakes the consumer if it asked for that. */
static inline void sr_ring_publish(struct sr_ring *r, uint64_t head)
{
	r->head = head;
	/* Release: a consumer that sees the new head sees the record in front of it. */
	atomic_store_explicit(&r->shared->head, head, memory_order_release);
	/*
	 * Without a full barrier between this store and the load, the consumer can go to sleep
	 * unnoticed.  The barrier would be most of a record's cost, so the consumer makes it for
	 * both sides: sr_ring_fence_producers.
	 */
	if (__builtin_expect(
		head >= atomic_load_explicit(&r->shared->wake_at, memory_order_relaxed), 0))
		sr_ring_wake_consumer(r);
}

/* Publishes the reserved record with its final payload size, at most the reserved one. */
static inline void sr_ring_commit(struct sr_ring *r, uint32_t payload)
{
	unsigned char *start = r->data + (r->head & r->mask);
	struct sr_record *record = (struct sr_record *)start;
	uint32_t size = sizeof(*record) + payload;
	uint32_t padded = sr_record_padded(size);

	if (record->size != size) {
		record->size = size;
		for (uint32_t i = size; i < padded; i++)
			start[i] = 0;
	}
	sr_ring_publish(r, r->head + padded);
	atomic_signal_fence(memory_order_seq_cst);
	r->busy = 0;
}

/* The same where the payload is as large as was reserved. */
static inline void sr_ring_commit_all(struct sr_ring *r, uint32_t payload)
{
	sr_ring_publish(r,
			r->head + sr_record_padded((uint32_t)sizeof(struct sr_record) + payload));
	atomic_signal_fence(memory_order_seq_cst);
	r->busy = 0;
}

/* ---- consumer ---- */

/*
 * How many bytes of whole committed records there are, and where; 0: none.  The sizes in them come
 * from the producer, so a daemon checks them.
 */
size_t sr_ring_peek(struct sr_ring *r, const void **records);

/* The first `bytes` of what sr_ring_peek returned may be overwritten from now on. */
void sr_ring_release(struct sr_ring *r, size_t bytes);

/*
 * Sleeps until there are records.  1: there are; 0: the time is over; -EPIPE: there are none and
 * the producer has closed the ring.  timeout_ms < 0: no limit.
 */
int sr_ring_wait(struct sr_ring *r, int timeout_ms);

/*
 * For a consumer of many rings, which sleeps on a doorbell: it arms all rings, fences once, looks
 * at all of them again, and sleeps if each has fewer than bytes_waiting.  Where the fence returns
 * false the kernel has no such barrier, and the sleep must be short.
 */
void sr_ring_arm(struct sr_ring *r, uint64_t bytes_waiting);
void sr_ring_disarm(struct sr_ring *r);
bool sr_ring_fence_producers(const struct sr_ring *r);

/* The producer drops everything from now on; error is an errno that says why.  Either side. */
void sr_ring_stop(struct sr_ring_shared *s, int error);

/*
 * After a crash of the consumer: all up to `position` is safe already, and is released.  -EINVAL:
 * that is not between the tail and the head.
 */
int sr_ring_resume_at(struct sr_ring *r, uint64_t position);

/* How many records the producer, which is gone, dropped without a mark; *sns: their calls. */
uint64_t sr_ring_unmarked(const struct sr_ring *r, uint64_t *sns);

/* ---- either ---- */

/* For the producer, how much is committed; for the consumer, how much is released. */
uint64_t sr_ring_position(const struct sr_ring *r);
bool sr_ring_stopped(const struct sr_ring *r);
/* The errno that it was stopped with; 0: it is not stopped. */
int sr_ring_stop_error(const struct sr_ring *r);
bool sr_ring_closed(const struct sr_ring *r);
/* Is the producer in a call that writes? */
bool sr_ring_writing(const struct sr_ring *r);
/* How much the consumer has released. */
uint64_t sr_ring_released(const struct sr_ring *r);
/* Is all that was committed released? */
bool sr_ring_empty(const struct sr_ring *r);
size_t sr_ring_bytes(const struct sr_ring *r);

#endif
