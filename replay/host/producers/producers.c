/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/producers/producers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/page.h"
#include "replay/host/producers/search.h"
#include "replay/host/producers/shared.h"

struct sr_producers {
	struct sr_ended_group e;
	struct sr_writes memory[SR_GROUP_MEMBERS];
	uint64_t begun[SR_GROUP_MEMBERS];  /* ticks that were seen to have begun */
	uint64_t stores[SR_GROUP_MEMBERS]; /* stores into memory that member `self` shares: all below were made */
	struct sr_search search;
};

enum producer {
	BY_WRITE,
	BY_CPU,
	UNCHANGED,
	OUTSIDE,
	SHARED, /* through memory that processes share, by none of the group that is known */
	NOBODY,
};

struct verdict {
	enum producer by;
	bool several;
	struct sr_group_origin origin;
};

struct sr_producers *sr_producers_new(const struct sr_ended_group *e)
{
	struct sr_producers *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->e = *e;
	sr_search_begin(&p->search, &p->e);
	return p;
}

void sr_producers_free(struct sr_producers *p)
{
	if (!p)
		return;
	for (int i = 0; i < SR_GROUP_MEMBERS; i++)
		sr_writes_free(&p->memory[i]);
	sr_search_end(&p->search);
	free(p);
}

/* The write, and all that its member did before it, had begun. */
static void note_begun(struct sr_producers *p, const struct sr_search_found *f)
{
	const struct sr_group_origin *o = &f->w->origin;

	if (!f->is_one_of_several && o->tick > p->begun[o->member])
		p->begun[o->member] = o->tick;
	if (f->w->kind == SR_GROUP_SHARED && !f->is_one_of_several && o->request >= p->stores[o->member])
		p->stores[o->member] = o->request + 1;
}

static bool may_be_one_of(const struct sr_producers *p, const struct sr_sample *k,
			  const struct sr_writes *m, uint32_t writer, struct sr_lines_range r, uint32_t at)
{
	uint64_t addr = k->l.addr + at;

	for (size_t n = r.first; n < r.end; n++) {
		const struct sr_group_write *w = sr_lines_write(&m->lines, n);

		if (addr - w->addr >= w->length ||
		    (k->l.seen && writer == p->e.self && sr_lines_number(&m->lines, n) >= k->l.writes))
			continue;
		if (sr_group_has_no_bytes(w->kind) || sr_group_is_open(w->kind) ||
		    *sr_writes_bytes(m, w, addr - w->addr, 1) == k->bytes[at])
			return true;
	}
	return false;
}

/*
 * Can any member have put this byte there?  Its owner can have done so unseen, but not after
 * it sampled its own memory.
 */
static bool may_be_there(const struct sr_producers *p, const struct sr_sample *k, const struct sr_writes *m,
			 const struct sr_writers *writers, uint32_t at)
{
	for (uint32_t i = 0; i < p->e.group->members; i++)
		if (may_be_one_of(p, k, m, i, writers->of[i], at))
			return true;
	return false;
}

/* The first entry of a writer's whose tick is behind this one: they are in the order of their ticks. */
static size_t first_behind(const struct sr_writes *m, struct sr_lines_range r, uint64_t tick)
{
	while (r.first < r.end) {
		size_t middle = r.first + (r.end - r.first) / 2;

		if (sr_lines_write(&m->lines, middle)->origin.tick <= tick)
			r.first = middle + 1;
		else
			r.end = middle;
	}
	return r.first;
}

/* The latest of this process of such a kind before the sample that has the byte's place; NULL: there is none. */
static const struct sr_group_write *own_of_kind(const struct sr_producers *p, const struct sr_sample *k, const struct sr_writes *m,
						const struct sr_writers *writers, uint32_t at, enum sr_lines_list_name kind)
{
	const struct sr_lines_range r = writers->of[p->e.self];
	const uint32_t *entries = m->lines.list[kind].entries;
	uint64_t addr = k->l.addr + at;
	size_t i;

	if (!m->lines.list[kind].n)
		return NULL;
	for (i = sr_lines_before(&m->lines, kind, first_behind(m, r, k->l.posted)); i-- && entries[i] >= r.first;) {
		const struct sr_group_write *w = sr_lines_write(&m->lines, entries[i]);

		if (addr - w->addr < w->length)
			return w;
	}
	return NULL;
}

/*
 * A byte that no write explains.  Memory that nobody has written is zero.  A page that is
 * passed through, where a fetch may arrive, is not followed: nothing can be said about it.
 * What a later READ may have landed over is the matter of that one.
 */
static struct verdict judge_byte(const struct sr_producers *p, const struct sr_sample *k,
				 const struct sr_writes *m, const struct sr_writers *writers, uint32_t at)
{
	const uint32_t member = (uint32_t)k->l.member;
	const struct verdict own = {.by = BY_CPU, .origin = k->l.cpu};
	const struct sr_group_write *w;

	if (k->l.seen && k->before[at] == k->bytes[at])
		return (struct verdict){.by = UNCHANGED};
	if (!k->l.seen && (!k->bytes[at] || !sr_is_exposed(&p->e, member, k->l.addr + at, 1)))
		return own;
	if (sr_writes_may_be_outsiders(m, k->l.addr + at))
		return (struct verdict){.by = OUTSIDE};
	if (k->l.seen && (k->l.overlaid == SR_GROUP_OVERLAID_BY_CALL || sr_is_shared(&p->e, member, k->l.addr + at)))
		return (struct verdict){.by = SHARED};
	/* A READ of this process from another member may have brought it. */
	if (k->l.seen && (w = own_of_kind(p, k, m, writers, at, SR_LINES_FETCHED)))
		return (struct verdict){.by = BY_WRITE, .origin = w->origin};
	/* The datagram whose header has the byte's place: the last one before the sample, or the first one polled after it. */
	if (k->l.seen && (w = sr_lines_header_at(&m->lines, k->l.addr + at, k->l.writes)))
		return (struct verdict){.by = BY_WRITE, .origin = w->origin};
	/* Libc stores into locks in real calls, which a replay does not make. */
	if (k->l.seen && (w = own_of_kind(p, k, m, writers, at, SR_LINES_LOCKS)))
		return (struct verdict){.by = BY_CPU, .origin = w->origin};
	if (m->is_complete && !may_be_there(p, k, m, writers, at))
		return (struct verdict){.by = k->l.overlaid ? UNCHANGED : NOBODY};
	return k->l.seen ? (struct verdict){.by = OUTSIDE} : own;
}

static struct verdict judge_write(const struct sr_search_found *f)
{
	return (struct verdict){
	    .by = f->w->kind == SR_GROUP_OWN || f->w->kind == SR_GROUP_SHARED ? BY_CPU : BY_WRITE,
	    .several = f->is_one_of_several,
	    .origin = f->w->origin,
	};
}

static bool same(const struct verdict *a, const struct verdict *b)
{
	if (a->by != b->by || a->several != b->several)
		return false;
	return a->by >= UNCHANGED ||
	       (a->origin.member == b->origin.member && a->origin.thread == b->origin.thread &&
		a->origin.sn == b->origin.sn && (a->by == BY_CPU || a->origin.request == b->origin.request));
}

static struct sr_found_value describe(const struct sr_producers *p,
				     const struct sr_found_value *pending, const struct verdict *v,
				     uint32_t from, uint32_t length)
{
	struct sr_found_value f = *pending;

	f.addr += from;
	f.length = length;
	f.flags = (uint16_t)((v->by == UNCHANGED ? SR_FOUND_UNCHANGED : 0) |
			     (v->by == BY_CPU ? SR_FOUND_CPU : 0) |
			     (v->by == NOBODY ? SR_FOUND_NOBODY : 0) |
			     (v->by == SHARED ? SR_FOUND_SHARED : 0) |
			     (v->several ? SR_FOUND_SEVERAL : 0));
	f.producer = SR_RANK_OUTSIDE;
	f.producer_sn = 0;
	if (v->by == BY_CPU || v->by == BY_WRITE) {
		f.producer = p->e.group->member[v->origin.member].rank;
		f.producer_thread = v->origin.thread;
		f.producer_sn = v->origin.sn;
		f.request = (uint16_t)(v->by == BY_CPU ? 0 : v->origin.request);
	}
	return f;
}

/* Which writes brought the bytes of a word. */
struct brought {
	struct {
		uint64_t addr;
		uint32_t n;
		const struct sr_group_write *w;
	} piece[8];
	int n;
};

/*
 * After the whole word is judged: its bytes came at once, and the write that brought its first ones need not be the
 * first of them.
 */
static void spend(struct sr_producers *p, const struct brought *all)
{
	for (int i = 0; i < all->n; i++)
		sr_search_spend(&p->search, all->piece[i].addr, all->piece[i].n, &all->piece[i].w->origin);
}

/* The judging of one sample: who produced its bytes, in runs of one verdict. */
struct judging {
	struct sr_producers *p;
	const struct sr_sample *k;
	const struct sr_writes *m;
	struct sr_writers writers; /* of the line that is judged */
	bool is_exposed;           /* some of it */
	struct {
		uint32_t end;
		struct verdict v;
	} run[PAGE];
	uint32_t runs;
};

/* The next bytes, up to `end` in the sample, have this verdict. */
static void add_run(struct judging *j, const struct verdict *v, uint32_t end)
{
	if (!j->runs || !same(&j->run[j->runs - 1].v, v))
		j->run[j->runs++].v = *v;
	j->run[j->runs - 1].end = end;
}

/* Judges from b->addr on as far as one write explains it, else one byte; how many bytes.  of: their verdicts. */
static uint32_t judge_some(const struct judging *j, struct sr_wanted *b, struct verdict *of, struct brought *all)
{
	struct sr_search_found f = sr_search(&j->p->search, j->k, j->m, &j->writers, b);
	uint32_t n = f.w ? sr_search_common(f.w, b) : 1;
	uint32_t at = (uint32_t)(b->addr - j->k->l.addr);

	for (uint32_t i = 0; i < n; i++)
		of[i] = f.w ? judge_write(&f) : judge_byte(j->p, j->k, j->m, &j->writers, at + i);
	if (f.w) {
		all->piece[all->n].addr = b->addr;
		all->piece[all->n].n = n;
		all->piece[all->n++].w = f.w;
		note_begun(j->p, &f);
	}
	return n;
}

static bool is_unchanged(const struct sr_sample *k, uint64_t begin, uint64_t end)
{
	uint64_t at = begin - k->l.addr;

	return k->l.seen && !memcmp(k->before + at, k->bytes + at, end - begin);
}

/*
 * Of a write by a rank that is not replayed some bytes may be those that were there before, as of any
 * write: the changed word came as a whole, if no member wrote to it.
 */
static void complete_outside(struct verdict *of, size_t n)
{
	size_t outside = 0, unchanged = 0;

	for (size_t i = 0; i < n; i++) {
		outside += of[i].by == OUTSIDE;
		unchanged += of[i].by == UNCHANGED;
	}
	for (size_t i = 0; i < n && outside && outside + unchanged == n; i++)
		of[i] = (struct verdict){.by = OUTSIDE};
}

static void judge_word(struct judging *j, uint64_t begin, uint64_t end)
{
	struct sr_wanted b = {.addr = begin, .begin = begin, .end = end};
	struct brought all = {.n = 0};
	struct verdict of[8];

	while (b.addr < end)
		b.addr += judge_some(j, &b, of + (b.addr - begin), &all);
	if (j->k->l.seen)
		spend(j->p, &all);
	complete_outside(of, end - begin);
	for (uint64_t at = begin; at < end; at++)
		add_run(j, &of[at - begin], (uint32_t)(at + 1 - j->k->l.addr));
}

static bool has_writers(const struct judging *j)
{
	for (uint32_t i = 0; i < j->p->e.group->members; i++)
		if (j->writers.of[i].first < j->writers.of[i].end)
			return true;
	return false;
}

/*
 * Most lines have one verdict, which is found by one comparison: what was there before, what one write left there, or what
 * the CPU did where nobody else writes.  It is what word by word would say.
 */
static bool judge_line(struct judging *j, uint64_t begin, uint64_t end)
{
	struct verdict v = {.by = UNCHANGED};
	struct sr_search_found f;

	if (!is_unchanged(j->k, begin, end)) {
		if (j->k->l.seen)
			return false;
		f = sr_search_whole(&j->p->search, j->k, j->m, &j->writers, begin, end);
		if (f.w) {
			v = judge_write(&f);
			note_begun(j->p, &f);
		} else if (!j->is_exposed && !has_writers(j)) {
			v = (struct verdict){.by = BY_CPU, .origin = j->k->l.cpu};
		} else {
			return false;
		}
	}
	add_run(j, &v, (uint32_t)(end - j->k->l.addr));
	return true;
}

static void judge_words(struct judging *j, uint64_t begin, uint64_t end)
{
	for (uint64_t at = begin, stop; at < end; at = stop) {
		const struct verdict unchanged = {.by = UNCHANGED};

		stop = (at | 7) + 1 < end ? (at | 7) + 1 : end;
		if (is_unchanged(j->k, at, stop))
			add_run(j, &unchanged, (uint32_t)(stop - j->k->l.addr));
		else
			judge_word(j, at, stop);
	}
}

static int judge(struct judging *j, struct sr_writes *m)
{
	const uint64_t begin = j->k->l.addr, end = begin + j->k->l.length;

	j->runs = 0;
	j->is_exposed = sr_is_exposed(&j->p->e, (uint32_t)j->k->l.member, begin, j->k->l.length);
	for (uint64_t at = begin, stop; at < end; at = stop) {
		int error = sr_lines_at(&m->lines, at, j->p->e.group->members, j->writers.of);

		if (error)
			return error;
		stop = (at | (SR_LINE_LEAST - 1)) + 1 < end ? (at | (SR_LINE_LEAST - 1)) + 1 : end;
		if (!judge_line(j, at, stop))
			judge_words(j, at, stop);
	}
	return 0;
}

void sr_producers_bytes(const struct sr_producers *p, const struct sr_found_value *pending,
			uint64_t addr, uint8_t *bytes, uint32_t n)
{
	static struct sr_sample k;

	memset(bytes, 0, n);
	if (sr_sample_load(&p->search, pending->producer_sn, &k) && addr - pending->addr + n <= k.l.length)
		memcpy(bytes, k.bytes + (addr - pending->addr), n);
}

static int load(struct sr_producers *p, uint32_t member)
{
	struct sr_writes *m = &p->memory[member];
	int error = sr_writes_load(&p->e, member, m);

	if (!error)
		error = sr_shared_add(&p->e, member, m);
	return error ? error : sr_writes_index(&p->e, member, m);
}

int sr_producers_resolve(struct sr_producers *p, const struct sr_found_value *pending,
			int (*add)(void *argument, const struct sr_found_value *found),
			void *argument)
{
	static struct sr_sample k;
	static struct judging j;
	struct sr_writes *m;
	uint32_t from = 0;
	int error = 0;

	if (!sr_sample_load(&p->search, pending->producer_sn, &k))
		return 0;
	for (uint32_t i = 0; i < p->e.group->members; i++)
		if (k.knows[i] < p->begun[i])
			k.knows[i] = p->begun[i];
	/* They are numbered for this member's memory only. */
	for (uint32_t i = 0; i < p->e.group->members; i++)
		k.stores[i] = k.l.seen ? p->stores[i] : 0;
	m = &p->memory[k.l.member];
	if (!m->loaded)
		error = load(p, (uint32_t)k.l.member);
	j.p = p;
	j.k = &k;
	j.m = m;
	if (!error)
		error = judge(&j, m);
	if (error)
		return error;
	for (uint32_t i = 0; i < j.runs && !error; from = j.run[i++].end) {
		struct sr_found_value f = describe(p, pending, &j.run[i].v, from, j.run[i].end - from);

		error = add(argument, &f);
	}
	return error;
}
