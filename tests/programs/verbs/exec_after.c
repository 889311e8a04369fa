/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exec_after.c: sends 20 messages of 8 bytes to itself, and then executes its arguments.
 *
 *   exec_after [COMMAND [ARGUMENT...]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define MESSAGES 20
#define BYTES    8

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static uint64_t memory[2 * MESSAGES];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void open_all(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_qp_init_attr attr = {
	    .cap = {.max_send_wr = MESSAGES, .max_recv_wr = MESSAGES, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	};

	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = pd ? ibv_create_cq(context, 2 * MESSAGES, NULL, NULL, 0) : NULL;
	mr = cq ? ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE) : NULL;
	attr.send_cq = attr.recv_cq = cq;
	qp = mr ? ibv_create_qp(pd, &attr) : NULL;
	if (!qp)
		die("no device");
}

static void connect_to_itself(void)
{
	struct ibv_qp_attr attr = {
	    .port_num = 1,
	    .dest_qp_num = qp->qp_num,
	    .path_mtu = IBV_MTU_1024,
	    .rnr_retry = 7,
	    .retry_cnt = 7,
	    .timeout = 14,
	    .max_rd_atomic = 1,
	    .max_dest_rd_atomic = 1,
	    .min_rnr_timer = 1,
	    .ah_attr = {.is_global = 1, .port_num = 1},
	};
	int err;

	if (ibv_query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid))
		die("ibv_query_gid");
	attr.qp_state = IBV_QPS_INIT;
	err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	err |= ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	err |= ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (err)
		die("ibv_modify_qp");
}

static void send_to_itself(int i)
{
	struct ibv_sge from = {(uintptr_t)&memory[i], BYTES, mr->lkey};
	struct ibv_sge to = {(uintptr_t)&memory[MESSAGES + i], BYTES, mr->lkey};
	struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1}, *bad_receive;
	struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad_send;
	struct ibv_wc wc;
	int left = 2;

	memory[i] = (uint64_t)i + 1;
	if (ibv_post_recv(qp, &receive, &bad_receive) || ibv_post_send(qp, &send, &bad_send))
		die("post");
	while (left) {
		int n = ibv_poll_cq(cq, 1, &wc);

		if (n < 0 || (n && wc.status))
			die("ibv_poll_cq");
		left -= n;
	}
	if (memory[MESSAGES + i] != memory[i])
		die("the message");
}

int main(int argc, char **argv)
{
	open_all();
	connect_to_itself();
	for (int i = 0; i < MESSAGES; i++)
		send_to_itself(i);
	if (argc > 1) {
		execvp(argv[1], argv + 1);
		die(argv[1]);
	}
	return 0;
}
