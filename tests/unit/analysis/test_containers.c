/* SPDX-License-Identifier: BSD-2-Clause */
/* test_containers.c: arrays, maps and blocks that the analysis keeps its numbers in, when they are small and when they are large. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "replay/analysis/log/arena.h"
#include "replay/analysis/log/keymap.h"
#include "replay/analysis/log/large.h"
#include "replay/analysis/log/spill.h"

#define MANY 1000000u

static void check_array(const uint64_t *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (all[i] != i * 3)
			assert_int_equal(all[i], i * 3);
}

/* Two grow in turn, so that neither has the addresses behind it by chance. */
static void test_arrays_keep_what_they_have(void **state)
{
	uint64_t *all[2] = {NULL, NULL};
	size_t room[2] = {0, 0};

	(void)state;
	for (size_t i = 0; i < MANY; i++)
		for (size_t k = 0; k < 2; k++) {
			uint64_t *at = sr_large_grow((void **)&all[k], i, &room[k], sizeof(*at));

			assert_non_null(at);
			*at = i * 3;
		}
	for (size_t k = 0; k < 2; k++) {
		assert_true(room[k] * sizeof(*all[k]) > SR_LARGE);
		check_array(all[k], MANY);
		sr_large_free(all[k], room[k], sizeof(*all[k]));
	}
}

#define LIMIT_MIB 32u
/* Elements of an array that is half as much again. */
#define SPILLED (3 * (LIMIT_MIB << 20) / sizeof(uint64_t) / 2)

static size_t kib_of(const char *name)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	size_t kib = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			kib = strtoul(line + strlen(name), NULL, 10);
	fclose(f);
	return kib;
}

/* AddressSanitizer's own memory, an eighth and more, is anonymous, too. */
#ifdef __SANITIZE_ADDRESS__
#define COUNTS_ANONYMOUS false
#else
#define COUNTS_ANONYMOUS true
#endif

static void *check_in_turn(void *argument)
{
	const uint64_t *all = argument;

	/* In steps of some chunks: all of them come and go. */
	for (size_t first = 0; first < 8; first++)
		for (size_t i = first * 1024; i < SPILLED; i += 8192)
			if (all[i] != i * 3)
				return (void *)&all[i];
	return NULL;
}

/* A fault beside the arrays ends the process as ever. */
static void check_other_faults(void)
{
	pid_t child = fork();
	int status;

	if (!child) {
		volatile char *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		*nothing = 1;
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/* Arrays with three times as much as there may be are as they were, also to threads that read them at once. */
static void test_limited_arrays(void **state)
{
	const size_t before = kib_of("RssAnon:");
	uint64_t *all[2] = {NULL, NULL}, *zeroed;
	size_t room[2] = {0, 0};
	pthread_t threads[2];
	void *wrong;

	(void)state;
	signal(SIGSEGV, SIG_DFL); /* cmocka has a handler */
	sr_large_limit(LIMIT_MIB << 20);
	for (size_t i = 0; i < SPILLED; i++)
		for (size_t k = 0; k < 2; k++) {
			uint64_t *at = sr_large_grow((void **)&all[k], i, &room[k], sizeof(*at));

			assert_non_null(at);
			*at = i * 3;
		}
	zeroed = sr_large_zeroed(SPILLED, sizeof(*zeroed));
	assert_non_null(zeroed);
	for (size_t i = 0; i < SPILLED; i++)
		if (zeroed[i])
			fail();
	check_array(all[0], SPILLED);
	check_array(all[1], SPILLED);
	if (!sr_spill_has(all[0], SPILLED * sizeof(*all[0])))
		skip(); /* there is no disk for the file */
	check_other_faults();
	assert_true(!COUNTS_ANONYMOUS || kib_of("RssAnon:") - before <= (LIMIT_MIB << 10));
	for (size_t k = 0; k < 2; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, check_in_turn, all[k]), 0);
	for (size_t i = 0; i < SPILLED; i++)
		zeroed[i] = i * 3;
	for (size_t k = 0; k < 2; k++) {
		assert_int_equal(pthread_join(threads[k], &wrong), 0);
		assert_null(wrong);
	}
	check_array(zeroed, SPILLED);
	/* What was read from the file, and is written again, is written to the file again. */
	for (size_t i = 0; i < SPILLED; i++)
		all[0][i] += i * 3;
	check_array(all[1], SPILLED);
	for (size_t i = 0; i < SPILLED; i++)
		all[0][i] -= i * 3;
	check_array(all[0], SPILLED);
	for (size_t k = 0; k < 2; k++)
		sr_large_free(all[k], room[k], sizeof(*all[k]));
	sr_large_free(zeroed, SPILLED, sizeof(*zeroed));
}

static void test_zeroed_arrays(void **state)
{
	(void)state;
	for (size_t n = 0; n < 4; n++) {
		const size_t room = n * SR_LARGE / sizeof(uint64_t) / 2;
		uint64_t *all = sr_large_zeroed(room, sizeof(*all));

		assert_non_null(all);
		for (size_t i = 0; i < room; i++)
			if (all[i])
				fail();
		sr_large_free(all, room, sizeof(*all));
	}
	sr_large_free(NULL, 0, 8);
}

static void test_maps(void **state)
{
	struct sr_keymap m = {0};
	uint64_t value;

	(void)state;
	assert_false(sr_keymap_get(&m, 0, &value));
	assert_false(sr_keymap_get(&m, 7, &value));
	for (uint64_t i = 0; i < MANY; i++)
		assert_int_equal(sr_keymap_put(&m, i << 32, i), 0);
	assert_int_equal(sr_keymap_put(&m, 0, 9), 0);
	assert_int_equal(sr_keymap_put(&m, UINT64_MAX, 10), 0);
	assert_int_equal(m.used, MANY + 1);
	for (uint64_t i = 1; i < MANY; i++)
		if (!sr_keymap_get(&m, i << 32, &value) || value != i)
			fail();
	assert_true(sr_keymap_get(&m, 0, &value));
	assert_int_equal(value, 9);
	assert_true(sr_keymap_get(&m, UINT64_MAX, &value));
	assert_int_equal(value, 10);
	assert_false(sr_keymap_get(&m, 1, &value));
	sr_keymap_free(&m);
	assert_false(sr_keymap_get(&m, 0, &value));
}

#define BLOCKS 3000u

/* Of all sizes, each filled with its number: none has bytes of another one, also if it was put back and given again. */
static void test_blocks(void **state)
{
	static unsigned char *block[BLOCKS];
	struct sr_arena a = {0};

	(void)state;
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < BLOCKS; i++) {
			const size_t bytes = (i * 7919u) % 5000u + 1;

			block[i] = sr_arena_get(&a, bytes);
			assert_non_null(block[i]);
			assert_int_equal((uintptr_t)block[i] % (bytes > 32 ? 64 : 16), 0);
			memset(block[i], (int)(i & 255), bytes);
		}
		for (unsigned int i = 0; i < BLOCKS; i++)
			for (size_t k = 0; k < (i * 7919u) % 5000u + 1; k++)
				if (block[i][k] != (i & 255))
					fail();
		for (unsigned int i = 0; i < BLOCKS; i += 2)
			sr_arena_put(&a, block[i], (i * 7919u) % 5000u + 1);
	}
	sr_arena_free(&a);
	assert_non_null(sr_arena_get(&a, 20u << 20));
	sr_arena_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_arrays_keep_what_they_have),
	    cmocka_unit_test(test_zeroed_arrays),
	    cmocka_unit_test(test_maps),
	    cmocka_unit_test(test_blocks),
	    cmocka_unit_test(test_limited_arrays), /* the last one: the limit stays */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
