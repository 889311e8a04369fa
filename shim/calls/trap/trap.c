/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trap.c: passes a trapped system call to an engine, or to the kernel.
 *
 * Runs as the handler of SIGSYS on the shim's stack in the thread that made the call.  That thread was
 * in the program's code, or in a library that the program called.  So the shim holds no lock,
 * and the handler may use all of the shim.  But libc may hold any lock, so the handler calls no
 * libc function that takes one.
 */
#include "shim/calls/trap/trap.h"

#include <errno.h>

#include "logd/base/page.h"
#include "logd/base/compiler.h"
#include "logd/base/highfd.h"
#include "shim/core/engine.h"
#include "shim/exposed/exposed.h"
#include "shim/core/hooks.h"
#include "logd/base/say.h"
#include "shim/core/thread.h"

#if defined(__x86_64__)

#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "shim/async/uring.h"
#include "shim/calls/trap/addresses.h"
#include "shim/calls/trap/filter.h"
#include "shim/calls/trap/make.h"
#include "shim/calls/trap/processes.h"
#include "shim/calls/trap/table.h"
#include "shim/calls/trap/x86_64.h"
#include "shim/core/run_token.h"
#include "shim/core/variables.h"
#include "shim/exposed/probe/made_code.h"
#include "shim/exposed/probe/probes.h"
#include "shim/files/fds.h"
#include "shim/files/inputs.h"
#include "shim/files/paths.h"
#include "shim/files/small_inputs.h"
#include "shim/files/write_order.h"
#include "shim/kernel/guarded.h"
#include "shim/kernel/readable.h"
#include "shim/kernel/rseq.h"
#include "shim/kernel/vdso.h"
#include "shim/memory/images.h"
#include "shim/process/ids.h"
#include "shim/signals/signals.h"
#include "shim/threads/libc_order.h"
#include "shim/verbs/waits.h"

#ifndef SYS_USER_DISPATCH
#define SYS_USER_DISPATCH 2 /* si_code of SIGSYS */
#endif

#define SYSCALL_BYTES 2

/* Turns the arguments of openat2 into those of openat, and `resolve`.  Returns false if that is not all. */
static bool as_openat(uint64_t a[6])
{
	struct open_how how;

	if (a[3] != sizeof(how) || !sr_is_readable((const void *)a[2], sizeof(how)))
		return false;
	memcpy(&how, (const void *)a[2], sizeof(how));
	if (how.flags >> 32)
		return false;
	a[2] = how.flags;
	a[3] = how.mode;
	a[4] = how.resolve;
	return true;
}

/* ------------------------------------------------------------------- ld.so */

/*
 * What sreplay adds to a call of ld.so, to look through a library or to ask the daemon, is no time in which the thread waits for
 * another one: nobody is to run beside it meanwhile.
 */
static bool begin_own_work(struct sr_thread *t)
{
	return sr_serial && sr_token_keep(&t->run_token);
}

static void end_own_work(struct sr_thread *t, bool begun)
{
	if (begun)
		sr_token_go_on(&t->run_token);
}

static long load_memory(const struct sr_trapped *c)
{
	bool kept = begin_own_work(c->t);
	long result = sr_make_on_memory(c->nr, c->a);

	end_own_work(c->t, kept);
	return result;
}

/*
 * Executes a call of ld.so without recording it.  The directories that ld.so searches depend on
 * the processor, but the library that it finds does not.  Only its mappings are placed, and its
 * descriptors: their numbers must not be those that other threads get meanwhile.
 */
static long load(const struct sr_trapped *c)
{
	struct sr_opened_file file;
	enum sr_heap before;
	long result;
	bool kept;

	if (c->nr != SYS_openat)
		return load_memory(c);
	before = sr_enter(c->t);
	sr_fd_lock_numbers();
	result = sr_make_on_memory(c->nr, c->a);
	if (result >= 0)
		result = sr_fd_raise((int)result);
	sr_fd_unlock_numbers();
	if (result >= 0) {
		kept = begin_own_work(c->t);
		sr_fd_release((int)result);
		sr_files_opened((int)result, (int)c->a[2], &file);
		/* ld.so does not read all of it, and closes it unseen. */
		sr_small_input_end(c->t);
		sr_files_release(c->t);
		end_own_work(c->t, kept);
	}
	sr_leave(c->t, before);
	return result;
}

/*
 * Threads wait for each other at locks of ld.so's and libc's own too: one that binds a function at its first call, or looks one up,
 * for one that loads or drops a library; one that allocates, for one that forks.  Whether they meet there says nothing to the
 * program, and in a replay, which forks nothing, they meet elsewhere, so this is not recorded.  A thread that waits for long loses
 * the run token to others, as one that sleeps does.
 */
static bool waits_in_libraries(const struct sr_trapped *c)
{
	/* Where dlclose waits until a thread has looked its symbol up: glibc's header.gscope_flag, which that thread wakes. */
	const uintptr_t looks_up = (uintptr_t)__builtin_thread_pointer() + 28;
	const void *word = (const void *)c->a[0];

	return c->nr == SYS_futex && (sr_is_loader(c->site) || sr_is_loader(word) || sr_is_libc(word) || c->a[0] == looks_up);
}

/* The vDSO does not know the CPU-time clocks. */
static bool vdso_knows(uint64_t clock)
{
	return clock != CLOCK_PROCESS_CPUTIME_ID && clock != CLOCK_THREAD_CPUTIME_ID &&
	       (int)clock >= 0;
}

/* Executes a harmless call with the thread number that the kernel knows; the program is told the recorded one. */
static long own_affair(const struct sr_trapped *c)
{
	long result;

	if (c->nr == SYS_sched_yield)
		sr_exposed_yields();
	if (sr_ids_differ && c->nr == SYS_get_robust_list)
		c->a[0] = (uint64_t)sr_real_id((int32_t)c->a[0]);
	result = sr_make_on_memory(c->nr, c->a);
	return c->nr == SYS_set_tid_address ? sr_recorded_id((int32_t)result) : result;
}

/* Handles calls without an entry in special[]: harmless ones, ld.so's, and those of calls.def. */
static long ordinary(const struct sr_trapped *c)
{
	int call = waits_in_libraries(c) ? -1 : sr_syscall_call_of_threads(c->nr, c->a);

	if (call >= 0)
		return sr_make_call(c, (enum sr_call_number)call);
	if (sr_syscall_is_harmless(c->nr))
		return own_affair(c);
	if (sr_is_loader(c->site))
		return load(c);
	call = sr_syscall_call(c->nr, c->a);
	return call >= 0 ? sr_make_call(c, (enum sr_call_number)call) : sr_make_unknown(c);
}

/* ------------------------------------------- system calls of another kind */

static long as_it_is(const struct sr_trapped *c)
{
	return sr_make_raw(c->nr, c->a);
}

/* Of a handler that is libc's own, or that the program has installed behind the shim's back: this handler does not return. */
static long signal_return(const struct sr_trapped *c)
{
	sr_signals_leave(&c->t->signals);
	sr_select(c->t);
	sr_sigreturn_of(c->uc);
}

/* These copy what the kernel would copy, from and to memory that may not be there. */

static bool get(void *to, uint64_t from, size_t n)
{
	return !from || sr_guarded_copy(to, (const void *)from, n);
}

static long put(long result, uint64_t to, const void *from, size_t n)
{
	return result || !to || sr_guarded_copy((void *)to, from, n) ? result : -EFAULT;
}

static long signal_action(const struct sr_trapped *c)
{
	struct sr_kernel_action act, old;
	long result;

	if (!get(&act, c->a[1], sizeof(act)))
		return -EFAULT;
	result = sr_signals_action((int)c->a[0], c->a[1] ? &act : NULL, c->a[2] ? &old : NULL);
	return put(result, c->a[2], &old, sizeof(old));
}

static long signal_mask(const struct sr_trapped *c)
{
	uint64_t set, old;
	long result;

	if (!get(&set, c->a[1], sizeof(set)))
		return -EFAULT;
	result = sr_signals_mask((int)c->a[0], c->a[1] ? &set : NULL, c->a[2] ? &old : NULL,
				 (uint64_t *)&c->uc->uc_sigmask);
	return put(result, c->a[2], &old, sizeof(old));
}

static long signal_stack(const struct sr_trapped *c)
{
	stack_t set, old;
	long result;

	if (!get(&set, c->a[0], sizeof(set)))
		return -EFAULT;
	result = sr_signal_stack_set(&c->t->signals.stack, c->a[0] ? &set : NULL, c->a[1] ? &old : NULL,
				     sr_frame_stack_pointer(c->uc));
	return put(result, c->a[1], &old, sizeof(old));
}

static long close_many(const struct sr_trapped *c)
{
	return close_range((unsigned int)c->a[0], (unsigned int)c->a[1], (int)c->a[2]) ? -errno : 0;
}

/*
 * The program's code makes the call once more, without the trap: the filter may forbid the handler
 * whatever comes after it.
 */
static long again(const struct sr_trapped *c)
{
	c->uc->uc_mcontext.gregs[REG_RIP] -= SYSCALL_BYTES;
	return c->nr;
}

/* A filter (NULL: the strict mode) that may forbid what the shim does later.  True: made, *result. */
static bool restrict_calls(const struct sr_trapped *c, const void *filter, long *result)
{
	/* It may also forbid the shim to remove its probes, so it removes them now. */
	probes_stop();
	sr_paths_restrict();
	*result = 0;
	if (sr_engine_is_active() && sr_engine->replays)
		return true;
	if (!sr_engine_is_active() || !sr_engine->leaves || (filter && !sr_filter_forbids(filter)))
		return false;
	sr_engine->leaves("the program restricts its system calls (seccomp)");
	*result = again(c);
	return true;
}

/* There is one Syscall User Dispatch in a thread, and the program takes it for itself. */
static long dispatch_calls(const struct sr_trapped *c)
{
	if (sr_engine_is_active() && sr_engine->replays)
		return 0;
	if (!sr_engine_is_active() || !sr_engine->leaves)
		return as_it_is(c);
	sr_engine->leaves("the program traps its own system calls (Syscall User Dispatch)");
	return again(c);
}

static long process_control(const struct sr_trapped *c)
{
	bool strict = c->a[1] == SECCOMP_MODE_STRICT;
	long result;

	if (c->a[0] == PR_SET_SYSCALL_USER_DISPATCH && c->a[1] == PR_SYS_DISPATCH_ON)
		return dispatch_calls(c);
	if (c->a[0] == PR_SET_SECCOMP && (strict || c->a[2]) &&
	    restrict_calls(c, strict ? NULL : (const void *)c->a[2], &result))
		return result;
	return as_it_is(c);
}

static long filter_calls(const struct sr_trapped *c)
{
	bool strict = c->a[0] == SECCOMP_SET_MODE_STRICT;
	long result;

	if ((strict || (c->a[0] == SECCOMP_SET_MODE_FILTER && c->a[2])) &&
	    restrict_calls(c, strict ? NULL : (const void *)c->a[2], &result))
		return result;
	return ordinary(c);
}

static long open_how(const struct sr_trapped *c)
{
	if (!as_openat(c->a))
		return sr_make_unknown(c);
	return sr_make_call(c, c->a[4] ? SR_CALL_openat2 : SR_CALL_openat);
}

/* Events that bring descriptors are not recorded. */
static long watch_files(const struct sr_trapped *c)
{
	bool by_handles = c->a[0] & (FAN_REPORT_FID | FAN_REPORT_DIR_FID) && !(c->a[0] & FAN_REPORT_PIDFD);

	return by_handles ? ordinary(c) : sr_make_unknown(c);
}

/* Restartable sequences (kernel/rseq.h). */
static long no_sequences(const struct sr_trapped *c)
{
	return -ENOSYS;
}

/*
 * Executes a call that the vDSO makes because it cannot answer by itself.  On another machine the
 * vDSO may answer without a system call, so this one is not recorded.
 */
static long time_of_vdso(const struct sr_trapped *c)
{
	return sr_is_vdso(c->site) ? as_it_is(c) : ordinary(c);
}

static long clock_of_vdso(const struct sr_trapped *c)
{
	return vdso_knows(c->a[0]) ? time_of_vdso(c) : ordinary(c);
}

static long handle(const struct sr_trapped *c);

/*
 * The kernel takes the requests first and then waits; so does this, in two calls, where the program makes one for both: the wait
 * may never end, and what the requests write is in the trace already.
 */
static long submit_and_wait(const struct sr_trapped *c, uint32_t pending)
{
	const bool waits = (uint32_t)c->a[3] & SR_URING_ENTER_GETEVENTS && (uint32_t)c->a[2];
	uint64_t a[SR_MAX_ARGS + 1] = {c->a[0], c->a[1], 0, (uint32_t)c->a[3] & ~(SR_URING_ENTER_GETEVENTS | SR_URING_ENTER_EXT_ARG)};
	struct sr_trapped call = *c;
	long taken, result;

	if (!waits || !pending)
		return sr_make_call(c, SR_CALL_io_uring_enter);
	call.a = a;
	taken = sr_make_call(&call, SR_CALL_io_uring_enter);
	if (taken != (long)(uint32_t)c->a[1])
		return taken;
	memcpy(a, c->a, sizeof(c->a[0]) * SR_MAX_ARGS);
	a[1] = 0;
	result = sr_make_call(&call, SR_CALL_io_uring_enter);
	return taken ? taken : result;
}

/* Some requests are made as system calls of their own (async/uring.h). */
static long enter_ring(const struct sr_trapped *c)
{
	struct sr_uring *ring = sr_urings ? sr_uring_hold((int)c->a[0]) : NULL;
	uint32_t n = ring ? sr_uring_pending(ring, (uint32_t)c->a[1]) : 0;
	uint64_t a[SR_MAX_ARGS + 1];
	struct sr_trapped call = *c;
	long result = 0;

	call.a = a;
	for (uint32_t i = 0; i < n; i++) {
		/* One that has failed ends what is linked with it. */
		bool is_ended = i && result < 0 && sr_uring_request(ring, i - 1)->flags & SR_URING_SQE_IO_LINK;

		call.nr = sr_uring_call(sr_uring_request(ring, i), a);
		if (is_ended)
			result = -ECANCELED;
		else
			result = call.nr >= 0 ? handle(&call) : 0;
		if (call.nr >= 0)
			sr_uring_made(ring, i, result);
	}
	result = submit_and_wait(c, n);
	sr_uring_drop(ring);
	return result;
}

/*
 * glibc has handlers of its own, which run wherever their signals find the thread.  In a replay nobody has these signals.  The one
 * of pthread_cancel asks for the process's number; from 2.41 on, also in a thread that cannot be cancelled there.  It may end
 * the thread, whose cleanup handlers then run with the signal blocked.  The one of setuid and its like makes that call in this thread, and wakes who waits
 * for it.  Within each its signal is blocked without the other one, which no program can do (nptl(7)).
 */
static bool is_libcs_handlers(const struct sr_trapped *c)
{
	enum { CANCEL = 32, SET_IDS = 33 };
	const bool cancels = sigismember(&c->uc->uc_sigmask, CANCEL) == 1, sets_ids = sigismember(&c->uc->uc_sigmask, SET_IDS) == 1;

	return cancels != sets_ids && (sets_ids ? c->nr != SYS_rt_sigreturn : c->nr == SYS_getpid);
}

static long wait_for_child(const struct sr_trapped *c)
{
	sr_libc_order_waits();
	return ordinary(c);
}

static long (*const special[SR_TRAP_CALLS])(const struct sr_trapped *c) = {
    [SYS_rt_sigreturn] = signal_return,
    [SYS_rt_sigaction] = signal_action,
    [SYS_rt_sigprocmask] = signal_mask,
    [SYS_sigaltstack] = signal_stack,

    [SYS_mmap] = sr_trapped_mmap,
    [SYS_munmap] = sr_trapped_munmap,
    [SYS_shmat] = sr_trapped_shmat,
    [SYS_shmctl] = sr_trapped_shmctl,
    [SYS_brk] = sr_trapped_brk,
    [SYS_mprotect] = sr_trapped_mprotect,
    [SYS_pkey_mprotect] = sr_trapped_mprotect,
    [SYS_madvise] = sr_trapped_madvise,
    [SYS_mremap] = sr_trapped_mremap,
    [SYS_msync] = sr_trapped_msync,

    [SYS_clone] = sr_trapped_clone,
    [SYS_clone3] = sr_trapped_clone,
    [SYS_fork] = sr_trapped_fork,
    [SYS_vfork] = sr_trapped_fork,
    [SYS_execve] = sr_trapped_exec,
    [SYS_execveat] = sr_trapped_exec,
    [SYS_kill] = sr_trapped_kill,
    [SYS_tkill] = sr_trapped_kill,
    [SYS_tgkill] = sr_trapped_kill,
    [SYS_rt_sigqueueinfo] = sr_trapped_kill,
    [SYS_rt_tgsigqueueinfo] = sr_trapped_kill,
    [SYS_exit_group] = sr_trapped_exit_group,
    [SYS_wait4] = wait_for_child,

    [SYS_prctl] = process_control,
    [SYS_seccomp] = filter_calls,
    [SYS_close_range] = close_many,
    [SYS_io_uring_enter] = enter_ring,
    [SYS_openat2] = open_how,
    [SYS_fanotify_init] = watch_files,
    [SYS_rseq] = no_sequences,

    [SYS_clock_gettime] = clock_of_vdso,
    [SYS_clock_getres] = time_of_vdso,
    [SYS_gettimeofday] = time_of_vdso,
    [SYS_getcpu] = time_of_vdso,
    [SYS_time] = time_of_vdso,
};

static long handle(const struct sr_trapped *c)
{
	if (is_libcs_handlers(c))
		return as_it_is(c);
	if (c->nr >= 0 && c->nr < SR_TRAP_CALLS && special[c->nr])
		return special[c->nr](c);
	return ordinary(c);
}

static bool on_sigsys(siginfo_t *info, ucontext_t *uc)
{
	struct sr_thread *t = &sr_self;
	const bool on_own = t->signals.stack.own;
	uint64_t a[SR_MAX_ARGS + 1];

	/* Without the trap, it is the program's own. */
	if (info->si_code != SYS_USER_DISPATCH || t->armed == SR_TRAP_ALLOW)
		return false;
	sr_trapped_arguments(uc, a);
	if (t->depth) { /* libc's, within a call: only verbs/waits.h has them trapped */
		sr_trapped_return(uc, sr_wait_system_call(sr_trapped_number(uc), a));
		return true;
	}
	t->selector = SR_TRAP_ALLOW;
	sr_trapped_return(uc, handle(&(struct sr_trapped){
				  .t = t,
				  .nr = sr_trapped_number(uc),
				  .a = a,
				  .uc = uc,
				  .site = sr_trapped_site(uc),
			      }));
	/* It has become a child that is not recorded. */
	if (on_own && !t->signals.stack.own)
		uc->uc_stack = t->signals.stack.program;
	sr_select(t);
	return true;
}

/* ------------------------------------------------------------------- start */

/* Valgrind makes its own system calls in the same thread, and the trap would catch these. */
static bool is_under_valgrind(void)
{
	const char *preloaded = sr_variable("LD_PRELOAD");

	return preloaded && strstr(preloaded, "/vgpreload_");
}

int sr_trap_start(void)
{
	struct sr_thread *t = &sr_self;
	int err;

	if (is_under_valgrind())
		return -EOPNOTSUPP;
	t->selector = SR_TRAP_ALLOW;
	/* Fails if the kernel has no Syscall User Dispatch. */
	err = sr_trap_dispatch(t);
	if (err)
		return err;
	sr_syscalls_list_harmless();
	sr_images_find();
	sr_vdso_hide();
	sr_rseq_hide();
	sr_trap_is_on = true;
	return 0;
}

void sr_trap_load_resolver(void)
{
	struct hostent host, *result;
	char room[1024];
	int error;

	gethostbyname_r("localhost", &host, room, sizeof(room), &result, &error);
}

/* Standard input is always captured, even if it is closed. */
void sr_trap_begin(int32_t pid)
{
	struct sr_thread *t = &sr_self;
	int err;

	if (!sr_trap_is_on)
		return;
	err = sr_signals_claim(SIGSYS, on_sigsys);
	if (err) {
		sr_trap_is_on = false;
		sr_say("system calls cannot be trapped after all (%s)", strerrorname_np(-err));
		return;
	}
	sr_guarded_start();
	sr_ids_start(pid);
	sr_fd_capture(STDIN_FILENO);
	made_code_follow();
	sr_trap_arm_thread(t);
}

#else

int sr_trap_start(void)
{
	return -ENOSYS;
}

void sr_trap_begin(int32_t pid)
{
}

void sr_trap_load_resolver(void)
{
}

#endif
