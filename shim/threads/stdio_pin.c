/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/threads/stdio_pin.h"

#include <stdio.h>
#include <stdio_ext.h>
#include <unistd.h>

static char buffer[4096];
static bool line_buffered;

void sr_stdio_pin(bool line)
{
	line_buffered = line;
	/* A buffer was chosen already (by stdbuf, for example), and will be chosen in both runs. */
	if (__fbufsize(stdout))
		return;
	setvbuf(stdout, buffer, line ? _IOLBF : _IOFBF, sizeof(buffer));
}

void sr_stdio_pin_as_found(void)
{
	/* stdbuf -oL has set the mode, but there is no buffer yet. */
	sr_stdio_pin(isatty(STDOUT_FILENO) || __flbf(stdout));
}

bool sr_stdio_line_buffered(void)
{
	return line_buffered;
}
