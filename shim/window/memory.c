/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory.c: looking at memory that changes while it is looked at.
 *
 * All open pages together must show what memory was at one moment.  A copy is
 * taken to be a page's content at a moment if two passes over it agree.  After
 * each look, at a moment t, every frozen page is compared with landing: one
 * that is unchanged has been so at t as well.  (Memory that changed and changed
 * back in between is taken for unchanged: docs/windows.md.)
 */
#include "shim/window/page.h"

#define TRIES 64

/* The compiler must not merge the passes; the CPU does its loads in order. */
static inline void next_pass(void)
{
	atomic_signal_fence(memory_order_seq_cst);
}

bool snapshot(uintptr_t view, char to[PAGE])
{
	const char *from = landing_of(page_at(view), view);

	for (int i = 0; i < TRIES; i++) {
		memcpy(to, from, PAGE);
		next_pass();
		if (!memcmp(to, from, PAGE))
			return true;
		next_pass();
	}
	return false;
}

void validate(void)
{
	for (uint32_t i = open_n; i--;) {
		uintptr_t view = open_pages[i];
		struct page *p = page_at(view);

		if (p->state != PAGE_FROZEN)
			continue;
		counts.validated++;
		if (!memcmp(shadow_of(view), landing_of(p, view), PAGE))
			continue;
		page_close(view);
		event_closed(view);
		counts.closed_by_change++;
	}
}

void learn(uintptr_t addr, const char *now, size_t length, uint32_t flags)
{
	struct page *p = page_at(addr);
	char *shadow = shadow_of(addr);
	size_t i = 0, begin;

	if (!p->known) {
		event_value(addr, now, (uint32_t)length, flags);
		memcpy(shadow, now, length);
		return;
	}
	if (!memcmp(shadow, now, length))
		return;
	p->repeats = 0;
	while (i < length) {
		if (shadow[i] == now[i]) {
			i++;
			continue;
		}
		/* Up to 8 equal bytes cost less than another head. */
		begin = i;
		for (size_t last = i; i < length && i - last <= 8; i++)
			if (shadow[i] != now[i])
				last = i;
		while (shadow[i - 1] == now[i - 1])
			i--;
		memcpy(shadow + begin, now + begin, i - begin);
		event_value(addr + begin, now + begin, (uint32_t)(i - begin), flags);
	}
}

void make_known(uintptr_t view, struct page *p)
{
	static char now[PAGE];

	if (p->known)
		return;
	if (!snapshot(view, now))
		counts.unstable++;
	learn(view, now, PAGE, 0);
	p->known = true;
}

/* Aligned words where they are: twice as fast as memcmp where vectors are emulated. */
static bool same(const char *a, const char *b, size_t n)
{
	size_t i = 0;

	for (; i + 8 <= n; i += 8)
		if (*(const uint64_t *)(a + i) != *(const volatile uint64_t *)(b + i))
			return false;
	for (; i < n; i++)
		if (a[i] != *(const volatile char *)(b + i))
			return false;
	return true;
}

void look_at(uintptr_t at, size_t length)
{
	struct page *p = page_at(at);
	static char now[PAGE];

	make_known(at & PAGE_MASK, p);
	if (same(shadow_of(at), landing_of(p, at), length))
		return;
	if (p->state == PAGE_FROZEN)
		page_close(at & PAGE_MASK);
	if (!snapshot(at & PAGE_MASK, now))
		counts.unstable++;
	learn(at, now + at % PAGE, length, 0);
}
