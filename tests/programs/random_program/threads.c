/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.c: data under locks, and threads that wait for each other for a bounded time. */
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "shared.h"

#define LOCKS 4
#define QUEUE 16

static struct {
	pthread_mutex_t mutex;
	uint64_t value;
} locked[LOCKS];

static struct {
	pthread_rwlock_t lock;
	uint64_t value;
} read_mostly;

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	uint64_t items[QUEUE];
	unsigned int n;
} queue;

static struct {
	sem_t tokens;
	pthread_spinlock_t spin;
	uint64_t value;
} more;

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static uint64_t left_behind; /* by destructors, under the lock of `making` */

static void leaves(void *value)
{
	pthread_mutex_lock(&making);
	left_behind = left_behind * 31 + (uintptr_t)value;
	pthread_mutex_unlock(&making);
}

static void begins_once(void)
{
	pthread_key_create(&key, leaves);
}

void prepare_threads(void)
{
	for (int i = 0; i < LOCKS; i++)
		pthread_mutex_init(&locked[i].mutex, NULL);
	pthread_rwlock_init(&read_mostly.lock, NULL);
	pthread_mutex_init(&queue.mutex, NULL);
	pthread_cond_init(&queue.changed, NULL);
	sem_init(&more.tokens, 0, 2);
	pthread_spin_init(&more.spin, 0);
}

static struct timespec soon(struct self *s)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += 1 + draw(s, 300000);
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

static void locks(struct self *s)
{
	unsigned int i = draw(s, LOCKS);

	if (draw(s, 4)) {
		pthread_mutex_lock(&locked[i].mutex);
	} else if (pthread_mutex_trylock(&locked[i].mutex)) {
		mix(s, EBUSY);
		return;
	}
	mix(s, locked[i].value);
	locked[i].value = s->state;
	if (!draw(s, 8))
		sched_yield();
	pthread_mutex_unlock(&locked[i].mutex);
}

static void reads_mostly(struct self *s)
{
	if (draw(s, 4)) {
		pthread_rwlock_rdlock(&read_mostly.lock);
		mix(s, read_mostly.value);
	} else {
		pthread_rwlock_wrlock(&read_mostly.lock);
		read_mostly.value += s->state;
	}
	pthread_rwlock_unlock(&read_mostly.lock);
}

static void puts_item(struct self *s)
{
	pthread_mutex_lock(&queue.mutex);
	if (queue.n < QUEUE)
		queue.items[queue.n++] = s->state;
	if (draw(s, 2))
		pthread_cond_signal(&queue.changed);
	else
		pthread_cond_broadcast(&queue.changed);
	pthread_mutex_unlock(&queue.mutex);
}

static void takes_item(struct self *s)
{
	struct timespec until = soon(s);
	int err = 0;

	pthread_mutex_lock(&queue.mutex);
	while (!queue.n && !err)
		err = pthread_cond_timedwait(&queue.changed, &queue.mutex, &until);
	mix(s, (uint64_t)err);
	if (queue.n)
		mix(s, queue.items[--queue.n]);
	pthread_mutex_unlock(&queue.mutex);
}

static void takes_token(struct self *s)
{
	struct timespec until = soon(s);

	if (sem_timedwait(&more.tokens, &until)) {
		mix(s, (uint64_t)errno);
		return;
	}
	pthread_spin_lock(&more.spin);
	mix(s, more.value);
	more.value = s->state;
	pthread_spin_unlock(&more.spin);
	sem_post(&more.tokens);
}

static void *body(void *argument)
{
	struct self *s = argument;

	pthread_setspecific(key, s);
	run_steps(s, 1 + (int)draw(s, 20));
	if (draw(s, 2))
		pthread_exit(s);
	return s;
}

/* A thread of its own, which it waits for. */
static void creates(struct self *s)
{
	struct self *child;
	pthread_t id;

	if (s->depth > 300)
		return;
	pthread_once(&once, begins_once);
	pthread_mutex_lock(&making);
	child = new_self(s);
	pthread_mutex_unlock(&making);
	child->depth = 1000;
	if (pthread_create(&id, NULL, body, child))
		return;
	run_steps(s, (int)draw(s, 5));
	pthread_join(id, NULL);
	mix(s, child->state);
	fclose(child->file);
	free(child);
	pthread_mutex_lock(&making);
	mix(s, left_behind);
	pthread_mutex_unlock(&making);
}

const struct step thread_steps[] = {
    {"locks", locks, 12},
    {"reads_mostly", reads_mostly, 5},
    {"puts_item", puts_item, 4},
    {"takes_item", takes_item, 4},
    {"takes_token", takes_token, 4},
    {"creates", creates, 2},
    {0},
};
