/* SPDX-License-Identifier: BSD-2-Clause */
/* uring_completions.c: carries completions from the kernel's ring, or from the trace, to the program's. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "shim/async/pieces.h"
#include "shim/async/uring_ring.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/files/fds.h"
#include "shim/files/passed_fds.h"
#include "shim/files/uncompared.h"
#include "shim/memory/heap.h"
#include "shim/memory/room.h"
#include "shim/verbs/objects.h"

__thread struct sr_uring_arrivals sr_uring_arrivals;

/* The program's is as long as the kernel's, and they are at the same place: so there is room. */
static void give(struct sr_uring *ring, const struct sr_uring_completion *c)
{
	const uint32_t at = ring->params.cq_off.tail;
	uint32_t tail = sr_uring_load(&ring->program, at);

	sr_uring_completions(ring, &ring->program)[tail & (ring->params.cq_entries - 1)] =
	    (struct sr_uring_cqe){.user_data = c->user_data, .res = c->result, .flags = c->flags};
	sr_uring_store(&ring->program, at, tail + 1);
	if (!(c->flags & SR_URING_CQE_F_MORE) && c->request != SR_URING_FOREIGN)
		ring->under_way--;
	sr_uring_show_under_way(ring);
}

struct sr_uring_completion *sr_uring_new_arrival(void)
{
	struct sr_uring_arrivals *all = &sr_uring_arrivals;

	if (!sr_make_room(&all->list, &all->room, all->n + 1, sizeof(*all->list)))
		return NULL;
	return &all->list[all->n++];
}

static bool closes(const struct sr_uring_completion *c)
{
	return (c->effect == SR_URING_CLOSED && !c->result) || c->effect == SR_URING_CLOSED_SILENTLY;
}

/* ------------------------------------------------------------------ recording */

static void end_descriptor(const struct sr_uring_completion *c)
{
	if (c->effect == SR_URING_OPENED && c->result >= 0)
		sr_fd_capture(c->result);
	else if (closes(c))
		sr_fd_release(c->fd);
}

static bool is_open(int fd)
{
	return sr_syscall(SYS_fcntl, fd, F_GETFD, 0, 0, 0, 0) >= 0;
}

static void end_request(struct sr_uring *ring, struct sr_uring_flight *f, const struct sr_uring_cqe *from, struct sr_uring_completion *c)
{
	*c = (struct sr_uring_completion){
	    .ring = ring->fd,
	    .request = f->is_silent ? SR_URING_FOREIGN : f->number,
	    .user_data = f->user_data,
	    .result = f->is_call ? f->result : from->res,
	    .flags = from->flags,
	    .effect = f->effect,
	    .fd = f->fd,
	};
	/* Another thread has opened something under that number since. */
	if (f->effect == SR_URING_CLOSED && is_open(f->fd))
		c->effect = SR_URING_NOTHING;
	sr_uring_land(ring, f, c->result, c->flags);
	if (f->effect == SR_URING_PASSED && c->result >= 0)
		sr_passed_fds(f->of_program, sr_fd_capture);
	if (!(from->flags & SR_URING_CQE_F_MORE))
		sr_uring_forget(ring, f);
}

/* False: there is no memory, or its file is being copied, and the completion stays where it is. */
static bool take(struct sr_uring *ring, const struct sr_uring_cqe *from)
{
	struct sr_uring_flight *f = sr_uring_flight_named(from->user_data);
	struct sr_uring_completion *c = f && !sr_uring_may_take(f) ? NULL : sr_uring_new_arrival();

	if (!c)
		return false;
	if (f)
		end_request(ring, f, from, c);
	else
		*c = (struct sr_uring_completion){
		    .ring = ring->fd, .request = SR_URING_FOREIGN, .user_data = sr_uring_user_data_of(ring, from->user_data), .result = from->res, .flags = from->flags};
	give(ring, c);
	return true;
}

/* A request that has no completion, and has closed its descriptor. */
static struct sr_uring_flight *find_closed(const struct sr_uring *ring)
{
	struct sr_uring_flight *f = ring->closing ? ring->flights : NULL;

	while (f && !(f->is_silent && f->effect == SR_URING_CLOSED && !is_open(f->fd)))
		f = f->next;
	return f;
}

static void take_closed(struct sr_uring *ring)
{
	struct sr_uring_flight *f;
	struct sr_uring_completion *c;

	while ((f = find_closed(ring)) && (c = sr_uring_new_arrival())) {
		*c = (struct sr_uring_completion){.ring = ring->fd, .request = SR_URING_FOREIGN, .effect = SR_URING_CLOSED_SILENTLY, .fd = f->fd};
		sr_uring_forget(ring, f);
	}
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

bool sr_uring_is_own(const struct sr_uring *ring)
{
	return ring->is_shared || ring->owner == sr_self.number + 1 || sr_uring_ends_here(ring);
}

/* What another process, with which this one shares the ring since a fork, has given to the program. */
static void list_others(struct sr_uring *ring)
{
	const struct sr_uring_cqe *cqes = sr_uring_completions(ring, &ring->program);
	uint32_t head = sr_uring_load(&ring->program, ring->params.cq_off.head), end = sr_uring_load(&ring->program, ring->params.cq_off.tail);

	/* It may have been a request of this process's: where that has written is not known. */
	if (ring->given != end && ring->under_way > 0)
		sr_output_is_uncompared(SR_UNCOMPARED_CALL);
	for (; ring->given != end; ring->given++) {
		const struct sr_uring_cqe *from = &cqes[ring->given & (ring->params.cq_entries - 1)];
		struct sr_uring_completion *c = sr_uring_new_arrival();

		if (!c)
			return;
		*c = (struct sr_uring_completion){
		    .ring = ring->fd,
		    .request = SR_URING_FOREIGN,
		    .user_data = from->user_data,
		    .result = from->res,
		    .flags = from->flags,
		    .effect = (int32_t)(head - ring->given) > 0 ? SR_URING_TAKEN : SR_URING_NOTHING,
		};
	}
}

static void harvest(void *of, void *argument)
{
	struct sr_uring *ring = of;
	const struct sr_uring_cq_offsets *at = &ring->params.cq_off;
	const struct sr_uring_cqe *from = sr_uring_completions(ring, &ring->kernel);
	uint32_t end;

	if (!sr_uring_is_own(ring))
		return;
	sr_lock(&ring->lock);
	show_taken(ring);
	end = sr_uring_load(&ring->kernel, at->tail);
	list_others(ring);
	sr_uring_find_provided(ring);
	for (uint32_t i = sr_uring_load(&ring->program, at->tail); i != end; i++)
		if (!take(ring, &from[i & (ring->params.cq_entries - 1)]))
			break;
	ring->given = sr_uring_load(&ring->program, at->tail);
	take_closed(ring);
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

	uint32_t end = sr_uring_load(&ring->program, tail);

	if (sr_uring_is_own(ring) && (end != ring->given || sr_uring_load(&ring->kernel, tail) != end || find_closed(ring)))
		*(bool *)any = true;
}

static void begin(void *of, void *argument)
{
	if (sr_uring_is_own(of))
		show_taken(of);
}

static void look_if_under_way(void *of, void *any)
{
	const struct sr_uring *ring = of;

	if (sr_uring_is_own(ring) && sr_uring_is_awaited(ring))
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

static void carry(bool looks, bool always, void *site)
{
	uint64_t a[] = {looks, (uintptr_t)&sr_self.received};
	int error = errno;

	if (always || have_arrived(a))
		sr_call(SR_CALL_io_uring_arrivals, a, site);
	errno = error;
}

void sr_uring_call_ends(void *site)
{
	carry(false, false, site);
}

void sr_uring_looks(void *site)
{
	carry(true, false, site);
}

void sr_uring_carry(void *site)
{
	carry(false, true, site);
}

uint64_t sr_invoke_io_uring_arrivals(const struct sr_call_desc *d, uint64_t *a)
{
	sr_uring_await_end();
	sr_uring_hold_files();
	sr_engine_regains(&sr_self, d);
	sr_uring_harvest();
	return 0;
}

/* --------------------------------------------------------------------- replay */

static void do_again(const struct sr_uring_completion *c)
{
	if (c->effect == SR_URING_OPENED && c->result >= 0) {
		sr_fd_hold(c->result);
	} else if (closes(c)) {
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
	const uint32_t head = ring ? ring->params.cq_off.head : 0;

	if (f)
		sr_uring_do_again(ring, f, c);
	if (ring && c->effect != SR_URING_CLOSED_SILENTLY)
		give(ring, c);
	if (ring && c->effect == SR_URING_TAKEN)
		sr_uring_store(&ring->program, head, sr_uring_load(&ring->program, head) + 1);
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
