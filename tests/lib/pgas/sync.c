/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sync.c: waiting, the barrier, locks and reductions.
 *
 * The barrier is a dissemination barrier: in round k a rank notifies the rank 2^k further
 * on and waits for its own notification. Notify does the first half of round 0; wait does
 * the rest. A notification is the number of the barrier, so nothing has to be reset.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

/* How often a loop polls memory before it lets other processes have the CPU. */
#define SPINS  64
#define ROUNDS 6 /* 2^6 = PGAS_MAX_RANKS */

static struct {
	uint64_t *told; /* by round, shared */
	uint64_t number;
	/*
	 * Two alternating sets: a rank in reduction n + 1 does not disturb one that is still in n.
	 */
	uint64_t *contributions;
	unsigned int reductions;
	/* PGAS_DELAY: who sleeps in which barrier before it waits in which round; no barrier has the number 0. */
	struct {
		int rank, round;
		unsigned int barrier;
	} late;
} sync_state;

void pgas_make_sync(void)
{
	const char *late = getenv("PGAS_DELAY");

	sync_state.told = pgas_shared(ROUNDS * sizeof(uint64_t));
	sync_state.contributions = pgas_shared(2 * PGAS_MAX_RANKS * sizeof(uint64_t));
	if (late && sscanf(late, "%d:%u:%d", &sync_state.late.rank, &sync_state.late.barrier, &sync_state.late.round) != 3)
		pgas_fail("PGAS_DELAY is RANK:BARRIER:ROUND, not %s", late);
}

void pgas_relax(struct pgas_patience *patience)
{
	if (patience->spins++ < SPINS)
		__builtin_ia32_pause();
	else
		sched_yield();
}

void pgas_wait_for(const uint64_t *word, uint64_t value)
{
	struct pgas_patience patience = {0};

	while (pgas_load(word) < value)
		pgas_relax(&patience);
}

/* ------------------------------------------------------------------ barrier */

static void tell(int round)
{
	int to = (int)(((unsigned int)pgas.rank + (1u << round)) % (unsigned int)pgas.ranks);

	pgas_put(to, &sync_state.told[round], &sync_state.number, sizeof(uint64_t));
}

/* The others go on meanwhile: what they do is there before this rank looks. */
static void be_late(int round)
{
	if (sync_state.late.barrier == sync_state.number && sync_state.late.rank == pgas.rank && sync_state.late.round == round)
		usleep(50000);
}

void pgas_notify(void)
{
	pgas_quiet();
	sync_state.number++;
	if (pgas.ranks > 1)
		tell(0);
}

void pgas_wait(void)
{
	for (int round = 0; 1 << round < pgas.ranks; round++) {
		if (round > 0)
			tell(round);
		be_late(round);
		pgas_wait_for(&sync_state.told[round], sync_state.number);
	}
}

void pgas_barrier(void)
{
	pgas_notify();
	pgas_wait();
}

/* -------------------------------------------------------------------- locks */

static uint64_t my_mark(void)
{
	return (uint64_t)pgas.rank + 1;
}

bool pgas_try_lock(int rank, struct pgas_lock *lock)
{
	return pgas_compare_swap(rank, &lock->holder, 0, my_mark()) == 0;
}

void pgas_lock(int rank, struct pgas_lock *lock)
{
	while (!pgas_try_lock(rank, lock))
		sched_yield();
}

void pgas_unlock(int rank, struct pgas_lock *lock)
{
	pgas_quiet();
	if (pgas_compare_swap(rank, &lock->holder, my_mark(), 0) != my_mark())
		pgas_fail("a lock of rank %d was taken away", rank);
}

/* --------------------------------------------------------------- reductions */

void pgas_gather(uint64_t mine, uint64_t all[])
{
	uint64_t *set = sync_state.contributions + sync_state.reductions++ % 2 * PGAS_MAX_RANKS;

	set[pgas.rank] = mine;
	for (int i = 0; i < pgas.ranks; i++)
		if (i != pgas.rank)
			pgas_start_put(i, &set[pgas.rank], &set[pgas.rank], sizeof(mine));
	pgas_barrier();
	memcpy(all, set, (size_t)pgas.ranks * sizeof(*all));
}

uint64_t pgas_sum(uint64_t mine)
{
	uint64_t all[PGAS_MAX_RANKS], sum = 0;

	pgas_gather(mine, all);
	for (int i = 0; i < pgas.ranks; i++)
		sum += all[i];
	return sum;
}

uint64_t pgas_max(uint64_t mine)
{
	uint64_t all[PGAS_MAX_RANKS], max = 0;

	pgas_gather(mine, all);
	for (int i = 0; i < pgas.ranks; i++)
		if (all[i] > max)
			max = all[i];
	return max;
}

double pgas_sum_double(double mine)
{
	uint64_t all[PGAS_MAX_RANKS], bits;
	double sum = 0, one;

	memcpy(&bits, &mine, sizeof(bits));
	pgas_gather(bits, all);
	for (int i = 0; i < pgas.ranks; i++) {
		memcpy(&one, &all[i], sizeof(one));
		sum += one;
	}
	return sum;
}
