/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * events.h: the hooks by which the module hands over what a fault or an observation brings.
 *
 * They are all that the module knows of its surroundings: a simulator in the tests has its own.
 */
#ifndef SHIM_EXPOSED_PAGE_EVENTS_H
#define SHIM_EXPOSED_PAGE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/exposed_event.h"

/* In an event's flags, in a replay: the program waits for a value that does not come. */
#define SR_EXPOSED_STALLED 32u

/* What the tick's signal, which is a SIGSEGV too, carries (timer.c). */
#define SR_EXPOSED_TICK_VALUE 0x73725f7469636bul

struct sr_exposed_hooks {
	/* Recording: under the module's lock, signals blocked; must not touch a view. */
	void (*event)(const struct sr_exposed_event *e);
	/*
	 * Replay (NULL when recording): the next event of the trace, if it came where *now is
	 * (fault, flags, pc, addr), or was a tick before; else false.
	 */
	bool (*recorded)(const struct sr_exposed_event *now, struct sr_exposed_event *e);
	/*
	 * New values were found, and are handed over next: the place for whoever must
	 * look at other things just after them.  As event() is called.
	 */
	void (*looked)(void);
	/* The program is about to store: what others order by it comes first. */
	void (*storing)(void);
	/*
	 * Replay: the program has stored these bytes; or it may store to the page unseen,
	 * from here on; and has.  As event() is called.
	 */
	void (*stored)(uintptr_t addr, const void *bytes, uint32_t n);
	void (*went_pass_through)(uintptr_t user, const void *page);
	void (*was_pass_through)(uintptr_t user, const void *page);
	/* Has the process several threads?  From then on always.  NULL: never.  In general registers only (NO_VECTORS). */
	bool (*threads)(void);
	/*
	 * Recording: what is in the range is the program's own doing, or has come by recorded
	 * calls, and no registration is there by which a device could change it.  Under the
	 * module's lock.  NULL: it may be otherwise.
	 */
	bool (*is_its_own)(const void *addr, size_t length);
	/* May an event be made here?  NULL: always.  The tick asks. */
	bool (*may_tick)(void);
	/* Recording: instructions that fault again and again may be replaced by jumps. */
	bool patches;
};

struct sr_exposed_counts {
	uint64_t loads, polls, snapshots, stores, exchanges, pass_throughs, validated, protected_by_change;
	uint64_t ticks, async_values, unstable, faults, values, value_bytes;
	uint64_t jumps, by_jump; /* instructions replaced; faults that were none */
};

#endif
