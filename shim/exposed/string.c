/* SPDX-License-Identifier: BSD-2-Clause */
/* string.c: movs and stos, which memcpy and memset may be made of: a piece at a time, within a page. */
#include "shim/exposed/access.h"
#include "shim/exposed/page/pieces.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/page/states.h"
#include "shim/exposed/x86/word.h"

static size_t to_page_end(uintptr_t addr)
{
	return PAGE - addr % PAGE;
}

/* How many bytes of it lie within one page, or two; 0: the next element lies across two pages. */
static size_t piece_of(const ucontext_t *uc, const struct insn *insn)
{
	size_t n = (insn->repeat ? (size_t)uc->uc_mcontext.gregs[REG_RCX] : 1) * insn->size;
	uintptr_t apart = insn->address - insn->source;

	if (n > to_page_end(insn->address))
		n = to_page_end(insn->address);
	if (insn->source && n > to_page_end(insn->source))
		n = to_page_end(insn->source);
	/* A copy onto itself reads what it has written: no more than the distance at a time. */
	if (insn->source && apart && apart < n)
		n = apart;
	return n - n % insn->size;
}

/* Where the bytes are that the program may copy: an exposed page is sampled first. */
static const char *source_of(uintptr_t source, size_t n)
{
	struct page *p = page_at(source);

	if (!p || p->state == PAGE_NONE || p->state == PAGE_PASS_THROUGH)
		return (const char *)source;
	if (exposed_self.silent)
		return backing_of(p, source);
	exposed_self.row = 0;
	take_sample(source, n);
	return shadow_of(source);
}

static void fill(char *to, uint64_t value, size_t n, unsigned int size)
{
	for (size_t i = 0; i < n; i += size)
		word_store(to + i, value, size);
}

/* Is it a page whose shadow copy must have what is stored there? */
static bool is_shadowed(const struct page *p)
{
	return p->state != PAGE_PASS_THROUGH && p->shadow_valid && !exposed_self.silent;
}

static struct page *exposed_page(uintptr_t addr)
{
	struct page *p = page_at(addr);

	return p && p->state != PAGE_NONE ? p : NULL;
}

static void do_piece(ucontext_t *uc, const struct insn *insn, size_t n)
{
	struct page *p = exposed_page(insn->address);
	uint64_t value = (uint64_t)uc->uc_mcontext.gregs[REG_RAX];
	char *to = p ? backing_of(p, insn->address) : (char *)insn->address;

	if (p) {
		validate_shadow_before_store(insn->address);
		p->own = true;
	}
	if (insn->source)
		memmove(to, source_of(insn->source, n), n);
	else
		fill(to, value, n, insn->size);
	atomic_thread_fence(memory_order_seq_cst);
	if (p && is_shadowed(p)) {
		if (insn->source)
			memmove(shadow_to_change(insn->address), source_of(insn->source, n), n);
		else
			fill(shadow_to_change(insn->address), value, n, insn->size);
	}
	if (p && p->state != PAGE_PASS_THROUGH && hooks.stored)
		hooks.stored(insn->address, to, (uint32_t)n);
}

/* ------------------------------------------- an element that lies across two pages */

static void put(uintptr_t addr, const char *bytes, size_t n)
{
	struct page *p = exposed_page(addr);
	char *to = p ? backing_of(p, addr) : (char *)addr;

	if (p) {
		validate_shadow_before_store(addr);
		p->own = true;
	}
	memcpy(to, bytes, n);
	atomic_thread_fence(memory_order_seq_cst);
	if (p && is_shadowed(p))
		memcpy(shadow_to_change(addr), bytes, n);
	if (p && p->state != PAGE_PASS_THROUGH && hooks.stored)
		hooks.stored(addr, bytes, (uint32_t)n);
}

static size_t in_first_page(uintptr_t addr, size_t n)
{
	return n < to_page_end(addr) ? n : to_page_end(addr);
}

static void do_across(ucontext_t *uc, const struct insn *insn)
{
	const size_t n = insn->size, loaded = in_first_page(insn->source, n), stored = in_first_page(insn->address, n);
	char v[sizeof(uint64_t)];

	if (!insn->source) {
		word_store(v, (uint64_t)uc->uc_mcontext.gregs[REG_RAX], insn->size);
	} else {
		memcpy(v, source_of(insn->source, loaded), loaded);
		if (loaded < n)
			memcpy(v + loaded, source_of(insn->source + loaded, n - loaded), n - loaded);
	}
	put(insn->address, v, stored);
	if (stored < n)
		put(insn->address + stored, v + stored, n - stored);
}

static void string_goes_on(greg_t *g, const struct insn *insn, size_t n)
{
	g[REG_RDI] += (greg_t)n;
	if (insn->source)
		g[REG_RSI] += (greg_t)n;
	if (insn->repeat)
		g[REG_RCX] -= (greg_t)(n / insn->size);
	if (!insn->repeat || !g[REG_RCX])
		g[REG_RIP] += insn->length;
}

/* Are these bytes the program's own, whether the page is exposed or not? */
static bool is_own(uintptr_t addr, size_t n)
{
	const struct page *p = exposed_page(addr);

	return !p || (is_partial(p) && is_unregistered(p, addr, n));
}

bool string_is_unregistered(const ucontext_t *uc, const struct insn *insn)
{
	size_t n = piece_of(uc, insn);

	return n && is_own(insn->address, n) && (!insn->source || is_own(insn->source, n));
}

/* As in do_unregistered(), the shadow copy gets the bytes as well. */
void string_do_unregistered(ucontext_t *uc, const struct insn *insn)
{
	struct page *p = exposed_page(insn->address);
	size_t n = piece_of(uc, insn);
	uintptr_t at = insn->address;

	exposed_self.silent = true;
	fault_string(uc, insn);
	exposed_self.silent = false;
	if (p)
		memcpy(shadow_to_change(at), backing_of(p, at), n);
}

void fault_string(ucontext_t *uc, const struct insn *insn)
{
	size_t n = piece_of(uc, insn);

	if (hooks.storing && !exposed_self.silent)
		hooks.storing();
	if (n) {
		do_piece(uc, insn, n);
	} else {
		do_across(uc, insn);
		n = insn->size;
	}
	string_goes_on(uc->uc_mcontext.gregs, insn, n);
	counts.stores++;
	if (!exposed_self.silent)
		check_snapshots();
}
