/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/plan_make.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "logd/base/opcodes.h"
#include "logd/trace/read_trace.h"
#include "replay/analysis/plan/draft.h"
#include "replay/analysis/plan/file.h"
#include "replay/analysis/traffic.h"

/* The share of the first pass in the progress bar. */
#define FIRST_PASS 0.3

/* The check that grows, for one rank's writes and another's values. */
struct pending {
	struct sr_plan_check check;
	uint64_t step;
};

struct maker {
	struct sr_trace *t;
	struct sr_links links;
	size_t n;
	bool *group;      /* by rank */
	int32_t *numbers; /* of the group */
	size_t numbers_n;
	uint64_t identity, children, group_hash;
	struct sr_draft *draft;
	struct pending *pending;     /* [whose writes][whose values] */
	bool *wrote; /* [rank][to], the outside behind the ranks */
	struct sr_traffic traffic;
	void (*progress)(double done);
};

/* -------------------------------------------------------------- what is found */

static int take_order(void *argument, const struct sr_found_order *o)
{
	struct maker *m = argument;
	const uint64_t of_sn = o->of.stop ? o->of.sn - 1 : o->of.sn;
	const uint16_t of_stop = o->of.stop < UINT16_MAX ? (uint16_t)o->of.stop : UINT16_MAX;
	const struct sr_plan_wait wait = {.sn = o->at.sn,
					  .for_sn = of_sn,
					  .for_rank = m->links.ranks[o->of_rank].number,
					  .for_thread = o->of.thread,
					  .flags = (uint16_t)o->flags,
					  .for_stop = of_stop,
					  .fault = o->at.fault};
	const struct sr_plan_wake wake = {.sn = of_sn,
					  .their_sn = o->at.sn,
					  .their_rank = m->links.ranks[o->rank].number,
					  .their_thread = o->at.thread,
					  .flags = (uint16_t)o->flags,
					  .stop = of_stop,
					  .their_fault = o->at.fault};
	int err = sr_draft_add(m->draft, SR_PLAN_WAIT, o->rank, o->at.thread, &wait);

	return err ? err
		   : sr_draft_defer(m->draft, SR_PLAN_WAKE, o->of_rank, o->rank, o->of.thread,
				    o->of.step, &wake);
}

static size_t column(const struct maker *m, size_t to)
{
	return to == SR_NO_RANK ? m->n : to;
}

static int take_posted(void *argument, const struct sr_posted *p)
{
	struct maker *m = argument;

	if (sr_op(p->opcode) & SR_OP_CHANGES)
		m->wrote[p->rank * (m->n + 1) + column(m, p->to)] = true;
	if (m->group[p->rank])
		sr_traffic_add(&m->traffic, p->rank, column(m, p->to), p->opcode, p->length);
	return 0;
}

static int add_check(struct maker *m, size_t whose, size_t values, const struct sr_plan_check *c,
		     uint32_t thread, uint64_t step)
{
	return sr_draft_defer(m->draft, SR_PLAN_CHECK, whose, values, thread, step, c);
}

static int flush_pending(struct maker *m, size_t whose, size_t values)
{
	struct pending *p = &m->pending[whose * m->n + values];
	uint64_t step = p->step;

	p->step = 0;
	if (!step)
		return 0;
	/* Checks without EXACT keep the thread in `reserved` until here. */
	return add_check(m, whose, values,
			 &(struct sr_plan_check){.sn = p->check.sn,
						 .their_sn = p->check.their_sn,
						 .their_rank = p->check.their_rank,
						 .their_thread = p->check.their_thread,
						 .flags = p->check.flags,
						 .their_fault = p->check.their_fault},
			 p->check.reserved, step);
}

static struct sr_plan_check check_of(const struct maker *m, const struct sr_value *v,
				     const struct sr_position *whose)
{
	return (struct sr_plan_check){.sn = whose->sn,
				      .their_sn = v->at.sn,
				      .their_rank = m->links.ranks[v->rank].number,
				      .their_thread = v->at.thread,
				      .flags = v->flags,
				      .their_fault = v->at.fault};
}

/* Algorithm 3: the value extends the check after the last known call of `whose`. */
static int compare_later(struct maker *m, size_t whose, const struct sr_value *v)
{
	struct pending *p = &m->pending[whose * m->n + v->rank];
	const struct sr_position *known = &v->known[whose];
	int err = 0;

	if (p->step && (p->check.sn != known->sn || p->check.reserved != known->thread ||
			p->check.their_thread != v->at.thread))
		err = flush_pending(m, whose, v->rank);
	p->check = check_of(m, v, known);
	p->check.reserved = known->thread;
	p->step = known->step;
	return err;
}

static size_t memory_of(const struct maker *m, const struct sr_value *v)
{
	return v->is_exposed ? v->rank : column(m, v->from);
}

static int take_value(void *argument, const struct sr_value *v)
{
	struct maker *m = argument;
	struct sr_plan_check exact;
	size_t memory = memory_of(m, v);
	int err = 0;

	if (!m->group[v->rank])
		return 0;
	if (v->is_message) {
		if (!m->group[v->from])
			return 0;
		exact = check_of(m, v, &v->sent);
		exact.flags |= SR_PLAN_EXACT;
		exact.request = v->request;
		exact.completion = v->completion;
		return add_check(m, v->from, v->rank, &exact, v->sent.thread, v->sent.step);
	}
	for (size_t i = 0; i < m->n && !err; i++)
		if (i != v->rank && m->group[i] && v->known[i].step &&
		    (i == memory || m->wrote[i * (m->n + 1) + memory]))
			err = compare_later(m, i, v);
	return err;
}

static int32_t peer_number(const struct maker *m, size_t rank)
{
	return rank == SR_NO_RANK || !m->group[rank] ? SR_RANK_OUTSIDE
						     : m->links.ranks[rank].number;
}

static int take_fetched(void *argument, const struct sr_fetched *f)
{
	struct maker *m = argument;
	const struct sr_plan_request r = {.sn = f->posted.sn,
					  .completed_sn = f->completed.sn,
					  .completed_thread = f->completed.thread,
					  .request = f->request,
					  .completion = f->completion,
					  .peer = peer_number(m, f->from),
					  .flags = f->flags};

	if (!m->group[f->rank])
		return 0;
	return sr_draft_defer(m->draft, SR_PLAN_REQUEST, f->rank, f->rank, f->posted.thread,
			      f->posted.step, &r);
}

static int take_picked(void *argument, const struct sr_picked *p)
{
	struct maker *m = argument;

	if (!m->group[p->rank])
		return 0;
	return sr_draft_add(m->draft, SR_PLAN_PICK, p->rank, p->at.thread,
			    &(struct sr_plan_pick){.sn = p->at.sn, .qp_num = p->qp_num,
						  .receives = p->qp_num == SR_PICK_LEFT_OUT ? (uint32_t)p->cut : p->receives});
}

static int take_places(void *argument, int32_t number, uint32_t thread,
		       const struct sr_stream_place *places, size_t n)
{
	struct maker *m = argument;
	size_t rank = 0;
	int err = 0;

	while (m->links.ranks[rank].number != number)
		rank++;
	for (size_t i = 0; i < n && m->group[rank] && !err; i++)
		err = sr_draft_add(m->draft, SR_PLAN_PLACE, rank, thread,
				   &(struct sr_plan_place){.sn = places[i].sn,
						  .offset = places[i].offset,
						  .ring_position = places[i].ring_position});
	return err;
}

static int put_peers(struct maker *m)
{
	int err = 0;

	for (size_t rank = 0; rank < m->n && !err; rank++)
		for (size_t i = 0; i < m->links.ranks[rank].ends_n && !err; i++) {
			const struct sr_end *e = &m->links.ends[m->links.ranks[rank].ends[i]];
			const struct sr_end *o =
			    e->peer == SR_NO_END ? NULL : &m->links.ends[e->peer];

			if (m->group[rank])
				err = sr_draft_add(m->draft, SR_PLAN_PEER, rank, e->thread,
					  &(struct sr_plan_peer){
					      .sn = e->sn,
					      .qp = e->qp,
					      .qp_num = e->qp_num,
					      .peer_qp_num = e->peer_qp_num,
					      .peer_qp = o ? o->qp : 0,
					      .peer = peer_number(m, o ? o->rank : SR_NO_RANK),
					      .flags = e->ambiguous ? SR_PLAN_AMBIGUOUS : 0});
		}
	return err;
}

static json_t *group_list(const struct maker *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->numbers_n; i++)
		json_array_append_new(list, json_integer(m->numbers[i]));
	return list;
}

static json_t *summary_of(const struct maker *m, const struct sr_process_counts *c)
{
	char identity[17], children[17];

	snprintf(children, sizeof(children), "%016llx", (unsigned long long)m->children);
	snprintf(identity, sizeof(identity), "%016llx", (unsigned long long)m->identity);
	return json_pack(
	    "{s:s, s:i, s:s, s:s, s:o, s:{s:I, s:I, s:I, s:I, s:I}, s:{s:I, s:I, s:I, s:I, "
	    "s:I, s:I}, s:o}",
	    "format", "sreplay-plan", "version", SR_PLAN_VERSION, "trace", identity, "children", children, "group",
	    group_list(m), "counts", "records", (json_int_t)c->records, "values",
	    (json_int_t)c->values, "value_bytes", (json_int_t)c->bytes, "orders",
	    (json_int_t)c->orders, "messages", (json_int_t)c->messages, "doubts", "ambiguous_links",
	    (json_int_t)c->ambiguous_links, "unmatched_receives", (json_int_t)c->unmatched,
	    "unexpected_completions", (json_int_t)c->unexpected, "weakened_orders",
	    (json_int_t)c->weakened, "missing_calls", (json_int_t)c->holes, "dropped_checks",
	    (json_int_t)sr_draft_dropped(m->draft), "traffic",
	    sr_traffic_json(&m->traffic, &m->links));
}

static int flush_all_pending(struct maker *m)
{
	int err = 0;

	for (size_t i = 0; i < m->n * m->n && !err; i++)
		err = flush_pending(m, i / m->n, i % m->n);
	return err;
}

/* --------------------------------------------------------------------- all */

static void first_pass_progress(void *argument, uint64_t done, uint64_t size)
{
	const struct maker *m = argument;

	if (m->progress)
		m->progress(FIRST_PASS * (double)done / (double)(size ? size : 1));
}

static void second_pass_progress(void *argument, uint64_t done, uint64_t size)
{
	const struct maker *m = argument;

	if (m->progress)
		m->progress(FIRST_PASS +
			    (1 - FIRST_PASS) * (double)done / (double)(size ? size : 1));
}

static int by_number(const void *a, const void *b)
{
	const int32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int choose_group(struct maker *m, const int32_t *group, size_t n, struct sr_error *err)
{
	m->n = sr_trace_ranks(m->t);
	m->group = calloc(m->n + 1, sizeof(*m->group));
	m->numbers = calloc(m->n + n + 1, sizeof(*m->numbers));
	if (!m->group || !m->numbers)
		return sr_error_set(err, -ENOMEM, "no memory left");
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < m->n && sr_trace_rank_number(m->t, k) != group[i])
			k++;
		if (k == m->n)
			return sr_error_set(err, -ENOENT, "%s has no rank %d", sr_trace_dir(m->t),
					    group[i]);
		m->group[k] = true;
	}
	for (size_t k = 0; k < m->n; k++) {
		m->group[k] |= !n;
		if (m->group[k])
			m->numbers[m->numbers_n++] = sr_trace_rank_number(m->t, k);
	}
	qsort(m->numbers, m->numbers_n, sizeof(*m->numbers), by_number);
	m->group_hash = sr_plan_group_hash(m->numbers, m->numbers_n);
	return 0;
}

static int prepare(struct maker *m, struct sr_error *err)
{
	int ret;

	m->draft = sr_draft_new(sr_trace_dir(m->t), &m->links, m->n, err);
	if (!m->draft)
		return -EIO;
	m->pending = calloc(m->n * m->n + 1, sizeof(*m->pending));
	m->wrote = calloc(m->n * (m->n + 1) + 1, sizeof(*m->wrote));
	if (!m->pending || !m->wrote || sr_traffic_init(&m->traffic, m->n))
		return sr_error_set(err, -ENOMEM, "no memory left");
	ret = sr_plan_identity(m->t, &m->identity, err);
	return ret ? ret : sr_plan_children_identity(m->t, &m->children, err);
}

static void clean_up(struct maker *m)
{
	sr_draft_free(m->draft);
	sr_links_free(&m->links);
	sr_traffic_free(&m->traffic);
	free(m->pending);
	free(m->wrote);
	free(m->group);
	free(m->numbers);
}

static int publish(struct maker *m, const struct sr_process_counts *counts)
{
	json_t *summary = summary_of(m, counts);
	int ret = summary ? sr_draft_publish(m->draft, summary, m->identity, m->group_hash)
			  : -ENOMEM;

	json_decref(summary);
	return ret;
}

static int write_plan(struct maker *m, const struct sr_process_counts *counts, struct sr_error *err)
{
	int ret = put_peers(m);

	if (!ret)
		ret = flush_all_pending(m);
	if (!ret)
		ret = sr_draft_merge(m->draft);
	if (!ret)
		ret = publish(m, counts);
	if (ret)
		sr_error_set(err, ret, "cannot write the plan of %s: %s", sr_trace_dir(m->t),
			     strerror(-ret));
	return ret;
}

int sr_plan_make(struct sr_trace *t, const int32_t *group, size_t n, void (*progress)(double done),
		 struct sr_process_counts *counts, struct sr_error *err)
{
	struct maker m = {.t = t, .progress = progress};
	const struct sr_links_hooks first = {first_pass_progress, take_places, &m};
	const struct sr_process_hooks second = {.order = take_order,
						.posted = take_posted,
						.value = take_value,
						.fetched = take_fetched,
						.picked = take_picked,
						.progress = second_pass_progress,
						.argument = &m};
	int ret = choose_group(&m, group, n, err);

	if (!ret)
		ret = prepare(&m, err);
	if (!ret)
		ret = sr_links_find(&m.links, t, &first, err);
	if (!ret)
		ret = sr_process(t, &m.links, m.group, &second, counts, err);
	if (!ret)
		ret = write_plan(&m, counts, err);
	clean_up(&m);
	return ret;
}
