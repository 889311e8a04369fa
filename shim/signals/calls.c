/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls.c: libc's functions that set dispositions, masks and alternate stacks, implemented
 * on signals.c. Each does what libc's function does. libc's own cannot be called, because
 * it would go to the kernel and bypass signals.c.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "logd/base/rawsys.h"
#include "shim/core/hooks.h"
#include "shim/signals/signals.h"
#include "shim/core/thread.h"

#define BIT(signo) (1ull << ((signo)-1))

/* Signals that libc uses itself; libc removes them from what a program asks for. */
#define LIBC_FIRST 32
#define LIBC_LAST  33
#define LIBC_OWN   (BIT(LIBC_FIRST) | BIT(LIBC_LAST))

/* Set by siginterrupt: if signal() sets a handler for these, it makes calls fail with EINTR. */
static uint64_t interrupting;

static bool is_signal(int signo)
{
	return signo >= 1 && signo < NSIG && signo != LIBC_FIRST && signo != LIBC_LAST;
}

static uint64_t word(long err)
{
	if (!err)
		return 0;
	errno = (int)-err;
	return (uint64_t)-1;
}

static void to_kernel(struct sr_kernel_action *k, const struct sigaction *a)
{
	*k = (struct sr_kernel_action){
	    .handler = (void *)a->sa_handler,
	    .flags = (unsigned long)(unsigned int)a->sa_flags | SA_RESTORER,
	    .restorer = sr_signals_libc_restorer(),
	};
	memcpy(&k->mask, &a->sa_mask, sizeof(k->mask));
}

static void from_kernel(struct sigaction *a, const struct sr_kernel_action *k)
{
	a->sa_handler = (__sighandler_t)k->handler;
	a->sa_flags = (int)k->flags;
	a->sa_restorer = (void (*)(void))k->restorer;
	memcpy(&a->sa_mask, &k->mask, sizeof(k->mask));
}

uint64_t sr_invoke_sigaction(const struct sr_call_desc *d, uint64_t *a)
{
	const struct sigaction *act = (const void *)a[1];
	struct sigaction *old = (void *)a[2];
	struct sr_kernel_action wanted, before;
	long err;

	if (!sr_signals_are_shadowed() || !is_signal((int)a[0]))
		return sr_real(d, a);
	if (act)
		to_kernel(&wanted, act);
	err = sr_signals_action((int)a[0], act ? &wanted : NULL, &before);
	if (!err && old)
		from_kernel(old, &before);
	return word(err);
}

static uint64_t set_handler(int signo, void *handler, int flags, uint64_t mask)
{
	struct sr_kernel_action wanted = {
	    .handler = handler,
	    .flags = (unsigned long)(unsigned int)flags | SA_RESTORER,
	    .restorer = sr_signals_libc_restorer(),
	    .mask = mask,
	};
	struct sr_kernel_action before;
	long err = sr_signals_action(signo, &wanted, &before);

	return err ? word(err) : (uintptr_t)before.handler;
}

static bool takes_handler(const uint64_t *a)
{
	return sr_signals_are_shadowed() && is_signal((int)a[0]) && a[1] != (uint64_t)SIG_ERR;
}

uint64_t sr_invoke_signal(const struct sr_call_desc *d, uint64_t *a)
{
	int signo = (int)a[0];

	if (!takes_handler(a))
		return sr_real(d, a);
	return set_handler(signo, (void *)a[1], interrupting & BIT(signo) ? 0 : SA_RESTART,
			   BIT(signo));
}

uint64_t sr_invoke_sysv_signal(const struct sr_call_desc *d, uint64_t *a)
{
	if (!takes_handler(a))
		return sr_real(d, a);
	return set_handler((int)a[0], (void *)a[1], (int)(SA_RESETHAND | SA_NODEFER | SA_INTERRUPT),
			   0);
}

uint64_t sr_invoke_sigignore(const struct sr_call_desc *d, uint64_t *a)
{
	if (!sr_signals_are_shadowed() || !is_signal((int)a[0]))
		return sr_real(d, a);
	return set_handler((int)a[0], (void *)SIG_IGN, 0, 0) == (uint64_t)-1 ? (uint64_t)-1 : 0;
}

uint64_t sr_invoke_siginterrupt(const struct sr_call_desc *d, uint64_t *a)
{
	int signo = (int)a[0], interrupt = (int)a[1];
	struct sr_kernel_action action;
	long err;

	if (!is_signal(signo))
		return sr_real(d, a);
	interrupting = interrupt ? interrupting | BIT(signo) : interrupting & ~BIT(signo);
	if (!sr_signals_are_shadowed())
		return sr_real(d, a);
	err = sr_signals_action(signo, NULL, &action);
	if (err)
		return word(err);
	action.flags =
	    interrupt ? action.flags & ~(unsigned long)SA_RESTART : action.flags | SA_RESTART;
	action.restorer = sr_signals_libc_restorer();
	action.flags |= SA_RESTORER;
	return word(sr_signals_action(signo, &action, NULL));
}

/* ------------------------------------------------------------------- masks */

static long kernel_mask(const uint64_t *set, uint64_t *old)
{
	return sr_syscall(SYS_rt_sigprocmask, SIG_SETMASK, SR_ARG(set), SR_ARG(old), sizeof(*old),
			  0, 0);
}

/* Blocks all signals meanwhile, so that no handler sees a half-changed mask. */
static long set_mask(int how, const uint64_t *set, uint64_t *old)
{
	struct sr_signal_state *s = &sr_self.signals;
	uint64_t all = ~sr_signals_claimed(), kernel, mask, wanted;
	long err;

	kernel_mask(&all, &kernel);
	mask = s->overflowed ? s->overflow_mask : kernel;
	if (set)
		wanted = how == SIG_UNBLOCK ? *set : *set & ~LIBC_OWN;
	err = sr_signals_mask(how, set ? &wanted : NULL, old, &mask);
	if (!err && !sr_signals_are_replayed()) {
		if (s->overflowed)
			s->overflow_mask = mask;
		else
			kernel = mask;
	}
	kernel_mask(&kernel, NULL);
	return err;
}

static long mask_call(const uint64_t *a)
{
	const sigset_t *set = (const void *)a[1];
	sigset_t *old = (void *)a[2];
	uint64_t wanted, before;
	long err;

	if (set)
		memcpy(&wanted, set, sizeof(wanted));
	err = set_mask((int)a[0], set ? &wanted : NULL, &before);
	/* A replay blocks nothing; the trace has the previous mask. */
	if (!err && old && !sr_signals_are_replayed())
		memcpy(old, &before, sizeof(before));
	return err;
}

uint64_t sr_invoke_sigprocmask(const struct sr_call_desc *d, uint64_t *a)
{
	return sr_signals_are_shadowed() ? word(mask_call(a)) : sr_real(d, a);
}

uint64_t sr_invoke_pthread_sigmask(const struct sr_call_desc *d, uint64_t *a)
{
	return sr_signals_are_shadowed() ? (uint64_t)-mask_call(a) : sr_real(d, a);
}

/* sigblock and sigsetmask take the first 32 signals as bits of an int. */
static uint64_t old_mask_call(int how, const uint64_t *a)
{
	uint64_t wanted = (unsigned int)a[0], before;

	set_mask(how, &wanted, &before);
	return (unsigned int)before;
}

uint64_t sr_invoke_sigblock(const struct sr_call_desc *d, uint64_t *a)
{
	return sr_signals_are_shadowed() ? old_mask_call(SIG_BLOCK, a) : sr_real(d, a);
}

uint64_t sr_invoke_sigsetmask(const struct sr_call_desc *d, uint64_t *a)
{
	return sr_signals_are_shadowed() ? old_mask_call(SIG_SETMASK, a) : sr_real(d, a);
}

static uint64_t one_signal(const struct sr_call_desc *d, uint64_t *a, int how)
{
	uint64_t wanted;

	if (!sr_signals_are_shadowed() || !is_signal((int)a[0]))
		return sr_real(d, a);
	wanted = BIT((int)a[0]);
	return word(set_mask(how, &wanted, NULL));
}

uint64_t sr_invoke_sighold(const struct sr_call_desc *d, uint64_t *a)
{
	return one_signal(d, a, SIG_BLOCK);
}

uint64_t sr_invoke_sigrelse(const struct sr_call_desc *d, uint64_t *a)
{
	return one_signal(d, a, SIG_UNBLOCK);
}

uint64_t sr_invoke_sigset(const struct sr_call_desc *d, uint64_t *a)
{
	bool hold = a[1] == (uint64_t)SIG_HOLD;
	struct sr_kernel_action now;
	uint64_t wanted, before, handler;

	if (!takes_handler(a))
		return sr_real(d, a);
	wanted = BIT((int)a[0]);
	if (hold) {
		set_mask(SIG_BLOCK, &wanted, &before);
		sr_signals_action((int)a[0], NULL, &now);
		handler = (uintptr_t)now.handler;
	} else {
		handler = set_handler((int)a[0], (void *)a[1], 0, 0);
		if (handler == (uint64_t)SIG_ERR)
			return handler;
		set_mask(SIG_UNBLOCK, &wanted, &before);
	}
	return before & wanted ? (uint64_t)SIG_HOLD : handler;
}

uint64_t sr_invoke_sigsuspend(const struct sr_call_desc *d, uint64_t *a)
{
	sigset_t copy;
	uint64_t filtered[2] = {(uintptr_t)sr_signals_filter((const void *)a[0], &copy), a[1]};

	return sr_real(d, filtered);
}

/* A header may redirect the name sigpause to __xpg_sigpause. */
int __sigpause(int signo_or_mask, int is_signo);
int bsd_sigpause(int mask) __asm__("sigpause") __attribute__((visibility("default")));

int bsd_sigpause(int mask)
{
	return __sigpause(mask, 0);
}

uint64_t sr_invoke_sigpause(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t filtered[2] = {a[0], a[1]};

	if (!a[1])
		filtered[0] &= ~(uint64_t)(uint32_t)sr_signals_claimed();
	return sr_real(d, filtered);
}

uint64_t sr_invoke_sigpending(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t result = sr_real(d, a), pending;

	if (!(int)result) {
		memcpy(&pending, (void *)a[0], sizeof(pending));
		pending |= sr_signals_waiting(&sr_self);
		memcpy((void *)a[0], &pending, sizeof(pending));
	}
	return result;
}

/* ------------------------------------------------------------------- stacks */

uint64_t sr_invoke_sigaltstack(const struct sr_call_desc *d, uint64_t *a)
{
	return word(sr_signal_stack_set(&sr_self.signals.stack, (const void *)a[0], (void *)a[1],
					(uintptr_t)__builtin_frame_address(0)));
}

/* ------------------------------------------------------------------- replay */

/*
 * Repeats the call, so that the shim's state changes as recorded; the results come from the trace.
 */
void sr_replayed_signal_call(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	sr_invoke(d, a);
}
