/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stack_frames.c: a function's array is registered on the main thread's stack, and frames of others come to lie there: of
 * own_allocator.c, which takes locks within operations on the heap.  Another thread allocates after that.
 *
 *     stack_frames
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sem_t sem;

static void *allocate(void *unused)
{
	void *volatile block;

	sem_wait(&sem);
	block = malloc(100);
	printf("the other thread has a block: %d\n", block != NULL);
	free(block);
	return unused;
}

static int __attribute__((noinline)) expose(struct ibv_pd *pd)
{
	volatile char array[65536];

	memset((char *)array, 1, sizeof(array));
	return ibv_reg_mr(pd, (char *)array, sizeof(array), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) != NULL;
}

/* Its frame is checked, and has mangled pointers. */
static void __attribute__((noinline)) go_on(void)
{
	jmp_buf here;
	volatile char deeper[4096] = {0};
	void *volatile block = malloc(1000 + (size_t)deeper[17]);

	if (!setjmp(here)) {
		free(block);
		longjmp(here, 1);
	}
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	pthread_t other;

	if (!pd || pthread_create(&other, NULL, allocate, NULL) || !expose(pd))
		return 1;
	for (int i = 0; i < 3; i++)
		go_on();
	sem_post(&sem);
	pthread_join(other, NULL);
	puts("joined");
	return 0;
}
