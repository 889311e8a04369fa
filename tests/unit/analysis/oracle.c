/* SPDX-License-Identifier: BSD-2-Clause */
#include "oracle.h"

#include <string.h>

static void close_over(order_matrix before)
{
	for (int k = 0; k < NODES; k++)
		for (int a = 0; a < NODES; a++)
			if (is_before(before, a, k))
				for (int w = 0; w < NODES / 64; w++)
					before[a][w] |= before[k][w];
}

static int call_at(const struct rank *k, uint32_t thread, uint64_t sn)
{
	for (int c = 0; c < k->calls; c++)
		if (k->thread[c] == thread && k->sn[c] == sn)
			return c;
	return -1;
}

struct wait_edge {
	int from, to;
};

static order_matrix implied;

static void program_order(const struct run *r, order_matrix before)
{
	memset(before, 0, sizeof(order_matrix));
	for (int i = 0; i < r->ranks; i++)
		for (int c = 0; c < r->rank[i].calls; c++) {
			put_before(before, entry_of(i, c), return_of(i, c));
			if (c)
				put_before(before, return_of(i, c - 1), entry_of(i, c));
		}
}

static size_t read_waits(const struct run *r, struct sr_plan *p, struct wait_edge *edges,
			 size_t room)
{
	struct sr_error err;
	const void *records;
	size_t n, all = 0;

	for (int i = 0; i < r->ranks; i++)
		for (uint32_t t = 0; t < THREADS; t++) {
			const struct sr_plan_wait *w;

			if (sr_plan_records(p, SR_PLAN_WAIT, i, t, &records, &n, &err))
				return SIZE_MAX;
			w = records;
			for (size_t k = 0; k < n && all < room; k++) {
				int call = call_at(&r->rank[i], t, w[k].sn);
				int of =
				    call_at(&r->rank[w[k].for_rank], w[k].for_thread, w[k].for_sn);

				if (call < 0 || of < 0)
					return SIZE_MAX;
				edges[all++] = (struct wait_edge){entry_of(w[k].for_rank, of),
								  return_of(i, call)};
			}
		}
	return all;
}

/* Is an edge implied by the others?  Search, since there are many edges to try. */
static bool reaches(const struct run *r, const struct wait_edge *edges, size_t n, size_t without,
		    int from, int to)
{
	static uint8_t seen[NODES];
	static int stack[NODES];
	int depth = 0;

	memset(seen, 0, sizeof(seen));
	stack[depth++] = from;
	seen[from] = 1;
	while (depth) {
		int a = stack[--depth], next = a + 1;

		if (a == to)
			return true;
		/* An entry leads to its return, a return to the next call's entry. */
		if ((a & 1 ? (next / 2) % CALLS : 1) && !seen[next] &&
		    (next / 2) % CALLS < r->rank[next / 2 / CALLS].calls) {
			seen[next] = 1;
			stack[depth++] = next;
		}
		for (size_t i = 0; i < n; i++)
			if (i != without && edges[i].from == a && !seen[edges[i].to]) {
				seen[edges[i].to] = 1;
				stack[depth++] = edges[i].to;
			}
	}
	return false;
}

enum verdict oracle_judge(struct run *r, struct sr_plan *p)
{
	static struct wait_edge edges[RANKS * CALLS * RANKS];
	size_t n = read_waits(r, p, edges, RANKS * CALLS * RANKS);

	if (n == SIZE_MAX)
		return UNREADABLE;
	close_over(r->before);
	program_order(r, implied);
	for (size_t i = 0; i < n; i++)
		put_before(implied, edges[i].from, edges[i].to);
	close_over(implied);
	for (int a = 0; a < NODES; a++)
		for (int b = 0; b < NODES; b++) {
			if (is_before(r->before, a, b) && !is_before(implied, a, b))
				return MISSING;
			if (is_before(implied, a, b) && !is_before(r->before, a, b))
				return FALSE_ORDER;
		}
	for (size_t i = 0; i < n; i++)
		if (reaches(r, edges, n, i, edges[i].from, edges[i].to))
			return REDUNDANT;
	return EXACT;
}
