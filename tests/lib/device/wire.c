/* SPDX-License-Identifier: BSD-2-Clause */
/* wire.c: executes posted requests; the caller holds the lock. */
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "standin.h"

/* Returned instead of a status: not yet, because the receiver is not ready. */
#define WAIT      (-1)

#define GRH_BYTES 40

/* ------------------------------------------------------------ completions */

static enum ibv_wc_opcode completed(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		return IBV_WC_SEND;
	}
}

static void push_sent(struct si_qp *qp, uint32_t index, const struct si_send *s, int status,
		      uint32_t length)
{
	struct si_cqe cqe = {.index = index, .sent = true};

	if (!(s->flags & IBV_SEND_SIGNALED) && !qp->init.sq_sig_all && status == IBV_WC_SUCCESS)
		return;
	cqe.wc.wr_id = s->wr_id;
	cqe.wc.status = (enum ibv_wc_status)status;
	cqe.wc.opcode = completed(s->opcode);
	cqe.wc.byte_len = length;
	cqe.wc.qp_num = qp->qp.qp_num;
	si_cq_push((struct si_cq *)qp->qp.send_cq, &cqe);
}

void si_complete_unsent(struct si_qp *qp, const struct si_send *s, enum ibv_wc_status status)
{
	push_sent(qp, qp->sq_next++, s, status, 0);
}

struct target {
	struct si_rq *rq;
	struct si_cq *cq;
};

/* Takes the request at the head of a receive queue and returns its completion, to be filled in. */
static struct si_cqe take_receive(struct si_rq *rq, const struct si_qp *qp)
{
	struct si_cqe cqe = {.index = rq->head++, .srqn = rq->srqn};

	cqe.wc.wr_id = rq->ring[cqe.index % rq->size].wr_id;
	cqe.wc.opcode = IBV_WC_RECV;
	cqe.wc.qp_num = qp->qp.qp_num;
	return cqe;
}

static struct si_send *sq_slot(struct si_qp *qp, uint32_t index)
{
	return &qp->sq[index % qp->init.cap.max_send_wr];
}

void si_qp_fail(struct si_qp *qp)
{
	qp->qp.state = IBV_QPS_ERR;
	while (qp->sq_next != qp->sq_tail)
		si_complete_unsent(qp, sq_slot(qp, qp->sq_next), IBV_WC_WR_FLUSH_ERR);
	while (qp->rq.head != qp->rq.tail) {
		struct si_cqe cqe = take_receive(&qp->rq, qp);

		cqe.wc.status = IBV_WC_WR_FLUSH_ERR;
		si_cq_push((struct si_cq *)qp->qp.recv_cq, &cqe);
	}
}

/* ------------------------------------------------------------------- data */

struct buffers {
	struct iovec v[SI_MAX_SGE];
	uint32_t n;
};

/* The first `length` bytes of a scatter/gather list; false if a key does not allow it. */
static bool resolve(struct buffers *b, const struct ibv_sge *sge, uint32_t n, uint64_t length,
		    int access)
{
	b->n = 0;
	for (uint32_t i = 0; i < n && length; i++) {
		uint64_t bytes = sge[i].length < length ? sge[i].length : length;
		void *p = bytes ? si_memory(sge[i].lkey, sge[i].addr, bytes, access) : NULL;

		if (bytes && !p)
			return false;
		b->v[b->n++] = (struct iovec){p, bytes};
		length -= bytes;
	}
	return true;
}

static uint64_t length_of(const struct ibv_sge *sge, uint32_t n)
{
	uint64_t length = 0;

	for (uint32_t i = 0; i < n; i++)
		length += sge[i].length;
	return length;
}

/* Finds what a request sends: its inline data or its list. */
static bool source_of(struct buffers *b, const struct si_send *s, uint64_t *length)
{
	if (s->flags & IBV_SEND_INLINE) {
		*length = s->inline_length;
		*b = (struct buffers){.v = {{(void *)s->inline_data, s->inline_length}}, .n = 1};
		return true;
	}
	*length = length_of(s->sge, s->num_sge);
	return resolve(b, s->sge, s->num_sge, *length, 0);
}

static void copy(struct buffers *to, struct buffers *from)
{
	for (uint32_t i = 0, j = 0; i < to->n && j < from->n;) {
		struct iovec *d = &to->v[i], *s = &from->v[j];
		size_t n = d->iov_len < s->iov_len ? d->iov_len : s->iov_len;

		if (n)
			memmove(d->iov_base, s->iov_base, n);
		d->iov_base = (char *)d->iov_base + n;
		s->iov_base = (char *)s->iov_base + n;
		d->iov_len -= n;
		s->iov_len -= n;
		i += !d->iov_len;
		j += !s->iov_len;
	}
}

/* -------------------------------------------------------------- operations */

static bool is_reliable(const struct si_qp *qp)
{
	return qp->qp.qp_type != IBV_QPT_UC && qp->qp.qp_type != IBV_QPT_UD;
}

/* The peer of a request; NULL if it is lost, and *status is then what the sender sees. */
static struct si_qp *peer_of(const struct si_qp *qp, const struct si_send *s, int *status)
{
	bool datagram = qp->qp.qp_type == IBV_QPT_UD;
	struct si_qp *peer = si_qp_find(datagram ? s->remote_qpn : qp->attr.dest_qp_num);
	enum ibv_qp_state state = peer ? peer->qp.state : IBV_QPS_RESET;
	bool mine = peer && (datagram || peer->attr.dest_qp_num == qp->qp.qp_num);

	if ((state == IBV_QPS_RTR || state == IBV_QPS_RTS) && mine)
		return peer;
	if (!is_reliable(qp))
		*status = IBV_WC_SUCCESS;
	else
		*status = state == IBV_QPS_INIT ? WAIT : IBV_WC_RETRY_EXC_ERR;
	return NULL;
}

/* Fails a request because the peer found an error. */
static int refuse(const struct si_qp *qp, struct si_qp *peer, int status)
{
	if (!is_reliable(qp))
		return IBV_WC_SUCCESS;
	/* One that is its own peer fails when this request has completed: in the order of the
	 * queue. */
	if (peer != qp)
		si_qp_fail(peer);
	return status;
}

static bool find_target(struct target *t, const struct si_send *s, struct si_qp *peer)
{
	struct si_srq *srq = (struct si_srq *)peer->qp.srq;

	t->rq = srq ? &srq->rq : &peer->rq;
	t->cq = (struct si_cq *)peer->qp.recv_cq;
	if (peer->qp.qp_type != IBV_QPT_XRC_RECV)
		return true;
	srq = si_srq_find(s->remote_srqn);
	if (!srq)
		return false;
	t->rq = &srq->rq;
	t->cq = srq->cq;
	return true;
}

static int not_ready(const struct si_qp *qp)
{
	if (!is_reliable(qp))
		return IBV_WC_SUCCESS;
	return qp->attr.rnr_retry == 7 ? WAIT : IBV_WC_RNR_RETRY_EXC_ERR;
}

static void fill_received(struct ibv_wc *wc, const struct si_send *s, const struct si_qp *qp)
{
	switch (s->opcode) {
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		wc->wc_flags |= IBV_WC_WITH_IMM;
		wc->imm_data = s->imm_data;
		break;
	default:
		break;
	}
	if (s->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		wc->opcode = IBV_WC_RECV_RDMA_WITH_IMM;
	if (qp->qp.qp_type == IBV_QPT_UD) {
		wc->wc_flags |= IBV_WC_GRH;
		wc->src_qp = qp->qp.qp_num;
	}
}

/* Copies what was sent into the buffers of a receive request. */
static int scatter(const struct si_recv *r, struct buffers *from, uint64_t length, uint64_t header)
{
	static char grh[GRH_BYTES];
	struct buffers to, with_header = {.v = {{grh, header}}, .n = 1};

	if (length_of(r->sge, r->num_sge) < length + header)
		return IBV_WC_LOC_LEN_ERR;
	if (!resolve(&to, r->sge, r->num_sge, length + header, IBV_ACCESS_LOCAL_WRITE))
		return IBV_WC_LOC_PROT_ERR;
	if (header)
		copy(&to, &with_header);
	/* What the header filled is empty now, but the first buffer it left half full is not. */
	copy(&to, from);
	return IBV_WC_SUCCESS;
}

/* A receive request of the peer completes, with data unless this is a write. */
static int deliver(struct si_qp *qp, const struct si_send *s, struct si_qp *peer, struct target *t,
		   struct buffers *from, uint64_t length)
{
	struct si_cqe cqe = take_receive(t->rq, peer);
	uint64_t header = qp->qp.qp_type == IBV_QPT_UD ? GRH_BYTES : 0;
	int status = IBV_WC_SUCCESS;

	if (from)
		status = scatter(&t->rq->ring[cqe.index % t->rq->size], from, length, header);
	cqe.wc.status = (enum ibv_wc_status)status;
	cqe.solicited = s->flags & IBV_SEND_SOLICITED;
	if (status == IBV_WC_SUCCESS) {
		cqe.wc.byte_len = (uint32_t)(length + header);
		fill_received(&cqe.wc, s, qp);
	}
	si_cq_push(t->cq, &cqe);
	if (status == IBV_WC_SUCCESS)
		return status;
	return refuse(qp, peer,
		      status == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR);
}

static int execute_send(struct si_qp *qp, const struct si_send *s, struct si_qp *peer)
{
	struct buffers from;
	struct target t;
	uint64_t length;

	if (!source_of(&from, s, &length))
		return IBV_WC_LOC_PROT_ERR;
	if (!find_target(&t, s, peer))
		return refuse(qp, peer, IBV_WC_REM_OP_ERR);
	if (t.rq->head == t.rq->tail)
		return not_ready(qp);
	return deliver(qp, s, peer, &t, &from, length);
}

/*
 * An XRC target has no domain; the domain of the shared receive queue that the request
 * names counts.
 */
static bool is_in_domain(const struct si_send *s, const struct si_qp *peer)
{
	const struct si_srq *srq;

	if (peer->qp.qp_type != IBV_QPT_XRC_RECV)
		return true;
	srq = si_srq_find(s->remote_srqn);
	return srq && srq->srq.pd == si_domain(s->rkey);
}

/* Memory of the peer that a request names. */
static void *remote(const struct si_send *s, const struct si_qp *peer, uint64_t length, int access)
{
	static char none;

	if (length && !is_in_domain(s, peer))
		return NULL;
	if (!(peer->attr.qp_access_flags & (unsigned int)access))
		return NULL;
	return length ? si_memory(s->rkey, s->remote_addr, length, access) : &none;
}

static int execute_write(struct si_qp *qp, const struct si_send *s, struct si_qp *peer)
{
	bool with_imm = s->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct buffers from, to = {.n = 1};
	struct target t;
	uint64_t length;
	void *p;

	if (!source_of(&from, s, &length))
		return IBV_WC_LOC_PROT_ERR;
	p = remote(s, peer, length, IBV_ACCESS_REMOTE_WRITE);
	if (!p)
		return refuse(qp, peer, IBV_WC_REM_ACCESS_ERR);
	if (with_imm && !find_target(&t, s, peer))
		return refuse(qp, peer, IBV_WC_REM_OP_ERR);
	if (with_imm && t.rq->head == t.rq->tail)
		return not_ready(qp);
	to.v[0] = (struct iovec){p, length};
	copy(&to, &from);
	return with_imm ? deliver(qp, s, peer, &t, NULL, length) : IBV_WC_SUCCESS;
}

static int execute_read(struct si_qp *qp, const struct si_send *s, struct si_qp *peer,
			uint64_t length)
{
	void *p = remote(s, peer, length, IBV_ACCESS_REMOTE_READ);
	struct buffers to, from = {.v = {{p, length}}, .n = 1};

	if (!p)
		return refuse(qp, peer, IBV_WC_REM_ACCESS_ERR);
	if (!resolve(&to, s->sge, s->num_sge, length, IBV_ACCESS_LOCAL_WRITE))
		return IBV_WC_LOC_PROT_ERR;
	copy(&to, &from);
	return IBV_WC_SUCCESS;
}

static int execute_atomic(struct si_qp *qp, const struct si_send *s, struct si_qp *peer)
{
	uint64_t *p = remote(s, peer, sizeof(*p), IBV_ACCESS_REMOTE_ATOMIC), old;
	struct buffers to, from = {.v = {{&old, sizeof(old)}}, .n = 1};

	if (!p || s->remote_addr % sizeof(*p))
		return refuse(qp, peer, p ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR);
	if (length_of(s->sge, s->num_sge) < sizeof(old))
		return IBV_WC_LOC_LEN_ERR;
	if (!resolve(&to, s->sge, s->num_sge, sizeof(old), IBV_ACCESS_LOCAL_WRITE))
		return IBV_WC_LOC_PROT_ERR;
	old = *p;
	if (s->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		*p = old + s->compare_add;
	else if (old == s->compare_add)
		*p = s->swap;
	copy(&to, &from);
	return IBV_WC_SUCCESS;
}

/* Returns a completion status, or WAIT. *length is the byte_len of the completion. */
static int execute(struct si_qp *qp, const struct si_send *s, uint32_t *length)
{
	int status = IBV_WC_SUCCESS;
	struct si_qp *peer = peer_of(qp, s, &status);

	if (!peer)
		return status;
	switch (s->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return execute_send(qp, s, peer);
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return execute_write(qp, s, peer);
	case IBV_WR_RDMA_READ:
		*length = (uint32_t)length_of(s->sge, s->num_sge);
		return execute_read(qp, s, peer, *length);
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		*length = sizeof(uint64_t);
		return execute_atomic(qp, s, peer);
	default:
		return IBV_WC_LOC_QP_OP_ERR;
	}
}

/* --------------------------------------------------------------- progress */

/* Executes one request of this queue pair; false if none is due. */
static bool step(struct si_qp *qp)
{
	uint32_t index = qp->sq_next, length = 0;
	struct si_send *s;
	int status;

	if (index == qp->sq_tail || qp->qp.state != IBV_QPS_RTS)
		return false;
	s = sq_slot(qp, index);
	qp->sq_next++; /* before: a queue pair may be its own peer, and fail */
	if (si_fails(qp->qp.qp_context, (uint64_t)index << 16, 100))
		status = IBV_WC_LOC_PROT_ERR;
	else
		status = execute(qp, s, &length);
	if (status == WAIT) {
		qp->sq_next = index;
		return false;
	}
	push_sent(qp, index, s, status, status == IBV_WC_SUCCESS ? length : 0);
	if (status != IBV_WC_SUCCESS)
		si_qp_fail(qp);
	return true;
}

static uint32_t chance(uint32_t below)
{
	/* xorshift64 */
	si_random_state ^= si_random_state << 13;
	si_random_state ^= si_random_state >> 7;
	si_random_state ^= si_random_state << 17;
	return (uint32_t)(si_random_state >> 32) % below;
}

/* Executes a step of a randomly chosen queue pair, or of the next one that can make one. */
static bool random_step(void)
{
	struct si_qp *qp;
	uint32_t n = 0, skip;

	for (qp = si_qps; qp; qp = qp->next)
		n++;
	skip = n ? chance(n) : 0;
	for (qp = si_qps; skip; skip--)
		qp = qp->next;
	for (; n; n--) {
		if (step(qp))
			return true;
		qp = qp->next ? qp->next : si_qps;
	}
	return false;
}

void si_finish(void)
{
	bool more = true;

	while (more) {
		more = false;
		for (struct si_qp *qp = si_qps; qp; qp = qp->next)
			while (step(qp))
				more = true;
	}
}

/*
 * Uses system calls by number: this thread belongs to the device, and its calls must not
 * look like the program's.
 */
static void *thread(void *unused)
{
	struct timespec pause = {0};

	for (;;) {
		pthread_mutex_lock(&si_mutex);
		for (uint32_t n = chance(6); n && random_step(); n--)
			;
		pause.tv_nsec = chance(4) ? chance(3000) : chance(200000);
		pthread_mutex_unlock(&si_mutex);
		syscall(SYS_nanosleep, &pause, NULL);
	}
	return NULL;
}

void si_thread_start(void)
{
	pthread_t t;

	si_has_thread = !pthread_create(&t, NULL, thread, NULL);
}

void si_progress(void)
{
	if (si_has_thread)
		return;
	if (!si_random_state) {
		si_finish();
		return;
	}
	for (uint32_t n = chance(4); n && random_step(); n--)
		;
}
