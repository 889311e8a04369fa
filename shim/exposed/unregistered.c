/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unregistered.c: accesses to bytes that no region has, on a page that regions have parts of (pieces.c).
 *
 * They are the program's own memory: nothing is counted as a fault, or recorded.
 */
#include "shim/exposed/access.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/page/pieces.h"
#include "shim/exposed/probe/aside.h"
#include "shim/exposed/probe/exchange.h"
#include "shim/exposed/probe/executed.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/word.h"

/* The shadow copy gets the program's bytes as well, since a snapshot may show it to other threads. */
static bool do_unregistered(ucontext_t *uc, struct page *p, const struct insn *insn)
{
	char v[VECTOR_MAX];

	if (is_word(insn) || insn->class == INSN_VECTOR_LOAD) {
		do_load(uc, p, insn, v);
		return true;
	}
	if (is_store(insn)) {
		if (!do_store(uc, p, insn, v))
			return false;
		memcpy(shadow_to_change(insn->address), v, insn->size);
		return true;
	}
	if (insn->class == INSN_STRING) {
		string_do_unregistered(uc, insn);
		return true;
	}
	if (insn->class == INSN_EXCHANGE)
		return exchange_unregistered(uc, insn);
	if (insn->class == INSN_WRITE)
		return executed_store(uc, insn, UNREGISTERED);
	return insn->class == INSN_OPERAND && aside_begin(uc, insn, true);
}

static bool is_word_unregistered(const struct page *p, const struct insn *insn)
{
	return is_within(insn) && is_unregistered(p, insn->address, insn->size);
}

bool is_done_unregistered(ucontext_t *uc, struct page *p, const struct insn *insn)
{
	if (!is_partial(p) || !(insn->class == INSN_STRING ? string_is_unregistered(uc, insn) : is_word_unregistered(p, insn)) ||
	    !do_unregistered(uc, p, insn))
		return false;
	note_access(insn->address, is_word(insn));
	return true;
}

NO_VECTORS static void do_unregistered_word(const struct insn *insn, uintptr_t addr, uint64_t registers[16],
				      uint64_t *flags)
{
	char *at = backing_of(page_at(addr), addr);
	greg_t *reg = (greg_t *)&registers[insn->reg];
	uint64_t value;

	if (insn->class != INSN_STORE) {
		word_take(insn, reg, (greg_t *)flags, word_load(at, insn->size));
		return;
	}
	value = word_value(insn, *reg);
	word_store(at, value, insn->size);
	word_store(shadow_to_change(addr), value, insn->size);
}

NO_VECTORS bool fault_unregistered_at_probe(const struct insn *insn, uintptr_t addr, uint64_t registers[16],
				     uint64_t *flags)
{
	bool write = insn->class == INSN_STORE, done;
	struct page *p = page_at(addr);

	if (!is_register_load(insn) && !write)
		return false;
	if (exposed_self.silent || !exposed_try_lock())
		return false;
	done = fault_needs_handling(p, write) && (p->users || p->aliases) && is_partial(p) && is_unregistered(p, addr, insn->size);
	if (done) {
		do_unregistered_word(insn, addr, registers, flags);
		note_access(addr, !write);
	}
	exposed_release();
	return done;
}
