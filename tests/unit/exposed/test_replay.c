/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_replay.c: runs a program that uses exposed regions at random, under a NIC that
 * writes at random, and replays it without a NIC from what was recorded. It must load the
 * same values at the same places and loop as often.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/exposed/page/lock.h"
#include "tests/unit/exposed/events.h"
#include "tests/unit/exposed/simulator.h"

#define PAGES 16
#define WORDS 512
#define BYTES (PAGES * 4096)

typedef volatile uint64_t word;

static uint64_t rounds = 20000, seed = 1;
static word *user, *dma;

/* ------------------------------------------------------------------ trace */

static struct items items;
static struct item *at;
static uint64_t base;

static void *keep(const void *p, size_t n)
{
	void *copy = malloc(n + 1);

	return memcpy(copy, p, n);
}

static void record(const struct sr_exposed_event *e)
{
	keep_event(&items, e, keep);
}

static bool recorded(const struct sr_exposed_event *now, struct sr_exposed_event *e)
{
	struct sr_exposed_event next;

	if (!at)
		return false;
	next = at->e;
	next.fault += base;
	if (!sr_exposed_is_due(&next, now))
		return false;
	*e = next;
	at = at->next;
	return true;
}

/* ---------------------------------------------------------------- program */

static _Atomic bool stop;

static void *nic(void *unused)
{
	uint64_t rnd = seed + 99;

	while (!stop) {
		dma[random_below(&rnd, PAGES * WORDS)] = rnd;
		dma[3] = rnd;
		if (random_below(&rnd, 50) == 0)
			sched_yield();
	}
	return NULL;
}

/* One instruction stores v to 8 words at random, on as many pages perhaps. */
__attribute__((target("avx512f"))) static void scatter(uint64_t *rnd, uint64_t v)
{
	uint64_t which[8];

	for (int i = 0; i < 8; i++)
		which[i] = random_below(rnd, PAGES * WORDS);
	__asm__ volatile("vpbroadcastq %1, %%zmm1\n vmovdqu64 %2, %%zmm2\n kxnorw %%k1, %%k1, %%k1\n"
			 " vpscatterqq %%zmm1, (%0,%%zmm2,8)%{%%k1%}"
			 : : "r"(user), "r"(v), "m"(which) : "xmm1", "xmm2", "k1", "memory");
}

/* Backwards it is not decoded. */
static void copy_backwards(uint64_t *rnd, word *to)
{
	word *from = &user[random_below(rnd, PAGES * WORDS)];

	__asm__ volatile("std\n movsq\n cld" : "+D"(to), "+S"(from) : : "memory");
}

/* What it saw, step by step. */
static void program(uint64_t *saw)
{
	uint64_t rnd = seed;

	for (uint64_t i = 0; i < rounds; i++) {
		word *w = &user[random_below(&rnd, PAGES * WORDS)];
		uint64_t v = 0, n;

		switch (random_below(&rnd, 11)) {
		case 0:
			for (n = 0; n < 10; n++)
				v = v * 31 + user[random_below(&rnd, PAGES * WORDS)];
			break;
		case 1:
			for (n = 0; n < 200 && user[3] == v; n++)
				v = user[3];
			v += n;
			break;
		case 2:
			*w = i;
			v = *w;
			break;
		case 3:
			v = __atomic_fetch_add(w, i, __ATOMIC_SEQ_CST);
			break;
		case 4:
			v = __sync_val_compare_and_swap(w, i, 7);
			break;
		case 5:
			/*
			 * Too few stores to make the page pass-through, because loads from such
			 * a page are not seen.
			 */
			sr_exposed_observe();
			for (n = 0; n < 6; n++)
				user[WORDS + n] = i;
			sr_exposed_observe();
			break;
		case 6:
			n = 8 < BYTES - ((char *)w - (char *)user) ? 8 : 1;
			memcpy(&v, sr_exposed_gather((void *)w, n), n);
			break;
		case 7:
			for (n = 0; n < PAGES * WORDS; n += 100)
				v = v * 31 + user[n];
			break;
		case 8:
			copy_backwards(&rnd, w);
			v = *w;
			break;
		case 9:
			/* Each of its pages costs as much as a hundred loads. */
			if (i % 8 == 0 && __builtin_cpu_supports("avx512f"))
				scatter(&rnd, i);
			v = *w;
			break;
		default:
			sr_exposed_observe();
			v = *w;
		}
		saw[i] = v;
	}
	sr_exposed_observe();
}

/* ------------------------------------------------------------- live pages */

#define LIVE       (&user[2 * WORDS])
#define TELLS      (&dma[2 * WORDS + 511])
#define STORES     40
#define FILLS      4
#define COMPUTES   400000000 /* far more than the 25 ticks of 4 ms after which a thread counts as one that waits */
#define SLOW_STEPS 3

static void *slow_nic(void *unused)
{
	usleep(100000);
	*TELLS = 1;
	return NULL;
}

/*
 * Runs longer than a tick without a call: changes a page that is passed through, since it was filled again and again,
 * many times, and waits for a peer there.
 */
static void slow_program(uint64_t *saw)
{
	for (int i = 0; i < FILLS; i++) {
		sr_exposed_observe();
		for (uint64_t n = 0; n < WORDS - 1; n++)
			LIVE[n] = n;
	}
	for (uint64_t n = 0; n < COMPUTES; n++)
		LIVE[n % STORES] ^= n * 0x9e3779b97f4a7c15;
	saw[0] = 0;
	for (uint64_t n = 0; n < STORES; n++)
		saw[0] = saw[0] * 31 + LIVE[n];
	while (LIVE[511] == 0)
		;
	saw[1] = LIVE[511];
	sr_exposed_observe();
	saw[2] = LIVE[0];
	sr_exposed_observe();
}

/* ------------------------------------------------------------- first looks */

/* The NIC may write as long as the memory is registered. */
static atomic_bool is_registered, writes;

static void *nic_of_registered(void *unused)
{
	uint64_t rnd = seed + 99;

	while (!stop) {
		writes = true;
		if (is_registered)
			dma[random_below(&rnd, PAGES * WORDS)] = rnd;
		writes = false;
		if (random_below(&rnd, 4) == 0)
			sched_yield();
	}
	return NULL;
}

static void fill(uint64_t with)
{
	for (uint64_t n = 0; n < PAGES * WORDS; n++)
		user[n] = with * n;
}

static uint64_t sum(void)
{
	uint64_t v = 0;

	for (uint64_t n = 0; n < PAGES * WORDS; n++)
		v = v * 31 + user[n];
	return v;
}

/* One page is stored to often, one left alone; others are loaded from, or stored to first. */
static uint64_t use_once(uint64_t *rnd)
{
	uint64_t v = 0;

	for (uint32_t n = random_below(rnd, 12); n--;) {
		word *w = &user[random_below(rnd, (PAGES - 2) * WORDS - 64)];

		switch (random_below(rnd, 5)) {
		case 0:
			*w = n;
			break;
		case 1:
			v = v * 31 + *w;
			break;
		case 2:
			v = v * 31 + __atomic_fetch_add(w, n, __ATOMIC_SEQ_CST);
			break;
		case 3:
			memset((void *)((uintptr_t)w & ~63ul), (int)n, 64);
			break;
		default:
			sr_exposed_observe();
		}
	}
	sr_exposed_observe();
	/* The page becomes pass-through. */
	for (uint32_t n = random_below(rnd, 30); n--;)
		user[(PAGES - 2) * WORDS + n] = n;
	sr_exposed_observe();
	return v;
}

/* What it has stored before it registers the memory is no value, but what came since is one. */
static void registering_program(uint64_t *saw)
{
	uint64_t rnd = seed;

	sr_exposed_remove((void *)user, BYTES);
	for (uint64_t i = 0; i < rounds / 8; i++) {
		fill(i);
		if (sr_exposed_add((void *)user, BYTES) != SR_EXPOSED_OK)
			return;
		is_registered = true;
		/* The NIC comes first, or not. */
		if (random_below(&rnd, 2))
			usleep(50);
		saw[i] = use_once(&rnd);
		is_registered = false;
		while (writes)
			;
		sr_exposed_remove((void *)user, BYTES);
		saw[i] += sum();
		/* As calls would, it tells what came here from what comes with the next region. */
		exposed_self.fault++;
	}
	sr_exposed_add((void *)user, BYTES);
}

/* ------------------------------------------------------------------- main */

static struct sr_exposed_counts used;

static bool is_its_own(const void *addr, size_t length)
{
	return true;
}

static bool recorded_run(void (*run)(uint64_t *), void *(*peer)(void *), uint64_t *saw)
{
	static const struct sr_exposed_hooks mine = {.event = record, .is_its_own = is_its_own, .patches = true};
	pthread_t t;

	memset((void *)dma, 0, BYTES);
	items = (struct items){0};
	stop = false;
	if (sr_exposed_init(&mine) || sr_exposed_add((void *)user, BYTES) != SR_EXPOSED_OK)
		return false;
	base = exposed_self.fault;
	pthread_create(&t, NULL, peer, NULL);
	run(saw);
	stop = true;
	pthread_join(t, NULL);
	sr_exposed_remove((void *)user, BYTES);
	sr_exposed_get_counts(&used);
	return true;
}

static bool expected(void)
{
	return at;
}

static bool replayed_run(void (*run)(uint64_t *), uint64_t *saw)
{
	static const struct sr_exposed_hooks mine = {.recorded = recorded, .expected = expected};

	memset((void *)dma, 0, BYTES);
	at = items.first;
	if (sr_exposed_init(&mine) || sr_exposed_add((void *)user, BYTES) != SR_EXPOSED_OK)
		return false;
	base = exposed_self.fault - base;
	run(saw);
	sr_exposed_remove((void *)user, BYTES);
	return true;
}

static bool has_lived(const struct sr_exposed_counts *before)
{
	return used.pass_throughs > before->pass_throughs && used.async_values > before->async_values;
}

/* lives: pages are passed through, and a peer changes them meanwhile. */
static bool test(const char *what, void (*run)(uint64_t *), void *(*peer)(void *), uint64_t steps, bool lives)
{
	static int number;
	const struct sr_exposed_counts before = used;
	uint64_t *saw = calloc(steps, 8), *again = calloc(steps, 8), bad = 0, where = 0;
	bool ok = saw && again && recorded_run(run, peer, saw) && replayed_run(run, again);

	for (uint64_t i = steps; ok && i--;)
		if (saw[i] != again[i]) {
			bad++;
			where = i;
		}
	ok = ok && !bad && !(at && at->next) && (!lives || has_lived(&before));
	printf("%s %d - %s\n", ok ? "ok" : "not ok", ++number, what);
	printf("# %lu events, %lu lives, %lu asynchronous values, %lu ticks; %lu of %lu steps "
	       "differ, first "
	       "%lu\n",
	       items.n, used.pass_throughs, used.async_values, used.ticks, bad, steps, where);
	free(saw);
	free(again);
	return ok;
}

static bool never(void)
{
	return false;
}

/* In a replay most calls bring nothing, and its threads should not queue for the lock at each. */
static bool calls_without_values_take_no_lock(int number)
{
	static const struct sr_exposed_hooks mine = {.recorded = recorded, .expected = never};
	bool ok = !sr_exposed_init(&mine) && sr_exposed_add((void *)user, BYTES) == SR_EXPOSED_OK;

	if (ok) {
		atomic_store(&exposed_lock_state, 1); /* another thread has it, for ever */
		alarm(20);
		sr_exposed_call_begins();
		sr_exposed_call_ends();
		alarm(0);
		atomic_store(&exposed_lock_state, 0);
		sr_exposed_remove((void *)user, BYTES);
	}
	printf("%s %d - a call of a replay without values takes no lock\n", ok ? "ok" : "not ok", number);
	return ok;
}

int main(int argc, char **argv)
{
	bool ok;

	if (argc > 1)
		rounds = strtoull(argv[1], NULL, 0);
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 0);
	if (!map_for_nic(BYTES, &user, &dma))
		return 1;
	take_faults();

	printf("1..4\n");
	ok = test("a replay sees what the recorded run saw", program, nic, rounds, false);
	ok = test("so it does on live pages, beyond ticks", slow_program, slow_nic, SLOW_STEPS, true) && ok;
	ok = test("and what came before the first look at memory that is registered", registering_program,
		  nic_of_registered, rounds / 8, false) && ok;
	ok = calls_without_values_take_no_lock(4) && ok;
	return !ok;
}
