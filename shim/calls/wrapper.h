/* SPDX-License-Identifier: BSD-2-Clause */
/* wrapper.h: for the generated wrappers only. */
#ifndef SHIM_CALLS_WRAPPER_H
#define SHIM_CALLS_WRAPPER_H

#include <errno.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "logd/base/compiler.h"
#include "shim/core/call.h"
#include "shim/core/call_stack.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/verbs/idle_poll.h"
#include "shim/verbs/objects.h"
#include "shim/core/order.h"
#include "shim/core/stack_below.h"
#include "shim/calls/on_call_stack.h"
#include "shim/threads/event_threads.h"
#include "shim/threads/program_threads.h"
#include "shim/calls/real.h"
#include "shim/core/thread.h"

/* calls.def has no arrays among arguments: to the ABI they are pointers. */
#pragma GCC diagnostic ignored "-Warray-parameter"
/* Deprecated functions are intercepted for programs that still use them. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#pragma GCC diagnostic ignored "-Wmissing-attributes"

/* A poll that finds nothing again takes a short way.  True: it has been made. */
static inline bool sr_polls_idly(uint64_t *a, void *site, int *result)
{
	struct sr_thread *t = &sr_self;
	struct sr_idle *idle = sr_idle_poll_find(t, a, site);

	if (idle)
		*result = sr_idle_poll(t, a, idle);
	return idle;
}

/* On a call stack: where the program has called. */
static inline void *sr_site_of_operation(void)
{
	return *(void **)sr_self.call_stack->stack;
}

/* A faster sr_call on a call stack, for operations that are captured whatever their arguments are. */
static inline uint64_t sr_call_apart(enum sr_call_number n, uint64_t *a, void *site)
{
	return sr_engine ? sr_engine->call(&sr_self, n, a, site) : sr_call(n, a, site);
}

#endif
