/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/print/progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "replay/print/terminal.h"

#define BAR     40
/* The time that is left is a guess at first. */
#define GUESS_S 2.0

static struct {
	const char *what; /* NULL: there is no bar */
	int percent;
	struct timespec begun;
} bar;

static double seconds_since(const struct timespec *begun)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - begun->tv_sec) + (double)(now.tv_nsec - begun->tv_nsec) / 1e9;
}

static void draw(double done)
{
	static const char full[] = "########################################";
	int percent = (int)(100 * done), cells = (int)(BAR * done);
	double used = seconds_since(&bar.begun);

	if (percent == bar.percent || percent < 0 || percent > 100)
		return;
	bar.percent = percent;
	fprintf(sr_terminal_raw_error(), "\rsreplay: %s [%.*s%*s] %3d %%", bar.what, cells, full, BAR - cells, "",
		percent);
	if (done > 0 && used > GUESS_S)
		fprintf(sr_terminal_raw_error(), ", %.0f s left  ", used / done - used);
	fflush(sr_terminal_raw_error());
}

sr_progress sr_progress_begin(const char *what, bool quiet)
{
	bar.what = !quiet && isatty(STDERR_FILENO) ? what : NULL;
	bar.percent = -1;
	clock_gettime(CLOCK_MONOTONIC, &bar.begun);
	return bar.what ? draw : NULL;
}

void sr_progress_end(void)
{
	if (bar.what)
		fprintf(sr_terminal_raw_error(), "\r%*s\r", BAR + 32 + (int)strlen(bar.what), "");
	bar.what = NULL;
}
