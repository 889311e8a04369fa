/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/service/log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void put_line(int fd, const char *prefix, const char *text)
{
	char line[1400];
	int n = snprintf(line, sizeof(line), "%s%s\n", prefix, text);

	/* One write, so that lines of several threads and daemons do not mix. */
	if (write(fd, line, n < (int)sizeof(line) ? (size_t)n : sizeof(line) - 1) < 0)
		return; /* there is no other place to report it */
}

void log_line(const char *format, ...)
{
	char text[1200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put_line(STDERR_FILENO, "sreplay-logd: ", text);
}

static void put_into_trace(int dir_fd, const char *text)
{
	time_t now = time(NULL);
	char stamp[40];
	struct tm tm;
	int fd = openat(dir_fd, "daemon.log",
			O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return;
	gmtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%FT%TZ ", &tm);
	put_line(fd, stamp, text);
	close(fd);
}

void log_trace(int dir_fd, const char *format, ...)
{
	char text[1200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put_line(STDERR_FILENO, "sreplay-logd: ", text);
	if (dir_fd >= 0)
		put_into_trace(dir_fd, text);
}
