/* SPDX-License-Identifier: BSD-2-Clause */
/* parts.c: instructions whose operands lie over two pages. */
#include "shim/exposed/page/parts.h"

#include "shim/exposed/access.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/probe/exchange.h"
#include "shim/exposed/probe/executed.h"
#include "shim/exposed/x86/word.h"

static void load_parts(ucontext_t *uc, const struct insn *insn)
{
	char now[VECTOR_MAX];

	parts_load(insn->address, now, insn->size, visibility_now());
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
	char v[VECTOR_MAX];

	if (insn->class != INSN_VECTOR_STORE)
		word_store(v, word_value(insn, *decode_register(uc, insn->reg)), insn->size);
	else if (!vector_get(uc, insn->reg, insn->from, v, insn->size))
		return false;
	parts_store(insn->address, v, NULL, insn->size, visibility_now());
	uc->uc_mcontext.gregs[REG_RIP] += insn->length;
	counts.stores++;
	return true;
}

bool do_parts(ucontext_t *uc, const struct insn *insn)
{
	if (insn->class == INSN_EXCHANGE)
		return exchange_do(uc, insn);
	if (insn->class == INSN_WRITE)
		return executed_store(uc, insn, visibility_now());
	if (is_store(insn))
		return store_parts(uc, insn);
	load_parts(uc, insn);
	return true;
}
