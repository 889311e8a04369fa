/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/process/children.h"

#include <errno.h>
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
#include "shim/process/fork_handlers.h"
#include "shim/core/next.h"
#include "logd/base/say.h"
#include "shim/signals/signals.h"
#include "shim/core/thread.h"
#include "shim/kernel/tsc.h"
#include "shim/exposed/exposed.h"
#include "shim/exposed/probe/probes.h"

static void (*forget)(void);
static bool is_child; /* of a recorded process */
static atomic_bool *said; /* that children use verbs; in memory that all of them share; or NULL */

/* ------------------------------------------------------------- in the child */

static void (*memory_before)(void), (*memory_after)(bool child);

void sr_children_watch_memory(void (*before)(void), void (*after)(bool child))
{
	memory_before = before;
	memory_after = after;
}

/* The exposed memory's lock comes before the heap's. */
void sr_children_copy_begins(void)
{
	if (memory_before)
		memory_before();
	sr_heap_lock();
	sr_self.forking = true;
}

static void end_locks(void)
{
	sr_self.forking = false;
	sr_heap_unlock();
}

void sr_children_copy_ended(void)
{
	end_locks();
	if (memory_after)
		memory_after(false);
}

/* A replay makes no child that could find the locks held, but the one that it goes on as. */
static void before_fork(void)
{
	if (!sr_signals_are_replayed() || sr_self.recorded_child)
		sr_children_copy_begins();
}

static void after_fork_in_parent(void)
{
	if (sr_self.forking)
		sr_children_copy_ended();
}

/* The interrupted call belongs to the parent. */
static void become_program(void)
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

void sr_children_begin(void)
{
	bool copied = sr_self.forking;

	if (copied)
		end_locks();
	if (sr_self.recorded_child)
		go_on(&sr_self);
	else
		become_program();
	if (copied && memory_after)
		memory_after(true);
}

void sr_children_uses_verbs(const char *call)
{
	if (is_child && said && !atomic_exchange(said, true))
		sr_say("process %ld, which a recorded one has forked, uses verbs (%s): children are "
		       "not recorded",
		       sr_sys_getpid(), call);
	is_child = false;
}

static bool (*order_begins)(void);
static void (*order_ends)(void);

void sr_children_order(bool (*begins)(void), void (*ends)(void))
{
	order_begins = begins;
	order_ends = ends;
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
	return sr_fork_add_own(before_fork, after_fork_in_parent, sr_children_begin);
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

static void starts_unrecorded(void)
{
	if (sr_engine && sr_engine->starts_unrecorded)
		sr_engine->starts_unrecorded();
}

/* One of the functions that fork. */
struct fork {
	pid_t (*make)(void);
	bool by_atfork; /* it runs the handlers of pthread_atfork */
	bool executes;  /* the child does nothing but execute a program */
};

static pid_t make_without_atfork(const struct fork *f)
{
	pid_t pid;

	sr_children_copy_begins();
	pid = f->make();
	if (pid)
		sr_children_copy_ended();
	else
		sr_children_begin();
	return pid;
}

/* libc's fork runs the shim's own handlers only. */
static pid_t make_with_atfork(const struct fork *f)
{
	pid_t pid;

	sr_self.runs_fork_handlers = true;
	pid = f->make();
	sr_self.runs_fork_handlers = false;
	return pid;
}

static pid_t make_none(void)
{
	return 0;
}

static pid_t make(const struct fork *f)
{
	const struct fork as_child = {.make = make_none};

	if (sr_engine->becomes_child && sr_engine->becomes_child())
		return make_without_atfork(&as_child);
	return f->by_atfork ? make_with_atfork(f) : make_without_atfork(f);
}

/* Makes the child, which returns from here as the program, without a record. */
static pid_t copy_process(const struct fork *f, void *site)
{
	struct sr_thread *t = &sr_self;
	bool replayed = sr_signals_are_replayed();
	uint64_t none[1] = {0};
	enum sr_heap before;
	pid_t pid;

	if (!f->executes && watch_before)
		watch_before(site);
	before = sr_enter(t);
	t->recorded_child = !f->executes && sr_engine->forks ? sr_engine->forks(t) : 0;
	if (!replayed || t->recorded_child) {
		if (!replayed)
			sr_files_child_made();
		pid = make(f);
		if (!pid && sr_engine && watch_in_child)
			watch_in_child(site);
		if (!pid)
			return 0;
		if (replayed)
			sr_engine->leaves_to(t, pid);
		else if (pid > 0 && !t->recorded_child)
			starts_unrecorded();
		t->recorded_child = 0;
		t->made.pid = pid;
		t->made.error = errno;
	}
	sr_leave(t, before);
	return (pid_t)sr_call(SR_CALL_forked, none, site);
}

/* vfork runs no handlers. */
static pid_t make_child(const struct fork *f, void *site)
{
	const bool has_handlers = f->by_atfork && !f->executes;
	bool is_ordered;
	pid_t pid;

	if (!is_programs())
		return f->make();
	if (has_handlers)
		sr_fork_prepares();
	is_ordered = f->by_atfork && order_begins && order_begins();
	pid = copy_process(f, site);
	if (is_ordered)
		order_ends();
	if (has_handlers && pid)
		sr_fork_goes_on_in_parent();
	else if (has_handlers)
		sr_fork_goes_on_in_child();
	return pid;
}

pid_t sr_children_fork(void *site)
{
	SR_NEXT(next, "fork");
	struct fork f = {.make = (pid_t(*)(void))sr_next(&next), .by_atfork = true};

	return make_child(&f, site);
}

SR_EXPORT pid_t fork(void)
{
	return sr_children_fork(__builtin_return_address(0));
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
	/* system() returns a status, posix_spawn() an error. */
	if (d == &sr_calls[SR_CALL_system] ? a[0] && (int)result != -1 : !result)
		starts_unrecorded();
	return result;
}

/* ------------------------------------------------------------------ clone */

/* What is called to make the child stores what it is to do there. */
void sr_children_stack(uintptr_t end)
{
	if (end && sr_exposed_has_stack(end))
		sr_exposed_give_up_stack(end);
}

struct cloned {
	int (*f)(void *);
	void *argument;
};

static int run_clone(void *argument)
{
	struct cloned c = *(struct cloned *)argument;

	sr_children_begin();
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
	const bool shares = flags & CLONE_VM;
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
	sr_children_stack((uintptr_t)stack);
	if (!sr_signals_are_replayed()) {
		sr_files_child_made();
		if (shares) {
			sr_say(
			    "clone with shared memory: what the child calls may be taken for its "
			    "parent's");
			probes_stop();
		}
		before = sr_enter(t);
		sr_tsc_pause();
		if (!shares)
			sr_children_copy_begins();
		/* The child has its own copy of c. */
		t->made.pid = real(shares ? f : run_clone, stack, flags, shares ? argument : &c, parent_tid, tls, child_tid);
		t->made.error = errno;
		if (!shares)
			sr_children_copy_ended();
		sr_tsc_resume();
		sr_leave(t, before);
	}
	return (pid_t)sr_call(SR_CALL_forked, none, __builtin_return_address(0));
}
