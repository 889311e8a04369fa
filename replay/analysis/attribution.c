/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/attribution.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/opcodes.h"
#include "logd/trace/read_trace.h"
#include "replay/analysis/plan/plan.h"
#include "replay/analysis/process/process.h"

/* A value, to find what a replay says of it. */
struct value {
	size_t rank, memory;
	uint32_t thread, fault;
	uint64_t sn, address;
};

struct attributing {
	struct sr_attribution *a;
	struct value *values;
	size_t values_n, values_room;
	int err;
	struct sr_written_memory *memories; /* by rank */
	struct sr_rank_set *slices;         /* by rank: whose values have reached it */
};

static void add_rank(struct sr_rank_set *s, size_t rank)
{
	if (rank < SR_SLICE_RANKS)
		s->bits[rank / 64] |= 1ull << (rank % 64);
}

static void unite(struct sr_rank_set *s, const struct sr_rank_set *other)
{
	for (size_t i = 0; i < SR_SLICE_RANKS / 64; i++)
		s->bits[i] |= other->bits[i];
}

static int see_posted(void *argument, const struct sr_posted *p)
{
	struct attributing *x = argument;
	struct sr_writer w = {p->rank, p->at.step, x->slices[p->rank]};

	if (!(sr_op(p->opcode) & SR_OP_CHANGES) || p->to == SR_NO_RANK)
		return 0;
	add_rank(&w.slice, p->rank);
	return sr_written_add(&x->memories[p->to], p->address, p->length, &w);
}

static bool is_asked_for(const struct sr_attribution *a, const struct sr_value *v)
{
	return a->has_call && v->rank == a->rank && v->at.thread == a->thread && v->at.sn == a->sn;
}

static size_t hash_of(const struct sr_origin *o)
{
	uint64_t h = (o->to * 1000003 + o->from) * 1000003 + o->memory * 2 + o->is_call;

	return (h * 0x9e3779b97f4a7c15ull) >> 32;
}

static bool is_same(const struct sr_origin *x, const struct sr_origin *y)
{
	return x->to == y->to && x->from == y->from && x->memory == y->memory &&
	       x->is_call == y->is_call;
}

static size_t *slot_of(struct sr_attribution *a, const struct sr_origin *o)
{
	size_t at = hash_of(o) & (a->slots_n - 1);

	while (a->slots[at] && !is_same(&a->origins[a->slots[at] - 1], o))
		at = (at + 1) & (a->slots_n - 1);
	return &a->slots[at];
}

static int make_room(struct sr_attribution *a)
{
	size_t room = a->room ? 2 * a->room : 256;
	struct sr_origin *origins = realloc(a->origins, room * sizeof(*origins));
	size_t *slots = origins ? calloc(2 * room, sizeof(*slots)) : NULL;

	if (origins)
		a->origins = origins;
	if (!slots)
		return -ENOMEM;
	free(a->slots);
	a->slots = slots;
	a->slots_n = 2 * room;
	a->room = room;
	for (size_t i = 0; i < a->origins_n; i++)
		*slot_of(a, &a->origins[i]) = i + 1;
	return 0;
}

static int add_origin(struct sr_attribution *a, struct sr_origin o)
{
	size_t *slot;

	if (a->origins_n == a->room && make_room(a))
		return -ENOMEM;
	slot = slot_of(a, &o);
	if (!*slot) {
		a->origins[a->origins_n] = o;
		a->origins[a->origins_n].bytes = 0;
		*slot = ++a->origins_n;
	}
	a->origins[*slot - 1].bytes += o.bytes;
	return 0;
}

/* from: a rank, n: outside, n + 1: nobody. */
static void count(struct attributing *x, const struct sr_value *v, size_t from, uint64_t bytes,
		  const struct sr_rank_set *slice)
{
	struct sr_attribution *a = x->a;
	struct sr_origin o = {.to = v->rank, .from = from, .memory = SR_NO_RANK, .bytes = bytes};

	if (!v->is_exposed && !v->is_message)
		o.memory = v->from;
	x->err |= add_origin(a, o);
	if (from < a->n)
		add_rank(&x->slices[v->rank], from);
	if (slice)
		unite(&x->slices[v->rank], slice);
	if (!is_asked_for(a, v))
		return;
	o.is_call = true;
	x->err |= add_origin(a, o);
	if (slice)
		unite(&a->slice, slice);
}

static int keep_value(struct attributing *x, const struct sr_value *v)
{
	if (x->values_n == x->values_room) {
		size_t room = x->values_room ? 2 * x->values_room : 1024;
		struct value *more = realloc(x->values, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		x->values = more;
		x->values_room = room;
	}
	x->values[x->values_n++] =
	    (struct value){.rank = v->rank,
			   .memory = v->is_exposed || v->is_message ? SR_NO_RANK : v->from,
			   .thread = v->at.thread,
			   .fault = v->at.fault,
			   .sn = v->at.sn,
			   .address = v->address};
	return 0;
}

static bool is_known(const struct sr_value *v, const struct sr_writer *w)
{
	return w->rank == v->rank ? w->step <= v->at.step : w->step <= v->known[w->rank].step;
}

/* The writer whose bytes an access to this piece found. */
static const struct sr_writer *writer_of(const struct sr_written_piece *p, const struct sr_value *v)
{
	/* An atomic brings what was there before it. */
	if (p->last.rank == v->rank && !v->is_exposed && p->last.step == v->sent.step)
		return &p->before;
	if (p->before.rank != SR_NO_RANK && !is_known(v, &p->last) && is_known(v, &p->before))
		return &p->before;
	return &p->last;
}

static void count_memory(struct attributing *x, const struct sr_value *v, size_t memory,
			 uint64_t address)
{
	const struct sr_written_memory *m = &x->memories[memory];
	/* What nobody wrote: of fetched memory its owner's CPU did, of the own memory nobody is
	 * known. */
	size_t others = v->is_exposed ? x->a->n + 1 : memory;
	uint64_t at = address, end = address + v->length;

	for (size_t i = sr_written_find(m, at); at < end; i++) {
		const struct sr_writer *w = NULL;
		uint64_t next = end;

		if (i < m->n && m->pieces[i].begin <= at) {
			w = writer_of(&m->pieces[i], v);
			next = m->pieces[i].end < end ? m->pieces[i].end : end;
		} else if (i < m->n && m->pieces[i].begin < end) {
			next = m->pieces[i].begin;
			i--;
		}
		if (w && w->rank != SR_NO_RANK)
			count(x, v, w->rank, next - at, &w->slice);
		else
			count(x, v, others, next - at,
			      others < x->a->n ? &x->slices[others] : NULL);
		at = next;
	}
}

static int see_value(void *argument, const struct sr_value *v)
{
	struct attributing *x = argument;

	x->a->call_values += is_asked_for(x->a, v);
	if (v->is_exposed)
		count_memory(x, v, v->rank, v->address);
	else if (v->from == SR_NO_RANK)
		count(x, v, x->a->n, v->length, NULL);
	else if (v->is_message)
		count(x, v, v->from, v->length, &x->slices[v->from]);
	else
		count_memory(x, v, v->from, v->remote);
	return x->err ? -ENOMEM : keep_value(x, v);
}

static size_t rank_of(const struct sr_attribution *a, int32_t number)
{
	size_t i = 0;

	while (i < a->n && a->links.ranks[i].number != number)
		i++;
	return i;
}

static int by_place(const void *a, const void *b)
{
	const struct value *x = a, *y = b;
	const uint64_t keys[][2] = {{x->rank, y->rank},
				    {x->thread, y->thread},
				    {x->sn, y->sn},
				    {x->fault, y->fault},
				    {x->address, y->address}};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] < keys[i][1] ? -1 : 1;
	return 0;
}

/* The rank whose memory the value with these bytes was fetched from. */
static size_t memory_of(const struct attributing *x, size_t rank, const struct sr_found_value *f)
{
	const struct value key = {
	    .rank = rank, .thread = f->thread, .fault = f->fault, .sn = f->sn, .address = f->addr};
	size_t low = 0, high = x->values_n;

	/* The last value that does not begin behind them. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (by_place(&x->values[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? x->values[low - 1].memory : SR_NO_RANK;
}

/* A replay's report of one rank.  Bytes that were there before did not enter. */
static int take_found(struct attributing *x, size_t to, const struct sr_found_value *f, size_t n)
{
	struct sr_attribution *a = x->a;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		struct sr_origin o = {
		    .to = to,
		    .from = f[i].flags & SR_FOUND_NOBODY ? a->n + 1 : rank_of(a, f[i].producer),
		    .memory = memory_of(x, to, &f[i]),
		    .bytes = f[i].length};

		if (f[i].flags & SR_FOUND_UNCHANGED)
			continue;
		err = add_origin(a, o);
		o.is_call = true;
		if (!err && a->has_call && to == a->rank && f[i].thread == a->thread &&
		    f[i].sn == a->sn)
			err = add_origin(a, o);
	}
	return err;
}

static void forget_origins(struct sr_attribution *a)
{
	a->origins_n = 0;
	memset(a->slots, 0, a->slots_n * sizeof(*a->slots));
}

/* Only a replay of all recorded ranks says it of all bytes; without one the plan has no report. */
static int load_report(struct attributing *x)
{
	struct sr_attribution *a = x->a;
	struct sr_plan *plan;
	size_t group;
	int err = 0;

	if (sr_plan_open(&plan, a->trace, NULL))
		return 0;
	sr_plan_group(plan, &group);
	if (x->values_n)
		qsort(x->values, x->values_n, sizeof(*x->values), by_place);
	for (size_t i = 0; i < a->n && group >= a->n && !err; i++) {
		const void *records = NULL;
		size_t n = 0;

		if (sr_plan_records(plan, SR_PLAN_FOUND, a->links.ranks[i].number, 0, &records, &n,
				    NULL) ||
		    !n)
			continue;
		if (!a->is_replayed)
			forget_origins(a);
		a->is_replayed = true;
		err = take_found(x, i, records, n);
	}
	sr_plan_close(plan);
	return err;
}

uint64_t sr_attributed(const struct sr_attribution *a, size_t from, size_t to, bool is_call)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < a->origins_n; i++) {
		const struct sr_origin *o = &a->origins[i];

		if (o->from == from && o->to == to && o->is_call == is_call)
			bytes += o->bytes;
	}
	return bytes;
}

static int pass_over(struct attributing *x, struct sr_error *err)
{
	const struct sr_process_hooks hooks = {
	    .posted = see_posted, .value = see_value, .argument = x};
	struct sr_process_counts counts;
	bool *group = calloc(x->a->n + 1, sizeof(*group));
	int ret;

	x->memories = calloc(x->a->n + 1, sizeof(*x->memories));
	x->slices = calloc(x->a->n + 1, sizeof(*x->slices));
	if (!group || !x->memories || !x->slices)
		ret = sr_error_set(err, -ENOMEM, "no memory left");
	else
		ret = sr_process(x->a->trace, &x->a->links, group, &hooks, &counts, err);
	if (!ret && load_report(x))
		ret = sr_error_set(err, -ENOMEM, "no memory left");
	for (size_t i = 0; x->memories && i < x->a->n; i++)
		sr_written_free(&x->memories[i]);
	free(x->memories);
	free(x->slices);
	free(x->values);
	free(group);
	return ret;
}

int sr_attribute(struct sr_attribution *a, struct sr_trace *t, struct sr_error *err)
{
	struct attributing x = {.a = a};
	int ret;

	a->trace = t;
	ret = sr_links_find(&a->links, t, NULL, err);
	if (ret)
		return ret;
	a->n = a->links.ranks_n;
	return pass_over(&x, err);
}

void sr_attribution_free(struct sr_attribution *a)
{
	sr_links_free(&a->links);
	free(a->origins);
	free(a->slots);
}
