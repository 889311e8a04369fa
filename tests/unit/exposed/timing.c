/* SPDX-License-Identifier: BSD-2-Clause */
/* timing.c: the costs of the exposed-region module, natively: medians in ns. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/exposed/simulator.h"

#define PAGES  64
#define WORDS  512
#define ROUNDS 20001

typedef volatile uint64_t word;

static word *user, *dma;
static uint64_t sample[ROUNDS];

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : 1;
}

static void say(const char *what, uint64_t parts)
{
	qsort(sample, ROUNDS, sizeof(*sample), by_size);
	printf("%-50s %6lu ns\n", what, sample[ROUNDS / 2] / parts);
}

/* Frequent stores soon make the page pass-through. */
static void load_that_finds_a_change(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t t;

		sr_exposed_observe();
		dma[1] = (uint64_t)i;
		t = now();
		(void)user[1];
		sample[i] = now() - t;
	}
	say("a load that finds a change", 1);
}

/* A task polls for messages; after each poll the registers differ. */
static void look_that_finds_nothing_new(void)
{
	uint64_t t;

	sr_exposed_observe();
	for (int i = 0; i < 2000; i++)
		(void)user[1];
	t = now();
	for (int i = 0; i < ROUNDS; i++)
		(void)user[1];
	t = now() - t;
	printf("%-50s %6lu ns\n", "a look that finds nothing new", t / ROUNDS);
}

static void page_that_is_scanned(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t t;

		sr_exposed_observe();
		dma[1] = (uint64_t)i;
		t = now();
		for (int k = 0; k < WORDS; k++)
			(void)user[k];
		sr_exposed_observe();
		sample[i] = now() - t;
	}
	say("a changed page, all of it read, and closed again", 1);
}

static void isolated_store(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t t;

		sr_exposed_observe();
		t = now();
		user[2] = (uint64_t)i;
		sample[i] = now() - t;
	}
	say("an isolated store", 1);
}

static void exchange(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t t;

		sr_exposed_observe();
		t = now();
		__atomic_fetch_add(&user[2], 1, __ATOMIC_SEQ_CST);
		sample[i] = now() - t;
	}
	say("an atomic operation of the CPU", 1);
}

/* The time of a store with 32 snapshot pages, less that of a store with none. */
static void revalidated_page(void)
{
	uint64_t with = 0, without = 0;

	for (int pages = 0; pages <= 32; pages += 32) {
		for (int i = 0; i < ROUNDS; i++) {
			uint64_t t;

			if (i % 8 == 0) {
				sr_exposed_observe();
				for (int p = 1; p <= pages; p++)
					for (int k = 0; k < 5; k++)
						(void)user[p * WORDS + k];
			}
			t = now();
			user[2] = (uint64_t)i;
			sample[i] = now() - t;
		}
		qsort(sample, ROUNDS, sizeof(*sample), by_size);
		with = sample[ROUNDS / 2];
		if (!pages)
			without = with;
	}
	printf("%-50s %6lu ns\n", "a re-validated page", (with - without) / 32);
}

/* On a page that peers write, which is not passed through. */
static void stores_in_a_row(void)
{
	typedef uint64_t vector __attribute__((vector_size(16), may_alias));
	uint64_t begin = now(), middle;

	sr_exposed_observe();
	for (int i = 0; i < ROUNDS; i++)
		user[i % WORDS] = (uint64_t)i;
	middle = now();
	for (int i = 0; i < ROUNDS; i++)
		((volatile vector *)user)[i % (WORDS / 2)] = (vector){(uint64_t)i};
	printf("%-50s %6lu ns\n", "a store in a row", (middle - begin) / ROUNDS);
	printf("%-50s %6lu ns\n", "... of a vector of 16 bytes", (now() - middle) / ROUNDS);
}

static void bulk_stores(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t t;

		sr_exposed_observe();
		t = now();
		for (int k = 0; k < WORDS; k++)
			user[k] = (uint64_t)i;
		sr_exposed_observe();
		sample[i] = now() - t;
	}
	say("a page filled by 512 stores, and closed again", 1);
}

#define WALKED 8192

/*
 * Like a library that walks its pools at its end: a few words of each page, once, without a call.
 */
static void pages_walked(void)
{
	word *pool = mmap(NULL, WALKED * 4096ul, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	uint64_t t;

	memset((void *)pool, 1, WALKED * 4096ul);
	if (sr_exposed_add((void *)pool, WALKED * 4096ul) != SR_EXPOSED_OK)
		return;
	sr_exposed_observe();
	t = now();
	for (int i = WALKED; i--;)
		for (int k = 0; k < 6; k++)
			(void)pool[i * WORDS + k * 70];
	t = now() - t;
	sr_exposed_observe();
	sr_exposed_remove((void *)pool, WALKED * 4096ul);
	printf("%-50s %6lu ns\n", "a page of a large region, walked once", t / WALKED);
}

static void ignore(const struct sr_exposed_event *e)
{
}

int main(void)
{
	static const struct sr_exposed_hooks h = {.event = ignore, .patches = true};

	if (!map_for_nic(PAGES * 4096, &user, &dma))
		return 1;
	take_faults();
	if (sr_exposed_init(&h) || sr_exposed_add((void *)user, PAGES * 4096) != SR_EXPOSED_OK)
		return 1;
	for (int i = 0; i < PAGES; i++)
		(void)user[i * WORDS];
	load_that_finds_a_change();
	look_that_finds_nothing_new();
	page_that_is_scanned();
	isolated_store();
	exchange();
	revalidated_page();
	stores_in_a_row();
	bulk_stores();
	pages_walked();
	return 0;
}
