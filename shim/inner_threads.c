/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inner_threads.c: threads that a library starts inside an intercepted call, as
 * rsockets do, are not the program's.  They spend their life as if inside that
 * call: nothing of theirs is recorded, and what they allocate is the library's.
 */
#include <errno.h>
#include <pthread.h>

#include "shim/call.h"
#include "shim/heap.h"
#include "shim/real.h"
#include "shim/thread.h"

#define EXPORT __attribute__((visibility("default")))

struct inner_thread {
	void *(*run)(void *);
	void *argument;
	bool inside_rdmacm;
};

/* Also where the thread ends by pthread_exit or is cancelled. */
static void end_inner(void *unused)
{
	struct sr_thread *t = &sr_self;

	sr_free(t->arrived);
	t->arrived = NULL;
	t->arrived_count = t->arrived_room = 0;
}

static void *run_inner(void *inner)
{
	struct inner_thread i = *(struct inner_thread *)inner;
	struct sr_thread *t = &sr_self;
	void *result;

	sr_enter(t);
	t->heap = SR_HEAP_LIBRARY;
	t->inside_rdmacm = i.inside_rdmacm;
	sr_free(inner);
	pthread_cleanup_push(end_inner, NULL);
	result = i.run(i.argument);
	pthread_cleanup_pop(1);
	return result;
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *argument)
{
	static void *_Atomic next;
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
	    sr_next("pthread_create", &next);
	struct sr_thread *t = &sr_self;
	struct inner_thread *inner;
	int err;

	if (!t->depth || !sr_engine)
		return create(thread, attr, run, argument);
	inner = sr_alloc(sizeof(*inner));
	if (!inner)
		return EAGAIN;
	*inner = (struct inner_thread){run, argument, t->inside_rdmacm};
	err = create(thread, attr, run_inner, inner);
	if (err)
		sr_free(inner);
	return err;
}
