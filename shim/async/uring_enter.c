/* SPDX-License-Identifier: BSD-2-Clause */
/* uring_enter.c: carries requests to the kernel, and waits for completions. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "logd/base/rawsys.h"
#include "shim/async/uring_ring.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/files/uncompared.h"
#include "shim/kernel/readable.h"
#include "shim/signals/signals.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/regions.h"

/* ----------------------------------------------------- the ring of submissions */

static uint32_t place_of(const struct sr_uring *ring, uint32_t i)
{
	return (sr_uring_load(&ring->program, ring->params.sq_off.head) + i) & (ring->params.sq_entries - 1);
}

uint32_t sr_uring_pending(const struct sr_uring *ring, uint32_t n)
{
	const struct sr_uring_sq_offsets *at = &ring->params.sq_off;
	const uint32_t *indices = sr_uring_indices(ring, &ring->program);
	uint32_t there = sr_uring_load(&ring->program, at->tail) - sr_uring_load(&ring->program, at->head), count = 0;

	n = n < there && !ring->polls ? n : there;
	n = n < ring->params.sq_entries ? n : ring->params.sq_entries;
	while (count < n && indices[place_of(ring, count)] < ring->params.sq_entries)
		count++;
	return count;
}

const struct sr_uring_sqe *sr_uring_request(const struct sr_uring *ring, uint32_t i)
{
	return &ring->program.requests[sr_uring_indices(ring, &ring->program)[place_of(ring, i)]];
}

void sr_uring_made(struct sr_uring *ring, uint32_t i, long result)
{
	ring->results[place_of(ring, i)] = (int32_t)result;
}

void sr_uring_show_under_way(struct sr_uring *ring)
{
	const uint32_t flags = ring->params.sq_off.flags;
	uint32_t now = sr_uring_load(&ring->program, flags) & ~SR_URING_SQ_TASKRUN;

	sr_uring_store(&ring->program, flags, sr_uring_is_awaited(ring) ? now | SR_URING_SQ_TASKRUN : now);
}

/* The kernel has taken so many. */
static void advance(struct sr_uring *ring, uint32_t taken)
{
	const uint32_t head = ring->params.sq_off.head;

	for (uint32_t i = 0; i < taken; i++) {
		const struct sr_uring_sqe *r = sr_uring_request(ring, i);

		sr_uring_has_submitted(ring, r);
		if (!(r->flags & SR_URING_SQE_CQE_SKIP_SUCCESS))
			ring->under_way++;
	}
	sr_uring_store(&ring->program, head, sr_uring_load(&ring->program, head) + taken);
	ring->submitted += taken;
	sr_uring_show_under_way(ring);
}

/* ------------------------------------------------------------------ recording */

/* Returns how many the kernel can be offered. */
static uint32_t offer(struct sr_uring *ring, uint32_t n, struct sr_uring_flight **flights)
{
	const struct sr_uring_sq_offsets *at = &ring->params.sq_off;
	uint32_t *indices = sr_uring_indices(ring, &ring->kernel);
	uint32_t tail = sr_uring_load(&ring->kernel, at->head), place, i;

	for (i = 0; i < n; i++) {
		place = place_of(ring, i);
		if (!sr_uring_take_off(ring, sr_uring_request(ring, i), ring->results[place], &ring->kernel.requests[place], &flights[i]))
			break;
		if (flights[i])
			flights[i]->number = ring->submitted + i;
		indices[place] = place;
	}
	sr_uring_store(&ring->kernel, at->tail, tail + i);
	return i;
}

/* The kernel has not taken the last ones. */
static void withdraw(struct sr_uring *ring, struct sr_uring_flight **flights, uint32_t taken, uint32_t n)
{
	const struct sr_uring_sq_offsets *at = &ring->params.sq_off;

	sr_uring_store(&ring->kernel, at->tail, sr_uring_load(&ring->kernel, at->head));
	for (uint32_t i = taken; i < n; i++)
		if (flights[i])
			sr_uring_forget(ring, flights[i]);
}

/* The kernel reads lists and messages in the program's memory now; for data in exposed memory it has copies. */
static long submit_offered(struct sr_uring *ring, uint32_t n)
{
	struct sr_pinned pinned;
	long result;

	if (!sr_regions_on)
		return sr_syscall(SYS_io_uring_enter, ring->fd, n, 0, 0, 0, 0);
	sr_regions_pin_none(&pinned);
	for (uint32_t i = 0; i < n; i++) {
		const struct sr_uring_sqe *r = &ring->kernel.requests[place_of(ring, i)];
		bool is_list = r->opcode == SR_URING_OP_READV || r->opcode == SR_URING_OP_WRITEV;

		sr_regions_pin_more(&pinned, (const void *)r->addr, is_list ? r->len * sizeof(struct iovec) : sizeof(struct msghdr));
	}
	result = sr_syscall(SYS_io_uring_enter, ring->fd, n, 0, 0, 0, 0);
	sr_regions_unpin(&pinned);
	return result;
}

/* Returns how many the kernel has taken, or -errno. */
static long submit(struct sr_uring *ring, uint32_t wanted)
{
	struct sr_uring_flight **flights;
	uint32_t n;
	long taken;

	sr_lock(&ring->lock);
	n = sr_uring_pending(ring, wanted);
	flights = n ? sr_alloc(n * sizeof(*flights)) : NULL;
	n = flights ? offer(ring, n, flights) : 0;
	taken = n ? submit_offered(ring, n) : 0;
	if (taken < (long)n)
		withdraw(ring, flights, taken > 0 ? (uint32_t)taken : 0, n);
	if (taken > 0)
		advance(ring, (uint32_t)taken);
	sr_unlock(&ring->lock);
	sr_free(flights);
	return taken;
}

/* As the kernel's polling thread does, with what it is told.  Returns `wanted`, as the kernel, or -errno. */
static long submit_all(struct sr_uring *ring, uint32_t wanted)
{
	long taken, all = 0;

	do {
		taken = submit(ring, UINT32_MAX);
		all += taken;
	} while (taken > 0);
	return taken < 0 && !all ? taken : (long)wanted;
}

/* Handlers of the program wait until the call has ended: it counts as over already, and what a handler called would come behind it. */
static uint64_t enter_in_section(const uint64_t *a)
{
	long result = sr_syscall(SYS_io_uring_enter, (int)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4], (long)a[5]);

	if (result >= 0)
		return (uint64_t)result;
	errno = (int)-result;
	return (uint64_t)-1;
}

/* May the call wait?  If not, its end is ordered before it is made. */
static bool waits(const uint64_t *a)
{
	return (uint32_t)a[3] & SR_URING_ENTER_GETEVENTS && a[2];
}

/* The wait's mask must leave the signals open that the shim needs (signals.h). */
static uint64_t wait_for_completions(const struct sr_call_desc *d, const uint64_t *a, uint32_t flags)
{
	uint64_t words[] = {a[0], 0, a[2], flags & ~(SR_URING_ENTER_SQ_WAKEUP | SR_URING_ENTER_SQ_WAIT), a[4], a[5]};
	struct sr_uring_getevents_arg argument;
	sigset_t copy;
	uint64_t *mask = &words[4];

	if (flags & SR_URING_ENTER_EXT_ARG && words[5] == sizeof(argument) && sr_is_readable((const void *)words[4], sizeof(argument))) {
		memcpy(&argument, (const void *)words[4], sizeof(argument));
		words[4] = (uintptr_t)&argument;
		mask = (uint64_t *)&argument.sigmask;
	}
	if (sr_is_readable((const void *)*mask, sizeof(*mask)))
		*mask = (uintptr_t)sr_signals_filter((const sigset_t *)*mask, &copy);
	return waits(a) ? sr_real(d, words) : enter_in_section(words);
}

/* Made before the shim knew of it: what such a ring brings is not recorded. */
static uint64_t enter_unknown(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t result = sr_real(d, a);

	if ((int64_t)result >= 0)
		sr_output_is_uncompared(SR_UNCOMPARED_CALL);
	return result;
}

uint64_t sr_invoke_io_uring_enter(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_uring *ring = sr_uring_of((int)a[0]);
	const uint32_t wanted = (uint32_t)a[1], flags = (uint32_t)a[3];
	uint64_t result = 0;
	long taken = 0;
	int error = errno;

	if (!ring)
		return enter_unknown(d, a);
	if (flags & ~(SR_URING_ENTER_GETEVENTS | SR_URING_ENTER_SQ_WAKEUP | SR_URING_ENTER_SQ_WAIT | SR_URING_ENTER_EXT_ARG)) {
		errno = EINVAL;
		return (uint64_t)-1;
	}
	sr_uring_used(ring);
	/* Other threads look at the program's rings: these change as a part of this call's end, unless it waits before. */
	if (!waits(a))
		sr_engine_regains(&sr_self, d);
	if (ring->polls)
		taken = submit_all(ring, wanted);
	else if (wanted)
		taken = submit(ring, wanted);
	/* As the kernel does: it waits only if it has taken all, and says how many these are. */
	if (taken == (long)wanted && (flags & SR_URING_ENTER_GETEVENTS || !wanted)) {
		result = wait_for_completions(d, a, flags);
		error = errno;
	}
	if (waits(a))
		sr_uring_hold_files();
	sr_engine_regains(&sr_self, d);
	sr_uring_harvest();
	/* The ring itself may have been closed by a request. */
	if (sr_uring_waits())
		sr_uring_may_spin();
	if (taken < 0) {
		errno = (int)-taken;
		return (uint64_t)-1;
	}
	errno = error;
	return taken ? (uint64_t)taken : result;
}

/* --------------------------------------------------------------------- replay */

void sr_replayed_io_uring_enter(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	struct sr_uring *ring = sr_uring_of((int)a[0]);
	uint32_t n = ring && ((int)result > 0 || ring->polls) ? sr_uring_pending(ring, (uint32_t)a[1]) : 0;

	if (n > (uint32_t)result && !ring->polls)
		n = (uint32_t)result;
	for (uint32_t i = 0; i < n; i++)
		sr_uring_note(ring, sr_uring_request(ring, i), ring->submitted + i);
	if (n)
		advance(ring, n);
	sr_uring_give_arrivals();
}
