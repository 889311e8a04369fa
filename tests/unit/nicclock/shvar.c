/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shvar.c: the program of SReplay's table 3 over the simulated fabric, and the cost of the
 * clocks. Member 0 sets a shared variable again and again; the others read it and set it.
 * The variable lies in an outsider's memory, or in the memory of member 0, which then sets
 * it with its CPU.
 *
 *     shvar [ROUNDS [SEED]]       a table of what is found
 *     shvar --bytes               bytes per operation against the size of the group
 *
 * Fails if a producer is not found.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric.h"
#include "nicclock/order_code.h"

struct game {
	struct fabric *f;
	int members;
	int owner; /* whose memory has the variable */
	int left[SR_CLOCK_MEMBERS];
	int busy[SR_CLOCK_MEMBERS]; /* completions to wait for */
};

static void play(struct game *g, int i)
{
	g->left[i]--;
	if (g->owner == i) {
		fabric_store(g->f, i, 0);
		return;
	}
	if (i > 0) {
		fabric_read(g->f, i, g->owner, 0, 0);
		g->busy[i]++;
	}
	fabric_write(g->f, i, g->owner, 0, 0);
	g->busy[i]++;
}

/* One member does one thing, at its own pace. */
static void move(struct game *g)
{
	int i = (int)fabric_random(g->f, (uint32_t)g->members);

	if (g->busy[i] && fabric_poll(g->f, i))
		g->busy[i]--;
	else if (g->left[i] && g->busy[i] < 2)
		play(g, i);
	for (uint32_t n = fabric_random(g->f, 3); n; n--)
		fabric_step(g->f);
}

static struct fabric_counts run(int members, bool own_memory, int rounds, uint64_t seed)
{
	struct fabric_shape shape = {.members = members,
				     .outsiders = 1,
				     .words = 1,
				     .lanes = 1,
				     .fair = true,
				     .stores_seen = true,
				     .seed = seed};
	struct game g = {.f = fabric_create(&shape), .members = members};
	struct fabric_counts counts;
	bool left = true;

	g.owner = own_memory ? 0 : members;
	for (int i = 0; i < members; i++)
		g.left[i] = rounds;
	while (left) {
		move(&g);
		left = false;
		for (int i = 0; i < members; i++)
			left |= g.left[i];
	}
	fabric_finish(g.f, &counts);
	fabric_free(g.f);
	return counts;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static bool table(int rounds, uint64_t seed)
{
	static const int groups[] = {2, 4, 8, 16};
	int number = 0;
	bool ok = true;

	printf("# group  variable in   values     producer   orders   false   exact   false of them  "
	       "false if settled\n");
	for (size_t i = 0; i < 8; i++) {
		struct fabric_counts c = run(groups[i / 2], i % 2, rounds, seed);
		bool all = c.produced > 0 && c.producer_found == c.produced && !c.missed;

		printf("# %5d  %-11s  %7llu  %7.1f %%  %7llu  %4.1f %%  %4.1f %%  %11.1f %%  %14.1f %%\n",
		       groups[i / 2], i % 2 ? "a member" : "an outsider",
		       (unsigned long long)c.produced, percent(c.producer_found, c.produced),
		       (unsigned long long)c.orders, percent(c.false_orders, c.orders),
		       percent(c.exact, c.orders), percent(c.false_exact, c.exact),
		       percent(c.false_settled, c.orders));
		printf("%sok %d - group of %d, variable in %s: all producers are found\n",
		       all ? "" : "not ", ++number, groups[i / 2],
		       i % 2 ? "a member's memory" : "an outsider's memory");
		ok &= all;
	}
	printf("1..%d\n", number);
	return ok;
}

static void bytes(uint64_t seed)
{
	static const int groups[] = {2, 4, 8, 16, 32, 64};

	printf("group,write_wire,read_wire,vector_write_wire,vector_read_wire,"
	       "trace_per_operation\n");
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		int n = groups[i];
		struct fabric_counts c = run(n, false, 4000 / n, seed);

		/* What whole vectors would take: one in each cell. */
		printf("%d,%zu,%zu,%zu,%zu,%.2f\n", n, sizeof(uint64_t),
		       sr_clock_read_bytes((uint32_t)n), (size_t)n * sizeof(uint64_t),
		       (size_t)(n + 1) * (size_t)n * sizeof(uint64_t),
		       (double)c.trace_bytes / (double)c.operations);
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--bytes")) {
		bytes(1);
		return 0;
	}
	return !table(argc > 1 ? atoi(argv[1]) : 5000, argc > 2 ? strtoull(argv[2], NULL, 0) : 1);
}
