/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * access.c: what a store costs with the hooks of libsreplay_access.so: run it with `ci/softdev -n 1 --`, by itself and recorded.
 *
 * Prints nanoseconds of CPU time for a store, the least of ROUNDS rounds: outside of registered memory, there again and again in the same
 * words, there from word to word, there with gaps, and there in no order, so that each store is kept by itself.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <infiniband/verbs.h>

#define WORDS 4096
#define FEW 32
#define ROUNDS 8
#define MIXED 0 /* as a stride: in no order */

static _Alignas(4096) uint64_t plain[WORDS], registered[WORDS];
static uint16_t order[WORDS];

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void __attribute__((noinline)) store(volatile uint64_t *p, int words, int stride, int times)
{
	for (int i = 0; i < times; i++)
		for (int k = 0; k < words; k += stride)
			p[k] = (uint64_t)(i + k);
}

static void __attribute__((noinline)) store_mixed(volatile uint64_t *p, int times)
{
	for (int i = 0; i < times; i++)
		for (int k = 0; k < WORDS; k++)
			p[order[k]] = (uint64_t)(i + k);
}

static void mix(void)
{
	for (uint32_t k = 0, at = 1; k < WORDS; k++, at = (at * 1597 + 51749) % 244944)
		order[k] = (uint16_t)(at % WORDS);
}

static void measure(const char *what, uint64_t *p, int words, int stride, int times)
{
	double least = 1e9;

	for (int i = 0; i < ROUNDS; i++) {
		const double begin = now();
		double took;

		if (stride == MIXED)
			store_mixed(p, times);
		else
			store(p, words, stride, times);
		took = (now() - begin) / (stride ? words / stride : words) / times;
		least = took < least ? took : least;
	}
	printf("%-40s %6.2f ns\n", what, least);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, registered, sizeof(registered), IBV_ACCESS_LOCAL_WRITE) : NULL;

	if (!mr)
		return 1;
	mix();
	measure("outside of registered memory", plain, WORDS, 1, 1000);
	measure("registered, the same words", registered, FEW, 1, 200000);
	measure("registered, from word to word", registered, WORDS, 1, 200);
	measure("registered, every other word", registered, WORDS, 2, 200);
	measure("registered, in no order", registered, WORDS, MIXED, 200);
	return ibv_dereg_mr(mr);
}
