/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cancelled.c: threads that may be cancelled at any instruction, wherever they are then.
 *
 *     cancelled WAY
 *
 * Prints how far the thread had come, and what its cleanup handler found.  Exits with 4.
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Atomic long turns;
static volatile long value; /* only the thread writes it */
static int pipe_fds[2];

static int is_child;

static void cleanup(void *unused)
{
	if (is_child)
		return;
	printf("cleanup after %ld turns, value %ld\n", (long)turns, value);
}

static void computes(void)
{
	for (;;) {
		turns++;
		value = value * 7 + turns;
	}
}

static void calls(void)
{
	struct timespec now;

	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		turns++;
		value = value * 7 + now.tv_nsec;
	}
}

static void allocates(void)
{
	void *kept[64] = {NULL};

	for (;;) {
		free(kept[turns % 64]);
		kept[turns % 64] = malloc((size_t)(turns % 5000));
		value = (long)(uintptr_t)kept[turns % 64] + (long)clock();
		turns++;
	}
}

static void waits(void)
{
	char c;

	turns++;
	while (read(pipe_fds[0], &c, 1) < 0)
		value++;
}

/* What came meanwhile takes effect when it may be cancelled again: in that call, or with the next cancellation point. */
static void later(int state, int type)
{
	pthread_setcancelstate(state, NULL);
	pthread_setcanceltype(type, NULL);
	turns++;
	while (read(pipe_fds[0], (char[1]){0}, 1) < 0 || turns < 100)
		turns++;
	puts("still there");
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	puts("never");
}

static void is_disabled(void)
{
	later(PTHREAD_CANCEL_DISABLE, PTHREAD_CANCEL_ASYNCHRONOUS);
}

static void is_deferred_again(void)
{
	int type;

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	printf("it was asynchronous: %d\n", type == PTHREAD_CANCEL_ASYNCHRONOUS);
	fflush(stdout);
	turns++;
	while (turns < 1000000)
		turns++;
	while (write(pipe_fds[1], "x", 1) == 1)
		turns++;
}

static void cancels_itself(void)
{
	turns++;
	pthread_cancel(pthread_self());
	puts("never");
}

/* A child has this thread only, and that one as it was. */
static void forks(void)
{
	pid_t child = fork();
	int status = 0;

	if (!child) {
		alarm(20);
		is_child = 1;
		pthread_cancel(pthread_self());
		_exit(1);
	}
	waitpid(child, &status, 0);
	printf("the child ended with %d\n", WEXITSTATUS(status));
	turns++;
	computes();
}

/* libc has each thread change its own, by a signal. */
static void has_new_ids(void)
{
	calls();
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
    {"computes", computes},
    {"calls", calls},
    {"allocates", allocates},
    {"waits", waits},
    {"is_disabled", is_disabled},
    {"is_deferred_again", is_deferred_again},
    {"cancels_itself", cancels_itself},
    {"forks", forks},
    {"has_new_ids", has_new_ids},
};

static void *begin(void *way)
{
	void (*run)(void) = *(void (**)(void))way;

	pthread_cleanup_push(cleanup, NULL);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	run();
	pthread_cleanup_pop(1);
	return NULL;
}

static int run(int way)
{
	pthread_t t;
	void *result;

	if (pipe(pipe_fds) || pthread_create(&t, NULL, begin, (void *)&ways[way].run))
		return 1;
	while (!turns)
		usleep(100);
	usleep(3000);
	if (ways[way].run == has_new_ids && setgid(getgid()))
		return 1;
	if (ways[way].run != cancels_itself)
		pthread_cancel(t);
	if (ways[way].run == is_disabled) {
		usleep(3000);
		turns = 100;
		if (write(pipe_fds[1], "x", 1) != 1)
			return 1;
	}
	pthread_join(t, &result);
	printf("%s, value %ld\n", result == PTHREAD_CANCELED ? "cancelled" : "not cancelled", value);
	return 4;
}

int main(int argc, char **argv)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (list)
		ibv_free_device_list(list);
	for (size_t i = 0; argc > 1 && i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(argv[1], ways[i].name))
			return run((int)i);
	return 2;
}
