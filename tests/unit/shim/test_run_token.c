/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_run_token.c: only one thread at a time has the run token, all threads get it, and no
 * thread can keep it for ever.
 *
 * Threads write plain memory while they have the token. If the test is built with
 * ThreadSanitizer, that reports any two threads that have the token at once, or one after
 * the other without seeing the other's writes.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "shim/core/run_token.h"
#include "shim/core/stall_timeout.h"
#include "shim/exposed/page/lock.h"

#define THREADS 8
#define ROUNDS  20000

static int tests, failed;

static void result(bool good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++tests, what);
	failed += !good;
}

/* Accessed only with the run token. */
static uint64_t counter, owner_of[THREADS * ROUNDS];
static uint64_t kept, passed, preempted;

/*
 * Pieces of program code that took so long that the token may be preempted, because the
 * thread lost its processor.
 */
static _Atomic uint64_t slow;

static uint64_t milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void count_take(enum sr_token_got got)
{
	kept += got == SR_TOKEN_KEPT;
	passed += got == SR_TOKEN_PASSED;
	preempted += got == SR_TOKEN_PREEMPTED;
}

struct thread {
	pthread_t id;
	uint32_t number;
	unsigned int seed;
	uint64_t rounds, lost;
	struct sr_token_hold hold;
};

static enum sr_token_got take(struct thread *t)
{
	enum sr_token_got got;

	sr_token_take(&t->hold, t->number);
	got = t->hold.got;
	t->hold.got = SR_TOKEN_KEPT;
	return got;
}

static enum sr_token_releasing chosen(struct thread *t)
{
	unsigned int n = (unsigned int)rand_r(&t->seed) % 100;

	return n < 90 ? SR_TOKEN_BRIEFLY : n < 98 ? SR_TOKEN_FOR_LONG : SR_TOKEN_AWAY;
}

/*
 * Takes the token after a piece of program code; the thread may lose its processor until it
 * has the token.
 */
static enum sr_token_got take_behind(struct thread *t, uint64_t begin)
{
	bool is_slow = milliseconds() - begin >= SR_TOKEN_MS - 1;
	enum sr_token_got got = take(t);

	slow += is_slow || (got != SR_TOKEN_KEPT && milliseconds() - begin >= SR_TOKEN_MS - 1);
	return got;
}

/* Acts as a thread of a program: calls, some of which wait, and program code in between. */
static void *take_turns(void *argument)
{
	struct thread *t = argument;
	uint64_t n, begin = milliseconds();

	for (uint64_t i = 0; i < t->rounds; i++) {
		count_take(take_behind(t, begin));
		sr_token_release(&t->hold, chosen(t));
		if (rand_r(&t->seed) % 1000 == 0)
			usleep(20);
		count_take(take(t));
		begin = milliseconds();
		sr_token_go_on(&t->hold);
		if (rand_r(&t->seed) % 20 == 0)
			usleep(20); /* in the program's code: the others wait */
		if (sr_token_is_lost(&t->hold)) {
			t->lost++; /* from here to the next call the others run beside it */
			continue;
		}
		n = counter;
		owner_of[n] = t->number;
		counter = n + 1;
	}
	sr_token_drop(&t->hold);
	return NULL;
}

static void start(struct thread *t, uint32_t number, void *(*routine)(void *), uint64_t many)
{
	*t = (struct thread){.number = number, .seed = number + 1, .rounds = many};
	if (pthread_create(&t->id, NULL, routine, t))
		exit(1);
}

static void one_at_a_time(uint64_t many)
{
	struct thread t[THREADS];
	uint64_t of[THREADS] = {0}, lost = 0;
	bool all = true;

	counter = kept = passed = preempted = slow = 0;
	for (uint32_t i = 0; i < THREADS; i++)
		start(&t[i], i, take_turns, many);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i].id, NULL);
	for (uint64_t i = 0; i < counter; i++)
		of[owner_of[i]]++;
	for (int i = 0; i < THREADS; i++) {
		all = all && of[i] + t[i].lost == many;
		lost += t[i].lost;
	}
	printf("# %llu times kept, %llu passed on, %llu preempted, %llu slow, %llu lost\n", (unsigned long long)kept,
	       (unsigned long long)passed, (unsigned long long)preempted, (unsigned long long)slow,
	       (unsigned long long)lost);
	result(counter + lost == THREADS * many && all && passed >= THREADS && lost <= slow && preempted <= slow,
	       "threads that count in plain memory with the run token in hand lose no count");
}

/* ------------------------------------------------------- one that keeps it */

static _Atomic int stage;

static void *keep_it(void *argument)
{
	struct thread *t = argument;

	take(t);
	sr_token_go_on(&t->hold);
	atomic_store(&stage, 1);
	if (t->rounds)
		while (atomic_load(&stage) < 2)
			;
	else
		while (atomic_load(&stage) < 2)
			usleep(1000000);
	t->rounds = take(t);
	sr_token_drop(&t->hold);
	return NULL;
}

static void it_is_preempted(bool computes, const char *what)
{
	struct thread keeper;
	struct thread me = {.number = 3};
	struct timespec from, to;
	enum sr_token_got got;
	uint32_t whose;
	double ms;

	atomic_store(&stage, 0);
	start(&keeper, 7, keep_it, computes);
	while (!atomic_load(&stage))
		sched_yield();
	clock_gettime(CLOCK_MONOTONIC, &from);
	got = take(&me);
	whose = me.hold.from;
	clock_gettime(CLOCK_MONOTONIC, &to);
	ms = (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
	printf("# after %.1f ms\n", ms);
	atomic_store(&stage, 2);
	sr_token_go_on(&me.hold);
	usleep(2000);
	take(&me);
	sr_token_drop(&me.hold);
	pthread_join(keeper.id, NULL);
	result(got == SR_TOKEN_PREEMPTED && whose == 7 && ms >= SR_TOKEN_MS &&
		   keeper.rounds != SR_TOKEN_KEPT,
	       what);
}

/* ------------------------------------------- one that looks for a place, slowly */

static _Atomic int asked;

static char *protected_page;

static void unprotect(int signo)
{
	mprotect(protected_page, 4096, PROT_READ | PROT_WRITE);
}

/* In the thread that waits: there a fault must come to its handler. */
static void count_asks(int32_t tid)
{
	protected_page[0]++;
	atomic_fetch_add(&asked, 1);
}

static void compute_for(int64_t ms)
{
	const int64_t until = sr_stall_own_time() + ms * 1000000;

	while (sr_stall_own_time() < until)
		;
}

/* Its steps take long, and then it makes a call. */
static void *look_for_a_place(void *argument)
{
	struct thread *t = argument;

	take(t);
	sr_token_go_on(&t->hold);
	atomic_store(&stage, 1);
	while (!atomic_load(&asked))
		;
	sr_token_begin_stop(&t->hold);
	compute_for(150);
	t->rounds = (uint64_t)atomic_load(&asked);
	sr_token_end_stop(&t->hold);
	take(t);
	sr_token_release(&t->hold, SR_TOKEN_AWAY);
	sr_token_drop(&t->hold);
	return NULL;
}

static void steps_are_waited_for(void)
{
	struct thread looker, me = {.number = 3};
	enum sr_token_got got;

	protected_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	signal(SIGSEGV, unprotect);
	atomic_store(&stage, 0);
	sr_token_stop_holder = count_asks;
	start(&looker, 7, look_for_a_place, 0);
	while (!atomic_load(&stage))
		sched_yield();
	got = take(&me);
	sr_token_drop(&me.hold);
	pthread_join(looker.id, NULL);
	sr_token_stop_holder = NULL;
	result(got == SR_TOKEN_PASSED && looker.rounds <= 2, "one that looks for a place to stop is waited for, however slow it is");
	result(protected_page[0] == atomic_load(&asked), "one that waits may fault meanwhile");
	signal(SIGSEGV, SIG_DFL);
}

/* -------------------------------------------------------- one that never waits */

/* Every call of this thread returns at once, and still the other thread can make its calls. */
static void *poll_for_ever(void *argument)
{
	struct thread *t = argument;
	uint64_t begin = milliseconds();

	while (atomic_load(&stage) < 2) {
		take_behind(t, begin);
		sr_token_release(&t->hold, SR_TOKEN_BRIEFLY);
		take(t);
		begin = milliseconds();
		sr_token_go_on(&t->hold);
		for (volatile int i = 0; i < 100; i++)
			;
	}
	sr_token_drop(&t->hold);
	return NULL;
}

static void nobody_starves(void)
{
	struct thread pollers[2], t;

	counter = preempted = slow = 0;
	atomic_store(&stage, 0);
	start(&pollers[0], 0, poll_for_ever, 0);
	start(&pollers[1], 1, poll_for_ever, 0);
	start(&t, 2, take_turns, 500);
	pthread_join(t.id, NULL);
	atomic_store(&stage, 2);
	pthread_join(pollers[0].id, NULL);
	pthread_join(pollers[1].id, NULL);
	if (counter != 500 || preempted > slow)
		printf("# %llu turns, %llu preempted, %llu slow\n", (unsigned long long)counter, (unsigned long long)preempted,
		       (unsigned long long)slow);
	result(counter == 500 && preempted <= slow, "beside two that poll without end a third one has its turns");
}

/* ------------------------------------------- one that waits in the shim's code */

static void *access_exposed(void *argument)
{
	struct thread *t = argument;

	take(t);
	sr_token_go_on(&t->hold);
	atomic_store(&stage, 1);
	exposed_lock(NULL);
	exposed_unlock(NULL);
	take(t);
	sr_token_drop(&t->hold);
	return NULL;
}

static void *take_once(void *argument)
{
	struct thread *t = argument;

	t->rounds = take(t);
	sr_token_drop(&t->hold);
	return NULL;
}

/* A fault handler of its code waits for a thread that has no processor. */
static void it_is_left_to_one_that_waits_for_exposed_memory(void)
{
	struct thread holder, other;

	atomic_store(&stage, 0);
	exposed_lock(NULL);
	start(&holder, 0, access_exposed, 0);
	while (!atomic_load(&stage))
		usleep(1000);
	start(&other, 1, take_once, 0);
	usleep(200000);
	exposed_unlock(NULL);
	pthread_join(holder.id, NULL);
	pthread_join(other.id, NULL);
	result(other.rounds == SR_TOKEN_PASSED, "of one that waits for the lock of exposed memory it is not preempted");
}

static _Atomic uint32_t went_on;

static void *wait_for_it(void *argument)
{
	struct thread *t = argument;

	take(t);
	atomic_fetch_add(&went_on, 1);
	return NULL;
}

/* Comes last: the others wait for the end of the process. */
static void only_the_last_goes_on_at_the_end(void)
{
	static struct thread me = {.number = 1}, t[THREADS];

	take(&me);
	for (uint32_t i = 0; i < THREADS; i++)
		start(&t[i], i + 2, wait_for_it, 0);
	usleep(10000);
	sr_token_stop(&me.hold);
	take(&me);
	usleep(10000);
	result(!atomic_load(&went_on), "when the process ends, only the thread that ends it goes on");
}

int main(int argc, char **argv)
{
	uint64_t many = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;

	if (many > ROUNDS)
		many = ROUNDS;
	one_at_a_time(many);
	it_is_preempted(true, "of one that computes and makes no call it is preempted, which is told to both");
	it_is_preempted(false, "of one that sleeps in the program's code as well");
	it_is_left_to_one_that_waits_for_exposed_memory();
	steps_are_waited_for();
	nobody_starves();
	only_the_last_goes_on_at_the_end();
	printf("1..%d\n", tests);
	return failed != 0;
}
