/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trap.c: from a trapped system call to an engine, or to the kernel.
 *
 * Runs as a handler of SIGSYS on the stack of the thread that made the call.
 * It was in the program's code, or in a library's for the program: the shim
 * holds no lock then, so the handler may use all of it; libc may hold any, so
 * the handler calls nothing of libc that takes one.
 */
#include "shim/calls/trap/trap.h"

#include <errno.h>

#include "logd/base/page.h"
#include "logd/base/compiler.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "logd/base/say.h"
#include "shim/core/thread.h"

#if defined(__x86_64__)

#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <netdb.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "shim/files/fds.h"
#include "shim/files/inputs.h"
#include "shim/memory/heap.h"
#include "shim/process/ids.h"
#include "shim/memory/images.h"
#include "shim/calls/trap/x86_64.h"
#include "shim/kernel/readable.h"
#include "shim/verbs/objects.h"
#include "shim/core/order.h"
#include "shim/verbs/own_memory.h"
#include "shim/signals/signals.h"
#include "shim/kernel/tsc.h"
#include "shim/core/variables.h"
#include "shim/kernel/vdso.h"
#include "shim/exposed/probe/probes.h"
#include "shim/verbs/regions.h"

#ifndef SYS_USER_DISPATCH
#define SYS_USER_DISPATCH 2 /* si_code of SIGSYS */
#endif

/* ------------------------------------------------------- what is harmless */

/*
 * They concern this process's own memory, threads, signals and limits, and are made in a
 * replay as well; or they do to a file what is done to it again in a replay.
 */
static const uint16_t harmless[] = {
    SYS_arch_prctl,
    SYS_exit,
    SYS_futex,
    SYS_futex_waitv,
    SYS_get_robust_list,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_rseq,
    SYS_restart_syscall,
    SYS_membarrier,
    SYS_memfd_create,
    SYS_memfd_secret,
    SYS_mincore,
    SYS_mlockall,
    SYS_munlockall,
    SYS_pkey_alloc,
    SYS_pkey_free,
    SYS_remap_file_pages,
    SYS_set_mempolicy,
    SYS_get_mempolicy,
    SYS_mbind,
    SYS_move_pages,
    SYS_migrate_pages,
    SYS_sched_yield,
    SYS_sched_setscheduler,
    SYS_sched_getscheduler,
    SYS_sched_setparam,
    SYS_sched_getparam,
    SYS_sched_setattr,
    SYS_sched_getattr,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_sched_rr_get_interval,
    SYS_setrlimit,
    SYS_setpriority,
    SYS_ioprio_set,
    SYS_ioprio_get,
    SYS_fadvise64,
    SYS_readahead,
    SYS_fsync,
    SYS_fdatasync,
    SYS_sync,
    SYS_syncfs,
    SYS_sync_file_range,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fchmod,
    SYS_fchown,
    SYS_fchownat,
    SYS_chown,
    SYS_lchown,
    SYS_utimensat,
    SYS_utime,
    SYS_utimes,
    SYS_copy_file_range,
    SYS_fsetxattr,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_futimesat,
    SYS_modify_ldt,
    SYS_process_madvise,
    SYS_set_mempolicy_home_node,
    SYS_chroot,
    SYS_rt_sigpending,
    SYS_pause,
    SYS_alarm,
    SYS_setitimer,
    SYS_getitimer,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_gettime,
    SYS_timer_getoverrun,
    SYS_timer_delete,
    SYS_wait4,
    SYS_waitid,
    SYS_setsid,
    SYS_setpgid,
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_getresuid,
    SYS_getresgid,
    SYS_setgroups,
    SYS_setfsuid,
    SYS_setfsgid,
    SYS_capget,
    SYS_capset,
    SYS_personality,
    SYS_seccomp,
    SYS_unshare,
    SYS_setns,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_semctl,
    SYS_landlock_create_ruleset,
    SYS_landlock_add_rule,
    SYS_landlock_restrict_self,
};

static uint64_t is_harmless[SR_TRAP_CALLS / 64];

/*
 * By these threads wait for each other, and wake each other.  Where they take turns, that is
 * to be known, and what they find to be answered from the trace: they are calls like others.
 */
static int call_of_threads(long nr)
{
	if (!sr_serial || !sr_threaded)
		return -1;
	if (nr == SYS_futex)
		return SR_CALL_kernel_futex;
	return nr == SYS_sched_yield ? SR_CALL_kernel_sched_yield : -1;
}

/* Of these an argument is the number of a process or a thread. */
static const struct {
	uint16_t nr;
	uint8_t at;
} numbers[] = {
    {SYS_sched_setscheduler, 0}, {SYS_sched_getscheduler, 0}, {SYS_sched_setparam, 0},
    {SYS_sched_getparam, 0},	 {SYS_sched_setattr, 0},      {SYS_sched_getattr, 0},
    {SYS_sched_rr_get_interval, 0}, {SYS_setpriority, 1},     {SYS_ioprio_set, 1},
    {SYS_ioprio_get, 1},	 {SYS_migrate_pages, 0},      {SYS_move_pages, 0},
    {SYS_setpgid, 0},		 {SYS_get_robust_list, 0},
};

static void list_harmless(void)
{
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		is_harmless[harmless[i] / 64] |= 1ull << (harmless[i] % 64);
}

/* --------------------------------------------------- system calls as calls */

/*
 * Older names of calls that are described by a newer one: the working directory
 * goes in front, and one argument is what it always was.
 */
struct older {
	uint16_t nr;
	uint16_t call;
	bool at;         /* AT_FDCWD becomes the first argument */
	int8_t flags_at; /* this argument is flags, -1: none */
	int flags;
};

static const struct older older_names[] = {
    {SYS_open, SR_CALL_openat, true, -1, 0},
    {SYS_creat, SR_CALL_openat, true, 2, O_CREAT | O_WRONLY | O_TRUNC},
    {SYS_access, SR_CALL_faccessat, true, -1, 0},
    {SYS_readlink, SR_CALL_readlinkat, true, -1, 0},
    {SYS_unlink, SR_CALL_unlinkat, true, 2, 0},
    {SYS_mkdir, SR_CALL_mkdirat, true, -1, 0},
    {SYS_mknod, SR_CALL_mknodat, true, -1, 0},
    {SYS_chmod, SR_CALL_fchmodat, true, -1, 0},
    {SYS_pipe, SR_CALL_pipe2, false, 1, 0},
    {SYS_eventfd, SR_CALL_eventfd, false, 1, 0},
    {SYS_signalfd, SR_CALL_signalfd4, false, 3, 0},
    {SYS_inotify_init, SR_CALL_inotify_init1, false, 0, 0},
};

static void rename_arguments(const struct older *o, uint64_t a[6])
{
	if (o->at) {
		memmove(a + 1, a, 5 * sizeof(a[0]));
		a[0] = (uint64_t)(int64_t)AT_FDCWD;
	}
	if (o->nr == SYS_creat)
		a[3] = a[2];
	if (o->flags_at >= 0)
		a[o->flags_at] = (uint64_t)o->flags;
}

/* The call that a system call is, or -1; may rewrite the arguments. */
static int call_of(long nr, uint64_t a[6])
{
	if (nr < 0 || nr >= SR_TRAP_CALLS)
		return -1;
	if (sr_trap_calls[nr])
		return sr_trap_calls[nr] - 1;
	for (size_t i = 0; i < sizeof(older_names) / sizeof(older_names[0]); i++) {
		if (older_names[i].nr == nr) {
			rename_arguments(&older_names[i], a);
			return older_names[i].call;
		}
	}
	return -1;
}

/* What openat can say as well. */
static bool as_openat(uint64_t a[6])
{
	struct open_how how;

	if (a[3] != sizeof(how) || !sr_is_readable((const void *)a[2], sizeof(how)))
		return false;
	memcpy(&how, (const void *)a[2], sizeof(how));
	if (how.resolve || how.flags >> 32)
		return false;
	a[2] = how.flags;
	a[3] = how.mode;
	return true;
}

/* A call's result as the kernel would give it. */
static long enter(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	uint64_t result;

	t->raw = true;
	result = sr_call(n, a, site);
	t->raw = false;
	return result == (uint64_t)-1 ? -errno : (long)result;
}

static long raw(long nr, const uint64_t a[6])
{
	return sr_syscall(nr, (long)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4],
			  (long)a[5]);
}

/*
 * The same, where what it reads or writes may be exposed regions, which the kernel would find
 * closed.  Not of the calls that are about addresses: see forget_exposed_regions.
 */
static long raw_on_memory(long nr, const uint64_t a[6])
{
	struct sr_pinned pinned;
	long result;

	if (__builtin_expect(!sr_regions_on, 1))
		return raw(nr, a);
	sr_regions_pin_words(a, &pinned);
	result = raw(nr, a);
	sr_regions_unpin(&pinned);
	return result;
}

/* A harmless one, with the numbers that the kernel knows. */
static long own_affair(long nr, uint64_t a[6])
{
	for (size_t i = 0; sr_ids_differ && i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (numbers[i].nr == nr)
			a[numbers[i].at] = (uint64_t)sr_real_id((int32_t)a[numbers[i].at]);
	return raw_on_memory(nr, a);
}

void sr_replayed_prlimit64(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if (!(int)result)
		sr_syscall(SYS_prlimit64, sr_real_id((int32_t)a[0]), (long)a[1], (long)a[2], 0, 0,
			   0);
}

/* ------------------------------------------------------------ the unknown */

static long unknown(struct sr_thread *t, long nr, const uint64_t a[6], void *site)
{
	uint64_t described[2] = {(uint64_t)nr, (uintptr_t)a};

	return enter(t, SR_CALL_unknown_system_call, described, site);
}

static void say_unknown(uint64_t nr)
{
	static _Atomic uint64_t said[SR_TRAP_CALLS / 64];
	uint64_t bit = 1ull << (nr % 64);

	if (nr < SR_TRAP_CALLS && !(atomic_fetch_or(&said[nr / 64], bit) & bit))
		sr_say("sreplay knows nothing of system call %llu: of what it does, its result is "
		       "recorded only",
		       (unsigned long long)nr);
}

/* As libc would have it. */
static uint64_t with_errno(long result)
{
	if (result >= 0 || result < -4095)
		return (uint64_t)result;
	errno = (int)-result;
	return (uint64_t)-1;
}

uint64_t sr_invoke_unknown(const struct sr_call_desc *d, uint64_t *a)
{
	say_unknown(a[0]);
	return with_errno(raw_on_memory((long)a[0], (const uint64_t *)a[1]));
}

/* The word may be in an exposed region, closed. */
uint64_t sr_invoke_futex(const struct sr_call_desc *d, uint64_t *a)
{
	return sr_regions_on ? with_errno(raw_on_memory(SYS_futex, a)) : sr_real(d, a);
}

/* ---------------------------------------------------------------- addresses */

static bool is_exposed_regions(uint64_t addr, uint64_t size)
{
	return sr_regions_on && sr_exposed_touches((void *)addr, size);
}

/* At addresses of the program's own, which are equal in both runs: see heap.h. */
static long map(uint64_t a[6])
{
	if (!a[0])
		a[0] = (uintptr_t)sr_heap_place_program(a[1], (int)a[3]);
	else if (a[3] & MAP_FIXED)
		sr_heap_mapping_ends((void *)a[0], a[1]);
	return raw(SYS_mmap, a);
}

static long unmap(const uint64_t a[6])
{
	sr_heap_mapping_ends((void *)a[0], a[1]);
	return raw(SYS_munmap, a);
}

/* malloc gives back what was freed at the heap's end, be it registered or not. */
static long set_break(const uint64_t a[6])
{
	const uint64_t ask[6] = {0};
	uint64_t begin = sr_page_up(a[0]), end;

	if (a[0]) {
		end = (uint64_t)raw(SYS_brk, ask);
		if (begin < end)
			sr_heap_mapping_ends((void *)begin, end - begin);
	}
	return raw(SYS_brk, a);
}

/* Exposed regions are readable and writable to the program, and closed for reasons of their own. */
static long protect(long nr, const uint64_t a[6])
{
	bool changes = (a[2] & (PROT_READ | PROT_WRITE)) != (PROT_READ | PROT_WRITE);
	uint64_t piece[6] = {0, PAGE, a[2], a[3], 0, 0};
	long err = 0;

	if (!(a[2] & PROT_READ))
		sr_mr_doubt((void *)a[0], a[1]);
	if (!is_exposed_regions(a[0], a[1]))
		return raw(nr, a);
	if (changes) {
		sr_exposed_give_up((void *)a[0], a[1]);
		return raw(nr, a);
	}
	for (piece[0] = a[0]; piece[0] < a[0] + a[1] && !err; piece[0] += PAGE)
		if (!is_exposed_regions(piece[0], PAGE))
			err = raw(nr, piece);
	return err;
}

static long advise(const uint64_t a[6])
{
	bool drops = a[2] == MADV_DONTNEED || a[2] == MADV_FREE || a[2] == MADV_REMOVE;

	if (drops && is_exposed_regions(a[0], a[1]))
		sr_exposed_give_up((void *)a[0], a[1]);
	return raw(SYS_madvise, a);
}

/* What an exposed region holds moves. */
static long remap(uint64_t a[6])
{
	uint64_t stay[6] = {a[0], a[1], a[2], 0, 0, 0};
	long result;

	sr_mr_doubt((void *)a[0], a[1]);
	sr_own_memory_moves((void *)a[0], a[1]);
	if (is_exposed_regions(a[0], a[1]))
		sr_exposed_give_up((void *)a[0], a[1]);
	if (a[3] & MREMAP_FIXED)
		sr_heap_mapping_ends((void *)a[4], a[2]);
	if (a[3] != MREMAP_MAYMOVE)
		return raw(SYS_mremap, a);
	result = raw(SYS_mremap, stay);
	if (result != -ENOMEM)
		return result;
	a[3] = MREMAP_MAYMOVE | MREMAP_FIXED;
	a[4] = (uintptr_t)sr_heap_place_program(a[2], 0);
	return raw(SYS_mremap, a);
}

/* --------------------------------------------------------------- processes */

/*
 * The child returns from the trapped call.  One that shares its parent's stack,
 * and has the parent wait (vfork), would return into a frame that is not there any
 * more when the parent comes back to it: it gets a copy, as after fork.
 */
static long clone_process(long nr, uint64_t a[6], const ucontext_t *uc)
{
	const struct clone_args *args = (const struct clone_args *)a[0];
	struct clone_args copy;
	uint64_t stack = nr == SYS_clone ? a[1] : args->stack, flags = nr == SYS_clone ? a[0] : args->flags;
	long result;

	/* Not posix_spawn's, which has the parent wait. */
	if (flags & CLONE_VM && !(flags & (CLONE_VFORK | CLONE_THREAD)))
		probes_stop();
	sr_tsc_pause();
	if (stack) {
		/* Where the child goes on, below its stack, which nobody else uses yet. */
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
	result = raw(nr, a);
	if (result)
		sr_tsc_resume();
	return result;
}

/* ------------------------------------------------------------------ signals */

void sr_replayed_gettid(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	sr_ids_recorded(sr_self.number, (int32_t)result);
}

/* Signals to itself are sent in both runs, those to others in the recording only. */

static long send_signal(struct sr_thread *t, long nr, uint64_t a[6], void *site)
{
	bool with_thread = nr == SYS_tgkill || nr == SYS_rt_tgsigqueueinfo;
	uint64_t *process = nr == SYS_tkill ? NULL : &a[0];
	uint64_t *thread = nr == SYS_tkill ? &a[0] : with_thread ? &a[1] : NULL;
	long self = sr_sys_getpid();

	if (process && sr_real_id((int32_t)*process) != self)
		return enter(t, (enum sr_call_number)call_of(nr, a), a, site);
	if (process)
		*process = (uint64_t)self;
	if (thread)
		*thread = (uint64_t)sr_real_id((int32_t)*thread);
	return raw(nr, a);
}

/* ------------------------------------------------------------------- ld.so */

/*
 * Where it looks for a library depends on the processor; which it finds, does not.  Only
 * its mappings are placed.
 */
static long load(struct sr_thread *t, long nr, const uint64_t a[6])
{
	long result = raw_on_memory(nr, a);
	enum sr_heap before;

	if (nr != SYS_openat || result < 0)
		return result;
	before = sr_enter(t);
	sr_fd_release((int)result);
	sr_files_opened((int)result, (int)a[2]);
	sr_leave(t, before);
	return result;
}

/* -------------------------------------------------------------- the handler */

/* CPU clocks it does not. */
static bool vdso_knows(uint64_t clock)
{
	return clock != CLOCK_PROCESS_CPUTIME_ID && clock != CLOCK_THREAD_CPUTIME_ID &&
	       (int)clock >= 0;
}

static long handle(struct sr_thread *t, long nr, uint64_t a[6], ucontext_t *uc)
{
	void *site = sr_trapped_site(uc);
	long result;
	int call;

	switch (nr) {
	case SYS_rt_sigreturn:
		sr_select(t);
		sr_sigreturn_of(uc);
	case SYS_rt_sigaction:
		return sr_signals_action((int)a[0], (const struct sr_kernel_action *)a[1],
					 (struct sr_kernel_action *)a[2]);
	case SYS_rt_sigprocmask:
		return sr_signals_mask((int)a[0], (const uint64_t *)a[1], (uint64_t *)a[2],
				       (uint64_t *)&uc->uc_sigmask);
	case SYS_mmap:
		return map(a);
	case SYS_munmap:
		return unmap(a);
	case SYS_brk:
		return set_break(a);
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		return protect(nr, a);
	case SYS_madvise:
		return advise(a);
	case SYS_msync:
	case SYS_mlock:
	case SYS_mlock2:
	case SYS_munlock:
		return raw(nr, a);
	case SYS_mremap:
		return remap(a);
	case SYS_clone:
	case SYS_clone3:
		return clone_process(nr, a, uc);
	case SYS_fork:
	case SYS_vfork:
		a[0] = SIGCHLD;
		a[1] = 0;
		return clone_process(SYS_clone, a, uc);
	case SYS_close_range:
		return close_range((unsigned int)a[0], (unsigned int)a[1], (int)a[2]) ? -errno : 0;
	case SYS_kill:
	case SYS_tkill:
	case SYS_tgkill:
	case SYS_rt_sigqueueinfo:
	case SYS_rt_tgsigqueueinfo:
		return send_signal(t, nr, a, site);
	case SYS_execve:
	case SYS_execveat:
		sr_tsc_pause();
		result = raw(nr, a);
		sr_tsc_resume();
		return result;
	case SYS_prctl:
		/* Jumps can neither be written nor taken back under a filter that ends who tries. */
		if (a[0] == PR_SET_SECCOMP)
			probes_stop();
		return raw(nr, a);
	case SYS_seccomp:
		probes_stop();
		break;
	case SYS_openat2:
		if (!as_openat(a))
			break;
		return enter(t, SR_CALL_openat, a, site);
	case SYS_sigaltstack:
		return sr_signal_stack_set(&t->signals.stack, (const stack_t *)a[0],
					   (stack_t *)a[1], sr_frame_stack_pointer(uc));
	case SYS_clock_gettime:
		/* What glibc asks the vDSO: which on another machine knows it without the kernel.
		 */
		if (sr_is_vdso(site) && vdso_knows(a[0]))
			return raw(nr, a);
		break;
	case SYS_clock_getres:
	case SYS_gettimeofday:
	case SYS_getcpu:
#ifdef SYS_time
	case SYS_time:
#endif
		if (sr_is_vdso(site))
			return raw(nr, a);
		break;
	case SYS_exit_group:
		sr_engine_exits((int)a[0]);
		return raw(nr, a);
	}
	call = call_of_threads(nr);
	if (call >= 0)
		return enter(t, (enum sr_call_number)call, a, site);
	if (nr >= 0 && nr < SR_TRAP_CALLS && is_harmless[nr / 64] >> (nr % 64) & 1)
		return own_affair(nr, a);
	if (sr_is_loader(site))
		return load(t, nr, a);
	call = call_of(nr, a);
	return call >= 0 ? enter(t, (enum sr_call_number)call, a, site) : unknown(t, nr, a, site);
}

static bool on_sigsys(siginfo_t *info, ucontext_t *uc)
{
	struct sr_thread *t = &sr_self;
	uint64_t a[6];

	if (info->si_code != SYS_USER_DISPATCH)
		return false;
	t->selector = SR_TRAP_ALLOW;
	sr_trapped_arguments(uc, a);
	sr_trapped_return(uc, handle(t, sr_trapped_number(uc), a, uc));
	sr_select(t);
	return true;
}

/* ------------------------------------------------------------------- start */

/*
 * The resolver reads its files at the first look-up.  That may be inside of a
 * call of librdmacm's or of getaddrinfo, which a replay does not make: so in
 * both runs it is done here.
 */
static void settle_resolver(void)
{
	struct hostent host, *result;
	char room[1024];
	int error;

	gethostbyname_r("localhost", &host, room, sizeof(room), &result, &error);
}

/* Its own system calls are made from the same thread, and would be caught. */
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
	/* Whether the kernel has it. */
	err = sr_trap_dispatch(t);
	if (err)
		return err;
	list_harmless();
	sr_images_find();
	sr_vdso_hide();
	settle_resolver();
	sr_trap_is_on = true;
	return 0;
}

/* Standard input is captured whatever it is, and if it is closed. */
void sr_trap_begin(int32_t pid)
{
	struct sr_thread *t = &sr_self;
	int err;

	if (!sr_trap_is_on)
		return;
	err = sr_signals_claim(SIGSYS, on_sigsys);
	if (err) {
		sr_trap_is_on = false;
		sr_say("there is no net under the wrappers after all (%s)", strerrorname_np(-err));
		return;
	}
	sr_ids_start(pid);
	sr_fd_capture(STDIN_FILENO);
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

uint64_t sr_invoke_unknown(const struct sr_call_desc *d, uint64_t *a)
{
	return (uint64_t)-1;
}

uint64_t sr_invoke_futex(const struct sr_call_desc *d, uint64_t *a)
{
	return (uint64_t)-1;
}

#endif
