/* SPDX-License-Identifier: BSD-2-Clause */
/* queues.c: completion queues, shared receive queues and queue pairs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "standin.h"

/* ------------------------------------------------------ completion queues */

static struct si_channel *channel_of(struct si_cq *c)
{
	return (struct si_channel *)c->cq.channel;
}

void si_cq_push(struct si_cq *c, const struct si_cqe *cqe)
{
	struct ibv_cq *cq = &c->cq;

	if (c->tail - c->head == c->size)
		return; /* overrun: the program asked for too few */
	c->ring[c->tail++ % c->size] = *cqe;
	if (!c->armed)
		return;
	if (c->armed == SI_ARMED_SOLICITED && !cqe->solicited && cqe->wc.status == IBV_WC_SUCCESS)
		return;
	c->armed = SI_ARMED_NOT;
	if (cq->channel && write(channel_of(c)->write_fd, &cq, sizeof(cq)) < 0)
		return; /* a full pipe holds thousands of events that nobody took */
}

static void free_up_to(uint32_t *freed, uint32_t index)
{
	/* Completions from before a reset do not belong to today's slots. */
	if ((int32_t)(index + 1 - *freed) > 0)
		*freed = index + 1;
}

static void free_slot(const struct si_cqe *cqe)
{
	struct si_srq *srq = cqe->srqn ? si_srq_find(cqe->srqn) : NULL;
	struct si_qp *qp = si_qp_find(cqe->wc.qp_num);

	if (srq)
		srq->rq.freed++; /* in any order */
	else if (qp && !cqe->srqn)
		free_up_to(cqe->sent ? &qp->sq_freed : &qp->rq.freed, cqe->index);
}

int si_poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	struct si_cq *c = (struct si_cq *)cq;
	bool locked = si_lock();
	int n = 0;

	if (si_random_state)
		si_progress();
	for (; n < room && c->head != c->tail; n++) {
		struct si_cqe *cqe = &c->ring[c->head++ % c->size];

		wc[n] = cqe->wc;
		free_slot(cqe);
	}
	si_unlock(locked);
	return n;
}

int si_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	bool locked = si_lock();

	((struct si_cq *)cq)->armed = solicited_only ? SI_ARMED_SOLICITED : SI_ARMED_ANY;
	/* The program may sleep now and would not poll. */
	if (si_random_state)
		si_finish();
	si_unlock(locked);
	return 0;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct si_cq *c = (struct si_cq *)ex;

	if (!si_poll_cq(&c->cq, 1, &c->current))
		return ENOENT;
	c->polled++;
	ex->wr_id = c->current.wr_id;
	ex->status = c->current.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	return attr->comp_mask ? EINVAL : next_poll(ex);
}

static void end_poll(struct ibv_cq_ex *ex)
{
}

#define READ_FIELD(type, name, field)                                                              \
	static type read_##name(struct ibv_cq_ex *ex)                                              \
	{                                                                                          \
		return ((struct si_cq *)ex)->current.field;                                        \
	}

READ_FIELD(enum ibv_wc_opcode, opcode, opcode)
READ_FIELD(uint32_t, vendor_err, vendor_err)
READ_FIELD(uint32_t, byte_len, byte_len)
READ_FIELD(__be32, imm_data, imm_data)
READ_FIELD(uint32_t, qp_num, qp_num)
READ_FIELD(uint32_t, src_qp, src_qp)
READ_FIELD(unsigned int, wc_flags, wc_flags)
READ_FIELD(uint32_t, slid, slid)
READ_FIELD(uint8_t, sl, sl)
READ_FIELD(uint8_t, dlid_path_bits, dlid_path_bits)

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return 1000 * ((struct si_cq *)ex)->polled;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	return 1000000000 + read_completion_ts(ex);
}

static uint16_t read_cvlan(struct ibv_cq_ex *ex)
{
	return (uint16_t)((struct si_cq *)ex)->polled;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *ex)
{
	return ~(uint32_t)((struct si_cq *)ex)->polled;
}

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info)
{
	*info = (struct ibv_wc_tm_info){.tag = read_completion_ts(ex), .priv = read_flow_tag(ex)};
}

/* Maps the ring like a provider that shares it with the kernel. */
static struct si_cqe *map_ring(uint32_t cqe)
{
	void *p = mmap(NULL, cqe * sizeof(struct si_cqe), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void unmap_ring(struct si_cqe *ring, uint32_t cqe)
{
	if (ring)
		munmap(ring, cqe * sizeof(*ring));
}

static struct si_cq *new_cq(struct ibv_context *context, uint32_t cqe, void *cq_context,
			    struct ibv_comp_channel *channel)
{
	struct si_cq *c = calloc(1, sizeof(*c));

	if (!c || !cqe || !(c->ring = map_ring(cqe))) {
		free(c);
		return si_refuse(cqe ? ENOMEM : EINVAL);
	}
	c->size = cqe;
	c->cq.context = context;
	c->cq.channel = channel;
	c->cq.cq_context = cq_context;
	c->cq.cqe = (int)cqe;
	pthread_mutex_init(&c->cq.mutex, NULL);
	pthread_cond_init(&c->cq.cond, NULL);
	if (channel)
		channel->refcnt++;
	return c;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct si_cq *c = new_cq(context, cqe < 0 ? 0 : (uint32_t)cqe, cq_context, channel);

	return c ? &c->cq : NULL;
}

struct ibv_cq_ex *si_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct si_cq *c;

	if (attr->wc_flags & ~(uint64_t)IBV_CREATE_CQ_SUP_WC_FLAGS)
		return si_refuse(EOPNOTSUPP);
	c = new_cq(context, attr->cqe, attr->cq_context, attr->channel);
	if (!c)
		return NULL;
	c->ex.start_poll = start_poll;
	c->ex.next_poll = next_poll;
	c->ex.end_poll = end_poll;
	c->ex.read_opcode = read_opcode;
	c->ex.read_vendor_err = read_vendor_err;
	c->ex.read_wc_flags = read_wc_flags;
	if (attr->wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		c->ex.read_byte_len = read_byte_len;
	if (attr->wc_flags & IBV_WC_EX_WITH_IMM)
		c->ex.read_imm_data = read_imm_data;
	if (attr->wc_flags & IBV_WC_EX_WITH_QP_NUM)
		c->ex.read_qp_num = read_qp_num;
	if (attr->wc_flags & IBV_WC_EX_WITH_SRC_QP)
		c->ex.read_src_qp = read_src_qp;
	if (attr->wc_flags & IBV_WC_EX_WITH_SLID)
		c->ex.read_slid = read_slid;
	if (attr->wc_flags & IBV_WC_EX_WITH_SL)
		c->ex.read_sl = read_sl;
	if (attr->wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		c->ex.read_dlid_path_bits = read_dlid_path_bits;
	if (attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		c->ex.read_completion_ts = read_completion_ts;
	if (attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		c->ex.read_completion_wallclock_ns = read_completion_wallclock_ns;
	if (attr->wc_flags & IBV_WC_EX_WITH_CVLAN)
		c->ex.read_cvlan = read_cvlan;
	if (attr->wc_flags & IBV_WC_EX_WITH_FLOW_TAG)
		c->ex.read_flow_tag = read_flow_tag;
	if (attr->wc_flags & IBV_WC_EX_WITH_TM_INFO)
		c->ex.read_tm_info = read_tm_info;
	return &c->ex;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	struct si_cq *c = (struct si_cq *)cq;
	struct si_cqe *ring = cqe > 0 ? map_ring((uint32_t)cqe) : NULL;
	bool locked = si_lock();
	uint32_t n = c->tail - c->head;
	int err = !ring ? EINVAL : n > (uint32_t)cqe ? EBUSY : 0;

	if (!err) {
		for (uint32_t i = 0; i < n; i++)
			ring[i] = c->ring[(c->head + i) % c->size];
		unmap_ring(c->ring, c->size);
		c->ring = ring;
		c->size = (uint32_t)cqe;
		c->head = 0;
		c->tail = n;
		cq->cqe = cqe;
	} else {
		unmap_ring(ring, (uint32_t)cqe);
	}
	si_unlock(locked);
	return err;
}

/* Events that nobody took are dropped with their queue. */
static void drop_events(struct si_cq *c)
{
	struct si_channel *channel = channel_of(c);
	struct ibv_cq *cq;
	int bytes = 0;

	ioctl(channel->channel.fd, FIONREAD, &bytes);
	for (int n = bytes / (int)sizeof(cq); n; n--) {
		if (read(channel->channel.fd, &cq, sizeof(cq)) != sizeof(cq))
			return;
		if (cq != &c->cq && write(channel->write_fd, &cq, sizeof(cq)) < 0)
			return;
	}
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct si_cq *c = (struct si_cq *)cq;
	bool locked = si_lock();
	bool busy = c->users > 0;

	if (!busy && cq->channel) {
		drop_events(c);
		cq->channel->refcnt--;
	}
	si_unlock(locked);
	if (busy)
		return EBUSY;
	pthread_mutex_lock(&cq->mutex);
	while (cq->comp_events_completed != c->events_taken)
		pthread_cond_wait(&cq->cond, &cq->mutex);
	pthread_mutex_unlock(&cq->mutex);
	unmap_ring(c->ring, c->size);
	free(c);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct ibv_cq *got;

	if (read(channel->fd, &got, sizeof(got)) != sizeof(got))
		return -1;
	__atomic_add_fetch(&((struct si_cq *)got)->events_taken, 1, __ATOMIC_RELAXED);
	*cq = got;
	*cq_context = got->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/* --------------------------------------------------------- receive queues */

static bool init_rq(struct si_rq *rq, uint32_t max_wr, uint32_t max_sge)
{
	*rq = (struct si_rq){.size = max_wr, .max_sge = max_sge};
	if (!max_wr)
		return true;
	rq->ring = calloc(max_wr, sizeof(*rq->ring));
	return rq->ring;
}

static struct si_srq *srqs;

struct si_srq *si_srq_find(uint32_t number)
{
	struct si_srq *s = srqs;

	while (s && s->rq.srqn != number)
		s = s->next;
	return s;
}

struct ibv_srq *si_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	static uint32_t number;
	struct si_srq *s;
	bool locked;

	if (!attr->attr.max_wr || attr->attr.max_wr > SI_MAX_WR || attr->attr.max_sge > SI_MAX_SGE)
		return si_refuse(EINVAL);
	s = calloc(1, sizeof(*s));
	if (!s || !init_rq(&s->rq, attr->attr.max_wr, attr->attr.max_sge)) {
		free(s);
		return si_refuse(ENOMEM);
	}
	s->srq.context = context;
	s->srq.srq_context = attr->srq_context;
	s->srq.pd = attr->comp_mask & IBV_SRQ_INIT_ATTR_PD ? attr->pd : NULL;
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ)
		s->cq = (struct si_cq *)attr->cq;
	pthread_mutex_init(&s->srq.mutex, NULL);
	pthread_cond_init(&s->srq.cond, NULL);
	locked = si_lock();
	s->rq.srqn = ++number;
	s->next = srqs;
	srqs = s;
	si_unlock(locked);
	return &s->srq;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {
	    .srq_context = attr->srq_context,
	    .attr = attr->attr,
	    .comp_mask = IBV_SRQ_INIT_ATTR_PD,
	    .pd = pd,
	};

	return si_create_srq_ex(pd->context, &ex);
}

int si_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	*number = ((struct si_srq *)srq)->rq.srqn;
	return 0;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	if (mask & IBV_SRQ_MAX_WR)
		return EOPNOTSUPP;
	if (mask & IBV_SRQ_LIMIT)
		((struct si_srq *)srq)->limit = attr->srq_limit;
	return 0;
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct si_srq *s = (struct si_srq *)srq;

	*attr = (struct ibv_srq_attr){s->rq.size, s->rq.max_sge, s->limit};
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct si_srq *s = (struct si_srq *)srq, **link = &srqs;
	bool locked = si_lock();

	if (s->users) {
		si_unlock(locked);
		return EBUSY;
	}
	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	si_unlock(locked);
	free(s->rq.ring);
	free(s);
	return 0;
}

/* ------------------------------------------------------------ queue pairs */

struct si_qp *si_qps;
static struct si_qp *by_number[SI_MAX_QP];

struct si_qp *si_qp_find(uint32_t number)
{
	struct si_qp *qp = by_number[number % SI_MAX_QP];

	return qp && qp->qp.qp_num == number ? qp : NULL;
}

/* With a seed the numbers start anywhere, as on a device that others use, too. */
static bool add_qp(struct si_qp *qp)
{
	static uint32_t last;

	if (!last)
		last = (uint32_t)(si_random_state & 0xffff) + 16;
	for (int tries = 0; tries < SI_MAX_QP; tries++) {
		last = (last + 1) & 0xffffff;
		if (by_number[last % SI_MAX_QP])
			continue;
		by_number[last % SI_MAX_QP] = qp;
		qp->qp.qp_num = qp->qp.handle = last;
		qp->next = si_qps;
		si_qps = qp;
		return true;
	}
	return false;
}

static void remove_qp(struct si_qp *qp)
{
	struct si_qp **link = &si_qps;

	while (*link != qp)
		link = &(*link)->next;
	*link = qp->next;
	by_number[qp->qp.qp_num % SI_MAX_QP] = NULL;
}

static void count_users(const struct ibv_qp *qp, int n)
{
	if (qp->send_cq)
		((struct si_cq *)qp->send_cq)->users += n;
	if (qp->recv_cq)
		((struct si_cq *)qp->recv_cq)->users += n;
	if (qp->srq)
		((struct si_srq *)qp->srq)->users += n;
}

static bool too_much(const struct ibv_qp_cap *cap)
{
	return cap->max_send_wr > SI_MAX_WR || cap->max_recv_wr > SI_MAX_WR ||
	       cap->max_send_sge > SI_MAX_SGE || cap->max_recv_sge > SI_MAX_SGE ||
	       cap->max_inline_data > SI_MAX_INLINE;
}

static void free_qp(struct si_qp *qp)
{
	if (!qp)
		return;
	free(qp->sq);
	free(qp->rq.ring);
	free(qp);
}

static struct si_qp *new_qp(const struct ibv_qp_init_attr_ex *attr)
{
	struct si_qp *qp = calloc(1, sizeof(*qp));
	const struct ibv_qp_cap *cap = &attr->cap;

	if (!qp)
		return NULL;
	qp->init = *attr;
	qp->sq = calloc(cap->max_send_wr + 1, sizeof(*qp->sq));
	if (!qp->sq || !init_rq(&qp->rq, attr->srq ? 0 : cap->max_recv_wr, cap->max_recv_sge)) {
		free_qp(qp);
		return NULL;
	}
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	return qp;
}

struct ibv_qp *si_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct si_qp *qp;
	bool locked, added;

	if (too_much(&attr->cap))
		return si_refuse(EINVAL);
	if (si_fails(attr->qp_context, 0, 10))
		return si_refuse(ENOSPC);
	qp = new_qp(attr);
	if (!qp)
		return si_refuse(ENOMEM);
	qp->qp.context = context;
	qp->qp.qp_context = attr->qp_context;
	qp->qp.pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = attr->recv_cq;
	qp->qp.srq = attr->srq;
	qp->qp.qp_type = attr->qp_type;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		si_qp_add_builders(qp);
	locked = si_lock();
	added = add_qp(qp);
	if (added)
		count_users(&qp->qp, 1);
	si_unlock(locked);
	if (added)
		return &qp->qp;
	free_qp(qp);
	return si_refuse(ENOMEM);
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

	return si_create_qp_ex(pd->context, &ex);
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	struct si_qp *q = (struct si_qp *)qp;

	return q->has_builders ? &q->ex : NULL;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct si_qp *q = (struct si_qp *)qp;
	bool locked = si_lock();

	*attr = q->attr;
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->cap = q->init.cap;
	*init = (struct ibv_qp_init_attr){
	    .qp_context = qp->qp_context,
	    .send_cq = qp->send_cq,
	    .recv_cq = qp->recv_cq,
	    .srq = qp->srq,
	    .cap = q->init.cap,
	    .qp_type = qp->qp_type,
	    .sq_sig_all = q->init.sq_sig_all,
	};
	si_unlock(locked);
	return 0;
}

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
		return from == IBV_QPS_RTR || from == IBV_QPS_RTS;
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

static void reset(struct si_qp *qp)
{
	qp->sq_freed = qp->sq_next = qp->sq_tail;
	qp->rq.freed = qp->rq.head = qp->rq.tail;
	qp->connected = false;
	qp->attr = (struct ibv_qp_attr){0};
}

static bool has_peer(const struct si_qp *qp)
{
	return qp->qp.qp_type == IBV_QPT_UD || si_qp_find(qp->attr.dest_qp_num);
}

static void set_state(struct si_qp *qp, enum ibv_qp_state state)
{
	if (state == IBV_QPS_ERR)
		si_qp_fail(qp);
	else if (state == IBV_QPS_RESET)
		reset(qp);
	else if (state == IBV_QPS_RTR)
		qp->connected = has_peer(qp);
	qp->qp.state = state;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct si_qp *q = (struct si_qp *)qp;
	bool locked = si_lock();
	int err = mask & IBV_QP_STATE && !may_become(qp->state, attr->qp_state) ? EINVAL : 0;

	if (!err) {
		take_attributes(&q->attr, attr, mask);
		if (mask & IBV_QP_STATE)
			set_state(q, attr->qp_state);
		si_progress();
	}
	si_unlock(locked);
	return err;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct si_qp *q = (struct si_qp *)qp;
	bool locked = si_lock();

	remove_qp(q);
	count_users(qp, -1);
	si_progress(); /* those that were connected to it find out */
	si_unlock(locked);
	free_qp(q);
	return 0;
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return EOPNOTSUPP;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return EOPNOTSUPP;
}
