/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/calls/trap/processes.h"

#include "logd/base/rawsys.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/process/ids.h"

#if defined(__x86_64__)

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "shim/async/ends.h"
#include "shim/calls/trap/make.h"
#include "shim/calls/trap/table.h"
#include "shim/calls/trap/x86_64.h"
#include "shim/core/engine.h"
#include "shim/exposed/probe/probes.h"
#include "shim/files/inputs.h"
#include "shim/files/mapped_outputs.h"
#include "shim/files/private.h"
#include "shim/kernel/guarded.h"
#include "shim/kernel/readable.h"
#include "shim/kernel/tsc.h"
#include "shim/memory/heap.h"
#include "shim/process/children.h"
#include "shim/process/exec.h"
#include "shim/signals/signals.h"
#include "shim/threads/unrecorded.h"

void sr_replayed_prlimit64(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	int32_t id = (int32_t)a[0], real = sr_real_id(id);

	/* What a write beyond the limit returned is recorded, and private files are filled.  No core file is left. */
	if ((a[1] == RLIMIT_FSIZE || a[1] == RLIMIT_CORE) && sr_private_fd() >= 0)
		return;
	/* Another process may have the number of a child now. */
	if (!(int)result && (!id || real != id))
		sr_syscall(SYS_prlimit64, real, (long)a[1], (long)a[2], 0, 0, 0);
}

void sr_replayed_setrlimit(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	uint64_t of_prlimit[] = {0, a[0], a[1], 0};

	sr_replayed_prlimit64(d, of_prlimit, result);
}

#define CPUS_MAX 8192 /* the kernel's own limit */

/* How many CPUs the mask has, as far as it can be read. */
static unsigned int cpus_in(const void *mask, size_t size)
{
	uint64_t words[CPUS_MAX / 64] = {0};
	unsigned int n = 0;

	if (!sr_guarded_copy(words, mask, size < sizeof(words) ? size : sizeof(words)))
		return 0;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		n += (unsigned int)__builtin_popcountll(words[i]);
	return n;
}

/* The kernel has moved the thread when the call returns, so that cpuid answers for the CPU which it has chosen. */
uint64_t sr_invoke_sched_setaffinity(const struct sr_call_desc *d, uint64_t *a)
{
	const int32_t id = (int32_t)a[0];
	uint64_t result = sr_real(d, a);

	if (!(int)result && (!id || id == sr_sys_gettid()))
		sr_self.chosen_cpu =
		    cpus_in((const void *)a[2], a[1]) == 1 ? sr_cpu_number_here() : (struct sr_cpu_number){0};
	return result;
}

/* On a machine without that CPU, the thread stays where it is. */
void sr_replayed_sched_setaffinity(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	int32_t id = (int32_t)a[0], real = sr_real_id(id);

	if (!(int)result && (!id || real != id))
		sr_syscall(SYS_sched_setaffinity, real, (long)a[1], (long)a[2], 0, 0, 0);
}

void sr_replayed_gettid(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	sr_ids_recorded(sr_self.number, (int32_t)result);
}

/* Where the child's stack begins, down from there.  0: where its parent's is. */
static uintptr_t stack_of(const struct sr_trapped *c)
{
	const struct clone_args *args = (const struct clone_args *)c->a[0];

	if (c->nr == SYS_clone)
		return c->a[1];
	return args->stack ? args->stack + args->stack_size : 0;
}

/*
 * The child returns from the trapped call.  After vfork, a child shares its parent's stack and
 * would return from the handler's frame, which the waiting parent still needs.  So it gets a copy
 * of the memory instead, as after fork.
 */
static long make_process(long nr, uint64_t a[6], uint64_t flags, const ucontext_t *uc)
{
	const struct clone_args *args = (const struct clone_args *)a[0];
	struct clone_args copy;
	uint64_t stack = nr == SYS_clone ? a[1] : args->stack;
	long result;

	/*
	 * Another process is about to use this memory and its thread-local words beside this one,
	 * so the probes are removed.  With posix_spawn the parent waits, so that is harmless.
	 */
	if ((flags & CLONE_VM || stack) && !(flags & (CLONE_VFORK | CLONE_THREAD)))
		probes_stop();
	sr_tsc_pause();
	if (stack) {
		/* The child finds the address to continue at just below its stack pointer. */
		uint64_t top = nr == SYS_clone ? stack : stack + args->stack_size;

		((uint64_t *)top)[-1] = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
		result = sr_trap_clone(nr, a, uc->uc_mcontext.gregs);
		sr_tsc_resume();
		return result;
	}
	if (nr == SYS_clone) {
		if (a[0] & CLONE_VFORK)
			a[0] &= ~(uint64_t)CLONE_VM;
	} else if (args->flags & CLONE_VFORK && a[1] <= sizeof(copy)) {
		memcpy(&copy, args, a[1]);
		copy.flags &= ~(uint64_t)CLONE_VM;
		a[0] = (uintptr_t)&copy;
	}
	result = sr_make_raw(nr, a);
	if (result) {
		sr_tsc_resume();
	} else {
		probes_stop_in_child();
		sr_tsc_forget_in_child();
	}
	return result;
}

static long note_child(const struct sr_trapped *c)
{
	bool locked = c->t->forking;
	long result;

	/* The child has its copy of the lock already. */
	if (locked)
		sr_heap_unlock();
	result = sr_make_call(c, SR_CALL_forked);
	if (locked)
		sr_heap_lock();
	return result;
}

/*
 * Within libc, popen, wordexp, daemon and others make a child like this.  A replay has none, as for
 * the functions that have wrappers (children.h).
 */
static long make_child(const struct sr_trapped *c, long nr, uint64_t flags, uintptr_t stack)
{
	uint64_t none[6] = {0};
	struct sr_trapped call = *c;
	long result;

	sr_children_stack(stack);
	if (!sr_signals_are_replayed()) {
		/* libc's own fork has run the handlers of pthread_atfork. */
		const bool copies = !stack && !c->t->forking;

		sr_files_child_made();
		if (copies)
			sr_children_copy_begins();
		result = make_process(nr, c->a, flags, c->uc);
		if (copies && !result)
			sr_children_begin();
		else if (copies)
			sr_children_copy_ended();
		if (!result)
			return 0;
		c->t->made.pid = result < 0 ? -1 : (int32_t)result;
		c->t->made.error = result < 0 ? (int)-result : 0;
	}
	call.a = none;
	return note_child(&call);
}

uint64_t sr_invoke_child_pidfd(const struct sr_call_desc *d, uint64_t *a)
{
	return (uint64_t)*(const int *)a[0];
}

/* Where the kernel stores the child's number and a descriptor for it, besides the result. */
static void give_parent(const struct sr_trapped *c, uint64_t flags, int32_t *number, int *pidfd, long child)
{
	uint64_t a[6] = {(uintptr_t)pidfd};
	struct sr_trapped call = *c;
	long fd;

	if (flags & CLONE_PARENT_SETTID && sr_signals_are_replayed())
		*number = (int32_t)child;
	if (!(flags & CLONE_PIDFD))
		return;
	call.a = a;
	fd = sr_make_call(&call, SR_CALL_child_pidfd);
	if (fd >= 0)
		*pidfd = (int)fd;
}

long sr_trapped_clone(const struct sr_trapped *c)
{
	const struct clone_args *args = (const struct clone_args *)c->a[0];
	uint64_t flags = c->a[0], number = c->a[2], pidfd = c->a[2];
	long child;

	if (c->nr == SYS_clone3 && (c->a[1] < CLONE_ARGS_SIZE_VER0 || !sr_is_readable(args, c->a[1])))
		return sr_make_raw(c->nr, c->a); /* the kernel refuses it */
	if (c->nr == SYS_clone3) {
		flags = args->flags;
		number = args->parent_tid;
		pidfd = args->pidfd;
	}
	/* Not one of pthread_create's, which the trap does not see. */
	if (flags & CLONE_THREAD && sr_engine_is_active())
		sr_thread_is_unrecorded(SR_UNRECORDED_CLONE);
	if (flags & CLONE_THREAD)
		return make_process(c->nr, c->a, flags, c->uc);
	child = make_child(c, c->nr, flags, stack_of(c));
	if (child > 0)
		give_parent(c, flags, (int32_t *)number, (int *)pidfd, child);
	return child;
}

long sr_trapped_fork(const struct sr_trapped *c)
{
	c->a[0] = SIGCHLD;
	c->a[1] = 0;
	return make_child(c, SYS_clone, SIGCHLD, 0);
}

/* A replay executes nothing: see exec.c. */
long sr_trapped_exec(const struct sr_trapped *c)
{
	const bool at = c->nr == SYS_execveat;
	struct sr_exec e = {
	    .directory = at ? (int)c->a[0] : AT_FDCWD,
	    .path = (const char *)c->a[at],
	    .argv = (char *const *)c->a[at + 1],
	    .envp = (char *const *)c->a[at + 2],
	};
	uint64_t a[6] = {(uintptr_t)sr_exec_path(&e)}, *envp = &c->a[at + 2];
	bool is_noted = sr_engine->executes && sr_exec_is_readable(&e);
	struct sr_trapped call = *c;
	enum sr_heap before;

	if (is_noted)
		sr_mapped_outputs_compare(c->site);
	if (!sr_signals_are_replayed()) {
		before = sr_enter(c->t);
		if (is_noted)
			sr_exec_begins(&e);
		*envp = (uintptr_t)e.envp;
		sr_tsc_pause();
		c->t->made.error = (int)-sr_make_raw(c->nr, c->a);
		sr_tsc_resume();
		if (is_noted)
			sr_exec_failed(&e);
		sr_leave(c->t, before);
	} else if (is_noted) {
		sr_exec_replayed(&e, c->site);
	}
	call.a = a;
	return sr_make_call(&call, SR_CALL_exec);
}

static bool is_own_thread(int32_t thread)
{
	return sr_syscall(SYS_tgkill, sr_sys_getpid(), sr_real_id(thread), 0, 0, 0, 0) != -ESRCH;
}

/* Signals to this process are sent in both runs, signals to others in the recording only. */
long sr_trapped_kill(const struct sr_trapped *c)
{
	bool with_thread = c->nr == SYS_tgkill || c->nr == SYS_rt_tgsigqueueinfo;
	uint64_t *process = c->nr == SYS_tkill ? NULL : &c->a[0];
	uint64_t *thread = c->nr == SYS_tkill ? &c->a[0] : with_thread ? &c->a[1] : NULL;
	long self = sr_sys_getpid();

	if (process ? sr_real_id((int32_t)*process) != self : !is_own_thread((int32_t)*thread))
		return sr_make_call(c, (enum sr_call_number)sr_syscall_call(c->nr, c->a));
	if (process)
		*process = (uint64_t)self;
	if (thread)
		*thread = (uint64_t)sr_real_id((int32_t)*thread);
	return sr_make_raw(c->nr, c->a);
}

long sr_trapped_exit_group(const struct sr_trapped *c)
{
	sr_process_ends((int)c->a[0], c->site);
	return sr_make_raw(c->nr, c->a);
}

#endif
