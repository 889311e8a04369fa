/* SPDX-License-Identifier: BSD-2-Clause */
/* srq.c: shared receive queues. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "local.h"
#include "rq.h"

/*
 * A number is not used again at once: completions of a queue that was destroyed may still be in a
 * completion queue, and free no slot of the one that has its place.
 */
static uint32_t new_number(uint32_t index_1)
{
	return (++sd_fabric->srq_uses[index_1 - 1] % 4096u) * SD_MAX_SRQ + index_1;
}

struct sd_srq *sd_srq_find(uint32_t number)
{
	struct sd_srq *s = &sd_fabric->srqs[(number - 1) % SD_MAX_SRQ];

	return number && s->process && s->rq.srqn == number ? s : NULL;
}

static uint32_t stride_of(uint32_t max_sge)
{
	return (uint32_t)(sizeof(struct sd_recv) + max_sge * sizeof(struct ibv_sge));
}

bool sd_rq_make(struct sd_rq *rq, uint32_t max_wr, uint32_t max_sge)
{
	*rq = (struct sd_rq){.size = max_wr, .max_sge = max_sge, .stride = stride_of(max_sge)};
	if (!max_wr)
		return true;
	rq->ring = sd_pages_take((uint64_t)max_wr * rq->stride);
	return rq->ring;
}

void sd_rq_end(struct sd_rq *rq)
{
	sd_pages_give(rq->ring, (uint64_t)rq->size * rq->stride);
	rq->ring = 0;
}

static bool fill(struct sd_local_srq *local, const struct ibv_srq_init_attr_ex *attr)
{
	sd_lock();
	local->index_1 = SD_TAKE(srqs, srq_use, SD_MAX_SRQ);
	if (local->index_1) {
		struct sd_srq *s = local->shared = &sd_fabric->srqs[local->index_1 - 1];

		s->object = (uintptr_t)&local->srq;
		s->name = (uintptr_t)attr->srq_context;
		s->pd = sd_pd_number(local->srq.pd);
		s->async = sd_context(local->srq.context)->async;
		s->limit = attr->attr.srq_limit;
		if (attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ)
			s->cq = ((struct sd_local_cq *)attr->cq)->index_1;
		if (sd_rq_make(&s->rq, attr->attr.max_wr, attr->attr.max_sge)) {
			s->rq.srqn = new_number(local->index_1);
		} else {
			sd_srq_remove(s);
			local->index_1 = 0;
		}
	}
	sd_unlock();
	return local->index_1;
}

struct ibv_srq *sd_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct sd_local_srq *local;

	if (!attr->attr.max_wr || attr->attr.max_wr > SD_MAX_WR || attr->attr.max_sge > SD_MAX_SGE)
		return sd_refuse(EINVAL);
	local = calloc(1, sizeof(*local));
	if (!local)
		return sd_refuse(ENOMEM);
	local->srq.context = context;
	local->srq.srq_context = attr->srq_context;
	local->srq.pd = attr->comp_mask & IBV_SRQ_INIT_ATTR_PD ? attr->pd : NULL;
	pthread_mutex_init(&local->srq.mutex, NULL);
	pthread_cond_init(&local->srq.cond, NULL);
	if (!fill(local, attr)) {
		free(local);
		return sd_refuse(ENOMEM);
	}
	local->srq.handle = local->index_1;
	return &local->srq;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {
	    .srq_context = attr->srq_context,
	    .attr = attr->attr,
	    .comp_mask = IBV_SRQ_INIT_ATTR_PD,
	    .pd = pd,
	};

	return sd_create_srq_ex(pd->context, &ex);
}

int sd_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	*number = ((struct sd_local_srq *)srq)->shared->rq.srqn;
	return 0;
}

/* What is posted moves to a ring of another size. */
static int resize(struct sd_rq *rq, uint32_t size)
{
	struct sd_rq larger;
	uint32_t n = rq->tail - rq->head;

	if (size > SD_MAX_WR || size < n || !size)
		return EINVAL;
	if (!sd_rq_make(&larger, size, rq->max_sge))
		return ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		memcpy(sd_recv(&larger, i), sd_recv(rq, rq->head + i), rq->stride);
	larger.tail = n;
	/* Those that were received and are not polled yet still have their slots. */
	larger.freed = rq->freed - rq->head;
	larger.srqn = rq->srqn;
	larger.asked = rq->asked;
	sd_rq_end(rq);
	*rq = larger;
	return 0;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct sd_srq *s = ((struct sd_local_srq *)srq)->shared;
	int err = 0;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return EINVAL;
	sd_lock();
	if (mask & IBV_SRQ_LIMIT &&
	    attr->srq_limit > (mask & IBV_SRQ_MAX_WR ? attr->max_wr : s->rq.size))
		err = EINVAL;
	if (!err && mask & IBV_SRQ_MAX_WR)
		err = resize(&s->rq, attr->max_wr);
	if (!err && mask & IBV_SRQ_LIMIT)
		s->limit = attr->srq_limit;
	sd_unlock();
	return err;
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct sd_srq *s = ((struct sd_local_srq *)srq)->shared;

	*attr = (struct ibv_srq_attr){s->rq.size, s->rq.max_sge, s->limit};
	return 0;
}

void sd_srq_remove(struct sd_srq *s)
{
	sd_rq_end(&s->rq);
	s->process = 0;
	sd_give_entry(&sd_fabric->srq_use.low, (uint32_t)(s - sd_fabric->srqs) + 1);
}

static bool is_of_srq(uint64_t event, uint32_t index)
{
	return event == ((uint64_t)IBV_EVENT_SRQ_LIMIT_REACHED << 32 | index);
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct sd_local_srq *local = (struct sd_local_srq *)srq;
	bool busy;

	sd_lock();
	busy = local->shared->users;
	if (!busy) {
		sd_channel_drop(local->shared->async, srq->context->async_fd, is_of_srq,
				local->index_1 - 1);
		sd_srq_remove(local->shared);
	}
	sd_unlock();
	if (busy)
		return EBUSY;
	sd_await_acks(&srq->mutex, &srq->cond, &srq->events_completed, &local->events_taken);
	free(local);
	return 0;
}
