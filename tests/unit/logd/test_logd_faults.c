/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults around the daemon: the program continues, and the trace and a message say what happened.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness.h"
#include "pattern.h"
#include "logd/base/rawsys.h"
#include "logd/ring/request.h"

#define SEED 9

static int set_up(void **state)
{
	static const char *const options[] = {"--level", "0", NULL};
	struct harness *h = calloc(1, sizeof(*h));

	harness_begin(h);
	daemon_start(h, options);
	*state = h;
	return 0;
}

/* Some tests mount a file system of their own in the harness's directory. */
static void unmount_small(struct harness *h)
{
	char dir[100];

	snprintf(dir, sizeof(dir), "%s/small", h->dir);
	umount2(dir, MNT_DETACH);
}

static int tear_down(void **state)
{
	unmount_small(*state);
	harness_end(*state);
	free(*state);
	return 0;
}

struct client {
	struct sr_client c;
	struct sr_ring ring;
};

static void begin(struct harness *h, struct client *c)
{
	char error[400] = "";

	memset(c, 0, sizeof(*c));
	assert_int_equal(connect_as(h, &c->c, 0, error, sizeof(error)), 0);
	assert_int_equal(sr_client_open_ring(&c->c, 0, 256 << 10, &c->ring), 0);
}

/* Writes until the ring stops; returns the number of records. The program never waits for long. */
static uint64_t write_until_stopped(struct client *c, uint64_t most)
{
	for (uint64_t n = 0; n < most; n++) {
		if (!pattern_write(&c->ring, SEED, n))
			return n;
	}
	return most;
}

static void check_goes_on_fast(struct client *c)
{
	int64_t start = sr_sys_now_ms();

	for (int i = 0; i < 100000; i++)
		assert_null(sr_ring_reserve(&c->ring, SR_REC_CALL, 8));
	assert_true(sr_sys_now_ms() - start < 2000);
	assert_int_equal(sr_client_finish(&c->c, 5000), 0);
}

static void expect_stopped(struct harness *h, uint64_t written, int error)
{
	struct stream_check found;

	assert_true(check_stream(h->trace, 0, 0, SEED, &found));
	assert_true(found.records > 0 && found.records <= written);
	assert_int_equal(found.mark, SR_MARK_STOPPED);
	assert_int_equal(found.mark_argument, error);
}

static bool log_says(struct harness *h, const char *words)
{
	char path[200], text[8192] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/daemon.log", h->trace);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		return false;
	close(fd);
	return strstr(text, words);
}

/* ---- the file system ---- */

static bool mount_small(struct harness *h, const char *options)
{
	char dir[100];

	snprintf(dir, sizeof(dir), "%s/small", h->dir);
	mkdir(dir, 0700);
	snprintf(h->trace, sizeof(h->trace), "%s/t.srec", dir);
	return mount("none", dir, "tmpfs", 0, options) == 0;
}

static void test_full_disk(void **state)
{
	struct harness *h = *state;
	struct client c;
	uint64_t n;

	if (!mount_small(h, "size=2m"))
		skip();
	begin(h, &c);
	n = write_until_stopped(&c, 1000000);
	assert_true(n < 1000000);
	check_goes_on_fast(&c);
	expect_stopped(h, n, ENOSPC);
	sr_client_abandon(&c.c);
}

static void test_read_only_file_system(void **state)
{
	struct harness *h = *state;
	struct sr_client c = {0};
	char dir[100], error[400] = "";

	if (!mount_small(h, "size=2m"))
		skip();
	snprintf(dir, sizeof(dir), "%s/small", h->dir);
	assert_int_equal(mount("none", dir, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
	assert_int_equal(connect_as(h, &c, 0, error, sizeof(error)), -EROFS);
	assert_non_null(strstr(error, h->trace));
	assert_non_null(strstr(error, "Read-only"));
}

static void test_file_size_limit(void **state)
{
	struct rlimit limit = {1000000, 1000000};
	struct harness *h = *state;
	struct client c;
	uint64_t n;

	assert_int_equal(prlimit(h->daemon, RLIMIT_FSIZE, &limit, NULL), 0);
	begin(h, &c);
	n = write_until_stopped(&c, 1000000);
	assert_true(n < 1000000);
	check_goes_on_fast(&c);
	expect_stopped(h, n, EFBIG);
	assert_true(log_says(h, "rank-0/thread-0.srs"));
	assert_true(log_says(h, "File too large"));
	sr_client_abandon(&c.c);
}

static void test_removed_directory(void **state)
{
	struct harness *h = *state;
	char command[200];
	struct client c;

	begin(h, &c);
	assert_true(pattern_write(&c.ring, SEED, 0));
	assert_int_equal(sr_client_finish(&c.c, 5000), 0);
	snprintf(command, sizeof(command), "rm -rf %s", h->trace);
	assert_int_equal(system(command), 0);
	assert_true(write_until_stopped(&c, 1000000) < 1000000);
	check_goes_on_fast(&c);
	sr_client_abandon(&c.c);
}

static void test_directory_that_is_no_trace_is_left_alone(void **state)
{
	struct harness *h = *state;
	struct sr_client c = {0};
	char error[400] = "";

	snprintf(h->trace, sizeof(h->trace), "%s", h->dir); /* holds the socket's directory */
	assert_int_equal(connect_as(h, &c, 0, error, sizeof(error)), -ENOTEMPTY);
	assert_non_null(strstr(error, "is not a trace"));
	snprintf(h->trace, sizeof(h->trace), "%s/no/such/t.srec", h->dir);
	assert_int_equal(connect_as(h, &c, 0, error, sizeof(error)), -ENOENT);
	snprintf(h->trace, sizeof(h->trace), "%s/s/logd.sock.lock/t.srec", h->dir);
	assert_int_equal(connect_as(h, &c, 0, error, sizeof(error)), -ENOTDIR);
}

static void test_directory_that_may_not_be_written(void **state)
{
	struct harness *h = *state;
	struct sr_client c = {0};
	char error[400] = "";
	int status;
	pid_t pid;

	if (geteuid())
		skip();
	/* A daemon without root's rights. */
	daemon_kill(h, SIGTERM);
	chmod(h->dir, 0755);
	pid = fork();
	if (pid == 0) {
		struct harness mine = *h;

		snprintf(mine.socket, sizeof(mine.socket), "/tmp/sreplay-test-nobody-%d/s",
			 (int)getpid());
		if (setgid(65534) || setuid(65534))
			_exit(1);
		daemon_start(&mine, NULL);
		if (connect_as(&mine, &c, 0, error, sizeof(error)) != -EACCES ||
		    !strstr(error, mine.trace))
			_exit(2);
		daemon_kill(&mine, SIGTERM);
		strcpy(strrchr(mine.socket, '/'), "/s.lock");
		unlink(mine.socket);
		*strrchr(mine.socket, '/') = 0;
		rmdir(mine.socket);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

/* ---- others ---- */

static void test_other_users_process_is_refused(void **state)
{
	struct harness *h = *state;
	char path[200], error[400] = "";
	int status;
	pid_t pid;

	if (geteuid())
		skip();
	/* Even where the file system would let it. */
	chmod(h->dir, 0755);
	snprintf(path, sizeof(path), "%s/s", h->dir);
	chmod(path, 0755);
	chmod(h->socket, 0666);
	pid = fork();
	if (pid == 0) {
		struct sr_client c = {0};

		if (setgid(65534) || setuid(65534))
			_exit(1);
		_exit(connect_as(h, &c, 0, error, sizeof(error)) == -EACCES &&
			      strstr(error, "another user")
			  ? 0
			  : 2);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(access(h->trace, F_OK), -1);
}

static void test_second_daemon_is_refused(void **state)
{
	struct harness *h = *state;
	char command[400], line[300] = "", number[20];
	FILE *out;

	snprintf(command, sizeof(command), "%s --socket %s 2>&1", getenv("SREPLAY_LOGD"),
		 h->socket);
	out = popen(command, "r");
	assert_non_null(fgets(line, sizeof(line), out));
	assert_true(pclose(out) != 0);
	snprintf(number, sizeof(number), "process %d", (int)h->daemon);
	assert_non_null(strstr(line, "another sreplay-logd"));
	assert_non_null(strstr(line, number));
}

/*
 * A killed daemon keeps its lock until the process is gone. Here a process holds the lock
 * and answers nobody.
 */
static void test_dying_daemon_is_waited_for(void **state)
{
	struct harness *h = *state;
	char lock[300];
	int fd, status;
	pid_t dying;

	daemon_kill(h, SIGKILL);
	snprintf(lock, sizeof(lock), "%s.lock", h->socket);
	fd = open(lock, O_RDWR);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	dying = fork();
	if (dying == 0) {
		sleep_us(700000);
		_exit(0);
	}
	close(fd);
	daemon_start(h, NULL);
	/* The new daemon did not start while the old one lived. */
	assert_int_equal(waitpid(dying, &status, WNOHANG), dying);
	/* Killed and not waited for, as a shell does it. */
	kill(h->daemon, SIGKILL);
	dying = h->daemon;
	daemon_start(h, NULL);
	waitpid(dying, &status, 0);
	assert_true(WIFSIGNALED(status));
}

static void test_recorded_rank_is_refused(void **state)
{
	struct sr_client first = {0}, second = {0};
	char error[400] = "";

	assert_int_equal(connect_as(*state, &first, 4, error, sizeof(error)), 0);
	assert_int_equal(connect_as(*state, &second, 4, error, sizeof(error)), -EEXIST);
	assert_non_null(strstr(error, "rank 4"));
	assert_int_equal(connect_as(*state, &second, -1, error, sizeof(error)), -EINVAL);
	sr_client_abandon(&first);
}

/* ---- the program and the daemon ---- */

static void test_program_that_writes_over_its_ring(void **state)
{
	struct harness *h = *state;
	struct client c;

	begin(h, &c);
	for (uint64_t n = 0; n < 100; n++)
		assert_true(pattern_write(&c.ring, SEED, n));
	assert_int_equal(sr_client_finish(&c.c, 5000), 0);
	((struct sr_record *)sr_ring_reserve(&c.ring, SR_REC_CALL, 64))[-1].size = 3;
	atomic_fetch_add(&c.ring.shared->head, 72);
	assert_int_equal(sr_client_finish(&c.c, 5000), 0);
	expect_stopped(h, 100, EINVAL);
	sr_client_abandon(&c.c);
}

static void test_daemon_that_does_not_come_back(void **state)
{
	struct harness *h = *state;
	struct client c;

	begin(h, &c);
	sr_client_set_stall_timeout(&c.c, 300);
	daemon_kill(h, SIGKILL);
	assert_true(write_until_stopped(&c, 1000000) < 1000000);
	for (int i = 0; i < 100000; i++)
		assert_null(sr_ring_reserve(&c.ring, SR_REC_CALL, 8));
	assert_true(sr_client_finish(&c.c, 1000) < 0);
	sr_client_abandon(&c.c);
}

/* ---- a daemon that hangs ---- */

static int give_ups;

static void count_give_up(int error)
{
	give_ups++;
}

static void ignore_wait(const char *what)
{
}

static const struct sr_client_hooks hooks = {.waits = ignore_wait, .gives_up = count_give_up};

static void test_silent_daemon_delays_no_new_thread(void **state)
{
	struct harness *h = *state;
	struct stream_check found;
	struct sr_ring rings[6];
	struct client c;
	int64_t before;

	begin(h, &c);
	kill(h->daemon, SIGSTOP);
	for (uint32_t i = 0; i < 6; i++) {
		before = sr_sys_now_ms();
		assert_int_equal(sr_client_open_ring(&c.c, i + 1, 256 << 10, &rings[i]), 0);
		assert_true(sr_sys_now_ms() - before < 500);
		for (uint64_t n = 0; n < 20; n++)
			assert_true(pattern_write(&rings[i], SEED, n));
	}
	kill(h->daemon, SIGCONT);
	/* The daemon continues, and nothing was lost. */
	assert_int_equal(sr_client_finish(&c.c, 20000), 0);
	for (uint32_t i = 0; i < 6; i++) {
		assert_true(check_stream(h->trace, 0, i + 1, SEED, &found));
		assert_int_equal(found.records, 20);
	}
	sr_client_abandon(&c.c);
}

static void test_silent_daemon_is_given_up_once(void **state)
{
	struct harness *h = *state;
	struct stream_check found;
	struct client c;
	uint64_t n;

	begin(h, &c);
	sr_client_set_stall_timeout(&c.c, 300);
	sr_client_set_hooks(&c.c, &hooks);
	give_ups = 0;
	kill(h->daemon, SIGSTOP);
	n = write_until_stopped(&c, 1000000);
	assert_true(n < 1000000);
	assert_int_equal(give_ups, 1);
	for (int i = 0; i < 1000; i++)
		assert_null(sr_ring_reserve(&c.ring, SR_REC_CALL, 8));
	assert_true(sr_client_finish(&c.c, 1000) < 0);
	assert_int_equal(give_ups, 1);
	/* The content of the ring is written, and the mark says that records are missing. */
	kill(h->daemon, SIGCONT);
	sr_ring_close(&c.ring);
	for (int i = 0; i < 1000; i++) {
		/* The daemon may have been stopped before it made the file. */
		if (check_stream(h->trace, 0, 0, SEED, &found) && found.mark)
			break;
		sleep_us(10000);
	}
	assert_int_equal(found.records, n);
	assert_int_equal(found.mark, SR_MARK_STOPPED);
	sr_client_abandon(&c.c);
}

static void test_late_answer_is_not_taken_for_another(void **state)
{
	struct sr_message request, answer;
	struct harness *h = *state;
	int fd = -1, socket = sr_request_connect(h->socket);

	assert_true(socket >= 0);
	sr_message_init(&request, SR_MSG_STATUS);
	kill(h->daemon, SIGSTOP);
	assert_int_equal(sr_request(socket, &request, -1, &answer, &fd, 100), -ETIMEDOUT);
	kill(h->daemon, SIGCONT);
	sr_message_init(&request, SR_MSG_FILE);
	assert_int_equal(sr_request(socket, &request, -1, &answer, &fd, 5000), 0);
	assert_int_equal(answer.type, SR_MSG_FILE);
	assert_int_equal(answer.error, -ENOTCONN);
	assert_int_equal(fd, -1);
	close(socket);
}

static void test_silent_daemon_with_a_full_queue_is_not_waited_for(void **state)
{
	struct sr_message request, answer;
	struct harness *h = *state;
	int socket = sr_request_connect(h->socket);
	int64_t before;

	kill(h->daemon, SIGSTOP);
	sr_message_init(&request, SR_MSG_STATUS);
	alarm(60);
	/* The socket takes a few hundred requests before the next would wait. */
	for (int i = 0; i < 2000; i++)
		assert_int_equal(sr_request(socket, &request, -1, &answer, NULL, 0), -ETIMEDOUT);
	before = sr_sys_now_ms();
	assert_int_equal(sr_request(socket, &request, -1, &answer, NULL, 200), -ETIMEDOUT);
	assert_true(sr_sys_now_ms() - before < 2000);
	alarm(0);
	close(socket);
	kill(h->daemon, SIGCONT);
}

/* ---- a daemon without descriptors ---- */

/* Clock ticks of CPU time so far. */
static unsigned long cpu_ticks(pid_t pid)
{
	unsigned long user = 0, system = 0;
	char name[64], text[1024];
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
	file = fopen(name, "r");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	assert_int_equal(sscanf(strrchr(text, ')'),
				") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
				&system),
			 2);
	return user + system;
}

static void test_daemon_without_descriptors_waits_quietly(void **state)
{
	struct rlimit old, few = {0};
	struct harness *h = *state;
	unsigned long ticks;
	int sockets[64], fd;

	assert_int_equal(prlimit(h->daemon, RLIMIT_NOFILE, NULL, &old), 0);
	few = (struct rlimit){32, old.rlim_max};
	assert_int_equal(prlimit(h->daemon, RLIMIT_NOFILE, &few, NULL), 0);
	for (int i = 0; i < 64; i++)
		assert_true((sockets[i] = sr_request_connect(h->socket)) >= 0);
	sleep_us(100000);
	ticks = cpu_ticks(h->daemon);
	sleep_us(1000000);
	assert_true(cpu_ticks(h->daemon) - ticks < 20); /* of 100 */
	/* A waiting client is served when others have gone. */
	for (int i = 0; i < 64; i++)
		close(sockets[i]);
	fd = sr_client_status(h->socket, 5000);
	assert_true(fd >= 0);
	close(fd);
}

/* ---- the place of the socket ---- */

static bool daemon_starts_at(const struct harness *h, const char *place, char *words, size_t size)
{
	char command[600];
	FILE *out;

	/* It ends by itself; what it says goes into the pipe. */
	snprintf(command, sizeof(command), "exec timeout 5 %s --socket %s/%s --idle-exit 1 2>&1",
		 getenv("SREPLAY_LOGD"), h->dir, place);
	out = popen(command, "r");
	assert_non_null(out);
	words[fread(words, 1, size - 1, out)] = 0;
	return pclose(out) == 0;
}

static void test_socket_below_a_directory_of_others_is_refused(void **state)
{
	struct harness *h = *state;
	char path[200], words[600];

	snprintf(path, sizeof(path), "%s/open", h->dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0777), 0);
	snprintf(path, sizeof(path), "%s/open/mine", h->dir);
	assert_int_equal(mkdir(path, 0700), 0);
	/* Another user could move "mine" away and put his own there. */
	assert_false(daemon_starts_at(h, "open/mine/sock", words, sizeof(words)));
	snprintf(path, sizeof(path), "%s/open is not safe", h->dir);
	assert_non_null(strstr(words, path));
	/* The same by a link in the safe directory, and by a link out of the open one. */
	snprintf(path, sizeof(path), "%s/link", h->dir);
	assert_int_equal(symlink("open/mine", path), 0);
	assert_false(daemon_starts_at(h, "link/sock", words, sizeof(words)));
	snprintf(path, sizeof(path), "%s/good", h->dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/open/link", h->dir);
	assert_int_equal(symlink("../good", path), 0);
	assert_false(daemon_starts_at(h, "open/link/sock", words, sizeof(words)));
	snprintf(path, sizeof(path), "%s/to-good", h->dir);
	assert_int_equal(symlink("good", path), 0);
	assert_true(daemon_starts_at(h, "to-good/sock", words, sizeof(words)));
	if (geteuid())
		return;
	snprintf(path, sizeof(path), "%s/open", h->dir);
	chmod(path, 0755);
	assert_true(daemon_starts_at(h, "open/mine/sock", words, sizeof(words)));
	assert_int_equal(chown(path, 65534, 65534), 0);
	assert_false(daemon_starts_at(h, "open/mine/sock", words, sizeof(words)));
}

static void test_no_daemon_is_said_with_a_remedy(void **state)
{
	struct harness *h = *state;
	struct sr_client c = {0};
	char error[400] = "";

	daemon_kill(h, SIGTERM);
	assert_int_equal(connect_as(h, &c, 0, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, h->socket));
	assert_non_null(strstr(error, "sreplay-logd --daemonize"));
	/* Nothing is left of the client, and all functions still accept it. */
	sr_client_check(&c);
	assert_int_equal(sr_client_finish(&c, 10), -ENOTCONN);
	sr_client_abandon(&c);
}

int main(void)
{
#define FAULT_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    FAULT_TEST(test_full_disk),
	    FAULT_TEST(test_read_only_file_system),
	    FAULT_TEST(test_file_size_limit),
	    FAULT_TEST(test_removed_directory),
	    FAULT_TEST(test_directory_that_is_no_trace_is_left_alone),
	    FAULT_TEST(test_directory_that_may_not_be_written),
	    FAULT_TEST(test_other_users_process_is_refused),
	    FAULT_TEST(test_dying_daemon_is_waited_for),
	    FAULT_TEST(test_second_daemon_is_refused),
	    FAULT_TEST(test_recorded_rank_is_refused),
	    FAULT_TEST(test_program_that_writes_over_its_ring),
	    FAULT_TEST(test_daemon_that_does_not_come_back),
	    FAULT_TEST(test_silent_daemon_delays_no_new_thread),
	    FAULT_TEST(test_silent_daemon_is_given_up_once),
	    FAULT_TEST(test_late_answer_is_not_taken_for_another),
	    FAULT_TEST(test_silent_daemon_with_a_full_queue_is_not_waited_for),
	    FAULT_TEST(test_daemon_without_descriptors_waits_quietly),
	    FAULT_TEST(test_socket_below_a_directory_of_others_is_refused),
	    FAULT_TEST(test_no_daemon_is_said_with_a_remedy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
