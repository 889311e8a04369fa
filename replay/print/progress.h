/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * progress.h: a bar on the terminal for what takes long: the share, the rate, and the time that is left.
 *
 * For the main thread.  It appears after half a second.  What sreplay prints to standard error erases
 * it (say.h); what prints to standard output calls sr_progress_hide() before.
 */
#ifndef REPLAY_PRINT_PROGRESS_H
#define REPLAY_PRINT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* A function to be called with the share that is done, up to 1.  NULL: nobody looks. */
typedef void (*sr_progress)(double done);

/*
 * "processing": what is done, with so many bytes; 0: their rate is not shown.  No bar where it is to be
 * quiet, or standard error is no terminal.
 */
sr_progress sr_progress_begin(const char *what, uint64_t bytes, bool quiet);
/* Of the bar that was begun last: so many things of so many are done.  Cheap enough for each of them. */
void sr_progress_count(uint64_t done, uint64_t of);
/* Erases the bar, if there is one, until it is drawn again. */
void sr_progress_hide(void);
/* Erases it for good. */
void sr_progress_end(void);

/* "1.2 MB"; text: 32 characters. */
void sr_size_words(double bytes, char *text);

#endif
