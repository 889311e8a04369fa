/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * once.c: pthread_once and call_once. The program's routine runs inside the real function,
 * but the calls that it makes are recorded.
 */
#include <pthread.h>
#include <threads.h>

#include "logd/base/compiler.h"
#include "shim/core/engine.h"
#include "shim/core/next.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/threads/libraries.h"

/*
 * Runs the routine inside the real pthread_once. The calls that the routine makes are the
 * program's.
 */
static void run_once_routine(void)
{
	struct sr_thread *t = &sr_self;
	void (*routine)(void) = t->once;
	uint64_t none[1] = {0};

	/*
	 * If the routine throws or is cancelled, this function does not undo these changes, and
	 * its caller does not undo its own: the two cancel each other out.
	 */
	sr_engine_resumes(t);
	t->depth--;
	sr_select(t);
	t->heap = SR_HEAP_PROGRAM;
	sr_call(SR_CALL_once_init, none, (void *)routine);
	routine();
	sr_call(SR_CALL_once_done, none, (void *)routine);
	t->heap = SR_HEAP_LIBRARY;
	t->depth++;
	sr_select(t);
	sr_engine_releases(t);
}

typedef int (*once_function)(int *control, void (*routine)(void));

/* In a replay as well: the routine's frames are where they were. */
static int call_real(struct sr_thread *t, once_function real, int *control, void (*routine)(void))
{
	int err;

	t->once = routine;
	t->depth++;
	sr_select(t);
	t->heap = SR_HEAP_LIBRARY;
	/* Release: another thread may be executing the routine. */
	sr_engine_releases(t);
	err = real(control, run_once_routine);
	sr_engine_resumes(t);
	t->heap = SR_HEAP_PROGRAM;
	t->depth--;
	sr_select(t);
	return err;
}

static int once(once_function real, int *control, void (*routine)(void), void *site)
{
	struct sr_thread *t = &sr_self;
	uint64_t a[1] = {(uintptr_t)control};
	int err = 0;

	if (!sr_engine || !sr_threaded || t->depth || sr_is_verbs_library(site))
		return real(control, routine);
	/* The trace says which thread runs the routine. */
	if (!sr_engine->replays || sr_engine->comes_next(t, SR_CALL_once_init, NULL))
		err = call_real(t, real, control, routine);
	sr_call(SR_CALL_once, a, site);
	return err;
}

SR_EXPORT int pthread_once(pthread_once_t *control, void (*routine)(void))
{
	SR_NEXT(next, "pthread_once");

	return once((once_function)sr_next(&next), control, routine, __builtin_return_address(0));
}

SR_EXPORT void call_once(once_flag *flag, void (*routine)(void))
{
	SR_NEXT(next, "pthread_once");

	/* In glibc, call_once is pthread_once, and the flag is an int as well. */
	once((once_function)sr_next(&next), (int *)flag, routine, __builtin_return_address(0));
}
