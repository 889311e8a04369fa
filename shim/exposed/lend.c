/* SPDX-License-Identifier: BSD-2-Clause */
/* lend.c: exposed memory for the shim itself and for the kernel, during a call: copied, pinned, aliased, held. */
#include "logd/base/checksum.h"
#include "shim/exposed/exposed.h"
#include "shim/exposed/page/event.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/page/pieces.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/page/states.h"

void *sr_exposed_backing(const void *addr)
{
	struct page *p = page_at((uintptr_t)addr);

	if (!p || p->state == PAGE_NONE)
		return (void *)addr;
	return backing_of(p, (uintptr_t)addr);
}

void *sr_exposed_backing_place(const void *addr)
{
	uintptr_t offset = offset_of((uintptr_t)addr);

	return offset == NOWHERE ? (void *)addr : (void *)(BACKING_BASE + offset);
}

static bool any_page(const void *addr, size_t length, bool exposed)
{
	const uintptr_t begin = (uintptr_t)addr & PAGE_MASK, end = (uintptr_t)addr + length;

	/* The argument of a system call may be no address, but a small negative number: behind the last page comes none. */
	for (uintptr_t at = begin; length && at >= begin && at < end; at = next_page(at))
		if (page_is_exposed(at) == exposed)
			return true;
	return false;
}

bool sr_exposed_is_passed_through(const void *addr)
{
	const struct page *p = page_at((uintptr_t)addr);

	return p && (p->state == PAGE_PASS_THROUGH || p->state == PAGE_SUSPENDED_PASS_THROUGH);
}

bool sr_exposed_touches(const void *addr, size_t length)
{
	return any_page(addr, length, true);
}

bool sr_exposed_covers(const void *addr, size_t length)
{
	return !any_page(addr, length, false);
}

static uintptr_t end_of_piece(uintptr_t at, uintptr_t end)
{
	uintptr_t next = (at & PAGE_MASK) + PAGE;

	return next < end ? next : end;
}

/* Within a call the program's handlers wait for its end, so none need be blocked. */
static uint64_t *mask_to_keep(uint64_t *mask)
{
	return exposed_self.silent ? NULL : mask;
}

void sr_exposed_copy(const void *addr, void *to, size_t length)
{
	uintptr_t at = (uintptr_t)addr, end = at + length, stop;
	uint64_t mask, *keep = mask_to_keep(&mask);
	bool exposed;
	char *out = to;

	for (; at < end; out += stop - at, at = stop) {
		stop = end_of_piece(at, end);
		exposed_lock(keep);
		exposed = page_is_exposed(at);
		if (exposed)
			memcpy(out, backing_of(page_at(at), at), stop - at);
		exposed_unlock(keep);
		/* Without the lock: nothing need be mapped there, and then the fault is the program's. */
		if (!exposed)
			memcpy(out, (const char *)at, stop - at);
	}
}

/* Is it so of the bytes in each page?  The page is NULL if none of its neighbours was ever exposed. */
static bool all_pieces(const void *addr, size_t length, bool (*is_so)(const struct page *p, uintptr_t at, size_t n))
{
	uintptr_t at = (uintptr_t)addr, end = at + length, stop;
	uint64_t mask, *keep = mask_to_keep(&mask);
	bool all = true;

	exposed_lock(keep);
	for (; all && at < end; at = stop) {
		stop = end_of_piece(at, end);
		all = is_so(page_at(at), at, stop - at);
	}
	exposed_unlock(keep);
	return all;
}

static bool is_exposed_in_no_region(const struct page *p, uintptr_t at, size_t n)
{
	return page_is_exposed(at) && is_in_no_region(p, at, n);
}

bool sr_exposed_is_in_no_region(const void *addr, size_t length)
{
	return all_pieces(addr, length, is_exposed_in_no_region);
}

static bool is_as_last_seen(const struct page *p, uintptr_t at, size_t n)
{
	return !page_is_exposed(at) || (p->shadow_valid && is_equal(shadow_of(at), backing_of(p, at), n));
}

bool sr_exposed_has_news(const void *addr, size_t length)
{
	return !all_pieces(addr, length, is_as_last_seen);
}

bool sr_exposed_copy_unregistered(const void *addr, void *to, size_t length)
{
	uintptr_t at = (uintptr_t)addr;
	const struct page *p = page_at(at);
	bool is_free;

	if (page_at(at + length - 1) != p)
		return false;
	/* Within a call, as sr_exposed_gather(). */
	exposed_lock(NULL);
	is_free = page_is_exposed(at) && is_unregistered(p, at, length);
	if (is_free)
		memcpy(to, backing_of(p, at), length);
	exposed_unlock(NULL);
	return is_free;
}

static void gather_begins(uintptr_t at)
{
	/* Within a call the program's handlers wait for its end, so none need be blocked. */
	exposed_lock(NULL);
	event_begin(++exposed_self.fault, 0, 0, at);
	note_access(at, false);
	replay_values();
}

static void gather_ends(void)
{
	check_snapshots();
	replay_protected();
	event_end();
	exposed_unlock(NULL);
}

static void sample(uintptr_t at, uintptr_t end)
{
	for (uintptr_t stop; at < end; at = stop) {
		stop = end_of_piece(at, end);
		take_sample(at, stop - at);
	}
}

const void *sr_exposed_gather(const void *addr, size_t length)
{
	uintptr_t at = (uintptr_t)addr;

	gather_begins(at);
	sample(at, at + length);
	gather_ends();
	return shadow_of(at);
}

void sr_exposed_load(const void *addr, void *to, size_t length)
{
	const uintptr_t begin = (uintptr_t)addr, end = begin + length;

	if (to)
		sr_exposed_copy(addr, to, length);
	gather_begins(begin);
	for (uintptr_t at = begin, stop; at < end; at = stop) {
		stop = end_of_piece(at, end);
		if (!page_is_exposed(at))
			continue;
		take_sample(at, stop - at);
		if (to)
			memcpy((char *)to + (at - begin), shadow_of(at), stop - at);
	}
	gather_ends();
}

/* ------------------------------------------------------------- checksums of what is sent */

/* A range that was sent: what the program knew of it, as long as the shadow copies were not changed since. */
struct sent {
	uintptr_t addr;
	size_t length;
	uint64_t changes, sum;
	uint32_t doubtful; /* others have written there lately: the next so many times it is compared at once */
};

#define SENT_MAX   64
#define SENT_LEAST 512 /* shorter ones are compared as soon as they are looked up */
#define COMPARED_MOST (16ul << 10)
#define DOUBTFUL   16

static struct sent sent[SENT_MAX];

static struct sent *sent_at(uintptr_t addr, size_t length, uint64_t seed)
{
	return length < SENT_LEAST || seed ? NULL : &sent[(addr / 64 * 31 + addr / PAGE + length) % SENT_MAX];
}

/* Is all of it known, and in the backing mapping?  changes: of its shadow copies so far. */
static bool is_settled(uintptr_t at, uintptr_t end, uint64_t *changes)
{
	*changes = 0;
	for (at &= PAGE_MASK; at < end; at += PAGE) {
		const struct page *p = page_at(at);

		if (!p->shadow_valid || (p->state != PAGE_PROTECTED && !is_snapshot(p)))
			return false;
		*changes += shadow_changes[at / PAGE % SHADOW_COUNTS];
	}
	return true;
}

/*
 * Is what is known still there?  Where both fit into the processor's nearest cache, a comparison takes half as long as a
 * checksum; else the checksum reads half as much.
 */
static bool is_there(const struct sent *s, uintptr_t addr, size_t length)
{
	const void *there = (const void *)(BACKING_BASE + offset_of(addr));

	if (length <= COMPARED_MOST)
		return !memcmp(there, shadow_of(addr), length);
	return sr_checksum(there, length, 0) == s->sum;
}

static bool is_as_sent(struct sent *s, uintptr_t addr, size_t length)
{
	uint64_t changes;

	if (!s || s->addr != addr || s->length != length || (s->doubtful && s->doubtful--) ||
	    !is_settled(addr, addr + length, &changes) || changes != s->changes)
		return false;
	if (is_there(s, addr, length))
		return true;
	s->doubtful = DOUBTFUL;
	return false;
}

static void note_sent(struct sent *s, uintptr_t addr, size_t length, uint64_t sum)
{
	uint32_t doubtful = s->addr == addr && s->length == length ? s->doubtful : 0;
	uint64_t changes;

	if (is_settled(addr, addr + length, &changes))
		*s = (struct sent){addr, length, changes, sum, doubtful};
}

uint64_t sr_exposed_checksum(const void *addr, size_t length, uint64_t seed)
{
	uintptr_t at = (uintptr_t)addr;
	struct sent *s = sent_at(at, length, seed);
	uint64_t sum;

	gather_begins(at);
	if (is_as_sent(s, at, length)) {
		sum = s->sum;
	} else {
		sample(at, at + length);
		sum = sr_checksum(shadow_of(at), length, seed);
		if (s)
			note_sent(s, at, length, sum);
	}
	gather_ends();
	return sum;
}

void sr_exposed_pin(const void *addr, size_t length)
{
	uintptr_t at = (uintptr_t)addr & PAGE_MASK, end = (uintptr_t)addr + length;
	uint64_t mask;

	exposed_lock(&mask);
	event_begin(exposed_self.fault, SR_EXPOSED_AT_CALL, 0, 0);
	for (; at < end; at += PAGE) {
		struct page *p = page_at(at);

		if (!page_is_exposed(at) || p->pins++)
			continue;
		if (p->state != PAGE_PROTECTED)
			page_protect(at);
		if (!page_map_through(at))
			p->pins = 0;
	}
	event_end();
	exposed_unlock(&mask);
}

void sr_exposed_unpin(const void *addr, size_t length)
{
	uintptr_t at = (uintptr_t)addr & PAGE_MASK, end = (uintptr_t)addr + length;
	uint64_t mask;

	exposed_lock(&mask);
	for (; at < end; at += PAGE) {
		struct page *p = page_at(at);

		if (!page_is_exposed(at) || !p->pins || --p->pins)
			continue;
		p->silent = true;
		page_protect(at);
	}
	exposed_unlock(&mask);
}

bool sr_exposed_is_partial(const void *addr)
{
	const struct page *p = page_at((uintptr_t)addr);

	return p && p->state != PAGE_NONE && !p->whole;
}

static inline void each_used(const void *addr, size_t length, void (*what)(struct page *p))
{
	uintptr_t end = (uintptr_t)addr + length;

	for (uintptr_t at = (uintptr_t)addr & PAGE_MASK; at < end; at = next_page(at)) {
		struct page *p = page_at(at);

		if (p && p->users)
			what(p);
	}
}

static void keep_values(struct page *p)
{
	p->by_value = true;
}

void sr_exposed_keep_values(const void *addr, size_t length)
{
	each_used(addr, length, keep_values);
}

static void had_zeros(struct page *p)
{
	if (p->state == PAGE_PROTECTED && !p->shadow_valid)
		note_digest_of_zeros(p);
}

void sr_exposed_is_empty(const void *addr, size_t length)
{
	each_used(addr, length, had_zeros);
}

static void meet(struct page *p)
{
	p->meets = true;
}

void sr_exposed_meets(const void *addr, size_t length)
{
	each_used(addr, length, meet);
}

bool sr_exposed_keeps_values(const void *addr)
{
	const struct page *p = page_at((uintptr_t)addr);

	return p && (p->by_value || p->fetches);
}

void sr_exposed_fetch_begins(const void *addr, size_t length)
{
	uintptr_t end = (uintptr_t)addr + length;

	for (uintptr_t at = (uintptr_t)addr & PAGE_MASK; at < end; at = next_page(at)) {
		struct page *p = page_at(at);

		/* A page that reaches the limit stays there: what loads find on it is recorded for ever. */
		if (p && p->users && __atomic_load_n(&p->fetches, __ATOMIC_RELAXED) < UINT16_MAX / 2)
			__atomic_fetch_add(&p->fetches, 1, __ATOMIC_RELAXED);
		else if (p)
			p->by_value = true;
	}
}

static void will_have_message(struct page *p)
{
	if (!p->own)
		p->own = true;
}

void sr_exposed_messages_come(const void *addr, size_t length)
{
	each_used(addr, length, will_have_message);
}

static void will_be_fetched(struct page *p)
{
	p->fetched = p->own = true;
}

void sr_exposed_fetched(const void *addr, size_t length)
{
	each_used(addr, length, will_be_fetched);
}

void sr_exposed_fetch_ends(const void *addr, size_t length)
{
	uintptr_t end = (uintptr_t)addr + length;

	for (uintptr_t at = (uintptr_t)addr & PAGE_MASK; at < end; at = next_page(at)) {
		struct page *p = page_at(at);

		if (p && __atomic_load_n(&p->fetches, __ATOMIC_RELAXED))
			__atomic_fetch_sub(&p->fetches, 1, __ATOMIC_RELAXED);
	}
}

bool sr_exposed_is_whole(const void *addr, size_t length)
{
	uintptr_t end = (uintptr_t)addr + length;

	for (uintptr_t at = (uintptr_t)addr & PAGE_MASK; at < end; at += PAGE) {
		const struct page *p = page_at(at);

		if (!p || p->state == PAGE_NONE || !p->whole)
			return false;
	}
	return true;
}

const char *sr_exposed_known(const void *addr)
{
	const struct page *p = page_at((uintptr_t)addr);

	return p && p->state != PAGE_NONE && p->shadow_valid ? shadow_of((uintptr_t)addr) : NULL;
}

const char *sr_exposed_known_page(const void *page)
{
	const struct page *p = page_at((uintptr_t)page);

	return p && p->whole && !p->own && !p->by_value && !p->fetches ? sr_exposed_known(page) : NULL;
}

/* Between the backing mappings there may be memory of the program. */
bool sr_exposed_is_alias(const void *addr)
{
	uintptr_t user = (uintptr_t)addr - BACKING_BASE < ZONES_BYTES ? address_at((uintptr_t)addr - BACKING_BASE) : NOWHERE;

	return user != NOWHERE && page_is_exposed(user) && page_at(user)->aliases;
}

/* A page that was passed through before the process had threads is protected soon, and can be aliased then. */
static bool can_be_aliased(uintptr_t at, uintptr_t end)
{
	for (; at < end; at += PAGE)
		if (!page_is_exposed(at) || !is_partial(page_at(at)) ||
		    page_at(at)->state == PAGE_PASS_THROUGH || page_at(at)->state == PAGE_SUSPENDED_PASS_THROUGH)
			return false;
	return true;
}

void *sr_exposed_alias(const void *addr, size_t length)
{
	uintptr_t begin = (uintptr_t)addr & PAGE_MASK, end = (uintptr_t)addr + length;
	void *alias = NULL;
	uint64_t mask, *keep = mask_to_keep(&mask);

	exposed_lock(keep);
	if (can_be_aliased(begin, end)) {
		for (uintptr_t at = begin; at < end; at += PAGE) {
			page_at(at)->aliases++;
			page_tell_unwatched(at);
		}
		alias = (void *)(BACKING_BASE + offset_of((uintptr_t)addr));
	}
	exposed_unlock(keep);
	return alias;
}

void *sr_exposed_unalias(void *alias, size_t length)
{
	uintptr_t addr = address_at((uintptr_t)alias - BACKING_BASE), end = addr + length;
	uint64_t mask, *keep = mask_to_keep(&mask);

	exposed_lock(keep);
	for (uintptr_t at = addr & PAGE_MASK; at < end; at += PAGE)
		page_at(at)->aliases--;
	exposed_unlock(keep);
	return (void *)addr;
}

void *sr_exposed_hold(const void *addr)
{
	uint64_t mask;

	exposed_lock(&mask);
	event_begin(exposed_self.fault, SR_EXPOSED_AT_CALL, 0, 0);
	protect_pass_through();
	holds++;
	event_end();
	exposed_unlock(&mask);
	return (void *)(BACKING_BASE + offset_of((uintptr_t)addr));
}

void sr_exposed_release(void)
{
	uint64_t mask;

	exposed_lock(&mask);
	holds--;
	exposed_unlock(&mask);
}
