/* SPDX-License-Identifier: BSD-2-Clause */
/* first.h: a thread that goes on, where it may have a processor before all others, before what woke it has returned. */
#ifndef FIRST_H
#define FIRST_H

#include <pthread.h>
#include <sched.h>
#include <stddef.h>

/* All threads that this one creates share one processor with it from here on. */
static inline void use_one_processor(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Uses one processor. */
static inline void create_first(pthread_t *t, void *(*routine)(void *))
{
	const struct sched_param first = {.sched_priority = 1};
	pthread_attr_t attr;

	use_one_processor();
	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &first);
	if (pthread_create(t, &attr, routine, NULL))
		pthread_create(t, NULL, routine, NULL);
}

#endif
