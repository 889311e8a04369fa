/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store.c: a store met a page that is not passed through.
 *
 * The handler does it on the backing mapping at once.  When many follow, the page is passed through.
 */
#include "shim/exposed/access.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/page/states.h"
#include "shim/exposed/probe/aside.h"
#include "shim/exposed/x86/word.h"

bool do_store(ucontext_t *uc, struct page *p, const struct insn *insn, char v[VECTOR_MAX])
{
	char *to = backing_of(p, insn->address);

	if (insn->class == INSN_VECTOR_STORE) {
		if (!vector_get(uc, insn->reg, insn->from, v, insn->size))
			return false;
		word_copy(to, v, insn->size);
	} else {
		word_store(v, word_value(insn, *decode_register(uc, insn->reg)), insn->size);
		word_store(to, word_load(v, insn->size), insn->size);
	}
	/* The program may have a fence behind its store, and then load from a snapshot. */
	atomic_thread_fence(memory_order_seq_cst);
	uc->uc_mcontext.gregs[REG_RIP] += insn->length;
	return true;
}

bool store_alone(ucontext_t *uc, struct page *p, const struct insn *insn)
{
	char v[VECTOR_MAX];

	if (!do_store(uc, p, insn, v))
		return false;
	p->own = true;
	if (p->shadow_valid && !exposed_self.silent)
		memcpy(shadow_to_change(insn->address), v, insn->size);
	if (hooks.stored)
		hooks.stored(insn->address, v, insn->size);
	counts.stores++;
	return true;
}

/* A loop that fills a page does nothing else; one that reads exposed memory in between is not such a loop. */
NO_VECTORS uint32_t stores_in_a_row(uintptr_t page)
{
	const struct exposed_thread *t = &exposed_self;

	return t->row_page == page && t->row_epoch == thread_epoch() ? t->row : 0;
}

NO_VECTORS void note_row(uintptr_t page)
{
	struct exposed_thread *t = &exposed_self;

	t->row = stores_in_a_row(page) + 1;
	t->row_page = page;
	t->row_epoch = thread_epoch();
	if (t->row == STORES_MAX)
		count_fill(page_at(page));
}

/*
 * Loads from a page that is passed through are not seen, and the thread may wait there for a peer as soon as it has filled
 * the page, as a server does that clears its slots for requests.  So a page must have been filled before with no loads in
 * between; or the thread has computed for long beside a region.
 */
NO_VECTORS bool is_row_due(uintptr_t page)
{
	const struct page *p = page_at(page);

	return stores_in_a_row(page) >= STORES_MAX && !p->aliases && (may_be_filled(p) || is_shared(p));
}

/*
 * What an instruction finds that changes a word would not be seen on a page that is passed through, now or later.
 * Threads and processes meet at words that they change atomically: if one spins there, each of its attempts may bring a
 * value.
 */
static bool may_fill(struct page *p, const struct insn *insn)
{
	bool fills;

	if (is_atomic(insn))
		p->atomics = true;
	fills = !p->atomics && !p->meets && insn->class != INSN_EXCHANGE;
	if (!fills)
		exposed_self.row = 0;
	return fills;
}

/* One store over two pages, as memset makes, is no reason to pass both through: what a peer brings there would not be seen. */
static bool is_done(ucontext_t *uc, struct page *p, const struct insn *insn)
{
	if (is_store(insn) && is_within(insn))
		return store_alone(uc, p, insn);
	return writes(insn) && do_parts(uc, insn);
}

static bool open_passed_through(uintptr_t pc, uintptr_t page)
{
	if (!page_pass_through(page, page + PAGE))
		return false;
	take_sample(page, PAGE);
	aside_opens(pc, page);
	return true;
}

/* The copy holds what the program knows. */
static bool open_as_copy(uintptr_t pc, uintptr_t page)
{
	take_sample(page, PAGE);
	return aside_shows(pc, page);
}

/*
 * The page is opened while the instruction is executed (aside.h).  That may also load: what is new there comes first.
 * False: not now, and the store faults again, as often as that takes, and is counted once.
 */
static bool open_for(const ucontext_t *uc, const struct page *p, uintptr_t page)
{
	const uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];

	if (p->aliases ? open_as_copy(pc, page) : open_passed_through(pc, page))
		return true;
	exposed_self.fault--;
	exposed_self.accesses -= SAME_PLACE;
	return false;
}

void fault_store(ucontext_t *uc, uintptr_t addr, struct page *p, const struct insn *insn)
{
	uintptr_t page = addr & PAGE_MASK;
	bool fills = !is_partial(p) && may_fill(p, insn), due = fills && is_fill_due(page);
	uint64_t before = counts.values;

	exposed_self.stored_at = exposed_self.accesses_n;
	/* A replay has other jumps, or none: the trace says where. */
	if (fills && !hooks.recorded)
		due |= is_row_due(page) || (!is_within(insn) && !p->aliases && is_fill_next(page));
	if (hooks.storing)
		hooks.storing();
	validate_shadow_before_store(addr);
	if (due) {
		if (fill_pages(page, insn) && insn->class == INSN_UNKNOWN)
			aside_opens((uintptr_t)uc->uc_mcontext.gregs[REG_RIP], 0);
		return;
	}
	if (fills)
		note_row(page);
	if (is_done(uc, p, insn)) {
		check_snapshots_since(before);
		return;
	}
	if (!open_for(uc, p, page) && fills)
		exposed_self.row--;
}
