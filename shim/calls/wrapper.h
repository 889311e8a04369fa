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
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/verbs/idle_poll.h"
#include "shim/verbs/objects.h"
#include "shim/core/order.h"
#include "shim/core/stack_below.h"
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

	if (!idle)
		return false;
	*result = sr_idle_poll(t, a, idle);
	if (__builtin_expect(*result > 0, 0))
		sr_clear_stack_below(SR_STACK_COMPLETED);
	else
		sr_clear_stack_below(SR_STACK_OPERATION);
	return true;
}

/* A faster sr_call for operations that are captured whatever their arguments are. */
static inline uint64_t sr_call_operation(enum sr_call_number n, uint64_t *a, void *site)
{
	struct sr_thread *t = &sr_self;
	uint64_t result;

	if (!sr_engine || t->depth)
		return sr_call(n, a, site);
	result = sr_engine->call(t, n, a, site);
	if (n == SR_CALL_poll_cq && (int)result > 0)
		sr_clear_stack_below(SR_STACK_COMPLETED);
	else
		sr_clear_stack_below(SR_STACK_OPERATION);
	return result;
}

#endif
