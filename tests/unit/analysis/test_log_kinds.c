/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_log_kinds.c: a schema gives the same calls whether it is this version's own or read
 * from a file.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay/analysis/log/kinds.h"
#include "trace_maker.h"

static void load(const char *dir, struct sr_log_kinds *k)
{
	struct sr_trace *t;
	struct sr_error err;

	assert_int_equal(0, sr_trace_open(&t, dir, &err));
	memset(k, 0xff, sizeof(*k));
	assert_int_equal(0, sr_log_kinds_load(k, t, 0, &err));
	sr_trace_close(t);
}

static void test_own_and_read(void **state)
{
	struct sr_log_kinds own, read;
	char dir[] = "/tmp/test_log_kinds.XXXXXX", command[96], path[64];
	struct trace_maker *m;
	struct sr_trace *t;
	struct sr_error err;
	FILE *schema;

	assert_non_null(mkdtemp(dir));
	m = trace_maker_new(dir);
	trace_maker_rank(m, 0, "{}");
	trace_maker_finish(m);
	load(dir, &own);
	snprintf(path, sizeof(path), "%s/rank-0/schema.json", dir);
	schema = fopen(path, "a");
	assert_non_null(schema);
	fputs("\n", schema); /* the same, and not byte for byte */
	fclose(schema);
	/* It is parsed, and then remembered. */
	for (int i = 0; i < 2; i++) {
		load(dir, &read);
		assert_memory_equal(&own, &read, sizeof(own));
	}
	assert_int_equal(SR_WHAT_POST_SEND, sr_log_what(&own, SR_REC_CALL + SR_CALL_post_send));
	assert_int_equal(0, truncate(path, 100));
	assert_int_equal(0, sr_trace_open(&t, dir, &err));
	assert_int_equal(-EBADMSG, sr_log_kinds_load(&read, t, 0, &err));
	sr_trace_close(t);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(0, system(command));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_own_and_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
