/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unwinds.c: threads that are interrupted in the unwinder, which works on the list of loaded libraries.  A replay does not
 * load those that a device needs.
 *
 *     unwinds           prints the names of its cases
 *     unwinds CASE
 *
 * How far the unwinding thread got, which is chance, is printed.
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include <unwind.h>

#define LOOKS 4
#define TICKS 5

static atomic_bool done;
static volatile uint64_t turns;
static uint64_t frames;

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *context, void *unused)
{
	(void)context;
	(void)unused;
	frames++;
	return _URC_NO_REASON;
}

static void *unwind(void *unused)
{
	while (!atomic_load(&done)) {
		_Unwind_Backtrace(count_frame, NULL);
		turns++;
	}
	return unused;
}

/* Another one looks at how far it got. */
static void threads(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, unwind, NULL))
		abort();
	for (int i = 0; i < LOOKS; i++) {
		usleep(10000);
		printf("%lu\n", (unsigned long)turns);
	}
	atomic_store(&done, true);
	pthread_join(thread, NULL);
}

static volatile sig_atomic_t ticks;
static uint64_t seen[TICKS];

static void on_tick(int signal)
{
	(void)signal;
	if (ticks < TICKS)
		seen[ticks] = turns;
	if (++ticks == TICKS)
		atomic_store(&done, true);
}

/* A timer's handler does. */
static void signals(void)
{
	const struct itimerval often = {{0, 10000}, {0, 10000}};

	signal(SIGALRM, on_tick);
	setitimer(ITIMER_REAL, &often, NULL);
	unwind(NULL);
	setitimer(ITIMER_REAL, &(struct itimerval){{0}}, NULL);
	for (int i = 0; i < TICKS; i++)
		printf("%lu\n", (unsigned long)seen[i]);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {{"threads", threads}, {"signals", signals}};

#define CASES (sizeof(cases) / sizeof(cases[0]))

/* With it come its provider's libraries. */
static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !list[0] || !ibv_open_device(list[0]))
		abort();
	ibv_free_device_list(list);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		for (size_t i = 0; i < CASES; i++)
			puts(cases[i].name);
		return 0;
	}
	open_device();
	for (size_t i = 0; i < CASES; i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			printf("%lu turns, %lu frames\n", (unsigned long)turns, (unsigned long)frames);
			return 0;
		}
	return 2;
}
