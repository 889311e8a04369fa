/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quick.c: what a probe does in general registers only, for the accesses that bring nothing new and change no page's
 * state.  Most are of this kind.  Saving the vector registers would take longer than all of it.
 *
 * Each function does what the handler (fault.c) would do, to the last counter.
 */
#include "shim/exposed/access.h"
#include "shim/exposed/page/announced.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/page/pieces.h"
#include "shim/exposed/probe/exchange.h"
#include "shim/exposed/x86/word.h"

/* Loads by a probe after which snapshots are compared again. */
#define BLIND_MAX 64

struct access {
	const struct insn *insn;
	struct page *page;
	uintptr_t pc, addr;
	uint64_t *r;
	bool partial;
};

/* Has the page no other state, is nobody else's turn, and may this access be one of which the trace has nothing? */
NO_VECTORS static bool is_ordinary(const struct access *a)
{
	const struct exposed_thread *t = &exposed_self;
	const struct page *p = a->page;

	if (hooks.recorded ? t->fault + 1 >= t->quiet_until || t->fill.again
			   : t->after_tick || announced_any() || (hooks.wanted && hooks.wanted()))
		return false;
	return p->state == PAGE_PROTECTED && p->users && !t->silent &&
	       !(a->partial && is_unregistered(p, a->addr, a->insn->size));
}

NO_VECTORS static void count_access(const struct access *a, bool load)
{
	renew(a->page);
	exposed_self.fault++;
	exposed_self.accesses_n++;
	note_access(a->addr, load);
	counts.faults++;
	counts.by_jump++;
}

/* ------------------------------------------------------------------- loads */

/* What is known of a load before it is done. */
struct load {
	bool poll, repeat;
	enum back back;
	uint64_t registers; /* a hash; not of a poll */
};

/* A vector is no poll's. */
NO_VECTORS static void wait_as_poll(const struct access *a)
{
	const struct poll poll = {a->pc, a->addr, a->insn->size, a->r, exposed_self.accesses_n + 1};

	if (is_register_load(a->insn))
		wait_at_poll(a->page, &poll);
}

/* The counters of a page are of one epoch. */
NO_VECTORS static bool is_done_alone(struct load *l, const struct access *a)
{
	const struct page *p = a->page;
	bool now = p->epoch == thread_epoch();

	if (a->insn->class == INSN_OPERAND)
		return (now ? p->loads : 0) < alone_max(LOADS_MAX);
	l->registers = word_registers(a->r, a->pc);
	l->back = comes_back(a->pc, a->addr, l->registers);
	l->repeat = l->back == BACK_SAME || (l->back == BACK && (now ? p->repeats : 0) < REPEATS_MAX) || is_by_turns(p);
	return l->repeat || (now ? p->loads : 0) < alone_max(LOADS_MAX);
}

/* Will the handler do this load itself? */
NO_VECTORS static bool is_next(struct load *l, const struct access *a)
{
	*l = (struct load){.poll = a->insn->class != INSN_OPERAND && is_poll(a->page, a->pc, a->addr)};
	/* A replay takes a snapshot only where the trace has an event. */
	if (hooks.recorded)
		return true;
	if (!a->partial && (is_walk(a->addr & PAGE_MASK) || is_filled_on(a->addr & PAGE_MASK)))
		return false;
	return l->poll || a->partial || is_done_alone(l, a);
}

/* Compares what is there with what the program knows.  False: they differ. */
NO_VECTORS static bool read_known(const struct access *a, uint64_t *v)
{
	const char *from = backing_of(a->page, a->addr), *known = shadow_of(a->addr);
	uint64_t *to = (uint64_t *)exposed_self.probe.operand;

	if (a->insn->size <= 8) {
		*v = *to = word_load(from, a->insn->size);
		return *v == word_load(known, a->insn->size);
	}
	for (unsigned int i = 0; i < a->insn->size; i += 8, to++) {
		*to = word_load(from + i, 8);
		if (*to != word_load(known + i, 8))
			return false;
	}
	return true;
}

/* What a recording decides by. */
NO_VECTORS static void note_recorded(const struct load *l, const struct access *a)
{
	struct page *p = a->page;

	if (l->poll || a->partial)
		return;
	if (a->insn->class != INSN_OPERAND)
		note_back(a->pc, a->addr, l->registers);
	if (l->repeat)
		p->repeats += l->back == BACK;
	else
		p->loads += LOAD_BY_JUMP;
}

NO_VECTORS static void note_load(const struct load *l, const struct access *a)
{
	count_access(a, is_register_load(a->insn));
	if (!hooks.recorded)
		note_recorded(l, a);
	a->page->loaded = true;
	counts.loads++;
	counts.polls += l->poll;
	if (a->insn->class == INSN_OPERAND)
		return;
	exposed_self.row = 0;
	note_alone(a->page, a->pc, a->addr);
}

/*
 * The program could have read that value before, so snapshots may stay as they are.  That holds for a while only: a
 * thread that polls may be waiting for a change in one of them.
 */
NO_VECTORS static bool load_quickly(const struct access *a, uint64_t *flags)
{
	struct load l;
	uint64_t v = 0;

	if (!is_ordinary(a) || !a->page->shadow_valid || (open_n && exposed_self.blind++ % BLIND_MAX == 0) ||
	    !is_next(&l, a))
		return false;
	if (l.poll && !hooks.recorded) {
		wait_as_poll(a);
		/* Meanwhile the lock was free. */
		if (!is_ordinary(a) || !a->page->shadow_valid)
			return false;
	}
	if (!read_known(a, &v))
		return false;
	if (is_register_load(a->insn))
		word_take(a->insn, (greg_t *)&a->r[a->insn->reg], (greg_t *)flags, v);
	note_load(&l, a);
	return true;
}

/* ------------------------------------------------------------------ stores */

/* Must others see or record the store, or what comes before it? */
NO_VECTORS static bool is_awaited(void)
{
	return hooks.stored || (hooks.storing && (!hooks.orders_stores || hooks.orders_stores()));
}

/* From a general register, or what is in the thread's `operand`. */
NO_VECTORS static void put(const struct access *a, char *to)
{
	const struct insn *insn = a->insn;

	if (insn->class == INSN_STORE)
		word_store(to, word_value(insn, (greg_t)a->r[insn->reg]), insn->size);
	else
		word_copy(to, exposed_self.probe.operand, insn->size);
}

/* Snapshots would have to be compared after it. */
NO_VECTORS static bool store_quickly(const struct access *a)
{
	struct page *p = a->page;
	bool fills = !a->partial && !p->atomics && !p->meets;

	if (open_n || is_awaited() || !is_ordinary(a) || (!p->shadow_valid && p->digested) ||
	    (fills && !hooks.recorded && (is_row_due(a->addr & PAGE_MASK) || is_filled_on(a->addr & PAGE_MASK))))
		return false;
	put(a, backing_of(p, a->addr));
	p->own = true;
	if (p->shadow_valid)
		put(a, shadow_to_change(a->addr));
	if (fills)
		note_row(a->addr & PAGE_MASK);
	else if (!a->partial)
		exposed_self.row = 0;
	count_access(a, false);
	exposed_self.stored_at = exposed_self.accesses_n;
	counts.stores++;
	return true;
}

/* --------------------------------------------------------------- exchanges */

/* As for a store.  What it finds is known, too. */
NO_VECTORS static bool exchange_known(const struct access *a, uint64_t *flags)
{
	struct page *p = a->page;

	if (open_n || is_awaited() || !is_ordinary(a) || !p->shadow_valid || !exchange_quickly(a->insn, p, a->addr, a->r, flags))
		return false;
	p->own = true;
	if (!a->partial) {
		p->atomics |= is_atomic(a->insn);
		exposed_self.row = 0;
	}
	count_access(a, false);
	exposed_self.stored_at = exposed_self.accesses_n;
	counts.exchanges++;
	return true;
}

/* ------------------------------------------------------------------- all */

NO_VECTORS static bool may_be_quick(const struct insn *insn)
{
	return is_store(insn) || is_register_load(insn) || insn->class == INSN_VECTOR_LOAD || insn->class == INSN_OPERAND ||
	       insn->class == INSN_EXCHANGE;
}

NO_VECTORS static bool do_quickly(const struct access *a, uint64_t *flags)
{
	if (is_store(a->insn))
		return store_quickly(a);
	return a->insn->class == INSN_EXCHANGE ? exchange_known(a, flags) : load_quickly(a, flags);
}

NO_VECTORS bool fault_quickly_at_probe(const struct insn *insn, uintptr_t pc, uintptr_t addr, uint64_t r[16], uint64_t *flags)
{
	struct access a = {insn, page_at(addr), pc, addr, r, false};
	bool done;

	if (!may_be_quick(insn))
		return false;
	/* Who watches is told of each access (fault.c). */
	if (hooks.accessed)
		return false;
	/* The shim's own code comes here as well, from libc's functions, and may hold the lock. */
	if (!exposed_try_lock())
		return false;
	a.partial = is_partial(a.page);
	done = do_quickly(&a, flags);
	exposed_release();
	return done;
}
