/* SPDX-License-Identifier: BSD-2-Clause */
/* The progress bar, on a terminal of this test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "replay/print/progress.h"
#include "replay/print/say.h"

static int master = -1, saved = -1;

static int set_up(void **state)
{
	struct winsize size = {.ws_row = 24, .ws_col = 100};
	int slave;

	if (openpty(&master, &slave, NULL, NULL, &size))
		return -1;
	fcntl(master, F_SETFL, O_NONBLOCK);
	saved = dup(STDERR_FILENO);
	dup2(slave, STDERR_FILENO);
	close(slave);
	return 0;
}

static int tear_down(void **state)
{
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(master);
	return 0;
}

static char *printed(void)
{
	static char text[8192];
	struct pollfd p = {.fd = master, .events = POLLIN};
	size_t n = 0;
	ssize_t more;

	fflush(stderr);
	/* The kernel passes it on a little later. */
	while (poll(&p, 1, 100) > 0 && (more = read(master, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)more;
	text[n] = '\0';
	return text;
}

static void set_columns(unsigned short n)
{
	struct winsize size = {.ws_row = 24, .ws_col = n};

	assert_int_equal(ioctl(master, TIOCSWINSZ, &size), 0);
}

static void short_work_has_no_bar(void **state)
{
	sr_progress bar = sr_progress_begin("testing", 1000, false);

	assert_non_null(bar);
	bar(0.1);
	bar(1);
	sr_progress_end();
	assert_string_equal(printed(), "");
}

static void has_share_rate_and_the_time_left(void **state)
{
	sr_progress bar = sr_progress_begin("testing", 40000000, false);
	const char *text;

	usleep(600000);
	bar(0.25);
	text = printed();
	assert_non_null(strstr(text, "\rsreplay: testing [##########                              ]  25 %, "));
	assert_non_null(strstr(text, " MB/s"));
	assert_null(strstr(text, "left"));
	usleep(1500000);
	bar(0.5);
	bar(0.51); /* too soon after it */
	text = printed();
	assert_non_null(strstr(text, " 50 %, "));
	assert_non_null(strstr(text, " s left\033[K"));
	assert_null(strstr(text, " 51 %"));
	sr_progress_end();
	assert_string_equal(printed(), "\r\033[K");
	sr_progress_end();
	assert_string_equal(printed(), "");
}

static void a_message_erases_it(void **state)
{
	sr_progress bar = sr_progress_begin("testing", 0, false);

	usleep(600000);
	bar(0.5);
	printed();
	sr_note("a message");
	assert_string_equal(printed(), "\r\033[Ksreplay: a message\r\n");
	bar(0.6); /* and comes back at once */
	assert_non_null(strstr(printed(), " 60 %\033[K"));
	sr_progress_end();
}

/* A line that is longer than the terminal would scroll each time it is drawn. */
static void fits_in_a_narrow_terminal(void **state)
{
	static const unsigned short widths[] = {79, 60, 50, 40, 30, 12, 8, 3};

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		sr_progress bar = sr_progress_begin("testing", 12345678, false);
		const char *text, *end;

		set_columns(widths[i]);
		usleep(510000);
		bar(0.5);
		text = printed();
		end = strstr(text, "\033[K");
		assert_non_null(end);
		assert_true(end - text - 1 < widths[i]);
		assert_true(widths[i] < 8 || strstr(text, " 50 %"));
		sr_progress_end();
		printed();
	}
	set_columns(100);
}

static void counts_of_things(void **state)
{
	sr_progress_begin("testing", 0, false);
	usleep(600000);
	sr_progress_count(1023, 4096);
	assert_string_equal(printed(), "");
	sr_progress_count(1024, 4096);
	assert_non_null(strstr(printed(), " 25 %"));
	sr_progress_end();
	printed();
}

static void shares_that_are_none_are_left_out(void **state)
{
	sr_progress bar = sr_progress_begin("testing", 0, false);

	usleep(510000);
	bar(0.0 / 0.0);
	bar(1.1);
	bar(-0.1);
	assert_string_equal(printed(), "");
	sr_progress_end();
}

static void quiet_and_pipes_have_none(void **state)
{
	int ends[2];
	char c;

	assert_null(sr_progress_begin("testing", 0, true));
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	dup2(ends[1], STDERR_FILENO);
	assert_null(sr_progress_begin("testing", 0, false));
	usleep(510000);
	sr_progress_count(1024, 2048);
	sr_progress_end();
	assert_int_equal(read(ends[0], &c, 1), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(short_work_has_no_bar),
	    cmocka_unit_test(has_share_rate_and_the_time_left),
	    cmocka_unit_test(a_message_erases_it),
	    cmocka_unit_test(fits_in_a_narrow_terminal),
	    cmocka_unit_test(counts_of_things),
	    cmocka_unit_test(shares_that_are_none_are_left_out),
	    cmocka_unit_test(quiet_and_pipes_have_none),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
