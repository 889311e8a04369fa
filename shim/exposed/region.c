/* SPDX-License-Identifier: BSD-2-Clause */
/* region.c: what becomes an exposed region and what stops being one; observations. */
#include <errno.h>
#include <sys/mman.h>

#include "shim/exposed/mappings.h"
#include "shim/exposed/page.h"
#include "shim/exposed/probe/probes.h"

int sr_exposed_init(const struct sr_exposed_hooks *h)
{
	int err = page_table_init();

	hooks = *h;
	has_wide_words = __builtin_cpu_supports("avx2");
	probes_init();
	return err ? err : map_init();
}

static bool in_one_zone(uintptr_t begin, uintptr_t end)
{
	return end > begin && offset_of(begin) != NOWHERE && offset_of(end - 1) != NOWHERE &&
	       offset_of(end - 1) - offset_of(begin) == end - 1 - begin;
}

/* The first address from `at` on whose page is (or is not) a exposed region's. */
static uintptr_t run_end(uintptr_t at, uintptr_t end)
{
	bool exposed = page_at(at)->state != PAGE_NONE;

	while (at < end && (page_at(at)->state != PAGE_NONE) == exposed)
		at += PAGE;
	return at;
}

/* Pages of a region up to so large are given back at once. */
#define AT_ONCE (1ul << 20)

/* No region has it any more, but it is still a exposed region's. */
static bool is_left(uintptr_t user)
{
	const struct page *p = page_at(user);

	return p->state != PAGE_NONE && !p->users && !p->aliases;
}

static bool is_whole(uintptr_t user, uintptr_t addr, size_t length)
{
	return user >= addr && user + PAGE <= addr + length;
}

/* Of larger regions no digests are made: this is some 6 ms. */
#define DIGEST_MAX (64ul << 20)

/* Memory was taken from a region, and the device may write to it, wherever it is now. */
static bool strayed;

static bool may_digest(const void *addr, size_t length)
{
	return hooks.is_its_own && !strayed && length <= DIGEST_MAX &&
	       hooks.is_its_own(addr, length);
}

/* Nobody has written there yet but those who will be heard of otherwise. */
static void know(uintptr_t user)
{
	memcpy(shadow_of(user), backing_of(page_at(user), user), PAGE);
	page_at(user)->known = true;
}

static void give_back(uintptr_t begin, uintptr_t end)
{
	for (uintptr_t v = begin; v < end; v += PAGE) {
		struct page *p = page_at(v);

		if (p->state != PAGE_PROTECTED)
			page_protect(v);
		/* The last look: nobody looks at its loads any more. */
		if (hooks.event || hooks.recorded)
			sample(v, PAGE);
		page_forget(p);
	}
	map_return(begin, end);
}

/*
 * A page without regions gets one that has a part of it.  If another one left it, what was written there until
 * then is seen now, when nobody takes it for what lies beside a region.
 */
static void look_before_sharing(uintptr_t user)
{
	if (page_at(user)->users)
		return;
	event_begin(exposed_self.fault, SR_EXPOSED_AT_CALL, 0, 0);
	replay_values();
	sample(user, PAGE);
	event_end();
}

void page_release(uintptr_t user)
{
	page_forget(page_at(user));
	map_return(user, user + PAGE);
}

enum sr_exposed_refusal sr_exposed_add(void *addr, size_t length)
{
	uintptr_t begin = (uintptr_t)addr & PAGE_MASK,
		  end = ((uintptr_t)addr + length + PAGE - 1) & PAGE_MASK, at, to;
	enum sr_exposed_refusal refusal = SR_EXPOSED_OK;
	bool digests, whole;
	uint64_t mask;

	if (!length)
		return SR_EXPOSED_REFUSED_UNMAPPED;
	if (!in_one_zone(begin, end))
		return SR_EXPOSED_REFUSED_ADDRESS;
	if (page_table_reach(begin, end))
		return SR_EXPOSED_REFUSED_NO_MEMORY;
	exposed_lock(&mask);
	if (!pieces_make(page_at(begin)) || !pieces_make(page_at(end - PAGE)))
		refusal = SR_EXPOSED_REFUSED_NO_MEMORY;
	digests = may_digest((void *)begin, end - begin);
	for (at = begin; at < end && !refusal; at = to) {
		to = run_end(at, end);
		if (page_at(at)->state != PAGE_NONE)
			continue;
		/* Before the mapping changes: a thread that faults meanwhile waits here. */
		for (uintptr_t v = at; v < to; v += PAGE)
			page_at(v)->state = PAGE_PROTECTED;
		refusal = map_take(at, to);
		if (refusal) {
			for (uintptr_t v = at; v < to; v += PAGE)
				page_at(v)->state = PAGE_NONE;
			break;
		}
		if (!is_whole(at, (uintptr_t)addr, length))
			know(at);
		if (!is_whole(to - PAGE, (uintptr_t)addr, length))
			know(to - PAGE);
		for (uintptr_t v = at; v < to && digests; v += PAGE)
			note_digest(v);
	}
	/* Pieces taken before the one that was refused go back below. */
	for (uintptr_t v = begin; v < at; v += PAGE) {
		whole = is_whole(v, (uintptr_t)addr, length);
		if (!whole)
			look_before_sharing(v);
		page_at(v)->users++;
		page_at(v)->whole += whole;
		if (!whole)
			pieces_add(v, (uintptr_t)addr, length);
	}
	exposed_unlock(&mask);
	if (refusal && at > begin)
		sr_exposed_remove(addr, at - (uintptr_t)addr);
	return refusal;
}

/* Or was it forgotten there, with what is there now being others'? */
static bool is_there(uintptr_t user, uintptr_t addr, size_t length)
{
	const struct page *p = page_at(user);

	if (!p->users)
		return false;
	return is_whole(user, addr, length) ? p->whole > 0 : pieces_have(user, addr, length);
}

void sr_exposed_remove(void *addr, size_t length)
{
	uintptr_t begin = (uintptr_t)addr & PAGE_MASK,
		  end = ((uintptr_t)addr + length + PAGE - 1) & PAGE_MASK, at, to;
	uint64_t mask;
	bool whole;

	exposed_lock(&mask);
	event_begin(exposed_self.fault, SR_EXPOSED_AT_CALL, 0, 0);
	replay_values();
	for (uintptr_t v = begin; v < end; v += PAGE) {
		struct page *p = page_at(v);

		if (!is_there(v, (uintptr_t)addr, length))
			continue;
		whole = is_whole(v, (uintptr_t)addr, length);
		if (!whole)
			pieces_remove(v, (uintptr_t)addr, length);
		else if (p->whole == 1 && p->users > 1)
			sample(v, PAGE);
		/* Nobody but the program has written to the rest of it. */
		if (!whole && p->users == 1)
			know(v);
		p->users--;
		p->whole -= whole;
		/* From here on it may be a page that several threads have things on. */
		if (p->users && p->pieces && !p->whole)
			validate_shadow(v, p);
	}
	for (at = begin; at < end && end - begin <= AT_ONCE; at = to) {
		for (to = at; to < end && is_left(to); to += PAGE)
			;
		if (to > at)
			give_back(at, to);
		else
			to += PAGE;
	}
	event_end();
	exposed_unlock(&mask);
}

/* Or the next one of which there could be something to say. */
static uintptr_t next_page(uintptr_t at)
{
	return page_at(at) ? at + PAGE : (at & ~(CHUNK_BYTES - 1)) + CHUNK_BYTES;
}

void sr_exposed_forget(void *addr, size_t length)
{
	uintptr_t at = (uintptr_t)addr & PAGE_MASK, end = (uintptr_t)addr + length;
	uint64_t mask;

	exposed_lock(&mask);
	event_begin(exposed_self.fault, SR_EXPOSED_AT_CALL, 0, 0);
	for (; at < end; at = next_page(at)) {
		struct page *p = page_at(at);

		if (!p || p->state == PAGE_NONE)
			continue;
		p->silent = true;
		if (p->state != PAGE_PROTECTED)
			page_protect(at);
		page_forget(p);
		map_drop(at);
	}
	event_end();
	exposed_unlock(&mask);
}

void sr_exposed_give_up(void *addr, size_t length)
{
	uintptr_t at = (uintptr_t)addr & PAGE_MASK, end = (uintptr_t)addr + length;
	uint64_t mask;

	exposed_lock(&mask);
	event_begin(exposed_self.fault, SR_EXPOSED_AT_CALL, 0, 0);
	replay_values();
	for (; at < end; at = next_page(at)) {
		struct page *p = page_at(at);

		if (!p || p->state == PAGE_NONE)
			continue;
		if (p->state != PAGE_PROTECTED)
			page_protect(at);
		if (hooks.event || hooks.recorded)
			sample(at, PAGE);
		strayed |= p->users > 0;
		page_release(at);
	}
	event_end();
	exposed_unlock(&mask);
}

void *sr_exposed_backing(const void *addr)
{
	struct page *p = page_at((uintptr_t)addr);

	if (!p || p->state == PAGE_NONE)
		return (void *)addr;
	return backing_of(p, (uintptr_t)addr);
}

static void observe(uint32_t flags)
{
	uint64_t mask;

	/* A replay also has what another thread's pages brought in the recording. */
	if (!atomic_load_explicit(&anything_open, memory_order_acquire) && !hooks.recorded)
		return;
	exposed_lock(&mask);
	event_begin(exposed_self.fault, flags, 0, 0);
	replay_values();
	protect_mine();
	/* What it may know from here on. */
	if (flags & SR_EXPOSED_AT_RETURN)
		keep_changed();
	event_end();
	exposed_unlock(&mask);
}

void sr_exposed_observe(void)
{
	/* Loads done one by one are counted anew: no lock for that, and no harm if it is late. */
	thread_epoch_ends();
	observe(SR_EXPOSED_AT_CALL);
}

void sr_exposed_call_begins(void)
{
	sr_exposed_observe();
	exposed_self.silent = true;
}

void sr_exposed_call_ends(void)
{
	exposed_self.silent = false;
	exposed_self.fault = 0;
	exposed_self.accesses = 0;
	exposed_self.accessed = 0;
	observe(SR_EXPOSED_AT_RETURN);
	if (values_awaited)
		tick_arm();
}

bool sr_exposed_call_interrupted(void)
{
	bool silent = exposed_self.silent;

	exposed_self.silent = false;
	return silent;
}

void sr_exposed_call_resumes(bool silent)
{
	exposed_self.silent = silent;
}

/* ---------------------------------------------------------- for the shim */

static bool is_exposed(uintptr_t addr)
{
	const struct page *p = page_at(addr);

	return p && p->state != PAGE_NONE;
}

static bool any_page(const void *addr, size_t length, bool exposed)
{
	uintptr_t at = (uintptr_t)addr & PAGE_MASK, end = (uintptr_t)addr + length;

	for (; length && at < end; at = next_page(at))
		if (is_exposed(at) == exposed)
			return true;
	return false;
}

bool sr_exposed_touches(const void *addr, size_t length)
{
	return any_page(addr, length, true);
}

bool sr_exposed_covers(const void *addr, size_t length)
{
	return !any_page(addr, length, false);
}

uint64_t sr_exposed_faults(void)
{
	return exposed_self.fault;
}

static uintptr_t end_of_piece(uintptr_t at, uintptr_t end)
{
	uintptr_t next = (at & PAGE_MASK) + PAGE;

	return next < end ? next : end;
}

void sr_exposed_copy(const void *addr, void *to, size_t length)
{
	uintptr_t at = (uintptr_t)addr, end = at + length, stop;
	/* Within a call, handlers of the program's wait for its end. */
	uint64_t mask, *keep = exposed_self.silent ? NULL : &mask;
	bool exposed;
	char *out = to;

	for (; at < end; out += stop - at, at = stop) {
		stop = end_of_piece(at, end);
		exposed_lock(keep);
		exposed = is_exposed(at);
		if (exposed)
			memcpy(out, backing_of(page_at(at), at), stop - at);
		exposed_unlock(keep);
		/* Without the lock: there need be nothing, and the fault is the program's. */
		if (!exposed)
			memcpy(out, (const char *)at, stop - at);
	}
}

bool sr_exposed_copy_unregistered(const void *addr, void *to, size_t length)
{
	uintptr_t at = (uintptr_t)addr;
	const struct page *p = page_at(at);
	bool beside;

	if (page_at(at + length - 1) != p)
		return false;
	/* Within a call: as in sr_exposed_gather(). */
	exposed_lock(NULL);
	beside = is_exposed(at) && is_unregistered(p, at, length);
	if (beside)
		memcpy(to, backing_of(p, at), length);
	exposed_unlock(NULL);
	return beside;
}

const void *sr_exposed_gather(const void *addr, size_t length)
{
	uintptr_t at = (uintptr_t)addr, end = at + length, stop;

	/* Within a call: handlers of the program's wait for its end, none need be blocked. */
	exposed_lock(NULL);
	event_begin(++exposed_self.fault, 0, 0, at);
	note_access(at, false);
	replay_values();
	for (; at < end; at = stop) {
		stop = end_of_piece(at, end);
		sample(at, stop - at);
	}
	validate();
	replay_protected();
	event_end();
	exposed_unlock(NULL);
	return shadow_of((uintptr_t)addr);
}

void sr_exposed_pin(const void *addr, size_t length)
{
	uintptr_t at = (uintptr_t)addr & PAGE_MASK, end = (uintptr_t)addr + length;
	uint64_t mask;

	exposed_lock(&mask);
	event_begin(exposed_self.fault, SR_EXPOSED_AT_CALL, 0, 0);
	for (; at < end; at += PAGE) {
		struct page *p = page_at(at);

		if (!is_exposed(at) || p->pins++)
			continue;
		if (p->state != PAGE_PROTECTED)
			page_protect(at);
		if (!page_give(at))
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

		if (!is_exposed(at) || !p->pins || --p->pins)
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

static bool is_alias(uintptr_t at)
{
	return at - BACKING_BASE < ZONES_BYTES;
}

bool sr_exposed_is_alias(const void *addr)
{
	return is_alias((uintptr_t)addr);
}

/* A page that was live becomes none again for those that are common: they never are, for long. */
static bool can_be_aliased(uintptr_t at, uintptr_t end)
{
	for (; at < end; at += PAGE)
		if (!is_exposed(at) || !is_partial(page_at(at)) ||
		    page_at(at)->state == PAGE_PASS_THROUGH || page_at(at)->state == PAGE_KEPT_PASS_THROUGH)
			return false;
	return true;
}

void *sr_exposed_alias(const void *addr, size_t length)
{
	uintptr_t begin = (uintptr_t)addr & PAGE_MASK, end = (uintptr_t)addr + length;
	void *alias = NULL;
	uint64_t mask;

	exposed_lock(&mask);
	if (can_be_aliased(begin, end)) {
		for (uintptr_t at = begin; at < end; at += PAGE)
			page_at(at)->aliases++;
		alias = (void *)(BACKING_BASE + offset_of((uintptr_t)addr));
	}
	exposed_unlock(&mask);
	return alias;
}

void *sr_exposed_unalias(void *alias, size_t length)
{
	uintptr_t addr = address_at((uintptr_t)alias - BACKING_BASE), end = addr + length;
	uint64_t mask;

	exposed_lock(&mask);
	for (uintptr_t at = addr & PAGE_MASK; at < end; at += PAGE)
		page_at(at)->aliases--;
	exposed_unlock(&mask);
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

/* ------------------------------------------------------------------- fork */

static uint64_t fork_mask;

void sr_exposed_before_fork(void)
{
	exposed_lock(&fork_mask);
	event_begin(exposed_self.fault, SR_EXPOSED_AT_CALL, 0, 0);
	replay_values();
	keep_all();
	event_end();
}

static void return_in_child(uintptr_t begin, uintptr_t end)
{
	map_return_in_child(begin, end);
	for (uintptr_t v = begin; v < end; v += PAGE)
		page_at(v)->state = PAGE_NONE;
}

void sr_exposed_after_fork(bool child)
{
	if (child) {
		page_table_walk(return_in_child);
		map_forget();
		hooks = (struct sr_exposed_hooks){0};
	}
	exposed_unlock(&fork_mask);
}

int sr_exposed_fd(void)
{
	return map_fd();
}

void sr_exposed_read(const void *from, void *to, size_t length)
{
	uintptr_t at = (uintptr_t)from, end = at + length;
	char *out = to;
	uint64_t mask;

	exposed_lock(&mask);
	event_begin(++exposed_self.fault, 0, 0, at);
	note_access(at, false);
	replay_values();
	while (at < end) {
		uintptr_t stop = (at & PAGE_MASK) + PAGE < end ? (at & PAGE_MASK) + PAGE : end;
		struct page *p = page_at(at);
		static char now[PAGE];

		if (!p || p->state == PAGE_NONE) {
			memcpy(out, (void *)at, stop - at);
		} else {
			if (is_snapshot(p))
				page_protect(at & PAGE_MASK);
			validate_shadow(at & PAGE_MASK, p);
			snapshot(at & PAGE_MASK, now);
			record_difference(at, now + at % PAGE, stop - at, 0);
			memcpy(out, now + at % PAGE, stop - at);
		}
		out += stop - at;
		at = stop;
	}
	validate();
	replay_protected();
	event_end();
	exposed_unlock(&mask);
}

void sr_exposed_get_counts(struct sr_exposed_counts *to)
{
	*to = counts;
}
