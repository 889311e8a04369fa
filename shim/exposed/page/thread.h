/* SPDX-License-Identifier: BSD-2-Clause */
/* thread.h: a thread's own state in the module. */
#ifndef SHIM_EXPOSED_PAGE_THREAD_H
#define SHIM_EXPOSED_PAGE_THREAD_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "shim/exposed/page/page.h"

/* Loads that a loop without calls comes back to. */
#define RECENT     16

/*
 * Ticks, with nothing done in between, after which a thread is taken to wait; at
 * once if its registers are all what they were at one of them.  (Each 4 ms of CPU time.)
 */
#define STALLS_MAX 25

struct probe;

struct exposed_thread {
	uint64_t epoch; /* of no other thread, and until it makes its next call; 0: none yet */
	bool busy;   /* holds the lock, or is about to */
	bool waits;  /* in the handler, for memory to change */
	uint64_t accesses_n; /* faults so far ... */
	uint64_t armed_accesses; /* ... and when the tick was armed */
	uint32_t stalls;      /* ticks since anything was done */
	uint64_t row_epoch;
	uint32_t row; /* stores in a row ... */
	uintptr_t row_page; /* ... to this page */
	bool silent; /* within a call */
	bool by_jump; /* this fault is none */
	uint64_t fault;
	uint32_t accesses;  /* since its last call, each SAME_PLACE, those of common pages that no region has among them */
	uintptr_t accessed; /* the last one */
	bool armed;
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
	} walk; /* pages frozen one next to the other */
	struct {
		uint64_t epoch, traces, look;
	} polled; /* the last load that was a poll */
	uint64_t ticked[STALLS_MAX]; /* registers at the ticks since anything was done */
	uintptr_t strange_at, strange_pc; /* the last fault that was none of ours */
	uint64_t strange_given_back;      /* how many pages had been given back then */
	struct exchange *exchange;
	uint32_t blind; /* polls by jump while something was open */
	/* sites.c. The words of which a stub knows where they are. */
	struct {
		uint64_t rcx, sp, stack, top, resume;
		bool inside; /* on the way to the handler, in it, or back */
		bool give_up;
		uint32_t guards;
		const struct probe *current;
		uintptr_t addr;
		_Alignas(VECTOR_MAX) char operand[VECTOR_MAX]; /* INSN_OPERAND: what was read */
		char *base;
		ucontext_t uc;
	} probe;
};

extern __thread struct exposed_thread exposed_self SR_INITIAL_EXEC;

/*
 * What no region has as a whole is also where other things of the program are, and
 * other threads have theirs.  With several threads such a page is never opened: each
 * access is done alone, so that what one thread does is not to be seen in the
 * faults of another.  (Up to a number: a program that computes there is to end.  One that
 * polls looks much more often at the same place.)
 */
#define ALONE_MAX  65536
#define SAME_PLACE 16 /* loads of where the last access was are one access */

/* ... without a number: within a call, where faults are not counted. */
NO_VECTORS static inline bool is_shared(const struct page *p)
{
	return !p->whole && hooks.threads && hooks.threads();
}

/* Threads, accesses of this one since its last call: each is the same in record and replay. */
NO_VECTORS static inline bool is_partial(const struct page *p)
{
	return is_shared(p) && exposed_self.accesses < ALONE_MAX * SAME_PLACE;
}

/* When it has been done: what it was taken for does not depend on itself. */
NO_VECTORS static inline void note_access(uintptr_t addr, bool load)
{
	exposed_self.accesses += load && addr == exposed_self.accessed ? 1 : SAME_PLACE;
	exposed_self.accessed = addr;
}

void thread_epoch_begins(void) NO_VECTORS;
void thread_epoch_ends(void);

/*
 * What a thread finds in its epoch is its own affair: other threads' calls, at times that a
 * replay does not repeat, have others.
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
