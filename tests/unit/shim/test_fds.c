/* SPDX-License-Identifier: BSD-2-Clause */
/* test_fds.c: what is reported about the descriptors that librdmacm opens and closes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shim/files/fds.h"
#include "shim/core/thread.h"

static void inside(void (*act)(int), int fd)
{
	sr_self.inside_rdmacm = true;
	act(fd);
	sr_self.inside_rdmacm = false;
}

static void assert_told(int expected, bool expected_open)
{
	int32_t fd;
	bool open;

	assert_true(sr_fd_next_change(&fd, &open));
	assert_int_equal(fd, expected);
	assert_int_equal(open, expected_open);
}

static void assert_nothing_told(void)
{
	int32_t fd;
	bool open;

	assert_false(sr_fd_next_change(&fd, &open));
}

static void what_the_program_does_is_not_told(void **state)
{
	sr_fd_capture(3);
	sr_fd_release(3);
	assert_nothing_told();
}

static void each_change_is_told_once(void **state)
{
	inside(sr_fd_capture, 4);
	inside(sr_fd_capture, 1000);
	inside(sr_fd_capture, SR_MAX_FD - 1);
	assert_told(4, true);
	assert_told(1000, true);
	assert_told(SR_MAX_FD - 1, true);
	assert_nothing_told();
	inside(sr_fd_release, 1000);
	assert_told(1000, false);
	assert_nothing_told();
}

static void the_last_state_is_told(void **state)
{
	inside(sr_fd_capture, 5);
	inside(sr_fd_release, 5);
	assert_told(5, false);
	inside(sr_fd_capture, 5);
	inside(sr_fd_release, 5);
	inside(sr_fd_capture, 5);
	assert_told(5, true);
	assert_nothing_told();
}

static void a_number_that_the_program_has_got_is_the_programs(void **state)
{
	inside(sr_fd_capture, 6);
	inside(sr_fd_release, 6);
	sr_fd_capture(6);
	assert_nothing_told();
}

static void what_is_no_descriptor_is_not_told(void **state)
{
	inside(sr_fd_capture, -1);
	inside(sr_fd_capture, SR_MAX_FD);
	inside(sr_fd_release, 7);
	assert_nothing_told();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_the_program_does_is_not_told),
	    cmocka_unit_test(each_change_is_told_once),
	    cmocka_unit_test(the_last_state_is_told),
	    cmocka_unit_test(a_number_that_the_program_has_got_is_the_programs),
	    cmocka_unit_test(what_is_no_descriptor_is_not_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
