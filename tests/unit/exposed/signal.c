/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signal.c: in place of libc's: cmocka sets a handler of its own around each test, and a tick,
 * which is a SIGSEGV as well, may come when that is there, or none.
 */
#include <signal.h>

void (*signal(int signo, void (*handler)(int)))(int)
{
	struct sigaction sa = {.sa_handler = handler}, old;

	if (signo == SIGSEGV)
		return SIG_DFL;
	return sigaction(signo, &sa, &old) ? SIG_ERR : old.sa_handler;
}
