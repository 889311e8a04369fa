/* SPDX-License-Identifier: BSD-2-Clause */
/* Regular files that recorded processes read: what the trace contains about them. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness.h"
#include "shim/files/inputs.h"

struct fixture {
	struct harness h;
	struct sr_client client;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char error[400] = "";

	harness_begin(&f->h);
	daemon_start(&f->h, NULL);
	*state = f;
	return connect_as(&f->h, &f->client, 0, error, sizeof(error));
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	sr_files_stop();
	sr_client_abandon(&f->client);
	harness_end(&f->h);
	free(f);
	return 0;
}

/* The path of a file in the harness's directory. */
static const char *in_dir(const struct fixture *f, const char *name)
{
	static char path[2][200];
	static int turn;

	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", f->h.dir, name);
	return path[turn];
}

static void write_now(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int64_t coarse_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/*
 * The recording begins when the coarse clock shows a later time than that of all files, which may have
 * the time between two of its ticks.
 */
static void start(struct fixture *f, bool keep)
{
	for (int i = 0; i < 2; i++) {
		int64_t before = coarse_now();

		while (coarse_now() == before)
			;
	}
	sr_files_start(&f->client, keep, false);
}

static struct sr_opened_file opened; /* the last one */

static void open_as_program(const char *path, int flags)
{
	int fd = open(path, flags, 0600);

	assert_true(fd >= 0);
	sr_files_opened(fd, flags, &opened);
	close(fd);
}

/* From the first one on, each file is noted with its hash, or why it has none. */
static bool is_done(const json_t *files, size_t first)
{
	size_t i;
	json_t *file;

	json_array_foreach(files, i, file)
		if (i >= first && !json_object_get(file, "xxh3") && !json_object_get(file, "changed") &&
		    !json_object_get(file, "error"))
			return false;
	return true;
}

/* Returns what the trace contains when all is written. */
static json_t *noted_from(struct fixture *f, size_t first)
{
	struct sr_trace *t;
	struct sr_error err;
	json_t *files = NULL;

	for (int i = 0; i < 1000; i++) {
		assert_int_equal(sr_trace_open(&t, f->h.trace, &err), 0);
		files = sr_trace_files(t, 0, &err);
		assert_non_null(files);
		sr_trace_close(t);
		if (is_done(files, first))
			return files;
		json_decref(files);
		sleep_us(20000);
	}
	fail_msg("the files are not noted to the end");
	return NULL;
}

static json_t *noted(struct fixture *f)
{
	return noted_from(f, 0);
}

static const char *text_of(const json_t *files, size_t i, const char *key)
{
	return json_string_value(json_object_get(json_array_get(files, i), key));
}

/* As old as most inputs are. */
static void write_long_ago(const char *path, const char *text)
{
	const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};

	write_now(path, text);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void test_each_input_is_noted_once_with_size_and_hash(void **state)
{
	struct fixture *f = *state;
	json_t *files;

	write_long_ago(in_dir(f, "a"), "abc");
	write_long_ago(in_dir(f, "b"), "");
	start(f, false);
	open_as_program(in_dir(f, "a"), O_RDONLY);
	open_as_program(in_dir(f, "b"), O_RDONLY);
	open_as_program(in_dir(f, "a"), O_RDONLY);
	assert_int_equal(opened.note, 1);
	files = noted(f);
	assert_int_equal(json_array_size(files), 2);
	assert_string_equal(text_of(files, 0, "path"), in_dir(f, "a"));
	assert_int_equal(json_integer_value(json_object_get(json_array_get(files, 0), "size")), 3);
	/* XXH3 (64 bits) of "abc" and of nothing, from its specification. */
	assert_string_equal(text_of(files, 0, "xxh3"), "78af5f94892f3950");
	assert_string_equal(text_of(files, 1, "xxh3"), "2d06800538d394c2");
	assert_null(text_of(files, 0, "kept"));
	json_decref(files);
}

static void test_what_is_no_input_is_not_noted(void **state)
{
	struct fixture *f = *state;
	json_t *files;

	write_now(in_dir(f, "old"), "abc");
	start(f, false);
	open_as_program(in_dir(f, "old"), O_WRONLY | O_TRUNC);
	open_as_program(in_dir(f, "new"), O_RDWR | O_CREAT);
	open_as_program("/proc/self/stat", O_RDONLY);
	open_as_program("/dev/null", O_RDWR);
	open_as_program(f->h.dir, O_RDONLY | O_DIRECTORY);
	files = noted(f);
	assert_int_equal(json_array_size(files), 0);
	json_decref(files);
}

/* Another process may have written it, too: of a small one it is kept what the program finds there. */
static void test_a_small_file_of_its_own_is_an_input_when_it_reads_it(void **state)
{
	struct fixture *f = *state;
	char content[65 * 1024] = "";
	json_t *files;

	start(f, false);
	open_as_program(in_dir(f, "new"), O_RDWR | O_CREAT);
	write_now(in_dir(f, "new"), "by the program");
	open_as_program(in_dir(f, "new"), O_RDONLY);
	assert_true(opened.note == 1 && opened.own);
	open_as_program(in_dir(f, "large"), O_RDWR | O_CREAT);
	memset(content, 'x', sizeof(content) - 1);
	write_now(in_dir(f, "large"), content);
	open_as_program(in_dir(f, "large"), O_RDONLY);
	assert_true(!opened.note && opened.own);
	files = noted(f);
	assert_int_equal(json_array_size(files), 1);
	assert_string_equal(text_of(files, 0, "path"), in_dir(f, "new"));
	json_decref(files);
}

static void test_a_file_that_is_written_to_in_place_is_an_input(void **state)
{
	struct fixture *f = *state;
	json_t *files;

	write_now(in_dir(f, "log"), "abc");
	start(f, false);
	open_as_program(in_dir(f, "log"), O_WRONLY | O_APPEND);
	assert_true(opened.note == 1 && !opened.own);
	write_now(in_dir(f, "log"), "abcd");
	open_as_program(in_dir(f, "log"), O_RDONLY);
	assert_true(opened.note == 2 && opened.own);
	files = noted(f);
	assert_int_equal(json_array_size(files), 2);
	assert_string_equal(text_of(files, 0, "xxh3"), "78af5f94892f3950");
	assert_string_equal(text_of(files, 0, "path"), in_dir(f, "log"));
	assert_non_null(text_of(files, 0, "kept"));
	json_decref(files);
}

/* The second line about it has the content, under the same number. */
static void test_an_input_that_ends_is_kept(void **state)
{
	struct fixture *f = *state;
	json_t *files;

	write_long_ago(in_dir(f, "a"), "abc");
	start(f, false);
	open_as_program(in_dir(f, "a"), O_RDONLY);
	sr_files_ends(AT_FDCWD, in_dir(f, "a"), false);
	unlink(in_dir(f, "a"));
	sr_files_ends(AT_FDCWD, in_dir(f, "never seen"), false);
	files = noted(f);
	assert_int_equal(json_array_size(files), 2);
	assert_null(text_of(files, 0, "kept"));
	assert_string_equal(text_of(files, 0, "xxh3"), "78af5f94892f3950");
	assert_string_equal(text_of(files, 1, "kept"), "files/78af5f94892f3950-3");
	assert_int_equal(json_integer_value(json_object_get(json_array_get(files, 1), "note")), 1);
	json_decref(files);
}

/* By a rank that was started first, and may remove it before the replay. */
static void test_what_is_about_as_old_as_the_program_is_kept(void **state)
{
	struct fixture *f = *state;
	json_t *files;

	write_now(in_dir(f, "a"), "abc");
	start(f, false);
	open_as_program(in_dir(f, "a"), O_RDONLY);
	files = noted(f);
	assert_int_equal(json_array_size(files), 1);
	assert_string_equal(text_of(files, 0, "kept"), "files/78af5f94892f3950-3");
	json_decref(files);
}

/* By a child of the program, for instance. */
static void test_what_was_written_since_the_recording_began_is_kept(void **state)
{
	struct fixture *f = *state;
	json_t *files;

	sr_files_start(&f->client, false, false);
	write_now(in_dir(f, "a"), "abc");
	open_as_program(in_dir(f, "a"), O_RDONLY);
	write_now(in_dir(f, "a"), "abcd");
	open_as_program(in_dir(f, "a"), O_RDONLY);
	assert_int_equal(opened.note, 2);
	files = noted(f);
	assert_int_equal(json_array_size(files), 2);
	assert_string_equal(text_of(files, 0, "kept"), "files/78af5f94892f3950-3");
	assert_non_null(text_of(files, 1, "kept"));
	json_decref(files);
}

/* The number of files, including drafts, in a directory of the trace. */
static int entries_of(const struct fixture *f, const char *name)
{
	char path[400];
	struct dirent *e;
	int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/%s", f->h.trace, name);
	d = opendir(path);
	assert_non_null(d);
	while ((e = readdir(d)))
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(d);
	return n;
}

static void test_kept_content_is_in_the_trace(void **state)
{
	struct fixture *f = *state;
	char path[400], text[100] = "";
	json_t *files;
	FILE *kept;

	write_now(in_dir(f, "a"), "the content");
	write_now(in_dir(f, "same"), "the content");
	start(f, true);
	open_as_program(in_dir(f, "a"), O_RDONLY);
	open_as_program(in_dir(f, "same"), O_RDONLY);
	files = noted(f);
	unlink(in_dir(f, "a"));
	assert_string_equal(text_of(files, 0, "kept"), text_of(files, 1, "kept"));
	snprintf(path, sizeof(path), "%s/%s", f->h.trace, text_of(files, 0, "kept"));
	kept = fopen(path, "r");
	assert_non_null(kept);
	assert_non_null(fgets(text, sizeof(text), kept));
	assert_string_equal(text, "the content");
	fclose(kept);
	assert_int_equal(entries_of(f, "files"), 1);
	json_decref(files);
}

/* The daemon is busy with another file and far behind the program. */
static void test_a_file_that_changes_before_it_is_hashed_is_told(void **state)
{
	struct fixture *f = *state;
	const json_t *file;
	json_t *files;

	write_now(in_dir(f, "big"), "x");
	assert_int_equal(truncate(in_dir(f, "big"), 400 << 20), 0);
	write_now(in_dir(f, "a"), "abc");
	start(f, true);
	open_as_program(in_dir(f, "big"), O_RDONLY); /* takes the daemon a while */
	open_as_program(in_dir(f, "a"), O_RDONLY);
	write_now(in_dir(f, "a"), "abd");
	files = noted(f);
	assert_int_equal(json_array_size(files), 2);
	file = json_array_get(files, 1);
	assert_true(json_is_true(json_object_get(file, "changed")));
	assert_null(json_object_get(file, "xxh3"));
	assert_null(json_object_get(file, "kept"));
	assert_int_equal(entries_of(f, "files"), 1); /* the big one */
	json_decref(files);
}

/* A database reserves more room than it fills. */
static void test_of_a_large_file_that_will_be_written_the_data_is_kept(void **state)
{
	struct fixture *f = *state;
	json_t *files;
	char path[PATH_MAX];
	struct stat st;

	write_now(in_dir(f, "big"), "x");
	assert_int_equal(truncate(in_dir(f, "big"), 400 << 20), 0);
	start(f, false);
	open_as_program(in_dir(f, "big"), O_RDWR);
	files = noted(f);
	snprintf(path, sizeof(path), "%s/%s", f->h.trace, text_of(files, 0, "kept"));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 400 << 20);
	assert_true(st.st_blocks * 512 <= 1 << 20);
	json_decref(files);
}

/* Ranks meet in memory that has its size before it has any data: MPI's shared windows, of many GiB. */
static void test_of_memory_that_processes_share_the_size_is_kept(void **state)
{
	const off_t size = 20ll << 30;
	struct fixture *f = *state;
	char shared[64], path[PATH_MAX];
	json_t *files;
	struct stat st;

	snprintf(shared, sizeof(shared), "/dev/shm/sreplay-test-%d", getpid());
	write_now(shared, "");
	assert_int_equal(truncate(shared, size), 0);
	start(f, false);
	open_as_program(shared, O_RDWR);
	unlink(shared);
	files = noted(f);
	assert_non_null(text_of(files, 0, "kept"));
	snprintf(path, sizeof(path), "%s/%s", f->h.trace, text_of(files, 0, "kept"));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, size);
	assert_true(st.st_blocks * 512 <= 1 << 20);
	json_decref(files);
}

static void test_a_killed_daemon_has_noted_that_there_was_a_file(void **state)
{
	struct fixture *f = *state;
	struct sr_trace *t;
	struct sr_error err;
	json_t *files;

	write_now(in_dir(f, "big"), "x");
	assert_int_equal(truncate(in_dir(f, "big"), 2l << 30), 0);
	start(f, false);
	open_as_program(in_dir(f, "big"), O_RDONLY);
	daemon_kill(&f->h, SIGKILL);
	assert_int_equal(sr_trace_open(&t, f->h.trace, &err), 0);
	files = sr_trace_files(t, 0, &err);
	assert_int_equal(json_array_size(files), 1);
	assert_string_equal(text_of(files, 0, "path"), in_dir(f, "big"));
	assert_null(text_of(files, 0, "xxh3"));
	json_decref(files);
	sr_trace_close(t);
	/* The next daemon accepts what comes then. */
	daemon_start(&f->h, NULL);
	write_now(in_dir(f, "a"), "abc");
	open_as_program(in_dir(f, "a"), O_RDONLY);
	files = noted_from(f, 1);
	assert_int_equal(json_array_size(files), 2);
	assert_string_equal(text_of(files, 1, "xxh3"), "78af5f94892f3950");
	json_decref(files);
}

static void append_to_list(struct fixture *f, const char *text)
{
	char path[300];
	FILE *list;

	snprintf(path, sizeof(path), "%s/rank-0/files.jsonl", f->h.trace);
	list = fopen(path, "a");
	assert_non_null(list);
	fputs(text, list);
	fclose(list);
}

static void test_damage_is_noticed_and_a_torn_line_is_not_damage(void **state)
{
	struct fixture *f = *state;
	struct sr_trace *t;
	struct sr_error err;
	json_t *files;

	write_now(in_dir(f, "a"), "abc");
	start(f, false);
	open_as_program(in_dir(f, "a"), O_RDONLY);
	json_decref(noted(f));
	append_to_list(f, "{\"file\":\"x\",\"pa");
	files = noted(f);
	assert_int_equal(json_array_size(files), 1);
	json_decref(files);
	/* The trace must not lead its reader to other files. */
	append_to_list(
	    f, "\n{\"file\":\"x\",\"path\":\"/x\",\"size\":1,\"kept\":\"files/../../x\"}\n");
	assert_int_equal(sr_trace_open(&t, f->h.trace, &err), 0);
	assert_null(sr_trace_files(t, 0, &err));
	assert_non_null(strstr(err.text, "files.jsonl: line 3 is damaged"));
	sr_trace_close(t);
}

int main(void)
{
#define FILES_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    FILES_TEST(test_each_input_is_noted_once_with_size_and_hash),
	    FILES_TEST(test_what_is_no_input_is_not_noted),
	    FILES_TEST(test_a_small_file_of_its_own_is_an_input_when_it_reads_it),
	    FILES_TEST(test_a_file_that_is_written_to_in_place_is_an_input),
	    FILES_TEST(test_an_input_that_ends_is_kept),
	    FILES_TEST(test_what_is_about_as_old_as_the_program_is_kept),
	    FILES_TEST(test_what_was_written_since_the_recording_began_is_kept),
	    FILES_TEST(test_kept_content_is_in_the_trace),
	    FILES_TEST(test_a_file_that_changes_before_it_is_hashed_is_told),
	    FILES_TEST(test_of_a_large_file_that_will_be_written_the_data_is_kept),
	    FILES_TEST(test_of_memory_that_processes_share_the_size_is_kept),
	    FILES_TEST(test_a_killed_daemon_has_noted_that_there_was_a_file),
	    FILES_TEST(test_damage_is_noticed_and_a_torn_line_is_not_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
