/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signal.c: replaces libc's signal. cmocka sets its own handler around each test, and a
 * tick, which is also a SIGSEGV, may come while that handler is set, or none.
 */
#include <signal.h>

void (*signal(int signo, void (*handler)(int)))(int)
{
	struct sigaction sa = {.sa_handler = handler}, old;

	if (signo == SIGSEGV)
		return SIG_DFL;
	return sigaction(signo, &sa, &old) ? SIG_ERR : old.sa_handler;
}
