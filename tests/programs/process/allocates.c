/* SPDX-License-Identifier: BSD-2-Clause */
/* allocates.c: threads that allocate and free at the same time, by own_allocator.c. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Of own_allocator.c. */
void flush(void);

#define THREADS 3
#define ROUNDS	20000
#define BLOCKS	64

static void *allocate(void *argument)
{
	uint32_t random = (uint32_t)(uintptr_t)argument + 1;
	void *block[BLOCKS] = {0};

	for (int i = 0; i < ROUNDS; i++) {
		uint32_t k;

		random = random * 1103515245 + 12345;
		k = random >> 16 & (BLOCKS - 1);
		free(block[k]);
		block[k] = malloc(random >> 8 & 4095);
		if ((random >> 4) % 16 == 0)
			flush();
		if (i % 5000 == 0)
			usleep(1000);
	}
	return block[3];
}

int main(void)
{
	pthread_t t[THREADS];
	void *last;

	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, allocate, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], &last);
		printf("%p\n", last);
	}
	return 6;
}
