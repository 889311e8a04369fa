/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_process.c: checks plans of random executions against a brute-force oracle.
 *
 *     test_process [RUNS [FIRST_SEED]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

static int test_number, failures;

static void result(bool ok, const char *name)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", ++test_number, name);
	failures += !ok;
}

static struct run run;

static enum verdict one(uint64_t seed, int threads, bool clocks, bool same_numbers)
{
	char dir[] = "/tmp/sreplay-process.XXXXXX", command[64];
	struct sr_process_counts counts;
	enum verdict v = UNREADABLE;
	struct sr_error err = {""};
	struct sr_trace *t = NULL;
	struct sr_plan *p = NULL;

	if (!mkdtemp(dir))
		return UNREADABLE;
	memset(&run, 0, sizeof(run));
	run.seed = seed * 2654435761u + 1;
	run.ranks = 2 + (int)(seed % (RANKS - 1));
	run.threads = threads;
	run.clocks = clocks;
	run.same_numbers = same_numbers;
	run.places = seed % 4; /* traces of older builds have none */
	execution_at_random(&run, dir);
	if (!sr_trace_open(&t, dir, &err) && !sr_plan_make(t, NULL, 0, NULL, &counts, &err) &&
	    !sr_plan_open(&p, t, &err) && !counts.unmatched && !counts.weakened &&
	    !counts.ambiguous_links)
		v = oracle_judge(&run, p);
	else
		printf("# seed %llu: %s\n", (unsigned long long)seed, err.text);
	sr_plan_close(p);
	sr_trace_close(t);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command) ? UNREADABLE : v;
}

static bool all_exact(uint64_t first, int runs, int threads, bool clocks, bool same_numbers)
{
	static const char *const words[] = {"exact", "unreadable", "an order is missing",
					    "an order that was not", "a wait that others imply"};
	bool ok = true;

	for (int i = 0; i < runs; i++) {
		enum verdict v = one(first + (uint64_t)i, threads, clocks, same_numbers);

		if (v != EXACT)
			printf("# seed %llu: %s\n", (unsigned long long)first + (unsigned)i,
			       words[v]);
		ok &= v == EXACT;
	}
	return ok;
}

int main(int argc, char **argv)
{
	int runs = argc > 1 ? atoi(argv[1]) : 12;
	uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;

	result(all_exact(first, runs, 1, false, false),
	       "messages: each receive waits for its send, and nothing else");
	result(all_exact(first, runs, 1, false, true),
	       "messages: queue pairs with equal numbers are told apart by sequence numbers");
	result(
	    all_exact(first, runs, 1, true, false),
	    "clocks: the waits are the orders that were found, none is missing, false or implied");
	result(all_exact(first, runs, THREADS, true, false), "clocks: the same with threads");
	printf("1..%d\n", test_number);
	return failures != 0;
}
