/* SPDX-License-Identifier: BSD-2-Clause */
/* parts.c: operands that lie over two pages. */
#include "shim/exposed/access.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/x86/word.h"

/* What of an operand is in the first page, or in the second. */
struct part {
	struct page *exposed; /* NULL: it is not exposed */
	char *at;            /* where the bytes are */
	uintptr_t addr;
	size_t n;
};

static void part_of(struct part *part, uintptr_t addr, size_t n)
{
	struct page *p = page_at(addr);

	part->exposed = p && p->state != PAGE_NONE ? p : NULL;
	part->at = part->exposed ? backing_of(p, addr) : (char *)addr;
	part->addr = addr;
	part->n = n;
}

static void parts_of(struct part parts[2], const struct insn *insn)
{
	size_t n = PAGE - insn->address % PAGE;

	part_of(&parts[0], insn->address, n);
	part_of(&parts[1], insn->address + n, insn->size - n);
}

static void load_parts(ucontext_t *uc, const struct insn *insn)
{
	struct part parts[2];
	char now[VECTOR_MAX];

	parts_of(parts, insn);
	for (int i = 0; i < 2; i++) {
		if (parts[i].exposed && !exposed_self.silent)
			validate_shadow(parts[i].addr & PAGE_MASK, parts[i].exposed);
		word_copy(now + (i ? parts[0].n : 0), parts[i].at, parts[i].n);
	}
	for (int i = 0; i < 2 && !exposed_self.silent; i++)
		if (parts[i].exposed)
			record_difference(parts[i].addr, now + (i ? parts[0].n : 0), parts[i].n, 0);
	if (insn->class == INSN_VECTOR_LOAD) {
		vector_put(uc, insn->reg, now, insn->size, insn->vex);
		uc->uc_mcontext.gregs[REG_RIP] += insn->length;
	} else {
		finish_load(uc, insn, word_load(now, insn->size));
	}
	counts.loads += !exposed_self.silent;
}

static bool store_parts(ucontext_t *uc, const struct insn *insn)
{
	struct part parts[2];
	char v[VECTOR_MAX], *from = v;

	if (insn->class != INSN_VECTOR_STORE)
		word_store(v, word_value(insn, *decode_register(uc, insn->reg)), insn->size);
	else if (!vector_get(uc, insn->reg, insn->from, v, insn->size))
		return false;
	parts_of(parts, insn);
	for (int i = 0; i < 2; from += parts[i++].n) {
		if (parts[i].exposed) {
			validate_shadow_before_store(parts[i].addr);
			parts[i].exposed->own = true;
		}
		word_copy(parts[i].at, from, parts[i].n);
		if (parts[i].exposed && parts[i].exposed->shadow_valid && !exposed_self.silent)
			memcpy(shadow_to_change(parts[i].addr), from, parts[i].n);
		if (parts[i].exposed && hooks.stored)
			hooks.stored(parts[i].addr, from, (uint32_t)parts[i].n);
	}
	atomic_thread_fence(memory_order_seq_cst);
	uc->uc_mcontext.gregs[REG_RIP] += insn->length;
	counts.stores++;
	return true;
}

/* A partially registered page is not opened for it. */
bool do_parts(ucontext_t *uc, const struct insn *insn)
{
	if (is_store(insn))
		return store_parts(uc, insn);
	load_parts(uc, insn);
	return true;
}
