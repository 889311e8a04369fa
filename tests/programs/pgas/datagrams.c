/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * datagrams.c: each rank sends datagrams to all ranks, by queue pairs without a connection.
 *
 *   datagrams CASE
 *   datagrams       lists the cases
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgas/internal.h"

#define QKEY	 0x1111
#define GRH	 40
#define ROUNDS	 12
#define ROOM	 (GRH + 1024)
#define RECEIVES 16

static struct ibv_qp *qp;
static struct ibv_qp_ex *ex;
static struct ibv_cq *receives_cq;
static struct ibv_cq_ex *receives_ex;
static struct ibv_srq *srq;
static struct ibv_ah *way;
static char *in, *out;
static uint32_t key;
static uint64_t sum;
static uint64_t apart = ROOM; /* of the receives' memory */

/* ------------------------------------------------------------------ queue pair */

static void raise_queue_pair(void)
{
	const struct ibv_qp_attr to[] = {{.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY},
					 {.qp_state = IBV_QPS_RTR},
					 {.qp_state = IBV_QPS_RTS}};
	const int mask[] = {IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY, IBV_QP_STATE, IBV_QP_STATE | IBV_QP_SQ_PSN};

	for (int i = 0; i < 3; i++)
		if (ibv_modify_qp(qp, (struct ibv_qp_attr *)&to[i], mask[i]))
			pgas_fail("no queue pair for datagrams");
}

static void make_queue_pair(bool is_shared, bool is_built)
{
	struct ibv_ah_attr where = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 64}};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = RECEIVES, .max_sge = 2}};
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 64, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP};
	struct ibv_qp_init_attr_ex a = {.send_cq = pgas.cq,
					.cap = {.max_send_wr = 8, .max_recv_wr = RECEIVES, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64},
					.qp_type = IBV_QPT_UD,
					.pd = pgas.pd,
					.comp_mask = IBV_QP_INIT_ATTR_PD};

	if (is_built && (receives_ex = ibv_create_cq_ex(pgas.device, &cq_attr)))
		receives_cq = ibv_cq_ex_to_cq(receives_ex);
	else
		receives_cq = ibv_create_cq(pgas.device, 64, NULL, NULL, 0);
	if (is_built) {
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = IBV_QP_EX_WITH_SEND;
	}
	a.srq = srq = is_shared ? ibv_create_srq(pgas.pd, &srq_attr) : NULL;
	a.recv_cq = receives_cq;
	qp = ibv_create_qp_ex(pgas.device, &a);
	ibv_query_gid(pgas.device, 1, 1, &where.grh.dgid);
	way = ibv_create_ah(pgas.pd, &where);
	if (!qp || !way || !receives_cq)
		pgas_fail("no queue pair for datagrams");
	ex = is_built ? ibv_qp_to_qp_ex(qp) : NULL;
	raise_queue_pair();
}

/* Half of them have two pieces of memory: the header in the first one, or more than that. */
static void post_receive(uint64_t i)
{
	uint32_t first = i % 4 == 1 ? GRH : i % 4 == 3 ? GRH + 24 : ROOM;
	struct ibv_sge sge[] = {{(uintptr_t)in + i * apart, first, key}, {(uintptr_t)in + i * apart + first, ROOM - first, key}};
	struct ibv_recv_wr *bad, wr = {.wr_id = i, .sg_list = sge, .num_sge = first < ROOM ? 2 : 1};

	if (srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad))
		pgas_fail("cannot post a receive");
}

/* ----------------------------------------------------------------------- sends */

static uint32_t fill(int round, int to)
{
	uint32_t n = (uint32_t)(round * 83 + to * 7) % 1000;

	for (uint32_t i = 0; i < n; i++)
		out[i] = (char)(i * 3 + (uint32_t)(round * 50 + to * 11 + pgas.rank));
	return n;
}

static void await_sent(void)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(pgas.cq, 1, &wc))
		;
	if (wc.status)
		pgas_fail("a datagram was not sent: %s", ibv_wc_status_str(wc.status));
}

static void build(uint32_t n, uint32_t to)
{
	struct ibv_data_buf pieces[] = {{out, n / 2}, {out + n / 2, n - n / 2}};

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, way, to, QKEY);
	if (n > 64)
		ibv_wr_set_sge(ex, key, (uintptr_t)out, n);
	else
		ibv_wr_set_inline_data_list(ex, 2, pieces);
	if (ibv_wr_complete(ex))
		pgas_fail("cannot send a datagram");
}

static void post(uint32_t n, uint32_t to)
{
	struct ibv_sge sge[] = {{(uintptr_t)out, n / 3, key}, {(uintptr_t)out + n / 3, n - n / 3, key}};
	struct ibv_send_wr *bad, wr = {.sg_list = sge, .num_sge = n ? 2 : 0, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	wr.send_flags |= n < 64 ? IBV_SEND_INLINE : 0;
	wr.wr.ud.ah = way;
	wr.wr.ud.remote_qpn = to;
	wr.wr.ud.remote_qkey = QKEY;
	if (ibv_post_send(qp, &wr, &bad))
		pgas_fail("cannot send a datagram");
}

static void send_one(uint32_t n, uint32_t to)
{
	if (ex)
		build(n, to);
	else
		post(n, to);
	await_sent();
}

/* -------------------------------------------------------------------- receives */

static void take_in(uint64_t i, uint32_t n)
{
	for (uint32_t k = GRH; k < n; k++)
		sum = sum * 31 + (uint8_t)in[i * apart + k];
	post_receive(i);
}

/* False: there is none so far. */
static bool receive_one(void)
{
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_wc wc;

	if (receives_ex) {
		if (ibv_start_poll(receives_ex, &attr))
			return false;
		wc.wr_id = receives_ex->wr_id;
		wc.byte_len = ibv_wc_read_byte_len(receives_ex);
		ibv_end_poll(receives_ex);
	} else if (!ibv_poll_cq(receives_cq, 1, &wc)) {
		return false;
	}
	take_in(wc.wr_id, wc.byte_len);
	return true;
}

static void exchange(const uint64_t *numbers)
{
	for (int round = 0; round < ROUNDS; round++) {
		for (int to = 0; to < pgas.ranks; to++)
			send_one(fill(round, to), (uint32_t)numbers[to]);
		if (apart < ROOM)
			pgas_barrier();
		for (int got = 0; got < pgas.ranks;)
			got += receive_one();
		pgas_barrier();
	}
	printf("rank %d got %016llx\n", pgas.rank, (unsigned long long)sum);
}

static void all(bool is_shared, bool is_built)
{
	uint64_t numbers[PGAS_MAX_RANKS];

	make_queue_pair(is_shared, is_built);
	for (uint64_t i = 0; i < RECEIVES; i++)
		post_receive(i);
	pgas_gather(qp->qp_num, numbers);
	exchange(numbers);
}

static void plain(void)
{
	all(false, false);
}

/* The next datagram writes over the end of what is not polled yet, as in perftest's ib_send_bw. */
static void overlapping(void)
{
	apart = ROOM / 4;
	all(false, false);
}

static void shared(void)
{
	all(true, false);
}

static void built(void)
{
	all(false, true);
}

/* Nobody has posted a receive for the first ones of each round: they are lost. */
static void lost(void)
{
	uint64_t numbers[PGAS_MAX_RANKS];

	make_queue_pair(false, false);
	pgas_gather(qp->qp_num, numbers);
	for (int round = 0; round < ROUNDS; round++) {
		uint32_t to = (uint32_t)numbers[(pgas.rank + 1) % pgas.ranks], n = fill(5, 1);

		for (int i = 0; i < round % 3; i++) {
			out[0] = (char)i;
			send_one(n, to);
		}
		pgas_barrier();
		post_receive(0);
		pgas_barrier();
		out[0] = (char)(100 + round);
		send_one(n, to);
		while (!ibv_poll_cq(receives_cq, 1, &(struct ibv_wc){0}))
			;
		sum = sum * 31 + (uint8_t)in[GRH];
		pgas_barrier();
	}
	printf("rank %d got %016llx\n", pgas.rank, (unsigned long long)sum);
}

static const struct pgas_case cases[] = {{"plain", plain}, {"overlapping", overlapping}, {"shared", shared}, {"built", built}, {"lost", lost}};

int main(int argc, char **argv)
{
	const struct pgas_case *chosen = pgas_case(argc, argv, cases, sizeof(cases) / sizeof(*cases));

	pgas_start(65536, 65536);
	in = pgas_private(RECEIVES * ROOM);
	out = pgas_private(1024);
	key = pgas.private.mr->lkey;
	pgas_barrier();
	chosen->run();
	return pgas_end(pgas_result(true, "%s", argv[1]));
}
