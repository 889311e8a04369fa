/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/print/say.h"

#include <stdarg.h>
#include <stdio.h>

#include "replay/print/progress.h"

static void say(const char *format, va_list ap)
{
	sr_progress_hide();
	fputs("sreplay: ", stderr);
	vfprintf(stderr, format, ap);
	fputc('\n', stderr);
}

int sr_fail(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	say(format, ap);
	va_end(ap);
	return SR_EXIT_FAILED;
}

void sr_note(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	say(format, ap);
	va_end(ap);
}
