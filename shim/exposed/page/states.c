/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/page/states.h"

#include <sys/mman.h>

#include "shim/exposed/page/event.h"
#include "shim/exposed/page/mappings.h"
#include "shim/exposed/page/pieces.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/page/timer.h"

static void set_open_n(uint32_t n)
{
	open_n = n;
	atomic_store_explicit(&anything_open, n, memory_order_release);
}

bool is_mine(const struct page *p)
{
	return p->owner == thread_id();
}

/* In the order of their opening, so that the oldest comes first. */
static void forget_open(uintptr_t user)
{
	uint32_t i = open_n;

	while (i && open_pages[i - 1] != user)
		i--;
	if (!i--)
		return;
	memmove(&open_pages[i], &open_pages[i + 1], (open_n - i - 1) * sizeof(*open_pages));
	set_open_n(open_n - 1);
}

/* ---------------------------------------------- several pages that are protected */

static void taken_back(uintptr_t user)
{
	struct page *p = page_at(user);

	if (!--pass_through_n && hooks.passes)
		hooks.passes(false);
	p->state = PAGE_SUSPENDED_PASS_THROUGH;
	if (hooks.was_pass_through)
		hooks.was_pass_through(user, backing_of(p, user));
}

static void protect_taken_back(uintptr_t user)
{
	struct page *p = page_at(user);

	p->state = PAGE_PROTECTED;
	/* The program's own stores are in there as well, and cannot be told apart. */
	if (!p->silent)
		record_page(user, SR_EXPOSED_ASYNC);
	p->silent = false;
	p->loads = 0;
}

/* Neighbouring pages in one state, which the same system calls protect. */
struct run {
	uintptr_t begin, end;
	bool passed; /* through; else they are snapshots */
};

static void end_run(struct run *r)
{
	if (r->begin < r->end && r->passed)
		map_take_back(r->begin, r->end);
	else if (r->begin < r->end)
		map_protect_range(r->begin, r->end, PROT_NONE);
	for (uintptr_t user = r->begin; r->passed && user < r->end; user += PAGE) {
		taken_back(user);
		protect_taken_back(user);
	}
	*r = (struct run){0};
}

static bool are_neighbours(uintptr_t user, uintptr_t next)
{
	return user + PAGE == next && offset_of(user) + PAGE == offset_of(next);
}

static void add_to_run(struct run *r, uintptr_t user, bool passed)
{
	if (r->begin < r->end && r->passed == passed && are_neighbours(user, r->begin)) {
		r->begin = user;
	} else if (r->begin < r->end && r->passed == passed && are_neighbours(r->end - PAGE, user)) {
		r->end += PAGE;
	} else {
		end_run(r);
		*r = (struct run){user, user + PAGE, passed};
	}
}

/* As page_protect(), but what needs system calls may be done as late as at end_run(). */
static void protect_in_run(struct run *r, uintptr_t user)
{
	struct page *p = page_at(user);

	if (p->state != PAGE_SNAPSHOT && p->state != PAGE_PASS_THROUGH) {
		page_protect(user);
		return;
	}
	forget_open(user);
	add_to_run(r, user, p->state == PAGE_PASS_THROUGH);
	if (p->state == PAGE_SNAPSHOT) {
		p->state = PAGE_PROTECTED;
		p->loads = 0;
	}
}

void protect_mine(void)
{
	struct run r = {0};

	for (uint32_t i = open_n; i--;)
		if (is_mine(page_at(open_pages[i])))
			protect_in_run(&r, open_pages[i]);
	end_run(&r);
}

static uint32_t count_mine(void)
{
	uint32_t n = 0;

	for (uint32_t i = open_n; i--;)
		n += is_mine(page_at(open_pages[i]));
	return n;
}

/* For so many pages.  The oldest of this thread's make room. */
static void make_room(uint32_t n)
{
	uint32_t mine = count_mine(), spare = OPEN_MAX - n;
	struct run r = {0};

	for (uint32_t i = 0; mine > spare && i < open_n;) {
		if (!is_mine(page_at(open_pages[i]))) {
			i++;
			continue;
		}
		protect_in_run(&r, open_pages[i]);
		mine--;
	}
	end_run(&r);
	while (open_n + n > OPEN_ALL)
		page_protect(open_pages[0]);
}

void page_tell_unwatched(uintptr_t user)
{
	if (hooks.unwatched)
		hooks.unwatched(user);
}

static void note_open(uintptr_t user)
{
	page_at(user)->owner = thread_id();
	open_pages[open_n] = user;
	set_open_n(open_n + 1);
	page_tell_unwatched(user);
	if (!exposed_self.silent)
		tick_arm();
}

/* Where loads are watched, the page is shown only by name: each of them faults (fault.c). */
static int show(uintptr_t begin, uintptr_t end)
{
	bool hidden = hooks.accessed && !exposed_self.silent;

	for (uintptr_t user = begin; user < end; user += PAGE) {
		page_at(user)->hidden = hidden;
		page_at(user)->watched = 0;
	}
	return map_protect_range(begin, end, hidden ? PROT_NONE : PROT_READ);
}

void page_show_hidden(uintptr_t user)
{
	page_at(user)->hidden = false;
	map_protect(user, PROT_READ);
}

void page_show_unwatched(uintptr_t user)
{
	page_show_hidden(user);
	page_tell_unwatched(user);
}

/* It may have become something else meanwhile. */
void page_hide_again(uintptr_t user)
{
	struct page *p = page_at(user);

	if (!p || p->state != PAGE_SNAPSHOT || p->hidden)
		return;
	p->hidden = true;
	map_protect(user, PROT_NONE);
}

void page_show_snapshots(uintptr_t begin, uintptr_t end)
{
	make_room((uint32_t)((end - begin) / PAGE));
	if (show(begin, end))
		return; /* the load faults again */
	for (uintptr_t user = begin; user < end; user += PAGE) {
		page_at(user)->state = PAGE_SNAPSHOT;
		note_open(user);
		counts.snapshots++;
	}
}

static void take_back(uintptr_t user)
{
	map_take_back(user, user + PAGE);
	taken_back(user);
}

static void suspend_snapshot(uintptr_t user)
{
	map_protect(user, PROT_NONE);
	page_at(user)->state = PAGE_SUSPENDED;
}

void page_suspend(uintptr_t user)
{
	struct page *p = page_at(user);

	if (is_mine(p) || p->silent) {
		page_protect(user);
	} else if (p->state == PAGE_PASS_THROUGH) {
		take_back(user);
	} else if (p->state == PAGE_SNAPSHOT) {
		suspend_snapshot(user);
	}
}

void page_protect(uintptr_t user)
{
	struct page *p = page_at(user);

	forget_open(user);
	if (p->state == PAGE_PASS_THROUGH || p->state == PAGE_SUSPENDED_PASS_THROUGH) {
		if (p->state == PAGE_PASS_THROUGH)
			take_back(user);
		protect_taken_back(user);
		return;
	}
	if (p->state != PAGE_SUSPENDED)
		map_protect(user, PROT_NONE);
	p->state = PAGE_PROTECTED;
	p->loads = 0;
}

/* This thread may read these pages as well, without a fault.  It must not find them as they were before. */
void suspend_changed(void)
{
	for (uint32_t i = open_n; i--;) {
		uintptr_t user = open_pages[i];
		const struct page *p = page_at(user);

		if (p->state == PAGE_SNAPSHOT && !is_equal(shadow_of(user), backing_of(p, user), PAGE))
			suspend_snapshot(user);
	}
}

void protect_pass_through(void)
{
	struct run r = {0};

	for (uint32_t i = open_n; i--;) {
		const struct page *p = page_at(open_pages[i]);

		if (p->state == PAGE_PASS_THROUGH && is_mine(p))
			protect_in_run(&r, open_pages[i]);
		else if (p->state == PAGE_PASS_THROUGH || (p->state == PAGE_SUSPENDED_PASS_THROUGH && is_mine(p)))
			page_suspend(open_pages[i]);
	}
	end_run(&r);
}

static void protect_snapshots(void)
{
	struct run r = {0};

	for (uint32_t i = open_n; i--;) {
		const struct page *p = page_at(open_pages[i]);

		if (p->state != PAGE_SNAPSHOT && p->state != PAGE_SUSPENDED)
			continue;
		if (is_mine(p))
			protect_in_run(&r, open_pages[i]);
		else
			page_suspend(open_pages[i]);
	}
	end_run(&r);
}

void suspend_all(void)
{
	for (uint32_t i = open_n; i--;)
		page_suspend(open_pages[i]);
}

static bool pages_map_through(uintptr_t begin, uintptr_t end)
{
	if (!pass_through_n && hooks.passes)
		hooks.passes(true);
	if (map_through(begin, end)) {
		if (!pass_through_n && hooks.passes)
			hooks.passes(false);
		return false;
	}
	for (uintptr_t user = begin; user < end; user += PAGE) {
		struct page *p = page_at(user);

		p->state = PAGE_PASS_THROUGH;
		p->own = true;
		pass_through_n++;
		page_tell_unwatched(user);
		if (hooks.went_pass_through)
			hooks.went_pass_through(user, backing_of(p, user));
	}
	return true;
}

bool page_map_through(uintptr_t user)
{
	return pages_map_through(user, user + PAGE);
}

/*
 * Loads from a page that is passed through are not seen, so there must be no snapshot meanwhile: it could show older
 * bytes than the program has read there.
 */
bool page_pass_through(uintptr_t begin, uintptr_t end)
{
	if (holds)
		return false; /* the store faults again */
	for (uintptr_t user = begin; user < end; user += PAGE)
		if (page_at(user)->aliases)
			return false;
	protect_snapshots();
	make_room((uint32_t)((end - begin) / PAGE));
	if (!pages_map_through(begin, end))
		return false;
	for (uintptr_t user = begin; user < end; user += PAGE) {
		note_open(user);
		counts.pass_throughs++;
	}
	return true;
}

void page_renew_snapshot(uintptr_t user)
{
	if (!show(user, user + PAGE))
		page_at(user)->state = PAGE_SNAPSHOT;
}

bool page_reopen(uintptr_t user)
{
	if (holds || page_at(user)->aliases)
		return false;
	protect_snapshots();
	return page_map_through(user);
}

/* This is not the program's doing.  What it learns from there, it has from the results of the call. */
void page_open_silently(uintptr_t user)
{
	struct page *p = page_at(user);

	if (p->state != PAGE_PROTECTED)
		page_protect(user);
	if (p->aliases || !page_map_through(user))
		return;
	p->silent = true;
	make_room(1);
	note_open(user);
}

void page_release(uintptr_t user)
{
	forget_open(user);
	page_forget(page_at(user));
	map_return(user, user + PAGE);
}

static void check_snapshot(uintptr_t user)
{
	struct page *p = page_at(user);

	if (p->state != PAGE_SNAPSHOT && !(p->state == PAGE_SUSPENDED && is_mine(p)))
		return;
	counts.validated++;
	if (is_equal(shadow_of(user), backing_of(p, user), PAGE))
		return;
	if (!is_mine(p)) {
		page_suspend(user);
		return;
	}
	page_protect(user);
	event_protected(user);
	counts.protected_by_change++;
}

void check_snapshots(void)
{
	for (uint32_t i = open_n; i--;)
		check_snapshot(open_pages[i]);
}

/* So many at each access. */
#define CHECKED 4

static void check_some_snapshots(void)
{
	static uint32_t next;

	/* Those that are protected leave the list. */
	for (uint32_t i = 0; i < CHECKED && open_n; i++) {
		next = next < open_n ? next : 0;
		check_snapshot(open_pages[next++]);
	}
}

void check_snapshots_since(uint64_t values)
{
	if (counts.values != values || open_n <= CHECKED)
		check_snapshots();
	else
		check_some_snapshots();
}

void take_sample(uintptr_t at, size_t length)
{
	struct page *p = page_at(at);
	static char now[PAGE];
	enum copy copy;

	validate_shadow(at & PAGE_MASK, p);
	if (is_equal(shadow_of(at), backing_of(p, at), length))
		return;
	if (is_snapshot(p))
		page_protect(at & PAGE_MASK);
	copy = snapshot(at & PAGE_MASK, now);
	counts.unstable += copy == COPY_TORN;
	if (length == PAGE)
		record_snapshot(at, now, copy, 0);
	else
		record_difference(at, now + at % PAGE, length, 0);
}

void replay_protected(void)
{
	uintptr_t user;

	while (replay_next_protected(&user)) {
		const struct page *p = page_at(user);

		if (p && p->state > PAGE_PROTECTED && !p->pins)
			page_protect(user);
	}
}
