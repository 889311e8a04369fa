/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coroutines.c: rank 0 runs coroutines, each of which receives what a peer writes into an array.
 *
 *     coroutines heap|buffers|pool
 *
 * heap: each stack is a block of malloc's, and each array is a function's, and a region; buffers: the arrays are blocks of
 * malloc's beside the stacks, which the coroutines register; pool: one large region has the stacks and, beside them, the
 * arrays.  A coroutine waits by loading a word, and lets the others run.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "pgas/internal.h"

#define WORDS	    1024
#define STACK_BYTES (64ul << 10)
/* Of the pool, for one coroutine: its array comes first. */
#define PART_BYTES (2 * STACK_BYTES)
#define MAX	    8
#define ROUNDS	    20

/* What a coroutine tells its peer: where its array is. */
struct place {
	uint64_t address, key;
};

struct shared {
	struct place places[MAX];
	uint64_t written[MAX];
};

static struct shared *shared;
static ucontext_t scheduler, coroutines[MAX];
static struct ibv_mr *pool;
static char *parts;
static bool in_blocks;
static uint64_t digest;
static int left;

static void let_others_run(int which)
{
	if (swapcontext(&coroutines[which], &scheduler))
		pgas_fail("cannot switch");
}

static void read_array(const volatile uint64_t *array)
{
	/* What is registered on a stack is looked at when a recorded call returns. */
	digest += (uint64_t)getppid() & 1;
	for (int i = 0; i < WORDS; i++)
		digest = digest * 31 + array[i];
}

static void receive_into(int peer, volatile uint64_t *array, const volatile uint64_t *written, uint32_t key)
{
	pgas_put(peer, &shared->places[peer].key, &(uint64_t){key}, 8);
	pgas_put(peer, &shared->places[peer].address, &(uint64_t){(uintptr_t)array}, 8);
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		while (*written != round)
			let_others_run(peer);
		read_array(array);
		/* The peer may go on. */
		pgas_put(peer, &shared->places[peer].key, &(uint64_t){key + (round << 32)}, 8);
	}
}

static void receive(int peer)
{
	volatile uint64_t array[WORDS] = {0}, *in_pool = (uint64_t *)(parts + (size_t)peer * PART_BYTES);
	struct ibv_mr *mine;

	if (pool) {
		receive_into(peer, in_pool, &in_pool[WORDS - 1], pool->rkey);
	} else if (in_blocks) {
		volatile uint64_t *block = calloc(WORDS, sizeof(*block));

		mine = pgas_own_region(block, WORDS * sizeof(*block));
		receive_into(peer, block, &block[WORDS - 1], mine->rkey);
		ibv_dereg_mr(mine);
	} else {
		mine = pgas_own_region(array, sizeof(array));
		receive_into(peer, array, &shared->written[peer], mine->rkey);
		ibv_dereg_mr(mine);
	}
	coroutines[peer].uc_link = NULL; /* it has ended; where it goes on is on its stack */
	left--;
}

static void start(int peer, char *stack)
{
	if (!stack || getcontext(&coroutines[peer]))
		pgas_fail("cannot make a coroutine");
	coroutines[peer].uc_stack.ss_sp = stack;
	coroutines[peer].uc_stack.ss_size = STACK_BYTES;
	coroutines[peer].uc_link = &scheduler;
	makecontext(&coroutines[peer], (void (*)(void))receive, 1, peer);
}

static void run(bool has_pool)
{
	if (has_pool) {
		parts = aligned_alloc(4096, MAX * PART_BYTES);
		pool = pgas_own_region(parts, MAX * PART_BYTES);
	}
	left = pgas.ranks - 1;
	for (int peer = 1; peer < pgas.ranks; peer++)
		start(peer, has_pool ? parts + (size_t)peer * PART_BYTES + STACK_BYTES : malloc(STACK_BYTES));
	while (left)
		for (int peer = 1; peer < pgas.ranks; peer++)
			if (coroutines[peer].uc_link && swapcontext(&scheduler, &coroutines[peer]))
				pgas_fail("cannot switch");
}

static void write_words(const uint64_t *words, struct ibv_mr *mr, const struct place *to, uint32_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)words, .length = bytes, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;

	wr.wr.rdma.remote_addr = to->address;
	wr.wr.rdma.rkey = (uint32_t)to->key;
	if (ibv_post_send(pgas.peers[0].qp, &wr, &bad))
		pgas_fail("cannot send");
	pgas.peers[0].posted++;
	pgas_quiet();
}

static void send(void)
{
	uint64_t *words = aligned_alloc(4096, WORDS * 8);
	struct ibv_mr *mr = pgas_own_region(words, WORDS * 8);
	volatile struct place *place = &shared->places[pgas.rank];
	struct place to;

	while (!place->address)
		;
	to = (struct place){place->address, place->key};
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		for (uint64_t i = 0; i < WORDS - 1; i++)
			words[i] = 1000000 * (uint64_t)pgas.rank + 1000 * round + i;
		words[WORDS - 1] = round;
		write_words(words, mr, &to, WORDS * 8);
		pgas_put(0, &shared->written[pgas.rank], &round, 8);
		while (place->key >> 32 != round)
			;
	}
	ibv_dereg_mr(mr);
}

int main(int argc, char **argv)
{
	pgas_start(65536, 65536);
	shared = pgas_shared(sizeof(*shared));
	if (pgas.ranks > MAX)
		pgas_fail("too many ranks");
	in_blocks = argc > 1 && !strcmp(argv[1], "buffers");
	if (pgas.rank)
		send();
	else
		run(argc > 1 && !strcmp(argv[1], "pool"));
	pgas_barrier();
	return pgas_end(pgas_result(true, "%llx", (unsigned long long)digest));
}
