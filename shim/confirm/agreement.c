/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/confirm/agreement.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "logd/base/say.h"
#include "shim/core/thread.h"
#include "shim/memory/heap.h"

#define LOOK_NS   1000000       /* a wake-up may be missed */
#define EFFECT_NS 5000000000ull /* the first one may take so long */
#define STALE_NS  1000000000ull /* a holder of the lock that was killed */
#define BACK_OFF  10 /* an access that was held in vain is held this much shorter, in percent */

struct sr_confirm *sr_agreement;

static uint64_t wait_ns[2]; /* of this process */

static uint64_t now_ns(void)
{
	struct timespec now;

	sr_sys_clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool sr_agreement_open(const char *path)
{
	int fd = (int)sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(path), O_RDWR | O_CLOEXEC, 0, 0, 0);
	struct sr_confirm *c = NULL;

	if (fd >= 0) {
		c = sr_sys_mmap(sr_heap_place_mapping(sizeof(*c)), sizeof(*c),
				PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		sr_sys_close(fd);
	}
	if (fd < 0 || sr_sys_is_error(c) || c->magic != SR_CONFIRM_MAGIC) {
		sr_say("SREPLAY_CONFIRM=%s cannot be used: is this rank on another node than "
		       "sreplay confirm?",
		       path);
		return false;
	}
	sr_agreement = c;
	wait_ns[0] = wait_ns[1] = c->wait_ns;
	return true;
}

/* ----------------------------------------------------------------- the state */

static void lock(void)
{
	const struct timespec pause = {.tv_nsec = 10000};
	uint64_t since = 0;
	uint32_t free = 0;

	while (!atomic_compare_exchange_weak(&sr_agreement->lock, &free, 1)) {
		free = 0;
		if (!since)
			since = now_ns();
		if (now_ns() - since > STALE_NS)
			return;
		sr_sys_nanosleep(&pause);
	}
}

static void unlock(void)
{
	atomic_store(&sr_agreement->lock, 0);
}

static void change(enum sr_confirm_phase phase)
{
	atomic_store(&sr_agreement->phase, phase);
	atomic_fetch_add(&sr_agreement->changes, 1);
	sr_sys_futex((uint32_t *)&sr_agreement->changes, FUTEX_WAKE, INT_MAX, NULL);
}

bool sr_agreement_awaits(int i, uint64_t begin, uint64_t end)
{
	const struct sr_confirm_side *other = &sr_agreement->side[!i];
	bool awaits;

	if (atomic_load_explicit(&other->state, memory_order_relaxed) != SR_SIDE_PENDING)
		return false;
	lock();
	awaits = begin < other->at_end && other->at_begin < end;
	unlock();
	return awaits;
}

void sr_agreement_range(uint64_t *begin, uint64_t *end)
{
	*begin = sr_agreement->begin;
	*end = sr_agreement->end;
}

void sr_agreement_saw(int i)
{
	uint64_t no = 0;

	atomic_compare_exchange_strong(&sr_agreement->side[i].arrived_ns, &no, now_ns());
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool finds_both(int i)
{
	const struct sr_confirm_side *a = &sr_agreement->side[i], *b = &sr_agreement->side[!i];
	uint64_t begin = most(a->at_begin, b->at_begin), end = least(a->at_end, b->at_end);

	if (atomic_load(&b->state) != SR_SIDE_PENDING || begin >= end)
		return false;
	sr_agreement->begin = begin;
	sr_agreement->end = end;
	return true;
}

bool sr_agreement_arrive(int i, uint64_t begin, uint64_t end)
{
	struct sr_confirm_side *s = &sr_agreement->side[i];
	bool comes;

	sr_agreement_saw(i);
	lock();
	comes = atomic_load(&sr_agreement->phase) == SR_CONFIRM_SEARCHING &&
		atomic_load(&s->state) == SR_SIDE_AWAY;
	if (comes) {
		s->at_begin = begin;
		s->at_end = end;
		atomic_store(&s->thread, sr_self.number);
		atomic_store(&s->sn, sr_self.sn + 1);
		atomic_store(&s->state, SR_SIDE_PENDING);
		atomic_fetch_add(&s->held, 1);
		if (finds_both(i))
			change(SR_CONFIRM_BOTH);
	}
	unlock();
	return comes;
}

/* May it go? */
static bool is_its_turn(int i)
{
	uint32_t phase = atomic_load(&sr_agreement->phase);

	return phase >= SR_CONFIRM_FIRST_DONE ||
	       (phase == SR_CONFIRM_BOTH && (uint32_t)i == sr_agreement->first);
}

/* It has been held for long.  True: it is not held any more. */
static bool give_up(int i)
{
	struct sr_confirm_side *s = &sr_agreement->side[i];
	bool gives_up;

	lock();
	gives_up = atomic_load(&sr_agreement->phase) == SR_CONFIRM_SEARCHING;
	if (gives_up) {
		atomic_store(&s->state, SR_SIDE_AWAY);
		atomic_fetch_add(&s->given_up, 1);
		wait_ns[i] -= wait_ns[i] * BACK_OFF / 100;
	}
	unlock();
	return gives_up;
}

static void fail(void)
{
	lock();
	if (atomic_load(&sr_agreement->phase) < SR_CONFIRM_DONE)
		change(SR_CONFIRM_FAILED);
	unlock();
}

static bool wait_for_turn(int i, uint64_t since, const _Atomic bool *cancelled)
{
	const struct timespec look = {.tv_nsec = LOOK_NS};
	uint32_t seen;

	for (;;) {
		seen = atomic_load(&sr_agreement->changes);
		if (is_its_turn(i))
			return true;
		if (((cancelled && *cancelled) || now_ns() - since > wait_ns[i]) && give_up(i))
			return false;
		if (now_ns() - since > wait_ns[i] + EFFECT_NS)
			fail();
		sr_sys_futex((uint32_t *)&sr_agreement->changes, FUTEX_WAIT, seen, &look);
	}
}

bool sr_agreement_wait(int i, const _Atomic bool *cancelled)
{
	struct sr_confirm_side *s = &sr_agreement->side[i];
	uint64_t since = now_ns();
	bool goes;

	goes = wait_for_turn(i, since, cancelled);
	atomic_fetch_add(&s->held_ns, now_ns() - since);
	if (goes)
		atomic_store(&s->state, SR_SIDE_GOES);
	return goes;
}

void sr_agreement_done(int i, bool is_proven)
{
	struct sr_confirm_side *s = &sr_agreement->side[i];

	lock();
	atomic_store(&s->state, SR_SIDE_OVER);
	s->landed = is_proven;
	if (atomic_load(&sr_agreement->phase) < SR_CONFIRM_DONE)
		change((uint32_t)i == sr_agreement->first ? SR_CONFIRM_FIRST_DONE
							  : SR_CONFIRM_DONE);
	unlock();
}

void sr_agreement_return(int i)
{
	lock();
	atomic_store(&sr_agreement->side[i].state, SR_SIDE_AWAY);
	if (atomic_load(&sr_agreement->phase) == SR_CONFIRM_BOTH)
		change(SR_CONFIRM_SEARCHING);
	else if (atomic_load(&sr_agreement->phase) < SR_CONFIRM_DONE)
		change(SR_CONFIRM_FAILED);
	unlock();
}

void sr_agreement_value(int i, const void *data, uint64_t n)
{
	struct sr_confirm_side *s = &sr_agreement->side[i];
	const uint8_t *bytes = data;
	uint64_t hash = 0xcbf29ce484222325ull;

	for (uint64_t k = 0; k < n; k++)
		hash = (hash ^ bytes[k]) * 0x100000001b3ull;
	s->value_n = (uint32_t)n;
	s->value_hash = hash;
	memcpy(s->value, bytes, n < SR_CONFIRM_VALUE ? n : SR_CONFIRM_VALUE);
}
