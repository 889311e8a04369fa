/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/page/timer.h"

#include <sys/syscall.h>
#include <time.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/page/events.h"
#include "shim/exposed/page/thread.h"

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

void tick_end(void)
{
	struct exposed_thread *t = &exposed_self;

	if (t->has_timer)
		sr_syscall(SYS_timer_delete, t->timer, 0, 0, 0, 0, 0);
	t->has_timer = t->armed = false;
}

bool tick_is(const siginfo_t *info)
{
	return info->si_code == SI_TIMER && info->si_ptr == MAGIC;
}
