/* SPDX-License-Identifier: BSD-2-Clause */
/* signals.h: the cases of `signals`, and what they share. */
#ifndef TESTS_PROGRAMS_PROCESS_SIGNALS_H
#define TESTS_PROGRAMS_PROCESS_SIGNALS_H

#include <signal.h>

struct signal_case {
	const char *name;
	void (*run)(void);
};

/* Of signals_computing.c and of signals_shown.c; the last one has no name. */
extern const struct signal_case computing_cases[], shown_cases[];

/* sigaction with SA_SIGINFO and these flags. */
void set_flags(int signo, void (*handler)(int, siginfo_t *, void *), int flags);
/* Nanoseconds of the monotonic clock. */
long now(void);

#endif
