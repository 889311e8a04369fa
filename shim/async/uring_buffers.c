/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uring_buffers.c: buffers of which the kernel chooses one: where they are.
 *
 * A completion names its buffer by a number.  Requests that provide buffers say where these are.  The program may also have a
 * ring of them, in its own memory, which the kernel reads: an entry can be overwritten as soon as the program knows that the
 * kernel has taken it, which a completion tells.  So the entries are read before completions are given to the program.
 */
#include <stdatomic.h>
#include <string.h>

#include "shim/async/uring_ring.h"
#include "shim/kernel/readable.h"
#include "shim/memory/heap.h"
#include "shim/memory/room.h"

static struct sr_uring_group *group_of(const struct sr_uring *ring, uint16_t id)
{
	for (uint32_t i = 0; i < ring->n_groups; i++)
		if (ring->groups[i].id == id)
			return &ring->groups[i];
	return NULL;
}

/* NULL: no memory. */
static struct sr_uring_group *add_group(struct sr_uring *ring, uint16_t id)
{
	if (!sr_make_room(&ring->groups, &ring->groups_room, ring->n_groups + 1, sizeof(*ring->groups)))
		return NULL;
	ring->groups[ring->n_groups] = (struct sr_uring_group){.id = id};
	return &ring->groups[ring->n_groups++];
}

static bool set_buffer(struct sr_uring_group *g, uint16_t number, uint64_t addr, size_t size)
{
	if (!sr_make_room(&g->buffers, &g->room, number + 1u, sizeof(*g->buffers)))
		return false;
	g->buffers[number] = (struct iovec){(void *)addr, size};
	return true;
}

/* off: the first one's number.  There are as many as `fd` says, one behind the other. */
bool sr_uring_provide(struct sr_uring *ring, const struct sr_uring_sqe *r)
{
	struct sr_uring_group *g = group_of(ring, r->buf_group);

	if (!g)
		g = add_group(ring, r->buf_group);
	for (uint32_t i = 0; g && i < (uint32_t)r->fd && r->off + i <= UINT16_MAX; i++)
		if (!set_buffer(g, (uint16_t)(r->off + i), r->addr + (uint64_t)i * r->len, r->len))
			return false;
	return g;
}

bool sr_uring_add_buffer_ring(struct sr_uring *ring, const struct sr_uring_buf_reg *registered)
{
	struct sr_uring_group *g;

	sr_uring_remove_group(ring, registered->bgid);
	g = add_group(ring, registered->bgid);
	if (!g)
		return false;
	g->ring = (struct sr_uring_buf *)registered->ring_addr;
	g->entries = registered->ring_entries;
	return true;
}

void sr_uring_remove_group(struct sr_uring *ring, uint16_t id)
{
	struct sr_uring_group *g = group_of(ring, id);

	if (!g)
		return;
	sr_free(g->buffers);
	*g = ring->groups[--ring->n_groups];
}

void sr_uring_free_groups(struct sr_uring *ring)
{
	while (ring->n_groups)
		sr_uring_remove_group(ring, ring->groups[0].id);
	sr_free(ring->groups);
}

static void find(struct sr_uring_group *g)
{
	/* The kernel holds its pages; the program may have unmapped them. */
	if (!g->ring || !sr_is_readable(g->ring, g->entries * sizeof(struct sr_uring_buf)))
		return;
	for (uint16_t end = atomic_load_explicit((_Atomic uint16_t *)&g->ring->tail, memory_order_acquire); g->seen != end; g->seen++) {
		const struct sr_uring_buf *b = &g->ring[g->seen & (g->entries - 1)];

		set_buffer(g, b->bid, b->addr, b->len);
	}
}

void sr_uring_find_provided(struct sr_uring *ring)
{
	for (uint32_t i = 0; i < ring->n_groups; i++)
		find(&ring->groups[i]);
}

const struct iovec *sr_uring_chosen(const struct sr_uring *ring, const struct sr_uring_flight *f, uint32_t flags)
{
	const struct sr_uring_group *g = f->chooses && flags & SR_URING_CQE_F_BUFFER ? group_of(ring, f->group) : NULL;
	uint32_t number = flags >> SR_URING_CQE_BUFFER_SHIFT;

	return g && number < g->room ? &g->buffers[number] : NULL;
}
