/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/calls/trap/table.h"

#if defined(__x86_64__)

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "shim/calls/trap/waiters.h"
#include "shim/core/hooks.h"
#include "shim/core/order.h"
#include "shim/core/run_token.h"

static const uint16_t harmless[] = {
    SYS_arch_prctl,
    SYS_exit,
    SYS_futex,
    SYS_futex_waitv,
    SYS_get_robust_list,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_restart_syscall,
    SYS_memfd_secret,
    SYS_pkey_alloc,
    SYS_pkey_free,
    SYS_remap_file_pages,
    SYS_sched_yield,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_modify_ldt,
    SYS_chroot,
    SYS_personality,
    SYS_seccomp,
    SYS_unshare,
    SYS_setns,
    SYS_landlock_create_ruleset,
    SYS_landlock_add_rule,
    SYS_landlock_restrict_self,
};

/*
 * Who the process is.  A replay does not become another user.  In a process with threads it is libc's functions that are recorded: they
 * have all threads make the call, in handlers of a signal of libc's, which come anywhere.
 */
static bool is_identity(long nr)
{
	return nr == SYS_setuid || nr == SYS_setgid || nr == SYS_setreuid || nr == SYS_setregid || nr == SYS_setresuid ||
	       nr == SYS_setresgid || nr == SYS_setgroups || nr == SYS_setfsuid || nr == SYS_setfsgid;
}

static uint64_t is_harmless[SR_TRAP_CALLS / 64];

void sr_syscalls_list_harmless(void)
{
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		is_harmless[harmless[i] / 64] |= 1ull << (harmless[i] % 64);
}

bool sr_syscall_is_harmless(long nr)
{
	if (sr_threaded && is_identity(nr))
		return true;
	return nr >= 0 && nr < SR_TRAP_CALLS && is_harmless[nr / 64] >> (nr % 64) & 1;
}

static bool waits_for_processes(const uint64_t a[6])
{
	for (unsigned int i = 0, n = sr_waiters(a); i < n; i++)
		if (sr_is_lock_of_processes(sr_waiters_word(a, i)))
			return true;
	return false;
}

/* In a replay nobody would wake this process. */
static int call_of_processes(long nr, const uint64_t a[6])
{
	if (nr == SYS_futex && sr_is_lock_of_processes(a[0]))
		return SR_CALL_kernel_futex;
	return nr == SYS_futex_waitv && waits_for_processes(a) ? SR_CALL_kernel_futex_waitv : -1;
}

/*
 * Threads wait for and wake each other by these calls.  If threads run one at a time, they are
 * recorded like any other call.  So are those by which processes wait for each other.
 */
int sr_syscall_call_of_threads(long nr, const uint64_t a[6])
{
	if (!sr_serial || !sr_threaded)
		return call_of_processes(nr, a);
	if (nr == SYS_futex)
		return SR_CALL_kernel_futex;
	if (nr == SYS_futex_waitv)
		return SR_CALL_kernel_futex_waitv;
	return nr == SYS_sched_yield ? SR_CALL_kernel_sched_yield : -1;
}

/*
 * Older forms of calls that calls.def describes in a newer form: the working directory is added
 * in front, and one argument has a fixed value.
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

int sr_syscall_call(long nr, uint64_t a[6])
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

#endif
