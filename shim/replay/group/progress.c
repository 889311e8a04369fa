/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * progress.c: waits for other members, and keeps what a member knows of them after waiting.
 *
 * Each process counts its posts as ticks, and knows the latest tick of each other member that
 * had begun.  A process that waits for a call of another one takes over what that one knew at
 * the call.  So the set of posts that may have produced a value does not depend on how fast
 * the processes are in this replay.
 */
#include <linux/futex.h>
#include <string.h>

#include "logd/base/rawsys.h"
#include "shim/replay/group/own.h"

#define SPINS 200

static struct sr_lock lock; /* protects known and seen */
static uint64_t known[SR_GROUP_MEMBERS];
static struct sr_group_origin seen[SR_GROUP_MEMBERS]; /* the last call of each waited for */

static struct sr_group_member *self(void)
{
	return &sr_group_memory->member[sr_group_self];
}

/* ------------------------------------------------------------- positions */

static size_t position_bytes(void)
{
	return sizeof(struct sr_group_position) + sr_group_memory->members * sizeof(uint64_t);
}

/* Called with the lock held.  Stores what is known now as the thread's knowledge at that call. */
static void note_position(uint32_t thread, uint64_t sn)
{
	_Atomic uint64_t *count = &self()->positions[thread];
	uint64_t n = atomic_load_explicit(count, memory_order_relaxed);
	uint64_t at = sr_group_positions_at(sr_group_self, thread) + n * position_bytes();
	uint64_t p[1 + SR_GROUP_MEMBERS] = {sn};

	memcpy(p + 1, known, sr_group_memory->members * sizeof(known[0]));
	sr_group_write_own(at, p, position_bytes());
	atomic_store_explicit(count, n + 1, memory_order_release);
}

/*
 * Called with the lock held.  Takes over what that thread knew when it entered that call.
 * Returns true if any of it was new.
 */
static bool learn(const struct sr_group_wait *w)
{
	const struct sr_group_member *m = &sr_group_memory->member[w->member];
	uint64_t at = sr_group_positions_at((uint32_t)w->member, w->thread);
	uint64_t high = atomic_load_explicit(&m->positions[w->thread], memory_order_acquire);
	uint64_t low = 0;
	uint64_t p[1 + SR_GROUP_MEMBERS];
	bool news = false;

	/* Finds the last position with an SN not above w->sn; it is usually near the end. */
	for (uint64_t step = 1; high > step; step *= 2) {
		sr_group_read_own(at + (high - step) * position_bytes(), p, sizeof(p[0]));
		if (p[0] <= w->sn) {
			low = high - step;
			break;
		}
	}
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		sr_group_read_own(at + middle * position_bytes(), p, sizeof(p[0]));
		if (p[0] <= w->sn)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false; /* it had posted nothing and knew of no other member */
	sr_group_read_own(at + (low - 1) * position_bytes(), p, position_bytes());
	for (uint32_t i = 0; i < sr_group_memory->members; i++)
		if (i != sr_group_self && p[1 + i] > known[i]) {
			known[i] = p[1 + i];
			news = true;
		}
	return news;
}

/* Called with the lock held.  An origin that knows of more posts is later: see group.h. */
static struct sr_group_origin origin_now(const struct sr_thread *t)
{
	struct sr_group_origin o = {
	    .sn = t->sn,
	    .tick = known[sr_group_self],
	    .member = (int32_t)sr_group_self,
	    .thread = t->number,
	};

	for (uint32_t i = 0; i < sr_group_memory->members; i++)
		o.weight += known[i];
	return o;
}

struct sr_group_origin sr_progress_post(const struct sr_thread *t, uint32_t qp_num)
{
	struct sr_group_origin o;

	sr_lock(&lock);
	known[sr_group_self]++;
	note_position(t->number, t->sn);
	o = origin_now(t);
	sr_unlock(&lock);
	o.queue = qp_num;
	return o;
}

struct sr_group_origin sr_progress_now(const struct sr_thread *t, uint64_t *knows)
{
	struct sr_group_origin o;

	sr_lock(&lock);
	o = origin_now(t);
	if (knows)
		memcpy(knows, known, sr_group_memory->members * sizeof(known[0]));
	sr_unlock(&lock);
	return o;
}

struct sr_group_origin sr_progress_seen(uint32_t member)
{
	struct sr_group_origin o;

	sr_lock(&lock);
	o = seen[member];
	o.member = (int32_t)member;
	sr_unlock(&lock);
	return o;
}

/* --------------------------------------------------------------- waiting */

/* Wakes all threads that wait for this member.  They check, and announce again what they need. */
static void wake(struct sr_group_member *m)
{
	atomic_fetch_add(&m->word, 1);
	sr_sys_futex((uint32_t *)&m->word, FUTEX_WAKE, INT32_MAX, NULL);
}

/*
 * Does any thread sleep until this is reached?  The first caller that sees an announcement
 * removes it, so only one wakes the sleepers.
 */
static bool is_awaited(struct sr_group_member *m, uint32_t thread, uint64_t reached)
{
	uint64_t awaited = atomic_load(&m->awaited[thread]);

	return (awaited && awaited <= reached && atomic_exchange(&m->awaited[thread], 0)) ||
	       atomic_load(&m->sleepers);
}

static void reach(uint32_t thread, uint64_t reached)
{
	struct sr_group_member *m = self();

	if (thread >= SR_REPLAY_THREADS || reached <= atomic_load_explicit(&m->reached[thread], memory_order_relaxed))
		return;
	/*
	 * No wakeup is lost: the sleeper announces itself and then checks; this thread stores
	 * and then reads the announcements.
	 */
	atomic_store(&m->reached[thread], reached);
	atomic_fetch_add_explicit(&m->moves, 1, memory_order_relaxed);
	if (is_awaited(m, thread, reached))
		wake(m);
}

void sr_progress_enter(uint32_t thread, uint64_t sn)
{
	reach(thread, sr_group_reached(sn, 0));
}

void sr_progress_stop(uint32_t thread, uint64_t sn, uint64_t stop)
{
	reach(thread, sr_group_reached(sn, stop));
}

void sr_progress_move(void)
{
	atomic_fetch_add_explicit(&self()->moves, 1, memory_order_relaxed);
}

struct wanted {
	struct sr_group_member *member;
	const _Atomic uint64_t *counter;
	uint64_t value;
	_Atomic uint64_t *awaited; /* the sleeper announces the value here; NULL: in sleepers */
};

static bool has_come(const struct wanted *w)
{
	return atomic_load(w->counter) >= w->value;
}

static bool has_ended(const struct wanted *w)
{
	return atomic_load(&w->member->state) >= SR_GROUP_LINGERS;
}

static void say_awaited(const struct wanted *w)
{
	uint64_t lowest = atomic_load(w->awaited);

	while (!lowest || lowest > w->value)
		if (atomic_compare_exchange_weak(w->awaited, &lowest, w->value))
			return;
}

static bool sleep_until(const struct wanted *w)
{
	/* Wakes up this often to count its checks, which cannot_go_on of other members reads. */
	const struct timespec check_interval = {.tv_nsec = 10000000};
	struct sr_group_member *m = w->member;
	const char *why;

	for (int i = 0; i < SPINS; i++)
		if (has_come(w))
			return true;
	if (!w->awaited)
		atomic_fetch_add(&m->sleepers, 1);
	for (;;) {
		uint32_t word = atomic_load(&m->word);

		if (w->awaited)
			say_awaited(w);
		/* The condition may have become true before the member ended. */
		if (has_come(w) || has_ended(w) || sr_transfer_failed(&why))
			break;
		atomic_fetch_add(&self()->checks, 1);
		sr_sys_futex((uint32_t *)&m->word, FUTEX_WAIT, word, &check_interval);
	}
	if (!w->awaited)
		atomic_fetch_sub(&m->sleepers, 1);
	return has_come(w);
}

/* The control page shows what the thread waits for, in case it takes long. */
static bool wait_for(struct sr_thread *t, const struct wanted *w, uint32_t thread, uint64_t sn)
{
	struct sr_replay_thread *shown = &sr_group_control->thread[t->number];
	bool come;

	if (has_come(w))
		return true;
	atomic_store(&shown->waits_for_rank, w->member->rank);
	atomic_store(&shown->waits_for_thread, thread);
	atomic_store(&shown->waits_for_sn, sn);
	atomic_fetch_add(&self()->waiting, 1);
	come = sleep_until(w);
	atomic_fetch_sub(&self()->waiting, 1);
	atomic_store(&shown->waits_for_sn, 0);
	return come;
}

/*
 * A time during which no member moved.  Nothing more can be expected from a member that has
 * ended, or that waits and has checked several times in vain during the lull.
 */
struct lull {
	uint64_t moves;
	uint64_t checks[SR_GROUP_MEMBERS];
};

uint64_t sr_progress_moves(void)
{
	uint64_t moves = 0;

	for (uint32_t i = 0; i < sr_group_memory->members; i++)
		moves += atomic_load(&sr_group_memory->member[i].moves);
	return moves;
}

static void begin_lull(struct lull *l, uint64_t moves)
{
	l->moves = moves;
	for (uint32_t i = 0; i < sr_group_memory->members; i++)
		l->checks[i] = atomic_load(&sr_group_memory->member[i].checks);
}

static bool cannot_go_on(const struct lull *l, uint32_t member)
{
	struct sr_group_member *m = &sr_group_memory->member[member];

	return member == sr_group_self || atomic_load(&m->state) >= SR_GROUP_LINGERS ||
	       (atomic_load(&m->waiting) && atomic_load(&m->checks) >= l->checks[member] + 4);
}

/*
 * If several members doubt, they continue one after the other, by number, so that every replay
 * does the same.
 */
static bool is_others_ticket(void)
{
	for (uint32_t i = 0; i < sr_group_self; i++)
		if (atomic_load(&sr_group_memory->member[i].doubts))
			return true;
	return false;
}

/* Is it vain to wait for this member? */
static bool is_vain(struct lull *l, uint32_t member)
{
	uint64_t moves = sr_progress_moves();

	if (moves != l->moves)
		begin_lull(l, moves);
	return cannot_go_on(l, member) && !is_others_ticket();
}

void sr_progress_until(uint32_t member, bool (*is_so)(void *argument), void *argument)
{
	const struct timespec moment = {.tv_nsec = 200000};
	struct lull lull;
	const char *why;
	bool last = false;

	if (is_so(argument))
		return;
	begin_lull(&lull, sr_progress_moves());
	atomic_fetch_add(&self()->waiting, 1);
	atomic_fetch_add(&self()->doubts, 1);
	/* What was done before it was in vain to wait counts. */
	do {
		last = is_vain(&lull, member);
		if (!last)
			sr_sys_nanosleep(&moment);
		atomic_fetch_add(&self()->checks, 1);
	} while (!is_so(argument) && !last && !sr_transfer_failed(&why));
	/* A member that doubts after this one must see that this one moves. */
	atomic_fetch_add(&self()->moves, 1);
	atomic_fetch_sub(&self()->doubts, 1);
	atomic_fetch_sub(&self()->waiting, 1);
}

bool sr_progress_wait(struct sr_thread *t, const struct sr_group_wait *w)
{
	struct sr_group_member *m = &sr_group_memory->member[w->member];
	const struct wanted wanted = {m, &m->reached[w->thread], sr_group_reached(w->sn, w->stop), &m->awaited[w->thread]};

	if (!wait_for(t, &wanted, w->thread, w->sn))
		return false;
	sr_lock(&lock);
	seen[w->member] =
	    (struct sr_group_origin){.sn = w->sn, .member = w->member, .thread = w->thread};
	/* Other members see it from this thread's next call on. */
	if (learn(w))
		note_position(t->number, t->sn + 1);
	sr_unlock(&lock);
	return true;
}

bool sr_progress_wait_posted(struct sr_thread *t, const struct sr_group_channel *c,
			     uint64_t messages)
{
	struct sr_group_member *m = &sr_group_memory->member[c->key.from];
	const struct wanted wanted = {m, &c->posted, messages, NULL};

	return wait_for(t, &wanted, 0, sr_group_reached_sn(atomic_load(&m->reached[0])) + 1);
}

void sr_progress_linger(void)
{
	atomic_store(&self()->whole, 1);
	atomic_store(&self()->state, SR_GROUP_LINGERS);
	sr_sys_futex((uint32_t *)&self()->state, FUTEX_WAKE, INT32_MAX, NULL);
	wake(self());
	/* Sleeps on their state, not on their calls: it would be woken at each of these. */
	for (uint32_t i = 0; i < sr_group_memory->members; i++) {
		struct sr_group_member *m = &sr_group_memory->member[i];
		uint32_t state;

		while ((state = atomic_load(&m->state)) < SR_GROUP_LINGERS)
			sr_sys_futex((uint32_t *)&m->state, FUTEX_WAIT, state, NULL);
	}
}
