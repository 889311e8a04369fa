/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/tickets.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>

#include "logd/base/lock.h"
#include "logd/base/rawsys.h"
#include "shim/core/run_token.h"
#include "shim/core/stall_timeout.h"
#include "shim/threads/heap_runs.h"

#define SLOTS 64
/*
 * A thread checks so often before it sleeps, if its ticket is among the next NEAR ones: most tickets
 * come at once or after a long time.  Measured on two busy CPUs (bench/replay): with 200 checks two
 * threads that take turns need half as long again, with 2,000 five times as long.
 */
#define SPINS 60
#define NEAR  16

/*
 * Threads that wait for tickets with the same remainder modulo SLOTS sleep on one word.  One of 32 bits says which of these
 * a thread waits for: otherwise each ticket would wake all of them, and only one goes on.
 */
struct slot {
	_Alignas(64) _Atomic uint32_t word;
	_Atomic uint32_t sleepers;
};

static uint32_t bit_of(uint64_t number)
{
	return 1u << number / SLOTS % 32;
}

/* A waiting thread; lies on its stack. */
struct waiter {
	uint64_t event; /* UINT64_MAX: waits for the heap, not for a ticket */
	bool (*is_over)(uint64_t argument);
	uint64_t argument;
	struct waiter *next;
};

static struct sr_replay_control *control;
static struct slot slots[SLOTS];
/* The thread that takes the heap over next sleeps here... */
static struct slot heap_slot;
/* ... and those that take it later on the word of the run before theirs. */
static struct slot run_slots[SLOTS];

/* All threads of the process that have not ended. */
static struct {
	struct sr_lock lock;
	uint32_t threads, parked, waiting;
	bool cut; /* one is parked whose trace was cut short */
	bool nothing_comes; /* ... and what comes next is its event */
	bool heap_parked; /* the owner of the heap is parked and makes operations on demand */
	struct waiter *waiters;
} all;

/* Upper half: number of the run; lower half: its operations so far. */
static _Atomic uint64_t heap;
static _Atomic uint64_t heap_wanted; /* the state that the next owner waits for */
static _Atomic uint32_t heap_owner;

static void pause_a_little(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

/*
 * No wakeup is lost: the sleeper adds itself to sleepers and then checks the condition again;
 * the waker changes the condition and then reads sleepers.  All four accesses have to be
 * sequentially consistent.
 */
static void wake(struct slot *s, uint64_t number)
{
	if (!atomic_load(&s->sleepers))
		return;
	atomic_fetch_add(&s->word, 1);
	sr_syscall(SYS_futex, SR_ARG(&s->word), FUTEX_WAKE_BITSET_PRIVATE, INT32_MAX, 0, 0, bit_of(number));
}

static void sleep_until(struct slot *s, uint64_t number, bool (*is_so)(uint64_t), uint64_t argument)
{
	atomic_fetch_add(&s->sleepers, 1);
	for (;;) {
		uint32_t word = atomic_load(&s->word);

		if (is_so(argument))
			break;
		sr_syscall(SYS_futex, SR_ARG(&s->word), FUTEX_WAIT_BITSET_PRIVATE, word, 0, 0, bit_of(number));
	}
	atomic_fetch_sub(&s->sleepers, 1);
}

static void set_ticket(uint64_t event)
{
	atomic_store(&control->ticket, event);
	wake(&slots[event % SLOTS], event);
}

/* ------------------------------------------------------ running threads */

/* Does a thread wait until the current run has more operations? */
static bool is_demanded(void)
{
	uint64_t now = atomic_load(&heap), wanted = atomic_load(&heap_wanted);

	return wanted >> 32 == now >> 32 && wanted > now;
}

/*
 * Called with the lock held.  If no thread runs, skips the tickets that no thread will use.
 * Returns true if all threads are at their ends.
 *
 * A thread that was killed has drawn one number more, at most.  One whose trace was cut short went on, and what the others did behind
 * its next event may be what that event led to.
 */
static bool resolve(void)
{
	uint64_t first = UINT64_MAX;

	if (!all.parked || all.parked + all.waiting < all.threads)
		return false;
	if (all.heap_parked && is_demanded())
		return false;
	for (struct waiter *w = all.waiters; w; w = w->next) {
		/*
		 * This thread may run already but has not left the list yet.  The event that it
		 * makes next may be the first one.
		 */
		if (w->is_over(w->argument))
			return false;
		if (w->event < first)
			first = w->event;
	}
	if (first == UINT64_MAX)
		return !all.waiting;
	if (first <= atomic_load(&control->ticket))
		return false;
	if (all.cut)
		all.nothing_comes = true;
	else
		set_ticket(first);
	return false;
}

static void begin_waiting(struct waiter *w)
{
	sr_lock(&all.lock);
	w->next = all.waiters;
	all.waiters = w;
	all.waiting++;
	resolve();
	sr_unlock(&all.lock);
}

static void end_waiting(struct waiter *w)
{
	struct waiter **link;

	sr_lock(&all.lock);
	for (link = &all.waiters; *link != w; link = &(*link)->next)
		;
	*link = w->next;
	all.waiting--;
	sr_unlock(&all.lock);
}

void sr_tickets_add_thread(void)
{
	sr_lock(&all.lock);
	all.threads++;
	sr_unlock(&all.lock);
}

bool sr_tickets_remove_thread(void)
{
	bool nothing;

	sr_lock(&all.lock);
	all.threads--;
	nothing = resolve();
	sr_unlock(&all.lock);
	return nothing;
}

bool sr_tickets_park(bool cut)
{
	bool nothing;

	sr_lock(&all.lock);
	all.parked++;
	all.cut = all.cut || cut;
	nothing = resolve() || (cut && all.nothing_comes);
	sr_unlock(&all.lock);
	return nothing;
}

bool sr_tickets_nothing_comes(void)
{
	bool nothing;

	sr_lock(&all.lock);
	nothing = all.nothing_comes;
	sr_unlock(&all.lock);
	return nothing;
}

/* -------------------------------------------------------------- tickets */

void sr_tickets_start(struct sr_replay_control *c)
{
	control = c;
	all.threads = 1;
	atomic_store(&control->ticket, 1);
}

/*
 * Of the parent's threads, some may have drawn events before the fork whose calls ended after it.
 * The child's own begin behind these.
 */
static bool skips;

void sr_tickets_continue_in_child(void)
{
	all.lock = (struct sr_lock){0};
	all.threads = 1;
	all.parked = all.waiting = 0;
	all.heap_parked = all.cut = all.nothing_comes = false;
	all.waiters = NULL;
	for (int i = 0; i < SLOTS; i++)
		atomic_store(&slots[i].sleepers, 0);
	for (int i = 0; i < SLOTS; i++)
		atomic_store(&run_slots[i].sleepers, 0);
	atomic_store(&heap_slot.sleepers, 0);
	skips = true;
}

static bool has_come(uint64_t event)
{
	return atomic_load(&control->ticket) >= event;
}

void sr_ticket_wait(uint32_t number, uint64_t event)
{
	struct waiter w = {.event = event, .is_over = has_come, .argument = event};

	if (skips && event > atomic_load(&control->ticket))
		set_ticket(event);
	skips = false;
	for (int i = 0; i < SPINS; i++) {
		uint64_t now = atomic_load(&control->ticket);

		if (now >= event)
			return;
		if (event - now > NEAR)
			break;
		pause_a_little();
	}
	atomic_store(&control->thread[number].waits_for, event);
	begin_waiting(&w);
	sleep_until(&slots[event % SLOTS], event, has_come, event);
	end_waiting(&w);
	atomic_store(&control->thread[number].waits_for, 0);
}

void sr_ticket_done(uint64_t event)
{
	set_ticket(event + 1);
}

static bool pass_on(uint64_t event)
{
	if (!atomic_compare_exchange_strong(&control->ticket, &event, event + 1))
		return false;
	wake(&slots[(event + 1) % SLOTS], event + 1);
	return true;
}

/*
 * Events that happened while another thread held the ticket before theirs and kept it.  The
 * index is the event's number modulo SLOTS.
 */
static _Atomic uint64_t amidst[SLOTS];

void sr_ticket_over(uint64_t event)
{
	while (!pass_on(event) && atomic_load(&amidst[(event + 1) % SLOTS]) == event + 1)
		event++;
}

void sr_ticket_amidst(uint32_t number, uint64_t event)
{
	sr_ticket_wait(number, event - 1);
	atomic_store(&amidst[event % SLOTS], event);
	/* If the holder still has its ticket, it passes this one on together with its own. */
	if (!pass_on(event - 1))
		sr_ticket_over(event);
}

void sr_ticket_wait_overtaking(uint32_t number, uint64_t event, uint32_t from)
{
	const struct timespec a_moment = {.tv_nsec = 200000};
	struct sr_stall stall_timeout;

	/* Once the ticket before this event's has been used, the next one is this event's. */
	sr_ticket_wait(number, event - 1);
	sr_stall_begin(&stall_timeout,
		       from < control->threads ? atomic_load(&control->thread[from].tid) : 0);
	while (!has_come(event) && !sr_stall_ends(&stall_timeout, SR_TOKEN_MS * 1000000ll / 2))
		sr_sys_nanosleep(&a_moment);
	sr_ticket_over(event - 1);
}

/* ----------------------------------------------------------------- heap */

static bool heap_is_at(uint64_t state)
{
	return atomic_load(&heap) == state;
}

static bool heap_is_in_run(uint64_t run)
{
	return atomic_load(&heap) >> 32 == run;
}

static void wait_for_heap(struct slot *slot, uint64_t number, bool (*is_so)(uint64_t), uint64_t argument)
{
	struct waiter w = {.event = UINT64_MAX, .is_over = is_so, .argument = argument};

	for (int i = 0; i < SPINS; i++) {
		if (is_so(argument))
			return;
		pause_a_little();
	}
	begin_waiting(&w);
	sleep_until(slot, number, is_so, argument);
	end_waiting(&w);
}

void sr_heap_run_take(uint32_t owner, uint32_t run, uint32_t previous)
{
	uint64_t state = (uint64_t)(uint32_t)(run - 1) << 32 | previous;

	/* Waits for the run first, so that at most one thread sets heap_wanted. */
	wait_for_heap(&run_slots[(run - 1) % SLOTS], (uint32_t)(run - 1), heap_is_in_run, (uint32_t)(run - 1));
	atomic_store(&heap_wanted, state);
	wait_for_heap(&heap_slot, 0, heap_is_at, state);
	sr_heap_wait_left();
	atomic_store(&heap_owner, owner);
	atomic_store(&heap, (uint64_t)run << 32);
	wake(&run_slots[run % SLOTS], run);
}

void sr_heap_run_done(void)
{
	/* Only the owner changes it, so no read-modify-write is needed. */
	uint64_t now = atomic_load(&heap) + 1;

	atomic_store(&heap, now);
	/*
	 * A run may have a million operations, and the next owner waits for its last one.  No
	 * wakeup is lost: that thread sets heap_wanted before it looks at heap, and this one reads
	 * it after it has changed heap.
	 */
	if (now == atomic_load(&heap_wanted))
		wake(&heap_slot, 0);
}

bool sr_heap_run_on_demand(uint32_t owner)
{
	const struct timespec a_moment = {.tv_nsec = 1000000};
	bool nothing;

	sr_lock(&all.lock);
	all.parked++;
	all.heap_parked = atomic_load(&heap_owner) == owner;
	nothing = resolve();
	sr_unlock(&all.lock);
	if (nothing)
		return false;
	while (atomic_load(&heap_owner) != owner || !is_demanded())
		sr_sys_nanosleep(&a_moment);
	sr_lock(&all.lock);
	all.parked--;
	all.heap_parked = false;
	sr_unlock(&all.lock);
	return true;
}
