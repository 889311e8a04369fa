/* SPDX-License-Identifier: BSD-2-Clause */
/* signals_shown.c: cases of `signals`: what a handler in a call finds of the code that made it; and the program ends itself. */
#include <dlfcn.h>
#include <execinfo.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "signals.h"

#define FRAMES 32

static volatile sig_atomic_t shown;

static void check_is_no_recorder(uintptr_t pc)
{
	Dl_info info;

	if (dladdr((void *)pc, &info) && strstr(info.dli_fname, "sreplay"))
		_exit(1);
}

/* As a handler does that reports where the program is: what it prints is compared in the replay. */
static void show(int signo, siginfo_t *info, void *context)
{
	const greg_t *r = ((const ucontext_t *)context)->uc_mcontext.gregs;
	void *frame[FRAMES];
	int n = backtrace(frame, FRAMES);
	char line[1024];
	int length;

	check_is_no_recorder((uintptr_t)r[REG_RIP]);
	length = snprintf(line, sizeof(line), "%d: %llx %llx %llx %llx %llx %llx:", signo, r[REG_RIP], r[REG_RSP], r[REG_RBX], r[REG_RBP],
			  r[REG_R12], r[REG_R13]);
	for (int i = 0; i < n; i++)
		length += snprintf(line + length, sizeof(line) - (size_t)length, " %p", frame[i]);
	line[length++] = '\n';
	if (write(1, line, (size_t)length) < 0)
		_exit(1);
	shown++;
}

static void alarm_soon(void)
{
	setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_usec = 20000}}, NULL);
}

static __attribute__((noinline)) void wait_somehow(int how)
{
	char byte;
	int fd[2];

	if (how)
		alarm_soon();
	switch (how) {
	case 0:
		raise(SIGUSR1);
		break;
	case 1:
		poll(NULL, 0, 200);
		break;
	case 2:
		usleep(200000);
		break;
	case 3:
		pause();
		break;
	case 4:
		if (!pipe(fd) && read(fd[0], &byte, 1) > 0)
			exit(1);
		break;
	default:
		while (!shown)
			free(malloc(100));
	}
}

static void *wait_in_all_ways(void *unused)
{
	for (int how = 0; how < 6; how++) {
		shown = 0;
		wait_somehow(how);
	}
	return unused;
}

static void callers(void)
{
	pthread_t id;
	sigset_t alarms;

	set_flags(SIGUSR1, show, 0);
	set_flags(SIGALRM, show, 0);
	wait_in_all_ways(NULL);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_create(&id, NULL, wait_in_all_ways, NULL);
	pthread_sigmask(SIG_BLOCK, &alarms, NULL);
	pthread_join(id, NULL);
}

/* ------------------------------------------------------------- it ends itself */

static void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		_exit(1);
}

/* As handlers of crashes do: the signal is blocked until this one returns. */
static void reset_and_raise(int signo, siginfo_t *info, void *context)
{
	say("reported\n");
	signal(signo, SIG_DFL);
	raise(signo);
	say("the handler returns\n");
}

static void raises_again(void)
{
	set_flags(SIGABRT, reset_and_raise, 0);
	abort();
}

static void raises_unhandled(void)
{
	say("raises\n");
	raise(SIGFPE);
}

static void kills_itself(void)
{
	say("kills\n");
	kill(getpid(), SIGTERM);
	pause();
}

static void *kill_by_thread(void *main_thread)
{
	pthread_kill(*(pthread_t *)main_thread, SIGUSR2);
	pause();
	return NULL;
}

static void thread_kills(void)
{
	pthread_t id, me = pthread_self();

	say("a thread kills\n");
	pthread_create(&id, NULL, kill_by_thread, &me);
	pthread_join(id, NULL);
}

/* What it sends itself is blocked, and waited for: nothing ends by that. */
static void waits_for_its_own(void)
{
	sigset_t set;
	int signo;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	kill(getpid(), SIGTERM);
	sigwait(&set, &signo);
	printf("%d\n", signo);
}

const struct signal_case shown_cases[] = {
    {"callers", callers},
    {"raises_again", raises_again},
    {"raises_unhandled", raises_unhandled},
    {"kills_itself", kills_itself},
    {"thread_kills", thread_kills},
    {"waits_for_its_own", waits_for_its_own},
    {NULL, NULL},
};
