/* SPDX-License-Identifier: BSD-2-Clause */
/* test_map.c: compares the shim's map with a plain array, and reads it while it changes. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shim/memory/map.h"

#define KEYS 1000

static void it_holds_what_was_put_and_not_taken(void **state)
{
	static void *model[KEYS + 1];
	struct sr_map m = {0};
	void *old;

	srand(2);
	for (int round = 0; round < 200000; round++) {
		uint64_t key = 1 + (uint64_t)rand() % KEYS;

		switch (rand() % 3) {
		case 0:
			assert_int_equal(
			    sr_map_put(&m, key * 4096, (void *)(uintptr_t)(round + 1), &old), 0);
			assert_ptr_equal(old, model[key]);
			model[key] = (void *)(uintptr_t)(round + 1);
			break;
		case 1:
			assert_ptr_equal(sr_map_take(&m, key * 4096), model[key]);
			model[key] = NULL;
			break;
		default:
			assert_ptr_equal(sr_map_get(&m, key * 4096), model[key]);
		}
	}
}

static void an_empty_map_has_nothing(void **state)
{
	struct sr_map m = {0};

	assert_null(sr_map_get(&m, 1));
	assert_null(sr_map_take(&m, 1));
}

static struct sr_map shared;
static _Atomic int done;

/* Keys that are never removed must be found at any time, even while the map grows. */
static void *look(void *unused)
{
	while (!done)
		for (uint64_t key = 1; key <= 16; key++)
			if (sr_map_get(&shared, key) != (void *)(uintptr_t)(key + 1))
				return (void *)1;
	return NULL;
}

static void readers_see_a_growing_map_whole(void **state)
{
	pthread_t reader;
	void *missed, *old;

	for (uint64_t key = 1; key <= 16; key++)
		assert_int_equal(sr_map_put(&shared, key, (void *)(uintptr_t)(key + 1), &old), 0);
	assert_int_equal(pthread_create(&reader, NULL, look, NULL), 0);
	for (uint64_t key = 100; key < 100000; key++)
		assert_int_equal(sr_map_put(&shared, key, &shared, &old), 0);
	done = 1;
	pthread_join(reader, &missed);
	assert_null(missed);
}

/* A program that registers and deregisters for ever must not make the map grow. */
static void what_comes_and_goes_takes_no_memory(void **state)
{
	struct sr_map m = {0};
	void *old;

	for (uint64_t key = 1; key < 1000000; key++) {
		assert_int_equal(sr_map_put(&m, key, &m, &old), 0);
		assert_ptr_equal(sr_map_take(&m, key), &m);
	}
	assert_true(m.table->mask < 8192);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_holds_what_was_put_and_not_taken),
	    cmocka_unit_test(an_empty_map_has_nothing),
	    cmocka_unit_test(readers_see_a_growing_map_whole),
	    cmocka_unit_test(what_comes_and_goes_takes_no_memory),
	};

	return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
