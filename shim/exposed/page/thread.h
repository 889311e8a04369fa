/* SPDX-License-Identifier: BSD-2-Clause */
/* thread.h: a thread's own state in the module. */
#ifndef SHIM_EXPOSED_PAGE_THREAD_H
#define SHIM_EXPOSED_PAGE_THREAD_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "shim/exposed/page/page.h"

/* Loads that a thread remembers, to recognise a loop that comes back to one of them. */
#define RECENT     16
#define VAIN       8

/*
 * After so many ticks with nothing done in between, each after 4 ms of CPU time, a thread counts as waiting; at once
 * if its registers are what they were at one of them.
 */
#define STALLS_MAX 25

struct probe;

struct exposed_thread {
	uint64_t epoch; /* its upper half is the thread's number, the lower half counts its calls; 0: none yet */
	bool busy;   /* holds the lock, or is about to */
	bool waits;  /* waits in the handler for memory to change */
	uint64_t accesses_n; /* faults so far ... */
	uint64_t armed_accesses; /* ... and when the tick was armed */
	uint64_t stored_at;   /* ... and at its last store */
	uint32_t stalls;      /* ticks since the thread last did something */
	uint64_t row_epoch;
	uint32_t delayed; /* see note_delayed() */
	uint32_t row;         /* stores in a row ... */
	uintptr_t row_page; /* ... to this page */
	bool silent; /* within a call */
	bool ends;   /* see sr_exposed_end() */
	uint64_t removals; /* of regions, when the thread added its last one */
	bool by_jump; /* the handler was called by a probe */
	uint64_t fault;
	uint64_t quiet_until; /* replay: no event comes before this fault */
	uint64_t yields; /* times that the thread gave up its processor since its last call */
	uint64_t yielded_at; /* recording: the last fault before which this thread let others run */
	struct {
		uintptr_t pc, addr;
	} vain[VAIN]; /* ... and loads that found nothing, while others waited */
	uint32_t vain_n; /* so many since the thread's last call */
	uint32_t accesses;  /* accesses to exposed memory since its last call, in units of 1/SAME_PLACE */
	uintptr_t accessed; /* the address of the last one */
	bool armed;
	bool awaits; /* see tick_await() */
	bool after_tick; /* recording: a tick protected pages, and none was accessed since */
	bool tick_due; /* one came where a probe hid the program's registers */
	uint64_t armed_epoch;
	int timer;
	bool has_timer;
	struct {
		uintptr_t pc, addr;
		uint64_t registers;
	} recent[RECENT];
	uint32_t recent_at;
	uint64_t recent_epoch;
	struct {
		uint64_t epoch;
		uintptr_t last;
		uint32_t pages;
	} walk; /* a walk over neighbouring pages, each of which became a snapshot */
	struct {
		uint64_t epoch;
		uintptr_t begin, last;
		uint32_t pages;
		uint32_t again; /* replay: so many could not be passed through yet */
	} fill; /* a walk over neighbouring pages, each of which was passed through */
	struct {
		uint64_t epoch, registers, left, access;
		bool has_left;
		uint8_t works, unlooked; /* see note_work() */
	} polled; /* the last load that was a poll; when, as a number of accesses */
	uint64_t ticked[STALLS_MAX]; /* a hash of the registers at each tick since the thread last did something */
	uint32_t still; /* so many times in a row that was the same one */
	uintptr_t stack_end; /* of the thread that exposes memory; 0: not known (mappings.c) */
	uintptr_t strange_at, strange_pc; /* the last fault at a page that was not exposed */
	uint64_t strange_pages_returned;      /* pages_returned at that time */
	struct aside *aside;
	bool shown_copies; /* the instruction that is executed there is shown copies of pages */
	uint32_t blind; /* polls by a probe while pages were open */
	/* Of its probes.  A stub knows where these words are, relative to FS. */
	struct {
		uint64_t rcx, sp, stack, top, resume;
		uint64_t interrupted; /* where the stub would have led to, while a handler comes first */
		/* Of a breakpoint: the value that is waited for, negated; the word that is to have it; and a register. */
		uint64_t want, rax;
		const uint64_t *word;
		bool inside; /* the thread is in a stub, in the handler called from there, or on its way back */
		bool give_up, ticks;
		bool interrupts; /* a handler is to come first behind the next access */
		uint32_t guards;
		const struct probes_guard *first_guard; /* the one that interrupted the program; not valid if guards is 0 */
		const struct probe *current;
		uintptr_t addr;
		_Alignas(VECTOR_MAX) char operand[VECTOR_MAX]; /* of an INSN_OPERAND or INSN_EXCHANGE, for its copy */
		char *base;
		ucontext_t uc;
	} probe;
};

extern const uint64_t exposed_no_word;
extern __thread struct exposed_thread exposed_self SR_INITIAL_EXEC;

/*
 * A page that no region has as a whole also holds other things, which other threads may use.  And what processes share
 * changes at any time, so that a snapshot would be taken from one thread when another one sees that it is old, which a
 * replay does not repeat.  In a process with threads such a page is never opened: the handler does each access, so that one thread's accesses do not change
 * which accesses of another one fault.  That ends after so many accesses, since a program may compute there for long.
 * A loop that polls is far from the limit: its loads of one place count as one access.
 */
#define ALONE_MAX  65536
#define SAME_PLACE 16 /* so many loads of the same address are one access */

NO_VECTORS static inline bool has_threads(void)
{
	return hooks.threads && hooks.threads();
}

/* The same without the limit: within a call, where accesses are not counted. */
NO_VECTORS static inline bool is_shared(const struct page *p)
{
	return (!p->whole || p->meets) && has_threads();
}

/* Both conditions hold at the same places of the program in record and replay. */
NO_VECTORS static inline bool is_partial(const struct page *p)
{
	return is_shared(p) && exposed_self.accesses < ALONE_MAX * SAME_PLACE;
}

/*
 * A snapshot hides from a thread that makes no call what it waits for.  So in a process with threads the handler does
 * more loads alone before it takes one; and more again if the thread was shown a change late, at a tick or because
 * another thread saw it first.  A thread that polls is shown each change at once after a few of these; one that
 * computes is rarely shown any.
 */
#define DELAYED_MAX 5
#define MORE_SHIFT  4

static inline void note_delayed(void)
{
	if (exposed_self.delayed < DELAYED_MAX)
		exposed_self.delayed++;
}

NO_VECTORS static inline uint32_t changes_expected(void)
{
	return exposed_self.delayed + has_threads();
}

/* How many loads the handler does alone, where it does `usual` for a thread that expects no change. */
NO_VECTORS static inline uint32_t alone_max(uint32_t usual)
{
	return usual << (changes_expected() * MORE_SHIFT);
}

/* Called after the access, since is_partial() must not depend on the access itself. */
NO_VECTORS static inline void note_access(uintptr_t addr, bool load)
{
	exposed_self.accesses += load && addr == exposed_self.accessed ? 1 : SAME_PLACE;
	exposed_self.accessed = addr;
}

void thread_epoch_begins(void) NO_VECTORS;
void thread_epoch_ends(void) NO_VECTORS;

/*
 * An epoch of a thread lasts from one of its calls to the next.  Counters are kept for an epoch of one thread: other
 * threads make their calls at times that a replay does not repeat.
 */
NO_VECTORS static inline uint64_t thread_epoch(void)
{
	if (!exposed_self.epoch)
		thread_epoch_begins();
	return exposed_self.epoch;
}

static inline uint32_t thread_id(void)
{
	return (uint32_t)(thread_epoch() >> 32);
}

#endif
