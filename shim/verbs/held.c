/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/held.h"

#include <string.h>

#include "logd/base/rawsys.h"
#include "logd/base/say.h"
#include "shim/verbs/posting.h"

#define LANDING_MS 1000
#define LOOK_NS    20000

/* A request with its list, and its inline data. */
struct kept {
	struct kept *next;
	const struct sr_call_desc *call;
	struct ibv_send_wr wr;
	struct ibv_sge list[];
};

static struct queue {
	struct ibv_qp *qp; /* NULL: none is held */
	struct kept *first, **end;
} queues[SR_HELD_QUEUES];

bool sr_held_any;

void sr_held_begin(int which, struct ibv_qp *qp)
{
	struct queue *h = &queues[which];

	h->first = NULL;
	h->end = &h->first;
	__atomic_store_n(&h->qp, qp, __ATOMIC_RELEASE);
	sr_held_any = true;
}

static struct queue *find(const struct ibv_qp *qp)
{
	for (int i = 0; i < SR_HELD_QUEUES; i++)
		if (__atomic_load_n(&queues[i].qp, __ATOMIC_ACQUIRE) == qp)
			return &queues[i];
	return NULL;
}

static size_t inline_bytes(const struct ibv_send_wr *wr)
{
	size_t n = 0;

	for (int i = 0; wr->send_flags & IBV_SEND_INLINE && i < wr->num_sge; i++)
		n += wr->sg_list[i].length;
	return n;
}

static struct kept *copy(const struct sr_call_desc *d, const struct ibv_send_wr *wr)
{
	const size_t list = (size_t)wr->num_sge * sizeof(struct ibv_sge);
	struct kept *k = sr_alloc(sizeof(*k) + list + inline_bytes(wr));
	char *bytes;

	if (!k)
		return NULL;
	k->next = NULL;
	k->call = d;
	k->wr = *wr;
	k->wr.next = NULL;
	k->wr.sg_list = k->list;
	memcpy(k->list, wr->sg_list, list);
	bytes = (char *)k->list + list;
	for (int i = 0; wr->send_flags & IBV_SEND_INLINE && i < wr->num_sge; i++) {
		memcpy(bytes, (const void *)(uintptr_t)k->list[i].addr, k->list[i].length);
		k->list[i].addr = (uintptr_t)bytes;
		bytes += k->list[i].length;
	}
	return k;
}

bool sr_held_keep(const struct sr_call_desc *d, struct ibv_qp *qp, const struct ibv_send_wr *chain)
{
	struct queue *h = find(qp);
	struct kept *first = NULL, **end = &first, *next;

	if (!h)
		return false;
	for (; chain; chain = chain->next) {
		*end = copy(d, chain);
		if (!*end)
			break;
		end = &(*end)->next;
	}
	if (chain) {
		/* Without memory, nothing is kept; what was before goes first. */
		for (; first; first = next) {
			next = first->next;
			sr_free(first);
		}
		return false;
	}
	*h->end = first;
	if (first)
		h->end = end;
	return true;
}

static void post(struct ibv_qp *qp, struct kept *k)
{
	struct ibv_send_wr *bad;
	int err = (int)sr_real_operation(k->call, qp->context, qp, (uintptr_t)&k->wr, &bad);

	if (err)
		sr_say("a request that was held could not be posted (%s): the program waits for it "
		       "in vain",
		       strerrorname_np(err));
}

void sr_held_release(int which)
{
	struct queue *h = &queues[which];
	struct ibv_qp *qp = __atomic_load_n(&h->qp, __ATOMIC_ACQUIRE);
	struct sr_qp *q = qp ? sr_qp_find(qp) : NULL;
	struct kept *next;

	if (!q)
		return;
	sr_wq_lock_posts(q->sq);
	if (h->qp == qp) {
		for (struct kept *k = h->first; k; k = next) {
			next = k->next;
			post(qp, k);
			sr_free(k);
		}
		h->first = NULL;
		__atomic_store_n(&h->qp, NULL, __ATOMIC_RELEASE);
	}
	sr_wq_unlock_posts(q->sq);
}

/* ------------------------------------------------------------------ landing */

/* What no clock says. */
#define NOTHING UINT64_MAX

static bool post_probe(struct sr_qp *q, volatile uint64_t *answer)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)answer, .length = sizeof(*answer), .lkey = q->clock->read_sge.lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_READ,
				 .send_flags = q->clock->fence,
				 .wr.rdma = {.remote_addr = q->clock->cells,
					     .rkey = q->clock->rkey},
				 .qp_type.xrc.remote_srqn = q->clock->shared_queue},
			   *bad;
	struct sr_wqe *wqe;
	int err;

	sr_wq_lock_posts(q->sq);
	wqe = sr_wqe_take(q->sq, 0, SR_WQE_SOURCE, NULL, 0);
	if (wqe) {
		wqe->role = SR_WQE_READER;
		wqe->stands = wqe->dropped = false;
		wqe->opcode = IBV_WC_RDMA_READ;
		wr.wr_id = (uintptr_t)wqe;
		sr_wq_append(q->sq, wqe);
		err = (int)sr_real_operation(&sr_calls[SR_CALL_post_send], q->qp->context, q->qp,
					     (uintptr_t)&wr, &bad);
		if (err)
			sr_wq_unappend(q->sq, wqe);
	}
	sr_wq_unlock_posts(q->sq);
	return wqe && !err;
}

bool sr_held_await_landing(struct ibv_qp *qp)
{
	struct sr_qp *q = sr_qp_find(qp);
	const struct timespec pause = {.tv_nsec = LOOK_NS};
	volatile uint64_t *answer;
	int64_t until = sr_sys_now_ms() + LANDING_MS;

	if (!q || !q->sq || !q->clock || !q->clock->reads || !(answer = sr_clocks_probe_word()))
		return false;
	*answer = NOTHING;
	if (!post_probe(q, answer))
		return false;
	while (*answer == NOTHING && sr_sys_now_ms() < until)
		sr_sys_nanosleep(&pause);
	return *answer != NOTHING;
}
