/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exposed.h: memory that a NIC writes behind the CPU's back, made recordable.
 *
 * docs/user/exposed-memory.md says what this guarantees.  The module knows pages, faults
 * and values; it knows nothing of verbs, traces or rings, so that the tests
 * drive it with a simulated NIC.
 *
 * Three mappings belong to each page of an exposed region, at fixed distances:
 *     view     the program's address.  Closed (no access), frozen (the shadow,
 *              read-only) or live (the backing mapping itself)
 *     the backing mapping  what the NIC writes: the program's own page, moved aside
 *     shadow   the bytes of the page that the program can know: those that it
 *              was shown or has stored itself
 *
 * Called from any thread and from the SIGSEGV handler.  One lock stands for all
 * page states; nothing in here touches a view but by changing its mapping.
 */
#ifndef SHIM_EXPOSED_EXPOSED_H
#define SHIM_EXPOSED_EXPOSED_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "logd/base/compiler.h"
#include "logd/trace/exposed_event.h"

/* In an event's flags, in a replay: the program waits for a value that does not come. */
#define SR_EXPOSED_STALLED 32u

/* Replay: does the trace's next event come now? */
bool sr_exposed_is_due(const struct sr_exposed_event *next, const struct sr_exposed_event *now);

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

/* Once.  -errno. */
int sr_exposed_init(const struct sr_exposed_hooks *hooks);

/* The pages under the range become exposed pages, or are used by one region more. */
enum sr_exposed_refusal sr_exposed_add(void *addr, size_t length);

/*
 * One region less; pages that none uses are the program's own again, as the NIC
 * left them: at once, or of a large region when they are next touched.
 */
void sr_exposed_remove(void *addr, size_t length);

/* The program unmaps the range, or maps something else over it: it has no exposed regions any more. */
void sr_exposed_forget(void *addr, size_t length);

/* It does something else to the range: its pages are its own again, as the NIC left them. */
void sr_exposed_give_up(void *addr, size_t length);

/* Where the NIC writes what the program reads at addr; addr itself outside of exposed regions. */
void *sr_exposed_backing(const void *addr);

/* What a tick's signal, which is a SIGSEGV too, comes with (tick.c). */
#define SR_EXPOSED_TICK_VALUE 0x73725f7469636bul

/* A SIGSEGV: true if it was the module's, and the thread may go on. */
bool sr_exposed_fault(siginfo_t *info, ucontext_t *uc);

/* The calling thread has no timer and no stack of the module's any more, until it faults again. */
void sr_exposed_thread_ends(void);

/* Others' writes may be seen from here on: what is open is closed. */
void sr_exposed_observe(void);

/*
 * Around a call that is recorded.  What is touched within (by a provider, or by
 * who puts recorded results into their places) are not loads and stores of the
 * program's: pages are simply opened, and closed at the end.  Faults are
 * numbered from one call's end to the next one's.
 */
void sr_exposed_call_begins(void);
void sr_exposed_call_ends(void);

/* A handler of the program's begins in it (true), or between two calls, and ends. */
bool sr_exposed_call_interrupted(void);
void sr_exposed_call_resumes(bool interrupted);

/* How many the calling thread has had since its last call. */
uint64_t sr_exposed_faults(void);

/* Replay: there is memory besides the exposed regions of which events bring values. */
void sr_exposed_await_values(bool on);

/* Is there an exposed page in the range?  Only such pages? */
bool sr_exposed_touches(const void *addr, size_t length);
bool sr_exposed_covers(const void *addr, size_t length);

/* Loads on the program's behalf, recorded as such.  Pages stay as they are. */
void sr_exposed_read(const void *addr, void *to, size_t length);

/*
 * The same for a range in exposed regions only, in one look; returns where the bytes
 * are that the program knows from then on: until it looks again.
 */
const void *sr_exposed_gather(const void *addr, size_t length);

/* What is there now, without anybody having seen it. */
void sr_exposed_copy(const void *addr, void *to, size_t length);

/* The same within a page of the program's own in which no region has any of it; else false, and nothing is copied. */
bool sr_exposed_copy_unregistered(const void *addr, void *to, size_t length);

/* Exposed region pages of the range are the backing mapping itself, for the kernel, until they are unpinned. */
void sr_exposed_pin(const void *addr, size_t length);
void sr_exposed_unpin(const void *addr, size_t length);

/*
 * With several threads: where a call may be given the range instead, with pages and
 * other threads' faults as they are, until sr_exposed_unalias() takes that address back.
 * NULL: it must be pinned.
 */
void *sr_exposed_alias(const void *addr, size_t length);
void *sr_exposed_unalias(void *alias, size_t length);
bool sr_exposed_is_alias(const void *addr);

/* Is it on a page that is an exposed region because of other things there? */
bool sr_exposed_is_partial(const void *addr);

/*
 * the backing mapping's fixed address of a range in exposed regions, where it is from here to
 * sr_exposed_release: no page of any exposed region goes live meanwhile.
 */
void *sr_exposed_hold(const void *addr);
void sr_exposed_release(void);

/* Around fork: the child's memory is as the NIC left it. */
void sr_exposed_before_fork(void);
void sr_exposed_after_fork(bool child);

/* The module's descriptor; -1: there is none. */
int sr_exposed_fd(void);

void sr_exposed_get_counts(struct sr_exposed_counts *counts);

#endif
