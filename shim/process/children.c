/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/process/children.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "logd/base/compiler.h"
#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/files/inputs.h"
#include "shim/memory/heap.h"
#include "shim/core/hooks.h"
#include "shim/core/next.h"
#include "logd/base/say.h"
#include "shim/signals/signals.h"
#include "shim/core/thread.h"
#include "shim/kernel/tsc.h"
#include "shim/exposed/probe/probes.h"

static void (*forget)(void);
static bool is_child; /* of a recorded process */
static atomic_bool *said; /* that children use verbs; in memory that all of them share; or NULL */

/* ------------------------------------------------------------- in the child */

/* A replay makes no child that could find the lock held, but the one that it goes on as. */
static void before_fork(void)
{
	if (sr_signals_are_replayed() && !sr_self.recorded_child)
		return;
	sr_heap_lock();
	sr_self.forking = true;
}

static void after_fork_in_parent(void)
{
	if (!sr_self.forking)
		return;
	sr_self.forking = false;
	sr_heap_unlock();
}

/* The interrupted call belongs to the parent. */
void sr_children_become_program(void)
{
	struct sr_thread *t = &sr_self;

	probes_stop_in_child();
	is_child = is_child || (sr_engine && !sr_engine->replays);
	if (forget)
		forget();
	t->depth = 0;
	t->heap = SR_HEAP_PROGRAM;
	t->inside_rdmacm = false;
}

/* The child is recorded, or it is the one that is replayed. */
static void go_on(struct sr_thread *t)
{
	uint32_t child = t->recorded_child;

	t->recorded_child = 0;
	t->inside_rdmacm = t->raw = false;
	sr_engine->continues(t, child);
	t->depth = 0;
	t->heap = SR_HEAP_PROGRAM;
	sr_select(t);
}

static void begin_child(void)
{
	if (sr_self.recorded_child)
		go_on(&sr_self);
	else
		sr_children_become_program();
}

static void after_fork_in_child(void)
{
	after_fork_in_parent();
	begin_child();
}

void sr_children_uses_verbs(const char *call)
{
	if (is_child && said && !atomic_exchange(said, true))
		sr_say("process %ld, which a recorded one has forked, uses verbs (%s): children are "
		       "not recorded",
		       sr_sys_getpid(), call);
	is_child = false;
}

static void (*watch_before)(void *site), (*watch_in_child)(void *site);

void sr_children_watch(void (*before)(void *site), void (*in_child)(void *site))
{
	watch_before = before;
	watch_in_child = in_child;
}

int sr_children_start(void (*f)(void))
{
	void *page = sr_sys_mmap(sr_heap_place_mapping(PAGE), PAGE, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	said = sr_sys_is_error(page) ? NULL : page;
	forget = f;
	return pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void sr_children_stop(void)
{
	forget = NULL;
}

/* --------------------------------------------------------------- fork and kin */

static bool is_programs(void)
{
	return sr_engine_is_active() && !sr_self.depth;
}

/* Returns the result of the kernel's call, for the record. */
uint64_t sr_invoke_child(const struct sr_call_desc *d, uint64_t *a)
{
	errno = sr_self.made.error;
	return (uint64_t)(int64_t)sr_self.made.pid;
}

/* One of the functions that fork. */
struct fork {
	pid_t (*make)(void);
	bool by_atfork; /* it runs the handlers of pthread_atfork */
	bool executes;  /* the child does nothing but execute a program */
};

/* Makes the child, which returns from here as the program, without a record. */
static pid_t make_child(const struct fork *f, void *site)
{
	struct sr_thread *t = &sr_self;
	bool replayed = sr_signals_are_replayed();
	uint64_t none[1] = {0};
	enum sr_heap before;
	pid_t pid;

	if (!is_programs())
		return f->make();
	if (!f->executes && watch_before)
		watch_before(site);
	before = sr_enter(t);
	t->recorded_child = !f->executes && sr_engine->forks ? sr_engine->forks(t) : 0;
	if (!replayed || t->recorded_child) {
		if (!replayed)
			sr_files_child_made();
		pid = f->make();
		if (!pid && !f->by_atfork)
			begin_child();
		if (!pid && sr_engine && watch_in_child)
			watch_in_child(site);
		if (!pid)
			return 0;
		if (replayed)
			sr_engine->leaves_to(t, pid);
		t->recorded_child = 0;
		t->made.pid = pid;
		t->made.error = errno;
	}
	sr_leave(t, before);
	return (pid_t)sr_call(SR_CALL_forked, none, site);
}

SR_EXPORT pid_t fork(void)
{
	SR_NEXT(next, "fork");
	struct fork f = {.make = (pid_t(*)(void))sr_next(&next), .by_atfork = true};

	return make_child(&f, __builtin_return_address(0));
}

/* In a recorded process, vfork is a fork (vfork.c). */
pid_t sr_children_vfork(void)
{
	SR_NEXT(next, "fork");
	struct fork f = {.make = (pid_t(*)(void))sr_next(&next), .by_atfork = true, .executes = true};

	return make_child(&f, __builtin_return_address(0));
}

/* _Fork does not run the handlers of pthread_atfork. */
SR_EXPORT pid_t _Fork(void)
{
	SR_NEXT(next, "_Fork");
	struct fork f = {.make = (pid_t(*)(void))sr_next(&next)};

	return make_child(&f, __builtin_return_address(0));
}

/* Pause the trap: the new program does not know it and would be killed by it. */
uint64_t sr_invoke_spawn(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t result;

	sr_files_child_made();
	sr_tsc_pause();
	result = sr_real(d, a);
	sr_tsc_resume();
	return result;
}

/* ------------------------------------------------------------------ clone */

struct cloned {
	int (*f)(void *);
	void *argument;
};

static int run_clone(void *argument)
{
	struct cloned c = *(struct cloned *)argument;

	sr_children_become_program();
	return c.f(c.argument);
}

typedef int (*clone_function)(int (*f)(void *), void *stack, int flags, void *argument, ...);

SR_EXPORT int clone(int (*f)(void *), void *stack, int flags, void *argument, ...)
{
	SR_NEXT(next, "clone");
	clone_function real = (clone_function)sr_next(&next);
	struct sr_thread *t = &sr_self;
	uint64_t none[1] = {0};
	struct cloned c = {f, argument};
	enum sr_heap before;
	pid_t *parent_tid, *child_tid;
	void *tls;
	va_list ap;

	va_start(ap, argument);
	parent_tid = va_arg(ap, pid_t *);
	tls = va_arg(ap, void *);
	child_tid = va_arg(ap, pid_t *);
	va_end(ap);
	if (!is_programs() || flags & CLONE_THREAD)
		return real(f, stack, flags, argument, parent_tid, tls, child_tid);
	if (!sr_signals_are_replayed()) {
		sr_files_child_made();
		if (flags & CLONE_VM)
			sr_say(
			    "clone with shared memory: what the child calls may be taken for its "
			    "parent's");
		if (flags & CLONE_VM)
			probes_stop();
		before = sr_enter(t);
		sr_tsc_pause();
		/* The child has its own copy of c. */
		t->made.pid = real(flags & CLONE_VM ? f : run_clone, stack, flags,
				   flags & CLONE_VM ? argument : &c, parent_tid, tls, child_tid);
		t->made.error = errno;
		sr_tsc_resume();
		sr_leave(t, before);
	}
	return (pid_t)sr_call(SR_CALL_forked, none, __builtin_return_address(0));
}
