/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * terminal.h: what a trace says goes to a terminal as text only.  Names, arguments and bytes of a
 * stranger's trace may hold the sequences by which terminals are told to do things.
 *
 * For the main thread, before it prints.
 */
#ifndef REPLAY_PRINT_TERMINAL_H
#define REPLAY_PRINT_TERMINAL_H

#include <stdio.h>

/*
 * From now on control characters in what is printed to `stream` (stdout or stderr), but for the
 * newline and the tabulator, become \xNN.  Replaces the variable stdout or stderr.
 */
void sr_terminal_guard(FILE **stream);

/* Standard error as it was before: for what a replayed program prints. */
FILE *sr_terminal_raw_error(void);

#endif
