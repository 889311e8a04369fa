/* SPDX-License-Identifier: BSD-2-Clause */
/* helper_thread.h: a thread that helps the one that reads, until the process ends. */
#ifndef LOGD_TRACE_HELPER_THREAD_H
#define LOGD_TRACE_HELPER_THREAD_H

#include <stdbool.h>

/* Starts it, with all signals blocked: handlers are for the thread that it helps.  Nobody joins it. */
bool sr_helper_thread_start(void *(*run)(void *));

#endif
