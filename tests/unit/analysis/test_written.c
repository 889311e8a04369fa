/* SPDX-License-Identifier: BSD-2-Clause */
/* test_written.c: random writes to a small memory, against a byte for each byte. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "replay/analysis/process/events.h"
#include "replay/analysis/written.h"

#define BYTES  200
#define WRITES 400
#define SEEDS  200
#define BASE   0x1000

struct simple {
	size_t last[BYTES], before[BYTES];
};

static void write_simply(struct simple *s, size_t at, size_t n, size_t rank)
{
	for (size_t i = at; i < at + n; i++) {
		s->before[i] = s->last[i];
		s->last[i] = rank;
	}
}

/* Ascending, without overlaps, and each byte with its writers. */
static bool agrees(const struct sr_written_memory *m, const struct simple *s)
{
	uint64_t end = 0;

	for (size_t i = 0; i < m->n; i++) {
		if (m->pieces[i].begin < end || m->pieces[i].begin >= m->pieces[i].end)
			return false;
		end = m->pieces[i].end;
	}
	for (size_t b = 0; b < BYTES; b++) {
		size_t i = sr_written_find(m, BASE + b);
		bool found = i < m->n && m->pieces[i].begin <= BASE + b;

		if ((found ? m->pieces[i].last.rank : SR_NO_RANK) != s->last[b] ||
		    (found ? m->pieces[i].before.rank : SR_NO_RANK) != s->before[b])
			return false;
	}
	return true;
}

static bool run(unsigned int seed)
{
	struct sr_written_memory m = {0};
	struct simple s;
	bool good = true;

	srand(seed);
	for (size_t b = 0; b < BYTES; b++)
		s.last[b] = s.before[b] = SR_NO_RANK;
	for (size_t i = 0; i < WRITES && good; i++) {
		size_t at = (size_t)rand() % BYTES, n = (size_t)rand() % (BYTES - at + 1);
		const struct sr_writer w = {.rank = (size_t)rand() % 8, .step = i};

		good = !sr_written_add(&m, BASE + at, n, &w);
		write_simply(&s, at, n, w.rank);
		good = good && agrees(&m, &s);
	}
	sr_written_free(&m);
	return good;
}

int main(void)
{
	unsigned int seed = 1;

	while (seed <= SEEDS && run(seed))
		seed++;
	printf("1..1\n%s 1 - who wrote what last is as byte by byte\n",
	       seed > SEEDS ? "ok" : "not ok");
	if (seed <= SEEDS)
		printf("# seed %u\n", seed);
	return seed <= SEEDS;
}
