/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mistakes.c: what programs on plain verbs get wrong, each with a mistake and right, for `sreplay races`.
 *
 *   mistakes CASE
 *   mistakes         lists the cases
 *
 * Rank 0 produces or asks, rank 1 consumes or serves.  A case that ends in "-right" is the same without the mistake.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgas/internal.h"

#define ROUNDS 12
#define WORDS  32
#define BYTES  (WORDS * 8) /* more than are sent inline */
#define PLACES 4

struct shared {
	uint64_t head, tail, began, flag, answered, ticket, serving, counter, key, address;
	uint64_t place[PLACES][WORDS];
	uint64_t request[WORDS];
};

static struct shared *shared;
static uint64_t *mine; /* WORDS words of private memory for each place */
static uint64_t sum;

static bool is(int rank)
{
	return pgas.rank == rank;
}

static void fill(uint64_t *words, uint64_t value)
{
	for (size_t i = 0; i < WORDS; i++)
		words[i] = value + i;
}

static void consume(const uint64_t *words)
{
	for (size_t i = 0; i < WORDS; i++)
		sum += pgas_load(&words[i]);
}

static uint64_t remote(int rank, const void *object)
{
	return pgas.peers[rank].base + (uint64_t)((const char *)object - pgas.shared.base);
}

static void post(struct ibv_qp *qp, int rank, enum ibv_wr_opcode opcode, void *local, const void *object, uint32_t bytes, unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)local, bytes, pgas.private.mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = (uint64_t)rank,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = opcode,
				       .send_flags = IBV_SEND_SIGNALED | flags,
				       .wr.rdma = {.remote_addr = remote(rank, object), .rkey = pgas.peers[rank].rkey}};

	if (ibv_post_send(qp, &wr, &bad))
		pgas_fail("cannot post");
	pgas.peers[rank].posted++;
}

/* --------------------------------------------------------------------- rings */

/* The consumer READs an entry from the producer's ring and hands its place back: without a fence the WRITE may overtake the READ. */
static void pull(unsigned int fence)
{
	uint64_t *number = pgas_private(8 * ROUNDS);

	for (uint64_t i = 1; i <= ROUNDS; i++) {
		if (is(0)) {
			pgas_wait_for(&shared->tail, i > PLACES ? i - PLACES : 0);
			fill(shared->place[i % PLACES], i);
			pgas_put(1, &shared->head, &i, 8);
		} else {
			pgas_wait_for(&shared->head, i);
			number[i - 1] = i;
			post(pgas.peers[0].qp, 0, IBV_WR_RDMA_READ, mine, shared->place[i % PLACES], BYTES, 0);
			post(pgas.peers[0].qp, 0, IBV_WR_RDMA_WRITE, &number[i - 1], &shared->tail, 8, fence);
			pgas_quiet();
			consume(mine);
		}
	}
}

static void ring_fence(void)
{
	pull(0);
}

static void ring_fence_right(void)
{
	pull(IBV_SEND_FENCE);
}

/*
 * A race is seen only if the other rank goes on while this one is amid: a rank that sleeps here lets it, also where both
 * share a processor with other programs.
 */
static void let_the_other_go_on(void)
{
	usleep(1000);
}

/*
 * The producer writes entries into the consumer's ring: does it wait for a place to be free?  The consumer says when it has come
 * to the first one: what it loaded when all were there would be ordered behind all of them.
 */
static void push(bool waits)
{
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		if (is(0)) {
			if (waits)
				pgas_wait_for(&shared->tail, i > PLACES ? i - PLACES : 0);
			fill(mine, i);
			pgas_put(1, shared->place[i % PLACES], mine, BYTES);
			pgas_put(1, &shared->head, &i, 8);
			pgas_wait_for(&shared->began, 1);
			let_the_other_go_on();
		} else {
			pgas_wait_for(&shared->head, i);
			if (i == 1)
				pgas_put(0, &shared->began, &i, 8);
			consume(shared->place[i % PLACES]);
			pgas_put(0, &shared->tail, &i, 8);
		}
	}
}

static void ring_overrun(void)
{
	push(false);
}

static void ring_overrun_right(void)
{
	push(true);
}

/* ------------------------------------------------------------ a double buffer */

/* The producer fills one of two buffers while the other one is sent: is that over when it comes back to it? */
static void send_buffers(bool waits)
{
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		uint64_t *buffer = mine + i % 2 * WORDS;

		if (is(0)) {
			if (waits && i % 2)
				pgas_quiet();
			fill(buffer, i);
			pgas_start_put(1, shared->place[i % PLACES], buffer, BYTES);
		}
	}
	pgas_quiet();
}

static void double_buffer(void)
{
	send_buffers(false);
}

static void double_buffer_right(void)
{
	send_buffers(true);
}

/* ------------------------------------------------------------------ messages */

static struct ibv_qp *qps[PGAS_MAX_RANKS];
static struct ibv_srq *srq;
static struct ibv_cq *received;

static void make_queue_pairs(void)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = pgas.cq, .recv_cq = received ? received : pgas.cq, .srq = srq, .cap = {ROUNDS, 0, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	pgas_make_queue_pairs(qps, &attr);
	pgas_barrier();
}

static void end_queue_pairs(void)
{
	pgas_barrier();
	for (int i = 0; i < pgas.ranks; i++)
		ibv_destroy_qp(qps[i]);
}

enum flag_comes { BEHIND, ON_ANOTHER_QUEUE_PAIR, FIRST };

/* A request is written into the server's memory, and a flag that it is there. */
static void ask(enum flag_comes how)
{
	uint64_t *number = pgas_private(8 * ROUNDS);

	make_queue_pairs();
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		if (is(0)) {
			struct ibv_qp *qp = pgas.peers[1].qp, *of_flag = how == ON_ANOTHER_QUEUE_PAIR ? qps[1] : qp;

			fill(mine, i);
			number[i - 1] = i;
			if (how == FIRST)
				post(of_flag, 1, IBV_WR_RDMA_WRITE, &number[i - 1], &shared->flag, 8, 0);
			post(qp, 1, IBV_WR_RDMA_WRITE, mine, shared->request, BYTES, 0);
			if (how != FIRST)
				post(of_flag, 1, IBV_WR_RDMA_WRITE, &number[i - 1], &shared->flag, 8, 0);
			pgas_quiet();
			pgas_wait_for(&shared->answered, i);
		} else {
			pgas_wait_for(&shared->flag, i);
			consume(shared->request);
			pgas_put(0, &shared->answered, &i, 8);
		}
	}
	end_queue_pairs();
}

static void request_flag(void)
{
	ask(ON_ANOTHER_QUEUE_PAIR);
}

static void request_flag_first(void)
{
	ask(FIRST);
}

static void request_flag_right(void)
{
	ask(BEHIND);
}

/* Messages come to a shared receive queue: is a buffer read before it is posted again? */
static void receive(bool reads_first)
{
	struct ibv_srq_init_attr attr = {.attr = {PLACES, 1, 0}};
	uint64_t *buffers = pgas_private((size_t)PLACES * BYTES);
	struct ibv_sge sge = {(uintptr_t)mine, BYTES, pgas.private.mr->lkey};
	struct ibv_send_wr *bad_send, send = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_recv_wr *bad;
	struct ibv_wc wc;

	received = ibv_create_cq(pgas.device, 2 * ROUNDS, NULL, NULL, 0);
	srq = ibv_create_srq(pgas.pd, &attr);
	if (!received || !srq)
		pgas_fail("cannot create a shared receive queue");
	for (uint64_t i = 0; i < PLACES; i++) {
		struct ibv_sge to = {(uintptr_t)&buffers[i * WORDS], BYTES, pgas.private.mr->lkey};

		if (ibv_post_srq_recv(srq, &(struct ibv_recv_wr){.wr_id = i, .sg_list = &to, .num_sge = 1}, &bad))
			pgas_fail("cannot post a receive");
	}
	make_queue_pairs();
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		if (is(0)) {
			pgas_wait_for(&shared->tail, i > PLACES ? i - PLACES : 0);
			fill(mine, i);
			if (ibv_post_send(qps[1], &send, &bad_send))
				pgas_fail("cannot send");
			pgas.peers[1].posted++;
			pgas_quiet();
			continue;
		}
		while (!ibv_poll_cq(received, 1, &wc))
			;
		if (wc.status)
			pgas_fail("a completion failed");
		sge.addr = (uintptr_t)&buffers[wc.wr_id * WORDS];
		if (reads_first)
			consume(&buffers[wc.wr_id * WORDS]);
		if (ibv_post_srq_recv(srq, &(struct ibv_recv_wr){.wr_id = wc.wr_id, .sg_list = &sge, .num_sge = 1}, &bad))
			pgas_fail("cannot post a receive");
		pgas_put(0, &shared->tail, &i, 8);
		let_the_other_go_on();
		if (!reads_first)
			consume(&buffers[wc.wr_id * WORDS]);
	}
	end_queue_pairs();
}

static void shared_receives(void)
{
	receive(false);
}

static void shared_receives_right(void)
{
	receive(true);
}

/* ------------------------------------------------------------------- a lock */

/* A rank takes its ticket by an atomic, and the owner by an instruction of its CPU: both may get the same one. */
static void take_turns(bool owner_uses_atomics)
{
	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t ticket, seen = 0;

		if (is(0) && !owner_uses_atomics) {
			ticket = pgas_load(&shared->ticket);
			pgas_store(&shared->ticket, ticket + 1);
		} else {
			ticket = pgas_fetch_add(0, &shared->ticket, 1);
		}
		/* The race has given the same ticket twice, or left one out: nobody waits for that. */
		for (int k = 0; k < 200 && seen < ticket; k++) {
			pgas_get(0, &seen, &shared->serving, 8);
			usleep(seen < ticket ? 100 : 0);
		}
		sum++;
		pgas_fetch_add(0, &shared->serving, 1);
	}
}

static void ticket_store(void)
{
	take_turns(false);
}

static void ticket_store_right(void)
{
	take_turns(true);
}

/* ------------------------------------------------------------ registered again */

/* The server registers its buffer again for each request: is the one before over? */
static void register_again(bool waits)
{
	uint64_t *buffer = aligned_alloc(4096, 4096);
	struct ibv_mr *region = NULL;

	for (uint64_t i = 1; i <= ROUNDS; i++) {
		if (is(1)) {
			if (waits)
				pgas_wait_for(&shared->answered, i - 1);
			if (region && ibv_dereg_mr(region))
				pgas_fail("cannot deregister");
			region = ibv_reg_mr(pgas.pd, buffer, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
			if (!region)
				pgas_fail("cannot register");
			pgas_put(0, &shared->address, &(uint64_t){(uintptr_t)buffer}, 8);
			pgas_put(0, &shared->key, &(uint64_t){region->rkey}, 8);
			pgas_put(0, &shared->flag, &i, 8);
			if (!waits)
				usleep(20000);
		} else {
			struct ibv_sge sge = {(uintptr_t)mine, BYTES, pgas.private.mr->lkey};
			struct ibv_send_wr *bad, wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

			pgas_wait_for(&shared->flag, i);
			wr.wr.rdma.remote_addr = pgas_load(&shared->address);
			wr.wr.rdma.rkey = (uint32_t)pgas_load(&shared->key);
			if (ibv_post_send(pgas.peers[1].qp, &wr, &bad))
				pgas_fail("cannot post");
			pgas.peers[1].posted++;
			pgas_quiet();
			pgas_put(1, &shared->answered, &i, 8);
		}
	}
	/* The last one. */
	if (is(1))
		pgas_wait_for(&shared->answered, ROUNDS);
}

static void registered_again(void)
{
	register_again(false);
}

static void registered_again_right(void)
{
	register_again(true);
}

static const struct pgas_case cases[] = {
	{"ring-fence", ring_fence}, {"ring-fence-right", ring_fence_right},
	{"ring-overrun", ring_overrun}, {"ring-overrun-right", ring_overrun_right},
	{"double-buffer", double_buffer}, {"double-buffer-right", double_buffer_right},
	{"request-flag", request_flag}, {"request-flag-first", request_flag_first}, {"request-flag-right", request_flag_right},
	{"shared-receives", shared_receives}, {"shared-receives-right", shared_receives_right},
	{"ticket-store", ticket_store}, {"ticket-store-right", ticket_store_right},
	{"registered-again", registered_again}, {"registered-again-right", registered_again_right},
};

int main(int argc, char **argv)
{
	const struct pgas_case *c = pgas_case(argc, argv, cases, sizeof(cases) / sizeof(*cases));

	pgas_start(65536, 65536);
	shared = pgas_shared(sizeof(*shared));
	mine = pgas_private((size_t)PLACES * BYTES);
	pgas_barrier();
	c->run();
	/* What is wrong in a run is not the matter here. */
	return pgas_end(true);
}
