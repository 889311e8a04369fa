/* SPDX-License-Identifier: BSD-2-Clause */
/* signals.c: handlers that count, in the thread that they interrupt. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "shared.h"

static _Thread_local volatile sig_atomic_t count;
static _Thread_local sigjmp_buf back;

static void count_one(int signo)
{
	int saved = errno;
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	count += signo;
	errno = saved;
}

static void jump_back(int signo)
{
	siglongjmp(back, signo);
}

void prepare_signals(void)
{
	struct sigaction act = {.sa_handler = count_one, .sa_flags = SA_RESTART};

	sigaction(SIGUSR1, &act, NULL);
	sigaction(SIGALRM, &act, NULL);
	sigaction(SIGCHLD, &act, NULL);
	act.sa_handler = count_one;
	act.sa_flags = 0;
	sigaction(SIGUSR2, &act, NULL);
	act.sa_handler = jump_back;
	act.sa_flags = SA_NODEFER;
	sigaction(SIGTRAP, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static void raises(struct self *s)
{
	mix(s, (uint64_t)raise(draw(s, 2) ? SIGUSR1 : SIGUSR2));
	mix(s, (uint64_t)count);
}

static void signals_process(struct self *s)
{
	mix(s, (uint64_t)kill(getpid(), SIGUSR1));
	mix(s, (uint64_t)count);
}

/* The next alarm comes to any thread, at any place. */
static void sets_alarm(struct self *s)
{
	const struct itimerval when = {.it_value.tv_usec = 1 + draw(s, 2000)};

	mix(s, (uint64_t)setitimer(ITIMER_REAL, &when, NULL));
}

static void sleeps(struct self *s)
{
	const struct timespec t = {.tv_nsec = 1 + draw(s, 500000)};

	mix(s, (uint64_t)nanosleep(&t, NULL));
	mix(s, (uint64_t)count);
}

static void blocks(struct self *s)
{
	const struct timespec none = {0};
	sigset_t set, old;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	pthread_kill(pthread_self(), SIGUSR1);
	mix(s, (uint64_t)count);
	if (draw(s, 2))
		mix(s, (uint64_t)sigtimedwait(&set, NULL, &none));
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	mix(s, (uint64_t)count);
}

static void jumps(struct self *s)
{
	volatile int times = (int)draw(s, 3);

	mix(s, (uint64_t)sigsetjmp(back, 1));
	if (times-- > 0)
		raise(SIGTRAP);
}

const struct step signal_steps[] = {
    {"raises", raises, 3},
    {"signals_process", signals_process, 1},
    {"sets_alarm", sets_alarm, 3},
    {"sleeps", sleeps, 3},
    {"blocks", blocks, 2},
    {"jumps", jumps, 1},
    {0},
};
