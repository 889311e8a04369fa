/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/signals/dispositions.h"

#include <stdatomic.h>

#include "logd/base/lock.h"
#include "shim/core/next.h"

#define SIGNALS    SR_SIGNALS
#define BIT(signo) SR_SIGNAL_BIT(signo)

#define NEVER      SR_SIGNALS_NEVER

/*
 * The dispositions that the program set, in the kernel's form. A handler may read one at
 * any time, even while its own thread is changing it. So each has two places, and the one
 * in use is always complete.
 */
static struct disposition {
	struct sr_kernel_action place[2];
	_Atomic uint32_t changes; /* the lowest bit selects the place in use */
} dispositions[SIGNALS + 1];

static bool known;   /* the table holds the program's dispositions */
static bool replays; /* in a replay, the signals that the kernel delivers are not the program's */
static struct sr_lock changing;

static void *libc_restorer;

static uint64_t claimed;
/* Those of them that may be sent: the program does not die of them. */
static uint64_t deferred;
static sr_signal_entry *entry;

struct sr_kernel_action sr_disposition_get(int signo)
{
	struct disposition *d = &dispositions[signo];
	struct sr_kernel_action a;
	uint32_t changes;

	do {
		changes = atomic_load_explicit(&d->changes, memory_order_acquire);
		a = d->place[changes & 1];
		atomic_thread_fence(memory_order_acquire);
	} while (changes != atomic_load_explicit(&d->changes, memory_order_relaxed));
	return a;
}

/* With the lock. */
static void put_action(int signo, const struct sr_kernel_action *a)
{
	struct disposition *d = &dispositions[signo];
	uint32_t changes = atomic_load_explicit(&d->changes, memory_order_relaxed);

	d->place[(changes + 1) & 1] = *a;
	atomic_store_explicit(&d->changes, changes + 1, memory_order_release);
}

bool sr_action_is_function(const struct sr_kernel_action *a)
{
	return a->handler != (void *)SIG_DFL && a->handler != (void *)SIG_IGN;
}

/* The disposition that the kernel gets for a signal that the program sets to a. */
static struct sr_kernel_action for_kernel(int signo, const struct sr_kernel_action *a)
{
	struct sr_kernel_action k = *a;

	k.mask &= ~claimed;
	if (!(claimed & BIT(signo)) && !sr_action_is_function(a)) {
		if (replays && sr_signal_ends_replay(signo))
			k.handler = (void *)SIG_DFL;
		return k;
	}
	k.handler = (void *)entry;
	k.restorer = (void *)sr_frame_restorer;
	k.flags |= SA_SIGINFO | SA_RESTORER | SA_ONSTACK;
	if (claimed & BIT(signo)) {
		k.flags |= SA_RESTART | SA_NODEFER;
		if (a->handler != (void *)SIG_DFL)
			deferred |= BIT(signo);
		if (deferred & BIT(signo))
			k.flags &= ~(unsigned long)SA_NODEFER;
	}
	/* While a handler runs on the shim's stack, only claimed signals may interrupt it. */
	k.mask = ~claimed;
	/* A trapped system call may block, and be interrupted. */
	if (signo == SIGSYS && claimed & BIT(SIGSYS))
		k.mask = 0;
	k.flags &= ~(unsigned long)SA_RESETHAND;
	return k;
}

void sr_dispositions_lock(uint64_t *mask)
{
	const uint64_t all = ~claimed;

	sr_kernel_mask(SIG_SETMASK, &all, mask);
	sr_lock(&changing);
}

void sr_dispositions_unlock(const uint64_t *mask)
{
	sr_unlock(&changing);
	sr_kernel_mask(SIG_SETMASK, mask, NULL);
}

void sr_signals_reset(int signo)
{
	struct sr_kernel_action none, k;
	uint64_t mask;

	sr_dispositions_lock(&mask);
	none = sr_disposition_get(signo);
	none.handler = (void *)SIG_DFL;
	put_action(signo, &none);
	k = for_kernel(signo, &none);
	sr_kernel_action(signo, &k, NULL);
	sr_dispositions_unlock(&mask);
}

bool sr_signals_has_handler(int signo)
{
	struct sr_kernel_action a = {0};

	if (signo >= 1 && signo <= SIGNALS)
		a = sr_disposition_get(signo);
	return sr_action_is_function(&a);
}

bool sr_signals_are_shadowed(void)
{
	return known;
}

void *sr_signals_libc_restorer(void)
{
	return libc_restorer;
}

uint64_t sr_signals_claimed(void)
{
	return claimed;
}

uint64_t sr_signals_deferred(void)
{
	return deferred;
}

bool sr_signals_are_replayed(void)
{
	return replays;
}

/*
 * Reads the restorer that libc sets, because a program may look for it in a disposition.
 * SIGURG is ignored by default, so changing it for a moment has no effect.
 */
static void read_restorer(void)
{
	SR_NEXT(next, "sigaction");
	int (*set)(int, const struct sigaction *, struct sigaction *) =
	    (int (*)(int, const struct sigaction *, struct sigaction *))sr_next(&next);
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sr_kernel_action a, before;

	libc_restorer = (void *)sr_frame_restorer;
	if (!set || sr_kernel_action(SIGURG, NULL, &before))
		return;
	if (!set(SIGURG, &ignore, NULL) && !sr_kernel_action(SIGURG, NULL, &a) && a.restorer)
		libc_restorer = a.restorer;
	sr_kernel_action(SIGURG, &before, NULL);
}

static void read_kernel(void)
{
	read_restorer();
	for (int signo = 1; signo <= SIGNALS; signo++) {
		struct sr_kernel_action a = {0};

		if (!sr_kernel_action(signo, NULL, &a))
			put_action(signo, &a);
	}
	known = true;
}

/* Installs the shim's handler for signals that had a handler before. */
static void install_all(void)
{
	for (int signo = 1; signo <= SIGNALS; signo++) {
		struct sr_kernel_action a = sr_disposition_get(signo), k = for_kernel(signo, &a);

		if (claimed & BIT(signo) || sr_action_is_function(&a))
			sr_kernel_action(signo, &k, NULL);
	}
}

long sr_disposition_set(int signo, const struct sr_kernel_action *act)
{
	struct sr_kernel_action k = for_kernel(signo, act);
	long err = sr_kernel_action(signo, &k, NULL);

	if (err)
		return err;
	k = *act;
	k.mask &= ~NEVER;
	put_action(signo, &k);
	return 0;
}

void sr_disposition_take(int signo, const struct sr_kernel_action *action, struct sr_kernel_action *before)
{
	uint64_t mask;

	sr_dispositions_lock(&mask);
	sr_kernel_action(signo, NULL, before);
	sr_disposition_set(signo, action);
	sr_dispositions_unlock(&mask);
}

void sr_dispositions_claim(uint64_t bit)
{
	if (claimed & bit)
		return;
	claimed |= bit;
	install_all();
}

void sr_dispositions_start(bool replay, sr_signal_entry *e)
{
	uint64_t mask;

	replays = replay;
	entry = e;
	sr_dispositions_lock(&mask);
	read_kernel();
	install_all();
	sr_dispositions_unlock(&mask);
}

void sr_dispositions_give_back(void)
{
	claimed = 0;
	for (int signo = 1; signo <= SIGNALS; signo++) {
		struct sr_kernel_action a = sr_disposition_get(signo);

		if (signo != SIGKILL && signo != SIGSTOP)
			sr_kernel_action(signo, &a, NULL);
	}
	known = false;
}
