/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * on_stack.c: rank 0 registers an array of a function's, and peers write there.  When that function has returned, others
 * have their frames in what is still registered, and end registrations of the heap from there.
 */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "pgas/internal.h"

#define WORDS 1024
#define ENDED 2

struct shared {
	uint64_t address, key, written;
};

static struct shared *shared;
static struct ibv_mr *region, *others[ENDED];
static uint64_t digest;

static void __attribute__((noinline)) receive(void)
{
	volatile uint64_t array[WORDS] = {0};
	const int peers = pgas.ranks - 1;

	region = pgas_own_region(array, sizeof(array));
	for (int i = 0; i < ENDED; i++)
		others[i] = pgas_own_region(aligned_alloc(4096, 4096), 4096);
	for (int rank = 1; rank <= peers; rank++) {
		pgas_put(rank, &shared->address, &(uint64_t){(uintptr_t)array}, 8);
		pgas_put(rank, &shared->key, &(uint64_t){region->rkey}, 8);
	}
	pgas_barrier();
	pgas_wait_for(&shared->written, (uint64_t)peers);
	/* What is registered on a stack is looked at when a recorded call returns. */
	digest += (uint64_t)getppid();
	for (int i = 0; i < WORDS; i++)
		digest = digest * 31 + array[i];
}

static void send(void)
{
	uint64_t mine[WORDS / PGAS_MAX_RANKS];
	const uint64_t bytes = sizeof(mine);
	struct ibv_mr *mr = pgas_own_region(mine, bytes);
	struct ibv_sge sge = {.addr = (uintptr_t)mine, .length = (uint32_t)bytes, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;

	pgas_barrier();
	for (size_t i = 0; i < WORDS / PGAS_MAX_RANKS; i++)
		mine[i] = 1000 * (uint64_t)pgas.rank + i;
	wr.wr.rdma.remote_addr = shared->address + bytes * (uint64_t)pgas.rank;
	wr.wr.rdma.rkey = (uint32_t)shared->key;
	if (ibv_post_send(pgas.peers[0].qp, &wr, &bad))
		pgas_fail("cannot send");
	pgas.peers[0].posted++;
	pgas_quiet();
	pgas_fetch_add(0, &shared->written, 1);
	ibv_dereg_mr(mr);
}

static int __attribute__((noinline)) end(int i)
{
	int err = ibv_dereg_mr(others[i]);

	digest += (uint64_t)i;
	return err;
}

/* The frames of end() come to lie within the array.  A replay must not take one of the two calls for the other. */
static int __attribute__((noinline)) end_both(void)
{
	volatile char deeper[1024] = {0};

	return end(0) | end(1) << 1 | deeper[17];
}

int main(void)
{
	pgas_start(65536, 65536);
	shared = pgas_shared(sizeof(*shared));
	if (pgas.rank) {
		send();
	} else {
		receive();
		if (end_both() || ibv_dereg_mr(region))
			pgas_fail("cannot deregister");
	}
	return pgas_end(pgas_result(true, "%llx", (unsigned long long)digest));
}
