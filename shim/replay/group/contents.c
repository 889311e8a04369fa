/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * contents.c: what a process itself stores where its peers may READ it.
 *
 * A store into a protected page of an exposed region faults, so the shim sees it.  A page that
 * was pass-through is compared with its earlier contents.  Both go into the history.  So when a
 * peer READs a value, the replay can tell whether this process or another one wrote it.
 *
 * The caller holds the lock of the exposed regions, mostly in a fault handler.
 */
#include <string.h>

#include "logd/base/page.h"
#include "logd/base/zeros.h"
#include "shim/core/hooks.h"
#include "shim/replay/group/group.h"
#include "shim/replay/group/own.h"
#include "shim/memory/room.h"
#include "shim/verbs/regions.h"

/* Pass-through pages at a time.  If there are more, all their contents count as new. */
#define LIVES 128

static struct live {
	uint64_t view; /* 0: free */
	uint8_t before[PAGE];
} * lives;

bool sr_contents_begin(void)
{
	lives = sr_map_zeroed(LIVES * sizeof(*lives));
	return lives;
}

static void add(const struct sr_thread *t, uint64_t addr, const void *bytes, uint32_t n)
{
	struct sr_group_origin now = sr_progress_now(t, NULL);

	sr_history_add(sr_group_self, &now, SR_GROUP_OWN, addr, NULL,
		       &(struct sr_piece){bytes, n}, 1);
	sr_transfer_own(addr, bytes, n);
}

static struct live *find(uint64_t view)
{
	for (int i = 0; i < LIVES; i++)
		if (lives[i].view == view)
			return &lives[i];
	return NULL;
}

void sr_group_stored(uintptr_t addr, const void *bytes, uint32_t n)
{
	if (sr_group_on)
		add(&sr_self, addr, bytes, n);
}

void sr_group_went_pass_through(uintptr_t view, const void *page)
{
	struct live *l = sr_group_on ? find(0) : NULL;
	struct sr_group_origin now;

	if (!sr_group_on)
		return;
	now = sr_progress_now(&sr_self, NULL);
	sr_history_add_unseen(&now, SR_GROUP_UNSEEN, view, PAGE);
	if (!l)
		return;
	l->view = view;
	memcpy(l->before, page, PAGE);
}

/* Adds the differences, in units of 8 bytes. */
void sr_group_was_pass_through(uintptr_t view, const void *page)
{
	static uint8_t zeros[PAGE];
	struct live *l = sr_group_on ? find(view) : NULL;
	const uint8_t *before = l ? l->before : zeros, *now = page;

	if (!sr_group_on)
		return;
	for (uint32_t at = 0; at < PAGE;) {
		uint32_t end = at;

		while (end < PAGE && (!l || memcmp(before + end, now + end, 8)))
			end += 8;
		if (end > at)
			add(&sr_self, view + at, now + at, end - at);
		at = end + 8;
	}
	if (l)
		l->view = 0;
}

void sr_contents_expected(const struct sr_group_origin *origin, enum sr_group_write_kind kind, uint64_t addr, uint32_t n)
{
	if (sr_regions_on && n && sr_exposed_touches((void *)(uintptr_t)addr, n))
		sr_history_add_unseen(origin, kind, addr, n);
}

void sr_group_expects(const void *addr, size_t length)
{
	struct sr_group_origin now;

	if (!sr_group_on)
		return;
	now = sr_progress_now(&sr_self, NULL);
	sr_contents_expected(&now, SR_GROUP_UNSEEN, (uintptr_t)addr, (uint32_t)length);
}

/* Addresses of locks that are in the history already; another one may have taken the place of one. */
#define LOCKS 1024

static _Atomic uint64_t locks[LOCKS];

static void note_lock(struct sr_thread *t, uint64_t addr, uint32_t n)
{
	_Atomic uint64_t *noted = &locks[addr / 8 % LOCKS];
	struct sr_group_origin now;

	if (atomic_load(noted) == addr || !sr_exposed_touches((void *)(uintptr_t)addr, n))
		return;
	now = sr_progress_now(t, NULL);
	sr_history_add_unseen(&now, SR_GROUP_LOCK, addr, n);
	atomic_store(noted, addr);
}

void sr_group_uses_locks(struct sr_thread *t, const struct sr_call_desc *d, const uint64_t *a)
{
	if (!sr_group_on || !sr_regions_on || d->when != sr_has_threads)
		return;
	for (int i = 0; i < d->nargs; i++)
		if (d->length_of[i] == SR_LENGTH_STRUCT && d->size_of[i] && a[i])
			note_lock(t, a[i], d->size_of[i]);
}

const uint8_t *sr_contents_before(uint64_t page)
{
	const struct live *l = find(page);

	return l ? l->before : NULL;
}

/*
 * What is there already has been stored by the program: the recorder cannot tell, on a page that is
 * passed through, and recorded it as a value.
 */
void sr_contents_given(uint64_t addr, const uint8_t *bytes, uint32_t n)
{
	struct live *l = find(sr_page_down(addr));
	const uint8_t *there;

	if (!l)
		return;
	there = sr_exposed_backing((void *)(uintptr_t)addr);
	for (uint32_t i = 0; i < n; i++)
		if (there[i] != bytes[i])
			l->before[addr % PAGE + i] = bytes[i];
}

/* Pages that hold only zeros get no entry. */
void sr_contents_region(struct sr_thread *t, uint64_t addr, uint64_t length)
{
	static uint8_t now[PAGE];

	for (uint64_t at = addr, stop; at < addr + length; at = stop) {
		stop = (at / PAGE + 1) * PAGE;
		stop = stop < addr + length ? stop : addr + length;
		sr_exposed_copy((void *)(uintptr_t)at, now, stop - at);
		if (!is_zeros(now, stop - at))
			add(t, at, now, (uint32_t)(stop - at));
	}
}
