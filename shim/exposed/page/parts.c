/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/page/parts.h"

#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/x86/word.h"

static struct page *exposed_page(uintptr_t addr)
{
	struct page *p = page_at(addr);

	return p && p->state != PAGE_NONE ? p : NULL;
}

static size_t in_first_page(uintptr_t addr, size_t n)
{
	size_t left = PAGE - addr % PAGE;

	return n < left ? n : left;
}

static void load_part(uintptr_t addr, char *to, size_t n)
{
	const struct page *p = exposed_page(addr);

	word_copy(to, p ? backing_of(p, addr) : (char *)addr, n);
}

void parts_load(uintptr_t addr, char *to, size_t n, enum visibility v)
{
	for (size_t i = 0, part; i < n; i += part) {
		struct page *p = exposed_page(addr + i);

		part = in_first_page(addr + i, n - i);
		if (p && v == SEEN)
			validate_shadow((addr + i) & PAGE_MASK, p);
		load_part(addr + i, to + i, part);
	}
	for (size_t i = 0, part; v == SEEN && i < n; i += part) {
		part = in_first_page(addr + i, n - i);
		if (exposed_page(addr + i))
			record_difference(addr + i, to + i, part, 0);
	}
}

/* Within one page. */
static void store_part(uintptr_t addr, const char *from, size_t n, enum visibility v)
{
	struct page *p = exposed_page(addr);

	if (!p) {
		word_copy((char *)addr, from, n);
		return;
	}
	if (v != UNREGISTERED) {
		validate_shadow_before_store(addr);
		p->own = true;
	}
	word_copy(backing_of(p, addr), from, n);
	if (v == UNREGISTERED || (p->shadow_valid && v == SEEN))
		memcpy(shadow_to_change(addr), from, n);
	if (v != UNREGISTERED && hooks.stored)
		hooks.stored(addr, from, (uint32_t)n);
}

/* How many bytes are all written, or all not. */
static size_t run_of(const char *written, size_t n)
{
	size_t i = 1;

	if (!written)
		return n;
	while (i < n && !written[i] == !written[0])
		i++;
	return i;
}

void parts_store(uintptr_t addr, const char *from, const char *written, size_t n, enum visibility v)
{
	for (size_t i = 0, part; i < n; i += part) {
		part = run_of(written ? written + i : NULL, in_first_page(addr + i, n - i));
		if (!written || written[i])
			store_part(addr + i, from + i, part, v);
	}
	/* The program may have a fence behind its store, and then load from a snapshot. */
	atomic_thread_fence(memory_order_seq_cst);
}
