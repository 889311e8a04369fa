/* SPDX-License-Identifier: BSD-2-Clause */
/* cancellation.c: whether and where a thread may be cancelled, and who cancels it; signals/cancellation.h says how. */
#include "shim/signals/cancellation.h"

#include <pthread.h>
#include <stdatomic.h>

#include "logd/base/compiler.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/next.h"
#include "shim/core/thread.h"
#include "shim/exposed/probe/probes.h"
#include "shim/signals/signals.h"

/* libc knows of one: a library's, or from before the recording. */
static atomic_bool libc_knows;

/* The thread would be cancelled now, if it has been cancelled before. */
static void test(struct sr_thread *t, void *site)
{
	uint64_t none[1] = {0};

	if (t->signals.cancellation.anywhere && !t->depth && sr_engine_is_active())
		sr_call(SR_CALL_pthread_testcancel, none, site);
}

static bool is_of_program(const struct sr_thread *t)
{
	return sr_engine_is_active() && sr_signals_are_shadowed() && t->numbered && !t->ended && !sr_is_section(t);
}

SR_EXPORT int pthread_setcanceltype(int type, int *before)
{
	SR_NEXT(next, "pthread_setcanceltype");
	int (*real)(int, int *) = (int (*)(int, int *))sr_next(&next);
	struct sr_thread *t = &sr_self;
	bool was = t->signals.cancellation.anywhere, anywhere = type == PTHREAD_CANCEL_ASYNCHRONOUS;
	int err;

	if (!is_of_program(t)) {
		if (anywhere)
			atomic_store(&libc_knows, true);
		return real(type, before);
	}
	err = real(anywhere ? PTHREAD_CANCEL_DEFERRED : type, before);
	if (err)
		return err;
	if (before && was)
		*before = PTHREAD_CANCEL_ASYNCHRONOUS;
	/* It may make no call for long before it is cancelled. */
	if (anywhere)
		sr_signals_claim(SIGSEGV, sr_signal_tick);
	if (was != anywhere)
		sr_cancellation_set(t, anywhere);
	test(t, __builtin_return_address(0));
	return 0;
}

SR_EXPORT int pthread_setcancelstate(int state, int *before)
{
	SR_NEXT(next, "pthread_setcancelstate");
	int err = ((int (*)(int, int *))sr_next(&next))(state, before);

	if (!err && state == PTHREAD_CANCEL_ENABLE)
		test(&sr_self, __builtin_return_address(0));
	return err;
}

SR_EXPORT void pthread_exit(void *result)
{
	SR_NEXT(next, "pthread_exit");

	sr_cancellation_ends(&sr_self);
	((void (*)(void *))sr_next(&next))(result);
	__builtin_unreachable();
}

bool sr_cancels(const uint64_t *a)
{
	return sr_has_threads(a) || sr_self.signals.cancellation.anywhere;
}

/*
 * A thread of which libc knows that it can be cancelled at any instruction could be cancelled inside a probe, so probes stop.  Not as
 * soon as it can be: a thread of a library may be such a one for a moment.
 */
uint64_t sr_invoke_cancel(const struct sr_call_desc *d, uint64_t *a)
{
	if (sr_cancellation_send((pthread_t)a[0]))
		return 0;
	if (atomic_load(&libc_knows))
		probes_stop();
	return sr_real(d, a);
}
