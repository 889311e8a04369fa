/* SPDX-License-Identifier: BSD-2-Clause */
/* region.c: what becomes an exposed region, and what stops being one. */
#include <errno.h>
#include <string.h>

#include "shim/exposed/access.h"
#include "shim/exposed/exposed.h"
#include "shim/exposed/page/event.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/page/mappings.h"
#include "shim/exposed/page/pieces.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/page/states.h"
#include "shim/exposed/probe/probes.h"

int sr_exposed_init(const struct sr_exposed_hooks *h)
{
	int err = page_table_init();

	hooks = *h;
	has_wide_words = __builtin_cpu_supports("avx2");
	probes_init(&fault_probe_handlers);
	err = err ? err : event_init();
	return err ? err : map_init();
}

static bool in_one_zone(uintptr_t begin, uintptr_t end)
{
	return end > begin && offset_of(begin) != NOWHERE && offset_of(end - 1) != NOWHERE &&
	       offset_of(end - 1) - offset_of(begin) == end - 1 - begin;
}

/* The end of the run of pages from `at` on that are all exposed, or all not. */
static uintptr_t run_end(uintptr_t at, uintptr_t end)
{
	bool exposed = page_at(at)->state != PAGE_NONE;

	while (at < end && (page_at(at)->state != PAGE_NONE) == exposed)
		at += PAGE;
	return at;
}

/* The pages of a region of up to so many bytes are returned at once. */
#define AT_ONCE (1ul << 20)

/* Is it still an exposed page that no region has? */
static bool is_left(uintptr_t user)
{
	const struct page *p = page_at(user);

	return p->state != PAGE_NONE && !p->users && !p->aliases;
}

static bool is_whole(uintptr_t user, uintptr_t addr, size_t length)
{
	return user >= addr && user + PAGE <= addr + length;
}

/* Larger regions get no digests: these bytes take some 6 ms. */
#define DIGEST_MAX (64ul << 20)

/* Pages were taken from a region: its device may write to them, wherever they are now. */
static bool strayed;

static bool may_digest(const void *addr, size_t length)
{
	return hooks.is_its_own && !strayed && length <= DIGEST_MAX &&
	       hooks.is_its_own(addr, length);
}

/* All that is there was put there by the program, or by calls that are recorded. */
static void mark_shadow_valid(uintptr_t user)
{
	memcpy(shadow_to_change(user), backing_of(page_at(user), user), PAGE);
	page_at(user)->shadow_valid = true;
}

/* How often regions were removed: what peers wrote meanwhile is sampled by whoever leaves a page last. */
static uint64_t removals;

/* sample: their device may have written there. */
static void return_pages(uintptr_t begin, uintptr_t end, bool sample)
{
	for (uintptr_t v = begin; v < end; v += PAGE) {
		struct page *p = page_at(v);

		if (p->state != PAGE_PROTECTED)
			page_protect(v);
		/* The last sample: later loads do not fault. */
		if (sample && (hooks.event || hooks.recorded))
			take_sample(v, PAGE);
	}
	/* Not before: what is found on many pages is handed over on the way, and looked at again there. */
	for (uintptr_t v = begin; v < end; v += PAGE)
		page_forget(page_at(v));
	map_return(begin, end);
}

/*
 * A page that no region has gets one that has a part of it.  If another region left it, what was written there until
 * then is sampled now: later it would be taken for unregistered bytes.
 */
static void sample_before_sharing(uintptr_t user)
{
	if (page_at(user)->users)
		return;
	event_begin(exposed_self.fault, SR_EXPOSED_AT_CALL, 0, 0);
	replay_values();
	take_sample(user, PAGE);
	event_end();
}

/* What is registered, and its pages. */
struct range {
	uintptr_t addr;
	size_t length;
	uintptr_t begin, end;
};

static struct range range_of(const void *addr, size_t length)
{
	uintptr_t at = (uintptr_t)addr;

	return (struct range){at, length, at & PAGE_MASK, (at + length + PAGE - 1) & PAGE_MASK};
}

static void set_states(uintptr_t begin, uintptr_t end, enum page_state state)
{
	for (uintptr_t v = begin; v < end; v += PAGE)
		page_at(v)->state = (uint8_t)state;
}

/* Pages that are not exposed yet become so. */
static enum sr_exposed_refusal take_run(uintptr_t begin, uintptr_t end, const struct range *r, bool digests)
{
	enum sr_exposed_refusal refusal;

	/* Before the mapping changes: a thread that faults meanwhile waits for the lock. */
	set_states(begin, end, PAGE_PROTECTED);
	refusal = map_take(begin, end);
	if (refusal) {
		set_states(begin, end, PAGE_NONE);
		return refusal;
	}
	if (!is_whole(begin, r->addr, r->length))
		mark_shadow_valid(begin);
	if (!is_whole(end - PAGE, r->addr, r->length))
		mark_shadow_valid(end - PAGE);
	for (uintptr_t v = begin; v < end && digests; v += PAGE)
		note_digest(v);
	return SR_EXPOSED_OK;
}

/* at: the end of the pages that are exposed now. */
static enum sr_exposed_refusal take_runs(const struct range *r, uintptr_t *at)
{
	bool digests = may_digest((void *)r->begin, r->end - r->begin);
	enum sr_exposed_refusal refusal;
	uintptr_t to;

	for (*at = r->begin; *at < r->end; *at = to) {
		to = run_end(*at, r->end);
		if (page_at(*at)->state != PAGE_NONE)
			continue;
		refusal = take_run(*at, to, r, digests);
		if (refusal)
			return refusal;
	}
	return SR_EXPOSED_OK;
}

/* One more region has the page, or a part of it. */
static void join_page(uintptr_t user, const struct range *r)
{
	struct page *p = page_at(user);
	bool whole = is_whole(user, r->addr, r->length);

	if (p->left_behind)
		mark_shadow_valid(user);
	else if (!whole)
		sample_before_sharing(user);
	p->left_behind = false;
	p->users++;
	p->whole += whole;
	if (!whole)
		pieces_add(user, r->addr, r->length);
}

enum sr_exposed_refusal sr_exposed_add(void *addr, size_t length)
{
	const struct range r = range_of(addr, length);
	enum sr_exposed_refusal refusal = SR_EXPOSED_REFUSED_NO_MEMORY;
	uintptr_t at = r.begin;
	uint64_t mask;

	if (!length)
		return SR_EXPOSED_REFUSED_UNMAPPED;
	/* Frames may lie on exposed pages, which are handled with the lock. */
	exposed_self.stack_end = hooks.stack_end ? hooks.stack_end() : 0;
	exposed_lock(&mask);
	address_give_places(r.begin, r.end);
	exposed_unlock(&mask);
	if (!in_one_zone(r.begin, r.end))
		return SR_EXPOSED_REFUSED_ADDRESS;
	if (page_table_reach(r.begin, r.end))
		return SR_EXPOSED_REFUSED_NO_MEMORY;
	exposed_lock(&mask);
	if (pieces_make(page_at(r.begin)) && pieces_make(page_at(r.end - PAGE)))
		refusal = take_runs(&r, &at);
	/* Runs that were taken before one was refused are removed below. */
	for (uintptr_t v = r.begin; v < at; v += PAGE)
		join_page(v, &r);
	exposed_self.removals = removals;
	exposed_unlock(&mask);
	if (refusal && at > r.begin)
		sr_exposed_take_back(addr, at - r.addr);
	return refusal;
}

/* Does the page still belong to that region?  The program may have unmapped it, and registered what is there now. */
static bool is_there(uintptr_t user, uintptr_t addr, size_t length)
{
	const struct page *p = page_at(user);

	if (!p->users)
		return false;
	return is_whole(user, addr, length) ? p->whole > 0 : pieces_have(user, addr, length);
}

/* The bytes are sampled for the last time before the region has them no more. */
static void remove_part(uintptr_t user, uintptr_t addr, size_t length, bool sample)
{
	struct page_part part = part_in_page(user, addr, length);

	if (sample && (hooks.event || hooks.recorded))
		take_sample(user + part.begin, part.end - part.begin);
	pieces_remove(user, addr, length);
}

/* One region less has the page, or a part of it. */
static void leave_page(uintptr_t user, const struct range *r, bool sample)
{
	struct page *p = page_at(user);
	bool whole = is_whole(user, r->addr, r->length);

	if (!whole)
		remove_part(user, r->addr, r->length, sample);
	else if (p->whole == 1 && (p->users > 1 || p->aliases) && sample)
		take_sample(user, PAGE);
	/* Only the program has written to the rest of the page. */
	if (!whole && p->users == 1)
		mark_shadow_valid(user);
	p->users--;
	p->whole -= whole;
	p->left_behind = !p->users && (!whole || p->aliases);
	/* From here on it may be a page that several threads use. */
	if (p->users && p->pieces && !p->whole)
		validate_shadow(user, p);
}

/* Returns the pages that no region has any more. */
static void return_left(uintptr_t begin, uintptr_t end, bool sample)
{
	for (uintptr_t at = begin, to; at < end; at = to) {
		for (to = at; to < end && is_left(to); to += PAGE)
			;
		if (to > at)
			return_pages(at, to, sample);
		else
			to += PAGE;
	}
}

/* unused: it was registered in vain. */
static void remove_region(void *addr, size_t length, uint32_t where, bool unused)
{
	const struct range r = range_of(addr, length);
	uint64_t mask;
	bool sample;

	exposed_lock(&mask);
	sample = !unused || removals != exposed_self.removals;
	removals++;
	event_begin(exposed_self.fault, where, 0, 0);
	replay_values();
	for (uintptr_t v = r.begin; v < r.end; v += PAGE)
		if (is_there(v, r.addr, length))
			leave_page(v, &r, sample);
	if (r.end - r.begin <= AT_ONCE)
		return_left(r.begin, r.end, sample);
	event_end();
	exposed_unlock(&mask);
}

void sr_exposed_remove(void *addr, size_t length)
{
	remove_region(addr, length, SR_EXPOSED_AT_CALL, false);
}

void sr_exposed_take_back(void *addr, size_t length)
{
	remove_region(addr, length, SR_EXPOSED_AT_CALL, true);
}

void sr_exposed_remove_at_return(void *addr, size_t length)
{
	remove_region(addr, length, SR_EXPOSED_AT_RETURN, false);
}

/* Forgets the exposed pages from there on.  Returns where there are no more.  The kernel takes as long for one page as for many. */
static uintptr_t forget_run(uintptr_t begin, uintptr_t end)
{
	uintptr_t at = begin;
	struct page *p;

	for (; at < end && (p = page_at(at)) && p->state != PAGE_NONE; at += PAGE) {
		p->silent = true;
		if (p->state != PAGE_PROTECTED)
			page_protect(at);
		page_forget(p);
	}
	if (at > begin)
		map_drop(begin, at);
	return at;
}

void sr_exposed_forget(void *addr, size_t length)
{
	const uintptr_t end = (uintptr_t)addr + length;
	uint64_t mask;

	exposed_lock(&mask);
	event_begin(exposed_self.fault, SR_EXPOSED_AT_CALL, 0, 0);
	for (uintptr_t at = (uintptr_t)addr & PAGE_MASK; at < end; at = next_page(at))
		at = forget_run(at, end);
	event_end();
	exposed_unlock(&mask);
}

void page_give_up(uintptr_t user)
{
	struct page *p = page_at(user);

	if (p->state != PAGE_PROTECTED)
		page_protect(user);
	if (hooks.event || hooks.recorded)
		take_sample(user, PAGE);
	strayed |= p->users > 0;
	page_release(user);
}

void sr_exposed_give_up(void *addr, size_t length)
{
	uintptr_t at = (uintptr_t)addr & PAGE_MASK, end = (uintptr_t)addr + length;
	uint64_t mask;

	exposed_lock(&mask);
	event_begin(exposed_self.fault, SR_EXPOSED_AT_CALL, 0, 0);
	replay_values();
	for (; at < end; at = next_page(at))
		if (page_is_exposed(at))
			page_give_up(at);
	event_end();
	exposed_unlock(&mask);
}

int sr_exposed_fd(void)
{
	return map_fd();
}

void sr_exposed_get_counts(struct sr_exposed_counts *to)
{
	*to = counts;
}
