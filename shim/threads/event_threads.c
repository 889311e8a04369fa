/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/threads/event_threads.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>

#include "logd/base/lock.h"
#include "logd/base/rawsys.h"
#include "shim/core/engine.h"
#include "shim/core/thread.h"
#include "shim/memory/heap.h"

/* libc's own signal for such timers.  Programs cannot set its disposition, nor block it. */
#define SIGNAL 32

struct event_timer {
	void (*function)(union sigval value);
	union sigval value;
	pthread_attr_t attributes;
	timer_t timer;
	bool ended;
	struct event_timer *next;
};

/* In the order of their numbers, which the kernel's signals bring.  They stay: a signal may come late. */
static struct event_timer *timers;
static int timers_n;
static struct sr_lock lock;

static int add(struct event_timer *timer)
{
	int number;

	sr_lock(&lock);
	timer->next = timers;
	timers = timer;
	number = timers_n++;
	sr_unlock(&lock);
	return number;
}

static struct event_timer *timer_of(int number)
{
	struct event_timer *timer;
	int n;

	sr_lock(&lock);
	n = timers_n - 1;
	for (timer = timers; timer && n > number; timer = timer->next)
		n--;
	sr_unlock(&lock);
	return number >= 0 ? timer : NULL;
}

/* ------------------------------------------------------------ the thread that waits */

static struct {
	pthread_mutex_t mutex; /* whose order is recorded: of the timers' numbers, and of their ends */
	sem_t begun;
	sem_t event_begun;
	long process; /* whose it is */
	long thread;
} waiter = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void block_all(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
}

/* The timer by its number: its address is another one in a replay. */
static void *run(void *number)
{
	const struct event_timer *timer = timer_of((int)(intptr_t)number);
	sigset_t none;

	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	sem_post(&waiter.event_begun);
	timer->function(timer->value);
	return NULL;
}

static bool has_ended(const struct event_timer *timer)
{
	bool ended;

	pthread_mutex_lock(&waiter.mutex);
	ended = timer->ended;
	pthread_mutex_unlock(&waiter.mutex);
	return ended;
}

static void *wait_for_events(void *unused)
{
	const uint64_t signal = 1ull << (SIGNAL - 1);
	struct event_timer *timer;
	pthread_t thread;
	sigset_t set;
	siginfo_t info;

	/* libc's functions leave this signal out. */
	sr_syscall(SYS_rt_sigprocmask, SIG_BLOCK, SR_ARG(&signal), 0, sizeof(signal), 0, 0);
	sigemptyset(&set);
	__builtin_memcpy(&set, &signal, sizeof(signal));
	waiter.thread = sr_sys_gettid();
	sem_post(&waiter.begun);
	for (;;) {
		if (sigwaitinfo(&set, &info) < 0 || info.si_code != SI_TIMER)
			continue;
		timer = timer_of(info.si_value.sival_int);
		if (!timer || has_ended(timer) ||
		    pthread_create(&thread, &timer->attributes, run, (void *)(intptr_t)info.si_value.sival_int))
			continue;
		/* Where threads begin more slowly than the timer expires, it overruns, as anywhere. */
		while (sem_wait(&waiter.event_begun))
			;
	}
	return NULL;
}

static bool begin_waiter(void)
{
	pthread_attr_t attributes;
	sigset_t before;
	pthread_t thread;
	int err;

	sem_init(&waiter.begun, 0, 0);
	sem_init(&waiter.event_begun, 0, 0);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	block_all(&before);
	err = pthread_create(&thread, &attributes, wait_for_events, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	while (!err && sem_wait(&waiter.begun))
		;
	return !err;
}

/* ----------------------------------------------------------------- the timers */

/* What of the program's attributes matters to a thread that nobody joins. */
static void copy_attributes(pthread_attr_t *to, const pthread_attr_t *from)
{
	struct sched_param parameters;
	size_t size;
	int how;

	pthread_attr_init(to);
	if (!pthread_attr_getstacksize(from, &size))
		pthread_attr_setstacksize(to, size);
	if (!pthread_attr_getguardsize(from, &size))
		pthread_attr_setguardsize(to, size);
	if (!pthread_attr_getinheritsched(from, &how))
		pthread_attr_setinheritsched(to, how);
	if (!pthread_attr_getschedpolicy(from, &how))
		pthread_attr_setschedpolicy(to, how);
	if (!pthread_attr_getschedparam(from, &parameters))
		pthread_attr_setschedparam(to, &parameters);
}

static struct event_timer *timer_for(const struct sigevent *event)
{
	struct event_timer *timer = sr_alloc_zeroed(sizeof(*timer));

	if (!timer)
		return NULL;
	timer->function = event->sigev_notify_function;
	timer->value = event->sigev_value;
	timer->timer = (timer_t)-1;
	if (event->sigev_notify_attributes)
		copy_attributes(&timer->attributes, event->sigev_notify_attributes);
	else
		pthread_attr_init(&timer->attributes);
	pthread_attr_setdetachstate(&timer->attributes, PTHREAD_CREATE_DETACHED);
	return timer;
}

/* -1: there is no thread that waits.  A forked child has none at first. */
static int number_for(struct event_timer *timer)
{
	const long process = sr_sys_getpid();
	int number = -1;

	pthread_mutex_lock(&waiter.mutex);
	if (waiter.process == process || begin_waiter()) {
		waiter.process = process;
		number = add(timer);
	}
	pthread_mutex_unlock(&waiter.mutex);
	return number;
}

bool sr_creates_event_timer(uint64_t *a, void *site, int *result)
{
	const struct sigevent *event = (const struct sigevent *)a[1];
	struct sigevent to_waiter = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGNAL};
	struct event_timer *timer;
	int number;

	if (!event || event->sigev_notify != SIGEV_THREAD || !sr_engine_is_active() || sr_self.depth || !sr_self.armed)
		return false;
	timer = timer_for(event);
	if (!timer)
		return false;
	number = number_for(timer);
	if (number < 0) {
		sr_free(timer);
		return false;
	}
	to_waiter.sigev_value.sival_int = number;
	to_waiter._sigev_un._tid = (pid_t)waiter.thread;
	a[1] = (uintptr_t)&to_waiter;
	*result = (int)sr_call(SR_CALL_timer_create, a, site);
	if (*result)
		timer->ended = true;
	else
		timer->timer = *(timer_t *)a[2];
	return true;
}

static struct event_timer *event_timer_of(timer_t number)
{
	struct event_timer *timer;

	sr_lock(&lock);
	for (timer = timers; timer && (timer->ended || timer->timer != number); timer = timer->next)
		;
	sr_unlock(&lock);
	return timer;
}

bool sr_deletes_event_timer(uint64_t *a, void *site, int *result)
{
	struct event_timer *timer = timers && !sr_self.depth ? event_timer_of((timer_t)a[0]) : NULL;

	if (!timer)
		return false;
	pthread_mutex_lock(&waiter.mutex);
	timer->ended = true;
	pthread_mutex_unlock(&waiter.mutex);
	*result = (int)sr_call(SR_CALL_timer_delete, a, site);
	return true;
}
