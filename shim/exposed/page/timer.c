/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/page/timer.h"

#include <sys/syscall.h>
#include <time.h>

#include "logd/base/rawsys.h"
#include "logd/base/thread_timer.h"
#include "shim/exposed/page/events.h"
#include "shim/exposed/page/thread.h"

#define TICK_NS 4000000
#define MAGIC   ((void *)SR_EXPOSED_TICK_VALUE)

void tick_arm(void)
{
	struct exposed_thread *t = &exposed_self;

	if (t->armed)
		return;
	if (!t->has_timer) {
		if (sr_thread_timer_make(CLOCK_THREAD_CPUTIME_ID, MAGIC, &t->timer))
			return;
		t->has_timer = true;
	}
	t->armed = !sr_thread_timer_set(t->timer, TICK_NS);
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
	return sr_thread_timer_is(info, MAGIC);
}
