/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signals.c: dispositions and claims; decides which handler gets a signal.
 *
 * The calls by which a program sets dispositions reach this file through calls.def and
 * signals/calls.c, in the kernel's form.
 */
#include "shim/signals/signals.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "logd/base/compiler.h"
#include "logd/base/lock.h"
#include "logd/base/thread_timer.h"
#include "shim/core/next.h"
#include "shim/core/own_image.h"
#include "shim/signals/cancellation.h"
#include "shim/signals/handlers.h"
#include "shim/signals/threads.h"
#include "shim/core/thread.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/exposed.h"

#define SIGNALS    SR_SIGNALS
#define MAX_CLAIMS 8
#define BIT(signo) SR_SIGNAL_BIT(signo)

static sr_signal_handler claims[SR_CLAIMABLE][MAX_CLAIMS];

/* ----------------------------------------------------------------- from the kernel */

static bool is_claims(int signo, siginfo_t *info, ucontext_t *uc)
{
	const sr_signal_handler *handlers;

	if (!(sr_signals_claimed() & BIT(signo)))
		return false;
	handlers = claims[sr_claimable_index(signo)];
	for (int i = 0; i < MAX_CLAIMS && handlers[i]; i++)
		if (handlers[i](info, uc))
			return true;
	return false;
}

static void pass(int signo, siginfo_t *info, ucontext_t *uc, uintptr_t here)
{
	struct sr_signal_state *s = &sr_self.signals;
	struct sr_kernel_action a = sr_disposition_get(signo);
	bool fault = sr_signal_is_fault(signo, info), blocked = s->hidden & BIT(signo);

	/*
	 * The program does not know of a probe's copied instructions: show it the original
	 * address.
	 */
	probes_enter(uc);
	/* Like the kernel, let a fault take the default action if it is blocked or ignored. */
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

/* Has the signal interrupted a handler of the shim's that does not block?  A thread that has not begun can be in no other. */
static bool interrupts_handler(const struct sr_signal_state *s, const ucontext_t *uc)
{
	if (!s->stack.own)
		return !sr_self.numbered;
	return sr_signal_stack_is_own(&s->stack, sr_frame_stack_pointer(uc)) && !s->trapped_before;
}

/* The shim's own timers and messages are for its claims. */
static bool is_sent_by_others(const siginfo_t *info)
{
	if (info->si_code == SI_QUEUE)
		return !sr_is_own((uintptr_t)info->si_ptr);
	return info->si_code <= 0 && !(info->si_code == SI_TIMER && sr_thread_timer_has_mark(info));
}

/*
 * A claimed signal that is sent again and again must not fill the stack with the shim's handlers.  So the kernel has blocked
 * it, until it is known where it came.  True: it came within a handler, and is sent again when that returns.
 */
static bool has_to_wait(struct sr_signal_state *s, int signo, const siginfo_t *info, const ucontext_t *uc)
{
	const uint64_t bit = BIT(signo);

	if (!(sr_signals_deferred() & bit))
		return false;
	if (is_sent_by_others(info) && interrupts_handler(s, uc)) {
		sr_signal_hold(s, signo, info);
		return true;
	}
	sr_kernel_mask(SIG_UNBLOCK, &bit, NULL);
	return false;
}

/* Signals were held while the shim's handler ran, which is about to return to uc. */
static void go_on_with_held(struct sr_signal_state *s, const ucontext_t *uc)
{
	struct sr_thread *t = &sr_self;

	if (!t->numbered || sr_is_section(t) || probes_is_section(uc))
		s->waiting = true;
	else if (!interrupts_handler(s, uc))
		sr_signals_release_at_return(s);
}

static void entry(int signo, siginfo_t *info, void *context)
{
	struct sr_signal_state *s = &sr_self.signals;
	const bool trapped = s->trapped, before = s->trapped_before;
	struct probes_guard guard;
	int saved = errno;

	s->trapped_before = trapped;
	s->trapped = signo == SIGSYS;
	sr_signal_stack_entered(&s->stack, sr_frame_stack_pointer(context));
	probes_guard_begin(&guard);
	if (!has_to_wait(s, signo, info, context) && !is_claims(signo, info, context) &&
	    !sr_cancellation_is_libcs(signo, info, context))
		pass(signo, info, context, (uintptr_t)__builtin_frame_address(0));
	probes_guard_end(&guard);
	if (s->held & ~s->hidden)
		go_on_with_held(s, context);
	s->trapped = trapped;
	s->trapped_before = before;
	errno = saved;
}

void sr_signals_leave(struct sr_signal_state *s)
{
	probes_guard_drop();
	s->trapped = s->trapped_before;
}

/* ------------------------------------------------------- as the program sets it */

/*
 * The program has a handler that may have to wait. So claim SIGSEGV for the timer that
 * interrupts threads that make no call (sr_signal_tick).
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
	struct sr_kernel_action before;
	uint64_t mask;
	long err = 0;

	/* glibc uses the real-time signals below SIGRTMIN itself. */
	if (!sr_signals_are_shadowed() || signo < 1 || signo > SIGNALS || (signo >= 32 && signo < SIGRTMIN))
		return sr_kernel_action(signo, act, old);
	if (act && sr_action_is_function(act))
		claim_tick(signo);
	sr_dispositions_lock(&mask);
	before = sr_disposition_get(signo);
	if (act)
		err = sr_disposition_set(signo, act);
	sr_dispositions_unlock(&mask);
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

long sr_signals_mask(int how, const uint64_t *set, uint64_t *old, uint64_t *kernel)
{
	struct sr_signal_state *s = &sr_self.signals;
	uint64_t before = *kernel | s->hidden, mask = before;

	if (set && change_mask(how, *set & ~SR_SIGNALS_NEVER, &mask))
		return -EINVAL;
	*kernel = mask & ~sr_signals_claimed();
	s->hidden = mask & sr_signals_claimed();
	if (s->held & ~s->hidden)
		s->waiting = true;
	if (old)
		*old = before;
	return 0;
}

const sigset_t *sr_signals_filter(const sigset_t *set, sigset_t *copy)
{
	uint64_t mask;

	if (!set || !sr_signals_claimed())
		return set;
	memcpy(&mask, set, sizeof(mask));
	if (!(mask & sr_signals_claimed()))
		return set;
	mask &= ~sr_signals_claimed();
	memset(copy, 0, sizeof(*copy)); /* a raw call's set is no longer than the mask */
	memcpy(copy, &mask, sizeof(mask));
	return copy;
}

/* ------------------------------------------------------------------- claims */

static int add_claim(int signo, sr_signal_handler handler)
{
	sr_signal_handler *handlers = claims[sr_claimable_index(signo)];

	for (int i = 0; i < MAX_CLAIMS; i++) {
		if (!handlers[i] || handlers[i] == handler) {
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

/*
 * Whoever claims SIGSEGV: threads that make no call are interrupted by it from then on (sr_signals_left), and this is no
 * signal for the program.
 */
static int add_claim_with_tick(int signo, sr_signal_handler handler)
{
	int err = signo == SIGSEGV ? add_claim(signo, sr_signal_tick) : 0;

	return err ? err : add_claim(signo, handler);
}

int sr_signals_claim(int signo, sr_signal_handler handler)
{
	uint64_t bit = BIT(signo), mask;
	int err;

	if (sr_claimable_index(signo) < 0)
		return -EINVAL;
	if (!sr_signals_are_shadowed())
		return -ENOSYS;
	if (!(sr_signals_claimed() & bit) && !__libc_single_threaded && sr_signal_blocked_elsewhere(bit))
		return -EBUSY;
	sr_dispositions_lock(&mask);
	err = add_claim_with_tick(signo, handler);
	if (!err)
		sr_dispositions_claim(bit);
	sr_dispositions_unlock(&mask);
	if (!err)
		unblock_here(bit);
	return err;
}

void sr_signals_start(bool replay)
{
	if (!sr_frame_supported())
		return;
	sr_signal_stack_begin(&sr_self.signals.stack);
	sr_waiting_thread_begins(&sr_self);
	sr_dispositions_start(replay, entry);
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
	const uint64_t all = ~(sr_signals_claimed() | SR_SIGNAL_FAULTS);

	if (!sr_signals_are_shadowed())
		return;
	if (inner) {
		sr_kernel_mask(SIG_BLOCK, &all, NULL);
	} else {
		sr_signal_stack_begin(&s->stack);
		sr_waiting_thread_begins(&sr_self);
	}
	s->hidden = hidden;
	/*
	 * The thread may have been created with a mask of its own, or by a thread that was not
	 * in the claim.
	 */
	unblock_here(sr_signals_claimed());
}

uint64_t sr_signals_before_create(uint64_t *kernel)
{
	const struct sr_signal_state *s = &sr_self.signals;
	const uint64_t all = ~(sr_signals_claimed() | SR_SIGNAL_FAULTS);

	*kernel = 0;
	if (sr_signals_are_shadowed())
		sr_kernel_mask(SIG_BLOCK, &all, kernel);
	return s->overflowed ? s->overflow_mask : *kernel;
}

void sr_signals_after_create(uint64_t kernel)
{
	if (sr_signals_are_shadowed())
		sr_kernel_mask(SIG_SETMASK, &kernel, NULL);
}

/* From now on the thread takes the signals that this mask does not block. */
void sr_signals_thread_opens(uint64_t mask)
{
	mask &= ~sr_signals_claimed();
	if (sr_signals_are_shadowed())
		sr_kernel_mask(SIG_SETMASK, &mask, NULL);
}

void sr_signals_thread_closes(void)
{
	struct sr_thread *t = &sr_self;
	const uint64_t all = ~(sr_signals_claimed() | SR_SIGNAL_FAULTS);
	uint64_t mask;

	sr_cancellation_ends(t);
	/* In a replay the handlers that are left run in front of the last call. */
	while (sr_signals_are_shadowed() && !sr_signals_are_replayed()) {
		sr_kernel_mask(SIG_BLOCK, &all, &mask);
		if (!t->signals.waiting)
			return;
		/* A signal waits: its handler still runs in this thread. */
		sr_kernel_mask(SIG_SETMASK, &mask, NULL);
		sr_signals_take(t, SR_SIGNAL_BEFORE);
	}
}

void sr_signals_thread_ends(void)
{
	const uint64_t all = ~sr_signals_claimed();
	uint64_t mask;

	sr_kernel_mask(SIG_SETMASK, &all, &mask);
	sr_signal_stack_end(&sr_self.signals.stack);
	sr_waiting_thread_ends(&sr_self);
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

	if (!sr_signals_are_shadowed())
		return;
	memset(claims, 0, sizeof(claims));
	sr_dispositions_give_back();
	sr_cancellation_forget();
	sr_signal_stack_abandon(&s->stack);
	/* The timer belongs to the parent, and so do the signals sent to it. */
	s->has_timer = s->timer_set = s->waiting = false;
	s->hidden = s->held = 0;
	sr_kernel_mask(SIG_BLOCK, &hidden, NULL);
}

void sr_signals_continue_in_child(void)
{
	struct sr_signal_state *s = &sr_self.signals;

	s->has_timer = s->timer_set = s->waiting = false;
	s->held = s->at_once = s->at_place = 0;
	sr_signal_queue_empty(s);
	sr_cancellation_in_child();
}

void sr_signals_unhide(void)
{
	struct sr_signal_state *s = &sr_self.signals;

	s->hidden = 0;
	if (s->held)
		s->waiting = true;
}
