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
#define SR_EXPOSED_TICK_VALUE 0x73725f7469636b73ul

enum sr_exposed_wanted {
	SR_EXPOSED_ALL_RUN, /* no thread waits for this one */
	SR_EXPOSED_OTHERS_WAIT,
	SR_EXPOSED_OTHERS_FIRST, /* ... and have for long */
	SR_EXPOSED_OTHERS_RUN,   /* this thread runs beside them, and shall not */
};

struct sr_exposed_hooks {
	/* Recording.  Called under the module's lock with signals blocked; must not access exposed memory. */
	void (*event)(const struct sr_exposed_event *e);
	/*
	 * Replay; NULL when recording.  Gives the trace's next event if it was recorded where *now is (fault, flags,
	 * pc, addr), or was a tick before that.
	 */
	bool (*recorded)(const struct sr_exposed_event *now, struct sr_exposed_event *e);
	/*
	 * Replay.  May recorded() have an event for this thread before its next call ends?  Called without the lock;
	 * NULL: yes.
	 */
	bool (*expected)(void);
	/*
	 * New values were found and are handed over next.  Clocks must be read just after them.  Called as event()
	 * is.
	 */
	void (*found)(void);
	/* The program is about to store: whatever is ordered before its stores is recorded first. */
	void (*storing)(void);
	/* Is anything ordered before them?  Once true, always true.  In general registers only (NO_VECTORS).  NULL: yes. */
	bool (*orders_stores)(void);
	/*
	 * Replay.  The program has stored these bytes; or it may store to a page that is passed through from here on;
	 * or that has ended.  Called as event() is.
	 */
	void (*stored)(uintptr_t addr, const void *bytes, uint32_t n);
	void (*went_pass_through)(uintptr_t user, const void *page);
	void (*was_pass_through)(uintptr_t user, const void *page);
	/*
	 * Replay; NULL: nobody watches.  The instruction at pc, with this stack pointer, accesses these bytes.  Called as
	 * event() is.
	 */
	void (*accessed)(uintptr_t pc, uintptr_t sp, uintptr_t addr, size_t length, bool is_store);
	/*
	 * Replay; NULL: nobody watches.  From here on not each access to this page faults; or within a call, the call accesses
	 * it.  Called as event() is.
	 */
	void (*unwatched)(uintptr_t page);
	/*
	 * Replay; may be NULL.  Lets the program do one instruction with this page open, and then calls sr_exposed_hide();
	 * uc: its ucontext_t.  False: it does not.  Called as event() is.
	 */
	bool (*step)(void *uc, uintptr_t page);
	/*
	 * Does the process have threads?  Once true, always true.  NULL: never.  In general registers only
	 * (NO_VECTORS).
	 */
	bool (*threads)(void);
	/*
	 * Recording.  Has all that is in the range been put there by the program or by recorded calls, so that no
	 * device could have changed it?  Called under the module's lock.  NULL: no.
	 */
	bool (*is_its_own)(const void *addr, size_t length);
	/*
	 * Recording; may be NULL.  How much do other threads want to run the program's code?  In general registers
	 * only (NO_VECTORS).
	 */
	enum sr_exposed_wanted (*wanted)(void);
	/*
	 * Lets others run the program's code, if this thread is between two calls.  Called without the lock, in front of
	 * an access that has no number yet; fault: the number of the one before.  Replay: does so if the trace says so
	 * here.  True: it has.
	 */
	bool (*yield)(uint64_t fault, uintptr_t pc);
	/* May an event be made now?  NULL: always.  The tick asks. */
	bool (*may_tick)(void);
	/*
	 * Replay.  Until which fault of the calling thread, without that one, is the trace known to have no event?
	 * fault: the last one.  Called as event() is.
	 */
	uint64_t (*quiet_until)(uint64_t fault);
	/* Replay; may be NULL.  Is the thread's access of this number the first one behind a tick, and another one?  Called as event() is. */
	bool (*is_before_tick)(uint64_t fault, uintptr_t pc, uintptr_t addr);
	/* Replay; may be NULL.  Has the trace next what another process had written behind the thread's last access? */
	bool (*awaits_late)(void);
	/* Recording; may be NULL.  From here on there are pages that are passed through, or no more.  Called as event() is. */
	void (*passes)(bool any);
	/*
	 * Recording; may be NULL.  The program has a stack on this page, which is not exposed any more: these bytes of it are
	 * a region's.  Called as event() is.
	 */
	void (*lost_to_stack)(uintptr_t addr, size_t length);
	/* Where the calling thread's stack ends, if it may be one of a coroutine; 0, or NULL: not known.  Without the lock. */
	uintptr_t (*stack_end)(void);
	/*
	 * Is it ld.so's code?  How it compares a name with those of the libraries depends on which are loaded, and on where it
	 * keeps theirs, which a replay does not promise.  NULL: none is.
	 */
	bool (*is_loaders)(uintptr_t pc);
	/* Instructions that fault again and again may become probes. */
	bool patches;
	/* Recording.  What came together is to be one event, even if the program loads it word by word. */
	bool together;
};

struct sr_exposed_counts {
	uint64_t loads, polls, snapshots, stores, exchanges, pass_throughs, validated, protected_by_change;
	uint64_t ticks, async_values, unstable, faults, values, value_bytes;
	uint64_t jumps, by_jump; /* probes; accesses that came by one */
};

#endif
