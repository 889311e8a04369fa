/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * producers.c: see producers.h.
 *
 * Of the writes into the memory that was looked at, those count that fit the
 * bytes, word by word, and are not known to come after the look.  Of those that are
 * known to come before it the last one is taken, else the earliest of the
 * others: what was seen of a writer tells what of its is known from then on.  Of several
 * writers that nothing orders the likeliest is named, and said to be one of several.
 */
#include "replay/host/producers/producers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "logd/base/page.h"
#include "replay/host/shared/memory.h"

/* Of each writer that many are looked at for a value, from the likeliest on. */
#define MAX_LOOKED 4096

/*
 * Most writes are of a few bytes, and many of them are in one page: those within a line are
 * found by their line, longer ones by their page.
 */
#define LINE 64
enum length {
	SHORT,
	LONG,
	LENGTHS,
};

/* The writes into a member's memory: by line or page, then writer, each one's in their order. */
struct memory {
	bool loaded;
	bool has_strangers; /* peers that are not replayed, and may have written anywhere */
	/* Where peers can have written that are not replayed, but in the trace. */
	const struct sr_outsiders_range *outsiders;
	size_t outsiders_n;
	bool is_complete;   /* all that ever came to its exposed regions is in here */
	const uint8_t *written;
	struct sr_group_write *writes;
	uint32_t *order;
	size_t count;
};

/*
 * The last write that brought a word of this member's memory, and which of its bytes:
 * it brings them once, and what its member wrote before it does not come after.
 */
#define SPENT 65536
struct spent {
	uint64_t word, tick;
	int32_t member;
	uint32_t request;
	uint8_t bytes; /* a bit each */
};

struct sr_producers {
	struct sr_group *group;
	int fd;
	uint32_t self;
	struct sr_trace *trace;
	struct sr_plan *plan;
	bool has_clocks;
	const struct sr_outsiders *outsiders;
	struct memory memory[SR_GROUP_MEMBERS];
	uint64_t learnt[SR_GROUP_MEMBERS]; /* ticks that were seen to have begun */
	struct spent spent[SPENT];
};

/* One look, while it is settled. */
struct look {
	struct sr_group_sample l;
	uint64_t knows[SR_GROUP_MEMBERS];
	uint8_t bytes[PAGE], before[PAGE];
};

/* What is found for a word. */
struct found {
	const struct sr_group_write *w;
	bool is_known, is_one_of_several;
};

enum producer {
	BY_WRITE,
	BY_CPU,
	UNCHANGED,
	OUTSIDE,
	NOBODY,
};

struct verdict {
	enum producer by;
	bool several;
	struct sr_group_origin origin;
};

struct sr_producers *sr_producers_new(struct sr_group *g, int fd, uint32_t self,
				      struct sr_trace *t, struct sr_plan *plan, bool has_clocks,
				      const struct sr_outsiders *outsiders)
{
	struct sr_producers *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->group = g;
	p->fd = fd;
	p->self = self;
	p->trace = t;
	p->plan = plan;
	p->has_clocks = has_clocks;
	p->outsiders = outsiders;
	return p;
}

void sr_producers_free(struct sr_producers *p)
{
	for (int i = 0; p && i < SR_GROUP_MEMBERS; i++) {
		free(p->memory[i].writes);
		free(p->memory[i].order);
		if (p->memory[i].written)
			munmap((void *)p->memory[i].written, SR_GROUP_WRITTEN);
	}
	free(p);
}

static bool is_member(const struct sr_group *g, int32_t rank)
{
	for (uint32_t i = 0; i < g->members; i++)
		if (g->member[i].rank == rank)
			return true;
	return false;
}

/* Had it ever a peer that is not replayed? */
static bool has_outsiders(const struct sr_producers *p, uint32_t member)
{
	int32_t rank = p->group->member[member].rank;
	const uint32_t *threads;
	size_t threads_n = sr_trace_threads(p->trace, rank, &threads);
	struct sr_error err;

	for (size_t thread = 0; thread < threads_n; thread++) {
		const struct sr_plan_peer *peers;
		const void *records;
		size_t n;

		if (sr_plan_records(p->plan, SR_PLAN_PEER, rank, threads[thread], &records, &n,
				    &err))
			return true;
		peers = records;
		for (size_t i = 0; i < n; i++)
			if (!is_member(p->group, peers[i].peer))
				return true;
	}
	return false;
}

static uint64_t place_of(uint64_t addr, enum length length)
{
	return length == SHORT ? addr / LINE * 2 : addr / PAGE * 2 + 1;
}

static uint64_t place_of_write(const struct sr_group_write *w)
{
	bool is_long = w->length && w->addr / LINE != (w->addr + w->length - 1) / LINE;

	return place_of(w->addr, is_long ? LONG : SHORT);
}

static int by_place_and_writer(const void *a, const void *b, void *writes)
{
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	const struct sr_group_write *x = (struct sr_group_write *)writes + i;
	const struct sr_group_write *y = (struct sr_group_write *)writes + j;
	uint64_t s = place_of_write(x), t = place_of_write(y);

	if (s != t)
		return s < t ? -1 : 1;
	if (x->origin.member != y->origin.member)
		return x->origin.member < y->origin.member ? -1 : 1;
	if (x->origin.tick != y->origin.tick)
		return x->origin.tick < y->origin.tick ? -1 : 1;
	return i < j ? -1 : i > j;
}

static bool is_exposed(const struct sr_producers *p, uint32_t member, uint64_t addr)
{
	const struct sr_group_member *m = &p->group->member[member];

	for (uint32_t i = 0; i < atomic_load(&m->regions); i++)
		if (addr - m->exposed[i].addr < m->exposed[i].length)
			return true;
	return false;
}

/*
 * Peers write elsewhere, or by other addresses than the owner's: not all that comes to
 * its exposed regions can be told.
 */
static bool has_strange_writes(const struct sr_producers *p, uint32_t member,
			       const struct memory *m)
{
	uint64_t page = UINT64_MAX;

	for (size_t i = 0; i < m->count; i++) {
		const struct sr_group_write *w = &m->writes[m->order[i]];

		if (w->kind == SR_GROUP_OWN || w->kind == SR_GROUP_UNSEEN ||
		    w->addr / PAGE == page)
			continue;
		if (!is_exposed(p, member, w->addr))
			return true;
		page = w->addr / PAGE;
	}
	return false;
}

/*
 * What is written by other addresses than the owner's can be anywhere.
 */
static void look_for_outsiders(const struct sr_producers *p, uint32_t member, struct memory *m)
{
	m->has_strangers = has_outsiders(p, member);
	if (!m->has_strangers || !p->outsiders)
		return;
	m->outsiders = sr_outsiders_ranges(p->outsiders, member, &m->outsiders_n);
	m->has_strangers = !m->outsiders;
	for (size_t i = 0; m->outsiders && i < m->outsiders_n; i++)
		if (!is_exposed(p, member, m->outsiders[i].begin) ||
		    !is_exposed(p, member, m->outsiders[i].end - 1))
			m->has_strangers = true;
}

/* Can somebody who is not replayed have written this byte? */
static bool may_be_outsiders(const struct memory *m, uint64_t addr)
{
	size_t low = 0, high = m->outsiders_n;

	if (m->has_strangers)
		return true;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (m->outsiders[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low < m->outsiders_n && m->outsiders[low].begin <= addr;
}

/* Are all writes there that there ever were? */
static bool knows_all(const struct sr_producers *p, uint32_t member)
{
	const struct sr_group_member *m = &p->group->member[member];

	for (uint32_t i = 0; i < p->group->members; i++)
		if (!atomic_load(&p->group->member[i].whole))
			return false;
	return m->writes <= SR_GROUP_WRITES && m->written <= SR_GROUP_WRITTEN;
}

/* The oldest come first; what was forgotten is not there. */
static int load_writes(struct sr_producers *p, uint32_t member, struct memory *m)
{
	uint64_t writes = p->group->member[member].writes;
	uint64_t first = writes > SR_GROUP_WRITES ? writes - SR_GROUP_WRITES : 0;
	const size_t bytes = sizeof(*m->writes);
	void *written;

	m->count = (size_t)(writes - first);
	m->writes = malloc((m->count ? m->count : 1) * bytes);
	m->order = malloc((m->count ? m->count : 1) * sizeof(*m->order));
	written = mmap(NULL, SR_GROUP_WRITTEN, PROT_READ, MAP_SHARED | MAP_NORESERVE, p->fd,
		       (off_t)sr_group_written_at(member));
	if (!m->writes || !m->order || written == MAP_FAILED)
		return -ENOMEM;
	m->written = written;
	for (size_t i = 0, n; i < m->count; i += n) {
		uint64_t place = (first + i) % SR_GROUP_WRITES;

		n = m->count - i < SR_GROUP_WRITES - place ? m->count - i
							   : (size_t)(SR_GROUP_WRITES - place);
		sr_group_file_read(p->fd, sr_group_writes_at(member) + place * bytes, m->writes + i, n * bytes);
	}
	for (size_t i = 0; i < m->count; i++)
		m->order[i] = (uint32_t)i;
	qsort_r(m->order, m->count, sizeof(*m->order), by_place_and_writer, m->writes);
	look_for_outsiders(p, member, m);
	m->is_complete = knows_all(p, member) && !has_strange_writes(p, member, m);
	m->loaded = true;
	return 0;
}

static bool load_look(const struct sr_producers *p, uint64_t place, struct look *k)
{
	uint64_t at = sr_group_samples_at(p->self) + place;
	size_t known = p->group->members * sizeof(k->knows[0]);

	sr_group_file_read(p->fd, at, &k->l, sizeof(k->l));
	if (k->l.length > PAGE || k->l.member < 0 ||
	    (uint32_t)k->l.member >= p->group->members)
		return false; /* the process was killed before it was written */
	sr_group_file_read(p->fd, at + sizeof(k->l), k->knows, known);
	sr_group_file_read(p->fd, at + sizeof(k->l) + known, k->bytes, k->l.length);
	if (k->l.seen)
		sr_group_file_read(p->fd, at + sizeof(k->l) + known + k->l.length, k->before, k->l.length);
	return true;
}

/* ------------------------------------------------------------------- orders */

/*
 * What the writer knew of the member when it wrote.  A position is of a thread's
 * call, and holds until the next: they ascend.
 */
static uint64_t knew(const struct sr_producers *p, const struct sr_group_origin *o, uint32_t member)
{
	const struct sr_group_member *m = &p->group->member[o->member];
	const size_t bytes =
	    sizeof(struct sr_group_position) + p->group->members * sizeof(uint64_t);
	uint64_t at = sr_group_positions_at((uint32_t)o->member, o->thread);
	uint64_t low = 0, high = atomic_load(&m->positions[o->thread]), sn, known = 0;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		sr_group_file_read(p->fd, at + middle * bytes, &sn, sizeof(sn));
		if (sn <= o->sn)
			low = middle + 1;
		else
			high = middle;
	}
	if (low)
		sr_group_file_read(p->fd, at + (low - 1) * bytes + sizeof(sn) + member * sizeof(known), &known,
		    sizeof(known));
	return known;
}

/* Does it come after the look in all that is known? */
static bool is_after(const struct sr_producers *p, const struct look *k,
		     const struct sr_group_write *w)
{
	if ((uint32_t)w->origin.member == p->self)
		return w->origin.tick > k->l.posted ||
		       (w->kind != SR_GROUP_OWN && w->origin.tick == k->l.origin.tick &&
			w->origin.request >= k->l.origin.request);
	return knew(p, &w->origin, p->self) > k->l.posted;
}

/* Is it known to have begun before? */
static bool is_known(const struct look *k, uint32_t self, const struct sr_group_write *w)
{
	const struct sr_group_origin *o = &w->origin, *request = &k->l.origin;

	if ((uint32_t)o->member != self)
		return o->tick <= k->knows[o->member];
	if (w->kind == SR_GROUP_OWN || k->l.seen)
		return o->tick < request->tick + k->l.seen;
	return o->tick < request->tick ||
	       (o->tick == request->tick && o->request < request->request);
}

static bool is_spent(const struct sr_producers *p, uint64_t addr, uint32_t n,
		     const struct sr_group_origin *o);

/* A byte that somebody is searched for, and what to search for in its word. */
struct wanted {
	uint64_t addr;
	uint64_t begin, end; /* the part of the word that was looked at */
	bool atomics;        /* whose results nobody has fetched: they may have written anything */
};

/* How many bytes of the word both have from there on. */
static uint32_t common(const struct sr_group_write *w, const struct wanted *b)
{
	uint64_t end = w->addr + w->length < b->end ? w->addr + w->length : b->end;

	return w->addr <= b->addr && b->addr < end ? (uint32_t)(end - b->addr) : 0;
}

/*
 * It has written the byte, and the bytes of the word that both have are as it left them:
 * a single byte may be equal by chance.
 */
static bool fits(const struct sr_producers *p, const struct look *k, const struct memory *m,
		 const struct sr_group_write *w, const struct wanted *b)
{
	uint64_t begin = w->addr > b->begin ? w->addr : b->begin;
	uint64_t at = (w->at + (begin - w->addr)) % SR_GROUP_WRITTEN;
	uint32_t n = common(w, b);

	if (!n || w->kind == SR_GROUP_UNSEEN || (w->kind == SR_GROUP_ATOMIC) != b->atomics)
		return false;
	/* What was seen to change was changed by others. */
	if (k->l.seen && (w->kind == SR_GROUP_OWN || is_spent(p, b->addr, n, &w->origin)))
		return false;
	n += (uint32_t)(b->addr - begin);
	return b->atomics || (at + n <= SR_GROUP_WRITTEN &&
			      !memcmp(k->bytes + (begin - k->l.addr), m->written + at, n));
}

/* ------------------------------------------------------------------- search */

struct range {
	size_t first, end; /* in the order */
};

/* Each writer's that may have to do with a line. */
struct writers {
	struct range of[SR_GROUP_MEMBERS][LENGTHS];
};

static struct range writes_of(const struct memory *m, uint64_t place, int32_t member)
{
	struct range r = {0, m->count};
	size_t end = m->count;

	for (int last = 0; last < 2; last++) {
		size_t low = r.first;

		end = m->count;
		while (low < end) {
			size_t middle = low + (end - low) / 2;
			const struct sr_group_write *w = &m->writes[m->order[middle]];
			uint64_t at = place_of_write(w);

			if (at < place || (at == place && w->origin.member < member + last))
				low = middle + 1;
			else
				end = middle;
		}
		if (last)
			r.end = low;
		else
			r.first = low;
	}
	return r;
}

/* The first of them that is not known: they are in the order of their ticks. */
static size_t first_unknown(const struct sr_producers *p, const struct look *k,
			    const struct memory *m, struct range r)
{
	while (r.first < r.end) {
		size_t middle = r.first + (r.end - r.first) / 2;

		if (is_known(k, p->self, &m->writes[m->order[middle]]))
			r.first = middle + 1;
		else
			r.end = middle;
	}
	return r.first;
}

static bool is_ordered(const struct sr_producers *p, const struct sr_group_origin *a,
		       const struct sr_group_origin *b)
{
	return knew(p, b, (uint32_t)a->member) >= a->tick ||
	       knew(p, a, (uint32_t)b->member) >= b->tick;
}

/* Of two writers' the later one, if both are known; else the earlier. */
static void choose(const struct sr_producers *p, struct found *f, const struct sr_group_write *w,
		   bool known)
{
	const struct sr_group_write *old = f->w;

	if (old && f->is_known && !known)
		return;
	if (!old || f->is_known != known) {
		*f = (struct found){.w = w, .is_known = known};
		return;
	}
	f->is_one_of_several =
	    f->is_one_of_several || !known || !is_ordered(p, &old->origin, &w->origin);
	if (known ? w->origin.weight > old->origin.weight : w->origin.weight < old->origin.weight)
		f->w = w;
}

/* May writes count that nothing says were before?  With clocks, they came from outside if anything
 * did. */
static bool counts_unknown(const struct sr_producers *p, const struct memory *m,
			   const struct sr_group_write *w, uint64_t addr)
{
	return !p->has_clocks || w->kind == SR_GROUP_OWN || !may_be_outsiders(m, addr);
}

/* The last of these that fits and is known to come before. */
static const struct sr_group_write *last_known(const struct sr_producers *p, const struct look *k,
					       const struct memory *m, struct range r,
					       size_t unknown, const struct wanted *b)
{
	size_t i = unknown;

	for (int looked = 0; i-- > r.first && looked < MAX_LOOKED; looked++) {
		const struct sr_group_write *w = &m->writes[m->order[i]];

		if (fits(p, k, m, w, b))
			return w;
	}
	return NULL;
}

/* The first of the others that fits and may come before. */
static const struct sr_group_write *first_possible(const struct sr_producers *p,
						   const struct look *k, const struct memory *m,
						   struct range r, size_t unknown,
						   const struct wanted *b)
{
	size_t i = unknown;

	for (int looked = 0; i < r.end && looked < MAX_LOOKED; looked++, i++) {
		const struct sr_group_write *w = &m->writes[m->order[i]];

		if (counts_unknown(p, m, w, b->addr) && fits(p, k, m, w, b) && !is_after(p, k, w))
			return w;
	}
	return NULL;
}

/* Of two by one writer, either of which may be NULL. */
static const struct sr_group_write *earlier(const struct sr_group_write *a,
					    const struct sr_group_write *b)
{
	if (!a || !b)
		return a ? a : b;
	if (a->origin.tick != b->origin.tick)
		return a->origin.tick < b->origin.tick ? a : b;
	return a < b ? a : b;
}

static const struct sr_group_write *later(const struct sr_group_write *a,
					  const struct sr_group_write *b)
{
	return a && b && earlier(a, b) == a ? b : a ? a : b;
}

static void search_writer(const struct sr_producers *p, const struct look *k,
			  const struct memory *m, const struct range *r, const struct wanted *b,
			  struct found *f)
{
	const struct sr_group_write *w[LENGTHS], *last, *first;
	size_t unknown[LENGTHS];

	for (int i = 0; i < LENGTHS; i++) {
		unknown[i] = first_unknown(p, k, m, r[i]);
		w[i] = last_known(p, k, m, r[i], unknown[i], b);
	}
	last = later(w[SHORT], w[LONG]);
	if (last)
		choose(p, f, last, true);
	if (f->w && f->is_known)
		return;
	for (int i = 0; i < LENGTHS; i++)
		w[i] = first_possible(p, k, m, r[i], unknown[i], b);
	first = earlier(w[SHORT], w[LONG]);
	if (first)
		choose(p, f, first, false);
}

static struct found search(const struct sr_producers *p, const struct look *k,
			   const struct memory *m, const struct writers *writers, struct wanted *b)
{
	struct found f = {.w = NULL};

	for (int atomics = 0; atomics < 2 && !f.w; atomics++) {
		b->atomics = atomics;
		for (uint32_t i = 0; i < p->group->members; i++)
			search_writer(p, k, m, writers->of[i], b, &f);
	}
	return f;
}

/* --------------------------------------------------------------------- past */

/* Bits of the n bytes at addr in their word, which is one. */
static uint8_t bits_of(uint64_t addr, uint32_t n)
{
	return (uint8_t)(((1u << n) - 1) << addr % 8);
}

static uint32_t spent_at(uint64_t addr)
{
	return (uint32_t)((addr / 8 * 0x9e3779b97f4a7c15ull >> 40) % SPENT);
}

static bool is_spent(const struct sr_producers *p, uint64_t addr, uint32_t n,
		     const struct sr_group_origin *o)
{
	const struct spent *s = &p->spent[spent_at(addr)];

	if (s->word != addr / 8 || s->member != o->member)
		return false;
	if (o->tick != s->tick)
		return o->tick < s->tick;
	return o->request < s->request || (o->request == s->request && s->bytes & bits_of(addr, n));
}

static void spend(struct sr_producers *p, uint64_t addr, uint32_t n,
		  const struct sr_group_origin *o)
{
	struct spent *s = &p->spent[spent_at(addr)];

	if (s->word != addr / 8 || s->tick != o->tick || s->member != o->member ||
	    s->request != o->request)
		*s = (struct spent){addr / 8, o->tick, o->member, o->request, 0};
	s->bytes |= bits_of(addr, n);
}

/* So it, and what its member did before, had begun. */
static void learn(struct sr_producers *p, const struct found *f)
{
	const struct sr_group_origin *o = &f->w->origin;

	if (!f->is_one_of_several && o->tick > p->learnt[o->member])
		p->learnt[o->member] = o->tick;
}

/* ----------------------------------------------------------------- verdicts */

static bool may_be_one_of(const struct sr_producers *p, const struct look *k,
			  const struct memory *m, uint32_t writer, struct range r, uint32_t at)
{
	uint64_t addr = k->l.addr + at;

	for (size_t n = r.first; n < r.end; n++) {
		const struct sr_group_write *w = &m->writes[m->order[n]];

		if (addr - w->addr >= w->length ||
		    (k->l.seen && writer == p->self && m->order[n] >= k->l.writes))
			continue;
		if (w->kind == SR_GROUP_UNSEEN || w->kind == SR_GROUP_ATOMIC ||
		    m->written[(w->at + (addr - w->addr)) % SR_GROUP_WRITTEN] == k->bytes[at])
			return true;
	}
	return false;
}

/*
 * Has anybody ever put this byte there, or may its owner have, unseen?  In its own
 * memory, not later than it looked.
 */
static bool may_be_there(const struct sr_producers *p, const struct look *k, const struct memory *m,
			 const struct writers *writers, uint32_t at)
{
	for (uint32_t i = 0; i < p->group->members; i++)
		for (int length = 0; length < LENGTHS; length++)
			if (may_be_one_of(p, k, m, i, writers->of[i][length], at))
				return true;
	return false;
}

/*
 * Bytes that no write explains.  Zero is what memory is where nobody has put anything.
 * A page that was live, and where something may arrive that was asked for, is not
 * followed: nothing can be said of it.
 */
static struct verdict judge_byte(const struct sr_producers *p, const struct look *k,
				 const struct memory *m, const struct writers *writers, uint32_t at)
{
	const uint32_t member = (uint32_t)k->l.member;
	const struct verdict own = {.by = BY_CPU, .origin = k->l.cpu};

	if (k->l.seen && k->before[at] == k->bytes[at])
		return (struct verdict){.by = UNCHANGED};
	if (!k->l.seen && (!k->bytes[at] || !is_exposed(p, member, k->l.addr + at)))
		return own;
	if (may_be_outsiders(m, k->l.addr + at))
		return (struct verdict){.by = OUTSIDE};
	if (m->is_complete && !may_be_there(p, k, m, writers, at))
		return (struct verdict){.by = NOBODY};
	return k->l.seen ? (struct verdict){.by = OUTSIDE} : own;
}

static struct verdict judge_write(const struct found *f)
{
	return (struct verdict){
	    .by = f->w->kind == SR_GROUP_OWN ? BY_CPU : BY_WRITE,
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
		a->origin.sn == b->origin.sn && a->origin.request == b->origin.request);
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
			     (v->several ? SR_FOUND_SEVERAL : 0));
	f.producer = SR_RANK_OUTSIDE;
	f.producer_sn = 0;
	if (v->by == BY_CPU || v->by == BY_WRITE) {
		f.producer = p->group->member[v->origin.member].rank;
		f.producer_thread = v->origin.thread;
		f.producer_sn = v->origin.sn;
		f.request = (uint16_t)v->origin.request;
	}
	return f;
}

/* From its first byte on, as far as one write explains it; else that byte.  How many bytes. */
static uint32_t judge_some(struct sr_producers *p, const struct look *k, const struct memory *m,
			   const struct writers *writers, struct wanted *b,
			   struct verdict *of)
{
	struct found f = search(p, k, m, writers, b);
	uint32_t n = f.w ? common(f.w, b) : 1;
	uint32_t at = (uint32_t)(b->addr - k->l.addr);

	for (uint32_t i = at; i < at + n; i++)
		of[i] = f.w ? judge_write(&f) : judge_byte(p, k, m, writers, i);
	if (f.w && k->l.seen)
		spend(p, b->addr, n, &f.w->origin);
	if (f.w)
		learn(p, &f);
	return n;
}

static bool is_unchanged(const struct look *k, uint64_t begin, uint64_t end)
{
	uint64_t at = begin - k->l.addr;

	return k->l.seen && !memcmp(k->before + at, k->bytes + at, end - begin);
}

static void judge_word(struct sr_producers *p, const struct look *k, const struct memory *m,
		       const struct writers *writers, uint64_t begin, uint64_t end,
		       struct verdict *of)
{
	struct wanted b = {.addr = begin, .begin = begin, .end = end};

	if (is_unchanged(k, begin, end))
		for (; b.addr < end; b.addr++)
			of[b.addr - k->l.addr] = (struct verdict){.by = UNCHANGED};
	while (b.addr < end)
		b.addr += judge_some(p, k, m, writers, &b, of);
}

static void find_writers(const struct sr_producers *p, const struct memory *m, uint64_t addr,
			 enum length length, struct writers *writers)
{
	for (uint32_t i = 0; i < p->group->members; i++)
		writers->of[i][length] = writes_of(m, place_of(addr, length), (int32_t)i);
}

static void judge(struct sr_producers *p, const struct look *k, const struct memory *m,
		  struct verdict *of)
{
	struct writers writers;

	find_writers(p, m, k->l.addr, LONG, &writers);
	for (uint64_t at = k->l.addr, end = at + k->l.length, stop; at < end; at = stop) {
		if (at == k->l.addr || at % LINE == 0)
			find_writers(p, m, at, SHORT, &writers);
		stop = (at | 7) + 1 < end ? (at | 7) + 1 : end;
		judge_word(p, k, m, &writers, at, stop, of);
	}
}

void sr_producers_bytes(const struct sr_producers *p, const struct sr_found_value *pending,
			uint64_t addr, uint8_t *bytes, uint32_t n)
{
	static struct look k;

	memset(bytes, 0, n);
	if (load_look(p, pending->producer_sn, &k) && addr - pending->addr + n <= k.l.length)
		memcpy(bytes, k.bytes + (addr - pending->addr), n);
}

int sr_producers_settle(struct sr_producers *p, const struct sr_found_value *pending,
			int (*add)(void *argument, const struct sr_found_value *found),
			void *argument)
{
	static struct verdict of[PAGE];
	static struct look k;
	struct memory *m;
	int error = 0;

	if (!load_look(p, pending->producer_sn, &k))
		return 0;
	for (uint32_t i = 0; i < p->group->members; i++)
		if (k.knows[i] < p->learnt[i])
			k.knows[i] = p->learnt[i];
	m = &p->memory[k.l.member];
	if (!m->loaded)
		error = load_writes(p, (uint32_t)k.l.member, m);
	if (error)
		return error;
	judge(p, &k, m, of);
	for (uint32_t at = 0, end; at < k.l.length && !error; at = end) {
		struct sr_found_value f;

		end = at + 1;
		while (end < k.l.length && same(&of[at], &of[end]))
			end++;
		f = describe(p, pending, &of[at], at, end - at);
		error = add(argument, &f);
	}
	return error;
}
