/* SPDX-License-Identifier: BSD-2-Clause */
/* string.c: movs and stos, which memcpy and memset may be made of: a piece at a time, within a page. */
#include "shim/exposed/access.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/page/states.h"
#include "shim/exposed/x86/word.h"

static size_t to_page_end(uintptr_t addr)
{
	return PAGE - addr % PAGE;
}

/* How many bytes of it lie within one page, or two. */
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
static const char *source_of(const struct insn *insn, size_t n)
{
	struct page *p = page_at(insn->source);

	if (!p || p->state == PAGE_NONE || p->state == PAGE_PASS_THROUGH)
		return (const char *)insn->source;
	if (exposed_self.silent)
		return backing_of(p, insn->source);
	exposed_self.row = 0;
	take_sample(insn->source, n);
	return shadow_of(insn->source);
}

static void fill(char *to, uint64_t value, size_t n, unsigned int size)
{
	for (size_t i = 0; i < n; i += size)
		word_store(to + i, value, size);
}

static void do_piece(ucontext_t *uc, const struct insn *insn, size_t n)
{
	struct page *p = page_at(insn->address);
	bool exposed = p && p->state != PAGE_NONE;
	char *to = exposed ? backing_of(p, insn->address) : (char *)insn->address;

	if (exposed) {
		validate_shadow_before_store(insn->address);
		p->own = true;
	}
	if (insn->source)
		memmove(to, source_of(insn, n), n);
	else
		fill(to, (uint64_t)uc->uc_mcontext.gregs[REG_RAX], n, insn->size);
	atomic_thread_fence(memory_order_seq_cst);
	if (exposed && p->state != PAGE_PASS_THROUGH && p->shadow_valid && !exposed_self.silent) {
		if (insn->source)
			memmove(shadow_to_change(insn->address), source_of(insn, n), n);
		else
			fill(shadow_to_change(insn->address), (uint64_t)uc->uc_mcontext.gregs[REG_RAX], n,
			     insn->size);
	}
	if (exposed && p->state != PAGE_PASS_THROUGH && hooks.stored)
		hooks.stored(insn->address, to, (uint32_t)n);
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

/* False: an element lies across two pages. */
bool fault_string(ucontext_t *uc, const struct insn *insn)
{
	greg_t *g = uc->uc_mcontext.gregs;
	size_t n = piece_of(uc, insn);

	if (!n)
		return false;
	if (hooks.storing && !exposed_self.silent)
		hooks.storing();
	do_piece(uc, insn, n);
	string_goes_on(g, insn, n);
	counts.stores++;
	if (!exposed_self.silent)
		check_snapshots();
	return true;
}
