/* SPDX-License-Identifier: BSD-2-Clause */
/* cq.c: completion queues. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "events.h"
#include "local.h"

#define MAX_CQE (1u << 20)

static struct sd_cqe *ring(const struct sd_cq *c)
{
	return sd_at(c->ring);
}

static void send_event(struct sd_cq *c)
{
	c->armed = SD_ARMED_NOT;
	if (c->channel)
		sd_channel_push(c->channel, (uint64_t)(c - sd_fabric->cqs) + 1);
}

/* The last completion is reported by a queue that is armed for at least this. */
static void report(struct sd_cq *c, enum sd_armed least)
{
	if (c->armed >= least)
		send_event(c);
	else
		for (enum sd_armed a = least; a <= SD_ARMED_ANY; a++)
			c->missed[a] = c->tail;
}

/* Did one come unreported that has not been polled either? */
static bool has_missed(const struct sd_cq *c, enum sd_armed armed)
{
	return !sd_fabric->reports_later_only && c->head != c->tail && (int32_t)(c->missed[armed] - c->head) > 0;
}

void sd_cq_push(struct sd_cq *c, const struct sd_cqe *cqe)
{
	if (!c)
		return;
	if (c->tail - c->head == c->size) {
		/* Overrun: the program asked for too few. */
		if (!c->overrun)
			sd_async(c->async, IBV_EVENT_CQ_ERR, (uint32_t)(c - sd_fabric->cqs));
		c->overrun = true;
		return;
	}
	ring(c)[c->tail % c->size] = *cqe;
	/* Polls look at the tail without the lock. */
	__atomic_store_n(&c->tail, c->tail + 1, __ATOMIC_RELEASE);
	report(c, !cqe->solicited && cqe->wc.status == IBV_WC_SUCCESS ? SD_ARMED_ANY : SD_ARMED_SOLICITED);
}

/* ------------------------------------------------------------------ polls */

static void free_up_to(uint32_t *freed, uint32_t index)
{
	/* Completions from before a reset do not belong to today's slots. */
	if ((int32_t)(index + 1 - *freed) > 0)
		*freed = index + 1;
}

static void free_slot(const struct sd_cqe *cqe)
{
	struct sd_srq *srq = cqe->srqn ? sd_srq_find(cqe->srqn) : NULL;
	struct sd_qp *qp = sd_qp_find(cqe->wc.qp_num);

	if (srq)
		srq->rq.freed++; /* in any order */
	else if (qp && !cqe->srqn)
		free_up_to(cqe->sent ? &qp->sq_freed : &qp->rq.freed, cqe->index);
}

void sd_cq_forget(struct sd_cq *c, uint32_t qpn)
{
	uint32_t kept;

	if (!c)
		return;
	kept = c->head;
	for (uint32_t i = c->head; i != c->tail; i++) {
		const struct sd_cqe *cqe = &ring(c)[i % c->size];

		if (cqe->wc.qp_num != qpn)
			ring(c)[kept++ % c->size] = *cqe;
		else
			free_slot(cqe);
	}
	__atomic_store_n(&c->tail, kept, __ATOMIC_RELEASE);
}

static bool is_empty(const struct sd_cq *c)
{
	return __atomic_load_n(&c->tail, __ATOMIC_ACQUIRE) == c->head;
}

/* A poll that finds nothing, and before whose time nothing can happen, takes no lock. */
static bool has_work(const struct sd_cq *c, uint64_t *now)
{
	const struct sd_fabric *f = sd_fabric;

	*now = 0;
	if (__atomic_load_n(&f->active, __ATOMIC_RELAXED)) {
		*now = sd_now();
		if (f->random_state || *now >= __atomic_load_n(&f->next_due, __ATOMIC_RELAXED))
			return true;
	}
	return !is_empty(c);
}

int sd_poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	struct sd_cq *c = ((struct sd_local_cq *)cq)->shared;
	uint64_t now;
	int n = 0;

	if (!has_work(c, &now))
		return 0;
	sd_lock();
	sd_progress(now);
	for (; n < room && c->head != c->tail; n++) {
		struct sd_cqe *cqe = &ring(c)[c->head++ % c->size];

		wc[n] = cqe->wc;
		free_slot(cqe);
	}
	sd_unlock();
	return n;
}

int sd_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct sd_cq *c = ((struct sd_local_cq *)cq)->shared;

	sd_lock();
	c->armed = solicited_only ? SD_ARMED_SOLICITED : SD_ARMED_ANY;
	/* Cards of Mellanox do so: a program may poll first, and then arm. */
	if (has_missed(c, c->armed))
		send_event(c);
	/* The program may sleep now and would not poll. */
	if (sd_fabric->random_state && !sd_has_driver)
		sd_finish();
	sd_unlock();
	return 0;
}

/* ----------------------------------------------------------- creation, end */

static bool fill(struct sd_local_cq *local, uint32_t cqe)
{
	uint64_t pages;

	sd_lock();
	pages = sd_pages_take(cqe * sizeof(struct sd_cqe));
	local->index_1 = pages ? SD_TAKE(cqs, cq_use, SD_MAX_CQ) : 0;
	if (local->index_1) {
		struct sd_cq *c = local->shared = sd_cq(local->index_1);

		c->ring = pages;
		c->size = cqe;
		c->object = (uintptr_t)&local->cq;
		c->async = sd_context(local->cq.context)->async;
		if (local->cq.channel)
			c->channel = ((struct sd_local_channel *)local->cq.channel)->index_1;
	} else {
		sd_pages_give(pages, cqe * sizeof(struct sd_cqe));
	}
	sd_unlock();
	return local->index_1;
}

static struct sd_local_cq *new_cq(struct ibv_context *context, uint32_t cqe, void *cq_context,
				  struct ibv_comp_channel *channel)
{
	struct sd_local_cq *c;

	if (!cqe || cqe > MAX_CQE)
		return sd_refuse(EINVAL);
	c = calloc(1, sizeof(*c));
	if (!c)
		return sd_refuse(ENOMEM);
	c->cq.context = context;
	c->cq.channel = channel;
	c->cq.cq_context = cq_context;
	c->cq.cqe = (int)cqe;
	pthread_mutex_init(&c->cq.mutex, NULL);
	pthread_cond_init(&c->cq.cond, NULL);
	if (!fill(c, cqe)) {
		free(c);
		return sd_refuse(ENOMEM);
	}
	c->doorbell =
	    mmap(NULL, SD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	c->cq.handle = c->index_1;
	if (channel)
		channel->refcnt++;
	return c;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct sd_local_cq *c;

	if (comp_vector < 0 || comp_vector >= context->num_comp_vectors)
		return sd_refuse(EINVAL);
	c = new_cq(context, cqe < 0 ? 0 : (uint32_t)cqe, cq_context, channel);
	return c ? &c->cq : NULL;
}

struct ibv_cq_ex *sd_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct sd_local_cq *c;

	if (attr->comp_vector >= (uint32_t)context->num_comp_vectors)
		return sd_refuse(EINVAL);
	if (attr->wc_flags & ~(uint64_t)IBV_CREATE_CQ_SUP_WC_FLAGS)
		return sd_refuse(EOPNOTSUPP);
	c = new_cq(context, attr->cqe, attr->cq_context, attr->channel);
	if (!c)
		return NULL;
	sd_cq_add_readers(c, attr->wc_flags);
	return &c->ex;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	struct sd_local_cq *local = (struct sd_local_cq *)cq;
	struct sd_cq *c = local->shared;
	uint64_t pages = 0;
	uint32_t n;
	int err;

	if (cqe <= 0 || (uint32_t)cqe > MAX_CQE)
		return EINVAL;
	sd_lock();
	n = c->tail - c->head;
	err = n > (uint32_t)cqe ? EINVAL : 0;
	if (!err)
		pages = sd_pages_take((uint64_t)cqe * sizeof(struct sd_cqe));
	if (!err && !pages)
		err = ENOMEM;
	if (!err) {
		for (uint32_t i = 0; i < n; i++)
			((struct sd_cqe *)sd_at(pages))[i] = ring(c)[(c->head + i) % c->size];
		sd_pages_give(c->ring, c->size * sizeof(struct sd_cqe));
		c->ring = pages;
		c->size = (uint32_t)cqe;
		c->head = 0;
		c->tail = n;
		cq->cqe = cqe;
	}
	sd_unlock();
	return err;
}

void sd_cq_remove(struct sd_cq *c)
{
	sd_pages_give(c->ring, c->size * sizeof(struct sd_cqe));
	c->process = 0;
	sd_give_entry(&sd_fabric->cq_use.low, (uint32_t)(c - sd_fabric->cqs) + 1);
}

static bool is_of_cq(uint64_t event, uint32_t index)
{
	return event == index + 1u;
}

static bool is_error_of_cq(uint64_t event, uint32_t index)
{
	return event == ((uint64_t)IBV_EVENT_CQ_ERR << 32 | index);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct sd_local_cq *local = (struct sd_local_cq *)cq;
	struct sd_cq *c = local->shared;
	bool busy;

	sd_lock();
	busy = c->users > 0;
	if (!busy && cq->channel) {
		sd_channel_drop(c->channel, cq->channel->fd, is_of_cq, local->index_1 - 1);
		cq->channel->refcnt--;
	}
	if (!busy) {
		sd_channel_drop(c->async, cq->context->async_fd, is_error_of_cq,
				local->index_1 - 1);
		sd_cq_remove(c);
	}
	sd_unlock();
	if (busy)
		return EBUSY;
	sd_await_acks(&cq->mutex, &cq->cond, &cq->comp_events_completed, &local->events_taken);
	munmap(local->doorbell, SD_PAGE);
	free(local);
	return 0;
}
