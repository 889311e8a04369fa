/* SPDX-License-Identifier: BSD-2-Clause */
/* uring_completions.c: carries completions from the kernel's ring, or from the trace, to the program's. */
#include <errno.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "shim/async/pieces.h"
#include "shim/async/uring_ring.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/files/fds.h"
#include "shim/memory/heap.h"
#include "shim/verbs/objects.h"

__thread struct sr_uring_arrivals sr_uring_arrivals;

/* The program's is as long as the kernel's, and they are at the same place: so there is room. */
static void give(struct sr_uring *ring, const struct sr_uring_completion *c)
{
	const uint32_t at = ring->params.cq_off.tail;
	uint32_t tail = sr_uring_load(&ring->program, at);

	sr_uring_completions(ring, &ring->program)[tail & (ring->params.cq_entries - 1)] =
	    (struct io_uring_cqe){.user_data = c->user_data, .res = c->result, .flags = c->flags};
	sr_uring_store(&ring->program, at, tail + 1);
	if (!(c->flags & IORING_CQE_F_MORE))
		ring->under_way--;
	sr_uring_show_under_way(ring);
}

struct sr_uring_completion *sr_uring_new_arrival(void)
{
	struct sr_uring_arrivals *all = &sr_uring_arrivals;
	uint32_t room = all->room ? 2 * all->room : 64;
	struct sr_uring_completion *more;

	if (all->n == all->room) {
		more = sr_alloc(room * sizeof(*more));
		if (!more)
			return NULL;
		for (uint32_t i = 0; i < all->n; i++)
			more[i] = all->list[i];
		sr_free(all->list);
		all->list = more;
		all->room = room;
	}
	return &all->list[all->n++];
}

/* ------------------------------------------------------------------ recording */

static void end_descriptor(const struct sr_uring_completion *c)
{
	if (c->effect == SR_URING_OPENED && c->result >= 0)
		sr_fd_capture(c->result);
	else if (c->effect == SR_URING_CLOSED && !c->result)
		sr_fd_release(c->fd);
}

/* False: there is no memory, and the completion stays where it is. */
static bool take(struct sr_uring *ring, const struct io_uring_cqe *from)
{
	struct sr_uring_flight *f = (struct sr_uring_flight *)from->user_data;
	struct sr_uring_completion *c = sr_uring_new_arrival();

	if (!c)
		return false;
	*c = (struct sr_uring_completion){
	    .ring = ring->fd,
	    .request = f->number,
	    .user_data = f->user_data,
	    .result = f->is_call ? f->result : from->res,
	    .flags = from->flags,
	    .effect = f->effect,
	    .fd = f->fd,
	};
	sr_uring_land(f, c->result);
	if (!(from->flags & IORING_CQE_F_MORE))
		sr_uring_forget(f);
	give(ring, c);
	return true;
}

/* The program has taken completions out of its ring, so the kernel has room again. */
static void show_taken(struct sr_uring *ring)
{
	const uint32_t head = ring->params.cq_off.head;

	sr_uring_store(&ring->kernel, head, sr_uring_load(&ring->program, head));
}

void sr_uring_used(struct sr_uring *ring)
{
	const uint32_t self = sr_self.number + 1;

	if (ring->owner && ring->owner != self)
		ring->is_shared = true;
	ring->owner = self;
}

static bool is_own(const struct sr_uring *ring)
{
	return ring->is_shared || ring->owner == sr_self.number + 1;
}

static void harvest(void *of, void *argument)
{
	struct sr_uring *ring = of;
	const struct io_cqring_offsets *at = &ring->params.cq_off;
	const struct io_uring_cqe *from = sr_uring_completions(ring, &ring->kernel);

	if (!is_own(ring))
		return;
	sr_lock(&ring->lock);
	show_taken(ring);
	for (uint32_t i = sr_uring_load(&ring->program, at->tail); i != sr_uring_load(&ring->kernel, at->tail); i++)
		if (!take(ring, &from[i & (ring->params.cq_entries - 1)]))
			break;
	sr_unlock(&ring->lock);
}

void sr_uring_harvest(void)
{
	sr_received_none(&sr_self.received);
	sr_uring_arrivals.n = 0;
	sr_uring_each(harvest, NULL);
	for (uint32_t i = 0; i < sr_uring_arrivals.n; i++)
		end_descriptor(&sr_uring_arrivals.list[i]);
}

static void look(void *of, void *any)
{
	struct sr_uring *ring = of;
	const uint32_t tail = ring->params.cq_off.tail;

	if (is_own(ring) && sr_uring_load(&ring->kernel, tail) != sr_uring_load(&ring->program, tail))
		*(bool *)any = true;
}

static void begin(void *of, void *argument)
{
	if (is_own(of))
		show_taken(of);
}

static void look_if_under_way(void *of, void *any)
{
	const struct sr_uring *ring = of;

	if (is_own(ring) && ring->under_way > 0)
		*(bool *)any = true;
}

bool sr_uring_has_more(void)
{
	bool any = false;

	sr_uring_each(look, &any);
	return any;
}

bool sr_uring_waits(void)
{
	bool any = false;

	sr_uring_each(look_if_under_way, &any);
	return any;
}

/* In a section: a tick (uring_spin.c) must not come while the list of rings is locked. */
void sr_uring_call_begins(void)
{
	enum sr_heap before;

	if (sr_engine->replays)
		return;
	sr_uring_can_carry();
	before = sr_enter(&sr_self);
	sr_uring_each(begin, NULL);
	sr_leave(&sr_self, before);
}

static bool have_arrived(uint64_t *a)
{
	enum sr_heap before;
	bool any;

	if (sr_engine->replays)
		return sr_engine->comes_at_once(&sr_self, SR_CALL_io_uring_arrivals, a);
	before = sr_enter(&sr_self);
	any = sr_uring_has_more();
	sr_leave(&sr_self, before);
	return any;
}

static void carry(bool looks, void *site)
{
	uint64_t a[] = {looks, (uintptr_t)&sr_self.received};
	int error = errno;

	if (have_arrived(a))
		sr_call(SR_CALL_io_uring_arrivals, a, site);
	errno = error;
}

void sr_uring_call_ends(void *site)
{
	carry(false, site);
}

void sr_uring_looks(void *site)
{
	carry(true, site);
}

uint64_t sr_invoke_io_uring_arrivals(const struct sr_call_desc *d, uint64_t *a)
{
	sr_uring_harvest();
	return 0;
}

/* --------------------------------------------------------------------- replay */

static void do_again(const struct sr_uring_completion *c)
{
	if (c->effect == SR_URING_OPENED && c->result >= 0) {
		sr_fd_hold(c->result);
	} else if (c->effect == SR_URING_CLOSED && !c->result) {
		sr_fd_release(c->fd);
		sr_sys_close(c->fd);
	} else if (c->effect == SR_URING_MOVED && c->result > 0 && !sr_fd_captured(c->fd)) {
		sr_syscall(SYS_lseek, c->fd, c->result, SEEK_CUR, 0, 0, 0);
	}
}

static struct sr_uring_flight *flight_of(const struct sr_uring *ring, uint32_t number)
{
	struct sr_uring_flight *f = ring->flights;

	while (f && f->number != number)
		f = f->next;
	return f;
}

static void give_arrival(const struct sr_uring_completion *c)
{
	struct sr_uring *ring = sr_uring_of(c->ring);
	struct sr_uring_flight *f = ring ? flight_of(ring, c->request) : NULL;

	if (f) {
		if (c->result > 0)
			sr_pieces_write_again(f->fd, f->pieces, f->n, (size_t)c->result, f->offset, f->output_flags);
		sr_uring_forget(f);
	}
	if (ring)
		give(ring, c);
	do_again(c);
}

void sr_uring_give_arrivals(void)
{
	for (uint32_t i = 0; i < sr_uring_arrivals.n; i++)
		give_arrival(&sr_uring_arrivals.list[i]);
}

void sr_replayed_io_uring_arrivals(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	sr_uring_give_arrivals();
}
