/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/kernel/guarded.h"

#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "shim/core/thread.h"
#include "shim/exposed/exposed.h"
#include "shim/exposed/probe/probe.h"
#include "shim/signals/signals.h"

/* What __builtin_setjmp fills: the frame, the place to go on at, and the stack pointer. */
enum { FRAME, PLACE, STACK, JUMP_WORDS = 5 };

#if defined(__x86_64__)

/* Where the recorder has put a trap into libc's code, memcpy's for example, and others have claimed it. */
static bool is_trap(const siginfo_t *info, const ucontext_t *uc)
{
	return info->si_code == SI_KERNEL && *(const uint8_t *)uc->uc_mcontext.gregs[REG_RIP] == PROBE_TRAP;
}

/* The handler returns to the place, so that the kernel restores the signal mask. */
static bool recover(siginfo_t *info, ucontext_t *uc)
{
	void **jump = sr_self.recovery;

	if (!jump || info->si_code <= 0 || is_trap(info, uc) || sr_exposed_touches(info->si_addr, 1))
		return false;
	sr_self.recovery = NULL;
	uc->uc_mcontext.gregs[REG_RBP] = (greg_t)jump[FRAME];
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)jump[PLACE];
	uc->uc_mcontext.gregs[REG_RSP] = (greg_t)jump[STACK];
	return true;
}

int sr_guarded_start(void)
{
	return sr_signals_claim(SIGSEGV, recover);
}

#else

int sr_guarded_start(void)
{
	return 0;
}

#endif

bool __attribute__((noinline)) sr_guarded(void (*work)(void *), void *argument)
{
	void *jump[JUMP_WORDS];

	if (__builtin_setjmp(jump))
		return false;
	sr_self.recovery = jump;
	work(argument);
	sr_self.recovery = NULL;
	return true;
}

struct copy {
	void *to;
	const void *from;
	size_t n;
};

static void copy(void *argument)
{
	const struct copy *c = argument;

	memcpy(c->to, c->from, c->n);
}

bool sr_guarded_copy(void *to, const void *from, size_t n)
{
	return sr_guarded(copy, &(struct copy){to, from, n});
}
