/* SPDX-License-Identifier: BSD-2-Clause */
/* test_schema.c: the library puts the same description of the records into a trace that the commands compare it with. */
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shim/core/schema.h"

static void both_are_the_same(void **state)
{
	char *text = malloc(sr_schema_unpacked_size + 1);

	assert_non_null(text);
	text[sr_schema_unpacked_size] = 1;
	sr_schema_unpack(text);
	assert_int_equal(sr_schema_unpacked_size, sr_schema_size);
	assert_memory_equal(text, sr_schema, sr_schema_size);
	assert_int_equal(text[sr_schema_unpacked_size], 1);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(both_are_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
