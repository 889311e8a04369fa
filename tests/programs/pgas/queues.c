/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queues.c: small programs whose requests are not as simple as those of the others, for `sreplay record --order`: several queue
 * pairs to one peer, chains of which only the last is signaled, results that nobody has asked for, messages without bytes, threads that post to one
 * queue pair.
 *
 *   queues CASE [ROUNDS]
 *   queues         lists the cases
 *
 * What a rank sends depends on all that it has found so far, which it prints.
 */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgas/internal.h"

#define BYTES 3000
#define WORDS 64

static long rounds;
static uint64_t found = 1, seed;
static struct ibv_qp *qps[2][PGAS_MAX_RANKS];
static struct ibv_cq *cq;

static void take(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		found = (found ^ ((const uint8_t *)p)[i]) * 0x100000001b3ull;
}

static void fill(void *p, size_t n)
{
	for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
		uint64_t word = found ^ pgas_random(&seed);

		memcpy((char *)p + i, &word, sizeof(word));
	}
}

static void connect_to_all(int n)
{
	struct ibv_qp_init_attr attr;

	cq = ibv_create_cq(pgas.device, 256, NULL, NULL, 0);
	if (!cq)
		pgas_fail("cannot make a completion queue");
	attr = (struct ibv_qp_init_attr){
	    .send_cq = cq,
	    .recv_cq = cq,
	    .cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC};
	for (int i = 0; i < n; i++)
		pgas_make_queue_pairs(qps[i], &attr);
}

static struct ibv_wc await(void)
{
	struct pgas_patience patience = {0};
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		pgas_relax(&patience);
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		pgas_fail("a request failed: %s", n < 0 ? "" : ibv_wc_status_str(wc.status));
	return wc;
}

static uint64_t remote(int rank, const void *shared)
{
	return pgas.peers[rank].base + (uint64_t)((const char *)shared - pgas.shared.base);
}

/* A WRITE or READ of one piece, whose completion is awaited later. */
static void post_rdma(int queue, int rank, enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint64_t at)
{
	struct ibv_send_wr *bad, wr = {.sg_list = sge,
				       .num_sge = 1,
				       .opcode = opcode,
				       .send_flags = IBV_SEND_SIGNALED,
				       .wr.rdma = {at, pgas.peers[rank].rkey}};

	if (ibv_post_send(qps[queue][rank], &wr, &bad))
		pgas_fail("cannot post");
}

/* What is posted to the second queue pair may be there before what was posted to the first. */
static void beside(void)
{
	char *in = pgas_shared(BYTES), *out = pgas_private(BYTES);
	struct ibv_sge sge[3] = {{(uintptr_t)out, 1500, pgas.private.mr->lkey},
				 {(uintptr_t)out + 1500, 900, pgas.private.mr->lkey},
				 {(uintptr_t)out + 2400, 300, pgas.private.mr->lkey}};
	const uint64_t to = remote(pgas_next(), in), at[3] = {to, to + 1500, to + 2400};

	connect_to_all(2);
	pgas_barrier();
	for (long r = 0; r < rounds; r++) {
		fill(out, BYTES);
		for (int i = 0; i < 3; i++)
			post_rdma(i % 2, pgas_next(), IBV_WR_RDMA_WRITE, &sge[i], at[i]);
		take(in, BYTES);
		for (int i = 0; i < 3; i++)
			await();
		take(in, BYTES);
		if (r % 8 == 7)
			pgas_barrier();
	}
}

/* ... and over each other. */
static void over(void)
{
	char *in = pgas_shared(BYTES), *out = pgas_private(2 * BYTES);

	connect_to_all(2);
	pgas_barrier();
	for (long r = 0; r < rounds; r++) {
		fill(out, 2 * BYTES);
		for (int i = 0; i < 2; i++) {
			struct ibv_sge sge = {(uintptr_t)out + (uint64_t)i * BYTES, 1000, pgas.private.mr->lkey};

			post_rdma(i, pgas_next(), IBV_WR_RDMA_WRITE, &sge, remote(pgas_next(), in + 500 * i));
		}
		take(in, BYTES);
		for (int i = 0; i < 2; i++)
			await();
		take(in, BYTES);
		if (r % 8 == 7)
			pgas_barrier();
	}
}

/* The same, found by a third rank's READ, in the middle of it. */
static void read_beside(void)
{
	char *in = pgas_shared(BYTES), *out = pgas_private(BYTES), *fetched = pgas_private(BYTES);
	const uint64_t to = remote(pgas_next(), in);
	struct ibv_sge sge[3] = {{(uintptr_t)out, 1500, pgas.private.mr->lkey},
				 {(uintptr_t)out + 1500, 900, pgas.private.mr->lkey},
				 {(uintptr_t)out + 2400, 300, pgas.private.mr->lkey}},
		       all = {(uintptr_t)fetched, BYTES, pgas.private.mr->lkey};

	connect_to_all(2);
	pgas_barrier();
	for (long r = 0; r < rounds; r++) {
		fill(out, BYTES);
		for (int i = 0; i < 3; i++)
			post_rdma(i % 2, pgas_next(), IBV_WR_RDMA_WRITE, &sge[i], to + (sge[i].addr - sge[0].addr));
		post_rdma(1, pgas_previous(), IBV_WR_RDMA_READ, &all, remote(pgas_previous(), in));
		for (int i = 0; i < 4; i++)
			await();
		take(fetched, BYTES);
	}
}

/* Atomics and a READ whose results come to the same place, and of which only the last says that it has ended. */
static void overlaid(void)
{
	uint64_t *words = pgas_shared(WORDS * sizeof(*words)), *result = pgas_private(WORDS * sizeof(*result));

	connect_to_all(1);
	pgas_barrier();
	for (long r = 0; r < rounds; r++) {
		struct ibv_sge word = {(uintptr_t)result, sizeof(uint64_t), pgas.private.mr->lkey};
		struct ibv_send_wr wr[4] = {0}, *bad;

		for (int i = 0; i < 4; i++)
			wr[i] = (struct ibv_send_wr){
			    .next = i < 3 ? &wr[i + 1] : NULL,
			    .sg_list = &word,
			    .num_sge = 1,
			    .opcode = i == 2 ? IBV_WR_RDMA_READ : IBV_WR_ATOMIC_FETCH_AND_ADD,
			    .send_flags = i == 3 ? IBV_SEND_SIGNALED : 0,
			    .wr.atomic = {.remote_addr = remote(pgas_next(), words),
					  .compare_add = 1 + found % 5,
					  .rkey = pgas.peers[pgas_next()].rkey}};
		wr[2].wr.rdma.remote_addr = remote(pgas_next(), words);
		wr[2].wr.rdma.rkey = pgas.peers[pgas_next()].rkey;
		if (ibv_post_send(qps[0][pgas_next()], wr, &bad))
			pgas_fail("cannot post");
		await();
		take(result, sizeof(uint64_t));
		if (r % 4 == 3)
			pgas_barrier();
	}
}

/* The next rank finds what an atomic did, among other bytes, and says so, before this rank asks for its result. */
static void unasked(void)
{
	struct {
		uint64_t data[WORDS], word, sum, shown;
	} *mine = pgas_shared(sizeof(*mine));
	uint64_t *out = pgas_private((WORDS + 1) * sizeof(*out));
	struct ibv_sge data = {(uintptr_t)out, WORDS * sizeof(*out), pgas.private.mr->lkey},
		       word = {(uintptr_t)(out + WORDS), sizeof(*out), pgas.private.mr->lkey};
	const uint32_t rkey = pgas.peers[pgas_next()].rkey;

	connect_to_all(1);
	pgas_barrier();
	for (long r = 1; r <= rounds; r++) {
		struct ibv_send_wr *bad, wr[3] = {
		    {.next = &wr[1], .sg_list = &data, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		     .wr.rdma = {remote(pgas_next(), mine->data), rkey}},
		    {.next = &wr[2], .sg_list = &word, .num_sge = 1, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		     .wr.atomic = {remote(pgas_next(), &mine->word), (uint64_t)r - 1, (uint64_t)r, rkey}},
		    {.sg_list = &word, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED,
		     .wr.atomic = {remote(pgas_next(), &mine->sum), found | 1, 0, rkey}}};
		const uint64_t before = pgas_load(&mine->sum), round = (uint64_t)r;

		fill(out, data.length);
		pgas_barrier();
		if (ibv_post_send(qps[0][pgas_next()], wr, &bad))
			pgas_fail("cannot post");
		for (struct pgas_patience patience = {0}; pgas_load(&mine->sum) == before;)
			pgas_relax(&patience);
		take(mine, offsetof(typeof(*mine), shown));
		pgas_put(pgas_previous(), &mine->shown, &round, sizeof(round));
		pgas_wait_for(&mine->shown, round);
		await();
		take(out + WORDS, sizeof(*out));
	}
}

/* Receives that are alike, one after the other. */
static void empty(void)
{
	struct ibv_recv_wr *bad_receive, receive = {.wr_id = 7};
	struct ibv_send_wr *bad, send = {.opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED};

	connect_to_all(1);
	for (int i = 0; i < 32; i++)
		if (ibv_post_recv(qps[0][pgas_previous()], &receive, &bad_receive))
			pgas_fail("cannot post a receive");
	pgas_barrier();
	for (int i = 0; i < 32; i++) {
		send.imm_data = (uint32_t)found;
		if (ibv_post_send(qps[0][pgas_next()], &send, &bad))
			pgas_fail("cannot post");
		for (int left = 2; left; left--) {
			struct ibv_wc wc = await();

			if (wc.opcode & IBV_WC_RECV)
				take(&wc.imm_data, sizeof(wc.imm_data));
		}
	}
}

#define MESSAGE 256

/* Memory is deregistered when a message and what a READ brought are there, and polled for afterwards. */
static void deregistered(void)
{
	char *out = pgas_private(MESSAGE), *shared = pgas_shared(MESSAGE), *in = aligned_alloc(4096, 4096);
	struct ibv_send_wr *bad;
	struct ibv_recv_wr *bad_receive;

	connect_to_all(1);
	for (int r = 0; r < 8; r++) {
		struct ibv_mr *mr = ibv_reg_mr(pgas.pd, in, 2 * MESSAGE, IBV_ACCESS_LOCAL_WRITE);
		struct ibv_sge sge[3] = {{(uintptr_t)in, MESSAGE, mr->lkey},
					 {(uintptr_t)in + MESSAGE, MESSAGE, mr->lkey},
					 {(uintptr_t)out, MESSAGE, pgas.private.mr->lkey}};
		struct ibv_recv_wr receive = {.sg_list = &sge[0], .num_sge = 1};
		struct ibv_send_wr wr[2] = {{.next = &wr[1], .sg_list = &sge[1], .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
					     .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {remote(pgas_next(), shared), pgas.peers[pgas_next()].rkey}},
					    {.sg_list = &sge[2], .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}};

		if (ibv_post_recv(qps[0][pgas_previous()], &receive, &bad_receive))
			pgas_fail("cannot post a receive");
		fill(out, MESSAGE);
		fill(shared, MESSAGE);
		pgas_barrier();
		if (ibv_post_send(qps[0][pgas_next()], wr, &bad))
			pgas_fail("cannot post");
		pgas_barrier();
		usleep(20000);
		if (ibv_dereg_mr(mr))
			pgas_fail("cannot deregister");
		for (int left = 3; left; left--)
			await();
		take(in, 2 * MESSAGE);
		pgas_barrier();
	}
}

/* ------------------------------------------------------------ threads that post */

#define POSTERS 3
#define SLOTS   8

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more;
	char *in, *out;
	uint32_t receives[SLOTS], sends[SLOTS], receives_n, sends_n; /* that may be posted */
	long left; /* to be sent */
	bool over;
} work = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static void post_receive(uint32_t slot)
{
	struct ibv_sge sge = {(uintptr_t)(work.in + slot * MESSAGE), MESSAGE, pgas.private.mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};

	if (ibv_post_recv(qps[0][pgas_previous()], &wr, &bad))
		pgas_fail("cannot post a receive");
}

static void post_message(uint32_t slot)
{
	struct ibv_sge sge = {(uintptr_t)(work.out + slot * MESSAGE), MESSAGE, pgas.private.mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = slot,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};

	if (ibv_post_send(qps[0][pgas_next()], &wr, &bad))
		pgas_fail("cannot post");
}

/* No lock is held at a post: the queue pair decides whose comes first. */
static void *poster(void *unused)
{
	uint32_t slot;
	bool receives;

	for (;;) {
		pthread_mutex_lock(&work.lock);
		while (!work.over && !work.receives_n && !(work.left && work.sends_n))
			pthread_cond_wait(&work.more, &work.lock);
		receives = work.receives_n;
		if (receives) {
			slot = work.receives[--work.receives_n];
		} else if (work.over) {
			pthread_mutex_unlock(&work.lock);
			return unused;
		} else {
			slot = work.sends[--work.sends_n];
			work.left--;
			fill(work.out + slot * MESSAGE, MESSAGE);
		}
		pthread_mutex_unlock(&work.lock);
		(receives ? post_receive : post_message)(slot);
	}
}

static void posters(void)
{
	pthread_t threads[POSTERS];
	long messages = 10 * rounds;

	work.in = pgas_private(SLOTS * MESSAGE);
	work.out = pgas_private(SLOTS * MESSAGE);
	work.left = messages;
	connect_to_all(1);
	for (uint32_t i = 0; i < SLOTS; i++) {
		work.sends[work.sends_n++] = i;
		post_receive(i);
	}
	pgas_barrier();
	for (int i = 0; i < POSTERS; i++)
		pthread_create(&threads[i], NULL, poster, NULL);
	for (long left = 2 * messages; left; left--) {
		struct ibv_wc wc = await();

		pthread_mutex_lock(&work.lock);
		if (wc.opcode & IBV_WC_RECV) {
			take(work.in + wc.wr_id * MESSAGE, MESSAGE);
			work.receives[work.receives_n++] = (uint32_t)wc.wr_id;
		} else {
			work.sends[work.sends_n++] = (uint32_t)wc.wr_id;
		}
		work.over = left == 1;
		pthread_cond_broadcast(&work.more);
		pthread_mutex_unlock(&work.lock);
	}
	for (int i = 0; i < POSTERS; i++)
		pthread_join(threads[i], NULL);
}

/* A queue of few requests: one thread posts until there is room, without any other call, and one polls. */
static void *post_all(void *unused)
{
	for (long left = 4 * rounds; left; left--) {
		struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND_WITH_IMM,
					       .send_flags = IBV_SEND_SIGNALED,
					       .imm_data = (uint32_t)left};
		int err;

		while ((err = ibv_post_send(qps[0][pgas_next()], &wr, &bad)) == ENOMEM)
			;
		if (err)
			pgas_fail("cannot post: %s", strerror(err));
	}
	return unused;
}

static void full(void)
{
	struct ibv_recv_wr *bad, receive = {.wr_id = 7};
	pthread_t thread;

	connect_to_all(1);
	for (int i = 0; i < 32; i++)
		if (ibv_post_recv(qps[0][pgas_previous()], &receive, &bad))
			pgas_fail("cannot post a receive");
	pgas_barrier();
	pthread_create(&thread, NULL, post_all, NULL);
	for (long left = 8 * rounds; left; left--) {
		struct ibv_wc wc = await();

		if (!(wc.opcode & IBV_WC_RECV))
			continue;
		take(&wc.imm_data, sizeof(wc.imm_data));
		if (ibv_post_recv(qps[0][pgas_previous()], &receive, &bad))
			pgas_fail("cannot post a receive");
	}
	pthread_join(thread, NULL);
}

static const struct pgas_case cases[] = {{"beside", beside}, {"over", over}, {"read-beside", read_beside}, {"overlaid", overlaid}, {"unasked", unasked}, {"empty", empty}, {"posters", posters}, {"full", full}, {"deregistered", deregistered}};

int main(int argc, char **argv)
{
	const struct pgas_case *c = pgas_case(argc > 2 ? 2 : argc, argv, cases, sizeof(cases) / sizeof(*cases));

	rounds = pgas_argument(argc, argv, 2, 40, 1, "queues CASE [ROUNDS]");
	pgas_start(1 << 16, 1 << 16);
	seed = (uint64_t)pgas.rank;
	c->run();
	return pgas_end(pgas_result(true, "rank %d: %s %016llx", pgas.rank, c->name, (unsigned long long)found));
}
