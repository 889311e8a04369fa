/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/threads/stacks.h"

#include <errno.h>
#include <sys/mman.h>

#include "logd/base/compiler.h"
#include "logd/base/lock.h"
#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/core/next.h"
#include "shim/core/thread.h"
#include "shim/memory/heap.h"
#include "shim/memory/map.h"
#include "shim/threads/gone.h"

/* The room that the shim's own frames and thread-local variables may take on a small stack. */
#define SHIM_ROOM (16ul << 10)

/* How many stacks at most a new thread looks at, of those that may be unmapped soon. */
#define LOOKS 8

/* The stacks of threads that are being created, */
static struct sr_thread_start *starting;
/* that are neither joined nor detached, by their pthread_t, */
static struct sr_map by_id;
/* and that are: a queue, in which those that still run come round again. */
static struct sr_thread_start *released, **released_end = &released;
/* For all of these; only the map's and the heap's locks are taken under it. */
static struct sr_lock stacks_lock;
static _Atomic uintptr_t next_stack = SR_STACKS;

/* Called with the lock held. */
static void queue_released(struct sr_thread_start *s)
{
	s->next = NULL;
	*released_end = s;
	released_end = &s->next;
}

static void release_starting(pthread_t id)
{
	for (struct sr_thread_start *s = starting; s; s = s->next)
		if (id - s->stack < s->stack_size)
			s->released = true;
}

/*
 * glibc keeps its data about a thread at the upper end of the stack, where the pthread_t
 * points. It does not need it any more when the thread is joined, or detached and gone.
 */
void sr_stack_release(pthread_t id)
{
	struct sr_thread_start *s;

	sr_lock(&stacks_lock);
	s = sr_map_take(&by_id, id);
	if (s)
		queue_released(s);
	else
		release_starting(id);
	sr_unlock(&stacks_lock);
}

void sr_stacks_unmap(void)
{
	struct sr_thread_start *s;

	sr_lock(&stacks_lock);
	for (int i = 0; i < LOOKS && (s = released); i++) {
		released = s->next;
		if (!released)
			released_end = &released;
		if (!s->tid || !sr_thread_is_gone(s->tid)) {
			queue_released(s);
			continue;
		}
		sr_sys_munmap((void *)s->stack, s->stack_size);
		sr_free(s);
	}
	sr_unlock(&stacks_lock);
}

void sr_stack_list(struct sr_thread_start *s, const pthread_attr_t *attr)
{
	int detached = PTHREAD_CREATE_JOINABLE;

	pthread_attr_getdetachstate(attr, &detached);
	s->released = detached == PTHREAD_CREATE_DETACHED;
	sr_lock(&stacks_lock);
	s->next = starting;
	starting = s;
	sr_unlock(&stacks_lock);
}

static void unlist(const struct sr_thread_start *s)
{
	struct sr_thread_start **link;

	for (link = &starting; *link && *link != s; link = &(*link)->next)
		;
	if (*link)
		*link = s->next;
}

void sr_stack_unlist(struct sr_thread_start *s)
{
	sr_lock(&stacks_lock);
	unlist(s);
	sr_unlock(&stacks_lock);
}

void sr_stack_created(struct sr_thread_start *s, pthread_t id)
{
	void *old;

	sr_lock(&stacks_lock);
	unlist(s);
	if (s->released)
		queue_released(s);
	else
		sr_map_put(&by_id, id, s, &old); /* without memory its stack stays mapped */
	sr_unlock(&stacks_lock);
}

bool sr_attr_has_stack(const pthread_attr_t *attr)
{
	void *low;
	size_t size;

	/*
	 * glibc stores the upper end (0 if there is none) and the size, and returns their
	 * difference.
	 */
	return attr && !pthread_attr_getstack(attr, &low, &size) && (uintptr_t)low + size;
}

bool sr_stack_is_placed(const void *addr)
{
	return (uintptr_t)addr - SR_STACKS < atomic_load_explicit(&next_stack, memory_order_relaxed) - SR_STACKS;
}

int sr_stack_map(struct sr_thread_start *s, pthread_attr_t *attr)
{
	size_t size = 0, guard = 0;
	void *p;
	int err;

	pthread_attr_getstacksize(attr, &size);
	pthread_attr_getguardsize(attr, &guard);
	size = sr_page_up(size);
	guard = sr_page_up(guard);
	/* Like glibc, add the guard to the size; and add the room that the shim needs. */
	size += guard + SHIM_ROOM;
	if (!s->stack)
		s->stack = atomic_fetch_add(&next_stack, size + PAGE);
	s->stack_size = size;
	s->guard = guard;
	p = sr_sys_mmap(
	    (void *)s->stack, size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK | MAP_FIXED_NOREPLACE, -1, 0);
	if (p != (void *)s->stack) {
		if (!sr_sys_is_error(p))
			sr_sys_munmap(p, size);
		s->stack = 0;
		return EAGAIN;
	}
	sr_syscall(SYS_mprotect, (long)s->stack, (long)guard, PROT_NONE, 0, 0, 0);
	err = pthread_attr_setstack(attr, (char *)p + guard, size - guard);
	if (err) {
		sr_sys_munmap(p, size);
		s->stack = 0;
	}
	return err;
}

/* ---- what the program is told ---- */

static size_t guard_of(pthread_t id)
{
	const struct sr_thread_start *s;
	size_t guard;

	if (pthread_equal(id, pthread_self()))
		return sr_self.guard;
	sr_lock(&stacks_lock);
	s = sr_map_get(&by_id, id);
	guard = s ? s->guard : 0;
	sr_unlock(&stacks_lock);
	return guard;
}

/*
 * glibc takes a stack that it has not mapped itself to have no guard.  Programs look for theirs: each
 * thread of Rust does, and aborts without one.
 */
SR_EXPORT int pthread_getattr_np(pthread_t id, pthread_attr_t *attr)
{
	SR_NEXT(next, "pthread_getattr_np");
	int err = ((int (*)(pthread_t, pthread_attr_t *))sr_next(&next))(id, attr);
	size_t guard = err ? 0 : guard_of(id);

	if (guard)
		pthread_attr_setguardsize(attr, guard);
	return err;
}
