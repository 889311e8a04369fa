/* SPDX-License-Identifier: BSD-2-Clause */
/* say.h: the command's own lines on standard error: "sreplay: ...". */
#ifndef REPLAY_PRINT_SAY_H
#define REPLAY_PRINT_SAY_H

#include "replay/abi/control.h"

/* Exit status of every subcommand for its own failures: usage, a bad trace, ... */
#define SR_EXIT_FAILED SR_REPLAY_EXIT_FAILED

/* Prints why the command fails; returns SR_EXIT_FAILED. */
int sr_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints something the user should know; the command goes on. */
void sr_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
