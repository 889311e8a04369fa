/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_orders.c: `sreplay orders`: which rank was found to come before which, which of these orders
 * are exact (classify.h), and whether they are consistent.
 *
 * It reads the trace twice: for what was sent, and for what was found.  It also prints which queue
 * pairs carry no clocks, since when and why: a missing order there does not mean "no order".
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nicclock/closure.h"
#include "nicclock/order_code.h"
#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/print/json.h"
#include "replay/print/marks.h"
#include "replay/analysis/classify.h"
#include "replay/command/visit.h"

typedef unsigned long long ull;

struct found {
	uint64_t at;
	struct sr_order order;
	uint64_t exact; /* the event that sent what was seen then; 0: ambiguous */
};

struct connection {
	struct sr_connection_payload is;
	uint32_t thread;
	uint64_t sn; /* of the call that it is in front of */
};

#define WITHOUT_MAX 20

struct member {
	long rank;    /* -1: none of this number was recorded */
	char child[32]; /* "/1" of what it has forked first, "/1/2" of that one's second child, ... */
	bool is_read; /* its streams were asked for */
	struct found *found;
	size_t count, room;
	uint64_t events, shorts;
	struct connection *connections;
	size_t connections_n;
};

struct orders {
	struct sr_choice choice;
	struct member members[SR_CLOCK_MEMBERS];
	bool reads;               /* what was asked for, no longer what all have sent */
	int member;               /* the one whose streams are read; -1: it carries no clocks */
	struct sr_schema *schema; /* its */
	struct sr_classify *classify;
};

static const struct argp_child children[] = {{&sr_choice_argp, 0, NULL, 0}, {0}};

static const struct argp argp = {
    NULL,
    sr_parse_choice_only,
    NULL,
    "Say how often each rank was found to come before each other one, and check that these "
    "orders fit together. An order by a post says that the post had begun and that what its queue "
    "pair carried before it had landed. One by the CPU says that its rank had come so far. It is "
    "exact if the bytes that were seen then are those of a post up to there, and on that one; else "
    "it is ambiguous whether the post itself had landed. Exit status: 1 if orders contradict each "
    "other.",
    children,
    NULL,
    NULL,
};

static void note_member(struct member *m, int32_t rank, const char *child, bool is_read)
{
	m->rank = rank;
	m->is_read = is_read;
	snprintf(m->child, sizeof(m->child), "%s%s", child ? "/" : "", child ? child : "");
}

static int begin_rank(void *argument, struct sr_trace *t, int32_t rank)
{
	struct orders *o = argument;
	const json_t *extra = json_object_get(sr_trace_process(t, rank), "extra");
	json_t *member = json_object_get(extra, "member");
	struct sr_error err;

	o->member = json_is_integer(member) ? (int)json_integer_value(member) : -1;
	if (o->member >= SR_CLOCK_MEMBERS)
		o->member = -1;
	if (o->member >= 0)
		note_member(&o->members[o->member], rank, sr_trace_child(t, rank), o->reads);
	o->schema = sr_schema_of(t, rank, &err);
	return o->schema ? 0 : sr_fail("%s", err.text);
}

static int end_rank(void *argument, struct sr_trace *t, int32_t rank)
{
	struct orders *o = argument;

	sr_schema_free(o->schema);
	return 0;
}

static int keep(struct member *m, uint64_t at, const struct sr_order *order)
{
	if (m->count == m->room) {
		size_t room = m->room ? 2 * m->room : 1024;
		struct found *more = realloc(m->found, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		m->found = more;
		m->room = room;
	}
	m->found[m->count++] = (struct found){at, *order, 0};
	return 0;
}

static int take_clock(struct member *m, struct sr_order_stream *s, const struct sr_entry *e)
{
	struct sr_order order;
	uint32_t size = (uint32_t)e->size, at;
	int n = sr_order_decode_event(s, e->payload, size), err = 0;

	if (n < 0)
		return n;
	m->events++;
	for (at = (uint32_t)n; !err; at += (uint32_t)n) {
		n = sr_order_decode(s, (const uint8_t *)e->payload + at, size - at, &order);
		if (n <= 0)
			return n;
		if (order.via == SR_ORDER_SHORT)
			m->shorts++;
		else
			err = keep(m, s->event, &order);
	}
	return err;
}

/* Connections are few, so the array grows by one. */
static int take_connection(struct member *m, const struct sr_entry *e, uint32_t thread)
{
	struct connection c = {.thread = thread, .sn = e->sn + 1}, *more;

	if (!sr_entry_connection(e, &c.is))
		return -EBADMSG;
	more = realloc(m->connections, (m->connections_n + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	m->connections = more;
	m->connections[m->connections_n++] = c;
	return 0;
}

static int failed(int err, int32_t rank, uint32_t thread, uint64_t sn)
{
	return sr_fail("rank %d thread %u SN %llu: %s", rank, thread, (ull)sn,
		       err == -ENOMEM ? "no memory left" : "a damaged clock record");
}

static int read_sent(void *argument, struct sr_stream *stream, int32_t rank, uint32_t thread)
{
	struct orders *o = argument;
	struct sr_order_stream s = {0};
	struct sr_entry e;
	int got, err = 0;

	if (o->member < 0)
		return 0;
	while (err >= 0 && (got = sr_stream_next(stream, &e)) > 0) {
		if (e.kind == SR_REC_CLOCK)
			err = sr_order_decode_event(&s, e.payload, (uint32_t)e.size);
		else if (e.kind >= SR_REC_CALL && s.event)
			err = sr_classify_sent(o->classify, o->schema, o->member, s.event, &e);
	}
	if (err < 0)
		return failed(err, rank, thread, e.sn);
	return got < 0 ? SR_EXIT_FAILED : 0;
}

/* Classifies the orders from `first` on, which precede this call. */
static void classify(struct orders *o, struct member *m, size_t first, const struct sr_entry *e)
{
	if (!sr_classify_seen(o->classify, o->schema, e))
		return;
	for (size_t i = first; i < m->count; i++) {
		const struct sr_order *order = &m->found[i].order;

		m->found[i].exact = sr_classify_event(o->classify, order->member, order->event);
	}
}

static int read_stream(void *argument, struct sr_stream *stream, int32_t rank, uint32_t thread)
{
	struct orders *o = argument;
	struct member *m = &o->members[o->member >= 0 ? o->member : 0];
	struct sr_order_stream s = {0};
	size_t classified = m->count;
	struct sr_entry e;
	int got, err = 0;

	if (o->member < 0)
		return 0;
	while (!err && (got = sr_stream_next(stream, &e)) > 0) {
		if (e.kind == SR_REC_CLOCK) {
			err = take_clock(m, &s, &e);
		} else if (e.kind == SR_REC_CONNECTION) {
			err = take_connection(m, &e, thread);
		} else if (e.kind >= SR_REC_CALL) {
			if (classified < m->count)
				classify(o, m, classified, &e);
			classified = m->count;
		}
	}
	if (err)
		return failed(err, rank, thread, e.sn);
	return got < 0 ? SR_EXIT_FAILED : 0;
}

static int by_event(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

/* 0, -ELOOP, -ENOMEM, or -EINVAL: an order names what cannot be. */
static int check(struct orders *o)
{
	struct sr_closure *c = sr_closure_create(SR_CLOCK_MEMBERS);
	int err = c ? 0 : -ENOMEM;

	for (int i = 0; i < SR_CLOCK_MEMBERS; i++) {
		struct member *m = &o->members[i];

		/* Streams of its threads come one after the other. */
		if (m->count)
			qsort(m->found, m->count, sizeof(*m->found), by_event);
		for (size_t k = 0; k < m->count && !err; k++)
			err = sr_closure_add(c, i, m->found[k].at, &m->found[k].order);
	}
	if (!err)
		err = sr_closure_compute(c);
	sr_closure_free(c);
	return err;
}

/* How often one rank was found to come before another. */
struct pair {
	ull posts, cpu, exact;
	uint64_t last;
};

static struct pair count_pair(const struct member *later, int number)
{
	struct pair p = {0};

	for (size_t k = 0; k < later->count; k++) {
		const struct sr_order *order = &later->found[k].order;

		if (order->member != number)
			continue;
		p.posts += order->via == SR_ORDER_CELL;
		p.cpu += order->via == SR_ORDER_OWN;
		p.exact += later->found[k].exact != 0;
		if (order->event > p.last)
			p.last = order->event;
	}
	return p;
}

static void print_pair(const struct member *later, const struct member *earlier, int number)
{
	struct pair p = count_pair(later, number);

	if (p.posts + p.cpu)
		printf("rank %ld%s before rank %ld%s: %llu orders (%llu by posts, %llu by its CPU; "
		       "%llu exact, %llu ambiguous), up to its event %llu\n",
		       earlier->rank, earlier->child, later->rank, later->child, p.posts + p.cpu, p.posts, p.cpu, p.exact,
		       p.posts + p.cpu - p.exact, (ull)p.last);
}

static void print_without(const struct member *m, const struct connection *c)
{
	printf("rank %ld%s: ", m->rank, m->child);
	if (c->is.number)
		printf("queue pair %u", c->is.number);
	else
		printf("the process");
	if (c->is.peer)
		printf(" to %u", c->is.peer);
	if (c->is.peer_rank >= 0)
		printf(" of rank %d", c->is.peer_rank);
	printf(" carries %s from thread %u SN %llu on: %s",
	       c->is.carries < SR_CARRIES_NONE ? "no clocks with its READs" : "no clocks",
	       c->thread, (ull)c->sn, sr_carries_why(c->is.carries));
	printf(c->is.error ? " (%s)\n" : "\n", strerrorname_np(c->is.error));
}

static bool is_last(const struct member *m, size_t i)
{
	for (size_t k = i + 1; k < m->connections_n; k++)
		if (m->connections[k].is.number == m->connections[i].is.number)
			return false;
	return true;
}

static void print_connections(const struct member *m)
{
	size_t last = 0, without = 0;

	for (size_t i = 0; i < m->connections_n; i++) {
		const struct connection *c = &m->connections[i];
		bool is_without = sr_carries_why(c->is.carries)[0];

		last += is_last(m, i) && c->is.number;
		without += is_without && is_last(m, i) && c->is.number;
	}
	if (last)
		printf("rank %ld%s: %zu of %zu queue pairs carry clocks\n", m->rank, m->child, last - without,
		       last);
	without = 0;
	for (size_t i = 0; i < m->connections_n; i++)
		if (sr_carries_why(m->connections[i].is.carries)[0] && without++ < WITHOUT_MAX)
			print_without(m, &m->connections[i]);
	if (without > WITHOUT_MAX)
		printf("rank %ld%s: and %zu more (sreplay dump: \"connection\")\n", m->rank, m->child,
		       without - WITHOUT_MAX);
}

static json_t *connection_json(const struct connection *c)
{
	return json_pack("{s:o, s:o, s:o, s:i, s:I, s:b, s:s, s:o}", "queue_pair",
			 c->is.number ? json_integer(c->is.number) : json_null(), "peer",
			 c->is.peer ? json_integer(c->is.peer) : json_null(), "peer_rank",
			 c->is.peer_rank >= 0 ? json_integer(c->is.peer_rank) : json_null(), "thread",
			 (int)c->thread, "sn", (json_int_t)c->sn, "only_reads",
			 c->is.carries < SR_CARRIES_NONE, "why", sr_carries_why(c->is.carries), "error",
			 c->is.error ? sr_json_string(strerrorname_np(c->is.error)) : json_null());
}

/* NULL: it is a rank. */
static const char *child_of(const struct member *m)
{
	return m->child[0] ? m->child + 1 : NULL;
}

static json_t *member_json(const struct member *m)
{
	json_t *without = json_array();

	for (size_t i = 0; i < m->connections_n; i++)
		if (sr_carries_why(m->connections[i].is.carries)[0])
			json_array_append_new(without, connection_json(&m->connections[i]));
	return json_pack("{s:i, s:s*, s:I, s:I, s:I, s:o}", "rank", (int)m->rank, "child", child_of(m), "events",
			 (json_int_t)m->events, "orders", (json_int_t)m->count, "reads_short_of_cells",
			 (json_int_t)m->shorts, "without_clocks", without);
}

static json_t *pair_json(const struct member *later, const struct member *earlier, const struct pair *p)
{
	return json_pack("{s:i, s:s*, s:i, s:s*, s:I, s:I, s:I, s:I}", "before", (int)earlier->rank, "before_child", child_of(earlier),
			 "after", (int)later->rank, "after_child", child_of(later), "by_posts", (json_int_t)p->posts, "by_cpu",
			 (json_int_t)p->cpu, "exact", (json_int_t)p->exact, "up_to_event",
			 (json_int_t)p->last);
}

static void print_json(const struct orders *o, bool is_consistent)
{
	json_t *pairs = json_array(), *ranks = json_array();

	for (int i = 0; i < SR_CLOCK_MEMBERS; i++) {
		const struct member *m = &o->members[i];

		for (int k = 0; m->count && k < SR_CLOCK_MEMBERS; k++) {
			struct pair p = count_pair(m, k);

			if (p.posts + p.cpu)
				json_array_append_new(pairs, pair_json(m, &o->members[k], &p));
		}
		if (m->is_read)
			json_array_append_new(ranks, member_json(m));
	}
	sr_json_print(json_pack("{s:o, s:b, s:o, s:o}", "trace", sr_json_string(o->choice.dir),
				"consistent", is_consistent, "pairs", pairs, "ranks", ranks));
}

static void print(const struct orders *o)
{
	for (int i = 0; i < SR_CLOCK_MEMBERS; i++)
		for (int k = 0; k < SR_CLOCK_MEMBERS; k++)
			if (o->members[i].count)
				print_pair(&o->members[i], &o->members[k], k);
	for (int i = 0; i < SR_CLOCK_MEMBERS; i++) {
		const struct member *m = &o->members[i];

		if (!m->is_read)
			continue;
		printf("rank %ld%s: %llu events, %zu orders found\n", m->rank, m->child, (ull)m->events,
		       m->count);
		print_connections(m);
		if (m->shorts)
			printf("rank %ld%s: at %llu READs the peer had more clock cells than were "
			       "read; orders may be missing there\n",
			       m->rank, m->child, (ull)m->shorts);
	}
}

int sr_cmd_orders(int argc, char **argv)
{
	static struct sr_visitor visitor = {
	    .rank = begin_rank,
	    .rank_end = end_rank,
	    .thread = -1,
	    .last_image = true,
	    .children = true,
	    .cannot_open = SR_EXIT_FAILED};
	static struct orders o = {.choice = SR_CHOICE_INIT};
	struct sr_choice all;
	int status, err;

	for (int i = 0; i < SR_CLOCK_MEMBERS; i++)
		o.members[i].rank = -1;
	if (sr_argp_parse(&argp, argc, argv, 0, &o.choice))
		return SR_EXIT_FAILED;
	o.classify = sr_classify_new();
	if (!o.classify)
		return sr_fail("no memory left");
	visitor.stream = read_sent;
	all = (struct sr_choice){.dir = o.choice.dir, .rank = -1};
	status = sr_visit(&all, &visitor, &o);
	sr_classify_all_sent(o.classify);
	visitor.stream = read_stream;
	o.reads = true;
	if (!status)
		status = sr_visit(&o.choice, &visitor, &o);
	sr_classify_free(o.classify);
	if (status)
		return status;
	if (!o.choice.json)
		print(&o);
	err = check(&o);
	if (o.choice.json && err != -ENOMEM)
		print_json(&o, !err);
	for (int i = 0; i < SR_CLOCK_MEMBERS; i++) {
		free(o.members[i].found);
		free(o.members[i].connections);
	}
	if (err == -ENOMEM)
		return sr_fail("no memory left");
	if (err) {
		sr_fail("the orders of %s contradict each other", o.choice.dir);
		return 1;
	}
	return 0;
}
