/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * event_threads.h: timers that start a thread each time they expire (SIGEV_THREAD).
 *
 * libc has a thread of its own for them, past all wrappers.  Here it is one that the wrappers know, made on the first such
 * timer: it waits for the signals of these timers, and makes the threads, by the calls that a program would make.  These are
 * recorded and replayed as any others; the kernel's timer is one that sends a signal to that thread.
 */
#ifndef SHIM_THREADS_EVENT_THREADS_H
#define SHIM_THREADS_EVENT_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/core/call.h"

/* timer_create, with these arguments.  True: it has been made, as such a timer. */
bool sr_creates_event_timer(uint64_t *a, void *site, int *result);

/* timer_delete: no thread begins any more for what such a timer has sent already.  True: it has been made. */
bool sr_deletes_event_timer(uint64_t *a, void *site, int *result);

#endif
