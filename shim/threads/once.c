/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * once.c: pthread_once and call_once.  The program's routine runs inside of the real
 * function, but what it calls is recorded.
 */
#include <pthread.h>
#include <threads.h>

#include "logd/base/compiler.h"
#include "shim/core/engine.h"
#include "shim/core/next.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/threads/libraries.h"

/* Inside of the real pthread_once: what the routine calls is the program's. */
static void run_once_routine(void)
{
	struct sr_thread *t = &sr_self;
	void (*routine)(void) = t->once;
	uint64_t none[1] = {0};

	/*
	 * If the routine throws or is cancelled, neither the second half of these changes is made
	 * nor that of the caller's: they cancel out.
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

static int record_once(struct sr_thread *t, once_function real, int *control, void (*routine)(void))
{
	int err;

	t->once = routine;
	t->depth++;
	sr_select(t);
	t->heap = SR_HEAP_LIBRARY;
	/* Another thread may be in the routine. */
	sr_engine_releases(t);
	err = real(control, run_once_routine);
	sr_engine_resumes(t);
	t->heap = SR_HEAP_PROGRAM;
	t->depth--;
	sr_select(t);
	return err;
}

/* The trace says which thread runs the routine. */
static void replay_once(struct sr_thread *t, int *control, void (*routine)(void))
{
	uint64_t none[1] = {0};

	if (!sr_engine->comes_next(t, SR_CALL_once_init))
		return;
	sr_call(SR_CALL_once_init, none, (void *)routine);
	routine();
	sr_call(SR_CALL_once_done, none, (void *)routine);
	/* As glibc marks it, for those of its functions that are not intercepted. */
	__atomic_store_n(control, 2, __ATOMIC_RELEASE);
}

static int once(once_function real, int *control, void (*routine)(void), void *site)
{
	struct sr_thread *t = &sr_self;
	uint64_t a[1] = {(uintptr_t)control};
	int err = 0;

	if (!sr_engine || !sr_threaded || t->depth || sr_is_verbs_library(site))
		return real(control, routine);
	if (sr_engine->replays)
		replay_once(t, control, routine);
	else
		err = record_once(t, real, control, routine);
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

	/* glibc's is its pthread_once, on an int as well. */
	once((once_function)sr_next(&next), (int *)flag, routine, __builtin_return_address(0));
}
