/* SPDX-License-Identifier: BSD-2-Clause */
/* lend.c: exposed memory for the shim itself and for the kernel, during a call: copied, pinned, aliased, held. */
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

/* As sr_exposed_copy(), the other way. */
void sr_exposed_put(void *addr, const void *from, size_t length)
{
	uintptr_t at = (uintptr_t)addr, end = at + length, stop;
	uint64_t mask, *keep = mask_to_keep(&mask);
	const char *in = from;
	struct page *p;
	bool exposed;

	for (; at < end; in += stop - at, at = stop) {
		stop = end_of_piece(at, end);
		exposed_lock(keep);
		p = page_at(at);
		exposed = page_is_exposed(at);
		if (exposed) {
			memcpy(backing_of(p, at), in, stop - at);
			p->own = true;
			page_tell_unwatched(at & PAGE_MASK);
		}
		exposed_unlock(keep);
		if (!exposed)
			memcpy((char *)at, in, stop - at);
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

void sr_exposed_pin(const void *addr, size_t length)
{
	uintptr_t at = (uintptr_t)addr & PAGE_MASK, end = (uintptr_t)addr + length;
	uint64_t mask;

	exposed_lock(&mask);
	event_begin(exposed_self.fault, SR_EXPOSED_AT_CALL, 0, 0);
	for (; at < end; at += PAGE) {
		struct page *p = page_at(at);

		/* Who has the backing mapping of the page would lose it: then only the kernel cannot come there. */
		if (!page_is_exposed(at) || p->aliases || p->pins++)
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

bool sr_exposed_is_lent(const void *addr, size_t length)
{
	const uintptr_t end = (uintptr_t)addr + length;

	for (uintptr_t at = (uintptr_t)addr & PAGE_MASK; at < end; at = next_page(at))
		if (page_is_exposed(at) && page_at(at)->aliases)
			return true;
	return false;
}

/* Not what a call of another thread's has at the program's address. */
static bool can_be_aliased(uintptr_t at, uintptr_t end)
{
	for (; at < end; at += PAGE)
		if (!page_is_exposed(at) || page_at(at)->pins)
			return false;
	return has_threads();
}

static bool any_passed_through(uintptr_t at, uintptr_t end)
{
	for (; at < end; at += PAGE)
		if (page_at(at)->state == PAGE_PASS_THROUGH)
			return true;
	return false;
}

/* They are put back where the NIC writes, and stay there. */
static void put_back(uintptr_t at, uintptr_t end)
{
	event_begin(exposed_self.fault, SR_EXPOSED_AT_CALL, 0, 0);
	for (; at < end; at += PAGE)
		if (page_at(at)->state == PAGE_PASS_THROUGH)
			page_suspend(at);
	event_end();
}

void *sr_exposed_alias(const void *addr, size_t length)
{
	uintptr_t begin = (uintptr_t)addr & PAGE_MASK, end = (uintptr_t)addr + length;
	void *alias = NULL;
	uint64_t mask, *keep = mask_to_keep(&mask);

	exposed_lock(keep);
	if (can_be_aliased(begin, end)) {
		if (any_passed_through(begin, end))
			put_back(begin, end);
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
