/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * proxies.c: in each of two ranks a thread, the proxy, writes blocks and their flags into the other rank; the main thread fills blocks,
 * and waits for the other rank's, without a call.  The two threads meet at a counter in plain memory.
 *
 *   proxies right     the block comes before its flag
 *   proxies early     the flag comes first, over a queue pair of its own
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "pgas/internal.h"

#define BLOCKS 8
#define WORDS  512
#define ROUNDS 150

struct shared {
	uint64_t in[BLOCKS][WORDS], flag[BLOCKS][8], out[BLOCKS][WORDS], number[BLOCKS];
};

static struct shared *shared;
static struct ibv_qp *qps[PGAS_MAX_RANKS], *flag_qps[PGAS_MAX_RANKS];
static struct ibv_cq *cq;
static _Atomic uint64_t filled, sent;
static bool is_early;

static void write_there(struct ibv_qp *qp, void *from, void *to, size_t bytes, bool waits)
{
	const struct pgas_peer *peer = &pgas.peers[!pgas.rank];
	const struct ibv_sge sge = {(uintptr_t)from, (uint32_t)bytes, pgas.shared.mr->lkey};

	pgas_transfer(qp, waits ? cq : NULL, IBV_WR_RDMA_WRITE, &sge, peer->base + ((uintptr_t)to - (uintptr_t)pgas.shared.base), peer->rkey);
}

static void *proxy(void *unused)
{
	for (uint64_t i = 0; i < ROUNDS; i++) {
		const uint64_t block = i % BLOCKS;

		while (atomic_load(&filled) <= i)
			;
		shared->number[block] = i + 1;
		if (is_early)
			write_there(flag_qps[!pgas.rank], &shared->number[block], &shared->flag[block], sizeof(*shared->number), true);
		write_there(qps[!pgas.rank], shared->out[block], shared->in[block], sizeof(shared->out[block]), is_early);
		if (!is_early)
			write_there(qps[!pgas.rank], &shared->number[block], &shared->flag[block], sizeof(*shared->number), true);
		atomic_store(&sent, i + 1);
	}
	return unused;
}

static uint64_t exchange(void)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		const uint64_t block = i % BLOCKS;

		while (i - atomic_load(&sent) >= BLOCKS)
			;
		for (size_t w = 0; w < WORDS; w++)
			shared->out[block][w] = sum + w + i;
		atomic_store(&filled, i + 1);
		while (pgas_load(shared->flag[block]) < i + 1)
			;
		for (size_t w = 0; w < WORDS; w++)
			sum = sum * 31 + shared->in[block][w];
	}
	return sum;
}

int main(int argc, char **argv)
{
	struct ibv_qp_init_attr attr = {.cap = {16, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	pthread_t thread;

	if (argc != 2 || (strcmp(argv[1], "right") && strcmp(argv[1], "early"))) {
		fputs("usage: proxies right|early\n", stderr);
		return 2;
	}
	is_early = !strcmp(argv[1], "early");
	pgas_start(1 << 18, 1 << 17);
	shared = pgas_shared(sizeof(*shared));
	cq = attr.send_cq = attr.recv_cq = ibv_create_cq(pgas.device, 64, NULL, NULL, 0);
	if (!cq)
		pgas_fail("cannot create a completion queue: %m");
	pgas_make_queue_pairs(qps, &attr);
	pgas_make_queue_pairs(flag_qps, &attr);
	pgas_barrier();
	if (pthread_create(&thread, NULL, proxy, NULL))
		pgas_fail("no thread");
	printf("%016llx\n", (unsigned long long)exchange());
	pthread_join(thread, NULL);
	pgas_barrier();
	for (int i = 0; i < pgas.ranks; i++) {
		if (qps[i])
			ibv_destroy_qp(qps[i]);
		if (flag_qps[i])
			ibv_destroy_qp(flag_qps[i]);
	}
	ibv_destroy_cq(cq);
	return pgas_end(true);
}
