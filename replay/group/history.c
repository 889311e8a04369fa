/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * history.c: what was written into a member's memory by the requests of others.
 *
 * Kept beside the memory, not in it: with each write, not only the last, since a
 * value may have been seen before it was overwritten, and who posts runs ahead of
 * who looks.  The oldest are forgotten when the room is used up; a value that
 * nobody is found for counts as from outside.
 */
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>

#include "logd/rawsys.h"
#include "replay/group/own.h"
#include "shim/heap.h"

#define ENTRIES    (1ull << 18) /* kept of each member: 18 MiB */
#define BYTES      (1ull << 28)
#define PAGE       4096u
#define MAX_LOOKED 4096 /* entries of a bucket that are looked at for a value */

static void lock(struct sr_group_member *m)
{
	uint32_t free = 0;

	/* 0: free, 1: held, 2: held and somebody waits. */
	if (atomic_compare_exchange_strong(&m->history_lock, &free, 1))
		return;
	while (atomic_exchange(&m->history_lock, 2))
		sr_sys_futex((uint32_t *)&m->history_lock, FUTEX_WAIT, 2, NULL);
}

static void unlock(struct sr_group_member *m)
{
	if (atomic_exchange(&m->history_lock, 0) == 2)
		sr_sys_futex((uint32_t *)&m->history_lock, FUTEX_WAKE, 1, NULL);
}

static uint32_t bucket(uint64_t addr)
{
	return (uint32_t)((addr / PAGE * 0x9e3779b97f4a7c15ull) >> 40) % SR_GROUP_BUCKETS;
}

static uint64_t entry_at(uint32_t member, uint64_t number)
{
	return sr_group_writes_at(member) +
	       (number - 1) % ENTRIES * sizeof(struct sr_group_write);
}

/* The bytes go around in their room. */
static void move(uint32_t member, uint64_t at, void *p, size_t n, bool out)
{
	while (n) {
		uint64_t place = at % BYTES;
		size_t part = n < BYTES - place ? n : BYTES - place;
		uint64_t where = sr_group_written_at(member) + place;

		if (out)
			sr_group_read(where, p, part);
		else
			sr_group_write_memory(where, p, part);
		p = p ? (char *)p + part : NULL;
		at += part;
		n -= part;
	}
}

/* With the lock held: the entry is in the bucket; its bytes follow. */
static uint64_t add_entry(uint32_t member, struct sr_group_write *w)
{
	struct sr_group_member *m = &sr_group_memory->member[member];
	uint64_t *latest = &m->latest[bucket(w->addr)];

	w->at = m->written;
	w->previous = *latest;
	*latest = ++m->writes;
	sr_group_write(entry_at(member, m->writes), w, sizeof(*w));
	return m->writes;
}

/*
 * An entry for each page: its bytes come in the same order.  They are written without
 * the lock, which who reads in a fault's handler takes behind that of the windows:
 * nobody looks at them before the post is known to have begun, which is said
 * after it.
 */
uint64_t sr_history_add(uint32_t member, const struct sr_group_origin *origin, uint64_t addr,
			const struct sr_piece *pieces, uint32_t n)
{
	struct sr_group_member *m = &sr_group_memory->member[member];
	uint64_t first = 0, at = addr, end = addr, place;

	for (uint32_t i = 0; i < n; i++)
		end += pieces[i].length;
	lock(m);
	place = m->written;
	while (at < end) {
		uint64_t stop = (at / PAGE + 1) * PAGE < end ? (at / PAGE + 1) * PAGE : end;
		struct sr_group_write w = {
		    .origin = *origin, .addr = at, .length = (uint32_t)(stop - at)};
		uint64_t number = add_entry(member, &w);

		first = first ? first : number;
		m->written += stop - at;
		at = stop;
	}
	unlock(m);
	for (uint32_t i = 0; i < n; i++) {
		move(member, place, (void *)pieces[i].p, pieces[i].length, false);
		place += pieces[i].length;
	}
	return first;
}

uint64_t sr_history_add_atomic(uint32_t member, const struct sr_group_origin *origin,
			       uint64_t addr)
{
	struct sr_group_member *m = &sr_group_memory->member[member];
	struct sr_group_write w = {
	    .origin = *origin, .addr = addr, .length = 8, .kind = SR_GROUP_ATOMIC};
	uint64_t number;

	lock(m);
	number = add_entry(member, &w);
	m->written += 8;
	unlock(m);
	return number;
}

static bool is_kept(const struct sr_group_member *m, uint64_t number)
{
	return number && number + ENTRIES > m->writes;
}

/* With the lock held: the atomic's entry, if it is there still. */
static bool find_atomic(uint32_t member, uint64_t number, uint64_t addr, struct sr_group_write *w)
{
	if (!is_kept(&sr_group_memory->member[member], number))
		return false;
	sr_group_read(entry_at(member, number), w, sizeof(*w));
	return w->addr == addr && w->kind == SR_GROUP_ATOMIC;
}

void sr_history_resolve(uint32_t member, uint64_t number, uint64_t addr, uint64_t value)
{
	struct sr_group_member *m = &sr_group_memory->member[member];
	struct sr_group_write w;

	lock(m);
	if (find_atomic(member, number, addr, &w)) {
		move(member, w.at, &value, sizeof(value), false);
		w.kind = SR_GROUP_BYTES;
		sr_group_write(entry_at(member, number), &w, sizeof(w));
	}
	unlock(m);
}

void sr_history_void(uint32_t member, uint64_t number, uint64_t addr)
{
	struct sr_group_member *m = &sr_group_memory->member[member];
	struct sr_group_write w;

	lock(m);
	if (find_atomic(member, number, addr, &w)) {
		w.length = 0;
		sr_group_write(entry_at(member, number), &w, sizeof(w));
	}
	unlock(m);
}

/* ---------------------------------------------------------------- matching */

/*
 * The last write that was found to be the producer of a word of this process's
 * memory, and of which bytes: it brings them once, and what its member wrote before
 * it does not come after it.
 */
#define SPENT 65536
static struct spent {
	uint64_t word, tick;
	int32_t member;
	uint16_t request;
	uint8_t bytes; /* a bit each */
} *spent;

bool sr_history_begin(void)
{
	size_t size = SPENT * sizeof(*spent);
	void *p = sr_sys_mmap(sr_heap_place_mapping(size), size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (sr_sys_is_error(p))
		return false;
	spent = p;
	return true;
}

static struct spent *spent_at(uint64_t addr)
{
	return &spent[(addr / 8 * 0x9e3779b97f4a7c15ull >> 40) % SPENT];
}

/* Bits of the n bytes at addr in their word, which is one. */
static uint8_t bits_of(uint64_t addr, uint32_t n)
{
	return (uint8_t)(((1u << n) - 1) << addr % 8);
}

static bool is_spent(uint64_t addr, uint32_t n, const struct sr_group_origin *o)
{
	const struct spent *s = spent_at(addr);

	if (s->word != addr / 8 || s->member != o->member)
		return false;
	if (o->tick != s->tick)
		return o->tick < s->tick;
	return o->request < s->request ||
	       (o->request == s->request && s->bytes & bits_of(addr, n));
}

struct search {
	struct sr_history_match *match;
	uint64_t addr;
	const uint8_t *bytes;
	uint32_t n;
	int16_t *who;
	uint64_t before;
	uint32_t missing; /* bytes that nobody is found for */
};

static int16_t place_of(struct sr_history_match *f, const struct sr_group_origin *o)
{
	for (uint32_t i = 0; i < f->count; i++)
		if (f->origins[i].member == o->member && f->origins[i].tick == o->tick &&
		    f->origins[i].request == o->request)
			return (int16_t)i;
	if (f->count == SR_HISTORY_ORIGINS)
		return -1;
	f->origins[f->count] = *o;
	return (int16_t)f->count++;
}

/* These bytes are this write's, if they are nobody's yet. */
static void take(struct search *s, uint32_t at, uint32_t n, const struct sr_group_origin *o,
		 bool is_known)
{
	struct sr_history_match *f = s->match;
	int16_t place = -1;

	for (uint32_t i = at; i < at + n; i++) {
		if (s->who[i] >= 0 && !(f->ahead[s->who[i]] && !is_known))
			continue;
		if (place < 0)
			place = place_of(f, o);
		if (place < 0)
			return;
		f->ahead[place] = !is_known;
		s->missing -= s->who[i] < 0;
		s->who[i] = place;
	}
}

/*
 * Of the bytes that both have, those of each aligned word that are as the write
 * left them are its.  Word by word, since a single byte may be equal by chance.
 * Of writes that are known to have begun the latest counts, which is looked at
 * first; of others, which somebody posts who is ahead of us, the earliest.
 */
static void compare(struct search *s, const struct sr_group_write *w, const uint8_t *written,
		    bool is_known)
{
	uint64_t from = w->addr > s->addr ? w->addr : s->addr;
	uint64_t end = w->addr + w->length < s->addr + s->n ? w->addr + w->length : s->addr + s->n;

	while (from < end) {
		uint64_t stop = (from | 7) + 1 < end ? (from | 7) + 1 : end;
		uint32_t at = (uint32_t)(from - s->addr), n = (uint32_t)(stop - from);
		bool equal = w->kind == SR_GROUP_ATOMIC ||
			     !memcmp(s->bytes + at, written + (from - w->addr), n);

		if (equal && !(s->match->changed && is_spent(from, n, &w->origin)))
			take(s, at, n, &w->origin, is_known);
		from = stop;
	}
}

static bool counts(const struct search *s, const struct sr_group_origin *o)
{
	return (uint32_t)o->member == sr_group_self ? o->tick < s->before : sr_progress_knows(o);
}

static bool may_be_ahead(const struct search *s, const struct sr_group_origin *o)
{
	return s->match->ahead_counts && (uint32_t)o->member != sr_group_self &&
	       sr_progress_has_posted(o);
}

static void search_page(uint32_t member, struct search *s)
{
	uint8_t *written = s->match->written;
	struct sr_group_member *m = &sr_group_memory->member[member];
	uint64_t number = m->latest[bucket(s->addr)];
	struct sr_group_write w;
	bool is_known;

	/* Of those ahead the earliest counts: all are looked at. */
	for (int i = 0; i < MAX_LOOKED && (s->missing || s->match->ahead_counts) && is_kept(m, number);
	     i++) {
		sr_group_read(entry_at(member, number), &w, sizeof(w));
		number = w.previous;
		is_known = counts(s, &w.origin);
		if (w.addr >= s->addr + s->n || w.addr + w.length <= s->addr || w.length > PAGE ||
		    w.at + BYTES < m->written || (!is_known && !may_be_ahead(s, &w.origin)))
			continue;
		move(member, w.at, written, w.length, true);
		compare(s, &w, written, is_known);
	}
}

void sr_history_match(uint32_t member, uint64_t addr, const uint8_t *bytes, uint32_t n,
		      uint64_t before, struct sr_history_match *f)
{
	struct sr_group_member *m = &sr_group_memory->member[member];
	struct search s = {.match = f, .before = before};

	memset(f->who, -1, n * sizeof(f->who[0]));
	f->count = 0;
	lock(m);
	for (uint32_t at = 0; at < n;) {
		uint32_t part = PAGE - (uint32_t)((addr + at) % PAGE);

		part = part < n - at ? part : n - at;
		s.addr = addr + at;
		s.bytes = bytes + at;
		s.n = s.missing = part;
		s.who = f->who + at;
		search_page(member, &s);
		at += part;
	}
	unlock(m);
}

void sr_history_spend(uint64_t addr, const struct sr_group_origin *o)
{
	struct spent *s = spent_at(addr);

	if (s->word != addr / 8 || s->tick != o->tick || s->member != o->member ||
	    s->request != o->request)
		*s = (struct spent){addr / 8, o->tick, o->member, (uint16_t)o->request, 0};
	s->bytes |= bits_of(addr, 1);
	sr_progress_learn(o);
}
