/* SPDX-License-Identifier: BSD-2-Clause */
/* observe.c: calls, after which the program may know what others wrote; and fork. */
#include "shim/exposed/exposed.h"
#include "shim/exposed/page/announced.h"
#include "shim/exposed/page/event.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/page/mappings.h"
#include "shim/exposed/page/states.h"
#include "shim/exposed/page/timer.h"
#include "shim/exposed/access.h"
#include "shim/exposed/probe/aside.h"

/* In a replay other threads' pages may have brought values, too: then the trace has an event. */
static bool may_bring_values(void)
{
	return hooks.recorded && (!hooks.expected || hooks.expected());
}

NO_VECTORS static inline bool many_faults(void)
{
	return exposed_self.fault > SR_EXPOSED_MANY_FAULTS;
}

/* Within the call the program has seen nothing. */
static void take_announced(uint32_t flags)
{
	if (flags & SR_EXPOSED_AT_RETURN)
		announced_take_late();
	announced_take();
}

static void observe(uint32_t flags)
{
	const uint32_t ticks = ticks_since_access();
	uint64_t mask;

	exposed_self.stalls = 0;

	if (flags & SR_EXPOSED_AT_CALL && many_faults() && !hooks.recorded)
		flags |= SR_EXPOSED_MANY;
	if (!atomic_load_explicit(&anything_open, memory_order_acquire) && !(flags & SR_EXPOSED_MANY) && !may_bring_values() &&
	    !announced_any())
		return;
	exposed_lock(&mask);
	if (flags & SR_EXPOSED_AT_CALL)
		announced_late_event();
	event_begin(exposed_self.fault, flags, 0, 0);
	event_ticks(ticks);
	replay_values();
	take_announced(flags);
	protect_mine();
	/* Other threads' snapshots: this thread may know from here on that they changed. */
	if (flags & SR_EXPOSED_AT_RETURN)
		suspend_changed();
	event_end();
	exposed_unlock(&mask);
}

void sr_exposed_observe(void)
{
	/* Counters begin anew.  That needs no lock, and does no harm if it is late. */
	aside_gives_up();
	thread_epoch_ends();
	observe(SR_EXPOSED_AT_CALL);
}

void sr_exposed_call_begins(void)
{
	sr_exposed_observe();
	exposed_self.silent = true;
}

/* In general registers only, since sr_exposed_call_alone() is. */
NO_VECTORS static inline void begin_counting(void)
{
	exposed_self.fault = 0;
	exposed_self.quiet_until = 0;
	exposed_self.yields = 0;
	exposed_self.after_tick = false;
	exposed_self.accesses = 0;
	exposed_self.accessed = 0;
}

void sr_exposed_call_ends(void)
{
	exposed_self.silent = false;
	begin_counting();
	observe(SR_EXPOSED_AT_RETURN);
	tick_await();
}

NO_VECTORS bool sr_exposed_call_is_quiet(void)
{
	if (atomic_load_explicit(&anything_open, memory_order_acquire) || values_awaited || many_faults() || announced_any())
		return false;
	thread_epoch_ends();
	begin_counting();
	return true;
}

NO_VECTORS bool sr_exposed_call_alone(void)
{
	return !hooks.recorded && sr_exposed_call_is_quiet();
}

bool sr_exposed_call_interrupted(void)
{
	bool silent = exposed_self.silent;

	exposed_self.silent = false;
	return silent;
}

void sr_exposed_call_resumes(bool silent)
{
	exposed_self.silent = silent;
}

uint64_t sr_exposed_faults(void)
{
	return exposed_self.fault;
}

const uint64_t *sr_exposed_fault_counter(void)
{
	return &exposed_self.fault;
}

static uint64_t fork_mask;

void sr_exposed_before_fork(void)
{
	exposed_lock(&fork_mask);
	event_begin(exposed_self.fault, SR_EXPOSED_AT_CALL, 0, 0);
	replay_values();
	suspend_all();
	event_end();
}

static void return_in_child(uintptr_t begin, uintptr_t end)
{
	map_return_in_child(begin, end);
	for (uintptr_t v = begin; v < end; v += PAGE)
		page_at(v)->state = PAGE_NONE;
}

void sr_exposed_after_fork(bool child)
{
	if (child) {
		page_table_walk(return_in_child);
		map_forget();
		hooks = (struct sr_exposed_hooks){0};
	}
	exposed_unlock(&fork_mask);
}
