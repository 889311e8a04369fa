/* SPDX-License-Identifier: BSD-2-Clause */
/* silent.c: accesses of which the recording has nothing: within a call, and of pages that are accessed in place for another reason. */
#include "shim/exposed/access.h"
#include "shim/exposed/probe/aside.h"
#include "shim/exposed/probe/exchange.h"
#include "shim/exposed/probe/executed.h"

bool do_silently(ucontext_t *uc, uintptr_t addr, struct page *p, const struct insn *insn, bool write)
{
	if (insn->class == INSN_UNKNOWN)
		return p->aliases && aside_shows((uintptr_t)uc->uc_mcontext.gregs[REG_RIP], addr & PAGE_MASK);
	if (insn->class == INSN_STRING) {
		fault_string(uc, insn);
		return true;
	}
	if (!is_within(insn))
		return can_be_parted(insn) && do_parts(uc, insn);
	if (insn->class == INSN_EXCHANGE)
		return exchange_do(uc, insn);
	if (insn->class == INSN_WRITE)
		return executed_store(uc, insn, UNSEEN);
	if (insn->class == INSN_OPERAND)
		return aside_begin(uc, insn, true);
	if (write)
		return store_alone(uc, p, insn);
	load_alone(uc, p, insn);
	return true;
}

bool do_unseen(ucontext_t *uc, uintptr_t addr, struct page *p, const struct insn *insn, bool write)
{
	const bool silent = exposed_self.silent;
	bool done;

	exposed_self.silent = true;
	done = do_silently(uc, addr, p, insn, write);
	exposed_self.silent = silent;
	return done;
}
