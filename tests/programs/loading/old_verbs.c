/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * old_verbs.c: a program of 2006, linked to the functions that libibverbs keeps for
 * such as ibv_x@IBVERBS_1.0, with the structs of that time.
 *
 * Sends itself a message on one RC queue pair, and polls for it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#undef ibv_reg_mr

/* libibverbs of 1.0, as far as it is used here: pointers in the order of the struct. */
struct old_context {
	void *device;
	void *ops[29];
};

#define OP_POLL_CQ   7
#define OP_POST_SEND 21
#define OP_POST_RECV 22

struct old_qp {
	struct old_context *context;
	void *rest[5];
	uint32_t handle;
	uint32_t qp_num;
};

struct old_mr {
	struct old_context *context;
	void *pd;
	uint32_t handle, lkey, rkey;
};

struct old_qp_init_attr {
	void *qp_context, *send_cq, *recv_cq, *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
};

/* The link came first then. */
struct old_recv_wr {
	struct old_recv_wr *next;
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
};

struct old_send_wr {
	struct old_send_wr *next;
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_wr_opcode opcode;
	int send_flags;
	uint32_t imm_data;
	uint64_t operands[4];
};

#define OLD(type, name, ...)                                                                       \
	type old_##name(__VA_ARGS__);                                                              \
	__asm__(".symver old_" #name ", ibv_" #name "@IBVERBS_1.0")

OLD(void **, get_device_list, int *n);
OLD(const char *, get_device_name, void *device);
OLD(struct old_context *, open_device, void *device);
OLD(int, close_device, struct old_context *context);
OLD(void *, alloc_pd, struct old_context *context);
OLD(int, dealloc_pd, void *pd);
OLD(struct old_mr *, reg_mr, void *pd, void *addr, size_t length, int access);
OLD(int, dereg_mr, struct old_mr *mr);
OLD(void *, create_cq, struct old_context *context, int cqe, void *cq_context, void *channel,
    int vector);
OLD(int, destroy_cq, void *cq);
OLD(struct old_qp *, create_qp, void *pd, struct old_qp_init_attr *attr);
OLD(int, modify_qp, struct old_qp *qp, struct ibv_qp_attr *attr, int mask);
OLD(int, destroy_qp, struct old_qp *qp);
OLD(int, query_gid, struct old_context *context, uint8_t port, int index, union ibv_gid *gid);

static void need(int good, const char *what)
{
	if (good)
		return;
	printf("%s failed\n", what);
	exit(1);
}

static void connect_to_itself(struct old_qp *qp, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	need(!old_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "INIT");
	attr = (struct ibv_qp_attr){
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = qp->qp_num,
	    .max_dest_rd_atomic = 1,
	    .min_rnr_timer = 12,
	    .ah_attr = {.is_global = 1,
			.port_num = 1,
			.grh = {.dgid = *gid, .sgid_index = 1, .hop_limit = 1}},
	};
	need(!old_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1};
	need(!old_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

int main(void)
{
	static char memory[4096] = "from 2006";
	void **list = old_get_device_list(NULL);
	struct old_context *context = list && list[0] ? old_open_device(list[0]) : NULL;

	need(context != NULL, "open");
	printf("%s\n", old_get_device_name(list[0]));

	int (*poll_cq)(void *, int, struct ibv_wc *) =
	    (int (*)(void *, int, struct ibv_wc *))context->ops[OP_POLL_CQ];
	int (*post_send)(struct old_qp *, struct old_send_wr *, struct old_send_wr **) =
	    (int (*)(struct old_qp *, struct old_send_wr *,
		     struct old_send_wr **))context->ops[OP_POST_SEND];
	int (*post_recv)(struct old_qp *, struct old_recv_wr *, struct old_recv_wr **) =
	    (int (*)(struct old_qp *, struct old_recv_wr *,
		     struct old_recv_wr **))context->ops[OP_POST_RECV];
	void *pd = old_alloc_pd(context);
	void *cq = old_create_cq(context, 16, NULL, NULL, 0);
	struct old_mr *mr = old_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	struct old_qp_init_attr attr = {
	    .send_cq = cq,
	    .recv_cq = cq,
	    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	};
	struct old_qp *qp = old_create_qp(pd, &attr);
	union ibv_gid gid;

	need(pd && cq && mr && qp && !old_query_gid(context, 1, 1, &gid), "create");
	connect_to_itself(qp, &gid);

	struct ibv_sge to = {.addr = (uintptr_t)memory + 100, .length = 16, .lkey = mr->lkey};
	struct ibv_sge from = {.addr = (uintptr_t)memory, .length = 16, .lkey = mr->lkey};
	struct old_recv_wr recv = {.wr_id = 6, .sg_list = &to, .num_sge = 1}, *bad_recv;
	struct old_send_wr send = {.wr_id = 7,
				   .sg_list = &from,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad_send;
	struct ibv_wc wc;
	uint64_t completed = 0;

	need(!post_recv(qp, &recv, &bad_recv) && !post_send(qp, &send, &bad_send), "post");
	while (completed != 13) {
		if (poll_cq(cq, 1, &wc) != 1)
			continue;
		need(wc.status == IBV_WC_SUCCESS, "completion");
		completed += wc.wr_id;
	}
	printf("received: %s\n", memory + 100);
	need(!old_destroy_qp(qp) && !old_dereg_mr(mr) && !old_destroy_cq(cq) &&
		 !old_dealloc_pd(pd) && !old_close_device(context),
	     "destroy");
	return 3;
}
