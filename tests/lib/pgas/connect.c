/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connect.c: the device, the registrations, and a reliable connection to every rank,
 * including this one, so that the same atomics reach this rank's words.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"

/* The depth that devices commonly allow for READs and atomics. */
#define READS_IN_FLIGHT 4
#define INLINE          64

static uint8_t gid_index;

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !list[0])
		pgas_fail("no RDMA device");
	pgas.device = ibv_open_device(list[0]);
	if (!pgas.device)
		pgas_fail("cannot open %s: %m", ibv_get_device_name(list[0]));
	ibv_free_device_list(list);
}

static bool is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

/* The address that reaches other hosts: RoCE v2 over IPv4; on InfiniBand the first. */
static void choose_gid(void)
{
	struct ibv_gid_entry entry;

	for (uint32_t i = 0; !ibv_query_gid_ex(pgas.device, 1, i, &entry, 0); i++)
		if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 && is_ipv4(&entry.gid)) {
			gid_index = (uint8_t)i;
			return;
		}
}

static struct ibv_qp *create_queue_pair(void)
{
	struct ibv_qp_init_attr attr = {.send_cq = pgas.cq,
					.recv_cq = pgas.cq,
					.cap = {.max_send_wr = PGAS_DEPTH,
						.max_recv_wr = 1,
						.max_send_sge = 1,
						.max_recv_sge = 1,
						.max_inline_data = INLINE},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(pgas.pd, &attr);

	if (!qp)
		pgas_fail("cannot create a queue pair: %m");
	pgas.max_inline = attr.cap.max_inline_data;
	return qp;
}

void pgas_prepare_queue_pair(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						      IBV_ACCESS_REMOTE_READ |
						      IBV_ACCESS_REMOTE_ATOMIC};

	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		pgas_fail("cannot set up a queue pair");
}

static void to_ready(struct ibv_qp *qp, const struct pgas_address *a)
{
	struct ibv_qp_attr receive = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = a->qpn[pgas.rank],
	    .max_dest_rd_atomic = READS_IN_FLIGHT,
	    .min_rnr_timer = 12,
	    .ah_attr = {.dlid = (uint16_t)a->lid,
			.port_num = 1,
			.is_global = 1,
			.grh = {.dgid = a->gid, .hop_limit = 64, .sgid_index = gid_index}}};
	/* Many ranks on few CPUs answer late: allow seven timeouts of 4.2 s before an error. */
	struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS,
				   .timeout = 20,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .max_rd_atomic = READS_IN_FLIGHT};

	if (ibv_modify_qp(qp, &receive,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ||
	    ibv_modify_qp(qp, &send,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		pgas_fail("cannot connect a queue pair");
}

void pgas_connect(int rank, int ranks)
{
	pgas.rank = rank;
	pgas.ranks = ranks;
	open_device();
	choose_gid();
	pgas.pd = ibv_alloc_pd(pgas.device);
	pgas.cq = ibv_create_cq(pgas.device, ranks * PGAS_DEPTH, NULL, NULL, 0);
	if (!pgas.pd || !pgas.cq)
		pgas_fail("cannot create a protection domain and a completion queue: %m");
	for (int i = 0; i < ranks; i++) {
		pgas.peers[i].qp = create_queue_pair();
		pgas_prepare_queue_pair(pgas.peers[i].qp);
	}
}

void pgas_register(struct pgas_heap *heap, int access)
{
	heap->mr = ibv_reg_mr(pgas.pd, heap->base, heap->size, access);
	if (!heap->mr)
		pgas_fail("cannot register %zu bytes: %m", heap->size);
}

void pgas_describe(struct pgas_address *a)
{
	struct ibv_port_attr port;

	if (ibv_query_port(pgas.device, 1, &port) ||
	    ibv_query_gid(pgas.device, 1, gid_index, &a->gid))
		pgas_fail("cannot query the port");
	a->lid = port.lid;
	a->base = (uintptr_t)pgas.shared.base;
	a->rkey = pgas.shared.mr->rkey;
	for (int i = 0; i < pgas.ranks; i++)
		a->qpn[i] = pgas.peers[i].qp->qp_num;
}

void pgas_reach(int rank, const struct pgas_address *a)
{
	pgas.peers[rank].base = a->base;
	pgas.peers[rank].rkey = a->rkey;
	to_ready(pgas.peers[rank].qp, a);
}

void pgas_disconnect(void)
{
	for (int i = 0; i < pgas.ranks; i++)
		ibv_destroy_qp(pgas.peers[i].qp);
	ibv_dereg_mr(pgas.shared.mr);
	ibv_dereg_mr(pgas.private.mr);
	ibv_destroy_cq(pgas.cq);
	ibv_dealloc_pd(pgas.pd);
	ibv_close_device(pgas.device);
}

void pgas_connect_more(struct ibv_qp *const qps[])
{
	static struct pgas_address mine, all[PGAS_MAX_RANKS];

	pgas_describe(&mine);
	for (int i = 0; i < pgas.ranks; i++)
		if (qps[i])
			mine.qpn[i] = qps[i]->qp_num;
	pgas_exchange(&mine, all, sizeof(mine));
	for (int i = 0; i < pgas.ranks; i++) {
		struct ibv_qp *own = pgas.peers[i].qp;

		if (!qps[i])
			continue;
		pgas.peers[i].qp = qps[i];
		pgas_reach(i, &all[i]);
		pgas.peers[i].qp = own;
	}
}

void pgas_make_queue_pairs(struct ibv_qp *qps[], struct ibv_qp_init_attr *attr)
{
	for (int i = 0; i < pgas.ranks; i++) {
		qps[i] = ibv_create_qp(pgas.pd, attr);
		if (!qps[i])
			pgas_fail("cannot create a queue pair");
		pgas_prepare_queue_pair(qps[i]);
	}
	pgas_connect_more(qps);
}
