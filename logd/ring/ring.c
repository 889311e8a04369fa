/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/ring/ring.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "logd/base/highfd.h"
#include "logd/base/rawsys.h"
#include "logd/ring/place.h"
#include "logd/ring/ring_futex.h"

#define RING_MAGIC   0x676e697279616c70ull /* "playring" */
#define RING_VERSION 3u
#define HEADER_BYTES 4096u

_Static_assert(sizeof(struct sr_ring_shared) <= HEADER_BYTES, "the header has one page");
_Static_assert(sizeof(_Atomic uint64_t) == 8 && sizeof(_Atomic uint32_t) == 4,
	       "the two sides may come from different compilers");

/* ---- making, mapping ---- */

static size_t mapped_bytes(size_t data_bytes)
{
	return HEADER_BYTES + 2 * data_bytes;
}

static void point_at(struct sr_ring *r, struct sr_ring_shared *base, size_t data_bytes)
{
	r->shared = base;
	r->data = (unsigned char *)base + HEADER_BYTES;
	r->mask = data_bytes - 1;
}

/* Maps header and data, and the data once more behind it, so that no record wraps. */
static int map_ring(struct sr_ring *r, int memfd, uint64_t offset, size_t data_bytes)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
	unsigned char *base = sr_place(mapped_bytes(data_bytes));
	void *first, *second;

	if (sr_sys_is_error(base))
		return (int)(intptr_t)base;
	first = sr_sys_mmap(base, HEADER_BYTES + data_bytes, prot, flags, memfd, (off_t)offset);
	second = sr_sys_mmap(base + HEADER_BYTES + data_bytes, data_bytes, prot, flags, memfd,
			     (off_t)offset + HEADER_BYTES);
	if (sr_sys_is_error(first) || sr_sys_is_error(second)) {
		sr_sys_munmap(base, mapped_bytes(data_bytes));
		return (int)(intptr_t)(sr_sys_is_error(first) ? first : second);
	}
	point_at(r, (struct sr_ring_shared *)base, data_bytes);
	return 0;
}

/* Neither side can shrink the file under the other (SIGBUS), and sizes that were checked stay. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

uint64_t sr_ring_file_bytes(uint64_t data_bytes)
{
	return HEADER_BYTES + data_bytes;
}

int sr_ring_memfd(uint64_t size)
{
	int fd = (int)sr_sys_memfd_create("sreplay-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	long err;

	if (fd < 0)
		return fd;
	err = sr_sys_ftruncate(fd, size);
	if (!err)
		err = sr_sys_fcntl(fd, F_ADD_SEALS, SEALS);
	if (err) {
		sr_sys_close(fd);
		return (int)err;
	}
	return fd;
}

bool sr_ring_is_sealed(int memfd)
{
	long seals = sr_sys_fcntl(memfd, F_GET_SEALS, 0);

	return seals >= 0 && (seals & SEALS) == SEALS;
}

int sr_ring_file_create(uint32_t rings, uint64_t data_bytes)
{
	uint64_t limit[2] = {UINT64_MAX, UINT64_MAX}, size = rings * sr_ring_file_bytes(data_bytes);
	int fd;

	if (!sr_ring_is_size(data_bytes))
		return -EINVAL;
	/* Beyond the limit on file sizes the kernel would send SIGXFSZ. */
	sr_sys_getrlimit(RLIMIT_FSIZE, limit);
	if (limit[0] < size)
		return -EFBIG;
	fd = sr_ring_memfd(size);
	return fd < 0 ? fd : sr_fd_raise(fd);
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

int sr_ring_map(struct sr_ring *r, int fd, uint64_t offset, uint64_t data_bytes,
		enum sr_ring_side side, struct sr_ring_shared *at)
{
	int err = 0;

	memset(r, 0, sizeof(*r));
	if (at)
		point_at(r, at, data_bytes);
	else
		err = map_ring(r, fd, offset, data_bytes);
	if (!err && side == SR_RING_CONSUMER && (err = check_shared(r->shared, data_bytes)))
		sr_ring_detach(r);
	if (!err)
		become(r, side);
	return err;
}

void sr_ring_renew(struct sr_ring *r)
{
	memset(r->shared, 0, sizeof(*r->shared));
	init_shared(r->shared, r->mask + 1);
	/* Nobody looks at this ring yet: its first record rings the doorbell. */
	atomic_store(&r->shared->wake_at, 0);
	become(r, SR_RING_PRODUCER);
}

void sr_ring_unmap(struct sr_ring_shared *at, size_t data_bytes)
{
	sr_sys_munmap(at, mapped_bytes(data_bytes));
}

void sr_ring_detach(struct sr_ring *r)
{
	if (r->shared)
		sr_ring_unmap(r->shared, r->mask + 1);
	r->shared = NULL;
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

bool sr_ring_writing(const struct sr_ring *r)
{
	return atomic_load(&r->shared->writing) != 0;
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
