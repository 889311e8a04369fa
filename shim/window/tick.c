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

#include "logd/rawsys.h"
#include "shim/window/page.h"

#define TICK_NS 4000000
#define MAGIC   ((void *)0x73725f7469636bul)

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static bool make_timer(struct window_thread *t)
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
	struct window_thread *t = &window_self;

	/* A replay has no tick yet: what one brought stops it. */
	if (t->armed || hooks.recorded)
		return;
	if (!t->has_timer) {
		if (!make_timer(t))
			return;
		t->has_timer = true;
	}
	t->armed = !sr_syscall(SYS_timer_settime, t->timer, 0, SR_ARG(&once), 0, 0, 0);
	t->armed_epoch = epoch;
}

bool tick_is(const siginfo_t *info)
{
	return info->si_code == SI_TIMER && info->si_ptr == MAGIC;
}

void tick(void)
{
	struct window_thread *t = &window_self;
	uint64_t mask;

	t->armed = false;
	if (!open_n)
		return;
	/* Within the module itself: a moment later. */
	if (t->busy || epoch != t->armed_epoch) {
		tick_arm();
		return;
	}
	window_lock(&mask);
	event_begin(t->fault, SR_WINDOW_ASYNC);
	counts.ticks++;
	for (uint32_t i = 0; i < open_n; i++)
		page_at(open_pages[i])->async = true;
	close_all();
	event_end();
	window_unlock(mask);
}
