/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/print/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "replay/print/terminal.h"

#define CELLS 40
#define FEW   4 /* cells that still say something */
/* Short work has no bar, and what is left is a guess at first. */
#define SHOWN_S 0.5
#define GUESS_S 2.0
#define AGAIN_S 0.2

static struct {
	const char *what; /* NULL: there is no bar */
	uint64_t bytes;
	struct timespec begun;
	double drawn; /* seconds after it had begun; 0: not since it was erased */
	bool is_shown;
} bar;

static double seconds_since(const struct timespec *begun)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - begun->tv_sec) + (double)(now.tv_nsec - begun->tv_nsec) / 1e9;
}

static int columns(void)
{
	struct winsize size;

	return !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : 80;
}

void sr_size_words(double bytes, char *text)
{
	static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
	size_t unit = 0;

	for (; bytes >= 1000 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
		bytes /= 1000;
	snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

/* " 42 %, 12.3 MB/s, 3 s left", as far as it is known. */
static void put_words(char *text, size_t size, double done, double used)
{
	char rate[32];
	size_t n = (size_t)snprintf(text, size, "%3d %%", (int)(100 * done));

	if (bar.bytes && done > 0) {
		sr_size_words((double)bar.bytes * done / used, rate);
		n += (size_t)snprintf(text + n, size - n, ", %s/s", rate);
	}
	if (done > 0 && used > GUESS_S)
		snprintf(text + n, size - n, ", %.0f s left", used / done - used);
}

static void draw(double done)
{
	static const char full[] = "########################################";
	double used = seconds_since(&bar.begun);
	char words[96], line[512];
	int cells, filled, n;

	if (!bar.what || !(done >= 0 && done <= 1) || used < SHOWN_S ||
	    (bar.drawn > 0 && used < bar.drawn + AGAIN_S))
		return;
	bar.drawn = used;
	bar.is_shown = true;
	put_words(words, sizeof(words), done, used);
	/* A line that is too long would scroll with each time. */
	cells = columns() - (int)(strlen("sreplay:  [] ") + strlen(bar.what) + strlen(words)) - 1;
	cells = cells > CELLS ? CELLS : cells;
	filled = (int)(cells * done);
	if (cells >= FEW)
		n = snprintf(line, sizeof(line), "sreplay: %s [%.*s%*s] %s", bar.what, filled, full,
			     cells - filled, "", words);
	else
		n = snprintf(line, sizeof(line), "%s%s", columns() > 60 ? "sreplay: " : "", words);
	n = n < columns() ? n : columns() - 1;
	/* The rest of the line is erased by the sequence. */
	fprintf(sr_terminal_raw_error(), "\r%.*s\033[K", n, line);
	fflush(sr_terminal_raw_error());
}

sr_progress sr_progress_begin(const char *what, uint64_t bytes, bool quiet)
{
	bar.what = !quiet && isatty(STDERR_FILENO) ? what : NULL;
	bar.bytes = bytes;
	bar.drawn = 0;
	bar.is_shown = false;
	clock_gettime(CLOCK_MONOTONIC, &bar.begun);
	return bar.what ? draw : NULL;
}

void sr_progress_count(uint64_t done, uint64_t of)
{
	if (bar.what && !(done & 1023))
		draw((double)done / (double)of);
}

void sr_progress_hide(void)
{
	if (!bar.is_shown)
		return;
	fputs("\r\033[K", sr_terminal_raw_error());
	fflush(sr_terminal_raw_error());
	bar.is_shown = false;
	bar.drawn = 0;
}

void sr_progress_end(void)
{
	sr_progress_hide();
	bar.what = NULL;
}
