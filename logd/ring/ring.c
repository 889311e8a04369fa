/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/ring/ring.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "logd/base/highfd.h"
#include "logd/ring/place.h"
#include "logd/base/rawsys.h"

#define RING_MAGIC    0x676e697279616c70ull /* "playring" */
#define RING_VERSION  1u
#define HEADER_BYTES  4096u
#define NOBODY_SLEEPS UINT64_MAX

_Static_assert(sizeof(struct sr_ring_shared) <= HEADER_BYTES, "the header has one page");
_Static_assert(sizeof(_Atomic uint64_t) == 8 && sizeof(_Atomic uint32_t) == 4,
	       "the two sides may come from different compilers");

/* ---- making, mapping ---- */

static size_t mapped_bytes(size_t data_bytes)
{
	return HEADER_BYTES + 2 * data_bytes;
}

/* Header and data, and the data once more right behind it: no record wraps. */
static int map_ring(struct sr_ring *r, int memfd, size_t data_bytes)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
	unsigned char *base = sr_place(mapped_bytes(data_bytes));
	void *first, *second;

	if (sr_sys_is_error(base))
		return (int)(intptr_t)base;
	first = sr_sys_mmap(base, HEADER_BYTES + data_bytes, prot, flags, memfd, 0);
	second = sr_sys_mmap(base + HEADER_BYTES + data_bytes, data_bytes, prot, flags, memfd,
			     HEADER_BYTES);
	if (sr_sys_is_error(first) || sr_sys_is_error(second)) {
		sr_sys_munmap(base, mapped_bytes(data_bytes));
		return (int)(intptr_t)(sr_sys_is_error(first) ? first : second);
	}
	r->shared = (struct sr_ring_shared *)base;
	r->data = base + HEADER_BYTES;
	r->mask = data_bytes - 1;
	return 0;
}

static size_t round_up_to_power_of_two(size_t bytes)
{
	size_t size = SR_RING_MIN_BYTES;

	while (size < bytes && size < SR_RING_MAX_BYTES)
		size *= 2;
	return size;
}

/*
 * Neither side can pull the memory away from under the other (SIGBUS), and the
 * sizes that were checked once stay true.
 */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int make_memfd(size_t data_bytes)
{
	uint64_t limit[2] = {UINT64_MAX, UINT64_MAX};
	long err;
	int fd;

	/* Over the limit on file sizes the kernel would send SIGXFSZ, to the program. */
	sr_sys_getrlimit(RLIMIT_FSIZE, limit);
	if (limit[0] < HEADER_BYTES + data_bytes)
		return -EFBIG;
	fd = (int)sr_sys_memfd_create("sreplay-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return fd;
	fd = sr_fd_raise(fd);
	err = sr_sys_ftruncate(fd, HEADER_BYTES + data_bytes);
	if (!err)
		err = sr_sys_fcntl(fd, F_ADD_SEALS, SEALS);
	if (err) {
		sr_sys_close(fd);
		return (int)err;
	}
	return fd;
}

static void init_shared(struct sr_ring_shared *s, size_t data_bytes)
{
	s->magic = RING_MAGIC;
	s->version = RING_VERSION;
	s->header_bytes = HEADER_BYTES;
	s->data_bytes = data_bytes;
	atomic_store(&s->wake_at, NOBODY_SLEEPS);
	atomic_store(&s->room_at, NOBODY_SLEEPS);
}

static void become(struct sr_ring *r, enum sr_ring_side side)
{
	struct sr_ring_shared *s = r->shared;

	r->max_payload = (uint32_t)((r->mask + 1) / 2 - sizeof(struct sr_record));
	if (r->max_payload > SR_RING_MAX_PIECE)
		r->max_payload = SR_RING_MAX_PIECE;
	r->side = side;
	r->doorbell = &s->wake;
	r->head = atomic_load_explicit(&s->head, memory_order_acquire);
	r->tail = atomic_load_explicit(&s->tail, memory_order_acquire);
	r->limit = r->tail + r->mask + 1;
	if (side == SR_RING_PRODUCER)
		s->expedited = sr_sys_membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

int sr_ring_create(struct sr_ring *r, size_t bytes)
{
	size_t data_bytes = round_up_to_power_of_two(bytes);
	int err, fd;

	memset(r, 0, sizeof(*r));
	r->fd = -1;
	if (bytes > SR_RING_MAX_BYTES)
		return -EINVAL;
	fd = make_memfd(data_bytes);
	if (fd < 0)
		return fd;
	err = map_ring(r, fd, data_bytes);
	if (err) {
		sr_sys_close(fd);
		return err;
	}
	r->fd = fd;
	init_shared(r->shared, data_bytes);
	become(r, SR_RING_PRODUCER);
	return 0;
}

/* The size of the data area of what claims to be a ring, or -errno. */
static int64_t sealed_data_bytes(int memfd)
{
	struct stat st;
	uint64_t bytes;
	long ret = sr_sys_fcntl(memfd, F_GET_SEALS, 0);

	if (ret < 0 || (ret & SEALS) != SEALS)
		return -EINVAL;
	ret = sr_sys_fstat(memfd, &st);
	if (ret)
		return ret;
	bytes = (uint64_t)st.st_size - HEADER_BYTES;
	if (st.st_size <= HEADER_BYTES || bytes < SR_RING_MIN_BYTES || bytes > SR_RING_MAX_BYTES ||
	    (bytes & (bytes - 1)))
		return -EINVAL;
	return (int64_t)bytes;
}

static int check_shared(const struct sr_ring_shared *s, uint64_t data_bytes)
{
	uint64_t head = atomic_load(&s->head), tail = atomic_load(&s->tail);

	if (s->magic != RING_MAGIC)
		return -EINVAL;
	if (s->version != RING_VERSION || s->header_bytes != HEADER_BYTES)
		return -EPROTO;
	if (s->data_bytes != data_bytes || head - tail > data_bytes ||
	    ((head | tail) & (SR_RECORD_ALIGN - 1)))
		return -EINVAL;
	return 0;
}

int sr_ring_attach(struct sr_ring *r, int memfd, enum sr_ring_side side)
{
	int64_t bytes = sealed_data_bytes(memfd);
	int err;

	memset(r, 0, sizeof(*r));
	r->fd = -1;
	if (bytes < 0)
		return (int)bytes;
	err = map_ring(r, memfd, (size_t)bytes);
	if (err)
		return err;
	err = check_shared(r->shared, (uint64_t)bytes);
	if (err) {
		sr_ring_detach(r);
		return err;
	}
	r->fd = memfd;
	become(r, side);
	return 0;
}

void sr_ring_detach(struct sr_ring *r)
{
	if (r->shared)
		sr_sys_munmap(r->shared, mapped_bytes(r->mask + 1));
	if (r->fd >= 0)
		sr_sys_close(r->fd);
	r->shared = NULL;
	r->fd = -1;
}

/* ---- both sides ---- */

uint64_t sr_ring_position(const struct sr_ring *r)
{
	return r->side == SR_RING_PRODUCER ? r->head : r->tail;
}

bool sr_ring_stopped(const struct sr_ring *r)
{
	return sr_ring_stop_error(r) != 0;
}

int sr_ring_stop_error(const struct sr_ring *r)
{
	return (int)atomic_load_explicit(&r->shared->stopped, memory_order_relaxed);
}

bool sr_ring_closed(const struct sr_ring *r)
{
	return atomic_load_explicit(&r->shared->closed, memory_order_acquire) != 0;
}

uint64_t sr_ring_released(const struct sr_ring *r)
{
	return atomic_load_explicit(&r->shared->tail, memory_order_relaxed);
}

bool sr_ring_empty(const struct sr_ring *r)
{
	return atomic_load_explicit(&r->shared->tail, memory_order_acquire) ==
	       atomic_load_explicit(&r->shared->head, memory_order_acquire);
}

size_t sr_ring_bytes(const struct sr_ring *r)
{
	return r->mask + 1;
}

static void futex_wake_all(_Atomic uint32_t *word)
{
	sr_sys_futex((uint32_t *)word, FUTEX_WAKE, INT32_MAX, NULL);
}

static void futex_wait_ms(_Atomic uint32_t *word, uint32_t value, int64_t ms)
{
	struct timespec timeout = sr_sys_ms(ms);

	sr_sys_futex((uint32_t *)word, FUTEX_WAIT, value, ms < 0 ? NULL : &timeout);
}

/* ---- producer ---- */

void sr_ring_set_lossy(struct sr_ring *r, bool lossy)
{
	r->lossy = lossy;
}

void sr_ring_set_wait_hook(struct sr_ring *r, void (*hook)(void *), void *argument)
{
	r->wait_argument = argument;
	r->wait_hook = hook;
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

/* How far the producer may write now; learns how far the consumer came. */
static uint64_t refresh_limit(struct sr_ring *r)
{
	/* Acquire: the consumer's reads of the old records are done before they are written over.
	 */
	uint64_t tail = atomic_load_explicit(&r->shared->tail, memory_order_acquire);

	r->limit = tail + r->mask + 1;
	return r->limit;
}

static bool has_room(struct sr_ring *r, uint64_t need)
{
	return refresh_limit(r) >= r->head + need;
}

/*
 * Sleep until the consumer has released enough, or SR_RING_WAIT_MS.  The
 * consumer wakes at an eighth of the ring: woken for each record, both would
 * do little else than switch.
 */
static void wait_for_room(struct sr_ring *r, uint64_t need)
{
	struct sr_ring_shared *s = r->shared;
	uint64_t size = r->mask + 1, eighth = size / 8;
	uint64_t until = r->head + (need > eighth ? need : eighth) - size;
	uint32_t seen = atomic_load_explicit(&s->room, memory_order_acquire);

	atomic_store_explicit(&s->room_at, until, memory_order_relaxed);
	/*
	 * Full barrier, pairs with the one in sr_ring_release: either the
	 * consumer sees room_at, or this side sees the new tail.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	/* The fast path has no barrier and may have missed that the consumer sleeps. */
	if (atomic_load_explicit(&s->wake_at, memory_order_relaxed) != NOBODY_SLEEPS)
		sr_ring_wake_consumer(r);
	if (!has_room(r, need))
		futex_wait_ms(&s->room, seen, SR_RING_WAIT_MS);
	atomic_store_explicit(&s->room_at, NOBODY_SLEEPS, memory_order_relaxed);
}

static bool wait_until_room(struct sr_ring *r, uint64_t need)
{
	atomic_fetch_add_explicit(&r->shared->waits, 1, memory_order_relaxed);
	while (!has_room(r, need)) {
		wait_for_room(r, need);
		if (sr_ring_stopped(r))
			return false;
		if (r->wait_hook)
			r->wait_hook(r->wait_argument);
	}
	return true;
}

void sr_ring_lose(struct sr_ring *r, uint16_t kind)
{
	uint32_t sns = kind >= SR_REC_CALL;

	struct sr_ring_shared *s = r->shared;

	/* The next reserve takes the slow path: to write the mark, or to find the ring stopped. */
	r->limit = 0;
	if (sr_ring_stopped(r))
		return;
	/* Atomic because a handler of this thread may come in between. */
	atomic_fetch_add_explicit(&s->lost_records, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&s->unmarked_records, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&s->unmarked_sns, sns, memory_order_relaxed);
}

static bool has_unmarked(const struct sr_ring *r)
{
	return atomic_load_explicit(&r->shared->unmarked_records, memory_order_relaxed) != 0;
}

#define MARK_BYTES (sizeof(struct sr_record) + sizeof(struct sr_mark_payload))

/* Not through reserve and commit: this runs inside of a reserve. */
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
	mark->reserved = 0;
	mark->argument = records;
	mark->skipped_sns = sns;
	sr_ring_publish(r, r->head + sr_record_padded(MARK_BYTES));
	atomic_fetch_sub_explicit(&s->unmarked_records, records, memory_order_relaxed);
	atomic_fetch_sub_explicit(&s->unmarked_sns, sns, memory_order_relaxed);
}

/* Room for what is asked, in front of it the mark of a hole if there is one. */
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

/* Where a gathered copy stands. */
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

static void put_piece(struct sr_ring *r, uint16_t kind, struct gather *from, uint32_t payload,
		      bool more)
{
	struct sr_record *record = (struct sr_record *)(r->data + (r->head & r->mask));
	uint32_t size = sizeof(*record) + payload, padded = sr_record_padded(size);

	record->size = size;
	record->kind = kind;
	record->flags = more ? SR_RECORD_MORE : 0;
	gather_copy(from, (unsigned char *)(record + 1), payload);
	memset((unsigned char *)record + size, 0, padded - size);
	sr_ring_publish(r, r->head + padded);
}

/*
 * What all pieces of a record take.  A lossy ring begins one only where it has
 * room for the whole, so that it never waits in the middle; one that is larger
 * than the ring is always dropped.
 */
static uint64_t room_of_all_pieces(const struct sr_ring *r, uint64_t total)
{
	uint64_t pieces = total / r->max_payload + 1;

	return total + pieces * (sizeof(struct sr_record) + SR_RECORD_ALIGN);
}

static int write_pieces(struct sr_ring *r, uint16_t kind, const struct iovec *iov, uint64_t total)
{
	struct gather from = {.iov = iov};

	if (!make_room_and_mark(r, r->lossy ? room_of_all_pieces(r, total) : 0))
		return -EPIPE;
	do {
		uint32_t payload = total > r->max_payload ? r->max_payload : (uint32_t)total;
		uint64_t need = sr_record_padded(sizeof(struct sr_record) + payload);

		if (!has_room(r, need) && !wait_until_room(r, need))
			return -EPIPE;
		total -= payload;
		put_piece(r, kind, &from, payload, total > 0);
	} while (total);
	return 0;
}

int sr_ring_writev(struct sr_ring *r, uint16_t kind, const struct iovec *iov, int n)
{
	uint64_t total = 0;
	int ret;

	if (r->busy) {
		sr_ring_lose(r, kind);
		return -EBUSY;
	}
	r->busy = 1; /* as in sr_ring_reserve, and over all pieces: nothing comes in between */
	atomic_signal_fence(memory_order_seq_cst);
	for (int i = 0; i < n; i++)
		total += iov[i].iov_len;
	ret = write_pieces(r, kind, iov, total);
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

/* ---- consumer ---- */

size_t sr_ring_peek(struct sr_ring *r, const void **records)
{
	/* Acquire, pairs with sr_ring_publish: the records up to head are whole. */
	r->head = atomic_load_explicit(&r->shared->head, memory_order_acquire);
	*records = r->data + (r->tail & r->mask);
	/* A head from a program gone wild must not lead out of the mapping. */
	if (r->head - r->tail > r->mask + 1)
		return 0;
	return r->head - r->tail;
}

void sr_ring_release(struct sr_ring *r, size_t bytes)
{
	struct sr_ring_shared *s = r->shared;

	r->tail += bytes;
	/* Release: all reads of the records are done before the producer may write over them. */
	atomic_store_explicit(&s->tail, r->tail, memory_order_release);
	/* Full barrier, pairs with the one in wait_for_room. */
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
 * A full barrier on every CPU that runs a producer, which stands for the one
 * that sr_ring_publish leaves out: after it, a producer's store of head that
 * came before its look at wake_at is visible here.
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

void sr_ring_stop(struct sr_ring *r, int error)
{
	struct sr_ring_shared *s = r->shared;

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
