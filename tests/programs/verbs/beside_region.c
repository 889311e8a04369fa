/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * beside_region.c: a thread stores beside a registered region, then into a plain variable, and then loads from the region,
 * without a call in between.  Another one waits for it and reads the variable.
 *
 *     beside_region          prints the name of its case
 *     beside_region CASE
 *
 * As the progress threads of OpenMPI do it with heap blocks and flags.  Prints a number that depends on what each read of
 * the variable found.
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define ROUNDS 30000
#define PAGE   4096

struct page {
	volatile uint64_t beside[PAGE / 16];
	volatile uint64_t region[PAGE / 16];
};

static struct page *page;
static volatile uint64_t stored;

static void *store(void *unused)
{
	struct timeval now;

	for (uint64_t i = 1; i <= ROUNDS; i++) {
		page->beside[0] = i;
		stored = i;
		(void)page->region[0];
		gettimeofday(&now, NULL);
	}
	return NULL;
}

static uint64_t read_until_last(void)
{
	uint64_t hash = 0, value;

	do {
		usleep(1);
		value = stored;
		hash = (hash ^ value) * 0x9e3779b97f4a7c15ull + 1;
	} while (value < ROUNDS);
	return hash;
}

static void register_half(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;

	page = aligned_alloc(PAGE, sizeof(*page));
	if (!pd || !page)
		exit(1);
	memset(page, 0, sizeof(*page));
	if (!ibv_reg_mr(pd, (void *)page->region, sizeof(page->region), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE))
		exit(1);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc < 2)
		return puts("store-beside") < 0;
	register_half();
	if (pthread_create(&thread, NULL, store, NULL))
		return 1;
	printf("read %016lx\n", read_until_last());
	return pthread_join(thread, NULL);
}
