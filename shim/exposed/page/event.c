/* SPDX-License-Identifier: BSD-2-Clause */
/* event.c: gathers what one fault brings, and hands it over as one event. */
#include "shim/exposed/page/event.h"

#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/page/page.h"
#include "shim/exposed/page/thread.h"

/* Values are copied, since their source may be overwritten within the same fault. */
#define VALUES_MAX 1024
#define BYTES_MAX  (OPEN_MAX * PAGE)

/* Mapped, because the library's image has to stay small (tests/unit/shim/image.py). */
struct brought {
	struct sr_exposed_value values[VALUES_MAX];
	char bytes[BYTES_MAX];
};

static struct sr_exposed_value *values;
static char *bytes;
static size_t bytes_n;
static uintptr_t protected[OPEN_MAX];
static struct sr_exposed_event event;

int event_init(void)
{
	struct brought *b = sr_sys_mmap((void *)EVENT_BASE, sizeof(*b), PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	if (sr_sys_is_error(b))
		return (int)(intptr_t)b;
	values = b->values;
	bytes = b->bytes;
	return 0;
}

void event_begin(uint64_t fault, uint32_t flags, uintptr_t pc, uintptr_t addr)
{
	event = (struct sr_exposed_event){
	    .fault = fault,
	    .flags = flags,
	    .pc = pc,
	    .addr = addr,
	    .values = values,
	    .protected = protected,
	};
	bytes_n = 0;
}

/* Was the thread shown something that it could have loaded before, had it had no snapshot? */
static bool is_late(const struct sr_exposed_event *e)
{
	return e->flags & SR_EXPOSED_TICK && !(e->flags & SR_EXPOSED_YIELD) && (e->values_n || e->protected_n);
}

static void hand_over(void)
{
	const uint32_t say = SR_EXPOSED_ALONE | SR_EXPOSED_MANY | SR_EXPOSED_SNAPSHOT | SR_EXPOSED_FILLED | SR_EXPOSED_AFTER_TICK;

	if (hooks.found && event.values_n)
		hooks.found();
	if (!hooks.event || !(event.values_n || event.protected_n || event.flags & say))
		return;
	hooks.event(&event);
	if (is_late(&event))
		note_delayed();
}

static void add_value(struct sr_exposed_value v, uint32_t flags)
{
	if (flags & SR_EXPOSED_ASYNC)
		counts.async_values++;
	if (event.values_n == VALUES_MAX || bytes_n + v.length > BYTES_MAX) {
		hand_over();
		event.values_n = event.protected_n = 0;
		bytes_n = 0;
	}
	memcpy(bytes + bytes_n, v.data, v.length);
	v.data = bytes + bytes_n;
	values[event.values_n++] = v;
	bytes_n += v.length;
	event.flags |= flags;
	counts.values++;
	counts.value_bytes += v.length;
}

void event_value(uintptr_t addr, const void *data, uint32_t length, uint32_t flags, bool still)
{
	struct page *p = page_at(addr);

	if (p->async)
		flags |= SR_EXPOSED_ASYNC;
	p->async = false;
	add_value((struct sr_exposed_value){.addr = addr, .length = length, .data = data, .kept = p->by_value || p->fetches, .still = still},
		  flags);
}

void event_written(uintptr_t addr, const void *data, uint32_t length)
{
	add_value((struct sr_exposed_value){.addr = addr, .length = length, .data = data, .kept = true, .still = true},
		  SR_EXPOSED_WRITTEN);
}

void event_protected(uintptr_t user)
{
	if (event.protected_n < OPEN_MAX)
		protected[event.protected_n++] = user;
}

void event_flag(uint32_t flag)
{
	event.flags |= flag;
}

void event_yields(uint64_t yields)
{
	event.flags |= SR_EXPOSED_YIELD;
	event.yields = yields;
}

void event_ticks(uint64_t ticks)
{
	event.ticks = ticks;
}

void event_end(void)
{
	hand_over();
	event.values_n = event.protected_n = 0;
}

/* ----------------------------------------------------------------- replay */

/*
 * A tick comes when the program has used some CPU time, or else with what it does next.  One that came as the thread
 * gave up its processor comes when it does so again.  It may have done so more often than in the recording, if it
 * waited for another thread in between.
 */
static bool tick_is_due(const struct sr_exposed_event *next, const struct sr_exposed_event *now)
{
	if (next->flags & now->flags & SR_EXPOSED_YIELD)
		return next->fault <= now->fault && next->yields <= now->yields;
	if ((next->flags ^ now->flags) & SR_EXPOSED_YIELD && now->flags & SR_EXPOSED_TICK)
		return next->fault < now->fault;
	if (now->flags & (SR_EXPOSED_TICK | SR_EXPOSED_AT_CALL))
		return next->fault <= now->fault;
	return !(now->flags & SR_EXPOSED_AT_RETURN) && next->fault < now->fault;
}

bool sr_exposed_is_due(const struct sr_exposed_event *next, const struct sr_exposed_event *now)
{
	const uint32_t where = SR_EXPOSED_AT_CALL | SR_EXPOSED_AT_RETURN | SR_EXPOSED_TICK | SR_EXPOSED_BEHIND;

	if (next->flags & SR_EXPOSED_TICK)
		return tick_is_due(next, now);
	/* Only a number, which need not be met: waiting for another thread may take more loads or fewer. */
	if (next->flags & SR_EXPOSED_MANY && !next->values_n && !next->protected_n)
		return now->flags & SR_EXPOSED_AT_CALL;
	/* The program waits for a value that was found, in the recording, at its next call; or it computes, as it did there. */
	if (now->flags & SR_EXPOSED_STALLED && next->flags & SR_EXPOSED_AT_CALL &&
	    next->flags & SR_EXPOSED_ASYNC)
		return next->fault == now->fault && next->ticks <= now->ticks;
	return (next->flags & where) == (now->flags & where) && next->fault == now->fault;
}

static uintptr_t to_protect[OPEN_MAX];
static uint32_t to_protect_n, protected_n;
static uint32_t flagged;

/* From here on the program knows the value.  A snapshot shows it only when it is taken anew. */
static bool is_known(const struct page *p, uint32_t flags)
{
	return is_snapshot(p) ? flags & SR_EXPOSED_REFRESHED : p->state == PAGE_PROTECTED && p->shadow_valid;
}

/* A value lies within one page.  It may be for memory that is compared, and not exposed. */
static void put_value(const struct sr_exposed_value *v, uint32_t flags)
{
	const struct page *p = page_at(v->addr);

	memcpy(p && p->state != PAGE_NONE ? backing_of(p, v->addr) : (char *)v->addr, v->data,
	       v->length);
	if (p && is_known(p, flags))
		memcpy(shadow_to_change(v->addr), v->data, v->length);
}

bool replay_values(void)
{
	struct sr_exposed_event e;
	bool any = false;

	to_protect_n = protected_n = 0;
	flagged = 0;
	while (hooks.recorded && hooks.recorded(&event, &e)) {
		for (uint32_t i = 0; i < e.values_n; i++)
			put_value(&e.values[i], e.flags);
		flagged |= e.flags;
		if (is_late(&e))
			note_delayed();
		for (uint32_t i = 0; i < e.protected_n && to_protect_n < OPEN_MAX; i++)
			to_protect[to_protect_n++] = e.protected[i];
		any = true;
	}
	return any;
}

bool replay_flagged(uint32_t flag)
{
	return hooks.recorded && flagged & flag;
}

uint32_t replay_further(void)
{
	return SR_EXPOSED_FURTHER(flagged);
}

bool replay_next_protected(uintptr_t *user)
{
	if (protected_n == to_protect_n)
		return false;
	*user = to_protect[protected_n++];
	return true;
}
