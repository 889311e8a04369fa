/* SPDX-License-Identifier: BSD-2-Clause */
/* test_tsc_searched.c: what code is searched for the time-stamp counter's instructions again, and what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shim/kernel/tsc_searched.h"

enum { A = 0x10000, B = 0x20000, C = 0x30000, END = 0x8000 };

static void search(uintptr_t at, bool kept)
{
	sr_tsc_searched_begins();
	sr_tsc_searched_add(SR_SOUGHT_COUNTER, at, at + END, 7);
	sr_tsc_searched_ends(kept);
}

static bool is_searched(uintptr_t at)
{
	return sr_tsc_is_searched(SR_SOUGHT_COUNTER, at, at + END, 7);
}

static void what_was_searched_is_not_searched_again(void **state)
{
	search(A, true);
	search(B, true);
	assert_true(is_searched(A));
	assert_true(is_searched(B));
	assert_false(sr_tsc_is_searched(SR_SOUGHT_COUNTER, A, A + END, 8));
	assert_false(sr_tsc_is_searched(SR_SOUGHT_COUNTER, A, A + 2 * END, 7));
	sr_tsc_searched_changes(A, C);
}

static void what_has_changed_is(void **state)
{
	search(A, true);
	search(B, true);
	sr_tsc_searched_changes(B - 1, 1);
	assert_true(is_searched(B));
	sr_tsc_searched_changes(B + END - 1, 1);
	assert_false(is_searched(B));
	assert_true(is_searched(A));
	sr_tsc_searched_changes(A, C);
	assert_false(is_searched(A));
}

/* A search that has found too little keeps nothing of what it has found. */
static void what_was_not_kept_is(void **state)
{
	search(A, true);
	search(B, false);
	assert_true(is_searched(A));
	assert_false(is_searched(B));
	sr_tsc_searched_changes(A, C);
}

/* The change may have come behind the look at it. */
static void what_changed_meanwhile_is(void **state)
{
	search(A, true);
	search(B, true);
	sr_tsc_searched_begins();
	sr_tsc_searched_add(SR_SOUGHT_COUNTER, C, C + END, 7);
	sr_tsc_searched_changes(A, 1);
	sr_tsc_searched_ends(true);
	assert_false(is_searched(C));
	assert_false(is_searched(A));
	assert_true(is_searched(B));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_was_searched_is_not_searched_again),
	    cmocka_unit_test(what_has_changed_is),
	    cmocka_unit_test(what_was_not_kept_is),
	    cmocka_unit_test(what_changed_meanwhile_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
