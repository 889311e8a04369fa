/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nqueens.c: in how many ways can N queens stand on a board? By task stealing.
 *
 *   nqueens [N [CUTOFF]]
 *
 * A task is a board whose first rows are taken; it makes a task for each place in the next row, or
 * counts by itself when only CUTOFF rows are left.
 */
#include "pgas/deque.h"
#include "pgas/pgas.h"

#define MOST 16

/* Bits of columns that are taken, and of those that diagonals reach in this row. */
struct board {
	uint32_t row, columns, down, up;
};

static const uint64_t known[MOST + 1] = {1,   1,   0,    0,     2,     10,     4,       40,      92,
					 352, 724, 2680, 14200, 73712, 365596, 2279184, 14772512};

static uint32_t size, cutoff;
static uint64_t solutions;

static uint32_t free_places(const struct board *b)
{
	return ~(b->columns | b->down | b->up) & ((1u << size) - 1);
}

static struct board with_queen(const struct board *b, uint32_t place)
{
	return (struct board){b->row + 1, b->columns | place, (b->down | place) << 1,
			      (b->up | place) >> 1};
}

static uint64_t count(const struct board *b)
{
	uint64_t n = 0;

	if (b->row == size)
		return 1;
	for (uint32_t places = free_places(b); places; places &= places - 1) {
		struct board next = with_queen(b, places & -places);

		n += count(&next);
	}
	return n;
}

static void place(struct pgas_deque *tasks, const void *task)
{
	const struct board *b = task;

	if (size - b->row <= cutoff) {
		solutions += count(b);
		return;
	}
	for (uint32_t places = free_places(b); places; places &= places - 1) {
		struct board next = with_queen(b, places & -places);

		pgas_push(tasks, &next);
	}
}

int main(int argc, char **argv)
{
	static const char usage[] = "nqueens [N [CUTOFF]]";
	struct board empty = {0};
	struct pgas_deque *tasks;
	uint64_t all;

	size = (uint32_t)pgas_argument(argc, argv, 1, 9, 1, usage);
	cutoff = (uint32_t)pgas_argument(argc, argv, 2, 4, 0, usage);
	pgas_start(PGAS_DEQUE_BYTES, 0);
	if (size > MOST)
		pgas_fail("the numbers are known here up to %d queens", MOST);
	tasks = pgas_make_deque(sizeof(struct board), 4);
	if (pgas_rank() == 0)
		pgas_push(tasks, &empty);
	pgas_barrier();
	pgas_run_tasks(tasks, place);
	all = pgas_sum(solutions);
	return pgas_end(
	    pgas_result(all == known[size], "%u queens: %llu ways", size, (unsigned long long)all));
}
