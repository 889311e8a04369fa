/* SPDX-License-Identifier: BSD-2-Clause */
/* progress.h: a bar on the terminal for what takes long: the share, and the time that is left. */
#ifndef REPLAY_PRINT_PROGRESS_H
#define REPLAY_PRINT_PROGRESS_H

#include <stdbool.h>

/* A function to be called with the share that is done, up to 1.  NULL: nobody looks. */
typedef void (*sr_progress)(double done);

/* "processing": what is done.  No bar where it is to be quiet, or standard error is no terminal. */
sr_progress sr_progress_begin(const char *what, bool quiet);
/* Erases the bar, if there is one. */
void sr_progress_end(void);

#endif
