/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * thread_timer.h: timers that interrupt just the thread that made them, by SIGSEGV: that signal is the recorder's anyway.
 * The mark, an address that no process has, tells whose timer it was.  -errno for errors; may be called from a signal handler.
 */
#ifndef LOGD_BASE_THREAD_TIMER_H
#define LOGD_BASE_THREAD_TIMER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "logd/base/rawsys.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* *timer: its number for the kernel, which deletes it when the process ends. */
static inline long sr_thread_timer_make(clockid_t clock, void *mark, int *timer)
{
	struct sigevent e = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGSEGV, .sigev_value.sival_ptr = mark};

	e.sigev_notify_thread_id = (pid_t)sr_sys_gettid();
	return sr_syscall(SYS_timer_create, clock, SR_ARG(&e), SR_ARG(timer), 0, 0, 0);
}

/* It interrupts once, after ns; 0: not at all. */
static inline long sr_thread_timer_set(int timer, long ns)
{
	const struct itimerspec once = {.it_value = {.tv_nsec = ns}};

	return sr_syscall(SYS_timer_settime, timer, 0, SR_ARG(&once), 0, 0, 0);
}

/* All marks begin so: "sr". */
static inline bool sr_thread_timer_has_mark(const siginfo_t *info)
{
	return (uintptr_t)info->si_ptr >> 48 == 0x7372;
}

static inline bool sr_thread_timer_is(const siginfo_t *info, const void *mark)
{
	return info->si_code == SI_TIMER && info->si_ptr == mark;
}

#endif
