/* SPDX-License-Identifier: BSD-2-Clause */
/* channels.c: what a program takes of completion channels and asynchronous events. */
#include <errno.h>
#include <stdlib.h>

#include "events.h"
#include "local.h"

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct sd_local_channel *c = calloc(1, sizeof(*c));

	if (!c)
		return sd_refuse(ENOMEM);
	c->channel.context = context;
	c->channel.fd = sd_channel_open(&c->index_1);
	if (c->channel.fd < 0) {
		free(c);
		return sd_refuse(ENOMEM);
	}
	return &c->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct sd_local_channel *c = (struct sd_local_channel *)channel;

	if (channel->refcnt)
		return EBUSY;
	sd_channel_close(c->index_1, channel->fd);
	free(c);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct sd_local_cq *got;
	uint64_t index_1;

	if (sd_channel_take(((struct sd_local_channel *)channel)->index_1, channel->fd, &index_1))
		return -1;
	got = (struct sd_local_cq *)(uintptr_t)sd_cq((uint32_t)index_1)->object;
	__atomic_add_fetch(&got->events_taken, 1, __ATOMIC_RELAXED);
	*cq = &got->cq;
	*cq_context = got->cq.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/* --------------------------------------------------------- asynchronous */

static void name_element(struct ibv_async_event *event, uint32_t index)
{
	struct sd_fabric *f = sd_fabric;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		event->element.cq = (struct ibv_cq *)(uintptr_t)f->cqs[index].object;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		event->element.srq = (struct ibv_srq *)(uintptr_t)f->srqs[index].object;
		__atomic_add_fetch(&((struct sd_local_srq *)event->element.srq)->events_taken, 1,
				   __ATOMIC_RELAXED);
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		event->element.port_num = 1;
		break;
	default:
		event->element.qp = (struct ibv_qp *)(uintptr_t)f->qps[index].object;
		__atomic_add_fetch(&((struct sd_local_qp *)event->element.qp)->events_taken, 1,
				   __ATOMIC_RELAXED);
		break;
	}
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	uint64_t got;

	if (sd_channel_take(sd_context(context)->async, context->async_fd, &got))
		return -1;
	event->event_type = (enum ibv_event_type)(got >> 32);
	name_element(event, (uint32_t)got);
	return 0;
}

static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *count)
{
	pthread_mutex_lock(mutex);
	++*count;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_srq *srq = event->element.srq;
	struct ibv_qp *qp = event->element.qp;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		return;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		acknowledge(&srq->mutex, &srq->cond, &srq->events_completed);
		return;
	default:
		acknowledge(&qp->mutex, &qp->cond, &qp->events_completed);
	}
}

void sd_await_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acknowledged,
		   const uint32_t *taken)
{
	pthread_mutex_lock(mutex);
	while (*acknowledged != __atomic_load_n(taken, __ATOMIC_RELAXED))
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}
