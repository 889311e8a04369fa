/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_tickets.c: threads that wait for the heap sleep until it is their turn.
 *
 * A run of the heap may have a million operations.  A thread that is woken by each of them makes a
 * replay of threads that allocate many times slower than the recording.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "shim/core/stall_timeout.h"
#include "shim/replay/tickets.h"
#include "shim/threads/heap_runs.h"

#define OPERATIONS 200000
#define LATER_RUNS 3

/* What tickets.c needs of the rest. */
void sr_heap_wait_left(void)
{
}

void sr_stall_begin(struct sr_stall *p, int32_t tid)
{
}

bool sr_stall_ends(struct sr_stall *p, int64_t ns)
{
	return true;
}

struct user {
	pthread_t thread;
	uint32_t number;
	long sleeps;
	_Atomic pid_t tid; /* 0: it has not begun */
};

/* Takes the heap over for one operation, when the run before has made its own. */
static void *use_heap(void *argument)
{
	struct user *u = argument;
	struct rusage before, after;

	getrusage(RUSAGE_THREAD, &before);
	u->tid = gettid();
	sr_heap_run_take(u->number, u->number, u->number == 1 ? OPERATIONS : 1);
	sr_heap_run_done();
	getrusage(RUSAGE_THREAD, &after);
	u->sleeps = after.ru_nvcsw - before.ru_nvcsw;
	return NULL;
}

/* The kernel's word, since on a machine with other work a thread may take long to begin. */
static bool is_asleep(pid_t tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = tid ? fopen(path, "r") : NULL;
	if (!f)
		return false;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(f);
	return state == 'S';
}

static void a_thread_that_waits_for_the_heap_is_woken_for_its_run(void **state)
{
	static struct sr_replay_control control;
	struct user users[LATER_RUNS];

	sr_tickets_start(&control);
	for (uint32_t i = 0; i < LATER_RUNS; i++) {
		users[i].number = i + 1;
		users[i].tid = 0;
		sr_tickets_add_thread();
		assert_int_equal(pthread_create(&users[i].thread, NULL, use_heap, &users[i]), 0);
	}
	for (uint32_t i = 0; i < LATER_RUNS; i++)
		while (!is_asleep(users[i].tid))
			usleep(1000);
	for (int i = 0; i < OPERATIONS; i++)
		sr_heap_run_done();
	for (uint32_t i = 0; i < LATER_RUNS; i++) {
		pthread_join(users[i].thread, NULL);
		/* For its run, for its state, and for the lock of the list of waiters. */
		assert_in_range(users[i].sleeps, 1, 10);
	}
}

static void *wait_for_ticket(void *argument)
{
	sr_ticket_wait(1, *(uint64_t *)argument);
	return NULL;
}

static void a_far_ticket_comes_too(void **state)
{
	static struct sr_replay_control control;
	uint64_t event = 1000;
	pthread_t thread;

	sr_tickets_start(&control);
	sr_tickets_add_thread();
	assert_int_equal(pthread_create(&thread, NULL, wait_for_ticket, &event), 0);
	for (uint64_t i = 1; i < event; i++)
		sr_ticket_done(i);
	pthread_join(thread, NULL);
}

/* One thread waits for event 5, and another one is at the end of its stream with events 1 to 4 missing. */
static void begin_with_missing(struct sr_replay_control *control, pthread_t *waits, uint64_t *event)
{
	*event = 5;
	sr_tickets_continue_in_child(); /* no thread of an earlier test */
	sr_tickets_start(control);
	sr_ticket_wait(0, 1); /* a child's first one skips others */
	sr_tickets_add_thread();
	assert_int_equal(pthread_create(waits, NULL, wait_for_ticket, event), 0);
}

static void what_a_killed_thread_would_have_done_is_skipped(void **state)
{
	static struct sr_replay_control control;
	uint64_t event;
	pthread_t waits;

	begin_with_missing(&control, &waits, &event);
	assert_false(sr_tickets_park(false));
	pthread_join(waits, NULL);
	assert_false(sr_tickets_nothing_comes());
}

static void nothing_comes_behind_what_a_cut_trace_lacks(void **state)
{
	static struct sr_replay_control control;
	const struct timespec a_moment = {.tv_nsec = 1000000};
	uint64_t event;
	pthread_t waits;

	begin_with_missing(&control, &waits, &event);
	if (!sr_tickets_park(true))
		while (!sr_tickets_nothing_comes())
			nanosleep(&a_moment, NULL);
	assert_int_equal(atomic_load(&control.ticket), 1);
	sr_ticket_done(event - 1);
	pthread_join(waits, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_thread_that_waits_for_the_heap_is_woken_for_its_run),
	    cmocka_unit_test(a_far_ticket_comes_too),
	    cmocka_unit_test(what_a_killed_thread_would_have_done_is_skipped),
	    cmocka_unit_test(nothing_comes_behind_what_a_cut_trace_lacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
