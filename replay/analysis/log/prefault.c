/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/prefault.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "logd/trace/helper_thread.h"

/* Faulted in at once, so that a thread that maps something need not wait for long. */
#define STEP ((size_t)2 << 20)

/* Of more that wait, the last ones are left out. */
#define WAITING_MOST 32

struct range {
	char *at;
	size_t bytes;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct range waiting[WAITING_MOST];
	size_t first, n;
	bool is_started;
} prefault = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static struct range next_range(void)
{
	struct range r;

	pthread_mutex_lock(&prefault.lock);
	while (!prefault.n)
		pthread_cond_wait(&prefault.more, &prefault.lock);
	r = prefault.waiting[prefault.first];
	prefault.first = (prefault.first + 1) % WAITING_MOST;
	prefault.n--;
	pthread_mutex_unlock(&prefault.lock);
	return r;
}

/* What was unmapped meanwhile fails; what has taken its place is only there early. */
static void *fault_in(void *argument)
{
	(void)argument;
	for (;;) {
		const struct range r = next_range();

		for (size_t done = 0; done < r.bytes; done += STEP)
			if (madvise(r.at + done, r.bytes - done < STEP ? r.bytes - done : STEP, MADV_POPULATE_WRITE))
				break;
	}
	return NULL;
}

void sr_prefault_start(void)
{
	prefault.is_started = sr_helper_thread_start(fault_in);
}

void sr_prefault(void *at, size_t bytes)
{
	if (!prefault.is_started || bytes <= STEP)
		return;
	pthread_mutex_lock(&prefault.lock);
	/* The caller fills the first pages now. */
	if (prefault.n < WAITING_MOST)
		prefault.waiting[(prefault.first + prefault.n++) % WAITING_MOST] = (struct range){(char *)at + STEP, bytes - STEP};
	pthread_cond_signal(&prefault.more);
	pthread_mutex_unlock(&prefault.lock);
}
