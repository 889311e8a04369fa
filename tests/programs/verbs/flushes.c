/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flushes.c: a queue pair to another one of the same process writes, and flushes what it has written (ibv_wr_flush, of
 * rdma-core 46 and later): a range, a whole region, one that may not be flushed so.  Prints what completes.
 *
 *   flushes DEVICE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#ifndef SR_HAS_WR_FLUSH

int main(void)
{
	printf("no ibv_wr_flush here\n");
	return 77;
}

#else

#define PAGE_BYTES 4096

static struct {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	struct ibv_mr *global, *persistent;
	uint64_t *memory;
	union ibv_gid gid;
} w;

static void check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static void open_device(const char *name)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	for (int i = 0; i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			w.context = ibv_open_device(list[i]);
	check(w.context != NULL, name);
	ibv_free_device_list(list);
	check(!ibv_query_gid(w.context, 1, 1, &w.gid), "ibv_query_gid");
	w.pd = ibv_alloc_pd(w.context);
	w.cq = ibv_create_cq(w.context, 16, NULL, NULL, 0);
	w.memory = aligned_alloc(PAGE_BYTES, 2 * PAGE_BYTES);
	memset(w.memory, 0, 2 * PAGE_BYTES);
	w.global = ibv_reg_mr(w.pd, w.memory, PAGE_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_FLUSH_GLOBAL);
	w.persistent = ibv_reg_mr(w.pd, w.memory + PAGE_BYTES / 8, PAGE_BYTES,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_FLUSH_PERSISTENT);
	check(w.global && w.persistent, "ibv_reg_mr");
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr_ex attr = {
	    .send_cq = w.cq,
	    .recv_cq = w.cq,
	    .cap = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	    .pd = w.pd,
	    .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(w.context, &attr);

	check(qp != NULL, "ibv_create_qp_ex");
	return qp;
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *to)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = 1,
	    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = to->qp_num,
	    .max_dest_rd_atomic = 1,
	    .max_rd_atomic = 1,
	    .min_rnr_timer = 1,
	    .timeout = 14,
	    .retry_cnt = 7,
	    .rnr_retry = 7,
	    .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = w.gid, .sgid_index = 1, .hop_limit = 1}},
	};

	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	attr.qp_state = IBV_QPS_RTR;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				 IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void print_completions(int n)
{
	struct ibv_wc wc;

	while (n)
		if (ibv_poll_cq(w.cq, 1, &wc) == 1) {
			printf("%d: opcode %d, status %d\n", (int)wc.wr_id, wc.status ? -1 : (int)wc.opcode, wc.status);
			n--;
		}
}

/* A WRITE of the region's first word, and a flush of it. */
static void write_and_flush(const struct ibv_mr *mr, uint8_t type, uint8_t level)
{
	static uint64_t id;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(w.qp[0]);

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ex->wr_id = ++id;
	ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)mr->addr);
	ibv_wr_set_sge(ex, w.global->lkey, (uintptr_t)(w.memory + 8), 8);
	ex->wr_id = ++id;
	ibv_wr_flush(ex, mr->rkey, (uintptr_t)mr->addr, 8, type, level);
	check(!ibv_wr_complete(ex), "ibv_wr_complete");
	print_completions(2);
	printf("found %llu\n", *(unsigned long long *)mr->addr);
}

int main(int argc, char **argv)
{
	open_device(argc > 1 ? argv[1] : "soft0");
	for (int i = 0; i < 2; i++)
		w.qp[i] = make_qp();
	for (int i = 0; i < 2; i++)
		connect_to(w.qp[i], w.qp[!i]);
	w.memory[8] = 5;
	write_and_flush(w.global, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	write_and_flush(w.persistent, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
	write_and_flush(w.global, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR);
	write_and_flush(w.global, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
	return 0;
}

#endif
