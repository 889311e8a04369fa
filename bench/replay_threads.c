/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay_threads.c: for bench/replay, which compiles it: threads that need one another.
 *
 *   replay_threads locks | turns | heap N
 *
 * locks: four threads take one mutex in turn with work of their own; turns: two threads pass a turn
 * to and fro; heap: three threads allocate and free.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 64

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long n, sum;
static int turn;

static void *locks(void *argument)
{
	long id = (long)argument;

	for (long i = 0; i < n; i++) {
		pthread_mutex_lock(&mutex);
		sum += i ^ id;
		pthread_mutex_unlock(&mutex);
		for (volatile int k = 0; k < 400; k++)
			;
	}
	return NULL;
}

static void *turns(void *argument)
{
	int id = (int)(long)argument;

	for (long i = 0; i < n; i++) {
		pthread_mutex_lock(&mutex);
		while (turn != id)
			pthread_cond_wait(&changed, &mutex);
		turn = !turn;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static void *heap(void *argument)
{
	unsigned int random = (unsigned int)(long)argument;
	void *block[BLOCKS] = {0};

	for (long i = 0; i < n; i++) {
		unsigned int k;

		random = random * 1103515245 + 12345;
		k = (random >> 16) % BLOCKS;
		free(block[k]);
		block[k] = malloc(16 + ((random >> 8) & 255));
	}
	for (int i = 0; i < BLOCKS; i++)
		free(block[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	const char *what = argc == 3 ? argv[1] : "";
	void *(*run)(void *) = !strcmp(what, "locks")   ? locks
			       : !strcmp(what, "turns") ? turns
							: heap;
	int threads = run == locks ? 4 : run == turns ? 2 : 3;
	pthread_t thread[4];

	if (argc != 3)
		return 2;
	n = atol(argv[2]);
	for (long i = 0; i < threads; i++)
		pthread_create(&thread[i], NULL, run, (void *)i);
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	printf("%ld\n", sum);
	return 0;
}
