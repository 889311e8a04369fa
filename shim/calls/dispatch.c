/* SPDX-License-Identifier: BSD-2-Clause */
/* dispatch.c: passes a call from its wrapper to the engine, or to the real function. */
#include <errno.h>

#include "logd/base/compiler.h"
#include "logd/base/page.h"
#include "shim/async/uring.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/core/stack_below.h"
#include "shim/files/fds.h"
#include "shim/core/hooks.h"
#include "shim/verbs/outside.h"
#include "shim/files/own_fds.h"
#include "shim/files/small_inputs.h"
#include "shim/files/uncompared.h"
#include "shim/process/children.h"
#include "shim/threads/libraries.h"
#include "shim/core/thread.h"
#include "shim/verbs/mapped_reads.h"
#include "shim/verbs/regions.h"

static bool is_captured(const struct sr_call_desc *d, const uint64_t *a)
{
	int fd;

	if (d->when)
		return d->when(a);
	if (d->fd_arg < 0)
		return true;
	fd = (int)a[d->fd_arg];
	return sr_fd_captured(fd) || (d->flags & (SR_CALL_ANY | SR_CALL_OUTPUT) && sr_fd_is_ordinary(fd));
}

/* Makes a call for which the kernel may read or write exposed regions. */
static uint64_t pinned_call(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_pinned pinned;
	uint64_t result;
	int saved = errno;

	sr_regions_pin(d, a, &pinned);
	errno = saved;
	result = sr_real(d, a);
	saved = errno;
	sr_regions_unpin(&pinned);
	errno = saved;
	return result;
}

/*
 * Makes a call that is not recorded, for example on a file.  A replay makes it, too.  The trap
 * lets its system calls pass.
 */
static uint64_t own_affair(struct sr_thread *t, const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t result;

	if (__builtin_expect(t->late_fd, 0) && (sr_regions_on || d == &sr_calls[SR_CALL_close]))
		sr_small_input_end(t);
	t->selector = SR_TRAP_ALLOW;
	result = sr_regions_on ? pinned_call(d, a) : sr_real(d, a);
	sr_select(t);
	if (__builtin_expect(sr_regions_on, 0))
		sr_mapped_reads_done(t, d, a, (int64_t)result);
	if (__builtin_expect(t->late_fd, 0) && d == &sr_calls[SR_CALL_read])
		sr_small_input_read(t, (int)a[0], (const void *)a[1], (long)result);
	return result;
}

/*
 * A call inside a library, or in a thread that a library started.  It is not recorded: only the
 * outermost call of a thread is the program's.  But its invoke function runs, because the shim
 * must know what nested calls do to queue pairs and requests.
 */
static uint64_t nested_call(struct sr_thread *t, const struct sr_call_desc *d, uint64_t *a)
{
	bool interruptible = t->signals.interruptible;
	uint64_t result;

	/* The code around the real function holds locks. */
	t->signals.interruptible = interruptible && !d->invoke;
	atomic_signal_fence(memory_order_seq_cst);
	result = sr_invoke(d, a);
	atomic_signal_fence(memory_order_seq_cst);
	t->signals.interruptible = interruptible;
	if (t->signals.waiting)
		sr_signals_take(t, SR_SIGNAL_IN_CALL);

	if (d->flags & SR_CALL_NEWFD && t->inside_rdmacm && (int)result >= 0)
		sr_fd_capture((int)result);
	return result;
}

/* The shim's own descriptors do not exist for the program. */
static uint64_t no_such_descriptor(void)
{
	errno = EBADF;
	return (uint64_t)-1;
}

/* A call of a process that is not recorded, or on a descriptor that may not be captured. */
static uint64_t __attribute__((noinline))
doubtful_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	const struct sr_call_desc *d = &sr_calls[n];

	if (!sr_engine && (d->flags & SR_CALL_OPENS || n == SR_CALL_post_send))
		sr_children_uses_verbs(d->name);
	if (!sr_engine && !(sr_waiting && d->flags & SR_CALL_OPENS && sr_wake()))
		return sr_outside && d->flags & (SR_CALL_OPENS | SR_CALL_OUTSIDE)
			   ? sr_outside_call(n, a)
			   : sr_real(d, a);
	/* Inside another call; the recording of this process has just begun. */
	if (t->depth)
		return nested_call(t, d, a);
	if (d->fd_arg >= 0 && sr_is_own_fd((int)a[d->fd_arg]))
		return no_such_descriptor();
	if (!is_captured(d, a)) {
		if (d->flags & SR_CALL_OUTPUT && (int)a[d->fd_arg] >= 0 && !sr_fd_is_ordinary((int)a[d->fd_arg]))
			sr_output_is_uncompared(SR_UNCOMPARED_HIGH);
		return own_affair(t, d, a);
	}
	/*
	 * The verbs libraries also use locks outside of any call, while they are unloaded.  If the last thing that a function of
	 * theirs does is to unlock, it does so by a jump, and the site is its caller's.
	 */
	if (d->when == sr_has_threads && (sr_is_verbs_library(site) || sr_is_verbs_library((void *)a[0])))
		return own_affair(t, d, a);
	return sr_engine->call(t, n, a, site);
}

/* Calls that are frequent and do little: locks, clocks, what moves bytes.  Clearing more takes 0.3 us. */
static bool is_shallow(enum sr_call_number n, const struct sr_call_desc *d)
{
	return d->when == sr_has_threads || (d->fd_arg >= 0 && !(d->flags & SR_CALL_NEWFD)) || n == SR_CALL_clock_gettime || n == SR_CALL_gettimeofday;
}

static inline uint64_t outermost_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	const struct sr_call_desc *d = &sr_calls[n];

	return d->fd_arg < 0 && !d->when ? sr_engine->call(t, n, a, site) : doubtful_call(t, n, a, site);
}

static void __attribute__((noinline)) begin_beside_rings(enum sr_call_number n, const uint64_t *a, void *site)
{
	sr_uring_call_begins();
	if (n == SR_CALL_close)
		sr_uring_closes((int)a[0], site);
}

uint64_t sr_call(enum sr_call_number n, uint64_t *a, void *site)
{
	const struct sr_call_desc *d = &sr_calls[n];
	struct sr_thread *t = &sr_self;
	uint64_t before, result;

	/* Most often a lock that a provider takes on the data path. */
	if (sr_engine && t->depth)
		return nested_call(t, d, a);
	if (!sr_engine)
		return doubtful_call(t, n, a, site);
	t->signals.base = (uintptr_t)__builtin_frame_address(0);
	if (__builtin_expect(sr_urings, 0))
		begin_beside_rings(n, a, site);
	before = t->sn;
	result = outermost_call(t, n, a, site);
	/* A call that is not recorded is no place at which a replay finds completions. */
	if (__builtin_expect(sr_urings, 0) && t->sn != before)
		sr_uring_call_ends(site);
	if (is_shallow(n, d) || !sr_stack_has_room(t, (uintptr_t)__builtin_frame_address(0)))
		sr_clear_stack_below(SR_STACK_CALL);
	else
		sr_clear_stack_below(SR_STACK_DEEP);
	return result;
}

/* An operation has left its call stack: its entry returns from here.  Nothing of the stack is used. */
uint64_t sr_left_cleared(uint64_t result) SR_HIDDEN __attribute__((used));
uint64_t sr_left_cleared(uint64_t result)
{
	sr_clear_registers();
	return result;
}
