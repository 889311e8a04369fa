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

#include "logd/rawsys.h"
#include "replay/group/own.h"

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
			sr_group_write(where, p, part);
		p = (char *)p + part;
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

uint64_t sr_history_add(uint32_t member, const struct sr_group_origin *origin, uint64_t addr,
			const struct sr_piece *pieces, uint32_t n)
{
	struct sr_group_member *m = &sr_group_memory->member[member];
	uint64_t first = 0, length = 0;

	lock(m);
	for (uint32_t i = 0; i < n; i++)
		length += pieces[i].length;
	/* An entry for each page: its bytes come in the same order. */
	for (uint64_t at = addr, end = addr + length, done = m->written; at < end;) {
		uint64_t stop = (at / PAGE + 1) * PAGE < end ? (at / PAGE + 1) * PAGE : end;
		struct sr_group_write w = {
		    .origin = *origin, .addr = at, .length = (uint32_t)(stop - at)};
		uint64_t number = add_entry(member, &w);

		first = first ? first : number;
		m->written += stop - at;
		at = stop;
		if (at == end)
			m->written = done;
	}
	for (uint32_t i = 0; i < n; i++) {
		move(member, m->written, (void *)pieces[i].p, pieces[i].length, false);
		m->written += pieces[i].length;
	}
	unlock(m);
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

void sr_history_resolve(uint32_t member, uint64_t number, uint64_t addr, uint64_t value)
{
	struct sr_group_member *m = &sr_group_memory->member[member];
	struct sr_group_write w;

	lock(m);
	if (is_kept(m, number)) {
		sr_group_read(entry_at(member, number), &w, sizeof(w));
		if (w.addr == addr && w.kind == SR_GROUP_ATOMIC) {
			move(member, w.at, &value, sizeof(value), false);
			w.kind = SR_GROUP_BYTES;
			sr_group_write(entry_at(member, number), &w, sizeof(w));
		}
	}
	unlock(m);
}

/* ---------------------------------------------------------------- matching */

struct search {
	uint64_t addr;
	const uint8_t *bytes;
	uint32_t n;
	int8_t *who;
	uint64_t before;
	uint32_t missing; /* bytes that nobody is found for */
	struct sr_group_origin *origins;
	uint32_t count;
};

static int8_t place_of(struct search *s, const struct sr_group_origin *o)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->origins[i].member == o->member && s->origins[i].tick == o->tick &&
		    s->origins[i].request == o->request)
			return (int8_t)i;
	if (s->count == SR_HISTORY_ORIGINS)
		return -1;
	s->origins[s->count] = *o;
	return (int8_t)s->count++;
}

/*
 * Of the bytes that both have, those of each aligned word that are as the write
 * left them, and nobody's yet, are its.  Word by word, since a single byte may be
 * equal by chance.
 */
static void compare(struct search *s, const struct sr_group_write *w, const uint8_t *written)
{
	uint64_t from = w->addr > s->addr ? w->addr : s->addr;
	uint64_t end = w->addr + w->length < s->addr + s->n ? w->addr + w->length : s->addr + s->n;

	while (from < end) {
		uint64_t stop = (from | 7) + 1 < end ? (from | 7) + 1 : end;
		uint32_t at = (uint32_t)(from - s->addr), n = (uint32_t)(stop - from);
		bool equal = w->kind == SR_GROUP_ATOMIC ||
			     !memcmp(s->bytes + at, written + (from - w->addr), n);
		int8_t place = -1;

		for (uint32_t i = at; equal && i < at + n; i++) {
			if (s->who[i] >= 0)
				continue;
			if (place < 0)
				place = place_of(s, &w->origin);
			if (place < 0)
				break;
			s->who[i] = place;
			s->missing--;
		}
		from = stop;
	}
}

static bool counts(const struct search *s, const struct sr_group_origin *o)
{
	return (uint32_t)o->member == sr_group_self ? o->tick < s->before : sr_progress_knows(o);
}

static void search_page(uint32_t member, struct search *s)
{
	static uint8_t written[PAGE];
	struct sr_group_member *m = &sr_group_memory->member[member];
	uint64_t number = m->latest[bucket(s->addr)];
	struct sr_group_write w;

	for (int i = 0; i < MAX_LOOKED && s->missing && is_kept(m, number); i++) {
		sr_group_read(entry_at(member, number), &w, sizeof(w));
		number = w.previous;
		if (w.addr >= s->addr + s->n || w.addr + w.length <= s->addr || w.length > PAGE ||
		    w.at + BYTES < m->written || !counts(s, &w.origin))
			continue;
		move(member, w.at, written, w.length, true);
		compare(s, &w, written);
	}
}

uint32_t sr_history_match(uint32_t member, uint64_t addr, const uint8_t *bytes, uint32_t n,
			  uint64_t before, int8_t *who, struct sr_group_origin *origins)
{
	struct sr_group_member *m = &sr_group_memory->member[member];
	struct search s = {.origins = origins, .before = before};

	memset(who, -1, n);
	lock(m);
	for (uint32_t at = 0; at < n;) {
		uint32_t part = PAGE - (uint32_t)((addr + at) % PAGE);

		part = part < n - at ? part : n - at;
		s.addr = addr + at;
		s.bytes = bytes + at;
		s.n = s.missing = part;
		s.who = who + at;
		search_page(member, &s);
		at += part;
	}
	unlock(m);
	return s.count;
}
