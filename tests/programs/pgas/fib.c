/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fib.c: Fibonacci numbers by task stealing, in the way of the UPC task library's example.
 *
 *   fib [N [CUTOFF]]
 *
 * A task above CUTOFF makes two, and a join cell that waits for both; a task's result is added to
 * the cell of its parent by a remote atomic, whoever ran it. The rank that brings the second result
 * passes the sum on to the next cell.
 */
#include "pgas/deque.h"
#include "pgas/pgas.h"

#define PARTS 2

struct cell {
	uint64_t sum, arrived;
	uint64_t parent_rank, parent; /* index of the cell */
};

struct task {
	uint64_t n, parent_rank, parent;
};

#define ROOT_CELL 0

static struct cell *cells; /* of this rank; the first one of rank 0 is above the whole tree */
static uint64_t n_cells, room, cutoff;

static uint64_t sequential(uint64_t n)
{
	return n < 2 ? n : sequential(n - 1) + sequential(n - 2);
}

static uint64_t iterative(uint64_t n)
{
	uint64_t a = 0, b = 1, next;

	for (; n; n--) {
		next = a + b;
		a = b;
		b = next;
	}
	return a;
}

/* Gives a result to a cell, and on to the ones above as long as it was the last part. */
static void deliver(uint64_t rank, uint64_t index, uint64_t result)
{
	struct cell copy;

	for (;;) {
		pgas_fetch_add((int)rank, &cells[index].sum, result);
		if (pgas_fetch_add((int)rank, &cells[index].arrived, 1) + 1 < PARTS)
			return;
		if (rank == 0 && index == ROOT_CELL)
			return;
		pgas_get((int)rank, &copy, &cells[index], sizeof(copy));
		result = copy.sum;
		rank = copy.parent_rank;
		index = copy.parent;
	}
}

static uint64_t new_cell(const struct task *t)
{
	uint64_t index = n_cells++;

	if (n_cells > room)
		pgas_fail("more than %llu tasks were split by one rank", (unsigned long long)room);
	cells[index].parent_rank = t->parent_rank;
	cells[index].parent = t->parent;
	return index;
}

static void run(struct pgas_deque *tasks, const void *task)
{
	const struct task *t = task;
	struct task part = {.parent_rank = (uint64_t)pgas_rank()};

	if (t->n < 2 || t->n <= cutoff) {
		deliver(t->parent_rank, t->parent, sequential(t->n));
		return;
	}
	part.parent = new_cell(t);
	part.n = t->n - 1;
	pgas_push(tasks, &part);
	part.n = t->n - 2;
	pgas_push(tasks, &part);
}

int main(int argc, char **argv)
{
	static const char usage[] = "fib [N [CUTOFF]]";
	uint64_t n = (uint64_t)pgas_argument(argc, argv, 1, 16, 0, usage), value;
	struct pgas_deque *tasks;

	cutoff = (uint64_t)pgas_argument(argc, argv, 2, 6, 0, usage);
	/* Splits are as many as there are calls above the cutoff; one rank may do them all. */
	room = iterative(n > cutoff ? n - cutoff + 2 : 2) + 1;
	pgas_start(room * sizeof(struct cell) + PGAS_DEQUE_BYTES, 0);
	cells = pgas_shared(room * sizeof(*cells));
	tasks = pgas_make_deque(sizeof(struct task), 2);
	if (pgas_rank() == 0) {
		struct task root = {.n = n, .parent_rank = 0, .parent = ROOT_CELL};

		n_cells = 1;
		pgas_push(tasks, &root);
	}
	pgas_barrier();
	pgas_run_tasks(tasks, run);
	pgas_get(0, &value, &cells[ROOT_CELL].sum, sizeof(value));
	return pgas_end(pgas_result(value == iterative(n), "fib(%llu) = %llu",
				    (unsigned long long)n, (unsigned long long)value));
}
