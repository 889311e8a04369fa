/* SPDX-License-Identifier: BSD-2-Clause */
/* test_moments.c: when values, stores and clocks are sampled. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "logd/base/checksum.h"
#include "tests/unit/exposed/fixture.h"

#define ROUNDS 1000

static atomic_bool stop;

static void *write_clock_and_data(void *p)
{
	for (uint64_t n = 1; !atomic_load(&stop); n++) {
		atomic_store(&nics_clock, n);
		atomic_store((_Atomic uint64_t *)sr_exposed_backing(p), n);
	}
	return NULL;
}

static void clocks_are_looked_at_behind_a_value_and_in_front_of_its_record(void **state)
{
	volatile uint64_t *p = (void *)memory(1);
	uint64_t n, before, found = 0;
	pthread_t nic;

	*p = 0;
	atomic_store(&nics_clock, 0);
	assert_int_equal(sr_exposed_add((void *)p, PAGE), SR_EXPOSED_OK);
	assert_int_equal(*p, 0);
	pthread_create(&nic, NULL, write_clock_and_data, (void *)p);
	while (found < ROUNDS) {
		before = values;
		sr_exposed_observe();
		n = *p;
		found += values != before;
		assert_true(values == before || clock_seen >= n);
	}
	atomic_store(&stop, true);
	pthread_join(nic, NULL);
	sr_exposed_remove((void *)p, PAGE);
}

static atomic_bool late;

/* A thread that sees the n-th store sees its number. */
static void *read_data_and_clock(void *p)
{
	uint64_t n = 0;

	while (n < ROUNDS) {
		n = atomic_load((_Atomic uint64_t *)sr_exposed_backing(p));
		if (atomic_load(&own_clock) < n)
			atomic_store(&late, true);
	}
	return NULL;
}

static void a_store_is_told_before_it_is_seen(void **state)
{
	volatile uint64_t *p = (void *)memory(1);
	pthread_t reader;

	*p = 0;
	assert_int_equal(sr_exposed_add((void *)p, PAGE), SR_EXPOSED_OK);
	atomic_store(&own_clock, 0);
	pthread_create(&reader, NULL, read_data_and_clock, (void *)p);
	for (uint64_t n = 1; n <= ROUNDS; n++) {
		/* Few stores in a row, so that each is executed alone. */
		if (n % 4 == 0)
			sr_exposed_observe();
		*p = n;
	}
	pthread_join(reader, NULL);
	assert_false(atomic_load(&late));
	sr_exposed_remove((void *)p, PAGE);
}

#define FILLED 100
#define ALONE  16 /* stores in a row before a page is passed through that was filled the last two times */

static void *fill_words(void *p)
{
	volatile uint64_t *word = p;

	for (int i = 0; i < FILLED; i++)
		word[i] = (uint64_t)i;
	return (void *)sr_exposed_faults();
}

/*
 * While another thread's call holds the backing mapping, the store that would execute it is
 * repeated.
 */
static void a_store_that_must_wait_counts_once(void **state)
{
	uint8_t *p = memory(1);
	pthread_t program;
	void *faults;

	assert_int_equal(sr_exposed_add(p, PAGE), SR_EXPOSED_OK);
	sr_exposed_fetched(p, PAGE); /* what is there is no peer's */
	for (int i = 0; i < 2; i++) {
		fill_words(p);
		sr_exposed_observe();
	}
	sr_exposed_hold(p);
	pthread_create(&program, NULL, fill_words, p);
	usleep(20000);
	sr_exposed_release();
	pthread_join(program, &faults);
	assert_int_equal((uintptr_t)faults, ALONE + 1);
	sr_exposed_remove(p, PAGE);
}

static void *hammer(void *p)
{
	for (uint64_t n = 1; !atomic_load_explicit(&stop, memory_order_relaxed); n++)
		for (int i = 0; i < 64; i++)
			((volatile uint64_t *)p)[i * 8] = n;
	return NULL;
}

/* Takes both CPUs for a moment, if allowed: on a busy machine few pages are caught changing. */
static void set_urgent(bool urgent)
{
	struct sched_param param = {.sched_priority = urgent};

	sched_setscheduler(0, urgent ? SCHED_FIFO : SCHED_OTHER, &param);
}

/* x87 instructions are not decoded, so the page needs a snapshot. */
static double load_by_x87(volatile double *p)
{
	double d;

	__asm__ volatile("fldl %1; fstpl %0" : "=m"(d) : "m"(*p));
	return d;
}

/*
 * The snapshot of a page that changes all the time shows the last pass over it; an earlier
 * snapshot must not be older than that.
 */
static void a_page_that_changes_all_the_time_is_not_newer_than_another(void **state)
{
	volatile uint64_t *p = (void *)memory(2), *backing;
	struct sr_exposed_counts before, after;
	uint64_t unstable = 0;
	pthread_t nic;

	assert_int_equal(sr_exposed_add((void *)p, 2 * PAGE), SR_EXPOSED_OK);
	backing = sr_exposed_backing((void *)p);
	atomic_store(&stop, false);
	set_urgent(true);
	pthread_create(&nic, NULL, hammer, (void *)(backing + PAGE / 8));
	for (uint64_t n = 1; n <= 2000 && unstable < 3; n++) {
		sr_exposed_observe();
		load_by_x87((volatile double *)&p[3]);
		sr_exposed_get_counts(&before);
		backing[3] = n;
		load_by_x87((volatile double *)&p[PAGE / 8 + 5]);
		assert_int_equal(p[3], n);
		sr_exposed_get_counts(&after);
		unstable += after.unstable - before.unstable;
	}
	atomic_store(&stop, true);
	pthread_join(nic, NULL);
	set_urgent(false);
	if (!unstable)
		print_message("# no page was caught changing\n");
	sr_exposed_observe();
	sr_exposed_remove((void *)p, 2 * PAGE);
}

/*
 * A loop that tries to take a flag finds it taken, however often: each attempt may be the one that succeeds, and
 * then nothing is left to be seen.
 */
static void a_flag_that_is_taken_by_force_is_seen(void **state)
{
	_Atomic uint32_t *flag = (void *)memory(1), *backing;
	volatile uint64_t *words = (void *)flag;
	struct sr_exposed_counts begin, end;
	uint64_t before;

	words[0] = 0;
	assert_int_equal(sr_exposed_add((void *)flag, PAGE), SR_EXPOSED_OK);
	backing = sr_exposed_backing((void *)flag);
	sr_exposed_get_counts(&begin);
	for (int round = 0; round < 3; round++) {
		sr_exposed_observe();
		for (int i = 0; i < 100; i++) {
			uint32_t one = 1;

			assert_false(atomic_compare_exchange_strong(flag, &one, 0));
		}
		for (int i = 1; i < FILLED; i++)
			words[i] = (uint64_t)i;
		before = values;
		atomic_store(backing, 1);
		assert_int_equal(atomic_exchange(flag, 0), 1);
		assert_int_equal(values, before + 1);
	}
	sr_exposed_get_counts(&end);
	assert_int_equal(end.pass_throughs, begin.pass_throughs);
	sr_exposed_remove((void *)flag, PAGE);
}

/* Each page becomes a snapshot after three loads, and from the ninth on many at once. */
static void a_walk_takes_many_snapshots_at_once(void **state)
{
	enum { PAGES = 56 };
	volatile uint64_t *p = (void *)memory(PAGES);
	struct sr_exposed_counts before, after;
	uint64_t sum = 0, right = 0;

	assert_int_equal(sr_exposed_add((void *)p, PAGES * PAGE), SR_EXPOSED_OK);
	for (uint64_t i = 0; i < PAGES * PAGE / 8; i += 40) {
		write_by_nic((void *)&p[i], &i, 8);
		right += i;
	}
	sr_exposed_observe();
	sr_exposed_get_counts(&before);
	for (uint64_t i = 0; i < PAGES * PAGE / 8; i += 40)
		sum += p[i];
	sr_exposed_get_counts(&after);
	assert_int_equal(sum, right);
	assert_int_equal(after.snapshots - before.snapshots, PAGES);
	assert_true(after.faults - before.faults < 9 * 4 + 8);
	sr_exposed_observe();
	/* They are protected again. */
	right = 7;
	write_by_nic((void *)&p[40], &right, 8);
	assert_int_equal(p[40], 7);
	sr_exposed_remove((void *)p, PAGES * PAGE);
}

/* What was sent before, and is unchanged, is not compared. */
static void a_checksum_is_of_what_is_known(void **state)
{
	volatile uint8_t *p = memory(2);
	uint8_t *alias;
	uint64_t first;

	p[5000] = 3;
	assert_int_equal(sr_exposed_add((void *)p, 2 * PAGE), SR_EXPOSED_OK);
	alias = sr_exposed_backing((void *)p);
	first = sr_exposed_checksum((void *)p, 2 * PAGE, 0);
	values = 0;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(sr_exposed_checksum((void *)p, 2 * PAGE, 0), first);
		assert_int_equal(first, sr_checksum(alias, 2 * PAGE, 0));
	}
	assert_int_equal(values, 0);
	for (int i = 1; i < 40; i++) {
		alias[100] ^= 1;
		assert_int_equal(sr_exposed_checksum((void *)p, 2 * PAGE, 0), sr_checksum(alias, 2 * PAGE, 0));
		assert_int_equal(values, i);
		assert_int_equal(last.addr, (uintptr_t)p + 100);
	}
	alias[100] ^= 1;
	assert_int_equal(sr_exposed_checksum((void *)p, 2 * PAGE, 0), first);
	/* The program stores, and the NIC what was there before. */
	values = 0;
	p[5000] = 4;
	alias[5000] = 3;
	assert_int_equal(sr_exposed_checksum((void *)p, 2 * PAGE, 0), first);
	assert_int_equal(values, 1);
	assert_int_equal(last.addr, (uintptr_t)p + 5000);
	sr_exposed_remove((void *)p, 2 * PAGE);
}

#define ADDED  64
#define ROUNDS_OF_SUMS 6

/* Each word that the NIC brought becomes the sum of it and its number.  Returns the accesses that faulted in the last round. */
static uint64_t add_to_each(volatile uint64_t *words, bool by_own_reads)
{
	const size_t n = ADDED * PAGE / sizeof(*words);
	uint64_t *alias, faults = 0;

	assert_int_equal(sr_exposed_add((void *)words, ADDED * PAGE), SR_EXPOSED_OK);
	for (uint64_t round = 1; round <= ROUNDS_OF_SUMS; round++) {
		sr_exposed_call_begins();
		alias = sr_exposed_backing((void *)words);
		if (by_own_reads)
			sr_exposed_fetched((void *)words, ADDED * PAGE);
		for (size_t i = 0; i < n; i++)
			alias[i] = round << 32;
		sr_exposed_call_ends();
		values = 0;
		for (size_t i = 0; i < n; i++)
			words[i] += i;
		faults = sr_exposed_faults();
		assert_true(values >= ADDED);
		sr_exposed_observe();
		alias = sr_exposed_backing((void *)words);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(alias[i], (round << 32) + i);
	}
	sr_exposed_remove((void *)words, ADDED * PAGE);
	return faults;
}

static void pages_that_are_filled_pass_through_together(void **state)
{
	uint64_t together = add_to_each((void *)memory(ADDED), true), alone = add_to_each((void *)memory(ADDED), false);

	assert_true(together < 2 * ADDED);
	assert_true(alone > 10 * ADDED);
}

static uint64_t sum_of(const volatile uint64_t *words)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < PAGE / sizeof(*words); i++)
		sum += words[i];
	return sum;
}

static void a_page_that_held_still_is_told_from_a_word(void **state)
{
	char *p = (char *)memory(1), data[PAGE] __attribute__((aligned(8)));

	for (size_t i = 0; i < PAGE; i++)
		data[i] = (char)~p[i];
	assert_int_equal(sr_exposed_add(p, PAGE), SR_EXPOSED_OK);
	sum_of((void *)p);
	sr_exposed_observe();
	write_by_nic(p, data, sizeof(data));
	assert_int_equal(sum_of((void *)p), sum_of((void *)data));
	assert_true(last.length > PAGE / 2);
	assert_true(last.still);
	sr_exposed_observe();
	write_by_nic(p + 8, "87654321", 8);
	assert_int_equal(*(volatile char *)(p + 8), '8');
	assert_false(last.still);
	sr_exposed_remove(p, PAGE);
}

static volatile uint8_t *printed;
static uint8_t shown;

/* As a replay does that has found a difference. */
static void end_in_handler(void)
{
	in_handler = NULL;
	sr_exposed_end();
	shown = *printed;
}

static void *load_byte(void *p)
{
	return (void *)(uintptr_t)*(volatile uint8_t *)p;
}

static void memory_is_open_to_a_thread_that_ends_in_the_handler(void **state)
{
	uint8_t *p = memory(2);
	pthread_t program;

	printed = p + PAGE;
	*printed = 'x';
	assert_int_equal(sr_exposed_add(p, 2 * PAGE), SR_EXPOSED_OK);
	write_by_nic(p, "y", 1);
	in_handler = end_in_handler;
	pthread_create(&program, NULL, load_byte, p);
	pthread_join(program, NULL);
	assert_null(in_handler);
	assert_int_equal(shown, 'x');
	sr_exposed_remove(p, 2 * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(clocks_are_looked_at_behind_a_value_and_in_front_of_its_record),
	    cmocka_unit_test(a_store_is_told_before_it_is_seen),
	    cmocka_unit_test(a_store_that_must_wait_counts_once),
	    cmocka_unit_test(a_flag_that_is_taken_by_force_is_seen),
	    cmocka_unit_test(a_page_that_changes_all_the_time_is_not_newer_than_another),
	    cmocka_unit_test(a_walk_takes_many_snapshots_at_once),
	    cmocka_unit_test(a_checksum_is_of_what_is_known),
	    cmocka_unit_test(pages_that_are_filled_pass_through_together),
	    cmocka_unit_test(a_page_that_held_still_is_told_from_a_word),
	    cmocka_unit_test(memory_is_open_to_a_thread_that_ends_in_the_handler),
	};

	return cmocka_run_group_tests_name("moments", tests, set_up, NULL);
}
