/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/process/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/read_trace.h"
#include "logd/trace/exposed_records.h"
#include "replay/analysis/process/own.h"

/* Calls of one rank before the next rank is chosen. */
#define QUANTUM 2048

/* ------------------------------------------------------------ one rank on */

/* The rank that an order is on; SR_NO_RANK: itself, or one that is not processed. */
static size_t rank_of(const struct process *p, size_t rank, const struct sr_order *o)
{
	size_t other = p->of_member[o->member];

	return other == rank ? SR_NO_RANK : other;
}

/* Does one of these orders name an event that was not reached yet? */
static bool orders_block(struct process *p, size_t rank, size_t from, size_t end)
{
	struct rank *r = &p->ranks[rank];

	for (size_t i = from; i < end; i++) {
		const struct sr_order *o = &r->call.clocks[i].order;
		size_t other = rank_of(p, rank, o);

		if (other == SR_NO_RANK || p->ranks[other].over ||
		    sr_knowledge_has(p->knowledge, other, o->event))
			continue;
		r->blocked = BY_EVENT;
		r->blocked_on = other;
		r->blocked_event = o->event;
		return true;
	}
	return false;
}

static int report_clock(struct process *p, size_t rank, const struct sr_log_clock *c)
{
	size_t other = c->found ? rank_of(p, rank, &c->order) : SR_NO_RANK;

	if (!p->hooks->clocked || (c->found && other == SR_NO_RANK))
		return 0;
	return p->hooks->clocked(p->hooks->argument,
				 &(struct sr_clocked){.rank = rank,
						      .at = *sr_knowledge_now(p->knowledge, rank),
						      .event = c->event,
						      .of_rank = other,
						      .of = c->order.event,
						      .is_by_post = c->order.via == SR_ORDER_CELL});
}

/*
 * Takes clocks up to `end`.  Between two calls a rank may store what another one answers, and see
 * the answer.  1: blocked.
 */
static int take_clocks(struct process *p, size_t rank, size_t end)
{
	struct rank *r = &p->ranks[rank];
	const struct sr_log_clock *clocks = r->call.clocks;
	int err = 0;

	while (r->clocks < end && !err) {
		/* An event precedes its orders, and counts together with them. */
		size_t first = r->clocks + 1, next = first;

		while (next < end && clocks[next].found)
			next++;
		if (orders_block(p, rank, first, next))
			return 1;
		for (size_t i = r->clocks; i < next && !err; i++)
			err = report_clock(p, rank, &clocks[i]);
		for (size_t i = first; i < next; i++) {
			const struct sr_order *o = &clocks[i].order;
			size_t other = rank_of(p, rank, o);

			if (other != SR_NO_RANK)
				sr_knowledge_order(p->knowledge, rank, other, o->event,
						   o->via == SR_ORDER_OWN ? SR_PLAN_BY_OWN
									  : SR_PLAN_BY_CELL);
		}
		sr_knowledge_event(p->knowledge, rank, clocks[r->clocks].event);
		r->clocks = next;
	}
	return err;
}

static void enter_at(struct process *p, size_t rank, struct sr_position at)
{
	struct rank *r = &p->ranks[rank];

	if (!r->there) {
		at.thread = r->call.thread;
		sr_knowledge_enter(p->knowledge, rank, &at);
	}
	r->there = true;
}

static int report_exposed(struct process *p, size_t rank, const struct sr_exposed_event *e)
{
	struct sr_value v = {.rank = rank,
			     .at = *sr_knowledge_now(p->knowledge, rank),
			     .site = e->fault ? e->pc : p->ranks[rank].call.site,
			     .is_exposed = true,
			     .accessed = e->fault ? e->addr : 0,
			     .exposed_flags = e->flags,
			     .from = SR_NO_RANK,
			     .known = sr_knowledge_of(p->knowledge, rank)};
	int err = 0;

	for (uint32_t i = 0; i < e->values_n && !err; i++) {
		v.address = e->values[i].addr;
		v.length = e->values[i].length;
		v.data = e->values[i].data;
		p->counts->values++;
		p->counts->bytes += v.length;
		err = p->hooks->value ? p->hooks->value(p->hooks->argument, &v) : 0;
	}
	return err;
}

/*
 * Faults after the previous call, and what was found at this one, each with the clocks before it.
 * 1: blocked.
 */
static int take_exposed_regions(struct process *p, size_t rank)
{
	static struct sr_exposed_records w;
	struct rank *r = &p->ranks[rank];
	const struct sr_log_call *c = &r->call;
	int err = 0;

	for (; r->regions < c->exposed_n && !err; r->regions++) {
		const struct sr_log_exposed *exposed = &c->exposed[r->regions];

		if (!sr_exposed_records_decode(&w, c->exposed_bytes + exposed->at, exposed->size))
			return -EBADMSG;
		enter_at(p, rank, (struct sr_position){.sn = w.event.fault ? c->sn - 1 : c->sn, .fault = (uint32_t)w.event.fault});
		err = take_clocks(p, rank, exposed->clocks);
		if (err)
			return err;
		r->there = false;
		err = sr_knowledge_flush(p->knowledge, rank);
		if (!err)
			err = report_exposed(p, rank, &w.event);
	}
	return err;
}

/* What precedes the call, and its entry.  1: blocked. */
static int enter(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	int ret = take_exposed_regions(p, rank);

	if (ret)
		return ret;
	if (r->call.is_part && r->clocks == r->call.clocks_n)
		return 0;
	enter_at(p, rank, (struct sr_position){.sn = r->call.sn, .stop = r->call.stop, .is_part = r->call.is_part, .accesses = r->call.accesses});
	return take_clocks(p, rank, r->call.clocks_n);
}

static bool sends_too_many(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	const struct sr_log_call *c = &r->call;
	uint64_t address;
	struct qp *q;
	size_t to;

	if ((c->what != SR_WHAT_POST_SEND && c->what != SR_WHAT_BATCH_COMPLETE) ||
	    c->in_size < sizeof(address))
		return false;
	memcpy(&address, c->in, sizeof(address));
	q = sr_log_qp_at(r, address);
	if (!q || q->messages.used < MANY_MESSAGES)
		return false;
	to = sr_log_peer_of(p, q);
	if (to == SR_NO_RANK || p->ranks[to].over || to == rank)
		return false;
	r->blocked = BY_MANY;
	r->blocked_on = to;
	r->blocked_qp = q;
	return true;
}

/* 1: blocked. */
static int take_call(struct process *p, size_t rank)
{
	const struct sr_log_call *c = &p->ranks[rank].call;

	switch (c->what) {
	case SR_WHAT_NOTHING:
		return c->is_wanted ? p->hooks->passed(p->hooks->argument,
						       &(struct sr_passed){rank, *sr_knowledge_now(p->knowledge, rank)})
				    : 0;
	case SR_WHAT_BIND_MW:
		return sr_log_bind_mw(p, rank);
	case SR_WHAT_POST_SEND:
		return sr_log_post_send(p, rank);
	case SR_WHAT_POST_RECV:
	case SR_WHAT_POST_SRQ_RECV:
		return sr_log_post_recv(p, rank);
	case SR_WHAT_POLL:
	case SR_WHAT_POLL_EX:
		return sr_log_poll_cq(p, rank);
	default:
		return c->what < SR_WHAT_DATA_PATH_END ? sr_log_batch(p, rank)
						       : sr_log_control(p, rank, c);
	}
}

/* 0: the rank is done with its call; 1: blocked; -errno. */
static int step(struct process *p, size_t rank, bool many)
{
	struct rank *r = &p->ranks[rank];
	int ret;

	r->blocked = NOT_BLOCKED;
	if (!r->entered) {
		ret = enter(p, rank);
		if (ret)
			return ret;
		if (!many && sends_too_many(p, rank))
			return 1;
		r->entered = true;
		r->completion = r->segment = 0;
		p->counts->calls += !r->call.is_part;
	}
	ret = take_call(p, rank);
	if (ret)
		return ret;
	r->has_call = false;
	return sr_knowledge_flush(p->knowledge, rank);
}

static int fetch_call(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	int got;

	if (r->has_call)
		return 1;
	got = sr_log_rank_next(r->log, &r->call, p->err);
	r->has_call = got > 0;
	r->entered = r->there = false;
	r->clocks = r->regions = 0;
	r->over = got == 0;
	if (r->over && p->links->ranks[rank].is_cut)
		r->ended_for = rank;
	return got;
}

/* Up to a quantum of calls of one rank; how many, or -errno. */
static int go_on(struct process *p, size_t rank, bool many)
{
	int done, ret = 0;

	for (done = 0; done < QUANTUM; done++) {
		ret = fetch_call(p, rank);
		if (ret <= 0)
			return ret < 0 ? ret : done + 1;
		ret = step(p, rank, many);
		if (ret < 0)
			return sr_error_set(p->err, ret, "rank %s thread %u SN %llu: %s",
					    p->links->ranks[rank].name,
					    p->ranks[rank].call.thread,
					    (unsigned long long)p->ranks[rank].call.sn,
					    ret == -ENOMEM    ? "no memory left"
					    : ret == -EBADMSG ? "a damaged record"
							      : strerror(-ret));
		if (ret)
			return done;
		many = false;
	}
	return done;
}

/* --------------------------------------------------------------- all ranks */

static bool is_blocked(const struct process *p, size_t rank)
{
	const struct rank *r = &p->ranks[rank];
	const struct qp *sender;

	switch (r->blocked) {
	case BY_EVENT:
		return !p->ranks[r->blocked_on].over &&
		       !sr_knowledge_has(p->knowledge, r->blocked_on, r->blocked_event);
	case BY_MESSAGE:
		sender = sr_log_other_end(p, r->blocked_qp);
		return !p->ranks[r->blocked_on].over && !r->blocked_qp->deaf &&
		       !(sender && sender->messages.used);
	case BY_DATAGRAM:
		return sr_log_datagram_is_awaited(p, rank);
	case BY_PICK:
		return !sr_log_find_pick((struct process *)p, rank, r->blocked_event, r->blocked_receive);
	case BY_MANY:
		return !p->ranks[r->blocked_on].over &&
		       r->blocked_qp->messages.used >= MANY_MESSAGES / 2;
	default:
		return false;
	}
}

/* The rank that is least far along its streams: the ranks ran at the same time. */
static size_t next_rank(const struct process *p, bool many)
{
	size_t best = SR_NO_RANK;
	double least = 0, far;

	for (size_t i = 0; i < p->n; i++) {
		const struct rank *r = &p->ranks[i];

		if (r->over || (is_blocked(p, i) && !(many && r->blocked == BY_MANY)))
			continue;
		far = (double)sr_log_rank_done(r->log) / (double)(sr_log_rank_size(r->log) + 1);
		if (best != SR_NO_RANK && far >= least)
			continue;
		best = i;
		least = far;
	}
	return best;
}

/*
 * A rank goes on without the datagram that it waits for: true if there was one.  Its bytes may have come into memory that the
 * record does not have, or that other datagrams have overwritten: then its length has to do.  That is tried of all before any
 * goes on without a sender, which may be one that waits here, too.
 */
static bool go_on_without_datagram(struct process *p)
{
	struct rank *in_vain = NULL;

	for (size_t i = 0; i < p->n; i++) {
		struct rank *r = &p->ranks[i];

		if (r->over || r->blocked != BY_DATAGRAM)
			continue;
		if (!r->blocked_qp->by_length) {
			r->blocked = NOT_BLOCKED;
			r->blocked_qp->by_length = true;
			return true;
		}
		if (!in_vain)
			in_vain = r;
	}
	if (!in_vain)
		return false;
	in_vain->blocked = NOT_BLOCKED;
	in_vain->in_vain = true;
	p->counts->unmatched++;
	return true;
}

int sr_log_end_early(struct process *p, size_t rank, size_t cut)
{
	const struct sr_picked lost = {.rank = rank,
				       .at = *sr_knowledge_now(p->knowledge, rank),
				       .qp_num = SR_PICK_LEFT_OUT,
				       .cut = p->links->ranks[cut].number};
	int err = p->hooks->picked ? p->hooks->picked(p->hooks->argument, &lost) : 0;

	p->ranks[rank].over = true;
	p->ranks[rank].ended_for = cut;
	p->counts->unmatched++;
	return err ? err : 1;
}

/* The rank's own trace ends before it says how many of each queue came, or another one before what it waits for. */
static int end_at_pick(struct process *p, size_t rank)
{
	size_t cut = rank;

	for (size_t i = 0; i < p->n && !p->links->ranks[cut].is_cut; i++)
		cut = i;
	if (p->links->ranks[cut].is_cut)
		return sr_log_end_early(p, rank, cut);
	p->ranks[rank].over = true;
	p->counts->unmatched++;
	return 0;
}

/*
 * All ranks are blocked.  A receive may lack its send.  Clock orders cannot block in a trace of
 * one run.
 */
static int unblock(struct process *p)
{
	const struct rank *r;
	size_t i;

	if (go_on_without_datagram(p))
		return 0;
	for (i = 0; i < p->n; i++)
		if (!p->ranks[i].over && p->ranks[i].blocked == BY_PICK)
			return end_at_pick(p, i);
	for (i = 0; i < p->n; i++) {
		struct qp *q = p->ranks[i].blocked_qp;

		if (p->ranks[i].over || p->ranks[i].blocked != BY_MESSAGE)
			continue;
		q->deaf = true;
		if (sr_log_other_end(p, q))
			sr_log_other_end(p, q)->messages.used = 0;
		p->counts->unmatched++;
		return 0;
	}
	for (i = 0; i < p->n && p->ranks[i].over; i++)
		;
	r = &p->ranks[i];
	return sr_error_set(
	    p->err, -ELOOP,
	    "the orders in the trace contradict each other: SN %llu of rank %s (thread %u) comes "
	    "after event %llu of rank %s, which waits for others in turn; that is a defect of sreplay, unless "
	    "the trace is damaged or joined from several runs: please report it, with the trace",
	    (unsigned long long)r->call.sn, p->links->ranks[i].name, r->call.thread,
	    (unsigned long long)r->blocked_event, p->links->ranks[r->blocked_on].name);
}

static bool all_over(const struct process *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (!p->ranks[i].over)
			return false;
	return true;
}

static void report_progress(const struct process *p)
{
	uint64_t done = 0;

	for (size_t i = 0; p->hooks->progress && i < p->n; i++)
		done += sr_log_rank_done(p->ranks[i].log);
	if (p->hooks->progress)
		p->hooks->progress(p->hooks->argument, done, p->size);
}

static int run(struct process *p)
{
	int ret = 0;

	while (ret >= 0 && !all_over(p)) {
		size_t rank = next_rank(p, false);
		bool many = rank == SR_NO_RANK;

		if (many)
			rank = next_rank(p, true);
		ret = rank == SR_NO_RANK ? unblock(p) : go_on(p, rank, many);
		report_progress(p);
	}
	return ret < 0 ? ret : 0;
}

static int open_ranks(struct process *p, struct sr_trace *t)
{
	int ret = 0;

	for (size_t i = 0; i < SR_CLOCK_MEMBERS; i++)
		p->of_member[i] = SR_NO_RANK;
	for (size_t i = 0; i < p->n && !ret; i++) {
		p->ranks[i].lacks_sent = sr_trace_leaves_out(t, p->links->ranks[i].number);
		p->ranks[i].ended_for = SR_NO_RANK;
		if (p->links->ranks[i].member >= 0)
			p->of_member[p->links->ranks[i].member] = i;
		ret = sr_log_rank_open(&p->ranks[i].log, t, p->links->ranks[i].number, false,
				       &(struct sr_log_wanted){p->hooks->wants, p->hooks->argument, i}, p->err);
		if (!ret)
			p->size += sr_log_rank_size(p->ranks[i].log);
		if (!ret && sr_log_read_picks(p, i))
			ret = sr_error_set(p->err, -ENOMEM, "no memory left");
	}
	return ret;
}

static void close_ranks(struct process *p)
{
	for (size_t i = 0; i < p->n; i++) {
		struct rank *r = &p->ranks[i];

		if (r->log) {
			p->counts->records += sr_log_rank_records(r->log);
			p->counts->holes += sr_log_rank_holes(r->log);
			p->counts->cut += sr_log_rank_cut(r->log);
		}
		sr_log_rank_close(r->log);
		for (size_t k = 0; k < r->qps_n; k++)
			sr_log_free_qp(r->qps[k]);
		free(r->qps);
		sr_keymap_free(&r->by_address);
		sr_keymap_free(&r->by_number);
		sr_keymap_free(&r->cm_qps);
		sr_log_free_registrations(r);
		sr_log_free_picks(r);
	}
}

struct counted {
	const struct sr_process_hooks *hooks;
	struct sr_process_counts *counts;
};

static int count_order(void *argument, const struct sr_found_order *o)
{
	const struct counted *c = argument;

	c->counts->orders++;
	return c->hooks->order ? c->hooks->order(c->hooks->argument, o) : 0;
}

int sr_process(struct sr_trace *t, const struct sr_links *links, const bool *group,
	       const struct sr_process_hooks *hooks, struct sr_process_counts *counts,
	       struct sr_error *err)
{
	struct process p = {
	    .links = links, .hooks = hooks, .counts = counts, .err = err, .n = links->ranks_n};
	struct counted counted = {hooks, counts};
	int ret;

	*counts = (struct sr_process_counts){0};
	p.ranks = calloc(p.n + 1, sizeof(*p.ranks));
	p.qp_of_end = calloc(links->ends_n + 1, sizeof(struct qp *));
	p.knowledge = sr_knowledge_new(p.n, group, count_order, &counted);
	if (!p.ranks || !p.qp_of_end || !p.knowledge)
		ret = sr_error_set(err, -ENOMEM, "no memory left");
	else
		ret = open_ranks(&p, t);
	if (!ret)
		ret = run(&p);
	if (p.knowledge)
		counts->weakened = sr_knowledge_weakened(p.knowledge);
	for (size_t i = 0; i < links->ends_n; i++)
		counts->ambiguous_links += links->ends[i].ambiguous;
	if (p.ranks)
		close_ranks(&p);
	sr_knowledge_free(p.knowledge);
	free(p.details.pieces);
	sr_log_free_datagrams(&p);
	free(p.qp_of_end);
	free(p.ranks);
	return ret;
}
