/* SPDX-License-Identifier: BSD-2-Clause */
/* processes.c: children, exits, and what a process may have no more of. */
#include "hostile_verbs/shared.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_child_with_a_device(void)
{
	int status;
	pid_t child;

	ibv_fork_init();
	receive(qp, 1, piece(0, 64));
	fflush(stdout);
	child = fork();
	if (!child) {
		open_all();
		receive(qp, 1, piece(0, 64));
		if (send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED))
			_exit(1);
		_exit(ibv_poll_cq(cq, 4, (struct ibv_wc[4]){}) == 2 ? 5 : 6);
	}
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
	show_completions();
	waitpid(child, &status, 0);
	printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

/* Threads that hold a lock of the shim's at the fork do not exist in the child. */
static void *post_and_poll(void *q)
{
	struct ibv_wc wc;

	for (int i = 0; i < 2000; i++) {
		receive(q, 1, piece(0, 8));
		send_it(q, 2, piece(PAGE, 8), IBV_SEND_SIGNALED);
		while (ibv_poll_cq(cq, 1, &wc) > 0)
			;
		ibv_dereg_mr(ibv_reg_mr(pd, memory, 8, IBV_ACCESS_LOCAL_WRITE));
		ibv_destroy_qp(new_qp());
	}
	return NULL;
}

static void children_while_threads_post(void)
{
	pthread_t t;
	int status, bad = 0;

	ibv_fork_init();
	fflush(stdout);
	pthread_create(&t, NULL, post_and_poll, qp);
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();

		if (!child) {
			alarm(10);
			open_all();
			receive(qp, 1, piece(0, 64));
			send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
			_exit(5);
		}
		waitpid(child, &status, 0);
		bad += !WIFEXITED(status) || WEXITSTATUS(status) != 5;
	}
	pthread_join(t, NULL);
	printf("%d children did not end\n", bad);
}

static void quick(void)
{
	at_quick_exit(clean_up);
	receive(qp, 1, piece(0, 64));
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
	fflush(stdout);
	quick_exit(3);
}

static void by_number(void)
{
	printf("leaves\n");
	fflush(stdout);
	syscall(SYS_exit_group, 3);
}

/* The shim's descriptors are among the few, but come back. */
static void few_descriptors(void)
{
	struct rlimit few = {24, 24};
	int fd, n = 0, threads = 0;
	pthread_t t;

	printf("limit %d\n", setrlimit(RLIMIT_NOFILE, &few));
	for (int i = 0; i < 3; i++)
		if (!pthread_create(&t, NULL, small_stack, NULL) && !pthread_join(t, NULL))
			threads++;
	printf("%d threads\n", threads);
	while ((fd = dup(0)) >= 0)
		n++;
	printf("%d more, errno %d\n", n, errno);
	receive(qp, 1, piece(0, 64));
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
	show_completions();
}

/* The first thread when nothing more can be opened: it is not recorded, and runs. */
static void no_descriptors(void)
{
	struct rlimit few = {16, 16};
	pthread_t t;

	setrlimit(RLIMIT_NOFILE, &few);
	while (dup(0) >= 0)
		;
	if (!pthread_create(&t, NULL, small_stack, NULL) && !pthread_join(t, NULL))
		printf("a thread\n");
}

static void little_address_space(void)
{
	struct rlimit little = {64 << 20, 64 << 20};
	int threads = 0;
	pthread_t t;
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	printf("limit %d\n", setrlimit(RLIMIT_AS, &little));
	for (int i = 0; i < 3; i++)
		if (!pthread_create(&t, &attr, small_stack, NULL) && !pthread_join(t, NULL))
			threads++;
	printf("large malloc: %p\n", malloc(256 << 20));
	for (int i = 0; i < 100; i++)
		ibv_destroy_qp(new_qp());
	receive(qp, 1, piece(0, 64));
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
	show_completions();
}

static void no_locked_memory(void)
{
	struct rlimit none = {0, 0};

	printf("limit %d\n", setrlimit(RLIMIT_MEMLOCK, &none));
	printf("mlockall %d\n", mlockall(MCL_FUTURE) != 0 && errno != EPERM);
	receive(qp, 1, piece(0, 64));
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
	show_completions();
	munlockall();
}

const struct hostile_case processes_cases[] = {
    {"a-child-with-a-device", a_child_with_a_device},
    {"children-while-threads-post", children_while_threads_post},
    {"quick-exit", quick},
    {"exit-by-number", by_number},
    {"few-descriptors", few_descriptors},
    {"no-descriptors", no_descriptors},
    {"little-address-space", little_address_space},
    {"no-locked-memory", no_locked_memory},
    {0},
};
