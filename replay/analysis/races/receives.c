/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/receives.h"

#include <errno.h>
#include <string.h>

#include "replay/analysis/log/grow.h"
#include "replay/analysis/races/arrived.h"
#include "replay/analysis/races/borders.h"
#include "replay/analysis/races/positions.h"
#include "replay/analysis/races/requests.h"

/* Receives that are over. */
#define KEPT_LEAST 256

int sr_collect_receives(void *argument, const struct sr_receives *p)
{
	struct sr_collect *c = argument;
	uint32_t number;
	struct sr_collected_queue *q = sr_collect_queue(c, p->rank, p->queue, true, &number);
	struct sr_posted_piece *piece;
	struct sr_collected_receive *v;

	if (!q)
		return -ENOMEM;
	v = sr_grow((void **)&q->receives, q->receives_n, &q->receives_room, sizeof(*v));
	if (!v)
		return -ENOMEM;
	*v = (struct sr_collected_receive){.at = p->at,
			      .site = p->site,
			      .wr_id = p->wr_id,
			      .first_piece = q->pieces_n,
			      .pieces_n = p->pieces_n,
			      .moment = sr_collect_moment(c, p->rank, &p->at, false)};
	q->receives_n++;
	q->is_shared = p->is_shared;
	for (size_t i = 0; i < p->pieces_n; i++) {
		piece = sr_grow((void **)&q->pieces, q->pieces_n, &q->pieces_room, sizeof(*piece));
		if (!piece)
			return -ENOMEM;
		*piece = p->pieces[i];
		if (sr_collect_awaits(c, p->rank, piece->address, piece->address + piece->length))
			return -ENOMEM;
		q->pieces_n++;
	}
	c->run->receives++;
	return 0;
}

/* Those in front that are over are given up, once they are more than the others. */
static void give_up(struct sr_collected_queue *q)
{
	const size_t pieces = q->first < q->receives_n ? q->receives[q->first].first_piece : q->pieces_n;

	if (q->first < KEPT_LEAST || q->first < q->receives_n - q->first)
		return;
	memmove(q->receives, q->receives + q->first, (q->receives_n - q->first) * sizeof(*q->receives));
	memmove(q->pieces, q->pieces + pieces, (q->pieces_n - pieces) * sizeof(*q->pieces));
	q->receives_n -= q->first;
	q->pieces_n -= pieces;
	q->first = 0;
	for (size_t i = 0; i < q->receives_n; i++)
		q->receives[i].first_piece -= pieces;
}

static struct sr_collected_receive *first_with(struct sr_collected_queue *q, uint64_t wr_id, bool any)
{
	while (q->first < q->receives_n && q->receives[q->first].is_over)
		q->first++;
	give_up(q);
	for (size_t i = q->first; i < q->receives_n; i++) {
		struct sr_collected_receive *v = &q->receives[i];

		if (!v->is_over && (any || v->wr_id == wr_id))
			return v;
		if (any)
			break;
	}
	return NULL;
}

/* The receive that a message came to: the next one of the queue pair, or one of a shared queue by its wr_id. */
static struct sr_collected_receive *receive_of(struct sr_collect *c, const struct sr_received *d, struct sr_collected_queue **of, uint32_t *number)
{
	struct sr_collected_receive *v;
	uint64_t at;

	if (sr_keymap_get(&c->queue_places, sr_collected_queue_key(d->rank, d->queue), &at)) {
		*of = c->queues[at];
		*number = (uint32_t)at;
		v = first_with(*of, d->wr_id, true);
		if (v)
			return d->is_next || v->wr_id == d->wr_id ? v : NULL;
	}
	for (size_t i = 0; i < c->queues_n; i++) {
		*of = c->queues[i];
		*number = (uint32_t)i;
		if ((*of)->rank != d->rank || !(*of)->is_shared)
			continue;
		v = first_with(*of, d->wr_id, false);
		if (v)
			return v;
	}
	return NULL;
}

/* A message takes a receive of the shared queue of this number, as others do. */
static int add_message(struct sr_collect *c, const struct sr_received *d, uint32_t number)
{
	const struct sr_collected_request *sent = &c->requests[d->number - 1];
	const struct sr_race_queue *q = &c->queues[sent->queue]->q;

	/* Where no memory is. */
	return sr_model_access(c->m, (struct sr_access){.begin = number,
							.end = number + 1,
							.sn = sent->sn,
							.site = sent->site,
							.request = d->number,
							.owner = (uint32_t)d->rank,
							.rank = (uint32_t)sent->rank,
							.thread = sent->thread,
							.agent = sent->queue,
							.queue = q->is_ordered ? sent->queue : SR_NO_QUEUE,
							.place = sent->r.place,
							.fences = sent->r.fences,
							.from = sent->r.effect,
							.until = sent->r.effect,
							.over = sent->over,
							.gathered = SR_NO_MOMENT,
							.closed = SR_NO_MOMENT,
							.kind = SR_ACCESS_MESSAGE,
							.opcode = sent->opcode})
		       ? 0
		       : -ENOMEM;
}

/*
 * The message is there once it was sent and the receive was posted.  (It waits for that; what the receiver did before it posted
 * the receive is over, however long ago the message was sent.)  One of a shared queue may take another receive in another run.
 */
static uint32_t arrive(struct sr_collect *c, struct sr_collected_queue *q, const struct sr_collected_receive *v,
		       const struct sr_collected_request *sent)
{
	uint32_t at;

	if (q->arrivals == SR_NO_MOMENT)
		q->arrivals = sr_model_lane(c->m, q->is_shared);
	at = sr_model_moment(c->m, q->arrivals);
	sr_model_order(c->m, v->moment, at, SR_SURE, false);
	sr_model_order(c->m, sent->r.effect, at, SR_SURE, false);
	return at;
}

static int add_received(struct sr_collect *c, const struct sr_received *d, uint32_t moment)
{
	const struct sr_collected_request *sent = d->number ? &c->requests[d->number - 1] : NULL;
	uint64_t left = d->length;
	uint32_t number = 0;
	struct sr_collected_queue *q = NULL;
	struct sr_collected_receive *v = receive_of(c, d, &q, &number);
	uint32_t from, sender;

	if (!v)
		return 0;
	sender = sent && c->queues[sent->queue]->q.is_ordered ? sent->queue : SR_NO_QUEUE;
	v->is_over = true;
	from = sent ? arrive(c, q, v, sent) : v->moment;
	if (c->how->messages && q->is_shared && d->number && c->how->group[d->rank] && add_message(c, d, number))
		return -ENOMEM;
	for (size_t i = 0; i < v->pieces_n && left; i++) {
		const struct sr_posted_piece *p = &q->pieces[v->first_piece + i];
		uint64_t n = p->length < left ? p->length : left;

		left -= n;
		if (sr_collect_arrived(c, d->rank, p->address, p->address + n))
			return -ENOMEM;
		if (c->how->group[d->rank] && !sr_model_access(c->m, (struct sr_access){.begin = p->address,
							      .key = p->key,
							      .end = p->address + n,
							      .sn = v->at.sn,
							      .site = v->site,
							      .request = d->number,
							      .owner = (uint32_t)d->rank,
							      .rank = (uint32_t)d->rank,
							      .thread = v->at.thread,
							      .agent = (q->is_shared ? SR_AGENT_SHARED : SR_AGENT_RECEIVE) | number,
							      .queue = SR_NO_QUEUE,
							      .sender = sender,
							      .from = from,
							      .until = moment,
							      .over = moment,
							      .gathered = SR_NO_MOMENT,
							      .closed = SR_NO_MOMENT,
							      .doubts = sent ? 0 : SR_DOUBT_OUTSIDE,
							      .kind = SR_ACCESS_RECV}))
			return -ENOMEM;
	}
	return 0;
}

int sr_collect_received(void *argument, const struct sr_received *d)
{
	struct sr_collect *c = argument;
	uint32_t moment = sr_collect_moment(c, d->rank, &d->at, false);

	if (d->number && d->number <= c->requests_n) {
		sr_race_receive(c->m, &c->requests[d->number - 1].r, moment);
	} else {
		c->ranks[d->rank].has_unknown = true;
		if (sr_collect_border(c, moment, d->rank, true, false))
			return -ENOMEM;
	}
	return add_received(c, d, moment);
}
