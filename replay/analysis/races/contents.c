/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "replay/analysis/races/races.h"

/* One race, and what is asked for: the bytes from s->begin on. */
struct asked {
	const struct sr_races *r;
	const struct sr_race *s;
};

/* Of bytes at this address, `length` of them, those that are asked for. */
static struct sr_race_content cut(const struct asked *q, uint64_t address, uint64_t length, uint64_t word)
{
	struct sr_race_content c = {0};
	uint64_t end = address + (length < sizeof(word) ? length : sizeof(word));

	if (q->s->end < end)
		end = q->s->end;
	if (q->s->begin < address || q->s->begin >= end)
		return c;
	c.length = (uint32_t)(end - q->s->begin);
	memcpy(c.bytes, (const char *)&word + (q->s->begin - address), c.length);
	return c;
}

/* What a watched replay saw of this access of a CPU; NULL: it was not watched. */
static const struct sr_watch_access *watched(const struct asked *q, const struct sr_access *a)
{
	const struct sr_race_watches *s = q->r->how.watches;
	const struct sr_race_watched *w;

	if (!s || s->are_partial || !a->pc || a->is_nearby)
		return NULL;
	w = sr_race_watches_find(s, a->rank, a->kind == SR_ACCESS_LOAD ? SR_WATCH_LOAD : SR_WATCH_STORE, a->thread, a->sn, a->fault, a->pc);
	return w && w->a.address <= q->s->begin ? &w->a : NULL;
}

static bool reads(const struct sr_access *a)
{
	return a->kind == SR_ACCESS_LOAD || a->kind == SR_ACCESS_READ;
}

/* Of a load, a READ or a store by itself. */
static struct sr_race_content own_content(const struct asked *q, const struct sr_access *a)
{
	const struct sr_watch_access *w = a->kind == SR_ACCESS_LOAD || a->kind == SR_ACCESS_STORE ? watched(q, a) : NULL;

	if (w)
		return cut(q, w->address, w->length, w->bytes);
	return a->kind == SR_ACCESS_READ && a->has_fetched ? cut(q, a->begin, a->end - a->begin, a->fetched) : (struct sr_race_content){0};
}

/* The first access from this moment on. */
static size_t first_at(const struct sr_race_model *m, uint32_t moment)
{
	size_t low = 0, high = m->accesses_n;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (m->accesses[middle].from < moment)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* What somebody found there at this moment. */
static struct sr_race_content content_at(const struct asked *q, uint32_t moment)
{
	const struct sr_race_model *m = &q->r->run.model;
	struct sr_race_content c = {0};

	for (size_t i = first_at(m, moment); i < m->accesses_n && m->accesses[i].from == moment && !c.length; i++)
		if (reads(&m->accesses[i]) && m->accesses[i].owner == q->s->a.owner)
			c = own_content(q, &m->accesses[i]);
	return c;
}

static bool is_read_from(const struct sr_moment_order *o)
{
	return o->is_read && o->surety == SR_SURE && !o->choice;
}

/* What a request left there, as those know who found it. */
static struct sr_race_content left_by(const struct asked *q, const struct sr_access *a)
{
	const struct sr_race_model *m = &q->r->run.model;
	struct sr_race_content c = {0};

	if (a->kind == SR_ACCESS_STORE)
		return own_content(q, a);
	if ((a->kind != SR_ACCESS_WRITE && a->kind != SR_ACCESS_ATOMIC) || a->until == SR_NO_MOMENT)
		return c;
	for (uint32_t k = m->moments[a->until].orders; k != SR_NO_MOMENT && !c.length; k = m->orders[k].next)
		if (is_read_from(&m->orders[k]))
			c = content_at(q, m->orders[k].to);
	return c;
}

static bool has_found(const struct sr_race_model *m, const struct sr_access *reader, const struct sr_access *writer)
{
	if (writer->until == SR_NO_MOMENT)
		return false;
	for (uint32_t k = m->moments[writer->until].orders; k != SR_NO_MOMENT; k = m->orders[k].next)
		if (is_read_from(&m->orders[k]) && m->orders[k].to == reader->from)
			return true;
	return false;
}

static struct sr_race_content other_content(const struct asked *q, const struct sr_access *reader, const struct sr_access *writer)
{
	const struct sr_watch_access *w;

	if (!has_found(&q->r->run.model, reader, writer))
		return left_by(q, writer);
	w = reader->kind == SR_ACCESS_LOAD ? watched(q, reader) : NULL;
	return w && w->has_before ? cut(q, w->address, w->length, w->before) : (struct sr_race_content){0};
}

void sr_race_find_contents(const struct sr_races *r, const struct sr_race *s, struct sr_race_contents *c)
{
	const struct asked q = {r, s};

	*c = (struct sr_race_contents){.a_reads = reads(&s->a), .b_reads = reads(&s->b)};
	c->a = c->a_reads ? own_content(&q, &s->a) : left_by(&q, &s->a);
	c->b = c->b_reads ? own_content(&q, &s->b) : left_by(&q, &s->b);
	if (c->a_reads && !c->b_reads)
		c->other = other_content(&q, &s->a, &s->b);
	if (c->b_reads && !c->a_reads)
		c->other = other_content(&q, &s->b, &s->a);
}
