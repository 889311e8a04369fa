/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Of the writes to the sampled memory, those count that fit the bytes, word by word, and are
 * not known to come after the sample.  Of those that are known to come before it, the last is
 * taken; else the earliest of the others, because what was seen of a writer orders all it did
 * before.  Of several writers that nothing orders, the likeliest is named and marked as one of
 * several.
 */
#include "replay/host/producers/search.h"

#include <string.h>

/* Of each writer so many writes are tried for a value, from the likeliest on: some of all, then of those that left it. */
#define FEW	  16
#define MAX_TRIED 4096

void sr_search_begin(struct sr_search *x, const struct sr_ended_group *e)
{
	x->e = e;
	x->samples = sr_view_map(e->fd, sr_group_samples_at(e->self),
				 atomic_load(&e->group->member[e->self].sampled));
}

void sr_search_end(struct sr_search *x)
{
	sr_view_unmap(&x->samples);
	sr_view_positions_free(&x->positions);
	for (int i = 0; i < SR_GROUP_MEMBERS; i++)
		sr_values_free(x->values[i]);
}

/* The next n bytes of a sample; false: it ends before. */
static bool take(const struct sr_search *x, uint64_t *at, void *to, size_t n)
{
	if (*at > x->samples.n || n > x->samples.n - *at)
		return false;
	memcpy(to, x->samples.bytes + *at, n);
	*at += n;
	return true;
}

bool sr_sample_load(const struct sr_search *x, uint64_t place, struct sr_sample *k)
{
	const uint32_t members = x->e->group->members;

	return take(x, &place, &k->l, sizeof(k->l)) && k->l.length <= PAGE && k->l.member >= 0 &&
	       (uint32_t)k->l.member < members && take(x, &place, k->knows, members * sizeof(k->knows[0])) &&
	       take(x, k->l.bytes_at ? &k->l.bytes_at : &place, k->bytes, k->l.length) &&
	       (!k->l.seen || take(x, &place, k->before, k->l.length));
}

/* What the writer knew of the member when it wrote. */
static uint64_t knew(struct sr_search *x, const struct sr_group_origin *o, uint32_t member)
{
	return sr_view_knew(&x->positions, x->e->fd, x->e->group, o, member);
}

static bool is_after(struct sr_search *x, const struct sr_sample *k,
		     const struct sr_group_write *w)
{
	if ((uint32_t)w->origin.member == x->e->self)
		return w->origin.tick > k->l.posted ||
		       (w->kind != SR_GROUP_OWN && w->origin.tick == k->l.origin.tick &&
			w->origin.request >= k->l.origin.request);
	return knew(x, &w->origin, x->e->self) > k->l.posted;
}

static bool is_known(const struct sr_sample *k, uint32_t self, const struct sr_group_write *w)
{
	const struct sr_group_origin *o = &w->origin, *request = &k->l.origin;

	/* What a CPU stored after a post may come any time after it. */
	if (w->kind == SR_GROUP_SHARED)
		return o->tick < ((uint32_t)o->member == self ? request->tick : k->knows[o->member]) ||
		       o->request < k->stores[o->member];
	if ((uint32_t)o->member != self)
		return o->tick <= k->knows[o->member];
	if (w->kind == SR_GROUP_OWN || k->l.seen)
		return o->tick < request->tick + k->l.seen;
	return o->tick < request->tick ||
	       (o->tick == request->tick && o->request < request->request);
}

/* Bits of the n bytes at addr in their word, which is one. */
static uint8_t bits_of(uint64_t addr, uint32_t n)
{
	return (uint8_t)(((1u << n) - 1) << addr % 8);
}

static uint32_t spent_at(uint64_t addr)
{
	return (uint32_t)((addr / 8 * 0x9e3779b97f4a7c15ull >> 40) % SR_SPENT);
}

/* Of the same bytes those that the sample changed: a write may bring its others later. */
static uint8_t changed_bits(const struct sr_sample *k, uint64_t addr, uint32_t n)
{
	uint64_t at = addr - k->l.addr;
	uint8_t bits = 0;

	for (uint32_t i = 0; i < n; i++)
		if (k->before[at + i] != k->bytes[at + i])
			bits |= bits_of(addr + i, 1);
	return bits;
}

/* NULL: this member has brought nothing of the word yet. */
static const struct sr_spent *spent_of(const struct sr_search *x, uint64_t addr, int32_t member)
{
	const struct sr_spent *s = &x->spent[spent_at(addr)];

	return s->word == addr / 8 && s->member == member ? s : NULL;
}

/* Did its member post it before what it brought last? */
static bool is_before(const struct sr_group_origin *o, const struct sr_spent *s)
{
	return o->tick != s->tick ? o->tick < s->tick : o->request < s->request;
}

/* Has the write, or a later one by the same writer, brought one of these bytes of the word already? */
static bool is_spent(const struct sr_search *x, const struct sr_sample *k, uint64_t addr, uint32_t n,
		     const struct sr_group_origin *o)
{
	const struct sr_spent *s = spent_of(x, addr, o->member);

	if (!s || is_before(o, s))
		return s;
	return o->tick == s->tick && o->request == s->request && s->bytes & changed_bits(k, addr, n);
}

void sr_search_spend(struct sr_search *x, uint64_t addr, uint32_t n,
		  const struct sr_group_origin *o)
{
	struct sr_spent *s = &x->spent[spent_at(addr)];

	if (s->word == addr / 8 && s->member == o->member && is_before(o, s))
		return;
	if (s->word != addr / 8 || s->tick != o->tick || s->member != o->member ||
	    s->request != o->request)
		*s = (struct sr_spent){addr / 8, o->tick, o->member, o->request, 0};
	s->bytes |= bits_of(addr, n);
}

uint32_t sr_search_common(const struct sr_group_write *w, const struct sr_wanted *b)
{
	uint64_t end = w->addr + w->length < b->end ? w->addr + w->length : b->end;

	return w->addr <= b->addr && b->addr < end ? (uint32_t)(end - b->addr) : 0;
}

/*
 * It has written the byte, and all bytes of the word that it has written are as it left
 * them: a single byte may be equal by chance.
 */
static bool fits(const struct sr_search *x, const struct sr_sample *k, const struct sr_writes *m,
		 const struct sr_group_write *w, const struct sr_wanted *b)
{
	uint64_t begin = w->addr > b->begin ? w->addr : b->begin;
	const uint8_t *written;
	uint32_t n = sr_search_common(w, b);

	if (!n || sr_group_is_open(w->kind) != b->atomics)
		return false;
	/* A change that was sampled came from others. */
	if (k->l.seen && (w->kind == SR_GROUP_OWN || is_spent(x, k, b->addr, n, &w->origin)))
		return false;
	n += (uint32_t)(b->addr - begin);
	written = sr_writes_bytes(m, w, begin - w->addr, n);
	return b->atomics || (written && !memcmp(k->bytes + (begin - k->l.addr), written, n));
}

/* The first of them that is not known: they are in the order of their ticks. */
static size_t first_unknown(const struct sr_search *x, const struct sr_sample *k,
			    const struct sr_writes *m, struct sr_lines_range r)
{
	while (r.first < r.end) {
		size_t middle = r.first + (r.end - r.first) / 2;

		if (is_known(k, x->e->self, sr_lines_write(&m->lines, middle)))
			r.first = middle + 1;
		else
			r.end = middle;
	}
	return r.first;
}

/* A writer's stores within one tick come one after the other; of its other writes only the ticks are in order. */
static bool is_past(const struct sr_group_write *w, const struct sr_spent *s)
{
	if (w->kind == SR_GROUP_SHARED && w->origin.tick == s->tick)
		return w->origin.request < s->request;
	return w->origin.tick < s->tick;
}

/* Without the writes that a change of the word cannot have come from any more, which are the first. */
static struct sr_lines_range not_spent(const struct sr_search *x, const struct sr_sample *k,
					const struct sr_writes *m, struct sr_lines_range r, uint64_t addr)
{
	const struct sr_spent *s = NULL;
	size_t end = r.end;

	if (k->l.seen && r.first < r.end)
		s = spent_of(x, addr, sr_lines_write(&m->lines, r.first)->origin.member);
	while (s && r.first < end) {
		size_t middle = r.first + (end - r.first) / 2;

		if (is_past(sr_lines_write(&m->lines, middle), s))
			r.first = middle + 1;
		else
			end = middle;
	}
	return r;
}

static bool is_ordered(struct sr_search *x, const struct sr_group_origin *a,
		       const struct sr_group_origin *b)
{
	return knew(x, b, (uint32_t)a->member) >= a->tick ||
	       knew(x, a, (uint32_t)b->member) >= b->tick;
}

/* Of two writers' writes, takes the later if both are known, else the earlier. */
static void choose(struct sr_search *x, struct sr_search_found *f, const struct sr_group_write *w,
		   bool known)
{
	const struct sr_group_write *old = f->w;

	if (old && f->is_known && !known)
		return;
	if (!old || f->is_known != known) {
		*f = (struct sr_search_found){.w = w, .is_known = known};
		return;
	}
	f->is_one_of_several =
	    f->is_one_of_several || !known || !is_ordered(x, &old->origin, &w->origin);
	if (known ? w->origin.weight > old->origin.weight : w->origin.weight < old->origin.weight)
		f->w = w;
}

/* May a write count that is not known to be before?  With clocks, an outsider is likelier. */
static bool counts_unknown(const struct sr_search *x, const struct sr_writes *m,
			   const struct sr_group_write *w, uint64_t addr)
{
	return !x->e->has_clocks || w->kind == SR_GROUP_OWN || w->kind == SR_GROUP_SHARED || !sr_writes_may_be_outsiders(m, addr);
}

static enum sr_lines_list_name list_for(const struct sr_sample *k)
{
	return k->l.seen ? SR_LINES_CHANGES : SR_LINES_WITH_BYTES;
}

/* One writer's entries in a line, of which one is searched for that brought a value. */
struct entries {
	struct sr_lines_range all;
	struct sr_lines_range left; /* those that can have */
	size_t unknown;		    /* the first one that is not known to come before the sample */
};

/* What a search looks at, and for. */
struct query {
	struct sr_search *x;
	const struct sr_sample *k;
	const struct sr_writes *m;
	const struct sr_wanted *b;
	struct entries e;
	struct sr_values_run *runs; /* room for SR_VALUES_RUNS */
	int runs_n;
};

/* Those that have left the value.  False: it cannot be said which ones. */
static bool find_runs(struct query *q)
{
	const struct sr_values_wanted wanted = {
	    .addr = q->b->addr,
	    .begin = q->b->begin,
	    .end = q->b->end,
	    .bytes = q->k->bytes + (q->b->begin - q->k->l.addr),
	    .is_open = q->b->atomics,
	    .with_own = !q->k->l.seen,
	};

	struct sr_values **values = &q->x->values[q->k->l.member];

	if (!*values)
		*values = sr_values_new();
	q->runs_n = *values ? sr_values_find(*values, q->m, q->e.all, &wanted, q->runs) : -1;
	return q->runs_n >= 0;
}

static bool is_last(const struct query *q, const struct sr_group_write *w)
{
	return fits(q->x, q->k, q->m, w, q->b);
}

static bool is_possible(const struct query *q, const struct sr_group_write *w)
{
	return counts_unknown(q->x, q->m, w, q->b->addr) && fits(q->x, q->k, q->m, w, q->b) && !is_after(q->x, q->k, w);
}

/* The last entry of the run from `least` on; SIZE_MAX: none. */
static size_t last_of_run(const struct query *q, const struct sr_values_run *run, size_t least)
{
	const uint64_t *at = sr_values_first(run, q->e.unknown);

	for (int tried = 0; at > run->first && tried < MAX_TRIED; tried++) {
		const size_t entry = sr_values_entry(--at);

		if (entry < least)
			break;
		if (is_last(q, sr_lines_write(&q->m->lines, entry)))
			return entry;
	}
	return SIZE_MAX;
}

/* The first entry of the run that is lower than `end`, else that. */
static size_t first_of_run(const struct query *q, const struct sr_values_run *run, size_t end)
{
	const uint64_t *at = sr_values_first(run, q->e.unknown);

	for (int tried = 0; at < run->end && sr_values_entry(at) < end && tried < MAX_TRIED; tried++, at++)
		if (is_possible(q, sr_lines_write(&q->m->lines, sr_values_entry(at))))
			return sr_values_entry(at);
	return end;
}

static const struct sr_group_write *last_of_runs(const struct query *q)
{
	const struct sr_group_write *last = NULL;
	size_t least = q->e.left.first;

	for (int i = 0; i < q->runs_n; i++) {
		const size_t entry = last_of_run(q, &q->runs[i], least);

		if (entry == SIZE_MAX)
			continue;
		last = sr_lines_write(&q->m->lines, entry);
		least = entry + 1;
	}
	return last;
}

static const struct sr_group_write *first_of_runs(const struct query *q)
{
	size_t end = q->e.left.end;

	for (int i = 0; i < q->runs_n; i++)
		end = first_of_run(q, &q->runs[i], end);
	return end < q->e.left.end ? sr_lines_write(&q->m->lines, end) : NULL;
}

static const struct sr_group_write *last_known(struct query *q)
{
	const struct sr_lines *x = &q->m->lines;
	const enum sr_lines_list_name list = list_for(q->k);
	const size_t first = sr_lines_before(x, list, q->e.left.first);
	size_t i = sr_lines_before(x, list, q->e.unknown);

	for (int tried = 0; i > first && tried < MAX_TRIED; tried++) {
		const struct sr_group_write *w = sr_lines_write(x, x->list[list].entries[--i]);

		if (tried == FEW && find_runs(q))
			return last_of_runs(q);
		if (is_last(q, w))
			return w;
	}
	return NULL;
}

static const struct sr_group_write *first_possible(struct query *q)
{
	const struct sr_lines *x = &q->m->lines;
	const enum sr_lines_list_name list = list_for(q->k);
	const size_t end = sr_lines_before(x, list, q->e.left.end);
	size_t i = sr_lines_before(x, list, q->e.unknown);

	for (int tried = 0; i < end && tried < MAX_TRIED; tried++, i++) {
		const struct sr_group_write *w = sr_lines_write(x, x->list[list].entries[i]);

		if (tried == FEW && find_runs(q))
			return first_of_runs(q);
		if (is_possible(q, w))
			return w;
	}
	return NULL;
}

static void search_writer(struct sr_search *x, const struct sr_sample *k, const struct sr_writes *m,
			  struct sr_lines_range r, const struct sr_wanted *b, struct sr_search_found *f)
{
	struct sr_values_run runs[SR_VALUES_RUNS];
	struct query q = {.x = x, .k = k, .m = m, .b = b, .e = {.all = r}, .runs = runs};
	const struct sr_group_write *w;

	if (sr_lines_before(&m->lines, list_for(k), r.first) == sr_lines_before(&m->lines, list_for(k), r.end))
		return;
	q.e.left = not_spent(x, k, m, r, b->addr);
	q.e.unknown = first_unknown(x, k, m, q.e.left);
	w = last_known(&q);
	if (w)
		choose(x, f, w, true);
	if (f->w && f->is_known)
		return;
	w = first_possible(&q);
	if (w)
		choose(x, f, w, false);
}

struct sr_search_found sr_search(struct sr_search *x, const struct sr_sample *k,
			   const struct sr_writes *m, const struct sr_writers *writers, struct sr_wanted *b)
{
	struct sr_search_found f = {.w = NULL};

	for (int atomics = 0; atomics < 2 && !f.w; atomics++) {
		b->atomics = atomics;
		for (uint32_t i = 0; i < x->e->group->members; i++)
			search_writer(x, k, m, writers->of[i], b, &f);
	}
	return f;
}

/* The writes of the only member that wrote there; empty: there are none, or several. */
static struct sr_lines_range only_writer(const struct sr_search *x, const struct sr_writers *writers)
{
	struct sr_lines_range only = {0, 0};

	for (uint32_t i = 0; i < x->e->group->members; i++) {
		if (writers->of[i].first == writers->of[i].end)
			continue;
		if (only.first < only.end)
			return (struct sr_lines_range){0, 0};
		only = writers->of[i];
	}
	return only;
}

struct sr_search_found sr_search_whole(const struct sr_search *x, const struct sr_sample *k, const struct sr_writes *m,
				       const struct sr_writers *writers, uint64_t begin, uint64_t end)
{
	const struct sr_lines_range r = only_writer(x, writers);
	const struct sr_group_write *w;
	const uint8_t *written;
	size_t i;

	if (r.first == r.end)
		return (struct sr_search_found){.w = NULL};
	i = sr_lines_before(&m->lines, SR_LINES_WITH_BYTES, first_unknown(x, k, m, r));
	if (!i || m->lines.list[SR_LINES_WITH_BYTES].entries[i - 1] < r.first)
		return (struct sr_search_found){.w = NULL};
	w = sr_lines_write(&m->lines, m->lines.list[SR_LINES_WITH_BYTES].entries[i - 1]);
	if (sr_group_is_open(w->kind) || w->addr > begin || w->addr + w->length < end)
		return (struct sr_search_found){.w = NULL};
	written = sr_writes_bytes(m, w, begin - w->addr, (uint32_t)(end - begin));
	if (!written || memcmp(k->bytes + (begin - k->l.addr), written, end - begin))
		return (struct sr_search_found){.w = NULL};
	return (struct sr_search_found){.w = w, .is_known = true};
}
