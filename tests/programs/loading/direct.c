/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * direct.c: a program that uses direct verbs where it can, and plain verbs where
 * not, as UCX does.  Linked to libmlx5, which is tests/programs/loading/direct_standin.c in the test.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

static void *failed(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	return NULL;
}

/* A queue pair that sends to itself: its completion has the program's wr_id. */
static int message_to_oneself(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_sge sge = {.addr = (uintptr_t)mr->addr, .length = 8, .lkey = mr->lkey};
	struct ibv_recv_wr recv = {.wr_id = 76, .sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.wr_id = 77,
				   .sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad_send;
	struct ibv_wc wc[2];
	int n = 0;

	ibv_modify_qp(qp, &attr,
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .dest_qp_num = qp->qp_num};
	ibv_modify_qp(qp, &attr,
		      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
	ibv_modify_qp(qp, &attr,
		      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (ibv_post_recv(qp, &recv, &bad_recv) || ibv_post_send(qp, &send, &bad_send))
		return -1;
	for (int i = 0; i < 1000 && n < 2; i++)
		n += ibv_poll_cq(cq, 2 - n, wc + n);
	return n == 2 && wc[0].wr_id + wc[1].wr_id == 153 ? 0 : -1;
}

/* A program that is newer than the recorder, and does without what the device cannot do. */
static void newer_verbs(struct ibv_context *context)
{
	struct ibv_qp_init_attr_ex attr = {.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = 1u << 11, .qp_type = IBV_QPT_RC};
	void *(*alloc_dmah)(struct ibv_context *, void *) =
	    (void *(*)(struct ibv_context *, void *))dlvsym(dlopen("libibverbs.so.1", RTLD_NOW), "ibv_alloc_dmah", "IBVERBS_1.15");
	const uint64_t none[8] = {0};

	if (alloc_dmah(context, (void *)none))
		printf("ibv_alloc_dmah: made\n");
	else
		failed("ibv_alloc_dmah");
#ifdef SR_HAS_WR_FLUSH
	printf("FLUSH: known\n");
	return;
#endif
	if (!ibv_create_qp_ex(context, &attr))
		failed("FLUSH");
}

int main(int argc, char **argv)
{
	static char memory[4096];
	struct ibv_device *device = ibv_get_device_list(NULL)[0];
	bool (*found)(struct ibv_device *) = NULL;
	struct mlx5dv_context attrs;
	struct ibv_context *context;
	struct mlx5dv_obj obj = {};
	struct ibv_qp *qp;

	found = (bool (*)(struct ibv_device *))dlsym(dlopen("libmlx5.so.1", RTLD_NOW),
						     "mlx5dv_is_supported");
	printf("supported: %d, by lookup %d\n", mlx5dv_is_supported(device), found(device));
	context = mlx5dv_open_device(device, NULL);
	if (!context)
		context = failed("mlx5dv_open_device");
	if (!context)
		context = ibv_open_device(device);
	printf("query: %d\n", mlx5dv_query_device(context, &attrs));
	printf("init: %d\n", mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP));

	if (argc > 1)
		newer_verbs(context);

	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp_init_attr_ex attr = {
	    .send_cq = cq,
	    .recv_cq = cq,
	    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	    .comp_mask = IBV_QP_INIT_ATTR_PD,
	    .pd = pd,
	};

	qp = mlx5dv_create_qp(context, &attr, NULL);
	if (!qp)
		qp = failed("mlx5dv_create_qp");
	if (!qp)
		qp = ibv_create_qp_ex(context, &attr);
	printf("message: %d\n", message_to_oneself(qp, cq, mr));
	return 3;
}
