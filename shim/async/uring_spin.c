/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uring_spin.c: a thread that waits for completions by looking at its ring only, without any call.
 *
 * A timer measures the thread's CPU time while requests are under way.  If the thread has made no call since the last
 * tick and the kernel has completions for it, it is sent a signal of the shim's.  A signal in computing code is delivered
 * at a place that a replay finds again (record/places.h), and the signal's handler, here, carries the completions: a
 * recorded call like any other.
 */
#include <signal.h>
#include <time.h>

#include "logd/base/thread_timer.h"
#include "shim/async/uring_ring.h"
#include "shim/core/engine.h"
#include "shim/core/thread.h"
#include "shim/exposed/probe/probes.h"
#include "shim/signals/signals.h"

/* One that programs hardly use: they take real-time signals from the ends. */
#define SIGNAL	(SIGRTMIN + 13)
#define TICK_NS 4000000
#define MAGIC	((void *)0x73725f7572696e67ul)

static __thread struct {
	int timer;
	bool has_timer, armed;
	uint64_t calls, seen; /* that could carry completions: so far, and when the timer was armed */
} self;

void sr_uring_can_carry(void)
{
	self.calls++;
}

static void arm(void)
{
	self.has_timer = self.has_timer || !sr_thread_timer_make(CLOCK_THREAD_CPUTIME_ID, MAGIC, &self.timer);
	self.seen = self.calls;
	self.armed = self.has_timer && !sr_thread_timer_set(self.timer, TICK_NS);
}

void sr_uring_may_spin(void)
{
	if (!self.armed && sr_signals_has_handler(SIGNAL))
		arm();
}

/* Threads of programs with signal loops block all signals: this one is none of theirs. */
static void send_signal(ucontext_t *uc)
{
	siginfo_t info = {.si_signo = SIGNAL, .si_code = SI_QUEUE};

	sr_frame_set_mask(uc, sr_frame_mask(uc) & ~SR_SIGNAL_BIT(SIGNAL));
	sr_queue_to_self(SIGNAL, &info);
}

static bool on_tick(siginfo_t *info, ucontext_t *uc)
{
	struct sr_thread *t = &sr_self;

	if (!sr_thread_timer_is(info, MAGIC))
		return false;
	/* It may have ended a call that waits: that is made again (calls/real.c). */
	t->signals.own++;
	self.armed = false;
	if (!sr_engine_is_active() || t->ended)
		return true;
	/* In the shim's own code it may hold locks, so nobody looks. */
	if (t->depth || probes_is_section(uc))
		arm();
	else if (self.calls == self.seen && sr_uring_has_more())
		send_signal(uc);
	else if (sr_uring_waits())
		arm();
	return true;
}

static void carry(int signo)
{
	sr_uring_looks(__builtin_return_address(0));
}

void sr_uring_watch_spins(void)
{
	static bool watches;
	const struct sr_kernel_action action = {
	    .handler = (void *)carry, .flags = SA_RESTORER | SA_RESTART, .restorer = sr_signals_libc_restorer()};

	if (watches || sr_signals_has_handler(SIGNAL))
		return;
	watches = sr_engine->replays || !sr_signals_claim(SIGSEGV, on_tick);
	if (watches)
		sr_signals_action(SIGNAL, &action, NULL);
}
