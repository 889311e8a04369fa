/* SPDX-License-Identifier: BSD-2-Clause */
/* See polls.h. */
#include "shim/verbs/polls.h"

#include "logd/base/rawsys.h"
#include "shim/memory/heap.h"

static struct sr_poller *_Atomic pollers; /* entries are never removed */
atomic_uint_fast64_t sr_poll_epoch = 1;
static atomic_bool unnamed_pollers; /* some poller has no entry, for want of memory */

static struct sr_poller *spare_poller(void)
{
	struct sr_poller *p;

	for (p = pollers; p; p = p->next)
		if (!atomic_exchange(&p->taken, true))
			return p;
	return NULL;
}

struct sr_poller *sr_poller_new(void)
{
	struct sr_poller *p = spare_poller();

	if (p)
		return p;
	p = sr_alloc_zeroed(sizeof(*p));
	if (!p) {
		unnamed_pollers = true;
		return NULL;
	}
	p->taken = true;
	p->next = pollers;
	while (!atomic_compare_exchange_weak(&pollers, &p->next, p))
		;
	return p;
}

void sr_poller_ends(struct sr_received *r)
{
	struct sr_poller *p = r->poller;

	r->poller = NULL;
	if (!p)
		return;
	p->since = 0;
	p->taken = false;
}

uint64_t sr_polls_oldest(void)
{
	uint64_t oldest = UINT64_MAX, since;

	for (struct sr_poller *p = pollers; p; p = p->next) {
		since = atomic_load_explicit(&p->since, memory_order_acquire);
		if (since && since < oldest)
			oldest = since;
	}
	return unnamed_pollers ? 0 : oldest;
}

void sr_polls_await_others(struct sr_poller *me)
{
	uint64_t now = atomic_fetch_add(&sr_poll_epoch, 1) + 1;

	/* This thread has published the failures that it found, so others need not wait for it. */
	if (me && me->since)
		me->since = now;
	for (struct sr_poller *p = pollers; p; p = p->next)
		while (p != me && p->since && p->since < now)
			sr_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}
