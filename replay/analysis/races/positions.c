/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/positions.h"

#include <errno.h>
#include <string.h>

#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/large.h"
#include "replay/analysis/races/borders.h"
#include "replay/analysis/races/events.h"
#include "replay/analysis/races/fetches.h"
#include "replay/analysis/races/flight.h"
#include "replay/analysis/races/skips.h"
#include "replay/analysis/races/stored_reads.h"

/* If nothing says that it was a post's, the order is on all that the CPU has stored until the next event. */
static void order(struct sr_collect *c, const struct sr_clocked_order *k, uint32_t from, size_t event, uint32_t to,
		  enum sr_surety surety, bool is_read)
{
	struct sr_stored_order *s;

	sr_model_order(c->m, from, to, surety, is_read);
	if (k->is_by_post || !c->how->watches)
		return;
	s = sr_large_grow((void **)&c->stored, c->stored_n, &c->stored_room, sizeof(*s));
	if (!s) {
		c->m->is_full = true;
		return;
	}
	*s = (struct sr_stored_order){k->of_rank, event, to, surety, is_read};
	c->stored_n++;
}

static void follow_stored(struct sr_collect *c)
{
	for (size_t i = 0; i < c->stored_n; i++) {
		const struct sr_stored_order *s = &c->stored[i];
		const struct sr_collected_rank *r = &c->ranks[s->of_rank];
		bool is_last = s->event + 1 == r->events_n;

		sr_model_bound(c->m, is_last ? c->m->lanes[r->lane].last : r->events[s->event + 1].before, s->to,
			       s->surety, s->is_read);
	}
}

/* Are all stores of the rank's CPU known, one by one? */
static bool knows_stores(const struct sr_collect *c, size_t rank)
{
	return c->how->group[rank] && sr_race_watches_see_all(c->how->watches, rank);
}

static void await_stores(struct sr_collect *c, const struct sr_collected_request *f, size_t event)
{
	struct sr_stored_read *s = sr_large_grow((void **)&c->reads, c->reads_n, &c->reads_room, sizeof(*s));

	if (!s) {
		c->m->is_full = true;
		return;
	}
	*s = (struct sr_stored_read){(uint64_t)(f - c->requests) + 1, f->to, event, f->begin, f->end};
	c->reads_n++;
}

static void await_fetched(struct sr_collect *c, struct sr_fetched_order order)
{
	struct sr_fetched_order *o = sr_large_grow((void **)&c->fetched, c->fetched_n, &c->fetched_room, sizeof(*o));

	if (o) {
		*o = order;
		c->fetched_n++;
	} else {
		c->m->is_full = true;
	}
}

static void follow_clock(struct sr_collect *c, struct sr_collected_rank *r, const struct sr_clocked_order *k, uint32_t from, size_t event)
{
	const uint32_t reader = r->load != SR_NO_MOMENT ? r->load : r->call;

	order(c, k, from, event, reader, SR_SEEN, r->load != SR_NO_MOMENT);
	if (r->is_uncertain)
		order(c, k, from, event, r->load, SR_DOUBTFUL, true);
	if (r->has_unknown)
		order(c, k, from, event, r->call, SR_DOUBTFUL, false);
	for (size_t f = 0; f < r->fetched_n; f++)
		await_fetched(c, (struct sr_fetched_order){r->fetched[f].request, k->of_rank, event, from, r->call, k->is_by_post, false});
}

/* The clock of a fetch's owner told nothing new: what its CPU has stored since the last event that is known, may have been fetched. */
static void follow_older_clocks(struct sr_collect *c, struct sr_collected_rank *r)
{
	for (size_t f = 0; c->how->watches && f < r->fetched_n; f++) {
		const size_t to = c->requests[r->fetched[f].request - 1].to;
		size_t event;

		if (to == SR_NO_RANK || !r->heard[to])
			continue;
		event = r->heard[to] - 1;
		await_fetched(c, (struct sr_fetched_order){r->fetched[f].request, to, event, c->ranks[to].events[event].moment, r->call, false, true});
	}
}

/*
 * Where the bytes of a fetch came from is known now, or will not be.  The clock was read a moment after what was fetched,
 * so the order to that may be dropped again.
 */
static void follow_fetched(struct sr_collect *c, const struct sr_fetched_order *o)
{
	const struct sr_collected_request *rq = &c->requests[o->request - 1];
	const struct sr_clocked_order k = {.of_rank = o->of_rank, .is_by_post = o->is_by_post};
	const bool is_stored = rq->has_value && !rq->is_unknown; /* by its owner's CPU, if by no known request */

	if (is_stored && (!rq->is_stored || rq->to != o->of_rank))
		return;
	if (o->is_older && !(is_stored && rq->is_changed && knows_stores(c, o->of_rank)))
		return;
	if (is_stored && knows_stores(c, o->of_rank)) {
		await_stores(c, rq, o->event);
		return;
	}
	order(c, &k, o->from, o->event, rq->r.effect, SR_DOUBTFUL, true);
	order(c, &k, o->from, o->event, o->call, SR_DOUBTFUL, false);
}

static void follow_clocks(struct sr_collect *c, struct sr_collected_rank *r, const struct sr_clocked_order *k)
{
	const struct sr_collected_rank *other = &c->ranks[k->of_rank];
	const struct sr_collected_event *e;
	uint32_t from[64];
	size_t n = 0, at;

	if (!sr_collected_event_find(other, k->of, &at))
		return;
	e = &other->events[at];
	if (at + 1 > r->heard[k->of_rank])
		r->heard[k->of_rank] = at + 1;
	from[n++] = e->moment;
	/* What was posted there may have been seen. */
	for (size_t i = e->first_request; k->is_by_post && i < c->requests_n && n < 64; i++) {
		const struct sr_collected_request *q = &c->requests[i];

		if (q->rank != k->of_rank || q->r.post != e->moment)
			break;
		if (q->to == (size_t)(r - c->ranks))
			from[n++] = q->r.landing;
	}
	for (size_t i = 0; i < n; i++)
		follow_clock(c, r, k, from[i], at);
}

/* The rank goes on to another position: what it found in clocks at this one is known now. */
static void finish_position(struct sr_collect *c, struct sr_collected_rank *r)
{
	for (size_t i = 0; i < r->clocked_n; i++)
		follow_clocks(c, r, &r->clocked[i]);
	follow_older_clocks(c, r);
	r->clocked_n = r->fetched_n = 0;
	r->is_uncertain = r->has_unknown = false;
	r->call = r->load = SR_NO_MOMENT;
}

static bool is_same(const struct sr_position *a, const struct sr_position *b)
{
	return a->thread == b->thread && a->sn == b->sn && a->fault == b->fault && a->is_part == b->is_part && a->stop == b->stop;
}

/* ------------------------------------------------------- what CPUs loaded and stored */

void sr_collect_note_unseen(struct sr_collect *c, size_t rank, uint32_t from, uint32_t moment)
{
	struct sr_collected_rank *r = &c->ranks[rank];

	if (r->unseen_n < SR_SAMPLED_MOST)
		r->unseen[r->unseen_n++] = from;
	else
		sr_model_choose(c->m, 0, from, moment);
}

/* The rank has read bytes that came from a request, beside those of the instruction that faulted. */
void sr_collect_sampled(struct sr_collect *c, size_t rank, const struct sr_sampled *found)
{
	struct sr_collected_rank *r = &c->ranks[rank];
	size_t kept = 0;

	for (size_t i = 0; i < r->sampled_n; i++)
		if (r->sampled[i].end <= found->begin || found->end <= r->sampled[i].begin)
			r->sampled[kept++] = r->sampled[i];
	if (kept == SR_SAMPLED_MOST) {
		/* Who loads that later is no longer known. */
		sr_collect_note_unseen(c, rank, r->sampled[0].from, c->m->lanes[r->lane].last);
		memmove(r->sampled, r->sampled + 1, (SR_SAMPLED_MOST - 1) * sizeof(*r->sampled));
		kept--;
	}
	if (found->from != SR_NO_MOMENT)
		r->sampled[kept++] = *found;
	r->sampled_n = kept;
}

static bool is_sample_of(const struct sr_sampled *s, const struct sr_watch_access *w)
{
	return s->begin < w->address + w->length && w->address < s->end;
}

static bool has_sampled(const struct sr_collected_rank *r, const struct sr_watch_access *w)
{
	for (size_t i = 0; i < r->sampled_n; i++)
		if (is_sample_of(&r->sampled[i], w))
			return true;
	return false;
}

bool sr_collect_is_seen(const struct sr_collect *c, size_t rank, uint64_t address)
{
	uint64_t is;

	return !sr_keymap_get(&c->ranks[rank].blind, address / SR_WATCH_PAGE, &is);
}

/* Loads of a page are not all seen from now on. */
static void take_unseen(struct sr_collect *c, size_t rank, const struct sr_watch_access *from)
{
	struct sr_collected_rank *r = &c->ranks[rank];

	for (size_t i = 0; i < r->sampled_n; i++)
		if (is_sample_of(&r->sampled[i], from))
			sr_collect_note_unseen(c, rank, r->sampled[i].from, c->m->lanes[r->lane].last);
	if (sr_keymap_put(&r->blind, from->address / SR_WATCH_PAGE, 1))
		c->m->is_full = true;
}

static void follow_sampled(struct sr_collect *c, struct sr_collected_rank *r, const struct sr_watch_access *w,
			   uint32_t moment)
{
	const struct sr_position at = {.thread = w->thread, .sn = w->sn, .fault = w->fault};

	for (size_t i = 0; i < r->sampled_n; i++) {
		struct sr_sampled *s = &r->sampled[i];

		if (!is_sample_of(s, w))
			continue;
		sr_model_order(c->m, s->from, moment, SR_SURE, true);
		if (s->is_skip && sr_collect_add_skip(c, &s->skip, &at, w->pc, moment))
			c->m->is_full = true;
		s->is_skip = false;
	}
}

static uint64_t call_before(const struct sr_watch_access *w)
{
	return w->kind == SR_WATCH_CHANGED && !w->fault ? w->sn - 1 : w->sn;
}

/* is_placed: it is known which calls of other threads it came before. */
static int add_watched(struct sr_collect *c, size_t rank, const struct sr_watch_access *w, uint32_t moment, bool is_placed)
{
	const bool is_load = w->kind == SR_WATCH_LOAD;
	const uint64_t behind = call_before(w);
	uint16_t doubts;

	*(is_load ? &c->run->loads : &c->run->stores) += 1;
	if (!c->how->group[rank])
		return 0;
	doubts = sr_collect_watch_doubts(c, rank, is_load, w->address, w->address + w->length);
	if (is_placed)
		doubts &= (uint16_t)~SR_DOUBT_THREADS;
	return sr_model_access(c->m, (struct sr_access){.begin = w->address,
							.end = w->address + w->length,
							.sn = w->pc ? behind : behind + 1,
							.pc = w->pc,
							.site = w->caller ? w->caller : w->pc,
							.site_is = w->caller ? SR_SITE_CALLER
								   : w->pc   ? SR_SITE_INSTRUCTION
									     : SR_SITE_CALL,
							.owner = (uint32_t)rank,
							.rank = (uint32_t)rank,
							.thread = w->thread,
							.fault = w->kind == SR_WATCH_CHANGED ? 0 : w->fault,
							.agent = SR_AGENT_CPU | (uint32_t)rank,
							.queue = SR_NO_QUEUE,
							.from = moment,
							.until = moment,
							.over = moment,
							.gathered = SR_NO_MOMENT,
							.closed = SR_NO_MOMENT,
							.kind = is_load ? SR_ACCESS_LOAD : SR_ACCESS_STORE,
							.is_nearby = w->kind == SR_WATCH_CHANGED && w->pc,
							.is_polled = is_load && sr_race_watches_is_poll(c->how->watches, w->pc),
							.doubts = doubts})
		       ? 0
		       : -ENOMEM;
}

/* Does it need a moment of its own?  READs come after one store, not after the next; what a load read orders no other. */
static bool is_by_itself(const struct sr_collect *c, size_t rank, const struct sr_watch_access *w)
{
	return w->kind == SR_WATCH_STORE || (w->kind == SR_WATCH_LOAD && has_sampled(&c->ranks[rank], w));
}

/*
 * It comes in front of this call.  No other thread has done anything since the last moment; or this is the next call of its
 * thread.  Both say something only where one thread runs at a time.  What was found changed at a call, another thread may have
 * stored.
 */
static bool is_placed(const struct sr_collect *c, size_t rank, const struct sr_watch_access *w, uint64_t sn)
{
	const struct sr_collected_rank *r = &c->ranks[rank];
	const uint64_t before = call_before(w);

	if (w->kind == SR_WATCH_CHANGED)
		return false;
	return (r->moment != SR_NO_MOMENT && r->at.thread == w->thread && sr_race_watches_take_turns(c->how->watches, (uint32_t)rank)) ||
	       (sn <= before + 1 && sr_race_watches_are_ordered(c->how->watches, (uint32_t)rank, w->thread, before));
}

/* What the thread loaded and stored up to there, as late as it can have been. */
static void take_watched(struct sr_collect *c, size_t rank, uint32_t thread, uint64_t sn, uint32_t fault)
{
	const struct sr_race_watched *w;
	uint32_t moment = SR_NO_MOMENT;

	while (c->how->watches && (w = sr_race_watches_due(c->how->watches, (uint32_t)rank, thread, sn, fault))) {
		bool is_alone = is_by_itself(c, rank, &w->a);

		if (w->a.kind == SR_WATCH_UNSEEN) {
			take_unseen(c, rank, &w->a);
			continue;
		}
		if (moment == SR_NO_MOMENT || is_alone)
			moment = sr_model_moment(c->m, c->ranks[rank].lane);
		if (w->a.kind == SR_WATCH_LOAD) {
			follow_sampled(c, &c->ranks[rank], &w->a, moment);
			if (sr_collect_found_fetches(c, rank, w->a.address, w->a.length))
				c->m->is_full = true;
		}
		if (add_watched(c, rank, &w->a, moment, is_placed(c, rank, &w->a, sn)))
			c->m->is_full = true;
		if (is_alone)
			moment = SR_NO_MOMENT;
	}
}

/* Of what comes in front of the next call, between two turns of the thread, it is not always known which accesses came before. */
static void take_watched_before(struct sr_collect *c, size_t rank, const struct sr_position *at)
{
	if (!at->is_part)
		take_watched(c, rank, at->thread, at->sn, at->fault);
	else if (at->accesses != SR_LOG_NOT_COUNTED)
		take_watched(c, rank, at->thread, at->sn - 1, at->accesses + 1);
}

/* Until the next call the loads that were seen say by themselves what they found. */
static void follow_unseen(struct sr_collect *c, struct sr_collected_rank *r)
{
	for (size_t i = 0; i < r->unseen_n; i++)
		sr_model_choose(c->m, 0, r->unseen[i], r->moment);
	r->unseen_n = 0;
}

static void note_call(struct sr_collect *c, const struct sr_position *at, uint32_t moment)
{
	struct sr_race_run *run = c->run;
	struct sr_race_call *call = sr_large_grow((void **)&run->calls, run->calls_n, &run->calls_room, sizeof(*call));

	if (!call) {
		c->m->is_full = true;
		return;
	}
	*call = (struct sr_race_call){.sn = at->sn, .thread = at->thread, .moment = moment};
	run->calls_n++;
}

/* The moment of a rank's call, or of its load. */
uint32_t sr_collect_moment(struct sr_collect *c, size_t rank, const struct sr_position *at, bool is_load)
{
	struct sr_collected_rank *r = &c->ranks[rank];

	if (r->moment != SR_NO_MOMENT && is_same(&r->at, at) && r->is_load == is_load)
		return r->moment;
	if (r->moment != SR_NO_MOMENT && !is_same(&r->at, at))
		finish_position(c, r);
	take_watched_before(c, rank, at);
	r->at = *at;
	r->is_load = is_load;
	r->before = c->m->lanes[r->lane].last;
	r->moment = sr_model_moment(c->m, r->lane);
	*(is_load ? &r->load : &r->call) = r->moment;
	if (!is_load) {
		follow_unseen(c, r);
		note_call(c, at, r->moment);
	}
	return r->moment;
}

/* What several threads accessed is placed among their calls, whatever these are. */
static bool is_due(const struct sr_collect *c, size_t rank, uint32_t thread, uint64_t sn)
{
	const struct sr_race_watches *s = c->how->watches;

	return s && s->doubts[rank] & SR_DOUBT_THREADS && sr_race_watches_are_due(s, (uint32_t)rank, thread, sn);
}

enum sr_log_place sr_collect_wants(void *argument, size_t rank, uint32_t thread, uint64_t sn)
{
	struct sr_collect *c = argument;
	size_t n;
	const struct sr_socket_use *u = sr_race_sockets_uses(&c->sockets, (uint32_t)rank, thread, sn, &n);

	if (sr_race_kin_has(&c->kin, (uint32_t)rank, thread, sn))
		return SR_LOG_AT_RETURN;
	if (!n)
		return is_due(c, rank, thread, sn) ? SR_LOG_AT_ENTRY : SR_LOG_NOT_WANTED;
	return u->is_write ? SR_LOG_AT_ENTRY : SR_LOG_AT_RETURN;
}

/* What a thread read from a socket, or wrote to it; or what it accessed in front of a call. */
int sr_collect_passed(void *argument, const struct sr_passed *d)
{
	struct sr_collect *c = argument;
	size_t n;
	struct sr_socket_use *u = sr_race_sockets_uses(&c->sockets, (uint32_t)d->rank, d->at.thread, d->at.sn, &n);
	int err = 0;

	if (!n)
		sr_race_kin_pass(&c->kin, (uint32_t)d->rank, d->at.thread, d->at.sn, sr_collect_moment(c, d->rank, &d->at, false));
	for (size_t i = 0; i < n && !err; i++) {
		u[i].moment = sr_collect_moment(c, d->rank, &d->at, false);
		if (!u[i].is_linked)
			err = sr_collect_border(c, u[i].moment, d->rank, !u[i].is_write, true);
	}
	return err;
}

int sr_collect_clocked(void *argument, const struct sr_clocked *k)
{
	struct sr_collect *c = argument;
	struct sr_collected_rank *r = &c->ranks[k->rank];
	uint32_t moment = sr_collect_moment(c, k->rank, &k->at, r->is_load && is_same(&r->at, &k->at));
	struct sr_clocked_order *added;

	if (k->of_rank == SR_NO_RANK)
		return sr_collected_event_add(r, k->event, (struct sr_collected_event){.moment = moment, .before = r->before, .first_request = (uint32_t)c->requests_n});
	added = sr_grow((void **)&r->clocked, r->clocked_n, &r->clocked_room, sizeof(*added));
	if (!added)
		return -ENOMEM;
	*added = (struct sr_clocked_order){k->of_rank, k->of, k->is_by_post};
	r->clocked_n++;
	return 0;
}

void sr_collect_end_positions(struct sr_collect *c)
{
	for (size_t i = 0; i < c->how->links->ranks_n; i++)
		finish_position(c, &c->ranks[i]);
	for (size_t i = 0; c->how->watches && i < c->how->watches->n; i++)
		take_watched(c, c->how->watches->all[i].rank, c->how->watches->all[i].a.thread, UINT64_MAX, 0);
	for (size_t i = 0; i < c->fetched_n; i++)
		follow_fetched(c, &c->fetched[i]);
	follow_stored(c);
	if (sr_collect_follow_stores(c))
		c->m->is_full = true;
}
