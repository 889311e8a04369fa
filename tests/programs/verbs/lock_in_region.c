/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lock_in_region.c: a mutex and a semaphore lie in memory that is registered for remote writing, as in a block that was
 * freed while UCX still had it registered, and was allocated again.
 *
 *     lock_in_region
 *
 * What libc stores there is the process's own.
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 20
#define PAGE   4096

struct shared {
	pthread_mutex_t mutex;
	uint64_t sum;
	sem_t done;
};

static struct shared *shared;

static void add_all(uint64_t from)
{
	for (uint64_t i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&shared->mutex);
		shared->sum += from + i;
		pthread_mutex_unlock(&shared->mutex);
	}
}

static void *add_more(void *unused)
{
	add_all(ROUNDS);
	sem_post(&shared->done);
	return NULL;
}

static struct ibv_mr *registered(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;

	shared = aligned_alloc(PAGE, PAGE);
	memset(shared, 0, PAGE);
	return pd ? ibv_reg_mr(pd, shared, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) : NULL;
}

int main(void)
{
	struct ibv_mr *mr = registered();
	pthread_t thread;

	if (!mr || pthread_mutex_init(&shared->mutex, NULL) || sem_init(&shared->done, 0, 0) ||
	    pthread_create(&thread, NULL, add_more, NULL))
		return 1;
	add_all(0);
	while (sem_wait(&shared->done))
		;
	printf("sum %lu\n", shared->sum);
	/* Libc marks it, for those who still use it. */
	pthread_mutex_destroy(&shared->mutex);
	return ibv_dereg_mr(mr) || pthread_join(thread, NULL);
}
