/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/inherited.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "logd/base/rawsys.h"
#include "shim/files/fds.h"

#define STANDARD 3

static char text[SR_INHERITED_TEXT];
static size_t length;

static void put_number(int number)
{
	char digits[4], *at = digits + sizeof(digits);

	do
		*--at = (char)('0' + number % 10);
	while (number /= 10);
	while (at < digits + sizeof(digits))
		text[length++] = *at++;
}

/* Which of 0 to 2 leads to the same file; -1: none.  A terminal or pipe can be told by its number. */
static int standard_like(int fd)
{
	struct stat mine, other;

	if (sr_sys_fstat(fd, &mine))
		return -1;
	for (int i = STANDARD - 1; i >= 0; i--)
		if (!sr_sys_fstat(i, &other) && other.st_dev == mine.st_dev &&
		    other.st_ino == mine.st_ino && other.st_rdev == mine.st_rdev)
			return i;
	return -1;
}

static void note(int fd)
{
	int like = standard_like(fd);

	if (length)
		text[length++] = ',';
	put_number(fd);
	if (like >= 0) {
		text[length++] = '=';
		put_number(like);
	} else {
		sr_fd_capture(fd);
	}
}

void sr_inherited_find(void)
{
	struct pollfd p[SR_INHERITED_FDS - STANDARD];
	const struct timespec at_once = {0};
	const int n = sizeof(p) / sizeof(p[0]);

	for (int i = 0; i < n; i++)
		p[i] = (struct pollfd){.fd = i + STANDARD};
	/* One call finds which are open. */
	if (sr_syscall(SYS_ppoll, SR_ARG(p), n, SR_ARG(&at_once), 0, 0, 0) < 0)
		return;
	for (int i = 0; i < n; i++)
		if (!(p[i].revents & POLLNVAL))
			note(p[i].fd);
}

const char *sr_inherited_text(void)
{
	return text;
}

void sr_inherited_open(const uint8_t inherited[SR_INHERITED_FDS])
{
	for (int fd = STANDARD; fd < SR_INHERITED_FDS; fd++) {
		if (inherited[fd] == SR_INHERITED_CAPTURED)
			sr_fd_hold(fd);
		else if (inherited[fd])
			sr_syscall(SYS_dup3, inherited[fd] - SR_INHERITED_COPY, fd, 0, 0, 0, 0);
	}
}
