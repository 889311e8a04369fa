/* SPDX-License-Identifier: BSD-2-Clause */
/* signals.c: jumps out of calls, calls in handlers, small stacks. */
#include "hostile_verbs/shared.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile sig_atomic_t ticks;

static void jump(int signal)
{
	ticks++;
	siglongjmp(back, 1);
}

/* Jumps out of whatever verbs call is under way. */
static void jump_out_of_a_poll(void)
{
	struct itimerval soon = {.it_value.tv_usec = 20000};
	struct ibv_wc wc;

	signal(SIGALRM, jump);
	for (int i = 0; i < 3; i++) {
		if (!sigsetjmp(back, 1)) {
			setitimer(ITIMER_REAL, &soon, NULL);
			for (;;)
				ibv_poll_cq(cq, 1, &wc);
		}
		printf("jumped %d\n", (int)ticks);
		receive(qp, 1, piece(0, 64));
		send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
		show_completions();
	}
}

static void jump_out_of_an_event(void)
{
	struct itimerval soon = {.it_value.tv_usec = 20000};
	struct ibv_cq *which;
	void *data;

	signal(SIGALRM, jump);
	for (volatile int i = 0; i < 3; i++) {
		if (!sigsetjmp(back, 1)) {
			setitimer(ITIMER_REAL, &soon, NULL);
			ibv_get_cq_event(channel, &which, &data);
		}
		printf("jumped %d\n", (int)ticks);
	}
	show_completions();
}

static void count_tick(int signal)
{
	ticks++;
}

static void post_in_handler(int signal)
{
	ticks++;
	receive(qp, 7, piece(0, 64));
	send_it(qp, 8, piece(PAGE, 64), IBV_SEND_SIGNALED);
}

static void posts_in_a_handler(void)
{
	signal(SIGUSR1, post_in_handler);
	for (int i = 0; i < 5; i++) {
		raise(SIGUSR1);
		show_completions();
	}
	printf("%d\n", (int)ticks);
}

/* The smallest stack for handlers that POSIX names. */
static void smallest_signal_stack(void)
{
	long n = sysconf(_SC_MINSIGSTKSZ);
	char *bytes = map(16 * PAGE);
	stack_t stack = {.ss_sp = bytes + PAGE, .ss_size = (size_t)n};
	struct sigaction act = {.sa_handler = count_tick, .sa_flags = SA_ONSTACK};
	struct timespec pause = {.tv_nsec = 1000};

	memset(bytes, 0x5a, PAGE);
	printf("sigaltstack %d\n", sigaltstack(&stack, NULL));
	sigaction(SIGUSR1, &act, NULL);
	for (int i = 0; i < 10; i++) {
		raise(SIGUSR1);
		nanosleep(&pause, NULL);
	}
	for (int i = 0; i < PAGE; i++)
		if (bytes[i] != 0x5a) {
			printf("written below the stack\n");
			break;
		}
	printf("%d\n", (int)ticks);
}

const struct hostile_case signals_cases[] = {
    {"jump-out-of-a-poll", jump_out_of_a_poll},
    {"jump-out-of-an-event", jump_out_of_an_event},
    {"posts-in-a-handler", posts_in_a_handler},
    {"smallest-signal-stack", smallest_signal_stack},
    {0},
};
