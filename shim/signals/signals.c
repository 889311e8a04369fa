/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signals.c: dispositions and claims, and who gets a signal that comes.
 *
 * The calls by which a program sets them come from calls.def to signals/calls.c,
 * and from there to this file, in the terms of the kernel.
 */
#include "shim/signals/signals.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "logd/base/lock.h"
#include "shim/core/next.h"
#include "shim/signals/handlers.h"
#include "shim/signals/threads.h"
#include "shim/core/thread.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/exposed.h"

#define SIGNALS    SR_SIGNALS
#define MAX_CLAIMS 6
#define BIT(signo) SR_SIGNAL_BIT(signo)

/* What cannot be blocked. */
#define NEVER      (BIT(SIGKILL) | BIT(SIGSTOP))

/* ------------------------------------------------------------ dispositions */

/*
 * What the program set, as the kernel would have it.  Handlers read it at any
 * time, in the midst of a change by their own thread as well: of two places the
 * one in use is whole.
 */
static struct disposition {
	struct sr_kernel_action place[2];
	_Atomic uint32_t changes; /* the lowest bit says which */
} dispositions[SIGNALS + 1];

static bool known;   /* they are the program's */
static bool replays; /* the kernel's signals are not those of the program */
static struct sr_lock changing;

static void *libc_restorer;

static sr_signal_handler claims[2][MAX_CLAIMS];
static uint64_t claimed;

static struct sr_kernel_action get_action(int signo)
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

static bool is_function(const struct sr_kernel_action *a)
{
	return a->handler != (void *)SIG_DFL && a->handler != (void *)SIG_IGN;
}

static void entry(int signo, siginfo_t *info, void *context);

/* What the kernel is to have for a signal of which the program says a. */
static struct sr_kernel_action for_kernel(int signo, const struct sr_kernel_action *a)
{
	struct sr_kernel_action k = *a;

	k.mask &= ~claimed;
	if (!(claimed & BIT(signo)) && !is_function(a)) {
		if (replays && sr_signal_ends_replay(signo))
			k.handler = (void *)SIG_DFL;
		return k;
	}
	k.handler = (void *)entry;
	k.restorer = (void *)sr_frame_restorer;
	k.flags |= SA_SIGINFO | SA_RESTORER | SA_ONSTACK;
	if (claimed & BIT(signo))
		k.flags |= SA_RESTART | SA_NODEFER;
	/* On the shim's stack nothing else may begin but what is claimed. */
	k.mask = ~claimed;
	if (signo == SIGSYS && claimed & BIT(SIGSYS)) {
		k.flags &= ~(unsigned long)SA_ONSTACK;
		k.mask = 0;
	}
	k.flags &= ~(unsigned long)SA_RESETHAND;
	return k;
}

/* All signals wait while dispositions change: a handler takes the lock as well. */
static void lock_actions(uint64_t *mask)
{
	const uint64_t all = ~claimed;

	sr_kernel_mask(SIG_SETMASK, &all, mask);
	sr_lock(&changing);
}

static void unlock_actions(const uint64_t *mask)
{
	sr_unlock(&changing);
	sr_kernel_mask(SIG_SETMASK, mask, NULL);
}

void sr_signals_reset(int signo)
{
	struct sr_kernel_action none, k;
	uint64_t mask;

	lock_actions(&mask);
	none = get_action(signo);
	none.handler = (void *)SIG_DFL;
	put_action(signo, &none);
	k = for_kernel(signo, &none);
	sr_kernel_action(signo, &k, NULL);
	unlock_actions(&mask);
}

/* ----------------------------------------------------------------- from the kernel */

static bool is_claims(int signo, siginfo_t *info, ucontext_t *uc)
{
	const sr_signal_handler *handlers = claims[signo == SIGSYS];

	if (!(claimed & BIT(signo)))
		return false;
	for (int i = 0; i < MAX_CLAIMS && handlers[i]; i++)
		if (handlers[i](info, uc))
			return true;
	return false;
}

static void pass(int signo, siginfo_t *info, ucontext_t *uc, uintptr_t here)
{
	struct sr_signal_state *s = &sr_self.signals;
	struct sr_kernel_action a = get_action(signo);
	bool fault = sr_signal_is_fault(signo, info), blocked = s->hidden & BIT(signo);

	/* The program has no copies. */
	probes_enter(uc);
	/* What a fault meets that cannot be handled, the kernel does not ignore either. */
	if (blocked && !fault)
		sr_signal_hold(s, signo, info);
	else if (blocked || a.handler == (void *)SIG_DFL || (a.handler == (void *)SIG_IGN && fault))
		sr_signal_by_default(signo, info, uc);
	else if (a.handler == (void *)SIG_IGN)
		return;
	else if (fault)
		sr_handler_for_fault(signo, info, uc, &a, here);
	else
		sr_handler_for_sent(signo, info, uc, &a, here);
}

static void entry(int signo, siginfo_t *info, void *context)
{
	struct probes_guard guard;
	int saved = errno;

	probes_guard_begin(&guard);
	if (!is_claims(signo, info, context))
		pass(signo, info, context, (uintptr_t)__builtin_frame_address(0));
	probes_guard_end(&guard);
	errno = saved;
}

/* ------------------------------------------------------- as the program sets it */

bool sr_signals_has_handler(int signo)
{
	struct sr_kernel_action a = {0};

	if (signo >= 1 && signo <= SIGNALS)
		a = get_action(signo);
	return is_function(&a);
}

bool sr_signals_are_shadowed(void)
{
	return known;
}

void *sr_signals_libc_restorer(void)
{
	return libc_restorer;
}

/*
 * The program has a handler that may have to wait, and for that its threads are to be
 * stopped when they make no call (sr_signal_tick).
 */
static void claim_tick(int signo)
{
	static bool claimed_it;

	if (claimed_it || BIT(signo) & SR_SIGNAL_FAULTS)
		return;
	claimed_it = true;
	sr_signals_claim(SIGSEGV, sr_signal_tick);
}

long sr_signals_action(int signo, const struct sr_kernel_action *act, struct sr_kernel_action *old)
{
	struct sr_kernel_action before, k;
	uint64_t mask;
	long err = 0;

	/* Real-time signals below SIGRTMIN are glibc's own. */
	if (!known || signo < 1 || signo > SIGNALS || (signo >= 32 && signo < SIGRTMIN))
		return sr_kernel_action(signo, act, old);
	if (act && is_function(act))
		claim_tick(signo);
	lock_actions(&mask);
	before = get_action(signo);
	if (act) {
		k = for_kernel(signo, act);
		err = sr_kernel_action(signo, &k, NULL);
		if (!err) {
			k = *act;
			k.mask &= ~NEVER;
			put_action(signo, &k);
		}
	}
	unlock_actions(&mask);
	if (!err && old)
		*old = before;
	return err;
}

static int change_mask(int how, uint64_t set, uint64_t *mask)
{
	switch (how) {
	case SIG_BLOCK:
		*mask |= set;
		return 0;
	case SIG_UNBLOCK:
		*mask &= ~set;
		return 0;
	case SIG_SETMASK:
		*mask = set;
		return 0;
	default:
		return -EINVAL;
	}
}

uint64_t sr_signals_claimed(void)
{
	return claimed;
}

bool sr_signals_are_replayed(void)
{
	return replays;
}

long sr_signals_mask(int how, const uint64_t *set, uint64_t *old, uint64_t *kernel)
{
	struct sr_signal_state *s = &sr_self.signals;
	uint64_t before = *kernel | s->hidden, mask = before;

	if (set && change_mask(how, *set & ~NEVER, &mask))
		return -EINVAL;
	*kernel = mask & ~claimed;
	s->hidden = mask & claimed;
	if (s->held & ~s->hidden)
		s->waiting = true;
	if (old)
		*old = before;
	return 0;
}

const sigset_t *sr_signals_filter(const sigset_t *set, sigset_t *copy)
{
	uint64_t mask;

	if (!set || !claimed)
		return set;
	memcpy(&mask, set, sizeof(mask));
	if (!(mask & claimed))
		return set;
	mask &= ~claimed;
	*copy = *set;
	memcpy(copy, &mask, sizeof(mask));
	return copy;
}

/* ------------------------------------------------------------------- claims */

/* A program would find it in a disposition that libc has set: of a signal that nobody waits for. */
static void learn_restorer(void)
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

static void learn(void)
{
	learn_restorer();
	for (int signo = 1; signo <= SIGNALS; signo++) {
		struct sr_kernel_action a = {0};

		if (!sr_kernel_action(signo, NULL, &a))
			put_action(signo, &a);
	}
	known = true;
}

/* Handlers that the program had set before. */
static void install_all(void)
{
	for (int signo = 1; signo <= SIGNALS; signo++) {
		struct sr_kernel_action a = get_action(signo), k = for_kernel(signo, &a);

		if (claimed & BIT(signo) || is_function(&a))
			sr_kernel_action(signo, &k, NULL);
	}
}

static int add_claim(int signo, sr_signal_handler handler)
{
	sr_signal_handler *handlers = claims[signo == SIGSYS];

	for (int i = 0; i < MAX_CLAIMS; i++) {
		if (!handlers[i]) {
			handlers[i] = handler;
			return 0;
		}
	}
	return -EINVAL;
}

static void unblock_here(uint64_t bits)
{
	struct sr_signal_state *s = &sr_self.signals;
	uint64_t mask;

	sr_kernel_mask(SIG_UNBLOCK, &bits, &mask);
	s->hidden |= mask & bits;
}

int sr_signals_claim(int signo, sr_signal_handler handler)
{
	uint64_t bit = BIT(signo), mask;
	int err;

	if (signo != SIGSEGV && signo != SIGSYS)
		return -EINVAL;
	if (!known)
		return -ENOSYS;
	if (!(claimed & bit) && !__libc_single_threaded && sr_signal_blocked_elsewhere(bit))
		return -EBUSY;
	lock_actions(&mask);
	err = add_claim(signo, handler);
	if (!err && !(claimed & bit)) {
		claimed |= bit;
		install_all();
	}
	unlock_actions(&mask);
	if (!err)
		unblock_here(bit);
	return err;
}

void sr_signals_start(bool replay)
{
	uint64_t mask;

	if (!sr_frame_supported())
		return;
	replays = replay;
	sr_signal_stack_begin(&sr_self.signals.stack);
	sr_handlers_thread_begins(&sr_self);
	lock_actions(&mask);
	learn();
	install_all();
	unlock_actions(&mask);
	for (int signo = 1; signo <= SIGNALS; signo++)
		if (sr_signals_has_handler(signo))
			claim_tick(signo);
}

/* -------------------------------------------------------- threads and children */

uint64_t sr_signals_hidden(void)
{
	return sr_self.signals.hidden;
}

void sr_signals_thread_begins(uint64_t hidden, bool inner)
{
	struct sr_signal_state *s = &sr_self.signals;
	const uint64_t all = ~(claimed | SR_SIGNAL_FAULTS);

	if (!known)
		return;
	if (inner) {
		sr_kernel_mask(SIG_BLOCK, &all, NULL);
	} else {
		sr_signal_stack_begin(&s->stack);
		sr_handlers_thread_begins(&sr_self);
	}
	s->hidden = hidden;
	/* It was created with a mask of its own, or by a thread that had no part in the claim. */
	unblock_here(claimed);
}

uint64_t sr_signals_before_create(uint64_t *kernel)
{
	const struct sr_signal_state *s = &sr_self.signals;
	const uint64_t all = ~(claimed | SR_SIGNAL_FAULTS);

	*kernel = 0;
	if (known)
		sr_kernel_mask(SIG_BLOCK, &all, kernel);
	return s->overflowed ? s->overflow_mask : *kernel;
}

void sr_signals_after_create(uint64_t kernel)
{
	if (known)
		sr_kernel_mask(SIG_SETMASK, &kernel, NULL);
}

/* It is ready for what is not blocked in this mask. */
void sr_signals_thread_opens(uint64_t mask)
{
	mask &= ~claimed;
	if (known)
		sr_kernel_mask(SIG_SETMASK, &mask, NULL);
}

void sr_signals_thread_closes(void)
{
	struct sr_thread *t = &sr_self;
	const uint64_t all = ~(claimed | SR_SIGNAL_FAULTS);
	uint64_t mask;

	while (known) {
		sr_kernel_mask(SIG_BLOCK, &all, &mask);
		if (!t->signals.waiting)
			return;
		/* Its handler runs in this thread, still. */
		sr_kernel_mask(SIG_SETMASK, &mask, NULL);
		sr_signals_take(t, SR_SIGNAL_BEFORE);
	}
}

void sr_signals_thread_ends(void)
{
	const uint64_t all = ~claimed;
	uint64_t mask;

	sr_kernel_mask(SIG_SETMASK, &all, &mask);
	sr_signal_stack_end(&sr_self.signals.stack);
	sr_handlers_thread_ends(&sr_self);
	sr_exposed_thread_ends();
	sr_kernel_mask(SIG_SETMASK, &mask, NULL);
}

void sr_signals_before_exec(void)
{
	const uint64_t hidden = sr_self.signals.hidden;

	if (hidden)
		sr_kernel_mask(SIG_BLOCK, &hidden, NULL);
}

void sr_signals_after_exec(void)
{
	const uint64_t hidden = sr_self.signals.hidden;

	if (hidden)
		sr_kernel_mask(SIG_UNBLOCK, &hidden, NULL);
}

void sr_signals_forget_in_child(void)
{
	struct sr_signal_state *s = &sr_self.signals;
	uint64_t hidden = s->hidden;

	if (!known)
		return;
	claimed = 0;
	memset(claims, 0, sizeof(claims));
	for (int signo = 1; signo <= SIGNALS; signo++) {
		struct sr_kernel_action a = get_action(signo);

		if (signo != SIGKILL && signo != SIGSTOP)
			sr_kernel_action(signo, &a, NULL);
	}
	known = false;
	sr_signal_stack_abandon(&s->stack);
	/* Timers are the parent's, and so is what was sent to it. */
	s->has_timer = s->timer_set = s->waiting = false;
	s->hidden = s->held = 0;
	sr_kernel_mask(SIG_BLOCK, &hidden, NULL);
}

/* A jump has set the mask. */
void sr_signals_unhide(void)
{
	struct sr_signal_state *s = &sr_self.signals;

	s->hidden = 0;
	if (s->held)
		s->waiting = true;
}
