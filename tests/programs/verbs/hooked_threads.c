/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hooked_threads.c: threads that store into registered memory between calls, for programs with hooks (tests/e2e/local/hooks.py).
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

#define WORDS 64

static _Alignas(4096) volatile uint64_t words[16 * WORDS];
static volatile uint64_t elsewhere[WORDS];

/* One behind the other, and twice: that is no more than once. */
static void *store_in_a_row(void *unused)
{
	(void)unused;
	for (int i = 0; i < 2 * WORDS; i++)
		words[i % WORDS] = 1;
	return NULL;
}

static void *store_with_gaps(void *unused)
{
	(void)unused;
	for (int i = 0; i < WORDS; i++)
		words[2 * WORDS + 2 * i] = elsewhere[i];
	return NULL;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, (void *)words, sizeof(words), IBV_ACCESS_LOCAL_WRITE) : NULL;
	pthread_t threads[2];
	uint64_t sum = 0;

	if (!mr)
		return 1;
	if (pthread_create(&threads[0], NULL, store_in_a_row, NULL) || pthread_create(&threads[1], NULL, store_with_gaps, NULL))
		return 1;
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	for (int i = 0; i < WORDS; i++)
		sum += words[2 * i];
	memset((void *)(words + 8 * WORDS), (int)sum, 4 * WORDS * sizeof(*words));
	return ibv_dereg_mr(mr) || ibv_dealloc_pd(pd) || ibv_close_device(context);
}
