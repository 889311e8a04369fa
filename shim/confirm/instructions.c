/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * instructions.c: accesses of the CPU whose instruction is known.
 *
 * The instruction becomes a breakpoint, and so does the one behind it.  At the first one the access is about to be made,
 * at the second one it has been.  So a store is seen that changes nothing, and a load from memory that peers cannot write.
 */
#include "shim/confirm/sides.h"
#include "shim/core/order.h"
#include "shim/core/stack.h"
#include "shim/exposed/probe/breakpoint.h"
#include "shim/exposed/x86/decode.h"
#include "shim/signals/signals.h"

/* What cannot be watched at first may be in a library that is yet to be loaded. */
#define TRIES 64

static struct watched {
	struct insn insn;
	uintptr_t pc, behind; /* 0: there are no breakpoints */
	unsigned int tries;
	const struct sr_thread *expected; /* of a store: the thread that may make it before its next call; NULL: none */
	_Atomic(const struct sr_thread *) maker; /* is about to make the access */
} watched[2];

bool sr_confirm_has_instruction(int i)
{
	return watched[i].behind;
}

void sr_confirm_expect_store(int i, const struct sr_thread *t)
{
	watched[i].expected = t;
}

/* ------------------------------------------------------------------ an access */

static uint64_t address_of(const struct operand *o, const uint64_t r[16])
{
	uint64_t a = o->displacement;

	if (o->base != NO_REGISTER)
		a += r[o->base];
	if (o->index != NO_REGISTER)
		a += r[o->index] << o->shift;
	return a;
}

/* A stack is known of loads only. */
static bool is_by_its_caller(const struct sr_confirm_side *s, uintptr_t pc)
{
	struct sr_stack stack;

	if (s->kind != SR_CONFIRM_LOAD || !s->stack)
		return true;
	sr_stack_take(&stack, pc);
	return stack.hash == s->stack;
}

static bool is_access(int i, uint64_t begin, uint64_t end)
{
	const struct sr_confirm_side *s = &sr_agreement->side[i];

	if (begin >= s->end || end <= s->begin)
		return false;
	if (s->kind == SR_CONFIRM_STORE)
		return watched[i].expected == &sr_self;
	return is_by_its_caller(s, watched[i].pc);
}

static void begins(int i, const uint64_t r[16])
{
	struct watched *w = &watched[i];
	const uint64_t begin = address_of(&w->insn.operand, r), end = begin + w->insn.size;

	if (!sr_agreement_searches() || w->maker || !is_access(i, begin, end))
		return;
	if (sr_agreement->side[i].kind == SR_CONFIRM_LOAD)
		atomic_fetch_add_explicit(&sr_agreement->side[i].seen, 1, memory_order_relaxed);
	if (!sr_confirm_cpu_arrives(i, begin, end))
		return;
	sr_agreement->side[i].is_exact = true;
	w->maker = &sr_self;
}

static void ends(int i)
{
	sr_confirm_note_memory(i);
	watched[i].maker = NULL;
	sr_agreement_done(i, true);
}

size_t sr_confirm_load_size(int i, uintptr_t pc, uint64_t address)
{
	struct insn insn = watched[i].insn;

	if (!watched[i].behind || watched[i].pc != pc)
		decode_bytes((const uint8_t *)pc, pc, &insn);
	/* Of others, as the analysis has it, the rest of an aligned word. */
	return insn.class == INSN_UNKNOWN || insn.class == INSN_STRING || insn.mask ? 8 - address % 8 : insn.size;
}

/* -------------------------------------------------------------------- breakpoints */

static bool is_here(uintptr_t pc, const uint64_t r[16])
{
	return !sr_self.depth;
}

static bool stop(uintptr_t pc, const uint64_t r[16], const char *vectors)
{
	/* What is done here may come to a breakpoint itself: in memcpy. */
	enum sr_heap before = sr_enter(&sr_self);

	for (int i = 0; i < 2; i++)
		if (watched[i].behind == pc && watched[i].maker == &sr_self)
			ends(i);
	for (int i = 0; i < 2; i++)
		if (watched[i].behind && watched[i].pc == pc)
			begins(i, r);
	sr_leave(&sr_self, before);
	return false;
}

static bool on_fault(siginfo_t *info, ucontext_t *uc)
{
	return breakpoint_trapped(uc);
}

static bool start(void)
{
	static const struct breakpoint_handlers handlers = {.is_here = is_here, .stop = stop};
	static bool is_started, has_started;

	if (!is_started)
		has_started = breakpoints_start(&handlers) && !sr_signals_claim(SIGSEGV, on_fault);
	is_started = true;
	return has_started;
}

static bool suits(uintptr_t pc)
{
	unsigned int length;
	enum breakpoint_kind kind = breakpoint_suits(pc, &length);

	return kind == BREAKPOINT_TRAP || kind == BREAKPOINT_JUMP;
}

void sr_confirm_watch_instruction(int i)
{
	const struct sr_confirm_side *s = &sr_agreement->side[i];
	struct watched *w = &watched[i];

	if (w->behind || !s->instruction || w->tries >= TRIES || sr_threaded)
		return;
	w->tries++;
	w->pc = sr_stack_find(s->instruction_code, s->instruction);
	if (!w->pc || !suits(w->pc))
		return;
	decode_bytes((const uint8_t *)w->pc, w->pc, &w->insn);
	if (w->insn.class == INSN_UNKNOWN || w->insn.class == INSN_STRING || w->insn.mask || !start() || !suits(w->pc + w->insn.length) ||
	    !breakpoint_set(w->pc, false, REGISTER_SP) || !breakpoint_set(w->pc + w->insn.length, false, REGISTER_SP))
		w->tries = TRIES;
	else
		w->behind = w->pc + w->insn.length;
}
