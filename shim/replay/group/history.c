/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * history.c: all writes to a member's memory, by requests and by the member itself.
 *
 * The history has each write and not only the last one, because a value may have been seen
 * before it was overwritten, and because the posting member may run ahead of the reading one.
 * The writes of one member are in their order.  The order between writes of several members
 * depends on the speed of this replay, so no result may depend on it.  When the space is used
 * up, new writes replace the oldest.
 */
#include <linux/futex.h>
#include <string.h>

#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/memory/heap.h"
#include "shim/replay/group/own.h"

static void lock(struct sr_group_member *m)
{
	uint32_t free = 0;

	/* 0: free; 1: held; 2: held, and another process waits. */
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

static uint64_t entry_at(uint32_t member, uint64_t number)
{
	return sr_group_writes_at(member) +
	       (number - 1) % SR_GROUP_WRITES * sizeof(struct sr_group_write);
}

/* The bytes are stored in a circular buffer. */
static struct sr_group_place place_of(uint32_t member, uint64_t at)
{
	return (struct sr_group_place){sr_group_written_at(member), at, SR_GROUP_WRITTEN};
}

/* Called with the lock held, with where its bytes are, or will be. */
static uint64_t add_entry_at(uint32_t member, struct sr_group_write *w, uint64_t at)
{
	struct sr_group_member *m = &sr_group_memory->member[member];

	w->at = at;
	sr_group_write_own(entry_at(member, ++m->writes), w, sizeof(*w));
	return m->writes;
}

/* The same for the next bytes to be written.  The caller reserves and writes them. */
static uint64_t add_entry(uint32_t member, struct sr_group_write *w)
{
	return add_entry_at(member, w, sr_group_memory->member[member].written);
}

/* What the process itself has stored, as the fault handler has it. */
static void put_own(struct sr_group_place to, const struct sr_piece *pieces, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		for (size_t done = 0, part; done < pieces[i].length; done += part) {
			uint64_t at;

			part = sr_group_place_take(&to, pieces[i].length - done, &at);
			sr_group_write_own(at, (const uint8_t *)pieces[i].p + done, part);
		}
}

/* ------------------------------------------------------------ the same again */

/*
 * Many programs write the same bytes to the same place again and again, whole buffers of which hardly a word has changed.
 * Their bytes are kept once: to compare a page takes a tenth of the time of another page of memory.
 */
#define LATEST 16384

/* What this process wrote last to a page, or a part of one; sr_group_lock guards it. */
static struct latest {
	uint64_t addr, at;
	uint32_t member, length; /* 0: nothing */
} * latest;

static struct latest *latest_of(uint32_t member, uint64_t addr)
{
	if (!latest)
		latest = sr_alloc_zeroed(LATEST * sizeof(*latest));
	return latest ? &latest[(addr / PAGE + member * 0x9e3779b9u) % LATEST] : NULL;
}

static bool is_same(const struct latest *l, uint32_t member, uint64_t addr, const uint8_t *bytes, uint32_t n)
{
	static uint8_t before[PAGE];

	if (!l || l->length != n || l->addr != addr || l->member != member)
		return false;
	sr_history_bytes(member, l->at, before, n);
	return !memcmp(before, bytes, n);
}

/* Adds a write of bytes of the shim's own, within a page. */
static void add_bytes(uint32_t member, const struct sr_group_origin *origin, uint64_t addr, const uint8_t *bytes, uint32_t n)
{
	struct sr_group_member *m = &sr_group_memory->member[member];
	struct sr_group_write w = {.origin = *origin, .addr = addr, .length = n, .kind = SR_GROUP_BYTES};
	struct latest *l = latest_of(member, addr);
	bool same = is_same(l, member, addr, bytes, n);

	lock(m);
	/* They must stay as long as other bytes of this time. */
	same = same && m->written - l->at < SR_GROUP_WRITTEN / 2;
	add_entry_at(member, &w, same ? l->at : m->written);
	m->written += same ? 0 : n;
	unlock(m);
	if (same)
		return;
	put_own(place_of(member, w.at), &(struct sr_piece){bytes, n}, 1);
	if (l)
		*l = (struct latest){addr, w.at, member, n};
}

/* Takes the next n bytes of the pieces, the first of which is *p from *from on. */
static void gather(const struct sr_piece **p, uint32_t *from, uint8_t *to, uint32_t n)
{
	for (uint32_t part; n; n -= part, to += part) {
		part = (*p)->length - *from < n ? (*p)->length - *from : n;
		/* The CPU has no address for device memory: zeros are written. */
		if ((*p)->p)
			sr_group_copy(to, (const uint8_t *)(*p)->p + *from, part);
		else
			memset(to, 0, part);
		*from += part;
		if (*from == (*p)->length) {
			++*p;
			*from = 0;
		}
	}
}

static void add_request(uint32_t member, const struct sr_group_origin *origin, uint64_t addr, const struct sr_piece *pieces, uint32_t n)
{
	static uint8_t bytes[PAGE];
	uint64_t end = addr;
	uint32_t from = 0;

	for (uint32_t i = 0; i < n; i++)
		end += pieces[i].length;
	for (uint64_t at = addr, stop; at < end; at = stop) {
		stop = (at / PAGE + 1) * PAGE < end ? (at / PAGE + 1) * PAGE : end;
		gather(&pieces, &from, bytes, (uint32_t)(stop - at));
		add_bytes(member, origin, at, bytes, (uint32_t)(stop - at));
	}
}

/*
 * Adds one entry for each page; the bytes are in the same order.  They are written after the
 * lock is released: a fault handler takes this lock after that of the exposed regions, and
 * reading the pieces may need the latter.
 */
void sr_history_add(uint32_t member, const struct sr_group_origin *origin,
		    enum sr_group_write_kind kind, uint64_t addr, const struct sr_transfer_by *by,
		    const struct sr_piece *pieces, uint32_t n)
{
	struct sr_group_member *m = &sr_group_memory->member[member];
	uint64_t at = addr, end = addr, place;

	if (kind == SR_GROUP_BYTES && !by) {
		add_request(member, origin, addr, pieces, n);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		end += pieces[i].length;
	lock(m);
	place = m->written;
	while (at < end) {
		uint64_t stop = (at / PAGE + 1) * PAGE < end ? (at / PAGE + 1) * PAGE : end;
		struct sr_group_write w = {
		    .origin = *origin, .addr = at, .length = (uint32_t)(stop - at), .kind = kind};

		add_entry(member, &w);
		m->written += stop - at;
		at = stop;
	}
	unlock(m);
	if (kind == SR_GROUP_OWN && !by)
		put_own(place_of(member, place), pieces, n);
	else
		sr_transfer(by, place_of(member, place), pieces, n);
}

uint64_t sr_history_add_atomic(uint32_t member, const struct sr_group_origin *origin, uint64_t addr, bool swaps, const struct sr_group_operands *o)
{
	struct sr_group_member *m = &sr_group_memory->member[member];
	struct sr_group_write w = {
	    .origin = *origin, .addr = addr, .length = 8, .kind = swaps ? SR_GROUP_SWAP : SR_GROUP_ATOMIC};
	uint64_t number;

	lock(m);
	number = add_entry(member, &w);
	put_own(place_of(member, w.at), &(struct sr_piece){o, sizeof(*o)}, 1);
	m->written += sizeof(*o);
	unlock(m);
	return number;
}

uint64_t sr_history_atomic(const struct sr_group_write *w, uint64_t before)
{
	struct sr_group_operands o;

	sr_history_bytes(sr_group_self, w->at, &o, sizeof(o));
	if (w->kind == SR_GROUP_ATOMIC)
		return before + o.value;
	return before == o.expected ? o.value : before;
}

uint64_t sr_history_writes(uint32_t member)
{
	struct sr_group_member *m = &sr_group_memory->member[member];
	uint64_t writes;

	lock(m);
	writes = m->writes;
	unlock(m);
	return writes;
}

uint32_t sr_history_read(uint32_t member, uint64_t number, struct sr_group_write *w, uint32_t n)
{
	uint64_t left = SR_GROUP_WRITES - (number - 1) % SR_GROUP_WRITES;
	uint32_t most = n < left ? n : (uint32_t)left;

	sr_group_read_own(entry_at(member, number), w, most * sizeof(*w));
	return most;
}

void sr_history_bytes(uint32_t member, uint64_t at, void *p, uint32_t n)
{
	struct sr_group_place place = place_of(member, at);
	uint8_t *to = p;

	while (n) {
		uint64_t from;
		size_t part = sr_group_place_take(&place, n, &from);

		sr_group_read_own(from, to, part);
		to += part;
		n -= (uint32_t)part;
	}
}

void sr_history_add_unseen(const struct sr_group_origin *origin, enum sr_group_write_kind kind, uint64_t addr, uint32_t n)
{
	struct sr_group_member *m = &sr_group_memory->member[sr_group_self];

	lock(m);
	for (uint64_t at = addr, end = addr + n, stop; at < end; at = stop) {
		stop = (at / PAGE + 1) * PAGE < end ? (at / PAGE + 1) * PAGE : end;
		add_entry(sr_group_self, &(struct sr_group_write){.origin = *origin,
								  .addr = at,
								  .length = (uint32_t)(stop - at),
								  .kind = kind});
	}
	unlock(m);
}

static bool is_kept(const struct sr_group_member *m, uint64_t number)
{
	return number && number + SR_GROUP_WRITES > m->writes;
}

/* Called with the lock held.  Finds the entry of the atomic, unless it was replaced. */
static bool find_atomic(uint32_t member, uint64_t number, uint64_t addr, struct sr_group_write *w)
{
	if (!is_kept(&sr_group_memory->member[member], number))
		return false;
	sr_group_read_own(entry_at(member, number), w, sizeof(*w));
	return w->addr == addr && sr_group_is_open(w->kind);
}

void sr_history_resolve(uint32_t member, uint64_t number, uint64_t addr, uint64_t value)
{
	struct sr_group_member *m = &sr_group_memory->member[member];
	struct sr_group_write w;

	lock(m);
	if (find_atomic(member, number, addr, &w)) {
		put_own(place_of(member, w.at), &(struct sr_piece){&value, sizeof(value)}, 1);
		w.kind = SR_GROUP_BYTES;
		sr_group_write_own(entry_at(member, number), &w, sizeof(w));
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
		sr_group_write_own(entry_at(member, number), &w, sizeof(w));
	}
	unlock(m);
}
