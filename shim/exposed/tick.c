/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tick.c: the last resort: what stays frozen while the thread uses CPU time
 * and makes no call is closed, since it may be waiting for a change there.
 *
 * A timer of the thread's CPU time: it does not run in a system call that
 * waits, so it interrupts none.  It comes as SIGSEGV, which is ours already.
 */
#include <sys/syscall.h>
#include <time.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/probe/exchange.h"
#include "shim/exposed/page.h"
#include "shim/exposed/probe/probes.h"

#define TICK_NS 4000000
#define MAGIC   ((void *)SR_EXPOSED_TICK_VALUE)

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static bool make_timer(struct exposed_thread *t)
{
	struct sigevent e = {
	    .sigev_notify = SIGEV_THREAD_ID,
	    .sigev_signo = SIGSEGV,
	    .sigev_value.sival_ptr = MAGIC,
	};

	e.sigev_notify_thread_id = (pid_t)sr_sys_gettid();
	return !sr_syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, SR_ARG(&e), SR_ARG(&t->timer),
			   0, 0, 0);
}

void tick_arm(void)
{
	const struct itimerspec once = {.it_value = {.tv_nsec = TICK_NS}};
	struct exposed_thread *t = &exposed_self;

	if (t->armed)
		return;
	if (!t->has_timer) {
		if (!make_timer(t))
			return;
		t->has_timer = true;
	}
	t->armed = !sr_syscall(SYS_timer_settime, t->timer, 0, SR_ARG(&once), 0, 0, 0);
	t->armed_epoch = thread_epoch();
	t->armed_accesses = t->accesses_n;
}

void sr_exposed_thread_ends(void)
{
	struct exposed_thread *t = &exposed_self;

	if (t->has_timer)
		sr_syscall(SYS_timer_delete, t->timer, 0, 0, 0, 0, 0);
	t->has_timer = t->armed = false;
	probes_thread_ends();
}

bool tick_is(const siginfo_t *info)
{
	return info->si_code == SI_TIMER && info->si_ptr == MAGIC;
}

/* What has changed meanwhile is closed.  What is live shows each change by itself. */
static void protect_changed(void)
{
	for (uint32_t i = open_n; i--;) {
		uintptr_t user = open_pages[i];
		struct page *p = page_at(user);

		if (!is_snapshot(p) || is_as(shadow_of(user), backing_of(p, user), PAGE))
			continue;
		if (!is_mine(p)) {
			page_keep(user);
			continue;
		}
		p->async = true;
		page_protect(user);
		event_protected(user);
	}
}

/*
 * Not within the module itself, nor within a call; and who has looked at exposed regions
 * meanwhile looks again, or does not wait.
 */
static bool is_early(struct exposed_thread *t, const ucontext_t *uc)
{
	return t->busy || probes_is_section(uc) || t->waits || t->silent || exchange_goes_on() ||
	       thread_epoch() != t->armed_epoch || t->accesses_n != t->armed_accesses ||
	       (hooks.may_tick && !hooks.may_tick());
}

/*
 * What a program has computed in between, with what it saw before, it has
 * computed; only who does nothing else must be shown what is new: who has gone on since the last tick, and is where
 * it was at one before.  Where the processor is taken away (a virtual machine's), a tick may come as soon
 * as the last one was over, with nothing executed in between: who is still there does not wait.
 */
static bool is_waiting(struct exposed_thread *t, const ucontext_t *uc)
{
	uint64_t registers = registers_of(uc);
	uint32_t n = t->stalls++;
	bool moved = n && t->ticked[(n - 1) % STALLS_MAX] != registers;

	for (uint32_t i = 0; moved && i < n && i < STALLS_MAX; i++)
		if (t->ticked[i] == registers)
			return true;
	t->ticked[n % STALLS_MAX] = registers;
	return t->stalls % STALLS_MAX == 0;
}

void tick(const ucontext_t *uc)
{
	struct exposed_thread *t = &exposed_self;

	t->armed = false;
	if (!open_n && !values_awaited)
		return;
	if (is_early(t, uc)) {
		t->stalls = 0;
		tick_arm();
		return;
	}
	if (!is_waiting(t, uc)) {
		tick_arm();
		return;
	}
	exposed_lock(NULL);
	event_begin(t->fault, SR_EXPOSED_TICK | SR_EXPOSED_STALLED, 0, 0);
	if (hooks.recorded) {
		counts.ticks += replay_values();
		replay_protected();
	} else {
		protect_changed();
		counts.ticks++;
	}
	event_end();
	if (open_n || values_awaited)
		tick_arm();
	exposed_unlock(NULL);
}

bool values_awaited;

void sr_exposed_await_values(bool on)
{
	values_awaited = on;
	if (on)
		tick_arm();
}
