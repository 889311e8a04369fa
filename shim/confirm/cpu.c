/* SPDX-License-Identifier: BSD-2-Clause */
/* cpu.c: accesses of the CPU: loads, stores, and data that is sent inline. */
#include "shim/confirm/memory.h"
#include "shim/confirm/sides.h"
#include "shim/core/stack.h"
#include "shim/exposed/exposed.h"

#define COMPARED 4096 /* bytes; more of a range are not looked at */

/* What both access, as far as it is looked at.  Its length. */
static size_t common(uint64_t *begin)
{
	uint64_t end;

	sr_agreement_range(begin, &end);
	return end - *begin < COMPARED ? (size_t)(end - *begin) : COMPARED;
}

void sr_confirm_note_memory(int i)
{
	static char bytes[2][COMPARED];
	uint64_t begin;
	size_t n = common(&begin);

	if (n && sr_confirm_read(bytes[i], begin, n))
		sr_agreement_value(i, bytes[i], n);
}

/* Where requests are held, an access of the CPU is found when the other one is pending: it need not
 * wait for that. */
bool sr_confirm_cpu_arrives(int i, uint64_t begin, uint64_t end)
{
	sr_agreement_saw(i);
	return (sr_agreement->by_thread || sr_agreement_awaits(i, begin, end)) &&
	       sr_agreement_arrive(i, begin, end) && sr_agreement_wait(i, NULL);
}

/* -------------------------------------------------------------- inline data */

static bool sends[2];

void sr_confirm_inline_begins(int i)
{
	const struct sr_confirm_side *s = &sr_agreement->side[i];

	sends[i] = sr_confirm_cpu_arrives(i, s->begin, s->end);
	if (sends[i])
		sr_confirm_note_memory(i);
}

void sr_confirm_inline_ends(int i)
{
	if (sends[i])
		sr_agreement_done(i, true);
	sends[i] = false;
}

/* ------------------------------------------------------------------- stores */

static struct store {
	const struct sr_thread *thread; /* that is about to store; NULL: none */
	uint64_t begin;
	size_t n;
	char before[COMPARED], after[COMPARED];
} stores[2];

bool sr_confirm_awaits_store(int i)
{
	return stores[i].thread;
}

void sr_confirm_store_may_come(int i, struct sr_thread *t)
{
	const struct sr_confirm_side *side = &sr_agreement->side[i];
	struct store *s = &stores[i];

	if (sr_confirm_has_instruction(i)) {
		sr_confirm_expect_store(i, t);
		return;
	}
	if (s->thread || !sr_confirm_cpu_arrives(i, side->begin, side->end))
		return;
	s->n = common(&s->begin);
	if (sr_confirm_read(s->before, s->begin, s->n))
		s->thread = t;
	else
		sr_agreement_return(i);
}

void sr_confirm_store_may_have_come(int i, const struct sr_thread *t, bool is_next)
{
	struct store *s = &stores[i];

	if (is_next)
		sr_confirm_expect_store(i, NULL);
	if (s->thread != t)
		return;
	if (sr_confirm_read(s->after, s->begin, s->n) &&
	    __builtin_memcmp(s->before, s->after, s->n)) {
		sr_agreement_value(i, s->after, s->n);
		sr_agreement_done(i, true);
	} else if (is_next) {
		sr_agreement_return(i);
	} else {
		return;
	}
	s->thread = NULL;
}

/* -------------------------------------------------------------------- loads */

static struct load {
	int side;
	const struct sr_thread *thread; /* that is about to load; NULL: none */
	struct sr_exposed_watched watched;
} load;

static bool comes_from(uint64_t wanted, uint64_t pc)
{
	struct sr_stack stack;

	if (wanted)
		sr_stack_take(&stack, pc);
	return !wanted || stack.hash == wanted;
}

static void before_load(uintptr_t pc, uintptr_t address)
{
	const struct sr_confirm_side *s = &sr_agreement->side[load.side];
	const uint64_t end = address + sr_confirm_load_size(load.side, pc, address);

	if (sr_confirm_has_instruction(load.side) || !sr_confirm_is_place(pc, s->site, s->code) || address >= s->end || end <= s->begin)
		return;
	atomic_fetch_add_explicit(&sr_agreement->side[load.side].seen, 1, memory_order_relaxed);
	if (!sr_agreement_searches() || load.thread || !comes_from(s->stack, pc))
		return;
	if (sr_confirm_cpu_arrives(load.side, address, end))
		load.thread = &sr_self;
}

static void after_load(uintptr_t address)
{
	if (load.thread != &sr_self)
		return;
	sr_confirm_note_memory(load.side);
	load.thread = NULL;
	sr_agreement_done(load.side, true);
}

void sr_confirm_watch_load(int i)
{
	const struct sr_confirm_side *s = &sr_agreement->side[i];

	load.side = i;
	load.watched = (struct sr_exposed_watched){.pc = s->site,
						   .begin = s->begin,
						   .end = s->end,
						   .before = before_load,
						   .after = after_load};
	sr_exposed_watch_load(&load.watched);
}
