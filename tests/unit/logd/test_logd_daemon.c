/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon and its clients while nothing fails around them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness.h"
#include "pattern.h"
#include "logd/base/rawsys.h"

#define SEED 5

static int set_up(void **state)
{
	struct harness *h = calloc(1, sizeof(*h));

	harness_begin(h);
	daemon_start(h, NULL);
	*state = h;
	return 0;
}

static int tear_down(void **state)
{
	harness_end(*state);
	free(*state);
	return 0;
}

static void write_some(struct sr_ring *ring, uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n < to; n++)
		assert_true(pattern_write(ring, SEED, n));
}

static void write_exit(struct sr_ring *ring)
{
	struct sr_exit_payload *payload = sr_ring_reserve(ring, SR_REC_EXIT, sizeof(*payload));

	payload->status = 3;
	sr_ring_commit(ring, sizeof(*payload));
}

/* Runs body in a process of its own, with this rank; returns its exit status. */
static int in_process(struct harness *h, int32_t rank,
		      void (*body)(struct harness *h, struct sr_client *c, struct sr_ring *ring))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct sr_client c = {0};
		struct sr_ring ring;
		char error[400] = "";

		if (connect_as(h, &c, rank, error, sizeof(error)) ||
		    sr_client_open_ring(&c, 0, 256 << 10, &ring))
			_exit(90);
		body(h, &c, &ring);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	wait_written(h);
	return status;
}

static void expect(struct harness *h, int32_t rank, uint64_t records, bool exit, uint32_t mark)
{
	struct stream_check found;

	assert_true(check_stream(h->trace, rank, 0, SEED, &found));
	assert_int_equal(found.records, records);
	assert_int_equal(found.exit, exit);
	assert_int_equal(found.mark, mark);
	assert_string_equal(found.warning, "");
}

/* ---- how processes end ---- */

static void write_and_finish(struct harness *h, struct sr_client *c, struct sr_ring *ring)
{
	struct stream_check found;

	write_some(ring, 0, 3000);
	if (sr_client_finish(c, 10000))
		_exit(91);
	/* All records are on disk when finish returns. */
	if (!check_stream(h->trace, 0, 0, SEED, &found) || found.records != 3000)
		_exit(92);
	write_exit(ring);
	if (sr_client_finish(c, 10000))
		_exit(93);
}

static void test_ended_process_leaves_all_and_no_mark(void **state)
{
	assert_int_equal(in_process(*state, 0, write_and_finish), 0);
	expect(*state, 0, 3000, true, 0);
}

static void write_and_leave(struct harness *h, struct sr_client *c, struct sr_ring *ring)
{
	write_some(ring, 0, 500);
	write_exit(ring);
}

static void test_exit_without_finish_is_complete_too(void **state)
{
	assert_int_equal(in_process(*state, 0, write_and_leave), 0);
	expect(*state, 0, 500, true, 0);
}

static void write_and_die(struct harness *h, struct sr_client *c, struct sr_ring *ring)
{
	write_some(ring, 0, 777);
	kill(getpid(), SIGKILL);
}

static void test_killed_process_is_marked(void **state)
{
	assert_int_equal(in_process(*state, 0, write_and_die), SIGKILL);
	expect(*state, 0, 777, false, SR_MARK_DIED);
}

static void remove_ring(struct harness *h, struct sr_client *c, struct sr_ring *ring)
{
	struct sr_ring second;

	write_some(ring, 0, 50);
	sr_client_close_ring(c, ring);
	if (sr_client_open_ring(c, 1, 64 << 10, &second))
		_exit(94);
	sleep_us(100000);
	kill(getpid(), SIGKILL);
}

static void test_ended_thread_is_no_death(void **state)
{
	assert_int_equal(in_process(*state, 0, remove_ring), SIGKILL);
	expect(*state, 0, 50, false, SR_MARK_ENDED);
}

static void keep_rings_of_parent(struct harness *h, struct sr_client *c, struct sr_ring *ring)
{
	int status;
	pid_t child;

	write_some(ring, 0, 100);
	child = fork();
	if (child == 0) {
		sr_client_abandon(c);
		_exit(0);
	}
	waitpid(child, &status, 0);
	write_some(ring, 100, 200);
	write_exit(ring);
	if (status || sr_client_finish(c, 10000))
		_exit(95);
}

static void test_child_that_abandons_disturbs_nothing(void **state)
{
	assert_int_equal(in_process(*state, 0, keep_rings_of_parent), 0);
	expect(*state, 0, 200, true, 0);
}

static void lose_descriptors(struct harness *h, struct sr_client *c, struct sr_ring *ring)
{
	write_some(ring, 0, 100);
	close(c->socket); /* a program that closes all it finds */
	sleep_us(20000);
	sr_client_check(c);
	write_some(ring, 100, 4000);
	write_exit(ring);
	if (sr_client_finish(c, 10000))
		_exit(96);
}

static void test_lost_connection_is_made_again(void **state)
{
	assert_int_equal(in_process(*state, 0, lose_descriptors), 0);
	expect(*state, 0, 4000, true, 0);
}

/* ---- what the user gets to see ---- */

static void test_record_is_in_the_file_after_a_second(void **state)
{
	struct harness *h = *state;
	struct sr_client c = {0};
	struct stream_check found = {0};
	struct sr_ring ring;
	char error[400] = "";
	int64_t begin;

	assert_int_equal(connect_as(h, &c, 0, error, sizeof(error)), 0);
	assert_int_equal(sr_client_open_ring(&c, 0, 1 << 20, &ring), 0);
	sleep_us(400000); /* the daemon has gone to sleep */
	for (uint64_t n = 0; n < 3; n++) {
		write_some(&ring, n, n + 1);
		begin = sr_sys_now_ms();
		while (found.records < n + 1) {
			sleep_us(2000);
			assert_true(check_stream(h->trace, 0, 0, SEED, &found));
			assert_true(sr_sys_now_ms() - begin <
				    2000); /* 1050 on a machine of our own */
		}
	}
	sr_client_abandon(&c);
}

static void test_process_is_described(void **state)
{
	const char *odd = getenv("TEST_LOGD_ODD");
	struct harness *h = *state;
	struct sr_client c = {0};
	struct sr_trace *t;
	struct sr_error err;
	const json_t *p, *v;
	char error[400] = "", *bytes;
	size_t size, i;
	bool seen = false;

	assert_non_null(odd);
	assert_int_equal(connect_as(h, &c, 3, error, sizeof(error)), 0);
	assert_int_equal(sr_trace_open(&t, h->trace, &err), 0);
	assert_int_equal(sr_trace_ranks(t), 1);
	assert_int_equal(sr_trace_rank_number(t, 0), 3);
	p = sr_trace_process(t, 3);
	assert_int_equal(json_integer_value(json_object_get(p, "pid")), getpid());
	assert_int_equal(json_integer_value(json_object_get(p, "stack")), 0x7fff12340000);
	assert_true(json_is_true(json_object_get(json_object_get(p, "extra"), "test")));
	json_array_foreach(json_object_get(p, "environment"), i, v)
	{
		bytes = sr_trace_bytes(v, &size);
		if (!strncmp(bytes, "TEST_LOGD_ODD=", 14))
			seen = !strcmp(bytes + 14, odd);
		free(bytes);
	}
	assert_true(seen);
	v = json_array_get(json_object_get(p, "objects"), 0);
	assert_non_null(json_object_get(v, "load_address"));
	assert_true(json_object_get(v, "build_id") || json_object_get(v, "xxh3"));
	assert_string_equal(sr_trace_schema(t, 3, &size), "{\"calls\": []}");
	assert_null(sr_trace_process(t, 4));
	sr_trace_close(t);
	sr_client_abandon(&c);
}

static void test_status_tells_of_each_process(void **state)
{
	struct harness *h = *state;
	struct sr_client c = {0};
	char error[400] = "", text[4096] = "";
	int fd;

	assert_int_equal(connect_as(h, &c, 12, error, sizeof(error)), 0);
	fd = sr_client_status(h->socket, 5000);
	assert_true(fd >= 0);
	assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
	assert_non_null(strstr(text, "recording 1 process"));
	assert_non_null(strstr(text, h->trace));
	close(fd);
	sr_client_abandon(&c);
}

static void *claim_rank(void *argument)
{
	struct harness *h = argument;
	static _Atomic int next;
	struct sr_client *c = calloc(1, sizeof(*c));
	char error[400] = "";
	int ret = connect_as(h, c, next++ % 8, error, sizeof(error));

	sr_client_abandon(c);
	free(c);
	return (void *)(intptr_t)ret;
}

static void test_ranks_of_one_trace_come_together_and_only_once(void **state)
{
	pthread_t threads[16];
	struct sr_trace *t;
	struct sr_error err;
	int refused = 0;

	for (int i = 0; i < 16; i++)
		pthread_create(&threads[i], NULL, claim_rank, *state);
	for (int i = 0; i < 16; i++) {
		void *ret;

		pthread_join(threads[i], &ret);
		assert_true((intptr_t)ret == 0 || (intptr_t)ret == -EEXIST);
		refused += ret != 0;
	}
	assert_int_equal(refused, 8);
	assert_int_equal(sr_trace_open(&t, ((struct harness *)*state)->trace, &err), 0);
	assert_int_equal(sr_trace_ranks(t), 8);
	sr_trace_close(t);
}

static void test_sigterm_drains_first(void **state)
{
	struct harness *h = *state;
	struct sr_client c = {0};
	struct stream_check found;
	struct sr_ring ring;
	char error[400] = "";

	assert_int_equal(connect_as(h, &c, 0, error, sizeof(error)), 0);
	assert_int_equal(sr_client_open_ring(&c, 0, 16 << 20, &ring), 0);
	write_some(&ring, 0, 5000);
	assert_int_equal(daemon_kill(h, SIGTERM), 0);
	assert_true(check_stream(h->trace, 0, 0, SEED, &found));
	assert_int_equal(found.records, 5000);
	/* ... and the next one goes on. */
	daemon_start(h, NULL);
	write_some(&ring, 5000, 6000);
	assert_int_equal(sr_client_finish(&c, 10000), 0);
	assert_true(check_stream(h->trace, 0, 0, SEED, &found));
	assert_int_equal(found.records, 6000);
	sr_client_abandon(&c);
}

struct last_words {
	struct sr_client c;
	struct sr_ring ring;
};

static void *end_thread(void *argument)
{
	struct last_words *l = argument;

	sr_client_close_ring(&l->c, &l->ring);
	return NULL;
}

static void test_thread_that_ends_without_a_daemon_loses_nothing(void **state)
{
	struct harness *h = *state;
	struct stream_check found;
	struct last_words l = {0};
	char error[400] = "";
	pthread_t thread;

	assert_int_equal(connect_as(h, &l.c, 0, error, sizeof(error)), 0);
	assert_int_equal(sr_client_open_ring(&l.c, 0, 16 << 20, &l.ring), 0);
	daemon_kill(h, SIGKILL);
	write_some(&l.ring, 0, 2000);
	pthread_create(&thread, NULL, end_thread, &l);
	sleep_us(100000);
	daemon_start(h, NULL);
	pthread_join(thread, NULL);
	assert_int_equal(sr_client_finish(&l.c, 10000), 0);
	assert_true(check_stream(h->trace, 0, 0, SEED, &found));
	assert_int_equal(found.records, 2000);
	sr_client_abandon(&l.c);
}

/* A process of one `sreplay record` need not wait for processes of others in the same trace. */
static void test_wait_is_for_one_session_where_one_is_named(void **state)
{
	uint8_t mine[SR_SESSION_BYTES] = "mine", others[SR_SESSION_BYTES] = "others";
	struct sr_client c = {0};
	struct harness *h = *state;
	char error[400] = "";

	assert_int_equal(connect_in(h, &c, 0, others, error, sizeof(error)), 0);
	assert_int_equal(sr_client_wait_trace(h->socket, h->trace, mine, 5000, NULL), 0);
	assert_int_equal(sr_client_wait_trace(h->socket, h->trace, others, 100, NULL), -ETIMEDOUT);
	assert_int_equal(sr_client_wait_trace(h->socket, h->trace, NULL, 100, NULL), -ETIMEDOUT);
	sr_client_abandon(&c);
}

/* ---- wake-ups ---- */

/* How often the daemon's threads have slept, all together. */
static uint64_t sleeps_of(pid_t daemon)
{
	char path[300], line[200];
	unsigned long long n;
	struct dirent *e;
	uint64_t sum = 0;
	FILE *f;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)daemon);
	d = opendir(path);
	assert_non_null(d);
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)daemon, e->d_name);
		f = e->d_name[0] == '.' ? NULL : fopen(path, "r");
		while (f && fgets(line, sizeof(line), f))
			if (sscanf(line, "voluntary_ctxt_switches: %llu", &n) == 1)
				sum += n;
		if (f)
			fclose(f);
	}
	closedir(d);
	return sum;
}

/* It would end after a minute without processes, and serves one that does nothing. */
static void test_daemon_sleeps_while_nothing_happens(void **state)
{
	static const char *const options[] = {"--idle-exit", "60", NULL};
	struct harness *h = *state;
	struct sr_client c = {0};
	struct sr_ring ring;
	char error[400] = "";
	uint64_t before;

	daemon_kill(h, SIGTERM);
	daemon_start(h, options);
	sleep_us(500000);
	before = sleeps_of(h->daemon);
	sleep_us(1000000);
	assert_int_equal(sleeps_of(h->daemon), before);
	assert_int_equal(connect_as(h, &c, 0, error, sizeof(error)), 0);
	assert_int_equal(sr_client_open_ring(&c, 0, 1 << 20, &ring), 0);
	write_some(&ring, 0, 10);
	sleep_us(2000000);
	before = sleeps_of(h->daemon);
	sleep_us(6000000);
	assert_int_equal(sleeps_of(h->daemon), before);
	/* A record wakes it: for the record, at its tick, and when the frame is due. */
	write_some(&ring, 10, 11);
	sleep_us(2000000);
	assert_in_range(sleeps_of(h->daemon) - before, 1, 5);
	sr_client_abandon(&c);
}

/* A program that runs wild overwrites what would wake the daemon, and fills its ring. */
static void overwrite_wake_up(struct harness *h, struct sr_client *c, struct sr_ring *ring)
{
	sleep_us(500000); /* the daemon sleeps until it is woken */
	atomic_store(&ring->shared->wake_at, UINT64_MAX);
	write_some(ring, 0, 4000);
	write_exit(ring);
	if (sr_client_finish(c, 10000))
		_exit(91);
}

static void test_overwritten_wake_up_stops_nobody(void **state)
{
	assert_int_equal(in_process(*state, 0, overwrite_wake_up), 0);
	expect(*state, 0, 4000, true, 0);
}

static void test_idle_daemon_ends_itself(void **state)
{
	static const char *const options[] = {"--idle-exit", "1", NULL};
	struct harness *h = *state;
	int status;

	daemon_kill(h, SIGTERM);
	daemon_start(h, options);
	assert_int_equal(waitpid(h->daemon, &status, 0), h->daemon);
	h->daemon = -1;
	assert_int_equal(status, 0);
	assert_int_equal(access(h->socket, F_OK), -1);
}

int main(int argc, char **argv)
{
#define DAEMON_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    DAEMON_TEST(test_ended_process_leaves_all_and_no_mark),
	    DAEMON_TEST(test_exit_without_finish_is_complete_too),
	    DAEMON_TEST(test_killed_process_is_marked),
	    DAEMON_TEST(test_ended_thread_is_no_death),
	    DAEMON_TEST(test_child_that_abandons_disturbs_nothing),
	    DAEMON_TEST(test_lost_connection_is_made_again),
	    DAEMON_TEST(test_record_is_in_the_file_after_a_second),
	    DAEMON_TEST(test_process_is_described),
	    DAEMON_TEST(test_status_tells_of_each_process),
	    DAEMON_TEST(test_ranks_of_one_trace_come_together_and_only_once),
	    DAEMON_TEST(test_sigterm_drains_first),
	    DAEMON_TEST(test_thread_that_ends_without_a_daemon_loses_nothing),
	    DAEMON_TEST(test_wait_is_for_one_session_where_one_is_named),
	    DAEMON_TEST(test_daemon_sleeps_while_nothing_happens),
	    DAEMON_TEST(test_overwritten_wake_up_stops_nobody),
	    DAEMON_TEST(test_idle_daemon_ends_itself),
	};

	/*
	 * /proc shows the environment of the start, and its bytes need not be UTF-8: set them
	 * before that.
	 */
	if (!getenv("TEST_LOGD_ODD")) {
		setenv("TEST_LOGD_ODD", "\xff\xfe odd", 1);
		execv("/proc/self/exe", argv);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
