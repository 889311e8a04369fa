/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/values.h"

#include <errno.h>
#include <string.h>

#include "logd/base/checksum.h"
#include "logd/base/opcodes.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/races/arrived.h"
#include "replay/analysis/races/borders.h"
#include "replay/analysis/races/fetches.h"
#include "replay/analysis/races/positions.h"
#include "replay/analysis/races/skips.h"
#include "replay/analysis/races/unclocked.h"
#include "sreplay/trace.h"

/* Has the instruction itself loaded some of these bytes? */
static bool is_loaded(const struct sr_value *v, uint64_t address, uint64_t length)
{
	return v->accessed && v->site && !(v->exposed_flags & SR_EXPOSED_ASYNC) && v->accessed < address + length &&
	       (v->accessed | 7) >= address;
}

/* Are the rank's loads seen one by one?  Those of some instructions are not. */
static bool is_watched(const struct sr_collect *c, size_t rank)
{
	return sr_race_watches_see_all(c->how->watches, rank);
}

enum how_read {
	BY_ITSELF,        /* by a request, or a load of these bytes */
	SAMPLED,          /* with the bytes of a load: the program may load them later, unseen */
	SAMPLED_AND_SEEN, /* if the program loads them, the watched replay sees that (note_sampled()) */
};

static enum how_read how_read(const struct sr_collect *c, const struct sr_value *v, uint64_t address, uint64_t n)
{
	if (!v->is_exposed || is_loaded(v, address, n))
		return BY_ITSELF;
	return is_watched(c, v->rank) && sr_collect_is_seen(c, v->rank, address) && sr_collect_is_seen(c, v->rank, address + n - 1)
		       ? SAMPLED_AND_SEEN
		       : SAMPLED;
}

/* The orders from those that can have left what was read.  by: the request that fetched it; 0: a load. */
static int take_run(struct sr_collect *c, size_t rank, uint32_t reader, const struct sr_race_producing *found,
		    uint64_t by, enum how_read how, bool has_arrived)
{
	const bool is_sampled = how != BY_ITSELF;
	struct sr_collected_rank *r = &c->ranks[rank];
	struct sr_collected_request *rq = by ? &c->requests[by - 1] : NULL;
	uint32_t choice = 0;

	if (!found->is_certain && found->is_complete && found->is_from_requests && found->n && !is_sampled)
		choice = sr_model_choice(c->m);
	for (size_t i = 0; i < found->n; i++) {
		const struct sr_collected_request *w = &c->requests[found->fits[i] - 1];

		if (found->is_certain && !is_sampled)
			sr_model_order(c->m, w->r.landing, reader, SR_SURE, true);
		else if (how == SAMPLED_AND_SEEN && found->is_certain)
			continue;
		else if (is_sampled && found->is_certain && is_watched(c, rank))
			sr_collect_note_unseen(c, rank, w->r.landing, reader);
		else
			sr_model_choose(c->m, choice, w->r.landing, reader);
	}
	c->run->certain += found->is_certain;
	c->run->uncertain += !found->is_certain;
	if (rq) {
		rq->has_value = true;
		rq->is_unknown |= !found->is_complete;
		rq->is_stored |= !found->is_from_requests;
		rq->is_written |= found->n > 0;
		return 0;
	}
	if (!found->n && found->is_complete && has_arrived)
		return 0;
	/* Bytes of a page that was read as a whole are mostly as they were. */
	if ((!found->n && !found->is_untouched) || !found->is_complete)
		r->is_uncertain = true;
	if (!found->n && r->has_outside)
		return sr_collect_border(c, reader, rank, true, false);
	/* A value of memory that processes share is in the trace wherever one was found. */
	return c->how->shared_is_seen && c->sockets.shares_memory && !found->is_certain ? sr_collect_shared_value(c, reader, rank) : 0;
}

static bool is_gather(const struct sr_value *v)
{
	return v->is_exposed && v->accessed && !v->site;
}

/* The recorder read what a request will gather: the device reads it later. */
static int take_gathered(struct sr_collect *c, const struct sr_value *v, const struct sr_race_producing *found)
{
	struct sr_collected_rank *r = &c->ranks[v->rank];

	if (r->gathered_sn != v->at.sn + 1)
		r->gathered_n = 0;
	r->gathered_sn = v->at.sn + 1;
	for (size_t i = 0; i < found->n; i++) {
		struct sr_gathered *g = sr_grow((void **)&r->gathered, r->gathered_n, &r->gathered_room, sizeof(*g));

		if (!g)
			return -ENOMEM;
		*g = (struct sr_gathered){c->requests[found->fits[i] - 1].r.landing,
				       found->is_certain ? SR_SURE : SR_DOUBTFUL};
		r->gathered_n++;
	}
	return 0;
}

struct reading {
	const struct sr_collect *c;
	const struct sr_value *v;
};

static bool have_clocks(const struct sr_collect *c, size_t reader, const struct sr_race_written *w)
{
	return sr_collect_has_clock(c, reader) && sr_collect_has_clock(c, w->rank) && sr_collect_has_clock(c, w->owner);
}

/* Clocks have told the reader of all whose bytes it can have got. */
static bool may_have_come(const void *argument, const struct sr_race_written *w)
{
	const struct reading *g = argument;

	if (!g->c->run->has_clocks || w->rank == g->v->rank || !have_clocks(g->c, g->v->rank, w))
		return true;
	return w->entered <= g->v->known[w->rank].step;
}

static bool has_ended_before(const void *argument, uint64_t number, uint64_t other)
{
	const struct reading *g = argument;
	const struct sr_collected_request *w = &g->c->requests[number - 1], *o = &g->c->requests[other - 1];

	/* Moments of one rank. */
	return w->rank == o->rank && w->over != SR_NO_MOMENT && w->over <= o->r.post;
}

/* Who loads these bytes later, without a fault, has them from there. */
static void note_sampled(struct sr_collect *c, const struct sr_value *v, uint64_t address, uint64_t length,
			 const struct sr_race_producing *found)
{
	const bool is_sampled = found->is_certain && !is_loaded(v, address, length);
	struct sr_sampled s = {.begin = address, .end = address + length, .from = SR_NO_MOMENT};

	if (!c->how->watches || !v->is_exposed || is_gather(v))
		return;
	if (is_sampled) {
		s.from = c->requests[found->fits[0] - 1].r.landing;
		s.is_skip = sr_collect_skip(c, (uint32_t)v->rank, found, &s.skip);
	}
	sr_collect_sampled(c, v->rank, &s);
}

/* It found the last one of several WRITEs of a word. */
static int note_skip(struct sr_collect *c, const struct sr_value *v, uint64_t address, uint64_t length, const struct sr_race_producing *found,
		     uint32_t reader)
{
	const struct sr_position at = {.thread = v->at.thread, .sn = v->at.sn, .fault = v->at.fault};
	struct sr_race_skip s;

	if (!v->is_exposed || !is_loaded(v, address, length) || !sr_collect_skip(c, (uint32_t)v->rank, found, &s))
		return 0;
	return sr_collect_add_skip(c, &s, &at, v->site, reader);
}

/* May the CPU of the memory's owner have left some of the bytes? */
static bool may_store(const struct sr_collect *c, size_t owner, uint64_t address, uint64_t length)
{
	return !c->how->group[owner] || sr_race_watches_may_store(c->how->watches, (uint32_t)owner, address, address + length);
}

static int add_finding(struct sr_collect *c, struct sr_race_finding f)
{
	struct sr_race_run *run = c->run;
	struct sr_race_finding *at = sr_grow((void **)&run->findings, run->findings_n, &run->findings_room, sizeof(*at));

	if (!at)
		return -ENOMEM;
	*at = f;
	run->findings_n++;
	return 0;
}

/* A value that is long may have bytes in the middle, or a whole page's, that have not changed; the first and the last one of others have. */
#define CHANGED_MOST 2048

/* What says which write had not come when something else was read. */
static int note_finding(struct sr_collect *c, const struct sr_value *v, size_t owner, uint64_t done, uint64_t n, uint64_t address,
			const struct sr_race_producing *found, uint64_t by, uint32_t reader)
{
	struct sr_race_finding f = {address, address + n, by, 0, (uint32_t)owner, reader};
	int err = 0;

	if (!c->how->consistency)
		return 0;
	if (by) /* what is no longer than a word was written at once */
		return !found->n && found->is_complete && found->is_from_requests && address / 8 == (address + n - 1) / 8 ? add_finding(c, f) : 0;
	if (!found->is_certain || v->length >= CHANGED_MOST)
		return 0;
	f.writer = found->fits[0];
	f.end = f.begin + 1;
	if (!done)
		err = add_finding(c, f);
	f.begin = address + n - 1;
	f.end = f.begin + 1;
	return err || done + n < v->length ? err : add_finding(c, f);
}

/* The orders to what a value came from; owner: of the memory that it was in. */
static int take_bytes(struct sr_collect *c, const struct sr_value *v, size_t owner, uint64_t address, uint32_t reader,
		      uint64_t by)
{
	const struct reading reading = {c, v};
	const bool is_atomic = by && sr_op(c->requests[by - 1].opcode) & SR_OP_ATOMIC;
	struct sr_race_producing found = {.may_have_come = may_have_come, .has_ended_before = has_ended_before, .argument = &reading};
	uint64_t n;
	int err = sr_collect_unclocked_read(c, v->rank, reader, owner, address, address + v->length, by);

	for (uint64_t done = 0; done < v->length && !err; done += n) {
		uint64_t end = address + v->length;
		const bool has_arrived = !by && sr_collect_has_arrived(c, v->rank, address + done, &end);

		n = sr_race_producers_next(c->producers, (uint32_t)owner, address + done, v->data + done, end - address - done, by,
					   is_atomic || !may_store(c, owner, address + done, end - address - done), &found);
		if (!n)
			return -ENOMEM;
		note_sampled(c, v, address + done, n, &found);
		if (note_skip(c, v, address + done, n, &found, reader))
			return -ENOMEM;
		if (!is_gather(v) && note_finding(c, v, owner, done, n, address + done, &found, by, reader))
			return -ENOMEM;
		err = is_gather(v) ? take_gathered(c, v, &found)
				   : take_run(c, v->rank, reader, &found, by, how_read(c, v, address + done, n), has_arrived);
	}
	return err;
}

static const struct sr_race_watched *watched_load(const struct sr_collect *c, const struct sr_value *v)
{
	return c->how->watches ? sr_race_watches_find(c->how->watches, (uint32_t)v->rank, SR_WATCH_LOAD, v->at.thread, v->at.sn, v->at.fault, v->site)
			       : NULL;
}

/* Do its threads run beside each other?  Then it is not known what of another thread a load comes before. */
static bool runs_beside(const struct sr_collect *c, size_t rank)
{
	const struct sr_race_watches *s = c->how->watches;

	return s && s->doubts[rank] & SR_DOUBT_THREADS && !sr_race_watches_take_turns(s, (uint32_t)rank);
}

static int add_load(struct sr_collect *c, const struct sr_value *v, uint32_t moment, uint64_t begin, uint64_t end,
		    uint16_t doubts)
{
	const struct sr_race_watched *w = watched_load(c, v);

	if (c->how->no_loads || !c->how->group[v->rank] || begin >= end)
		return 0;
	c->run->loads++;
	if (runs_beside(c, v->rank))
		doubts |= SR_DOUBT_THREADS;
	return sr_model_access(c->m, (struct sr_access){.begin = begin,
							.end = end,
							.sn = v->at.sn,
							.site = w && w->a.caller ? w->a.caller : v->site,
							.pc = v->site,
							.site_is = w && w->a.caller ? SR_SITE_CALLER
										    : SR_SITE_INSTRUCTION,
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
							.closed = SR_NO_MOMENT,
							.kind = SR_ACCESS_LOAD,
							.is_polled = w && sr_race_watches_is_poll(c->how->watches, v->site),
							.doubts = doubts})
		       ? 0
		       : -ENOMEM;
}

/* A watched replay finds each load, and hooks those of the program. */
static bool is_found_by_itself(const struct sr_collect *c, const struct sr_value *v)
{
	const struct sr_race_watches *s = c->how->watches;

	if (!s || s->doubts[v->rank] & SR_DOUBT_REPLAY)
		return false;
	return !s->are_partial || sr_race_watches_have_load(s, (uint32_t)v->rank, v->at.thread, v->at.sn, v->accessed);
}

/* What the instruction itself loaded; the rest of the page was read with it, and is perhaps never loaded. */
static int add_loads(struct sr_collect *c, const struct sr_value *v, uint32_t moment)
{
	const uint64_t end = v->address + v->length;
	const struct sr_race_watched *w = watched_load(c, v);
	uint64_t from = v->address, to = end;
	int err;

	if (!w && v->site && is_found_by_itself(c, v))
		return 0;
	if (w)
		return w->a.address < end && from < w->a.address + w->a.length
			       ? add_load(c, v, moment, from > w->a.address ? from : w->a.address,
					  to < w->a.address + w->a.length ? to : w->a.address + w->a.length, 0)
			       : 0;

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

/* Did its rank find something else there the last time, or the same? */
static int note_fetched(struct sr_collect *c, const struct sr_value *v, struct sr_collected_request *rq)
{
	const uint64_t key = sr_keymap_of_rank(sr_keymap_of_rank(v->remote, v->rank), v->from), now = sr_checksum(v->data, v->length, 0);
	uint64_t before;

	if (sr_keymap_get(&c->last_fetched, key, &before)) {
		rq->is_changed |= before != now;
		rq->is_same |= before == now;
	}
	return sr_keymap_put(&c->last_fetched, key, now);
}

/* What an atomic left there depends on what it returned, which the calls may tell only later: the next pass knows it. */
static int note_result(struct sr_collect *c, const struct sr_value *v)
{
	uint64_t word;

	if (v->length != sizeof(word))
		return 0;
	memcpy(&word, v->data, sizeof(word));
	return sr_keymap_put(&c->results->values, v->posted, word);
}

static void keep_fetched(struct sr_collect *c, const struct sr_value *v, const struct sr_collected_request *rq)
{
	for (uint32_t i = 0; i < rq->accesses_n; i++) {
		struct sr_access *a = &c->m->accesses[rq->first_access + i];

		if ((a->kind != SR_ACCESS_READ && a->kind != SR_ACCESS_ATOMIC) || a->begin != v->remote || v->length < a->end - a->begin)
			continue;
		memcpy(&a->fetched, v->data, v->length < sizeof(a->fetched) ? v->length : sizeof(a->fetched));
		a->has_fetched = true;
	}
}

static int take_fetched(struct sr_collect *c, const struct sr_value *v)
{
	struct sr_collected_request *rq;

	if (!v->posted || v->posted > c->requests_n || v->from == SR_NO_RANK)
		return 0;
	rq = &c->requests[v->posted - 1];
	keep_fetched(c, v, rq);
	if (note_fetched(c, v, rq) || (sr_op(rq->opcode) & SR_OP_ATOMIC && note_result(c, v)))
		return -ENOMEM;
	return take_bytes(c, v, v->from, v->remote, rq->r.effect, v->posted);
}

int sr_collect_value(void *argument, const struct sr_value *v)
{
	struct sr_collect *c = argument;
	uint32_t moment;
	int err;

	if (!v->is_exposed)
		return v->is_message ? 0 : take_fetched(c, v);
	moment = sr_collect_moment(c, v->rank, &v->at, true);
	if (sr_collect_is_of_fetch(c, v->rank, v->address, v->length))
		err = sr_race_producers_see(c->producers, (uint32_t)v->rank, v->address, v->data, v->length);
	else
		err = take_bytes(c, v, v->rank, v->address, moment, 0);
	if (!err)
		err = sr_collect_found_fetches(c, v->rank, v->address, v->length);
	return err || is_gather(v) ? err : add_loads(c, v, moment);
}
