/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/calls/trap/make.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>

#include "logd/base/say.h"
#include "shim/calls/trap/table.h"
#include "shim/calls/trap/waiters.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/files/uncompared.h"
#include "shim/verbs/regions.h"
#include "shim/verbs/waits.h"

#if defined(__x86_64__)

long sr_make_call(const struct sr_trapped *c, enum sr_call_number n)
{
	uint64_t result;

	/* For a call that receives (calls.def). */
	c->a[sr_calls[n].nargs] = (uintptr_t)&c->t->received;
	c->t->raw = true;
	c->t->raw_stack = (uintptr_t)c->uc->uc_mcontext.gregs[REG_RSP];
	result = sr_call(n, c->a, c->site);
	c->t->raw = false;
	return result == (uint64_t)-1 ? -errno : (long)result;
}

/* Their addresses are in a list that the call is given. */
static void pin_waiters(const uint64_t a[6], struct sr_pinned *p)
{
	for (unsigned int i = 0, n = sr_waiters(a); i < n; i++)
		sr_regions_pin_more(p, (const void *)sr_waiters_word(a, i), sizeof(uint32_t));
}

long sr_make_on_memory(long nr, const uint64_t a[6])
{
	struct sr_pinned pinned;
	long result;

	if (__builtin_expect(!sr_regions_on, 1))
		return sr_make_raw(nr, a);
	if (nr == SYS_futex)
		return sr_wait_futex(a);
	sr_regions_pin_words(a, &pinned);
	if (nr == SYS_futex_waitv)
		pin_waiters(a, &pinned);
	result = sr_make_raw(nr, a);
	sr_regions_unpin(&pinned);
	return result;
}

long sr_make_unknown(const struct sr_trapped *c)
{
	uint64_t described[SR_MAX_ARGS + 1] = {(uint64_t)c->nr, (uintptr_t)c->a};
	struct sr_trapped as_call = *c;
	long result;

	as_call.a = described;
	result = sr_make_call(&as_call, SR_CALL_unknown_system_call);
	/* One that fails has done nothing: many programs only ask whether there is such a call. */
	if (result >= 0)
		sr_output_is_uncompared(SR_UNCOMPARED_CALL);
	return result;
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

/* Converts a result as libc does: -1 and errno for an error. */
static uint64_t with_errno(long result)
{
	if (result >= 0 || result < -4095)
		return (uint64_t)result;
	errno = (int)-result;
	return (uint64_t)-1;
}

/* Is this process a child of `sreplay record`?  That traces nobody. */
static bool is_commands_child(void)
{
	char link[40], path[256];
	long n;

	snprintf(link, sizeof(link), "/proc/%ld/exe", sr_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0));
	n = sr_syscall(SYS_readlinkat, AT_FDCWD, SR_ARG(link), SR_ARG(path), sizeof(path) - 1, 0,
		       0);
	path[n > 0 ? n : 0] = 0;
	return n > 8 && !strcmp(path + n - 8, "/sreplay");
}

/*
 * PTRACE_TRACEME: the program asks its parent to trace it; most only want to know whether somebody
 * does already.  Each signal would stop it until the parent lets it go on, and the system-call trap
 * makes a signal of each call.
 */
static long trace_me(void)
{
	static _Atomic bool asked;

	if (atomic_exchange(&asked, true))
		return -EPERM;
	sr_say("the program's parent, sreplay record, does not trace it (PTRACE_TRACEME)");
	return 0;
}

/* Another parent may: it would see each trapped system call as a stop by SIGSYS. */
bool sr_ptrace_captured(const uint64_t *a)
{
	if (a[0] != PTRACE_TRACEME || is_commands_child() || !sr_engine->leaves)
		return true;
	sr_engine->leaves("its parent is to trace it (PTRACE_TRACEME)");
	return false;
}

uint64_t sr_invoke_ptrace(const struct sr_call_desc *d, uint64_t *a)
{
	if (a[0] == PTRACE_TRACEME && is_commands_child())
		return with_errno(trace_me());
	return with_errno(sr_make_on_memory(SYS_ptrace, a));
}

uint64_t sr_invoke_unknown(const struct sr_call_desc *d, uint64_t *a)
{
	say_unknown(a[0]);
	return with_errno(sr_make_on_memory((long)a[0], (const uint64_t *)a[1]));
}

/* The futex word may lie in an exposed region, which is protected from the kernel, too. */
uint64_t sr_invoke_futex(const struct sr_call_desc *d, uint64_t *a)
{
	return sr_regions_on ? with_errno(sr_make_on_memory(d->nr, a)) : sr_real(d, a);
}

#else

bool sr_ptrace_captured(const uint64_t *a)
{
	return true;
}

uint64_t sr_invoke_ptrace(const struct sr_call_desc *d, uint64_t *a)
{
	return (uint64_t)-1;
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
