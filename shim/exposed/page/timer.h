/* SPDX-License-Identifier: BSD-2-Clause */
/* timer.h: the timer behind the tick: it measures the CPU time of its thread. */
#ifndef SHIM_EXPOSED_PAGE_TIMER_H
#define SHIM_EXPOSED_PAGE_TIMER_H

#include <signal.h>
#include <stdbool.h>

void tick_arm(void);
/* Deletes the calling thread's timer, if it has one. */
void tick_end(void);
bool tick_is(const siginfo_t *info);

#endif
