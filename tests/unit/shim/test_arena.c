/* SPDX-License-Identifier: BSD-2-Clause */
/* test_arena.c: blocks of the arena are aligned, do not overlap, and are used again. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shim/memory/arena.h"

#define BASE  0x240000000000ull
#define BYTES (256ull << 20)

static struct sr_arena arena;

static int set_up(void **state)
{
	return sr_arena_init(&arena, BASE, BYTES);
}

static void a_taken_range_is_refused(void **state)
{
	struct sr_arena other = {0};

	assert_int_equal(sr_arena_init(&other, BASE, BYTES), -EEXIST);
}

static void what_is_too_large_gives_null(void **state)
{
	assert_null(sr_arena_alloc(&arena, BYTES, 16));
	assert_null(sr_arena_alloc(&arena, SIZE_MAX, 16));
	assert_null(sr_arena_alloc(&arena, 1, SIZE_MAX / 2 + 1));
}

static void a_freed_block_is_used_again(void **state)
{
	void *p = sr_arena_alloc(&arena, 1000, 16);

	sr_arena_free(&arena, p);
	assert_ptr_equal(sr_arena_alloc(&arena, 1000, 16), p);
	sr_arena_free(&arena, p);
}

/* A replay writes objects at their recorded addresses, so memory must be there. */
static void it_reaches_as_far_as_asked(void **state)
{
	char *far = (char *)BASE + (100ull << 20);

	assert_int_equal(sr_arena_reach(&arena, far, 4096), 0);
	memset(far, 1, 4096);
	assert_int_equal(sr_arena_reach(&arena, (char *)BASE + BYTES - 1, 2), -EFAULT);
	assert_int_equal(sr_arena_reach(&arena, (char *)BASE - 1, 1), -EFAULT);
}

/* Random allocations: each block is filled with its own byte and must keep it until it is freed. */
static void blocks_do_not_overlap(void **state)
{
	enum { LIVE = 500, ROUNDS = 50000 };
	static struct {
		unsigned char *p;
		size_t size;
	} live[LIVE];

	srand(1);
	for (int round = 0; round < ROUNDS; round++) {
		int i = rand() % LIVE;
		size_t align = 16ull << rand() % 9,
		       size = (size_t)rand() % (rand() % 8 ? 300 : 60000);

		if (live[i].p) {
			for (size_t n = 0; n < live[i].size; n++)
				assert_int_equal(live[i].p[n], (unsigned char)i);
			sr_arena_free(&arena, live[i].p);
		}
		live[i].p = sr_arena_alloc(&arena, size, align);
		live[i].size = size;
		assert_non_null(live[i].p);
		assert_int_equal((uintptr_t)live[i].p % align, 0);
		assert_true(sr_arena_block_size(live[i].p) >= size);
		memset(live[i].p, i, size);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_taken_range_is_refused),
	    cmocka_unit_test(what_is_too_large_gives_null),
	    cmocka_unit_test(a_freed_block_is_used_again),
	    cmocka_unit_test(it_reaches_as_far_as_asked),
	    cmocka_unit_test(blocks_do_not_overlap),
	};

	return cmocka_run_group_tests_name("arena", tests, set_up, NULL);
}
