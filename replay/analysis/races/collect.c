/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/collect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/opcodes.h"
#include "logd/trace/read_trace.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/keymap.h"
#include "replay/analysis/process/process.h"
#include "replay/analysis/races/producers.h"
#include "replay/analysis/races/sockets.h"
#include "replay/analysis/races/stores.h"
#include "sreplay/trace.h"

/* A request of any rank. */
struct request {
	struct sr_race_request r;
	size_t rank, to;
	uint32_t queue, over;
	uint32_t first_access, accesses_n;
	uint64_t entered; /* step of its rank at which it was posted */
	uint8_t opcode;
	bool is_unknown; /* not all are known that can have left what it fetched */
	bool has_value;  /* the trace has it */
	bool is_stored;  /* a store of the memory's owner may have */
};

/* A receive that was posted. */
struct receive {
	struct sr_position at;
	uint64_t site, wr_id;
	size_t first_piece, pieces_n; /* in struct queue */
	uint32_t moment;
	bool is_over;
};

/* A queue pair, or a shared receive queue. */
struct queue {
	struct sr_race_queue q;
	struct receive *receives;
	size_t first, receives_n, receives_room;
	struct sr_posted_piece *pieces;
	size_t pieces_n, pieces_room;
	bool is_shared;
	size_t rank;
	size_t last_read; /* its access */
};

/* An event of a rank's clock. */
struct event {
	uint32_t moment, before; /* before: the rank's moment before that one */
	size_t first_request;
};

/* An order on what a rank's CPU stored until the event after this one: known at the end. */
struct stored_order {
	size_t of_rank;
	size_t event; /* in its events */
	uint32_t to;
	enum sr_surety surety;
	bool is_read;
};

/* What a call's requests gather came from there. */
struct gathered {
	uint32_t from;
	enum sr_surety surety;
};

/* A READ or an atomic whose bytes may have come from several places. */
struct fetched {
	uint32_t effect;
	size_t owner; /* if they can only be its CPU's, but for known requests; else SR_NO_RANK */
};

/* What a rank found in others' clocks at its position. */
struct clocked {
	size_t of_rank;
	uint64_t of;
	bool is_by_post;
};

struct rank {
	uint32_t lane;
	struct sr_position at;
	uint32_t moment; /* where the rank is; SR_NO_MOMENT: nothing has happened yet */
	uint32_t before; /* its moment before that one */
	bool is_load;    /* the moment is a load's, not a call's */
	/* Of the position: */
	uint32_t call, load; /* its moments */
	struct clocked *clocked;
	size_t clocked_n, clocked_room;
	bool is_uncertain;    /* a load may have got what it found from several requests */
	bool has_unknown;     /* a message of an unknown sender */
	struct fetched *fetched; /* that ended */
	size_t fetched_n, fetched_room;
	/* Of the requests that are posted next: */
	struct gathered *gathered;
	size_t gathered_n, gathered_room;
	uint64_t gathered_sn;
	/* Of all: */
	struct sr_keymap event_places;
	struct event *events;
	size_t events_n, events_room;
	bool has_outside; /* a queue pair leads to a rank that was not recorded */
};

struct collect {
	struct sr_race_run *run;
	const struct sr_race_collecting *how;
	struct sr_race_model *m;
	struct rank *ranks;
	struct request *requests; /* by number - 1 */
	size_t requests_n, requests_room;
	struct queue **queues;
	size_t queues_n, queues_room;
	struct sr_keymap queue_places;
	struct sr_race_producers *producers;
	struct sr_race_sockets sockets;
	struct stored_order *stored;
	size_t stored_n, stored_room;
	struct sr_keymap polled; /* memory that READs poll */
	struct sr_keymap results; /* what atomics returned, by their number */
};

/* ------------------------------------------------------------------ moments */

/* If nothing says that it was a post's, the order is on all that the CPU has stored until the next event. */
static void order(struct collect *c, const struct clocked *k, uint32_t from, size_t event, uint32_t to,
		  enum sr_surety surety, bool is_read)
{
	struct stored_order *s;

	sr_model_order(c->m, from, to, surety, is_read);
	if (k->is_by_post || !c->how->stores)
		return;
	s = sr_grow((void **)&c->stored, c->stored_n, &c->stored_room, sizeof(*s));
	if (!s) {
		c->m->is_full = true;
		return;
	}
	*s = (struct stored_order){k->of_rank, event, to, surety, is_read};
	c->stored_n++;
}

static void follow_stored(struct collect *c)
{
	for (size_t i = 0; i < c->stored_n; i++) {
		const struct stored_order *s = &c->stored[i];
		const struct rank *r = &c->ranks[s->of_rank];
		bool is_last = s->event + 1 == r->events_n;

		sr_model_order(c->m, is_last ? c->m->lanes[r->lane].last : r->events[s->event + 1].before, s->to,
			       s->surety, s->is_read);
	}
}

static void follow_clock(struct collect *c, struct rank *r, const struct clocked *k, uint32_t from, size_t event)
{
	const uint32_t reader = r->load != SR_NO_MOMENT ? r->load : r->call;

	order(c, k, from, event, reader, SR_SEEN, r->load != SR_NO_MOMENT);
	if (r->is_uncertain)
		order(c, k, from, event, r->load, SR_DOUBTFUL, true);
	if (r->has_unknown)
		order(c, k, from, event, r->call, SR_DOUBTFUL, false);
	/* The clock was read a moment after what was fetched, so the order to that may be dropped again. */
	for (size_t f = 0; f < r->fetched_n; f++) {
		if (r->fetched[f].owner != SR_NO_RANK && r->fetched[f].owner != k->of_rank)
			continue;
		order(c, k, from, event, r->fetched[f].effect, SR_DOUBTFUL, true);
		order(c, k, from, event, r->call, SR_DOUBTFUL, false);
	}
}

static void follow_clocks(struct collect *c, struct rank *r, const struct clocked *k)
{
	const struct rank *other = &c->ranks[k->of_rank];
	const struct event *e;
	uint32_t from[64];
	size_t n = 0;
	uint64_t at;

	if (!sr_keymap_get(&other->event_places, k->of, &at))
		return;
	e = &other->events[at];
	from[n++] = e->moment;
	/* What was posted there may have been seen. */
	for (size_t i = e->first_request; k->is_by_post && i < c->requests_n && n < 64; i++) {
		const struct request *q = &c->requests[i];

		if (q->rank != k->of_rank || q->r.post != e->moment)
			break;
		if (q->to == (size_t)(r - c->ranks))
			from[n++] = q->r.landing;
	}
	for (size_t i = 0; i < n; i++)
		follow_clock(c, r, k, from[i], at);
}

/* The rank goes on to another position: what it found in clocks at this one is known now. */
static void finish_position(struct collect *c, struct rank *r)
{
	for (size_t i = 0; i < r->clocked_n; i++)
		follow_clocks(c, r, &r->clocked[i]);
	r->clocked_n = r->fetched_n = 0;
	r->is_uncertain = r->has_unknown = false;
	r->call = r->load = SR_NO_MOMENT;
}

static bool is_same(const struct sr_position *a, const struct sr_position *b)
{
	return a->thread == b->thread && a->sn == b->sn && a->fault == b->fault;
}

static int add_border(struct collect *c, uint32_t moment, size_t rank, bool is_entry, bool is_socket)
{
	struct sr_race_run *run = c->run;
	struct sr_race_border *b =
		sr_grow((void **)&run->borders, run->borders_n, &run->borders_room, sizeof(*b));

	if (!b)
		return -ENOMEM;
	*b = (struct sr_race_border){
	    .moment = moment, .rank = (uint32_t)rank, .is_entry = is_entry, .is_socket = is_socket};
	run->borders_n++;
	return 0;
}

/* What the thread stored up to there: together, as late as it can have been. */
static void take_stores(struct collect *c, size_t rank, uint32_t thread, uint64_t sn, uint32_t fault)
{
	const struct sr_race_store *s;
	uint32_t moment = SR_NO_MOMENT;

	while (c->how->stores && (s = sr_race_stores_due(c->how->stores, (uint32_t)rank, thread, sn, fault))) {
		if (moment == SR_NO_MOMENT)
			moment = sr_model_moment(c->m, c->ranks[rank].lane);
		c->run->stores++;
		if (c->how->group[rank])
			sr_model_access(c->m, (struct sr_access){.begin = s->address,
								 .end = s->address + s->length,
								 .sn = s->sn,
								 .owner = (uint32_t)rank,
								 .rank = (uint32_t)rank,
								 .thread = thread,
								 .agent = SR_AGENT_CPU | (uint32_t)rank,
								 .queue = SR_NO_QUEUE,
								 .from = moment,
								 .until = moment,
								 .over = moment,
								 .gathered = SR_NO_MOMENT,
								 .kind = SR_ACCESS_STORE,
								 .doubts = c->how->stores->doubts[rank]});
	}
}

/* What the thread read from and wrote to sockets before this call. */
static void take_sockets(struct collect *c, size_t rank, uint32_t thread, uint64_t sn)
{
	struct sr_socket_use *u;

	while ((u = sr_race_sockets_due(&c->sockets, (uint32_t)rank, thread, sn))) {
		take_stores(c, rank, thread, u->sn, 0);
		u->moment = sr_model_moment(c->m, c->ranks[rank].lane);
		if (!u->is_linked && add_border(c, u->moment, rank, !u->is_write, true))
			c->m->is_full = true;
	}
}

/* The moment of a rank's call, or of its load. */
static uint32_t moment_at(struct collect *c, size_t rank, const struct sr_position *at, bool is_load)
{
	struct rank *r = &c->ranks[rank];

	if (r->moment != SR_NO_MOMENT && is_same(&r->at, at) && r->is_load == is_load)
		return r->moment;
	if (r->moment != SR_NO_MOMENT && !is_same(&r->at, at))
		finish_position(c, r);
	take_sockets(c, rank, at->thread, at->fault ? at->sn + 1 : at->sn);
	take_stores(c, rank, at->thread, at->sn, at->fault);
	r->at = *at;
	r->is_load = is_load;
	r->before = c->m->lanes[r->lane].last;
	r->moment = sr_model_moment(c->m, r->lane);
	*(is_load ? &r->load : &r->call) = r->moment;
	return r->moment;
}

static int take_clocked(void *argument, const struct sr_clocked *k)
{
	struct collect *c = argument;
	struct rank *r = &c->ranks[k->rank];
	uint32_t moment = moment_at(c, k->rank, &k->at, r->is_load && is_same(&r->at, &k->at));
	struct clocked *added;
	struct event *e;

	if (k->of_rank == SR_NO_RANK) {
		e = sr_grow((void **)&r->events, r->events_n, &r->events_room, sizeof(*e));
		if (!e || sr_keymap_put(&r->event_places, k->event, r->events_n))
			return -ENOMEM;
		*e = (struct event){moment, r->before, c->requests_n};
		r->events_n++;
		return 0;
	}
	added = sr_grow((void **)&r->clocked, r->clocked_n, &r->clocked_room, sizeof(*added));
	if (!added)
		return -ENOMEM;
	*added = (struct clocked){k->of_rank, k->of, k->is_by_post};
	r->clocked_n++;
	return 0;
}

/* ------------------------------------------------------------------- queues */

static struct queue *queue_of(struct collect *c, size_t rank, uint64_t address, bool is_ordered, uint32_t *number)
{
	uint64_t key = address ^ (uint64_t)(rank + 1) << 50, at;
	struct queue **added, *q;

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
	q->last_read = SIZE_MAX;
	*added = q;
	*number = (uint32_t)c->queues_n++;
	return q;
}

/* ----------------------------------------------------------------- requests */

static int add_access(struct collect *c, struct request *rq, struct sr_access a)
{
	if (!c->how->group[a.owner] || a.begin >= a.end)
		return 0;
	if (!rq->accesses_n)
		rq->first_access = (uint32_t)c->m->accesses_n;
	rq->accesses_n++;
	return sr_model_access(c->m, a) ? 0 : -ENOMEM;
}

static uint64_t polled_key(const struct sr_access *a)
{
	return a->begin * 0x10001 + a->owner;
}

/* READs of the same bytes one after another wait for them to change: these bytes are a flag. */
static void note_poll(struct collect *c, struct queue *q, struct sr_access *a)
{
	struct sr_access *before = q->last_read < c->m->accesses_n ? &c->m->accesses[q->last_read] : NULL;

	if (a->kind != SR_ACCESS_READ || !c->how->group[a->owner])
		return;
	if (before && before->owner == a->owner && before->begin == a->begin && before->end == a->end &&
	    before->place + 1 == a->place && sr_keymap_put(&c->polled, polled_key(a), 1))
		c->m->is_full = true;
	q->last_read = c->m->accesses_n;
}

/* Did an atomic that returned this leave something else there? */
static bool changed(const struct sr_posted *p, uint64_t result)
{
	return p->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? result == p->expected : p->operand != 0;
}

static int add_remote(struct collect *c, struct request *rq, struct sr_access a, const struct sr_posted *p)
{
	const unsigned int does = sr_op(p->opcode);
	const struct sr_race_written w = {.number = p->number,
					  .begin = p->address,
					  .end = p->address + p->length,
					  .checksum = p->pieces_n <= 1 ? p->checksum : 0,
					  .operand = p->operand,
					  .owner = (uint32_t)p->to,
					  .queue = rq->queue,
					  .place = rq->r.place,
					  .opcode = p->opcode};
	uint64_t result = 0;
	bool has_result;

	a.owner = (uint32_t)p->to;
	a.begin = w.begin;
	a.end = w.end;
	a.from = rq->r.effect;
	a.until = rq->r.landing;
	a.kind = does & SR_OP_ATOMIC ? SR_ACCESS_ATOMIC : does & SR_OP_CHANGES ? SR_ACCESS_WRITE : SR_ACCESS_READ;
	note_poll(c, c->queues[rq->queue], &a);
	has_result = does & SR_OP_ATOMIC && sr_keymap_get(&c->results, p->number, &result);
	if (does & SR_OP_CHANGES && !(has_result && !changed(p, result)) && sr_race_producers_add(c->producers, &w))
		return -ENOMEM;
	if (has_result)
		sr_race_producers_result(c->producers, p->number, result);
	return add_access(c, rq, a);
}

static int add_local(struct collect *c, struct request *rq, struct sr_access a, const struct sr_posted *p)
{
	int err = 0;

	a.owner = (uint32_t)p->rank;
	a.from = rq->r.post;
	a.until = SR_NO_MOMENT;
	a.kind = sr_op(p->opcode) & SR_OP_SCATTERS ? SR_ACCESS_SCATTER : SR_ACCESS_GATHER;
	a.gathered = a.kind == SR_ACCESS_GATHER ? rq->r.effect : SR_NO_MOMENT;
	for (size_t i = 0; i < p->pieces_n && !err; i++) {
		a.begin = p->pieces[i].address;
		a.end = a.begin + p->pieces[i].length;
		err = add_access(c, rq, a);
	}
	return err;
}

/* The CPU reads inline data while it posts. */
static int add_inline(struct collect *c, struct request *rq, struct sr_access a, const struct sr_posted *p)
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
static void follow_gathered(struct collect *c, const struct rank *r, uint64_t sn, uint32_t effect)
{
	for (size_t i = 0; i < r->gathered_n && r->gathered_sn == sn; i++)
		sr_model_order(c->m, r->gathered[i].from, effect, r->gathered[i].surety, true);
}

static int take_posted(void *argument, const struct sr_posted *p)
{
	struct collect *c = argument;
	const uint32_t moment = moment_at(c, p->rank, &p->at, false);
	struct sr_access a = {.sn = p->at.sn,
			      .site = p->site,
			      .checksum = p->checksum,
			      .request = p->number,
			      .rank = (uint32_t)p->rank,
			      .thread = p->at.thread,
			      .over = SR_NO_MOMENT,
			      .gathered = SR_NO_MOMENT,
			      .opcode = p->opcode};
	struct request *rq;
	struct queue *q;
	uint32_t number;
	int err = 0;

	rq = sr_grow((void **)&c->requests, c->requests_n, &c->requests_room, sizeof(*rq));
	q = queue_of(c, p->rank, p->queue, is_ordered(p->type), &number);
	if (!rq || !q)
		return -ENOMEM;
	*rq = (struct request){.r = sr_race_post(&q->q, c->m, c->how->memory, moment, p->opcode,
						 p->flags & IBV_SEND_FENCE),
			       .rank = p->rank,
			       .to = p->to,
			       .queue = number,
			       .over = SR_NO_MOMENT,
			       .entered = p->at.entered,
			       .opcode = p->opcode};
	c->requests_n++;
	c->run->requests++;
	follow_gathered(c, &c->ranks[p->rank], p->at.sn, rq->r.effect);
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

static int take_completed(void *argument, const struct sr_completed *d)
{
	struct collect *c = argument;
	struct rank *r = &c->ranks[d->rank];
	uint32_t moment = moment_at(c, d->rank, &d->completed, false);
	struct request *rq;
	struct fetched *f;

	if (!d->number || d->number > c->requests_n)
		return 0;
	rq = &c->requests[d->number - 1];
	if (rq->over != SR_NO_MOMENT)
		return 0;
	rq->over = moment;
	sr_race_complete(c->m, &rq->r, moment);
	if (!(sr_op(rq->opcode) & SR_OP_SCATTERS) || (rq->has_value && !rq->is_unknown && !rq->is_stored))
		return 0;
	f = sr_grow((void **)&r->fetched, r->fetched_n, &r->fetched_room, sizeof(*f));
	if (!f)
		return -ENOMEM;
	*f = (struct fetched){rq->r.effect, rq->has_value && !rq->is_unknown ? rq->to : SR_NO_RANK};
	r->fetched_n++;
	return rq->to == SR_NO_RANK ? add_border(c, moment, d->rank, true, false) : 0;
}

/* ----------------------------------------------------------------- receives */

static int take_receives(void *argument, const struct sr_receives *p)
{
	struct collect *c = argument;
	uint32_t number;
	struct queue *q = queue_of(c, p->rank, p->queue, true, &number);
	struct sr_posted_piece *piece;
	struct receive *v;

	if (!q)
		return -ENOMEM;
	v = sr_grow((void **)&q->receives, q->receives_n, &q->receives_room, sizeof(*v));
	if (!v)
		return -ENOMEM;
	*v = (struct receive){.at = p->at,
			      .site = p->site,
			      .wr_id = p->wr_id,
			      .first_piece = q->pieces_n,
			      .pieces_n = p->pieces_n,
			      .moment = moment_at(c, p->rank, &p->at, false)};
	q->receives_n++;
	q->is_shared = p->is_shared;
	for (size_t i = 0; i < p->pieces_n; i++) {
		piece = sr_grow((void **)&q->pieces, q->pieces_n, &q->pieces_room, sizeof(*piece));
		if (!piece)
			return -ENOMEM;
		*piece = p->pieces[i];
		q->pieces_n++;
	}
	c->run->receives++;
	return 0;
}

static struct receive *first_with(struct queue *q, uint64_t wr_id, bool any)
{
	while (q->first < q->receives_n && q->receives[q->first].is_over)
		q->first++;
	for (size_t i = q->first; i < q->receives_n; i++) {
		struct receive *v = &q->receives[i];

		if (!v->is_over && (any || v->wr_id == wr_id))
			return v;
		if (any)
			break;
	}
	return NULL;
}

/* The receive that a message came to: the next one of the queue pair, or one of a shared queue by its wr_id. */
static struct receive *receive_of(struct collect *c, const struct sr_received *d, struct queue **of, uint32_t *number)
{
	struct receive *v;
	uint64_t at;

	if (sr_keymap_get(&c->queue_places, d->queue ^ (uint64_t)(d->rank + 1) << 50, &at)) {
		*of = c->queues[at];
		*number = (uint32_t)at;
		v = first_with(*of, d->wr_id, true);
		if (v)
			return v->wr_id == d->wr_id ? v : NULL;
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

static int add_received(struct collect *c, const struct sr_received *d, uint32_t moment)
{
	const struct request *sent = d->number ? &c->requests[d->number - 1] : NULL;
	uint64_t left = d->length;
	uint32_t number = 0;
	struct queue *q = NULL;
	struct receive *v = receive_of(c, d, &q, &number);

	if (!v)
		return 0;
	v->is_over = true;
	for (size_t i = 0; i < v->pieces_n && left && c->how->group[d->rank]; i++) {
		const struct sr_posted_piece *p = &q->pieces[v->first_piece + i];
		uint64_t n = p->length < left ? p->length : left;

		left -= n;
		if (!sr_model_access(c->m, (struct sr_access){.begin = p->address,
							      .end = p->address + n,
							      .sn = v->at.sn,
							      .site = v->site,
							      .request = d->number,
							      .owner = (uint32_t)d->rank,
							      .rank = (uint32_t)d->rank,
							      .thread = v->at.thread,
							      .agent = (q->is_shared ? SR_AGENT_SHARED : SR_AGENT_RECEIVE) | number,
							      .queue = SR_NO_QUEUE,
							      .from = sent ? sent->r.effect : v->moment,
							      .until = moment,
							      .over = moment,
							      .gathered = SR_NO_MOMENT,
							      .kind = SR_ACCESS_RECV}))
			return -ENOMEM;
	}
	return 0;
}

static int take_received(void *argument, const struct sr_received *d)
{
	struct collect *c = argument;
	uint32_t moment = moment_at(c, d->rank, &d->at, false);

	if (d->number && d->number <= c->requests_n) {
		sr_race_receive(c->m, &c->requests[d->number - 1].r, moment);
	} else {
		c->ranks[d->rank].has_unknown = true;
		if (add_border(c, moment, d->rank, true, false))
			return -ENOMEM;
	}
	return add_received(c, d, moment);
}

/* ------------------------------------------------------------------- values */

/* Has the instruction itself loaded some of these bytes? */
static bool is_loaded(const struct sr_value *v, uint64_t address, uint64_t length)
{
	return v->accessed && v->site && !(v->exposed_flags & SR_EXPOSED_ASYNC) && v->accessed < address + length &&
	       (v->accessed | 7) >= address;
}

/*
 * The orders from those that can have left what was read.  by: the request that fetched it; 0: a load, or, if it is
 * sampled, bytes that were read with the load's.
 */
static int take_run(struct collect *c, size_t rank, uint32_t reader, const struct sr_race_producing *found,
		    uint64_t by, bool is_sampled)
{
	struct rank *r = &c->ranks[rank];
	struct request *rq = by ? &c->requests[by - 1] : NULL;

	for (size_t i = 0; i < found->n; i++) {
		const struct request *w = &c->requests[found->fits[i] - 1];

		if (found->is_certain)
			sr_model_order(c->m, w->r.landing, reader, is_sampled ? SR_DOUBTFUL : SR_SURE, true);
		else if (!i && !is_sampled)
			sr_model_guess(c->m, w->r.landing, reader);
		else
			sr_model_order(c->m, w->r.landing, reader, SR_DOUBTFUL, true);
	}
	c->run->certain += found->is_certain;
	c->run->uncertain += !found->is_certain;
	if (rq) {
		rq->has_value = true;
		rq->is_unknown |= !found->is_complete;
		rq->is_stored |= !found->is_from_requests;
		return 0;
	}
	if (!found->n || !found->is_complete)
		r->is_uncertain = true;
	return !found->n && r->has_outside ? add_border(c, reader, rank, true, false) : 0;
}

static bool is_gather(const struct sr_value *v)
{
	return v->is_exposed && v->accessed && !v->site;
}

/* The recorder read what a request will gather: the device reads it later. */
static int take_gathered(struct collect *c, const struct sr_value *v, const struct sr_race_producing *found)
{
	struct rank *r = &c->ranks[v->rank];

	if (r->gathered_sn != v->at.sn + 1)
		r->gathered_n = 0;
	r->gathered_sn = v->at.sn + 1;
	for (size_t i = 0; i < found->n; i++) {
		struct gathered *g = sr_grow((void **)&r->gathered, r->gathered_n, &r->gathered_room, sizeof(*g));

		if (!g)
			return -ENOMEM;
		*g = (struct gathered){c->requests[found->fits[i] - 1].r.landing,
				       found->is_certain ? SR_SURE : SR_DOUBTFUL};
		r->gathered_n++;
	}
	return 0;
}

struct reading {
	const struct collect *c;
	const struct sr_value *v;
};

/* Clocks have told the reader of all whose bytes it can have got. */
static bool may_have_come(const void *argument, uint64_t number)
{
	const struct reading *g = argument;
	const struct request *w = &g->c->requests[number - 1];

	return !g->c->run->has_clocks || w->rank == g->v->rank || w->entered <= g->v->known[w->rank].step;
}

/* The orders to what a value came from; owner: of the memory that it was in. */
static int take_bytes(struct collect *c, const struct sr_value *v, size_t owner, uint64_t address, uint32_t reader,
		      uint64_t by)
{
	const struct reading reading = {c, v};
	const bool is_atomic = by && sr_op(c->requests[by - 1].opcode) & SR_OP_ATOMIC;
	struct sr_race_producing found = {.may_have_come = may_have_come, .argument = &reading};
	uint64_t n;
	int err = 0;

	for (uint64_t done = 0; done < v->length && !err; done += n) {
		n = sr_race_producers_next(c->producers, (uint32_t)owner, address + done, v->data + done,
					   v->length - done, by, is_atomic, &found);
		if (!n)
			err = -ENOMEM;
		else
			err = is_gather(v) ? take_gathered(c, v, &found)
					   : take_run(c, v->rank, reader, &found, by, v->is_exposed && !is_loaded(v, address + done, n));
	}
	return err;
}

static int add_load(struct collect *c, const struct sr_value *v, uint32_t moment, uint64_t begin, uint64_t end,
		    uint8_t doubts)
{
	if (c->how->no_loads || !c->how->group[v->rank] || begin >= end)
		return 0;
	c->run->loads++;
	return sr_model_access(c->m, (struct sr_access){.begin = begin,
							.end = end,
							.sn = v->at.sn,
							.site = v->site,
							.owner = (uint32_t)v->rank,
							.rank = (uint32_t)v->rank,
							.thread = v->at.thread,
							.fault = v->at.fault,
							.agent = SR_AGENT_CPU | (uint32_t)v->rank,
							.queue = SR_NO_QUEUE,
							.from = moment,
							.until = moment,
							.over = moment,
							.gathered = SR_NO_MOMENT,
							.kind = SR_ACCESS_LOAD,
							.doubts = doubts})
		       ? 0
		       : -ENOMEM;
}

/* What the instruction itself loaded; the rest of the page was read with it, and is perhaps never loaded. */
static int add_loads(struct collect *c, const struct sr_value *v, uint32_t moment)
{
	const uint64_t end = v->address + v->length;
	uint64_t from = v->address, to = end;
	int err;

	if (!is_loaded(v, v->address, v->length))
		return add_load(c, v, moment, from, to, SR_DOUBT_SAMPLED);
	if (v->accessed > from)
		from = v->accessed;
	if ((v->accessed | 7) + 1 < to)
		to = (v->accessed | 7) + 1;
	err = add_load(c, v, moment, from, to, 0);
	if (!err)
		err = add_load(c, v, moment, v->address, from, SR_DOUBT_SAMPLED);
	return err ? err : add_load(c, v, moment, to, end, SR_DOUBT_SAMPLED);
}

static int take_fetched(struct collect *c, const struct sr_value *v)
{
	const struct request *rq;

	if (!v->posted || v->posted > c->requests_n || v->from == SR_NO_RANK)
		return 0;
	rq = &c->requests[v->posted - 1];
	return take_bytes(c, v, v->from, v->remote, rq->r.effect, v->posted);
}

static int take_value(void *argument, const struct sr_value *v)
{
	struct collect *c = argument;
	uint32_t moment;
	int err;

	if (!v->is_exposed)
		return v->is_message ? 0 : take_fetched(c, v);
	moment = moment_at(c, v->rank, &v->at, true);
	err = take_bytes(c, v, v->rank, v->address, moment, 0);
	return err || is_gather(v) ? err : add_loads(c, v, moment);
}

/* --------------------------------------------------------------------- all */

static void take_progress(void *argument, uint64_t done, uint64_t size)
{
	const struct collect *c = argument;

	if (c->how->progress)
		c->how->progress(c->how->argument, done, size);
}

static int begin(struct collect *c)
{
	const struct sr_links *links = c->how->links;

	c->producers = sr_race_producers_new();
	c->ranks = calloc(links->ranks_n + 1, sizeof(*c->ranks));
	if (!c->producers || !c->ranks)
		return -ENOMEM;
	c->run->has_clocks = true;
	for (size_t i = 0; i < links->ranks_n; i++) {
		struct rank *r = &c->ranks[i];

		r->lane = sr_model_lane(c->m, false);
		r->moment = r->call = r->load = SR_NO_MOMENT;
		if (links->ranks[i].member < 0)
			c->run->has_clocks = false;
	}
	for (size_t i = 0; i < links->ends_n; i++)
		if (links->ends[i].peer == SR_NO_END)
			c->ranks[links->ends[i].rank].has_outside = true;
	return c->m->is_full ? -ENOMEM : 0;
}

static void mark_polled(struct collect *c)
{
	uint64_t is;

	for (size_t i = 0; i < c->m->accesses_n; i++) {
		struct sr_access *a = &c->m->accesses[i];

		a->is_polled = a->kind == SR_ACCESS_READ && sr_keymap_get(&c->polled, polled_key(a), &is);
	}
}

/* When a request was over is known only at the end. */
static void end(struct collect *c)
{
	for (size_t i = 0; i < c->how->links->ranks_n; i++)
		finish_position(c, &c->ranks[i]);
	for (size_t i = 0; i < c->sockets.n; i++)
		take_sockets(c, c->sockets.uses[i].rank, c->sockets.uses[i].thread, UINT64_MAX);
	for (size_t i = 0; c->how->stores && i < c->how->stores->n; i++)
		take_stores(c, c->how->stores->all[i].rank, c->how->stores->all[i].thread, UINT64_MAX, 0);
	mark_polled(c);
	follow_stored(c);
	sr_race_sockets_link(&c->sockets, c->m);
	c->run->shares_memory = c->sockets.shares_memory;
	for (size_t i = 0; i < c->requests_n; i++) {
		const struct request *rq = &c->requests[i];

		/* Other requests' accesses do not come between those of one. */
		for (uint32_t k = 0; k < rq->accesses_n; k++) {
			struct sr_access *a = &c->m->accesses[rq->first_access + k];

			a->over = rq->over;
			if (a->until == SR_NO_MOMENT)
				a->until = rq->over;
		}
	}
}

static void release(struct collect *c)
{
	for (size_t i = 0; c->ranks && i < c->how->links->ranks_n; i++) {
		free(c->ranks[i].clocked);
		free(c->ranks[i].gathered);
		free(c->ranks[i].fetched);
		free(c->ranks[i].events);
		sr_keymap_free(&c->ranks[i].event_places);
	}
	for (size_t i = 0; i < c->queues_n; i++) {
		sr_race_queue_free(&c->queues[i]->q);
		free(c->queues[i]->receives);
		free(c->queues[i]->pieces);
		free(c->queues[i]);
	}
	free(c->queues);
	free(c->ranks);
	free(c->requests);
	sr_keymap_free(&c->queue_places);
	sr_race_producers_free(c->producers);
	sr_race_sockets_free(&c->sockets);
	sr_keymap_free(&c->results);
	sr_keymap_free(&c->polled);
	free(c->stored);
}

/* What an atomic left there depends on what it returned, which the calls may tell only later. */
static int take_result(void *argument, const struct sr_value *v)
{
	struct collect *c = argument;
	uint64_t word;

	if (!v->posted || v->is_message || v->length != sizeof(word))
		return 0;
	memcpy(&word, v->data, sizeof(word));
	return sr_keymap_put(&c->results, v->posted, word);
}

int sr_race_collect(struct sr_race_run *run, const struct sr_race_collecting *how, struct sr_error *err)
{
	struct collect c = {.run = run, .how = how, .m = &run->model};
	const struct sr_process_hooks hooks = {.posted = take_posted,
					       .value = take_value,
					       .completed = take_completed,
					       .received = take_received,
					       .receives = take_receives,
					       .clocked = take_clocked,
					       .progress = take_progress,
					       .argument = &c};
	const struct sr_process_hooks first = {.value = take_result, .progress = take_progress, .argument = &c};
	bool *all = malloc(how->links->ranks_n + 1);
	int ret;

	*run = (struct sr_race_run){0};
	ret = all && !begin(&c) ? 0 : sr_error_set(err, -ENOMEM, "no memory left");
	if (all)
		memset(all, true, how->links->ranks_n + 1);
	if (!ret)
		ret = sr_race_sockets_load(&c.sockets, how->trace, err);
	if (!ret)
		ret = sr_process(how->trace, how->links, all, &first, &run->counts, err);
	if (!ret)
		ret = sr_process(how->trace, how->links, all, &hooks, &run->counts, err);
	if (!ret) {
		end(&c);
		if (run->model.is_full)
			ret = sr_error_set(err, -ENOMEM, "no memory left");
	}
	release(&c);
	free(all);
	return ret;
}

void sr_race_run_free(struct sr_race_run *r)
{
	sr_model_free(&r->model);
	free(r->borders);
}
