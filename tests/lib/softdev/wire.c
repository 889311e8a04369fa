/* SPDX-License-Identifier: BSD-2-Clause */
/* wire.c: executes and completes posted requests; the caller holds the lock. */
#include <string.h>

#include "regions.h"

/* Returned instead of a status: not yet, because the receiver is not ready. */
#define WAIT      (-1)

#define GRH_BYTES 40
#define MULTICAST 0xffffffu

/* ------------------------------------------------------------ completions */

static enum ibv_wc_opcode completed(enum ibv_wr_opcode opcode)
{
	switch ((int)opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case SD_WR_ATOMIC_WRITE:
		return (enum ibv_wc_opcode)SD_WC_ATOMIC_WRITE;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case SD_WR_FLUSH:
		return (enum ibv_wc_opcode)SD_WC_FLUSH;
	default:
		return IBV_WC_SEND;
	}
}

static void push_sent(struct sd_qp *qp, uint32_t index, const struct sd_send *s, int status)
{
	struct sd_cqe cqe = {.index = index, .sent = true};

	if (!(s->flags & IBV_SEND_SIGNALED) && !qp->sq_sig_all && status == IBV_WC_SUCCESS)
		return;
	cqe.wc.wr_id = s->wr_id;
	cqe.wc.status = (enum ibv_wc_status)status;
	cqe.wc.opcode = completed(s->opcode);
	cqe.wc.byte_len = status == IBV_WC_SUCCESS ? s->length : 0;
	cqe.wc.qp_num = qp->number;
	sd_cq_push(sd_cq(qp->send_cq), &cqe);
}

/* Of the request at the tail of the send queue, whose turn it is because all others are complete.
 */
void sd_complete_unsent(struct sd_qp *qp, struct sd_send *s, enum ibv_wc_status status)
{
	s->length = 0;
	push_sent(qp, qp->sq_next++, s, status);
	qp->sq_done = qp->sq_next;
}

struct target {
	struct sd_rq *rq;
	struct sd_cq *cq;
	struct sd_srq *srq;
	uint32_t pd;
};

/* Takes the request at the head of a receive queue and returns its completion, to be filled in. */
static struct sd_cqe take_receive(struct sd_rq *rq, const struct sd_qp *qp)
{
	struct sd_cqe cqe = {.index = rq->head++, .srqn = rq->srqn};

	cqe.wc.wr_id = sd_recv(rq, cqe.index)->wr_id;
	cqe.wc.opcode = IBV_WC_RECV;
	cqe.wc.qp_num = qp->number;
	return cqe;
}

static void deliver_found(struct sd_qp *qp, struct sd_send *s);

static void complete_head(struct sd_qp *qp)
{
	struct sd_send *s = sd_send(qp, qp->sq_done);

	if (s->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || s->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		deliver_found(qp, s);
	push_sent(qp, qp->sq_done, s, s->status);
	qp->sq_done++;
}

void sd_qp_fail(struct sd_qp *qp)
{
	bool was_error = qp->state == IBV_QPS_ERR;

	qp->state = IBV_QPS_ERR;
	while (qp->sq_done != qp->sq_next)
		complete_head(qp);
	while (qp->sq_next != qp->sq_tail)
		sd_complete_unsent(qp, sd_send(qp, qp->sq_next), IBV_WC_WR_FLUSH_ERR);
	while (qp->rq.head != qp->rq.tail) {
		struct sd_cqe cqe = take_receive(&qp->rq, qp);

		cqe.wc.status = IBV_WC_WR_FLUSH_ERR;
		sd_cq_push(sd_cq(qp->recv_cq), &cqe);
	}
	sd_deactivate(qp);
	if (qp->srq && !was_error)
		sd_async(qp->async, IBV_EVENT_QP_LAST_WQE_REACHED, (uint32_t)(qp - sd_fabric->qps));
}

/* ------------------------------------------------------------------- data */

/*
 * Lists of spans are static, since the lock is held: on the stack they would take 4 KiB of the program's at each post, which
 * the library of a network card does not, and a recorder clears what calls leave there.
 */

/* The first `length` bytes of a scatter/gather list; false if a key does not allow it. */
static bool resolve(struct sd_spans *b, const struct sd_qp *qp, uint32_t pd,
		    const struct ibv_sge *sge, uint32_t n, uint64_t length, int access)
{
	b->n = 0;
	for (uint32_t i = 0; i < n && length; i++) {
		uint64_t bytes = sge[i].length < length ? sge[i].length : length;

		if (bytes &&
		    !sd_region_spans(sge[i].lkey, pd, qp->number, sge[i].addr, bytes, access, b))
			return false;
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

static void take_span(struct sd_spans *b, void *p, uint64_t length)
{
	b->v[0] = (struct sd_span){.at = p, .length = length};
	b->n = 1;
}

/* Finds what a request sends: its inline data or its list. */
static bool source_of(struct sd_spans *b, const struct sd_qp *qp, struct sd_send *s,
		      uint64_t *length)
{
	if (s->flags & IBV_SEND_INLINE) {
		*length = s->inline_length;
		take_span(b, s->inline_data, s->inline_length);
		return true;
	}
	*length = length_of(s->sge, s->num_sge);
	return resolve(b, qp, qp->pd, s->sge, s->num_sge, *length, 0);
}

/* -------------------------------------------------------------- operations */

static bool is_reliable(const struct sd_qp *qp)
{
	return qp->type != IBV_QPT_UC && qp->type != IBV_QPT_UD;
}

/* Intervals of the timers for receivers that are not ready, in units of 10 us (IBTA 9.7.5.2.8). */
static uint64_t rnr_interval(const struct sd_qp *peer)
{
	static const uint32_t units[] = {65536, 1,    2,    3,     4,     6,     8,     12,
					 16,    24,   32,   48,    64,    96,    128,   192,
					 256,   384,  512,  768,   1024,  1536,  2048,  3072,
					 4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

	return units[peer->attr.min_rnr_timer % 32] * 10000ull;
}

/* The request is sent again until the time that the queue pair's attributes give it is over. */
static int no_answer(struct sd_qp *qp, uint64_t now)
{
	uint64_t timeout = 4096ull << qp->attr.timeout;

	if (!qp->give_up_at)
		qp->give_up_at =
		    qp->attr.timeout ? now + timeout * (qp->attr.retry_cnt + 1u) : SD_NEVER;
	if (now >= qp->give_up_at)
		return IBV_WC_RETRY_EXC_ERR;
	qp->retry_at = now + (timeout < 1000000 ? timeout : 1000000);
	return WAIT;
}

static bool is_open(const struct sd_qp *peer, const struct sd_qp *qp)
{
	bool receives = peer && (peer->state == IBV_QPS_RTR || peer->state == IBV_QPS_RTS ||
				 peer->state == IBV_QPS_SQD);

	if (!receives)
		return false;
	return qp->type == IBV_QPT_UD ? peer->type == IBV_QPT_UD
				      : peer->attr.dest_qp_num == qp->number;
}

/* The peer of a request; NULL if it is lost, and *status is then what the sender sees. */
static struct sd_qp *peer_of(struct sd_qp *qp, const struct sd_send *s, uint64_t now, int *status)
{
	struct sd_qp *peer =
	    sd_qp_find(qp->type == IBV_QPT_UD ? s->remote_qpn : qp->attr.dest_qp_num);

	if (is_open(peer, qp))
		return peer;
	if (!is_reliable(qp))
		*status = IBV_WC_SUCCESS;
	else if (now)
		*status = no_answer(qp, now);
	else
		*status = peer && peer->state == IBV_QPS_INIT ? WAIT : IBV_WC_RETRY_EXC_ERR;
	return NULL;
}

/* Fails a request because the peer found an error. */
static int refuse(const struct sd_qp *qp, struct sd_qp *peer, int status)
{
	enum ibv_event_type event = IBV_EVENT_QP_FATAL;

	if (!is_reliable(qp))
		return IBV_WC_SUCCESS;
	if (status == IBV_WC_REM_ACCESS_ERR)
		event = IBV_EVENT_QP_ACCESS_ERR;
	else if (status == IBV_WC_REM_INV_REQ_ERR)
		event = IBV_EVENT_QP_REQ_ERR;
	/* One that is its own peer fails when this request has completed: in the order of the
	 * queue. */
	if (peer != qp) {
		sd_qp_fail(peer);
		sd_async(peer->async, event, (uint32_t)(peer - sd_fabric->qps));
	}
	return status;
}

static bool find_target(struct target *t, const struct sd_send *s, struct sd_qp *peer)
{
	t->srq = peer->srq ? &sd_fabric->srqs[peer->srq - 1] : NULL;
	if (peer->type == IBV_QPT_XRC_RECV)
		t->srq = sd_srq_find(s->remote_srqn);
	t->cq = sd_cq(peer->recv_cq);
	t->rq = t->srq ? &t->srq->rq : &peer->rq;
	t->pd = t->srq ? t->srq->pd : peer->pd;
	if (peer->type == IBV_QPT_XRC_RECV) {
		if (!t->srq)
			return false;
		t->cq = sd_cq(t->srq->cq);
	}
	return true;
}

static int not_ready(struct sd_qp *qp, const struct sd_qp *peer, uint64_t now)
{
	if (!is_reliable(qp))
		return IBV_WC_SUCCESS;
	if (qp->attr.rnr_retry != 7 && (!now || qp->retries++ >= qp->attr.rnr_retry))
		return IBV_WC_RNR_RETRY_EXC_ERR;
	qp->retry_at = now ? now + rnr_interval(peer) : 0;
	return WAIT;
}

static void fill_received(struct ibv_wc *wc, const struct sd_send *s, const struct sd_qp *qp)
{
	switch (s->opcode) {
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		wc->wc_flags |= IBV_WC_WITH_IMM;
		wc->imm_data = s->imm_data;
		break;
	case IBV_WR_SEND_WITH_INV:
		wc->wc_flags |= IBV_WC_WITH_INV;
		wc->invalidated_rkey = s->imm_data;
		break;
	default:
		break;
	}
	if (s->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		wc->opcode = IBV_WC_RECV_RDMA_WITH_IMM;
	if (qp->type == IBV_QPT_UD) {
		if (s->is_global)
			wc->wc_flags |= IBV_WC_GRH;
		wc->src_qp = qp->number;
		wc->slid = sd_lid();
	}
}

/* The global routing header that is in front of a datagram's bytes. */
static void make_header(char *grh, const struct sd_send *s, uint64_t length)
{
	memset(grh, 0, GRH_BYTES);
	grh[0] = 0x60;
	grh[4] = (char)(length >> 8);
	grh[5] = (char)length;
	grh[6] = 0x1b;
	grh[7] = 64;
	memcpy(grh + 8, &sd_gids[s->sgid_index % SD_GIDS], 16);
	memcpy(grh + 24, &s->dgid, 16);
}

/* Copies what was sent into the buffers of a receive request. */
static int scatter(const struct sd_recv *r, const struct sd_qp *peer, uint32_t pd,
		   struct sd_spans *from, uint64_t length, const struct sd_send *s, uint64_t header)
{
	char grh[GRH_BYTES];
	static struct sd_spans to, before;

	if (length_of(r->sge, r->num_sge) < length + header)
		return IBV_WC_LOC_LEN_ERR;
	if (!resolve(&to, peer, pd, r->sge, r->num_sge, length + header, IBV_ACCESS_LOCAL_WRITE))
		return IBV_WC_LOC_PROT_ERR;
	if (header) {
		if (s->is_global)
			make_header(grh, s, length);
		else
			memset(grh, 0, sizeof(grh));
		take_span(&before, grh, header);
		sd_copy(&to, &before);
	}
	/* What the header filled is empty now, but the first buffer it left half full is not. */
	sd_copy(&to, from);
	return IBV_WC_SUCCESS;
}

static void check_limit(struct sd_srq *srq)
{
	if (!srq || !srq->limit || srq->rq.tail - srq->rq.head >= srq->limit)
		return;
	srq->limit = 0;
	sd_async(srq->async, IBV_EVENT_SRQ_LIMIT_REACHED, (uint32_t)(srq - sd_fabric->srqs));
}

/* A receive request of the peer completes, with data unless this is a write. */
static int deliver(struct sd_qp *qp, const struct sd_send *s, struct sd_qp *peer, struct target *t,
		   struct sd_spans *from, uint64_t length)
{
	struct sd_cqe cqe = take_receive(t->rq, peer);
	uint64_t header = qp->type == IBV_QPT_UD ? GRH_BYTES : 0;
	int status = IBV_WC_SUCCESS;

	if (from)
		status = scatter(sd_recv(t->rq, cqe.index), peer, t->pd, from, length, s, header);
	if (status == IBV_WC_SUCCESS && s->opcode == IBV_WR_SEND_WITH_INV)
		status = sd_invalidate(peer, s->imm_data, true);
	cqe.wc.status = (enum ibv_wc_status)status;
	cqe.solicited = s->flags & IBV_SEND_SOLICITED;
	if (status == IBV_WC_SUCCESS) {
		cqe.wc.byte_len = (uint32_t)(length + header);
		fill_received(&cqe.wc, s, qp);
	}
	sd_cq_push(t->cq, &cqe);
	check_limit(t->srq);
	if (status == IBV_WC_SUCCESS)
		return status;
	return refuse(qp, peer,
		      status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_REM_INV_REQ_ERR
			  ? IBV_WC_REM_INV_REQ_ERR
			  : IBV_WC_REM_OP_ERR);
}

static int execute_send(struct sd_qp *qp, struct sd_send *s, struct sd_qp *peer, uint64_t now)
{
	static struct sd_spans from;
	struct target t;
	uint64_t length;

	if (!source_of(&from, qp, s, &length))
		return IBV_WC_LOC_PROT_ERR;
	/* The most significant bit asks for the sender's own key (IBTA 10.2.5). */
	if (qp->type == IBV_QPT_UD &&
	    peer->attr.qkey != (s->remote_qkey & 0x80000000u ? qp->attr.qkey : s->remote_qkey))
		return IBV_WC_SUCCESS;
	if (!find_target(&t, s, peer))
		return refuse(qp, peer, IBV_WC_REM_OP_ERR);
	if (t.rq->head == t.rq->tail)
		return not_ready(qp, peer, now);
	return deliver(qp, s, peer, &t, &from, length);
}

static int execute_multicast(struct sd_qp *qp, struct sd_send *s, uint64_t now)
{
	for (int i = 0; i < SD_MAX_MEMBER; i++) {
		const struct sd_member *m = &sd_fabric->members[i];
		struct sd_qp *peer = m->qpn && !memcmp(&m->group, &s->dgid, sizeof(s->dgid))
					 ? sd_qp_find(m->qpn)
					 : NULL;

		if (is_open(peer, qp))
			execute_send(qp, s, peer, now);
	}
	return IBV_WC_SUCCESS;
}

/*
 * An XRC target has no domain; the domain of the shared receive queue that the request
 * names counts.
 */
static uint32_t domain_of(const struct sd_send *s, const struct sd_qp *peer)
{
	const struct sd_srq *srq =
	    peer->type == IBV_QPT_XRC_RECV ? sd_srq_find(s->remote_srqn) : NULL;

	return srq ? srq->pd : peer->pd;
}

/* Memory of the peer that a request names. */
static bool remote(struct sd_spans *b, const struct sd_send *s, const struct sd_qp *peer,
		   uint64_t length, int access)
{
	b->n = 0;
	if (!(peer->attr.qp_access_flags & (unsigned int)access))
		return false;
	return !length || sd_region_spans(s->rkey, domain_of(s, peer), peer->number, s->remote_addr,
					  length, access, b);
}

static int execute_write(struct sd_qp *qp, struct sd_send *s, struct sd_qp *peer, uint64_t now)
{
	bool with_imm = s->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	static struct sd_spans from, to;
	struct target t;
	uint64_t length;

	if (!source_of(&from, qp, s, &length))
		return IBV_WC_LOC_PROT_ERR;
	if (!remote(&to, s, peer, length, IBV_ACCESS_REMOTE_WRITE))
		return refuse(qp, peer, IBV_WC_REM_ACCESS_ERR);
	if (with_imm && !find_target(&t, s, peer))
		return refuse(qp, peer, IBV_WC_REM_OP_ERR);
	if (with_imm && t.rq->head == t.rq->tail)
		return not_ready(qp, peer, now);
	sd_copy(&to, &from);
	return with_imm ? deliver(qp, s, peer, &t, NULL, length) : IBV_WC_SUCCESS;
}

static int execute_read(struct sd_qp *qp, struct sd_send *s, struct sd_qp *peer)
{
	static struct sd_spans to, from;

	s->length = (uint32_t)length_of(s->sge, s->num_sge);
	if (!remote(&from, s, peer, s->length, IBV_ACCESS_REMOTE_READ))
		return refuse(qp, peer, IBV_WC_REM_ACCESS_ERR);
	if (!resolve(&to, qp, qp->pd, s->sge, s->num_sge, s->length, IBV_ACCESS_LOCAL_WRITE))
		return IBV_WC_LOC_PROT_ERR;
	sd_copy(&to, &from);
	return IBV_WC_SUCCESS;
}

/* Atomic among network cards, by the lock, and not towards the processor. */
static void change(uint64_t *p, struct sd_send *s)
{
	s->found = __atomic_load_n(p, __ATOMIC_RELAXED);
	if (s->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		__atomic_store_n(p, s->found + s->compare_add, __ATOMIC_RELEASE);
	else if (s->found == s->compare_add)
		__atomic_store_n(p, s->swap, __ATOMIC_RELEASE);
}

static int execute_atomic(struct sd_qp *qp, struct sd_send *s, struct sd_qp *peer)
{
	uint64_t word = 0;
	static struct sd_spans there, to, here, back;
	bool allowed = remote(&there, s, peer, sizeof(word), IBV_ACCESS_REMOTE_ATOMIC);

	s->length = sizeof(word);
	if (!allowed || s->remote_addr % sizeof(word))
		return refuse(qp, peer, allowed ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR);
	if (length_of(s->sge, s->num_sge) < sizeof(word))
		return IBV_WC_LOC_LEN_ERR;
	if (!resolve(&to, qp, qp->pd, s->sge, s->num_sge, sizeof(word), IBV_ACCESS_LOCAL_WRITE))
		return IBV_WC_LOC_PROT_ERR;
	if (there.n == 1 && there.v[0].at && !((uintptr_t)there.v[0].at % sizeof(word))) {
		change((uint64_t *)there.v[0].at, s);
	} else {
		back = there;
		take_span(&here, &word, sizeof(word));
		sd_copy(&here, &there);
		change(&word, s);
		take_span(&here, &word, sizeof(word));
		sd_copy(&back, &here);
	}
	return IBV_WC_SUCCESS;
}

/* The atomic's answer has arrived. */
static void deliver_found(struct sd_qp *qp, struct sd_send *s)
{
	static struct sd_spans to, found;

	take_span(&found, &s->found, sizeof(s->found));
	if (s->status == IBV_WC_SUCCESS &&
	    resolve(&to, qp, qp->pd, s->sge, s->num_sge, sizeof(s->found), IBV_ACCESS_LOCAL_WRITE))
		sd_copy(&to, &found);
}

/* A WRITE of an aligned word arrives whole in any case. */
static int execute_atomic_write(struct sd_qp *qp, struct sd_send *s, struct sd_qp *peer,
				uint64_t now)
{
	if (s->remote_addr % sizeof(uint64_t))
		return refuse(qp, peer, IBV_WC_REM_INV_REQ_ERR);
	return execute_write(qp, s, peer, now);
}

/* What was written before is there already. */
static int execute_flush(struct sd_qp *qp, struct sd_send *s, struct sd_qp *peer)
{
	static struct sd_spans there;

	if (!remote(&there, s, peer, s->flush_length, (int)s->flush_access))
		return refuse(qp, peer, IBV_WC_REM_ACCESS_ERR);
	return IBV_WC_SUCCESS;
}

/* Returns a completion status, or WAIT. */
static int execute(struct sd_qp *qp, struct sd_send *s, uint64_t now)
{
	int status = IBV_WC_SUCCESS;
	struct sd_qp *peer;

	s->length = 0;
	if (s->opcode == IBV_WR_BIND_MW)
		return sd_bind(qp, s);
	if (s->opcode == IBV_WR_LOCAL_INV)
		return sd_invalidate(qp, s->imm_data, false);
	if (qp->type == IBV_QPT_UD && s->remote_qpn == MULTICAST)
		return execute_multicast(qp, s, now);
	peer = peer_of(qp, s, now, &status);
	if (!peer)
		return status;
	switch ((int)s->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		return execute_send(qp, s, peer, now);
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return execute_write(qp, s, peer, now);
	case SD_WR_ATOMIC_WRITE:
		return execute_atomic_write(qp, s, peer, now);
	case IBV_WR_RDMA_READ:
		return execute_read(qp, s, peer);
	case SD_WR_FLUSH:
		return execute_flush(qp, s, peer);
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return execute_atomic(qp, s, peer);
	default:
		return IBV_WC_LOC_QP_OP_ERR;
	}
}

/* ------------------------------------------------------------------- steps */

/*
 * When the next request takes effect.  A READ does so when its answer is here: it then reads what
 * is there later than a card's, which no program can tell from a card that was slower to ask.
 */
static uint64_t effect_due(const struct sd_qp *qp)
{
	const struct sd_send *s = sd_send(qp, qp->sq_next);
	uint64_t due = s->opcode == IBV_WR_RDMA_READ ? s->done : s->effect;

	if (qp->sq_next == qp->sq_tail || qp->state != IBV_QPS_RTS || qp->stopped)
		return SD_NEVER;
	if (s->flags & IBV_SEND_FENCE && qp->sq_done != qp->sq_next)
		return SD_NEVER;
	return due > qp->retry_at ? due : qp->retry_at;
}

static uint64_t completion_due(const struct sd_qp *qp)
{
	return qp->sq_done == qp->sq_next ? SD_NEVER : sd_send(qp, qp->sq_done)->done;
}

uint64_t sd_due(const struct sd_qp *qp)
{
	uint64_t effect, done;

	if (qp->sq_done == qp->sq_tail)
		return SD_NEVER;
	effect = effect_due(qp);
	done = completion_due(qp);
	return effect < done ? effect : done;
}

static bool step_effect(struct sd_qp *qp, uint64_t now)
{
	uint32_t index = qp->sq_next;
	struct sd_send *s = sd_send(qp, index);

	qp->sq_next++; /* before: a queue pair may be its own peer, and fail */
	if (sd_fails(qp->name, (uint64_t)index << 16, 100))
		s->status = IBV_WC_LOC_PROT_ERR;
	else
		s->status = execute(qp, s, now);
	if (s->status == WAIT) {
		qp->sq_next = index;
		return false;
	}
	qp->retry_at = qp->give_up_at = qp->retries = 0;
	qp->stopped = s->status != IBV_WC_SUCCESS;
	sd_fabric->executed++;
	return true;
}

void sd_qp_finish_sent(struct sd_qp *qp, uint64_t now)
{
	while (now && qp->sq_next != qp->sq_tail && qp->state == IBV_QPS_RTS && !qp->stopped) {
		const struct sd_send *s = sd_send(qp, qp->sq_next);

		if (s->opcode == IBV_WR_RDMA_READ || s->effect > now + sd_fabric->latency ||
		    !step_effect(qp, now))
			return;
	}
}

bool sd_step(struct sd_qp *qp, uint64_t now)
{
	int status;

	if (completion_due(qp) > now)
		return effect_due(qp) <= now && step_effect(qp, now);
	status = sd_send(qp, qp->sq_done)->status;
	complete_head(qp);
	if (status != IBV_WC_SUCCESS)
		sd_qp_fail(qp);
	return true;
}
