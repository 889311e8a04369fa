/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * thread_module.c: a library whose constructor makes the first threads of the program that loads it, as UCX's libucs_fuse
 * does. ld.so's lock is held meanwhile, by the thread that loads. loads_main calls its main.
 */
#include <pthread.h>
#include <stdio.h>

static pthread_t leaves;
static int counted;

static void *count(void *unused)
{
	counted++;
	return NULL;
}

static void *leave(void *unused)
{
	pthread_exit(&counted);
}

__attribute__((constructor)) static void make_threads(void)
{
	pthread_t counts;

	pthread_create(&counts, NULL, count, NULL);
	pthread_join(counts, NULL);
	pthread_create(&leaves, NULL, leave, NULL); /* may need ld.so's lock: main awaits it */
}

int main(int argc, char **argv)
{
	int *left;

	pthread_join(leaves, (void **)&left);
	printf("%d\n", *left);
	return 0;
}
