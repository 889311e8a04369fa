/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.c: queue pairs and their states. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "local.h"
#include "rq.h"

struct sd_qp *sd_qp_find(uint32_t number)
{
	struct sd_qp *qp = &sd_fabric->qps[number % SD_MAX_QP];

	return number && qp->number == number ? qp : NULL;
}

/* With a seed the numbers start anywhere, as on a device that others use, too. */
static struct sd_qp *take_number(void)
{
	struct sd_fabric *f = sd_fabric;

	if (!f->next_qpn)
		f->next_qpn = (uint32_t)(f->random_state & 0xffff) + 16;
	for (int tries = 0; tries < SD_MAX_QP; tries++) {
		uint32_t number = f->next_qpn = (f->next_qpn + 1) & 0xffffff,
			 place = number % SD_MAX_QP;

		if (!number || number == 0xffffff || f->qps[place].number)
			continue;
		memset(&f->qps[place], 0, sizeof(f->qps[place]));
		f->qps[place].number = number;
		f->qps[place].process = sd_process;
		if (place >= f->qps_high)
			f->qps_high = place + 1;
		return &f->qps[place];
	}
	return NULL;
}

static void count_users(const struct sd_qp *qp, uint32_t n)
{
	if (qp->send_cq)
		sd_cq(qp->send_cq)->users += n;
	if (qp->recv_cq)
		sd_cq(qp->recv_cq)->users += n;
	if (qp->srq)
		sd_fabric->srqs[qp->srq - 1].users += n;
}

static bool too_much(const struct ibv_qp_cap *cap)
{
	return cap->max_send_wr > SD_MAX_WR || cap->max_recv_wr > SD_MAX_WR ||
	       cap->max_send_sge > SD_MAX_SGE || cap->max_recv_sge > SD_MAX_SGE ||
	       cap->max_inline_data > SD_MAX_INLINE;
}

/* A slot has room for a list or for inline data. */
static uint32_t stride_of(const struct ibv_qp_cap *cap)
{
	uint64_t list = cap->max_send_sge * sizeof(struct ibv_sge),
		 data = (cap->max_inline_data + 7u) & ~7u;

	return (uint32_t)(sizeof(struct sd_send) + (list > data ? list : data));
}

static uint64_t sq_bytes(const struct sd_qp *qp)
{
	return (uint64_t)(qp->cap.max_send_wr + 1) * qp->sq_stride;
}

static bool make_queues(struct sd_qp *qp)
{
	const struct ibv_qp_cap *cap = &qp->cap;

	qp->sq_stride = stride_of(cap);
	qp->sq = sd_pages_take(sq_bytes(qp));
	return qp->sq && sd_rq_make(&qp->rq, qp->srq ? 0 : cap->max_recv_wr, cap->max_recv_sge);
}

static void leave_groups(const struct sd_qp *qp)
{
	for (int i = 0; i < SD_MAX_MEMBER; i++)
		if (sd_fabric->members[i].qpn == qp->number)
			sd_fabric->members[i].qpn = 0;
}

void sd_qp_remove(struct sd_qp *qp)
{
	sd_deactivate(qp);
	if (qp->type == IBV_QPT_UD)
		leave_groups(qp);
	count_users(qp, -1u);
	sd_pages_give(qp->sq, sq_bytes(qp));
	sd_rq_end(&qp->rq);
	qp->number = qp->process = 0;
}

static struct sd_qp *make(struct sd_local_qp *local)
{
	const struct ibv_qp_init_attr_ex *attr = &local->init;
	struct sd_qp *qp;

	sd_lock();
	qp = take_number();
	if (qp) {
		qp->type = (uint8_t)attr->qp_type;
		qp->sq_sig_all = attr->sq_sig_all;
		qp->pd = sd_pd_number(local->qp.pd);
		qp->cap = attr->cap;
		qp->object = (uintptr_t)&local->qp;
		qp->name = (uintptr_t)attr->qp_context;
		qp->async = sd_context(local->qp.context)->async;
		qp->send_cq = attr->send_cq ? ((struct sd_local_cq *)attr->send_cq)->index_1 : 0;
		qp->recv_cq = attr->recv_cq ? ((struct sd_local_cq *)attr->recv_cq)->index_1 : 0;
		qp->srq = attr->srq ? ((struct sd_local_srq *)attr->srq)->index_1 : 0;
		count_users(qp, 1);
		if (!make_queues(qp)) {
			sd_qp_remove(qp);
			qp = NULL;
		}
	}
	sd_unlock();
	return qp;
}

static bool is_supported(const struct ibv_qp_init_attr_ex *attr)
{
	switch (attr->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
		return attr->send_cq && attr->recv_cq;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return true;
	default:
		return false;
	}
}

/* Those that builders.c has. */
#define SEND_OPERATIONS                                                                            \
	((uint64_t)(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |               \
		    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |                           \
		    IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |                 \
		    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |               \
		    IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV |                        \
		    SD_EX_WITH_ATOMIC_WRITE | SD_EX_WITH_FLUSH))

static uint64_t send_operations(const struct ibv_qp_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? attr->send_ops_flags : 0;
}

static uint32_t more_inline(const struct ibv_qp_cap *cap)
{
	uint32_t room = cap->max_send_sge * (uint32_t)sizeof(struct ibv_sge);

	return cap->max_inline_data > room ? cap->max_inline_data : room;
}

struct ibv_qp *sd_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct sd_local_qp *local;

	if (!is_supported(attr) || send_operations(attr) & ~SEND_OPERATIONS)
		return sd_refuse(EOPNOTSUPP);
	if (too_much(&attr->cap))
		return sd_refuse(EINVAL);
	if (sd_fails((uintptr_t)attr->qp_context, 0, 10))
		return sd_refuse(ENOSPC);
	local = calloc(1, sizeof(*local));
	if (!local)
		return sd_refuse(ENOMEM);
	/* Inline data shares its room with the list: there is more than asked for, as with
	 * Soft-RoCE. */
	if (sd_has_driver)
		attr->cap.max_inline_data = more_inline(&attr->cap);
	local->init = *attr;
	if (send_operations(attr) & SD_EX_WITH_ATOMIC_WRITE && !local->init.cap.max_inline_data)
		local->init.cap.max_inline_data =
		    sizeof(uint64_t); /* goes along with the request */
	local->qp.context = context;
	local->qp.qp_context = attr->qp_context;
	local->qp.pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL;
	local->qp.send_cq = attr->send_cq;
	local->qp.recv_cq = attr->recv_cq;
	local->qp.srq = attr->srq;
	local->qp.qp_type = attr->qp_type;
	pthread_mutex_init(&local->qp.mutex, NULL);
	pthread_cond_init(&local->qp.cond, NULL);
	local->shared = make(local);
	if (!local->shared) {
		free(local);
		return sd_refuse(ENOMEM);
	}
	local->qp.qp_num = local->qp.handle = local->shared->number;
	if (local->qp.pd)
		__atomic_add_fetch(&((struct sd_pd *)local->qp.pd)->users, 1, __ATOMIC_RELAXED);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		sd_qp_add_builders(local);
	return &local->qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
	    .qp_context = attr->qp_context,
	    .send_cq = attr->send_cq,
	    .recv_cq = attr->recv_cq,
	    .srq = attr->srq,
	    .cap = attr->cap,
	    .qp_type = attr->qp_type,
	    .sq_sig_all = attr->sq_sig_all,
	    .comp_mask = IBV_QP_INIT_ATTR_PD,
	    .pd = pd,
	};
	struct ibv_qp *qp;

	qp = sd_create_qp_ex(pd->context, &ex);
	attr->cap = ex.cap;
	return qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	struct sd_local_qp *local = (struct sd_local_qp *)qp;

	return local->has_builders ? &local->ex : NULL;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	const struct sd_qp *q = ((struct sd_local_qp *)qp)->shared;

	sd_lock();
	*attr = q->attr;
	attr->qp_state = attr->cur_qp_state = q->state;
	attr->cap = q->cap;
	*init = (struct ibv_qp_init_attr){
	    .qp_context = qp->qp_context,
	    .send_cq = qp->send_cq,
	    .recv_cq = qp->recv_cq,
	    .srq = qp->srq,
	    .cap = q->cap,
	    .qp_type = qp->qp_type,
	    .sq_sig_all = q->sq_sig_all,
	};
	qp->state = q->state;
	sd_unlock();
	return 0;
}

/* ----------------------------------------------------------------- states */

static bool may_become(enum ibv_qp_state from, enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_RESET:
	case IBV_QPS_ERR:
		return true;
	case IBV_QPS_INIT:
		return from == IBV_QPS_RESET || from == IBV_QPS_INIT;
	case IBV_QPS_RTR:
		return from == IBV_QPS_INIT;
	case IBV_QPS_RTS:
		return from == IBV_QPS_RTR || from == IBV_QPS_RTS || from == IBV_QPS_SQD;
	case IBV_QPS_SQD:
		return from == IBV_QPS_RTS || from == IBV_QPS_SQD;
	default:
		return false;
	}
}

static void take_attributes(struct ibv_qp_attr *own, const struct ibv_qp_attr *given, int mask)
{
	if (mask & IBV_QP_ACCESS_FLAGS)
		own->qp_access_flags = given->qp_access_flags;
	if (mask & IBV_QP_PKEY_INDEX)
		own->pkey_index = given->pkey_index;
	if (mask & IBV_QP_PORT)
		own->port_num = given->port_num;
	if (mask & IBV_QP_QKEY)
		own->qkey = given->qkey;
	if (mask & IBV_QP_AV)
		own->ah_attr = given->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		own->path_mtu = given->path_mtu;
	if (mask & IBV_QP_TIMEOUT)
		own->timeout = given->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		own->retry_cnt = given->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		own->rnr_retry = given->rnr_retry;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		own->min_rnr_timer = given->min_rnr_timer;
	if (mask & IBV_QP_RQ_PSN)
		own->rq_psn = given->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		own->sq_psn = given->sq_psn;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		own->max_rd_atomic = given->max_rd_atomic;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		own->max_dest_rd_atomic = given->max_dest_rd_atomic;
	if (mask & IBV_QP_DEST_QPN)
		own->dest_qp_num = given->dest_qp_num;
}

static void reset(struct sd_qp *qp)
{
	sd_deactivate(qp);
	sd_cq_forget(sd_cq(qp->send_cq), qp->number);
	sd_cq_forget(sd_cq(qp->recv_cq), qp->number);
	qp->sq_freed = qp->sq_done = qp->sq_next = qp->sq_tail;
	qp->rq.freed = qp->rq.head = qp->rq.tail;
	qp->retry_at = qp->give_up_at = qp->retries = 0;
	qp->connected = qp->stopped = false;
	qp->attr = (struct ibv_qp_attr){0};
}

/* Alone in its fabric, a queue pair may have no peer: it is measured what surrounds the operations.
 */
static bool has_peer(const struct sd_qp *qp)
{
	return sd_has_driver || qp->type == IBV_QPT_UD || sd_qp_find(qp->attr.dest_qp_num);
}

static void set_state(struct sd_qp *qp, enum ibv_qp_state state)
{
	if (state == IBV_QPS_ERR || state == IBV_QPS_RESET)
		sd_qp_finish_sent(qp, sd_now());
	if (state == IBV_QPS_ERR)
		sd_qp_fail(qp);
	else if (state == IBV_QPS_RESET)
		reset(qp);
	else if (state == IBV_QPS_RTR)
		qp->connected = has_peer(qp);
	qp->state = (uint8_t)state;
	if (state == IBV_QPS_RTS && qp->sq_done != qp->sq_tail)
		sd_activate(qp);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct sd_qp *q = ((struct sd_local_qp *)qp)->shared;
	int err = 0;

	sd_lock();
	if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != q->state)
		err = EINVAL;
	if (mask & IBV_QP_STATE && !may_become(q->state, attr->qp_state))
		err = EINVAL;
	if (!err) {
		take_attributes(&q->attr, attr, mask);
		if (mask & IBV_QP_STATE) {
			set_state(q, attr->qp_state);
			qp->state = attr->qp_state;
		}
		sd_progress(sd_now());
	}
	sd_unlock();
	return err;
}

static bool is_of_qp(uint64_t event, uint32_t index)
{
	enum ibv_event_type type = (enum ibv_event_type)(event >> 32);

	return (uint32_t)event == index && type != IBV_EVENT_CQ_ERR &&
	       type != IBV_EVENT_SRQ_LIMIT_REACHED;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct sd_local_qp *local = (struct sd_local_qp *)qp;
	struct sd_qp *q = local->shared;

	sd_lock();
	sd_qp_finish_sent(q, sd_now());
	sd_channel_drop(q->async, qp->context->async_fd, is_of_qp, (uint32_t)(q - sd_fabric->qps));
	sd_qp_remove(q);
	sd_progress(sd_now()); /* those that were connected to it find out */
	sd_unlock();
	if (qp->pd)
		__atomic_sub_fetch(&((struct sd_pd *)qp->pd)->users, 1, __ATOMIC_RELAXED);
	sd_await_acks(&qp->mutex, &qp->cond, &qp->events_completed, &local->events_taken);
	free(local);
	return 0;
}

/* It copies a request's data from front to back; it says so if SOFTDEV_IN_ORDER is set. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return getenv("SOFTDEV_IN_ORDER") ? 1 : 0;
}

/* ------------------------------------------------------- multicast groups */

static struct sd_member *find_member(uint32_t qpn, const union ibv_gid *gid)
{
	for (int i = 0; i < SD_MAX_MEMBER; i++) {
		struct sd_member *m = &sd_fabric->members[i];

		if (m->qpn == qpn && (!qpn || !memcmp(&m->group, gid, sizeof(*gid))))
			return m;
	}
	return NULL;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct sd_member *m;
	int err = 0;

	if (qp->qp_type != IBV_QPT_UD || gid->raw[0] != 0xff)
		return EINVAL;
	sd_lock();
	if (!find_member(qp->qp_num, gid)) {
		m = find_member(0, gid);
		if (m)
			*m = (struct sd_member){.group = *gid, .qpn = qp->qp_num};
		else
			err = ENOMEM;
	}
	sd_unlock();
	return err;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct sd_member *m;

	sd_lock();
	m = find_member(qp->qp_num, gid);
	if (m)
		m->qpn = 0;
	sd_unlock();
	return m ? 0 : EINVAL;
}
