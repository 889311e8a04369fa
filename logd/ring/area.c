/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/ring/area.h"

#include <errno.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "logd/base/highfd.h"
#include "logd/base/rawsys.h"
#include "logd/ring/place.h"

#define AREA_MAGIC   0x6165726179616c70ull /* "playarea" */
#define AREA_VERSION 1u
#define HEADER_BYTES (16u << 10)

/* A freed ring that has used more than this gives its memory back. */
#define KEPT_BYTES   (64u << 10)

_Static_assert(sizeof(struct sr_area_shared) <= HEADER_BYTES, "the header has four pages");

static uint64_t file_bytes(uint32_t slots, uint64_t ring_bytes)
{
	return HEADER_BYTES + slots * sr_ring_file_bytes(ring_bytes);
}

static uint64_t place_of(const struct sr_area *a, uint32_t slot)
{
	return HEADER_BYTES + slot * sr_ring_file_bytes(a->ring_bytes);
}

static int map_header(struct sr_area *a, int memfd)
{
	void *at = sr_place(HEADER_BYTES);

	if (!sr_sys_is_error(at))
		at = sr_sys_mmap(at, HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
				 memfd, 0);
	if (sr_sys_is_error(at))
		return (int)(intptr_t)at;
	a->shared = at;
	return 0;
}

static uint32_t slots_within_limits(uint64_t ring_bytes)
{
	uint64_t limit[2] = {UINT64_MAX, UINT64_MAX}, n;

	sr_sys_getrlimit(RLIMIT_FSIZE, limit);
	if (limit[0] < HEADER_BYTES)
		return 0;
	n = (limit[0] - HEADER_BYTES) / sr_ring_file_bytes(ring_bytes);
	return n < SR_AREA_SLOTS ? (uint32_t)n : SR_AREA_SLOTS;
}

int sr_area_create(struct sr_area *a, size_t ring_bytes)
{
	int err;

	if (!sr_ring_is_size(ring_bytes))
		return -EINVAL;
	*a = (struct sr_area){.ring_bytes = ring_bytes, .slots = slots_within_limits(ring_bytes)};
	if (!a->slots)
		return -EFBIG;
	a->fd = sr_ring_memfd(file_bytes(a->slots, ring_bytes));
	if (a->fd < 0)
		return a->fd;
	err = map_header(a, a->fd);
	if (err) {
		sr_sys_close(a->fd);
		return err;
	}
	a->shared->magic = AREA_MAGIC;
	a->shared->version = AREA_VERSION;
	a->shared->slots = a->slots;
	a->shared->ring_bytes = ring_bytes;
	return 0;
}

static int check_header(struct sr_area *a, int memfd)
{
	const struct sr_area_shared *s = a->shared;
	struct stat st;
	long ret = sr_sys_fstat(memfd, &st);

	if (ret)
		return (int)ret;
	if (s->magic != AREA_MAGIC || s->version != AREA_VERSION)
		return -EPROTO;
	/* Read once: a program may overwrite them. */
	a->slots = s->slots;
	a->ring_bytes = s->ring_bytes;
	if (!a->slots || a->slots > SR_AREA_SLOTS || !sr_ring_is_size(a->ring_bytes) ||
	    (uint64_t)st.st_size != file_bytes(a->slots, a->ring_bytes))
		return -EINVAL;
	return 0;
}

int sr_area_attach(struct sr_area *a, int memfd)
{
	struct stat st;
	long ret = sr_sys_fstat(memfd, &st);
	int err;

	*a = (struct sr_area){.fd = -1};
	if (!sr_ring_is_sealed(memfd) || ret || st.st_size < HEADER_BYTES)
		return -EINVAL;
	err = map_header(a, memfd);
	if (err)
		return err;
	err = check_header(a, memfd);
	if (err) {
		sr_area_detach(a);
		return err;
	}
	a->fd = memfd;
	return 0;
}

void sr_area_detach(struct sr_area *a)
{
	if (a->shared)
		sr_sys_munmap(a->shared, HEADER_BYTES);
	if (a->fd >= 0)
		sr_sys_close(a->fd);
	a->shared = NULL;
	a->fd = -1;
}

int sr_area_ring(const struct sr_area *a, uint32_t slot, enum sr_ring_side side,
		 struct sr_ring_shared *at, struct sr_ring *r)
{
	return sr_ring_map(r, a->fd, place_of(a, slot), a->ring_bytes, side, at);
}

void sr_area_open_slot(struct sr_area *a, uint32_t slot, uint32_t thread, struct sr_ring *r)
{
	sr_ring_renew(r);
	a->shared->slot[slot].thread = thread;
	/* Release: whoever sees it open sees an empty ring. */
	atomic_store_explicit(&a->shared->slot[slot].state, SR_SLOT_OPEN, memory_order_release);
	atomic_fetch_add_explicit(&a->shared->opened, 1, memory_order_release);
}

void sr_area_free_slot(struct sr_area *a, uint32_t slot, uint64_t used)
{
	if (used > KEPT_BYTES)
		sr_syscall(SYS_fallocate, a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			   (long)place_of(a, slot), (long)sr_ring_file_bytes(a->ring_bytes), 0, 0);
	atomic_store_explicit(&a->shared->slot[slot].state, SR_SLOT_FREE, memory_order_release);
	atomic_fetch_add_explicit(&a->shared->freed, 1, memory_order_release);
}
