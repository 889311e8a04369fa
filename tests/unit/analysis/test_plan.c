/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_plan.c: writes the files of a plan and reads them back; stale and damaged files are
 * noticed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/analysis/plan/plan.h"
#include "replay/analysis/plan/file.h"
#include "trace_maker.h"

#define WAITS 5000

struct at {
	char dir[64];
	char plan[80];
	uint64_t identity;
};

static void write_plan(struct at *at, uint64_t identity)
{
	struct sr_plan_file *f;
	int32_t group[] = {0};
	char path[128];
	FILE *json;

	mkdir(at->plan, 0777);
	f = sr_plan_file_new(at->plan, SR_PLAN_WAIT, 0, 0);
	assert_non_null(f);
	for (uint64_t i = 0; i < WAITS; i++)
		assert_int_equal(
		    0, sr_plan_file_add(f, &(struct sr_plan_wait){.sn = 2 * i, .for_sn = i}));
	assert_int_equal(0, sr_plan_file_finish(f, identity, sr_plan_group_hash(group, 1)));
	snprintf(path, sizeof(path), "%s/plan.json", at->plan);
	json = fopen(path, "w");
	fprintf(json,
		"{\"format\": \"sreplay-plan\", \"version\": %d, \"trace\": \"%016llx\", "
		"\"group\": [0]}",
		SR_PLAN_VERSION, (unsigned long long)identity);
	fclose(json);
}

static struct sr_trace *open_trace(const struct at *at)
{
	struct sr_trace *t;
	struct sr_error err;

	assert_int_equal(0, sr_trace_open(&t, at->dir, &err));
	return t;
}

static int set_up(void **state)
{
	struct at *at = calloc(1, sizeof(*at));
	struct trace_maker *m;
	struct sr_error err;
	struct sr_trace *t;

	strcpy(at->dir, "/tmp/sreplay-plan.XXXXXX");
	assert_non_null(mkdtemp(at->dir));
	snprintf(at->plan, sizeof(at->plan), "%s/plan", at->dir);
	m = trace_maker_new(at->dir);
	trace_maker_rank(m, 0, "{}");
	for (int i = 0; i < 1000; i++)
		trace_maker_call(m, 0, 0, SR_CALL_getpid, i, NULL, 0, NULL, 0);
	trace_maker_finish(m);
	t = open_trace(at);
	assert_int_equal(0, sr_plan_identity(t, &at->identity, &err));
	sr_trace_close(t);
	write_plan(at, at->identity);
	*state = at;
	return 0;
}

static int tear_down(void **state)
{
	struct at *at = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", at->dir);
	if (system(command))
		return -1;
	free(at);
	return 0;
}

static int open_and_read(const struct at *at, size_t *count)
{
	struct sr_trace *t = open_trace(at);
	struct sr_plan *p;
	struct sr_error err;
	const void *records;
	int ret = sr_plan_open(&p, t, &err);

	if (!ret)
		ret = sr_plan_records(p, SR_PLAN_WAIT, 0, 0, &records, count, &err);
	if (ret)
		assert_non_null(strstr(err.text, "sreplay process"));
	sr_plan_close(p);
	sr_trace_close(t);
	return ret;
}

static void test_what_is_written_is_read(void **state)
{
	struct sr_trace *t = open_trace(*state);
	struct sr_plan *p;
	struct sr_error err;
	const void *records;
	const struct sr_plan_wait *waits;
	size_t count, n;

	assert_int_equal(0, sr_plan_open(&p, t, &err));
	assert_int_equal(0, sr_plan_group(p, &n)[0]);
	assert_int_equal(1, n);
	assert_int_equal(0, sr_plan_records(p, SR_PLAN_WAIT, 0, 0, &records, &count, &err));
	assert_int_equal(WAITS, count);
	waits = records;
	for (uint64_t i = 0; i < WAITS; i++)
		assert_true(waits[i].sn == 2 * i && waits[i].for_sn == i);
	/* No file: no records. */
	assert_int_equal(0, sr_plan_records(p, SR_PLAN_WAKE, 0, 0, &records, &count, &err));
	assert_int_equal(0, count);
	sr_plan_close(p);
	sr_trace_close(t);
}

static void test_no_plan_is_told(void **state)
{
	struct at *at = *state;
	char path[128];
	size_t count;

	snprintf(path, sizeof(path), "%s/plan.json", at->plan);
	assert_int_equal(0, unlink(path));
	assert_int_equal(-ENOENT, open_and_read(at, &count));
}

static void test_a_plan_of_another_trace_is_stale(void **state)
{
	struct at *at = *state;
	size_t count;

	write_plan(at, at->identity + 1);
	assert_int_equal(-ESTALE, open_and_read(at, &count));
}

/* Any bit of the file. */
static void test_damage_is_noticed(void **state)
{
	struct at *at = *state;
	size_t size = sizeof(struct sr_plan_header) + WAITS * sizeof(struct sr_plan_wait), count;
	char path[128];
	uint8_t byte;
	int fd;

	snprintf(path, sizeof(path), "%s/rank-0/thread-0.wait", at->plan);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	for (size_t i = 0; i < 300; i++) {
		off_t place = (off_t)(i < 64 ? i : i * 7919 % size);

		assert_int_equal(1, pread(fd, &byte, 1, place));
		byte ^= (uint8_t)(1 << i % 8);
		assert_int_equal(1, pwrite(fd, &byte, 1, place));
		assert_int_equal(-EBADMSG, open_and_read(at, &count));
		byte ^= (uint8_t)(1 << i % 8);
		assert_int_equal(1, pwrite(fd, &byte, 1, place));
	}
	assert_int_equal(0, open_and_read(at, &count));
	assert_int_equal(0, ftruncate(fd, (off_t)size - 1));
	assert_int_equal(-EBADMSG, open_and_read(at, &count));
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_what_is_written_is_read, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_no_plan_is_told, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_a_plan_of_another_trace_is_stale, set_up,
					    tear_down),
	    cmocka_unit_test_setup_teardown(test_damage_is_noticed, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
