/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * litmus.c: the exposed-region module under a simulated NIC, a thread that writes the
 * backing mapping in the order of a queue pair. The program must see no outcome that x86
 * and an in-order reliable connection forbid.
 *
 *     litmus [ROUNDS [SEED [TEST]]]     prints TAP
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/exposed/simulator.h"

#define PAGES 8
#define WORDS 512

typedef volatile uint64_t word;

static uint64_t rounds = 20000, seed = 1;
static word *user;
/* The NIC's mapping of the same words. */
static word *dma;
#define DMA(v) (&dma[(v)-user])

static _Atomic bool stop;
static char why[200];

/*
 * Brings a page into every state: loaded from rarely or often, stored to rarely or often,
 * or untouched.
 */
static void disturb(uint64_t *rnd, word *page)
{
	switch (random_below(rnd, 6)) {
	case 0:
		for (int i = 0; i < 6; i++)
			(void)page[300 + i];
		break;
	case 1:
		(void)page[300];
		break;
	case 2:
		for (int i = 0; i < 24; i++)
			page[400 + i] = 1;
		break;
	case 3:
		page[400] = 2;
		break;
	case 4:
		sr_exposed_observe();
		break;
	}
}

/* ------------------------------------------------------- message passing */

struct mp {
	word *data, *flag;
};

/*
 * The lowest byte has only four values, so that it often equals its previous value: code
 * that finds a difference in it and reads it again may find none.
 */
#define STEP 64

static void *mp_nic(void *p)
{
	struct mp *m = p;

	for (uint64_t i = 1; !stop; i++) {
		*DMA(m->data) = i * STEP;
		*DMA(m->flag) = i * STEP;
		if (!(i & 63))
			sched_yield();
	}
	return NULL;
}

static bool mp(word *data, word *flag, bool live)
{
	struct mp m = {data, flag};
	uint64_t rnd = seed, changes = 0, before = 0;
	pthread_t t;
	bool good = true;

	stop = false;
	*DMA(data) = *DMA(flag) = 0;
	sr_exposed_observe();
	pthread_create(&t, NULL, mp_nic, &m);
	for (uint64_t i = 0; (i < rounds || (changes < rounds / 1000 && i < 1000 * rounds)) && good; i++) {
		word *data_page = &user[(data - user) / WORDS * WORDS];
		word *flag_page = &user[(flag - user) / WORDS * WORDS];
		uint64_t d0, f, d;

		disturb(&rnd, data_page);
		d0 = random_below(&rnd, 2) ? *data : 0;
		disturb(&rnd, flag_page);
		if (live)
			for (int k = 0; k < 20; k++)
				flag_page[420 + k] = 3;
		f = *flag;
		d = *data;
		changes += f != before;
		before = f;
		good = d >= f && d >= d0;
		if (!good)
			snprintf(why, sizeof(why), "round %lu: data %lu, flag %lu, data %lu", i, d0,
				 f, d);
	}
	stop = true;
	pthread_join(t, NULL);
	if (good && changes < rounds / 1000) {
		snprintf(why, sizeof(why), "the flag changed in %lu rounds only", changes);
		good = false;
	}
	return good;
}

static bool message_passing_on_one_page(void)
{
	return mp(&user[1], &user[2], false) && mp(&user[2], &user[1], false) &&
	       mp(&user[1], &user[200], false);
}

static bool message_passing_on_two_pages(void)
{
	return mp(&user[1], &user[WORDS + 2], false) && mp(&user[WORDS + 2], &user[1], false);
}

static bool message_passing_through_a_live_page(void)
{
	return mp(&user[1], &user[WORDS + 2], true) && mp(&user[1], &user[2], true);
}

/* ----------------------------------------------------------- coherence */

static void *counter_nic(void *unused)
{
	for (uint64_t i = 1; !stop; i++) {
		*DMA(&user[7]) = i;
		if (!(i & 255))
			sched_yield();
	}
	return NULL;
}

static bool loads_of_one_location_go_forward(void)
{
	uint64_t rnd = seed, last = 0, now, changes = 0;
	pthread_t t;
	bool good = true;

	stop = false;
	*DMA(&user[7]) = 0;
	sr_exposed_observe();
	pthread_create(&t, NULL, counter_nic, NULL);
	/* A NIC without a CPU for a while is no reason to have seen nothing. */
	for (uint64_t i = 0; (i < rounds || (changes <= rounds / 1000 && i < 1000 * rounds)) && good; i++) {
		disturb(&rnd, user);
		now = user[7];
		good = now >= last;
		changes += now != last;
		if (!good)
			snprintf(why, sizeof(why), "round %lu: %lu after %lu", i, now, last);
		last = now;
	}
	stop = true;
	pthread_join(t, NULL);
	return good && changes > rounds / 1000;
}

/* -------------------------------------------------------- store buffering */

static _Atomic uint64_t turn_cpu, turn_nic;
static uint64_t nic_saw;

static void *sb_nic(void *unused)
{
	for (uint64_t i = 1; i <= rounds; i++) {
		while (atomic_load(&turn_cpu) < i)
			if (stop)
				return NULL;
			else
				sched_yield();
		*DMA(&user[WORDS]) = i; /* a WRITE, */
		atomic_thread_fence(memory_order_seq_cst);
		nic_saw = *DMA(&user[0]); /* then a READ */
		atomic_store(&turn_nic, i);
	}
	return NULL;
}

static bool store_buffering_with_a_fence(void)
{
	uint64_t rnd = seed, both = 0, cpu_saw;
	pthread_t t;
	bool good = true;

	stop = false;
	turn_cpu = turn_nic = 0;
	*DMA(&user[WORDS]) = *DMA(&user[0]) = 0;
	pthread_create(&t, NULL, sb_nic, NULL);
	for (uint64_t i = 1; i <= rounds && good; i++) {
		disturb(&rnd, user);
		disturb(&rnd, &user[WORDS]);
		if (random_below(&rnd, 2))
			(void)user[WORDS];
		atomic_store(&turn_cpu, i);
		/* Sometimes the NIC is done before this CPU begins. */
		if (random_below(&rnd, 4) == 0)
			while (atomic_load(&turn_nic) < i)
				sched_yield();
		for (uint32_t n = random_below(&rnd, 100); n; n--)
			__builtin_ia32_pause();
		user[0] = i;
		atomic_thread_fence(memory_order_seq_cst);
		cpu_saw = user[WORDS];
		while (atomic_load(&turn_nic) < i)
			sched_yield();
		good = cpu_saw == i || nic_saw == i;
		both += cpu_saw == i && nic_saw == i;
		if (!good)
			snprintf(why, sizeof(why),
				 "round %lu: neither saw the other's store (%lu, %lu)", i, cpu_saw,
				 nic_saw);
	}
	stop = true;
	pthread_join(t, NULL);
	return good;
}

/* ---------------------------------------------------------- sequence lock */

static word *seq_at(void)
{
	return &user[5];
}

static void *seqlock_nic(void *unused)
{
	word *seq = DMA(seq_at()), *a = DMA(&user[9]), *b = DMA(&user[WORDS + 9]);

	for (uint64_t i = 2; !stop; i += 2) {
		*seq = i - 1;
		*a = i;
		*b = i;
		*seq = i;
		for (int k = 0; k < 200 && !stop; k++)
			__builtin_ia32_pause();
		if (!(i & 126))
			sched_yield();
	}
	return NULL;
}

static bool a_sequence_lock_read_locally(void)
{
	word *seq = seq_at(), *a = &user[9], *b = &user[WORDS + 9];
	uint64_t rnd = seed, whole = 0;
	pthread_t t;
	bool good = true;

	stop = false;
	*DMA(seq) = *DMA(a) = *DMA(b) = 0;
	sr_exposed_observe();
	pthread_create(&t, NULL, seqlock_nic, NULL);
	for (uint64_t i = 0; i < rounds && good; i++) {
		uint64_t s1, s2, va, vb;

		disturb(&rnd, user);
		disturb(&rnd, &user[WORDS]);
		s1 = *seq;
		va = *a;
		vb = *b;
		s2 = *seq;
		if (s1 & 1 || s1 != s2)
			continue;
		whole++;
		good = va == vb && va == s1;
		if (!good)
			snprintf(why, sizeof(why), "round %lu: sequence %lu, %lu and %lu", i, s1,
				 va, vb);
	}
	stop = true;
	pthread_join(t, NULL);
	if (good && whole < rounds / 1000) {
		snprintf(why, sizeof(why), "only %lu whole reads", whole);
		good = false;
	}
	return good;
}

/* The CPU writes; the NIC's READ must never see half of a value. */
static uint64_t halves, wholes;

static void *seqlock_reader(void *unused)
{
	word *seq = DMA(seq_at()), *a = DMA(&user[9]), *b = DMA(&user[WORDS + 9]);

	while (!stop) {
		uint64_t s1 = *seq, va = *a, vb = *b, s2 = *seq;

		if (s1 == s2 && !(s1 & 1)) {
			wholes++;
			halves += va != vb || va != s1;
		}
		sched_yield();
	}
	return NULL;
}

static bool a_sequence_lock_read_by_read(void)
{
	uint64_t rnd = seed;
	pthread_t t;

	stop = false;
	halves = wholes = 0;
	*DMA(seq_at()) = *DMA(&user[9]) = *DMA(&user[WORDS + 9]) = 0;
	pthread_create(&t, NULL, seqlock_reader, NULL);
	for (uint64_t i = 2; i <= 2 * rounds; i += 2) {
		disturb(&rnd, random_below(&rnd, 2) ? user : &user[WORDS]);
		user[5] = i - 1;
		user[9] = i;
		user[WORDS + 9] = i;
		user[5] = i;
	}
	stop = true;
	pthread_join(t, NULL);
	if (halves)
		snprintf(why, sizeof(why), "%lu of %lu READs saw a half", halves, wholes);
	return !halves;
}

/* ----------------------------------------------------- work-stealing deque */

/* Chase and Lev's, after Le et al. (PPoPP 2013): the owner loads and stores, the thief is a NIC. */
#define DEQUE 64
static _Atomic uint8_t *taken;
static _Atomic uint64_t stolen;

static word *top, *bottom, *items;

static void *thief(void *unused)
{
	word *nic_top = DMA(top), *nic_bottom = DMA(bottom), *nic_items = DMA(items);

	while (!stop) {
		uint64_t t = *nic_top, b = *nic_bottom, item;

		atomic_thread_fence(memory_order_seq_cst);
		b = *nic_bottom;
		if ((int64_t)(b - t) <= 0) {
			sched_yield();
			continue;
		}
		item = nic_items[t % DEQUE];
		if (__atomic_compare_exchange_n(nic_top, &t, t + 1, false, __ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST)) {
			atomic_fetch_add(&taken[item], 1);
			stolen++;
		}
	}
	return NULL;
}

static void pop(void)
{
	uint64_t b = *bottom - 1, t, item;
	bool won = true;

	*bottom = b;
	atomic_thread_fence(memory_order_seq_cst);
	t = *top;
	if ((int64_t)(b - t) < 0) {
		*bottom = b + 1;
		return;
	}
	item = items[b % DEQUE];
	if (b == t) {
		won = __atomic_compare_exchange_n(top, &t, t + 1, false, __ATOMIC_SEQ_CST,
						  __ATOMIC_SEQ_CST);
		*bottom = b + 1;
	}
	if (won)
		atomic_fetch_add(&taken[item], 1);
}

static bool a_work_stealing_deque_loses_nothing(void)
{
	uint64_t rnd = seed, pushed = 0, lost = 0;
	pthread_t t;

	top = &user[16];
	bottom = &user[WORDS + 16];
	items = &user[2 * WORDS];
	*DMA(top) = *DMA(bottom) = 1000;
	taken = calloc(rounds + 1, 1);
	stolen = 0;
	stop = false;
	pthread_create(&t, NULL, thief, NULL);
	/* On a busy machine the thief might run too late to steal anything. */
	items[*bottom % DEQUE] = pushed++;
	*bottom = *bottom + 1;
	while (!stolen)
		sched_yield();
	while (pushed < rounds) {
		uint64_t b = *bottom;

		if (random_below(&rnd, 8) == 0)
			disturb(&rnd, &user[random_below(&rnd, 3) * WORDS]);
		if (random_below(&rnd, 2) && b - *top < DEQUE) {
			items[b % DEQUE] = pushed++;
			*bottom = b + 1;
		} else {
			pop();
		}
	}
	while (*bottom != *top) {
		pop();
		sr_exposed_observe();
	}
	stop = true;
	pthread_join(t, NULL);
	for (uint64_t i = 0; i < rounds; i++)
		lost += taken[i] != 1;
	if (lost)
		snprintf(why, sizeof(why), "%lu of %lu items not taken exactly once (%lu stolen)",
			 lost, rounds, (unsigned long)stolen);
	free((void *)taken);
	return !lost && stolen;
}

/* -------------------------------------------------------------------- main */

static uint64_t event_values;

static void count_event(const struct sr_exposed_event *e)
{
	event_values += e->values_n;
}

static const struct {
	const char *name;
	bool (*run)(void);
} tests[] = {
#define TEST(f)                                                                                    \
	{                                                                                          \
#f, f                                                                              \
	}
    TEST(message_passing_on_one_page),         TEST(message_passing_on_two_pages),
    TEST(message_passing_through_a_live_page), TEST(loads_of_one_location_go_forward),
    TEST(store_buffering_with_a_fence),        TEST(a_sequence_lock_read_locally),
    TEST(a_sequence_lock_read_by_read),        TEST(a_work_stealing_deque_loses_nothing),
};

static bool set_up(void)
{
	static const struct sr_exposed_hooks h = {.event = count_event, .patches = true};

	if (!map_for_nic(PAGES * 4096, &user, &dma))
		return false;
	take_faults();
	if (sr_exposed_init(&h) || sr_exposed_add((void *)user, PAGES * 4096) != SR_EXPOSED_OK)
		return false;
	return true;
}

int main(int argc, char **argv)
{
	const size_t n = sizeof(tests) / sizeof(*tests);
	struct sr_exposed_counts c;
	int failures = 0;

	if (argc > 1)
		rounds = strtoull(argv[1], NULL, 0);
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 0);
	if (!set_up()) {
		printf("Bail out! no region\n");
		return 1;
	}
	printf("1..%zu\n", n);
	for (size_t i = 0; i < n; i++) {
		bool good;

		if (argc > 3 && !strstr(tests[i].name, argv[3]))
			continue;
		why[0] = 0;
		good = tests[i].run();
		failures += !good;
		printf("%s %zu - %s\n", good ? "ok" : "not ok", i + 1, tests[i].name);
		if (why[0])
			printf("# %s\n", why);
		sr_exposed_observe();
		fflush(stdout);
	}
	sr_exposed_get_counts(&c);
	printf(
	    "# %lu loads alone, %lu of them polls; %lu freezes; %lu stores, %lu exchanges; %lu "
	    "live; "
	    "%lu validated, %lu closed by change; %lu ticks, %lu asynchronous, %lu unstable; %lu "
	    "values\n",
	    c.loads, c.polls, c.snapshots, c.stores, c.exchanges, c.pass_throughs, c.validated,
	    c.protected_by_change, c.ticks, c.async_values, c.unstable, event_values);
	return failures != 0;
}
