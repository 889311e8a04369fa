/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rows.c: records rows of instructions that touch exposed regions, with jumps in their
 * place, and replays them in another process by faults. Both see the same values and count
 * the same accesses.
 *
 *     test_rows [ROUNDS [SEED]]
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/exposed/page/lock.h"
#include "tests/unit/exposed/events.h"
#include "tests/unit/exposed/simulator.h"

/* Three places; rows.py makes them. */
typedef uint64_t row_function(volatile void *, volatile void *, volatile void *);
#include "rows.h"
#define ROWS (sizeof(rows) / sizeof(*rows))

#define PAGES 8
#define WORDS 512
#define BYTES (PAGES * 4096)

/* The part of a shared page that is a region. */
#define PART_AT    128
#define PART_BYTES 2048

char rows_data[2 * 4096] __attribute__((aligned(4096)));

static volatile uint64_t *user, *dma;
static uint64_t rounds = 6000, seed = 1;
static bool common;

/* --------------------------------------------------- what both processes have */

#define ARENA_BYTES (8ul << 30)

struct outcome {
	uint64_t fault, accesses, accesses_n, loads, stores; /* are the same */
	uint64_t jumps, by_jump;
	uint64_t *saw;
};

static struct {
	size_t used;
	struct items items;
	struct outcome outcomes[2];
} *arena;

static void *keep(const void *p, size_t n)
{
	char *at = (char *)arena + arena->used;

	arena->used += (n + 63) & ~63ul;
	return p ? memcpy(at, p, n) : at;
}

static void record(const struct sr_exposed_event *e)
{
	keep_event(&arena->items, e, keep);
}

static struct item *next_item;

static bool recorded(const struct sr_exposed_event *now, struct sr_exposed_event *e)
{
	if (!next_item || !sr_exposed_is_due(&next_item->e, now))
		return false;
	*e = next_item->e;
	next_item = next_item->next;
	return true;
}

/* ----------------------------------------------------------------- the program */

static atomic_bool over;

/* Writes only to regions; the bytes beside them are the program's. */
static void *nic(void *unused)
{
	uint64_t rnd = seed + 99, *data = (uint64_t *)sr_exposed_backing(rows_data);

	while (!over) {
		dma[random_below(&rnd, PAGES) * WORDS + PART_AT / 8 + random_below(&rnd, PART_BYTES / 8)] = rnd;
		data[8 + random_below(&rnd, 4)] = rnd;
		if (!random_below(&rnd, 30))
			sched_yield();
	}
	return NULL;
}

/* Aligned for vectors; one in five is in no exposed region. */
static volatile void *place(uint64_t *rnd)
{
	static _Alignas(64) volatile uint64_t own[64];

	if (!random_below(rnd, 5))
		return &own[2 * random_below(rnd, 20)];
	return &user[random_below(rnd, common ? 2 : PAGES) * WORDS + 2 * random_below(rnd, 250)];
}

static void program(uint64_t *saw)
{
	uint64_t rnd = seed;

	for (uint64_t i = 0; i < rounds; i++) {
		row_function *row = rows[random_below(&rnd, ROWS)];
		uint32_t times = 1 + random_below(&rnd, 3);
		volatile void *a = place(&rnd), *b = place(&rnd), *c = place(&rnd);

		saw[i] = 0;
		while (times--)
			saw[i] = saw[i] * 31 + row(a, b, c);
		if (!random_below(&rnd, 3))
			sr_exposed_observe();
	}
	sr_exposed_observe();
}

static bool threads(void)
{
	return common;
}

static bool add_regions(void)
{
	bool done = sr_exposed_add(rows_data, common ? PART_BYTES : sizeof(rows_data)) == SR_EXPOSED_OK;

	for (size_t at = 0; common && at < BYTES; at += 4096)
		done = done && sr_exposed_add((char *)user + at + PART_AT, PART_BYTES) == SR_EXPOSED_OK;
	return done && (common || sr_exposed_add((void *)user, BYTES) == SR_EXPOSED_OK);
}

static int run(bool records, struct outcome *out)
{
	const struct sr_exposed_hooks h = {
	    .event = records ? record : NULL, .recorded = records ? NULL : recorded, .patches = records, .threads = threads};
	struct sr_exposed_counts c;
	pthread_t t;

	memset((void *)dma, 0, BYTES);
	next_item = arena->items.first;
	take_faults();
	if (sr_exposed_init(&h) || !add_regions() || (records && pthread_create(&t, NULL, nic, NULL)))
		return 1;
	program(out->saw);
	over = true;
	if (records)
		pthread_join(t, NULL);
	sr_exposed_get_counts(&c);
	out->fault = exposed_self.fault;
	out->accesses = exposed_self.accesses;
	out->accesses_n = exposed_self.accesses_n;
	out->loads = c.loads;
	out->stores = c.stores;
	out->jumps = c.jumps;
	out->by_jump = c.by_jump;
	return !records && next_item && next_item->next;
}

/* ------------------------------------------------------------------------ main */

static bool run_in_child(bool records)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(run(records, &arena->outcomes[!records]));
	return waitpid(pid, &status, 0) == pid && !status;
}

static uint64_t differing(const struct outcome *a, const struct outcome *b)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < rounds; i++)
		n += a->saw[i] != b->saw[i];
	return n;
}

static bool test(const char *what)
{
	static int number;
	const struct outcome *o;
	uint64_t differ;
	bool ok;

	arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena == MAP_FAILED)
		return false;
	arena->used = 4096;
	o = arena->outcomes;
	for (int i = 0; i < 2; i++)
		arena->outcomes[i].saw = keep(NULL, rounds * sizeof(uint64_t));
	ok = run_in_child(true);
	ok = run_in_child(false) && ok;
	differ = differing(&o[0], &o[1]);
	ok = ok && !differ && o[0].fault == o[1].fault && o[0].accesses == o[1].accesses && o[0].accesses_n == o[1].accesses_n &&
	     o[0].loads == o[1].loads && o[0].stores == o[1].stores && o[0].jumps > ROWS / 2 && o[0].by_jump > rounds / 2;
	printf("%s %d - %s\n", ok ? "ok" : "not ok", ++number, what);
	for (int i = 0; i < 2; i++)
		printf("# %lu faults, %lu accesses, %lu looks, %lu loads, %lu stores; %lu jumps, %lu by jump\n", o[i].fault,
		       o[i].accesses, o[i].accesses_n, o[i].loads, o[i].stores, o[i].jumps, o[i].by_jump);
	printf("# %lu of %lu rounds differ\n", differ, rounds);
	munmap(arena, ARENA_BYTES);
	return ok;
}

int main(int argc, char **argv)
{
	bool ok;

	if (argc > 1)
		rounds = strtoull(argv[1], NULL, 0);
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("1..2\n");
	if (!map_for_nic(BYTES, &user, &dma))
		return 1;
	ok = test("rows of instructions by jump and by fault, on exposed pages");
	common = true;
	ok = test("and on pages that threads share, of which regions have a part") && ok;
	return !ok;
}
