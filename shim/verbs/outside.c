/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/outside.h"


#include "shim/verbs/clocks/clocks.h"
#include "shim/memory/heap.h"
#include "shim/core/hooks.h"
#include "logd/base/lock.h"
#include "shim/process/fork_handlers.h"
#include "shim/verbs/objects.h"
#include "shim/core/thread.h"

bool sr_outside;

static const struct sr_settings *settings;
static struct sr_lock opening;

static void forget_in_child(void)
{
	sr_outside = false;
	sr_clocks_forget_in_child();
}

void sr_outside_start(const struct sr_settings *s)
{
	settings = s;
	sr_outside = true;
}

/* Called when the first device is opened; a process that never opens one may be a shell. */
static void begin(void)
{
	struct sr_thread *t = &sr_self;
	enum sr_heap before = sr_enter(t);

	sr_lock(&opening);
	if (settings && !sr_heap_init()) {
		sr_clocks_start(settings, false);
		sr_fork_add_own(NULL, NULL, forget_in_child);
	}
	settings = NULL;
	sr_outside = sr_clocks_on();
	sr_unlock(&opening);
	sr_leave(t, before);
}

static uint64_t open_device(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_context *context = (void *)sr_real(d, a);

	if (context && sr_outside && !sr_context_find(context))
		sr_context_patch_outside(context);
	return (uintptr_t)context;
}

static uint64_t close_device(const struct sr_call_desc *d, uint64_t *a)
{
	sr_context_forget((struct ibv_context *)a[0]);
	return sr_real(d, a);
}

/* Allocations stay in the program's heap, because this process is not replayed. */
uint64_t sr_outside_call(enum sr_call_number n, uint64_t *a)
{
	const struct sr_call_desc *d = &sr_calls[n];
	struct sr_thread *t = &sr_self;
	uint64_t result;

	if (t->depth)
		return sr_real(d, a);
	if (settings && d->flags & SR_CALL_OPENS)
		begin();
	t->depth++;
	if (d->invoke == sr_invoke_open_context)
		result = open_device(d, a);
	else if (!(d->flags & SR_CALL_OUTSIDE))
		result = sr_real(d, a); /* opens a device that the program does not get */
	else if (n == SR_CALL_ibv_close_device)
		result = close_device(d, a);
	else
		result = sr_invoke(d, a);
	t->depth--;
	return result;
}
