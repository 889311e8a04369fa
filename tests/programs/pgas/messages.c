/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * messages.c: ranks send each other messages (SEND) whose content depends on all that they have
 * received, in the order in which it came.
 *
 *   messages [ROUNDS [BUFFERS [SHARED [EXPOSED]]]]
 *
 * In each round a rank sends a message to each other one, and receives one from each.  A message
 * begins with the number that the rest of it follows from.  Each rank also puts its number into
 * the next rank's memory, which that one looks at without waiting for it.  With several BUFFERS
 * to a peer (default 4) a message that comes early waits in one of them.  SHARED: the buffers of all peers are in one
 * shared receive queue.  EXPOSED: the buffers lie in memory into which peers may write, and a
 * second thread sleeps until the end, as with MPI.
 */
#include <pthread.h>
#include <string.h>

#include "pgas/internal.h"

#define MOST             4096
#define PEER_BUFFERS_MAX 16
#define BUFFER_BYTES_MAX ((size_t)PGAS_MAX_RANKS * (PEER_BUFFERS_MAX + 1) * MOST)

struct message {
	uint64_t number, round;
	uint8_t bytes[MOST - 16];
};

struct peer {
	struct ibv_qp *qp;
	struct message *out, *in[PEER_BUFFERS_MAX];
	uint64_t received; /* messages */
};

static struct peer peers[PGAS_MAX_RANKS];
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint64_t number, sends_done;
static uint64_t *looked_at;
static struct ibv_srq *srq; /* NULL: not SHARED */
static int buffers;
static bool right = true;

/* What a message from this rank, in this round, looks like. */
static uint32_t make(struct message *m, uint64_t of, uint64_t round)
{
	uint64_t state = of ^ round << 20;
	uint32_t length = (uint32_t)(pgas_random(&state) % sizeof(m->bytes));

	m->number = of;
	m->round = round;
	for (uint32_t i = 0; i < length; i++)
		m->bytes[i] = (uint8_t)(i % 8 ? state >> i % 8 * 8 : pgas_random(&state));
	return 16 + length;
}

static void post_receive(struct peer *p, int rank, int buffer)
{
	struct ibv_sge sge = {(uintptr_t)p->in[buffer], MOST, mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = (uint64_t)(rank * PEER_BUFFERS_MAX + buffer),
				       .sg_list = &sge,
				       .num_sge = 1};

	if (srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(p->qp, &wr, &bad))
		pgas_fail("cannot post a receive: %m");
}

static void send(struct peer *p, uint64_t round)
{
	struct ibv_sge sge = {(uintptr_t)p->out, make(p->out, number, round), mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = UINT64_MAX,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};

	if (ibv_post_send(p->qp, &wr, &bad))
		pgas_fail("cannot post a send: %m");
}

static struct peer *sender_of(const struct ibv_wc *wc)
{
	for (int i = 0; i < pgas.ranks; i++)
		if (peers[i].qp->qp_num == wc->qp_num)
			return &peers[i];
	pgas_fail("a message for no queue pair");
}

static void take(const struct ibv_wc *wc)
{
	static struct message expected;
	struct peer *owner = &peers[wc->wr_id / PEER_BUFFERS_MAX], *p = sender_of(wc);
	const struct message *m = owner->in[wc->wr_id % PEER_BUFFERS_MAX];

	p->received++;
	right = right && make(&expected, m->number, m->round) == wc->byte_len &&
		m->round == p->received && !memcmp(&expected, m, wc->byte_len);
	for (uint32_t i = 0; i < wc->byte_len; i++)
		number = (number ^ ((const uint8_t *)m)[i]) * 0x100000001b3;
	post_receive(owner, (int)(wc->wr_id / PEER_BUFFERS_MAX), wc->wr_id % PEER_BUFFERS_MAX);
}

static void poll(void)
{
	struct ibv_wc wc[4];
	int n = ibv_poll_cq(cq, 4, wc);

	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			pgas_fail("a completion failed: %s", ibv_wc_status_str(wc[i].status));
		if (wc[i].wr_id == UINT64_MAX)
			sends_done++;
		else
			take(&wc[i]);
	}
}

/* All messages of the round are here, and those to others are sent. */
static bool is_round_over(uint64_t round)
{
	for (int i = 0; i < pgas.ranks; i++)
		if (i != pgas.rank && peers[i].received < round)
			return false;
	return sends_done >= round * (uint64_t)(pgas.ranks - 1);
}

static void do_round(uint64_t round)
{
	struct pgas_patience patience = {0};

	for (int i = 0; i < pgas.ranks; i++)
		if (i != pgas.rank)
			send(&peers[i], round);
	pgas_put((pgas.rank + 1) % pgas.ranks, looked_at, &number, sizeof(number));
	number += pgas_load(looked_at);
	while (!is_round_over(round)) {
		poll();
		pgas_relax(&patience);
	}
}

static void make_queue_pair(struct peer *p)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq,
					.recv_cq = cq,
					.srq = srq,
					.cap = {4, (uint32_t)buffers, 1, 1, 0},
					.qp_type = IBV_QPT_RC};

	p->qp = ibv_create_qp(pgas.pd, &attr);
	if (!p->qp)
		pgas_fail("cannot create a queue pair: %m");
}

static size_t buffer_bytes(void)
{
	return (size_t)pgas.ranks * (size_t)(buffers + 1) * MOST;
}

static void set_up(bool shared, bool exposed)
{
	struct ibv_srq_init_attr attr = {.attr = {(uint32_t)(pgas.ranks * buffers), 1, 0}};
	struct ibv_qp *qps[PGAS_MAX_RANKS];
	char *memory = exposed ? pgas_shared(buffer_bytes()) : pgas_private(buffer_bytes());

	mr = exposed ? pgas.shared.mr : pgas.private.mr;
	looked_at = pgas_shared(sizeof(*looked_at));
	cq = ibv_create_cq(pgas.device, 1024, NULL, NULL, 0);
	if (shared && !(srq = ibv_create_srq(pgas.pd, &attr)))
		pgas_fail("cannot create a shared receive queue: %m");
	for (int i = 0; i < pgas.ranks; i++) {
		make_queue_pair(&peers[i]);
		pgas_prepare_queue_pair(qps[i] = peers[i].qp);
		peers[i].out = (void *)memory;
		memory += MOST;
		for (int b = 0; b < buffers; b++, memory += MOST) {
			peers[i].in[b] = (void *)memory;
			post_receive(&peers[i], i, b);
		}
	}
	pgas_connect_more(qps);
}

static pthread_mutex_t until_end = PTHREAD_MUTEX_INITIALIZER;

static void *sleep_until_end(void *unused)
{
	pthread_mutex_lock(&until_end);
	pthread_mutex_unlock(&until_end);
	return unused;
}

static void do_rounds(uint64_t rounds)
{
	pgas_barrier();
	number = (uint64_t)pgas.rank + 1;
	for (uint64_t round = 1; round <= rounds; round++)
		do_round(round);
	pgas_barrier();
}

static void do_rounds_beside_thread(uint64_t rounds)
{
	pthread_t thread;

	pthread_mutex_lock(&until_end);
	if (pthread_create(&thread, NULL, sleep_until_end, NULL))
		pgas_fail("cannot create a thread");
	do_rounds(rounds);
	pthread_mutex_unlock(&until_end);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	static const char usage[] = "messages [ROUNDS [BUFFERS [SHARED [EXPOSED]]]]";
	long rounds = pgas_argument(argc, argv, 1, 200, 1, usage);
	bool exposed = pgas_argument(argc, argv, 4, 0, 0, usage);

	buffers = (int)pgas_argument(argc, argv, 2, 4, 2, usage);
	if (buffers > PEER_BUFFERS_MAX)
		pgas_fail("%s", usage);
	pgas_start((1 << 16) + BUFFER_BYTES_MAX, BUFFER_BYTES_MAX);
	set_up(pgas_argument(argc, argv, 3, 0, 0, usage), exposed);
	(exposed ? do_rounds_beside_thread : do_rounds)((uint64_t)rounds);
	right = pgas_result(right, "rank %d: %ld rounds, %016llx", pgas.rank, rounds,
			    (unsigned long long)number);
	for (int i = 0; i < pgas.ranks; i++)
		ibv_destroy_qp(peers[i].qp);
	if (srq)
		ibv_destroy_srq(srq);
	ibv_destroy_cq(cq);
	return pgas_end(right);
}
