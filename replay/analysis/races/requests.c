/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/requests.h"

#include <errno.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#include "logd/base/opcodes.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/large.h"
#include "replay/analysis/races/borders.h"
#include "replay/analysis/races/changed.h"
#include "replay/analysis/races/fetches.h"
#include "replay/analysis/races/lifetimes.h"
#include "replay/analysis/races/locks.h"
#include "replay/analysis/races/polls.h"
#include "replay/analysis/races/positions.h"

struct sr_collected_queue *sr_collect_queue(struct sr_collect *c, size_t rank, uint64_t address, bool is_ordered, uint32_t *number)
{
	uint64_t key = sr_collected_queue_key(rank, address), at;
	struct sr_collected_queue **added, *q;

	if (sr_keymap_get(&c->queue_places, key, &at)) {
		*number = (uint32_t)at;
		return c->queues[at];
	}
	added = sr_grow((void **)&c->queues, c->queues_n, &c->queues_room, sizeof(*added));
	q = added ? calloc(1, sizeof(*q)) : NULL;
	if (!q || sr_keymap_put(&c->queue_places, key, c->queues_n)) {
		free(q);
		return NULL;
	}
	sr_race_queue_init(&q->q, c->m, is_ordered);
	q->rank = rank;
	q->key = key;
	q->arrivals = SR_NO_MOMENT;
	q->last_read = SIZE_MAX;
	*added = q;
	*number = (uint32_t)c->queues_n++;
	return q;
}

/* ---------------------------------------------------------------- accesses */

static int add_access(struct sr_collect *c, struct sr_collected_request *rq, struct sr_access a)
{
	if (!c->how->group[a.owner] || a.begin >= a.end)
		return 0;
	if (!rq->accesses_n)
		rq->first_access = (uint32_t)c->m->accesses_n;
	rq->accesses_n++;
	return sr_model_access(c->m, a) ? 0 : -ENOMEM;
}

/* Did an atomic that returned this leave something else there? */
static bool changed(const struct sr_posted *p, uint64_t result)
{
	return p->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? result == p->expected : p->operand != 0;
}

static int add_remote(struct sr_collect *c, struct sr_collected_request *rq, struct sr_access a, const struct sr_posted *p)
{
	const unsigned int does = sr_op(p->opcode);
	const struct sr_race_written w = {.number = p->number,
					  .begin = p->address,
					  .end = p->address + p->length,
					  .checksum = p->pieces_n <= 1 ? p->checksum : 0,
					  .operand = p->operand,
					  .entered = p->at.entered,
					  .rank = (uint32_t)p->rank,
					  .owner = (uint32_t)p->to,
					  .queue = rq->queue,
					  .place = rq->r.place,
					  .opcode = p->opcode};
	uint64_t result = 0;
	bool has_result;

	a.owner = (uint32_t)p->to;
	a.key = p->key;
	a.begin = w.begin;
	a.end = w.end;
	a.from = rq->r.effect;
	a.until = rq->r.landing;
	a.is_relaxed = p->is_relaxed;
	a.kind = does & SR_OP_ATOMIC ? SR_ACCESS_ATOMIC : does & SR_OP_CHANGES ? SR_ACCESS_WRITE : SR_ACCESS_READ;
	if (does & SR_OP_SCATTERS)
		a.checksum = 0;
	sr_collect_note_poll(c, rq, &a);
	if (does & SR_OP_ATOMIC && !c->results->are_all && !c->finds_results) {
		c->lacks_results = true;
		return -EAGAIN;
	}
	has_result = does & SR_OP_ATOMIC && sr_keymap_get(&c->results->values, p->number, &result);
	if (does & SR_OP_CHANGES && !(has_result && !changed(p, result)) && sr_race_producers_add(c->producers, &w))
		return -ENOMEM;
	if (sr_collect_lock_request(c, p, has_result, result))
		return -ENOMEM;
	if (has_result)
		sr_race_producers_result(c->producers, p->number, result);
	return add_access(c, rq, a);
}

/* May the device read the memory again, because a packet was lost?  Unreliable connections and datagrams send once. */
static bool sends_again(uint32_t type)
{
	return type != IBV_QPT_UC && type != IBV_QPT_UD;
}

static int add_local(struct sr_collect *c, struct sr_collected_request *rq, struct sr_access a, const struct sr_posted *p)
{
	int err = 0;

	a.owner = (uint32_t)p->rank;
	a.from = rq->r.post;
	a.until = SR_NO_MOMENT;
	a.kind = sr_op(p->opcode) & SR_OP_SCATTERS ? SR_ACCESS_SCATTER : SR_ACCESS_GATHER;
	if (a.kind == SR_ACCESS_GATHER && sends_again(p->type))
		a.gathered = rq->r.effect;
	else if (a.kind == SR_ACCESS_GATHER)
		a.until = rq->r.effect;
	for (size_t i = 0; i < p->pieces_n && !err; i++) {
		a.begin = p->pieces[i].address;
		a.end = a.begin + p->pieces[i].length;
		if (a.kind == SR_ACCESS_SCATTER)
			sr_collect_overwrite_fetches(c, p->rank, a.begin, a.end);
		a.key = p->pieces[i].key;
		err = add_access(c, rq, a);
	}
	return err;
}

/* The CPU reads inline data while it posts. */
static int add_inline(struct sr_collect *c, struct sr_collected_request *rq, struct sr_access a, const struct sr_posted *p)
{
	int err = 0;

	a.owner = (uint32_t)p->rank;
	a.agent = SR_AGENT_CPU | (uint32_t)p->rank;
	a.queue = SR_NO_QUEUE;
	a.kind = SR_ACCESS_LOAD;
	for (size_t i = 0; i < p->pieces_n && !err && !c->how->no_loads; i++) {
		a.begin = p->pieces[i].address;
		a.end = a.begin + p->pieces[i].length;
		a.from = a.until = a.over = rq->r.post;
		if (c->how->group[a.owner] && !sr_model_access(c->m, a))
			err = -ENOMEM;
	}
	return err;
}

static bool is_ordered(uint32_t type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_XRC_SEND;
}

/* A request carries on what it gathered. */
static void follow_gathered(struct sr_collect *c, const struct sr_collected_rank *r, uint64_t sn, uint32_t effect)
{
	for (size_t i = 0; i < r->gathered_n && r->gathered_sn == sn; i++)
		sr_model_order(c->m, r->gathered[i].from, effect, r->gathered[i].surety, true);
}

int sr_collect_posted(void *argument, const struct sr_posted *p)
{
	struct sr_collect *c = argument;
	const uint32_t moment = sr_collect_moment(c, p->rank, &p->at, false);
	struct sr_access a = {.sn = p->at.sn,
			      .site = p->site,
			      .checksum = p->checksum,
			      .request = p->number,
			      .rank = (uint32_t)p->rank,
			      .thread = p->at.thread,
			      .over = SR_NO_MOMENT,
			      .gathered = SR_NO_MOMENT,
			      .closed = SR_NO_MOMENT,
			      .opcode = p->opcode};
	const struct sr_race_posting posting = {.opcode = p->opcode,
						.has_fence = p->flags & IBV_SEND_FENCE,
						.is_relaxed = p->is_relaxed,
						.is_in_order = p->is_in_order};
	struct sr_collected_request *rq;
	struct sr_collected_queue *q;
	uint32_t number;
	int err = 0;

	rq = sr_large_grow((void **)&c->requests, c->requests_n, &c->requests_room, sizeof(*rq));
	q = sr_collect_queue(c, p->rank, p->queue, is_ordered(p->type), &number);
	if (!rq || !q)
		return -ENOMEM;
	*rq = (struct sr_collected_request){.r = sr_race_post(&q->q, c->m, c->how->memory, moment, &posting),
			       .rank = p->rank,
			       .to = p->to,
			       .queue = number,
			       .over = SR_NO_MOMENT,
			       .begin = p->address,
			       .end = p->address + p->length,
			       .to_end = p->to_end,
			       .site = p->site,
			       .sn = p->at.sn,
			       .thread = p->at.thread,
			       .opcode = p->opcode,
			       .is_altered = sr_links_has_changed(c->how->links, p->rank, p->at.thread, p->at.sn, p->request)};
	c->requests_n++;
	c->run->requests++;
	follow_gathered(c, &c->ranks[p->rank], p->at.sn, rq->r.effect);
	a.post = rq->r.post;
	a.agent = number;
	a.queue = q->q.is_ordered ? number : SR_NO_QUEUE;
	a.place = rq->r.place;
	a.fences = rq->r.fences;
	if (sr_op(p->opcode) & SR_OP_REMOTE && p->to != SR_NO_RANK)
		err = add_remote(c, rq, a, p);
	if (!err)
		err = p->flags & IBV_SEND_INLINE ? add_inline(c, rq, a, p) : add_local(c, rq, a, p);
	return err;
}

int sr_collect_completed(void *argument, const struct sr_completed *d)
{
	struct sr_collect *c = argument;
	struct sr_collected_rank *r = &c->ranks[d->rank];
	uint32_t moment = sr_collect_moment(c, d->rank, &d->completed, false);
	struct sr_collected_request *rq;
	struct sr_fetched_bytes *f;

	if (!d->number || d->number > c->requests_n)
		return 0;
	rq = &c->requests[d->number - 1];
	if (rq->over != SR_NO_MOMENT)
		return 0;
	rq->over = moment;
	sr_race_complete(c->m, &rq->r, moment);
	r->known = d->known;
	if (rq->is_altered && sr_collect_altered(c, rq, &d->completed, moment))
		return -ENOMEM;
	if (!(sr_op(rq->opcode) & SR_OP_SCATTERS) || (rq->has_value && !rq->is_unknown && !rq->is_stored))
		return 0;
	if (!rq->has_value)
		sr_collect_await_fetch(c, d->rank, d->number);
	f = sr_grow((void **)&r->fetched, r->fetched_n, &r->fetched_room, sizeof(*f));
	if (!f)
		return -ENOMEM;
	*f = (struct sr_fetched_bytes){d->number};
	r->fetched_n++;
	return rq->to == SR_NO_RANK ? sr_collect_border(c, moment, d->rank, true, false) : 0;
}

/* ------------------------------------------------------------------ the end */

/* It fetched what may have come from anywhere. */
static bool is_value_unknown(const struct sr_collected_request *rq)
{
	return sr_op(rq->opcode) & SR_OP_SCATTERS && rq->over != SR_NO_MOMENT && rq->begin < rq->end &&
	       (!rq->has_value || rq->is_unknown);
}

void sr_collect_end_requests(struct sr_collect *c)
{
	sr_collect_end_polls(c);
	for (size_t i = 0; i < c->requests_n; i++) {
		const struct sr_collected_request *rq = &c->requests[i];

		if (is_value_unknown(rq) && sr_collect_unknown_value(c, rq->over, rq->rank))
			c->m->is_full = true;

		/* Other requests' accesses do not come between those of one. */
		for (uint32_t k = 0; k < rq->accesses_n; k++) {
			struct sr_access *a = &c->m->accesses[rq->first_access + k];
			const bool is_local = a->kind == SR_ACCESS_GATHER || a->kind == SR_ACCESS_SCATTER;

			a->over = rq->over;
			if (is_local && a->over == SR_NO_MOMENT)
				a->over = sr_collect_own_closing(c, rq);
			if (!is_local)
				a->closed = sr_collect_incoming_closing(c, rq);
			if (a->until == SR_NO_MOMENT)
				a->until = a->over;
		}
	}
}
