/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shared_queues.c: threads poll one completion queue, and post to one queue pair or one shared receive queue, without a lock
 * of the program's around it.
 *
 *   shared_queues CASE [ROUNDS]
 *   shared_queues         lists the cases
 *
 * What a rank sends depends on all that it has found so far, in its order, which it prints.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pgas/internal.h"

#define THREADS 4
#define PLACES  4 /* of each queue pair, in each direction */
#define MESSAGE 256

static struct {
	int queues;
	bool builds;   /* posts by builders, in batches */
	bool extended; /* polls by start_poll */
	bool srq;
} how = {.queues = 1};

static long rounds;
static struct ibv_qp *qps[2][PGAS_MAX_RANKS];
static struct ibv_cq *cq;
static struct ibv_srq *srq;

/* Under the lock. */
static struct {
	pthread_mutex_t lock;
	uint64_t found, seed;
	char *in, *out, *shared, *fetched;
	uint32_t free[2][PLACES], free_n[2]; /* that may be sent from */
	uint32_t to_send; /* the last ones have the lowest numbers */
	long left;
} work = {.lock = PTHREAD_MUTEX_INITIALIZER, .found = 1};

/* What a poll found. */
struct completion {
	uint64_t wr_id;
	enum ibv_wc_opcode opcode;
	uint32_t number; /* of a WRITE */
};

struct request {
	enum ibv_wr_opcode opcode;
	int queue;
	uint32_t place;	 /* of its bytes here */
	uint32_t number; /* of the message; of a READ, that of the one before it */
};

static void take(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		work.found = (work.found ^ ((const uint8_t *)p)[i]) * 0x100000001b3ull;
}

static void fill(void *p)
{
	for (size_t i = 0; i < MESSAGE; i += sizeof(uint64_t)) {
		uint64_t word = work.found ^ pgas_random(&work.seed);

		memcpy((char *)p + i, &word, sizeof(word));
	}
}

static char *place_of(char *base, int queue, uint32_t place)
{
	return base + (queue * PLACES + (int)place) * MESSAGE;
}

/* Each has a place of its own at the peer: nobody says there that it has been read. */
static char *place_of_write(uint32_t number)
{
	return work.shared + (size_t)number * MESSAGE;
}

/* ------------------------------------------------------------------ posts */

static uint64_t id_of(int queue, uint32_t place)
{
	return (uint64_t)queue << 32 | place;
}

static void post_receive(uint64_t id)
{
	const int queue = (int)(id >> 32);
	struct ibv_sge sge = {(uintptr_t)place_of(work.in, queue, (uint32_t)id), MESSAGE, pgas.private.mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};

	if (srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qps[queue][pgas_previous()], &wr, &bad))
		pgas_fail("cannot post a receive");
}

static void build(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
	const uint64_t remote = wr->wr.rdma.remote_addr;
	const uint32_t rkey = wr->wr.rdma.rkey;

	ibv_wr_start(ex);
	ex->wr_id = wr->wr_id;
	ex->wr_flags = wr->send_flags;
	if (wr->opcode == IBV_WR_SEND)
		ibv_wr_send(ex);
	else if (wr->opcode == IBV_WR_RDMA_READ)
		ibv_wr_rdma_read(ex, rkey, remote);
	else
		ibv_wr_rdma_write_imm(ex, rkey, remote, wr->imm_data);
	ibv_wr_set_sge(ex, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
	if (ibv_wr_complete(ex))
		pgas_fail("cannot post a batch");
}

/* A message, a WRITE that says so, or a READ. */
static void post(const struct request *r)
{
	char *local = r->opcode == IBV_WR_RDMA_READ ? work.fetched : work.out, *remote = place_of_write(r->number);
	struct ibv_sge sge = {(uintptr_t)place_of(local, r->queue, r->place), MESSAGE, pgas.private.mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = id_of(r->queue, r->place),
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = r->opcode,
				       .send_flags = IBV_SEND_SIGNALED,
				       .imm_data = r->number,
				       .wr.rdma = {pgas.peers[pgas_next()].base + (uint64_t)(remote - pgas.shared.base), pgas.peers[pgas_next()].rkey}};

	if (how.builds && r->opcode != IBV_WR_RDMA_READ)
		build(ibv_qp_to_qp_ex(qps[r->queue][pgas_next()]), &wr);
	else if (ibv_post_send(qps[r->queue][pgas_next()], &wr, &bad))
		pgas_fail("cannot post");
}

/* ------------------------------------------------------------------ polls */

static void check(enum ibv_wc_status status)
{
	if (status != IBV_WC_SUCCESS)
		pgas_fail("a request failed: %s", ibv_wc_status_str(status));
}

static bool poll_extended(struct completion *c)
{
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)cq;

	if (ibv_start_poll(ex, &(struct ibv_poll_cq_attr){0}))
		return false;
	check(ex->status);
	*c = (struct completion){.wr_id = ex->wr_id, .opcode = ibv_wc_read_opcode(ex)};
	if (c->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		c->number = ibv_wc_read_imm_data(ex);
	ibv_end_poll(ex);
	return true;
}

static bool poll(struct completion *c)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(cq, 1, &wc);

	if (n < 0)
		pgas_fail("cannot poll");
	if (!n)
		return false;
	check(wc.status);
	*c = (struct completion){.wr_id = wc.wr_id, .opcode = wc.opcode, .number = wc.imm_data};
	return true;
}

/* ------------------------------------------------------------------- work */

/* What came decides what is sent next.  False: nothing is to be sent. */
static bool choose(struct request *r)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ};

	r->opcode = opcodes[work.found % 3];
	r->queue = (int)(work.found / 3 % (uint64_t)how.queues);
	if (!work.to_send || !work.free_n[r->queue])
		return false;
	r->place = work.free[r->queue][--work.free_n[r->queue]];
	if (r->opcode == IBV_WR_RDMA_READ) {
		work.left++;
	} else {
		work.to_send--;
		fill(place_of(work.out, r->queue, r->place));
	}
	r->number = work.to_send;
	return true;
}

static void take_completion(const struct completion *c)
{
	const int queue = (int)(c->wr_id >> 32);
	const uint32_t place = (uint32_t)c->wr_id;

	work.left--;
	take(&c->wr_id, sizeof(c->wr_id));
	if (c->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		take(place_of_write(c->number), MESSAGE);
	else if (c->opcode == IBV_WC_RECV)
		take(place_of(work.in, queue, place), MESSAGE);
	else if (c->opcode == IBV_WC_RDMA_READ)
		take(place_of(work.fetched, queue, place), MESSAGE);
	if (!(c->opcode & IBV_WC_RECV))
		work.free[queue][work.free_n[queue]++] = place;
}

/* No lock is held at polls and posts: the queues decide whose comes first. */
static void *poll_and_post(void *unused)
{
	struct pgas_patience patience = {0};
	struct completion c;
	struct request r;
	bool over = false, found, chosen;
	int polls = 0;

	while (!over) {
		/* On an extended queue, both ways. */
		found = how.extended && polls++ % 4 ? poll_extended(&c) : poll(&c);
		if (!found)
			pgas_relax(&patience);
		pthread_mutex_lock(&work.lock);
		if (found)
			take_completion(&c);
		chosen = choose(&r);
		over = !work.left;
		pthread_mutex_unlock(&work.lock);
		if (found && c.opcode & IBV_WC_RECV)
			post_receive(c.wr_id);
		if (chosen)
			post(&r);
	}
	return unused;
}

/* -------------------------------------------------------------- the start */

static void make_cq(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 256, .wc_flags = IBV_WC_EX_WITH_IMM};

	cq = how.extended ? ibv_cq_ex_to_cq(ibv_create_cq_ex(pgas.device, &attr)) : ibv_create_cq(pgas.device, 256, NULL, NULL, 0);
	if (!cq)
		pgas_fail("cannot make a completion queue");
}

static void connect_to_all(struct ibv_qp *to[])
{
	struct ibv_qp_init_attr_ex attr = {
	    .send_cq = cq,
	    .recv_cq = cq,
	    .srq = srq,
	    .cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	    .pd = pgas.pd,
	    .comp_mask = IBV_QP_INIT_ATTR_PD | (how.builds ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
	    .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ};

	for (int i = 0; i < pgas.ranks; i++) {
		to[i] = ibv_create_qp_ex(pgas.device, &attr);
		if (!to[i])
			pgas_fail("cannot create a queue pair");
		pgas_prepare_queue_pair(to[i]);
	}
	pgas_connect_more(to);
}

static uint32_t messages(void)
{
	return 10 * (uint32_t)rounds;
}

static void start(void)
{
	const size_t bytes = (size_t)how.queues * PLACES * MESSAGE;
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 64, .max_sge = 1}};

	work.to_send = messages();
	work.shared = pgas_shared(((size_t)work.to_send + 1) * MESSAGE);
	work.in = pgas_private(bytes);
	work.out = pgas_private(bytes);
	work.fetched = pgas_private(bytes);
	work.left = 2 * (long)work.to_send;
	make_cq();
	if (how.srq && !(srq = ibv_create_srq(pgas.pd, &attr)))
		pgas_fail("cannot create a shared receive queue");
	for (int q = 0; q < how.queues; q++)
		connect_to_all(qps[q]);
	for (int q = 0; q < how.queues; q++)
		for (uint32_t i = 0; i < PLACES; i++) {
			work.free[q][work.free_n[q]++] = i;
			post_receive(id_of(q, i));
		}
	pgas_barrier();
}

static void run(void)
{
	pthread_t threads[THREADS];

	start();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, poll_and_post, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void two(void)
{
	how.queues = 2;
	run();
}

static void builders(void)
{
	how.builds = true;
	run();
}

static void extended(void)
{
	how.extended = true;
	run();
}

static void shared_receives(void)
{
	how.queues = 2;
	how.srq = true;
	run();
}

static const struct pgas_case cases[] = {
    {"one", run}, {"two", two}, {"builders", builders}, {"extended", extended}, {"shared-receives", shared_receives}};

int main(int argc, char **argv)
{
	const struct pgas_case *c = pgas_case(argc > 2 ? 2 : argc, argv, cases, sizeof(cases) / sizeof(*cases));

	rounds = pgas_argument(argc, argv, 2, 40, 1, "shared_queues CASE [ROUNDS]");
	pgas_start(messages() * MESSAGE + (1 << 16), 1 << 16);
	work.seed = (uint64_t)pgas.rank;
	c->run();
	return pgas_end(pgas_result(true, "rank %d: %s %016llx", pgas.rank, c->name, (unsigned long long)work.found));
}
