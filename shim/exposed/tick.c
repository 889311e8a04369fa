/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tick.c: the last resort.  A snapshot that its thread has kept while it used CPU time, without a call, is
 * protected again, since the thread may be waiting for a change there.
 *
 * The tick comes as SIGSEGV, which is ours already.  Its timer measures the thread's CPU time, so it does not run while a
 * system call waits, and interrupts none.
 */
#include "shim/exposed/access.h"
#include "shim/exposed/exposed.h"
#include "shim/exposed/page/event.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/page/states.h"
#include "shim/exposed/page/timer.h"
#include "shim/exposed/probe/aside.h"
#include "shim/exposed/probe/breakpoint.h"
#include "shim/exposed/probe/probes.h"

/*
 * A page that is passed through shows each change by itself, but none in a replay.  So a thread that only waits there has
 * it protected.  From one that still stores there it is not taken: its own stores would be recorded with the rest.
 */
static bool is_shown_unseen(const struct page *p, bool loops)
{
	return loops && p->state == PAGE_PASS_THROUGH && is_mine(p) && !p->silent && !p->pins;
}

/* Protects the snapshots that memory differs from.  False: this thread has none. */
static bool protect_changed(bool loops)
{
	bool any = false;

	for (uint32_t i = open_n; i--;) {
		uintptr_t user = open_pages[i];
		struct page *p = page_at(user);

		if (!is_shown_unseen(p, loops) &&
		    (!is_snapshot(p) || is_equal(shadow_of(user), backing_of(p, user), PAGE)))
			continue;
		if (!is_mine(p)) {
			page_suspend(user);
			continue;
		}
		p->async = true;
		page_protect(user);
		event_protected(user);
		any = true;
	}
	return any;
}

/* What memory has changed; in a replay, what was found then.  False: nothing. */
static bool show_changes(bool loops)
{
	bool any;

	if (!hooks.recorded)
		return protect_changed(loops);
	any = replay_values();
	replay_protected();
	return any;
}

/*
 * Is it too early to tell?  The thread may be in the module or in a call; and if it has accessed exposed memory since
 * the timer was armed, it is not waiting or will access it again.
 */
static bool is_early(const struct exposed_thread *t)
{
	return t->busy || t->waits || t->silent || aside_goes_on() || thread_epoch() != t->armed_epoch || t->accesses_n != t->armed_accesses ||
	       (hooks.may_tick && !hooks.may_tick());
}

/*
 * What a program has computed from what it saw, it has computed.  Only a thread that does nothing else than wait must
 * be shown what is new: one that has gone on since the last tick, and is where it was at an earlier tick (loops).
 * On a virtual machine, which may lose its processor, a tick may come as soon as the last one was over, with nothing
 * executed in between.  A thread that is still at the same place is therefore not one that waits: unless it is found there
 * STILL_MAX times in a row, as each interrupt of a loop of a few instructions may find it at the same one.
 */
#define STILL_MAX 6

static bool is_waiting(struct exposed_thread *t, const ucontext_t *uc, bool moved, bool *loops)
{
	uint64_t registers = registers_of(uc);
	uint32_t n = t->stalls++;

	t->still = n && t->ticked[(n - 1) % STALLS_MAX] == registers ? t->still + 1 : 0;
	moved |= (n && !t->still) || t->still >= STILL_MAX;
	for (uint32_t i = 0; moved && i < n && i < STALLS_MAX; i++)
		if (t->ticked[i] == registers)
			return *loops = true;
	t->ticked[n % STALLS_MAX] = registers;
	return t->stalls % STALLS_MAX == 0;
}

uint32_t ticks_since_access(void)
{
	const struct exposed_thread *t = &exposed_self;

	return t->accesses_n == t->armed_accesses ? t->stalls : 0;
}

/* moved: it has executed something since the last tick. */
static void look(struct exposed_thread *t, const ucontext_t *uc, bool moved)
{
	bool loops = false, shown;

	if (is_early(t)) {
		t->stalls = 0;
	} else if (is_waiting(t, uc, moved, &loops)) {
		exposed_lock(NULL);
		event_begin(t->fault, SR_EXPOSED_TICK | SR_EXPOSED_STALLED, 0, 0);
		/* A replay that only computes takes as long as the recording, or a little longer. */
		event_ticks(loops ? t->stalls : t->stalls / 2);
		shown = show_changes(loops);
		/* A replay interrupts the loop elsewhere, and comes to another load first. */
		t->after_tick |= shown;
		counts.ticks += shown || !hooks.recorded;
		event_end();
		exposed_unlock(NULL);
	}
	if (open_n || values_awaited || t->awaits)
		tick_arm();
}

/* Is the thread in a stub, where the program's registers are not known? */
static bool hides_registers(const ucontext_t *uc)
{
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	uint64_t r[16];

	return probes_is_section(uc) && !breakpoint_interrupted(&pc, r);
}

/*
 * A loop of few instructions, one of which is a probe, is within the probe nearly always.  There the program's registers are
 * not known, and at the next one they are.
 */
void tick(const ucontext_t *uc)
{
	struct exposed_thread *t = &exposed_self;

	t->armed = false;
	if (!open_n && !values_awaited && !t->awaits)
		return;
	t->tick_due = !is_early(t) && hides_registers(uc);
	if (t->tick_due)
		tick_arm(); /* there may be no next one */
	else
		look(t, uc, false);
}

void tick_at_probe(const ucontext_t *uc)
{
	struct exposed_thread *t = &exposed_self;

	t->tick_due = false;
	look(t, uc, true);
}

/* Comparing an open page takes about a quarter of a system call, so with many of them not at each one. */
static bool is_turn(uint64_t yields)
{
	uint32_t apart = open_n / 4;

	return apart <= 1 || yields % apart == 0;
}

/*
 * A thread that gives up its processor waits for something, most of the time.  A tick would show it what is new, but
 * only after many of them: each comes while the thread is in the same system call, as if it stood still.
 */
void sr_exposed_yields(void)
{
	struct exposed_thread *t = &exposed_self;
	uint64_t mask;

	t->yields++;
	if (t->silent || !atomic_load_explicit(&anything_open, memory_order_acquire) ||
	    (hooks.may_tick && !hooks.may_tick()))
		return;
	if (hooks.recorded ? hooks.expected && !hooks.expected() : !is_turn(t->yields))
		return;
	exposed_lock(&mask);
	event_begin(t->fault, SR_EXPOSED_TICK, 0, 0);
	event_yields(t->yields);
	counts.ticks += show_changes(true);
	event_end();
	exposed_unlock(&mask);
}

bool values_awaited;

void tick_await(void)
{
	exposed_self.awaits = hooks.awaits_late && hooks.awaits_late();
	if (values_awaited || exposed_self.awaits)
		tick_arm();
}

void sr_exposed_await_values(bool on)
{
	values_awaited = on;
	if (on)
		tick_arm();
}

void sr_exposed_thread_ends(void)
{
	tick_end();
	probes_thread_ends();
}
