/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fill.c: a thread fills one page after the other, or changes what is there, as a sum of two buffers does.
 *
 * Each of these pages is passed through in the end, which takes some accesses that fault and ten system calls; 32 pages
 * take no more.  So when a thread walks over pages that it has filled before, those in front of it are passed through
 * together.  What is new on them is recorded first, as if the thread had loaded it.
 *
 * Loads from there are not seen.  So this is done only where no value of a peer may be waited for: a page must have been
 * filled the last two times, with no load in vain in between, and nothing but READs of this process may ever have brought
 * something there.
 */
#include "shim/exposed/access.h"
#include "shim/exposed/page/event.h"
#include "shim/exposed/page/states.h"

#define FILLS_MIN 2

NO_VECTORS static bool is_next(uintptr_t user)
{
	const struct exposed_thread *t = &exposed_self;

	return t->fill.epoch == thread_epoch() && user == t->fill.last + PAGE;
}

bool is_fill_next(uintptr_t user)
{
	return is_next(user) || (exposed_self.fill.epoch == thread_epoch() && user == exposed_self.fill.last);
}

NO_VECTORS bool may_be_filled(const struct page *p)
{
	return p && (p->state == PAGE_PROTECTED || p->state == PAGE_SNAPSHOT) && p->whole && !p->aliases && !p->atomics && !p->meets &&
	       !p->by_peers && p->fills >= FILLS_MIN;
}

NO_VECTORS bool is_filled_on(uintptr_t user)
{
	return !hooks.recorded && !holds && exposed_self.fill.pages >= WALK_MIN && is_next(user) &&
	       may_be_filled(page_at(user)) && !is_watched_page(user);
}

bool is_fill_due(uintptr_t user)
{
	return is_filled_on(user) || exposed_self.fill.again || replay_flagged(SR_EXPOSED_FILLED);
}

/* As many pages as were filled in front of this one; or, where a walk begins, as many as were filled from here on last time. */
static uint32_t count_next(uintptr_t user)
{
	const struct page *p = page_at(user);
	uint32_t n = 1, most = is_next(user) ? exposed_self.fill.pages : may_be_filled(p) ? p->fill_run : 1;

	if (holds || is_watched_page(user))
		return 1;
	for (uintptr_t at = user + PAGE; n < most && n < PAGES_AT_ONCE; at += PAGE, n++)
		if (!may_be_filled(page_at(at)) || offset_of(at) - offset_of(user) != at - user || is_watched_page(at))
			break;
	return n;
}

NO_VECTORS void count_fill(struct page *p)
{
	if (p->fill_epoch != thread_epoch())
		p->fills += p->fills < FILLS_MIN;
	p->fill_epoch = thread_epoch();
	p->loaded = false;
}

static void note_filled(uintptr_t user, uint32_t n)
{
	struct exposed_thread *t = &exposed_self;
	struct page *p = page_at(user);

	count_fill(p);
	for (uint32_t i = 1; i < n; i++)
		page_at(user + i * PAGE)->loaded = false;
	t->fill.again = 0;
	/* At the border of two pages it goes to and fro. */
	if (t->fill.epoch == thread_epoch() && user == t->fill.last)
		return;
	if (!is_next(user))
		t->fill.begin = user;
	t->fill.pages = is_next(user) ? t->fill.pages + n : n;
	page_at(t->fill.begin)->fill_run = t->fill.pages < PAGES_AT_ONCE ? (uint8_t)t->fill.pages : PAGES_AT_ONCE;
	t->fill.last = user + (n - 1) * PAGE;
	t->fill.epoch = thread_epoch();
}

/* The access faults again, and is counted then. */
static void count_back(uintptr_t user, const struct insn *insn)
{
	uintptr_t at = is_within(insn) ? insn->address : user;

	exposed_self.fault--;
	exposed_self.accesses -= is_word(insn) && at == exposed_self.accessed ? 1 : SAME_PLACE;
}

static bool fill_again(uintptr_t user, const struct insn *insn)
{
	struct exposed_thread *t = &exposed_self;
	uint32_t n = t->fill.again;

	if (!n)
		n = replay_flagged(SR_EXPOSED_FILLED) ? replay_further() + 1 : 1;
	if (is_fill_due(user))
		sample_pages(user, user + n * PAGE);
	if (page_pass_through(user, user + n * PAGE)) {
		note_filled(user, n);
		return true;
	}
	t->fill.again = is_fill_due(user) ? n : 0;
	count_back(user, insn);
	return false;
}

bool fill_pages(uintptr_t user, const struct insn *insn)
{
	bool at_once = is_filled_on(user);
	uint32_t n;

	if (hooks.recorded)
		return fill_again(user, insn);
	n = count_next(user);
	if (!sample_pages(user, user + n * PAGE)) {
		if (at_once)
			return false;
		n = 1;
	}
	if (!page_pass_through(user, user + n * PAGE)) {
		if (!at_once)
			count_back(user, insn);
		return false;
	}
	event_flag(SR_EXPOSED_FILLED | (n - 1) << 16);
	note_filled(user, n);
	return true;
}
