/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/base/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "logd/base/rawsys.h"

void sr_say(const char *format, ...)
{
	char line[1024];
	va_list ap;
	int n = snprintf(line, sizeof(line), "sreplay: ");

	va_start(ap, format);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	sr_sys_write(STDERR_FILENO, line, (size_t)n);
}
