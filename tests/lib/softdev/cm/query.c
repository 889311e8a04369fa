/* SPDX-License-Identifier: BSD-2-Clause */
/* query.c: what a program may ask of an identifier. */
#include <errno.h>
#include <string.h>

#include <infiniband/sa.h>
#include <infiniband/verbs.h>

#include "internal.h"

#ifndef AF_IB
#define AF_IB 27
#endif

#define HOP_LIMIT   64
#define ACK_TIMEOUT 18 /* 4.096 us * 2^18 */
#define RATE        3  /* as rdma-core's IBV_RATE_10_GBPS */
#define LIFETIME    16

const uint8_t cm_gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};

static int copy_out(void *out, size_t room, const void *answer, size_t length)
{
	memcpy(out, answer, room < length ? room : length);
	return 0;
}

void cm_fill_ah(struct ib_uverbs_ah_attr *ah, const uint8_t gid[16])
{
	memcpy(ah->grh.dgid, gid, 16);
	ah->grh.sgid_index = CM_GID_INDEX;
	ah->grh.hop_limit = HOP_LIMIT;
	ah->is_global = 1;
	ah->port_num = CM_PORT;
}

static bool has_route(const struct cm_id *id)
{
	if (id->state < CM_ROUTE_KNOWN || id->state == CM_LISTENING)
		return false;
	return !(cm_is_datagram(id) && id->state == CM_REQUEST_RECEIVED);
}

/* ---------------------------------------------------- addresses and paths */

/* For a libibverbs without indices, or with another one: this is found by its GUID alone. */
#define NO_INDEX UINT32_MAX

int cm_query_route(struct cm_id *id, void *out, size_t room)
{
	struct rdma_ucm_query_route_resp r = {.ibdev_index = NO_INDEX};
	struct ib_user_path_rec *path = &r.ib_route[0];

	memcpy(&r.src_addr, &id->src, sizeof(r.src_addr));
	memcpy(&r.dst_addr, &id->dst, sizeof(r.dst_addr));
	if (!id->has_device)
		return copy_out(out, room, &r, sizeof(r));
	r.node_guid = CM_NODE_GUID;
	r.port_num = CM_PORT;
	memcpy(path->sgid, cm_gid, 16);
	path->pkey = htons(CM_PKEY);
	if (id->state >= CM_ADDRESS_KNOWN && id->state != CM_LISTENING)
		memcpy(path->dgid, cm_gid, 16);
	if (has_route(id)) {
		r.num_paths = 1;
		path->reversible = 1;
		path->mtu = IBV_MTU_4096;
		path->mtu_selector = path->rate_selector = 2;
		path->packet_life_time_selector = 2;
		path->rate = RATE;
		path->packet_life_time = LIFETIME;
		path->hop_limit = HOP_LIMIT;
		path->numb_path = 1;
	}
	return copy_out(out, room, &r, sizeof(r));
}

static int query_address(const struct cm_id *id, void *out, size_t room)
{
	struct rdma_ucm_query_addr_resp r = {.ibdev_index = NO_INDEX, .pkey = htons(CM_PKEY)};

	r.src_size = (uint16_t)cm_address_length(&id->src);
	r.dst_size = (uint16_t)cm_address_length(&id->dst);
	memcpy(&r.src_addr, &id->src, sizeof(r.src_addr));
	memcpy(&r.dst_addr, &id->dst, sizeof(r.dst_addr));
	if (id->has_device) {
		r.node_guid = CM_NODE_GUID;
		r.port_num = CM_PORT;
	}
	return copy_out(out, room, &r, sizeof(r));
}

static void fill_gid(struct __kernel_sockaddr_storage *out, const struct cm_id *id,
		     const union cm_address *a, bool is_known)
{
	struct sockaddr_ib ib = {.sib_family = AF_IB, .sib_pkey = htons(CM_PKEY)};

	if (is_known)
		memcpy(&ib.sib_addr, cm_gid, 16);
	ib.sib_sid = htobe64((uint64_t)id->ps << 16 | cm_address_port(a));
	ib.sib_sid_mask = ~0ull;
	memcpy(out, &ib, sizeof(ib));
}

static int query_gid(const struct cm_id *id, void *out, size_t room)
{
	struct rdma_ucm_query_addr_resp r = {.ibdev_index = NO_INDEX, .pkey = htons(CM_PKEY)};
	bool has_peer = id->state >= CM_ADDRESS_KNOWN && id->state != CM_LISTENING;

	r.src_size = r.dst_size = sizeof(struct sockaddr_ib);
	fill_gid(&r.src_addr, id, &id->src, id->has_device);
	fill_gid(&r.dst_addr, id, &id->dst, id->has_device && has_peer);
	if (id->has_device) {
		r.node_guid = CM_NODE_GUID;
		r.port_num = CM_PORT;
	}
	return copy_out(out, room, &r, sizeof(r));
}

static int query_path(const struct cm_id *id, void *out, size_t room)
{
	struct {
		struct rdma_ucm_query_path_resp r;
		struct ib_path_rec_data data;
	} answer = {.r.num_paths = has_route(id)};
	struct ibv_path_record path = {
	    .pkey = htons(CM_PKEY),
	    .flowlabel_hoplimit = htonl(HOP_LIMIT),
	    .reversible_numpath = 0x81,
	    .mtu = 2 << 6 | IBV_MTU_4096,
	    .rate = 2 << 6 | RATE,
	    .packetlifetime = 2 << 6 | LIFETIME,
	};

	memcpy(&path.sgid, cm_gid, 16);
	memcpy(&path.dgid, cm_gid, 16);
	answer.data.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
	memcpy(answer.data.path_rec, &path, sizeof(path));
	return copy_out(out, room, &answer, has_route(id) ? sizeof(answer) : sizeof(answer.r));
}

int cm_query(struct cm_id *id, uint32_t option, void *out, size_t room)
{
	switch (option) {
	case RDMA_USER_CM_QUERY_ADDR:
		return query_address(id, out, room);
	case RDMA_USER_CM_QUERY_PATH:
		return query_path(id, out, room);
	case RDMA_USER_CM_QUERY_GID:
		return query_gid(id, out, room);
	default:
		return -ENOSYS;
	}
}

/* ---------------------------------------------- attributes of a queue pair */

static bool is_reliable(const struct cm_id *id)
{
	return id->qp_type == IBV_QPT_RC || id->qp_type == IBV_QPT_XRC_SEND ||
	       id->qp_type == IBV_QPT_XRC_RECV;
}

static int fill_init(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
	a->qp_attr_mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	a->port_num = CM_PORT;
	if (cm_is_datagram(id)) {
		a->qp_attr_mask |= IBV_QP_QKEY;
		a->qkey = id->qkey;
		return 0;
	}
	a->qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
	if (id->state < CM_REQUEST_SENT)
		return 0;
	a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->responder_resources)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	return 0;
}

static int fill_rtr(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
	if (cm_is_datagram(id))
		return 0;
	if (id->state < CM_REPLY_RECEIVED)
		return -EINVAL;
	a->qp_attr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	cm_fill_ah(&a->ah_attr, cm_gid);
	a->path_mtu = IBV_MTU_4096;
	a->dest_qp_num = id->remote_qpn;
	a->rq_psn = id->remote_psn;
	if (is_reliable(id) && id->qp_type != IBV_QPT_XRC_SEND) {
		a->qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		a->max_dest_rd_atomic = id->responder_resources;
	}
	return 0;
}

static int fill_rts(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
	if (!cm_is_datagram(id) && id->state < CM_REPLY_RECEIVED)
		return -EINVAL;
	a->qp_attr_mask |= IBV_QP_SQ_PSN;
	a->sq_psn = id->psn;
	if (!is_reliable(id))
		return 0;
	a->qp_attr_mask |= IBV_QP_TIMEOUT;
	a->timeout = ACK_TIMEOUT;
	if (id->qp_type == IBV_QPT_XRC_RECV)
		return 0;
	a->qp_attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	a->retry_cnt = id->retry_count;
	a->rnr_retry = id->rnr_retry_count;
	a->max_rd_atomic = id->initiator_depth;
	return 0;
}

int cm_init_qp_attr(struct cm_id *id, uint32_t qp_state, void *out, size_t room)
{
	struct ib_uverbs_qp_attr a = {.qp_attr_mask = IBV_QP_STATE, .qp_state = qp_state};
	int ret = -EINVAL;

	if (!id->has_device)
		return -EINVAL;
	if (qp_state == IBV_QPS_INIT)
		ret = fill_init(id, &a);
	else if (qp_state == IBV_QPS_RTR)
		ret = fill_rtr(id, &a);
	else if (qp_state == IBV_QPS_RTS)
		ret = fill_rts(id, &a);
	return ret ? ret : copy_out(out, room, &a, sizeof(a));
}
