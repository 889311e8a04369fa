/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load.c: a load met a protected page.
 *
 * As long as few come, the handler does each of them: that needs no change of mappings.  When others follow, the page is
 * shown as a snapshot.
 */
#include "shim/exposed/access.h"
#include "shim/exposed/page/event.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/page/states.h"
#include "shim/exposed/probe/aside.h"
#include "shim/exposed/x86/word.h"

/* The stack is never exposed. */
static void go_to(greg_t *g, const struct insn *insn, uint64_t target)
{
	if (insn->class == INSN_CALL) {
		g[REG_RSP] -= 8;
		*(volatile uint64_t *)g[REG_RSP] = (uint64_t)g[REG_RIP] + insn->length;
	}
	g[REG_RIP] = (greg_t)target;
}

void finish_load(ucontext_t *uc, const struct insn *insn, uint64_t v)
{
	greg_t *g = uc->uc_mcontext.gregs;

	if (is_transfer(insn)) {
		go_to(g, insn, v);
		return;
	}
	word_take(insn, decode_register(uc, insn->reg), &g[REG_EFL], v);
	g[REG_RIP] += insn->length;
}

static bool is_alone(const struct insn *insn)
{
	return (is_word(insn) || insn->class == INSN_VECTOR_LOAD) && is_within(insn);
}

void do_load(ucontext_t *uc, struct page *p, const struct insn *insn, char now[VECTOR_MAX])
{
	if (insn->class == INSN_VECTOR_LOAD) {
		word_copy(now, backing_of(p, insn->address), insn->size);
		vector_put(uc, insn->reg, now, insn->size, insn->vex);
		uc->uc_mcontext.gregs[REG_RIP] += insn->length;
	} else {
		word_store(now, word_load(backing_of(p, insn->address), insn->size), insn->size);
		finish_load(uc, insn, word_load(now, insn->size));
	}
}

void load_alone(ucontext_t *uc, struct page *p, const struct insn *insn)
{
	char now[VECTOR_MAX];

	if (!exposed_self.silent)
		validate_shadow(insn->address & PAGE_MASK, p);
	do_load(uc, p, insn, now);
	if (exposed_self.silent)
		return;
	record_difference(insn->address, now, insn->size, 0);
	exposed_self.row = 0;
	counts.loads++;
}

/* How often a copy is tried: nothing may have changed while other open pages were compared. */
#define SNAPSHOT_TRIES 16

static bool show_snapshot(uintptr_t user, struct page *p, bool must)
{
	static char now[PAGE];
	bool stable = false;

	protect_pass_through();
	/* The event says so, and a replay does the same. */
	if (replay_flagged(SR_EXPOSED_ALONE) || (!must && is_watched_page(user)))
		return false;
	for (int i = 0; i < SNAPSHOT_TRIES && !stable; i++) {
		if (!snapshot(user, now))
			continue;
		check_snapshots();
		stable = is_equal(now, backing_of(p, user), PAGE);
	}
	if (!stable) {
		if (!must)
			return false;
		counts.unstable++;
		/* The last copy counts, even if no second pass agreed with it; then other snapshots may be older. */
		check_snapshots();
	}
	record_difference(user, now, PAGE, 0);
	p->shadow_valid = true;
	page_show_snapshot(user);
	return true;
}

/*
 * A thread walks over neighbouring pages, with no call in between.  After so many of them the next one becomes a
 * snapshot at once.
 */
#define WALK_MIN 8

NO_VECTORS static bool is_walked(uintptr_t user)
{
	const struct exposed_thread *t = &exposed_self;

	return t->walk.epoch == thread_epoch() &&
	       (user == t->walk.last + PAGE || user == t->walk.last - PAGE);
}

NO_VECTORS bool is_walk(uintptr_t user)
{
	return is_walked(user) && exposed_self.walk.pages >= WALK_MIN;
}

static void walk_goes_on(uintptr_t user)
{
	struct exposed_thread *t = &exposed_self;

	t->walk.pages = is_walked(user) ? t->walk.pages + 1 : 0;
	t->walk.last = user;
	t->walk.epoch = thread_epoch();
}

/* The place of this load among those of the thread since its last call; -1: it is not there. */
NO_VECTORS static int find_recent(uintptr_t pc, uintptr_t addr)
{
	struct exposed_thread *t = &exposed_self;

	if (t->recent_epoch != thread_epoch())
		t->recent_at = 0;
	t->recent_epoch = thread_epoch();
	for (int i = 0; i < RECENT && i < (int)t->recent_at; i++)
		if (t->recent[i].pc == pc && t->recent[i].addr == addr)
			return i;
	return -1;
}

NO_VECTORS enum back comes_back(uintptr_t pc, uintptr_t addr, uint64_t registers)
{
	int i = find_recent(pc, addr);

	if (i < 0)
		return NOT_BACK;
	return exposed_self.recent[i].registers == registers ? BACK_SAME : BACK;
}

NO_VECTORS void note_back(uintptr_t pc, uintptr_t addr, uint64_t registers)
{
	struct exposed_thread *t = &exposed_self;
	int i = find_recent(pc, addr);

	if (i < 0)
		i = (int)(t->recent_at++ % RECENT);
	t->recent[i].pc = pc;
	t->recent[i].addr = addr;
	t->recent[i].registers = registers;
}

void fault_load(ucontext_t *uc, uintptr_t addr, struct page *p, const struct insn *insn)
{
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	bool alone = is_alone(insn);
	bool poll = alone && is_poll(p, pc, insn->address);
	bool partial = is_partial(p), looked_up = alone && !poll && !partial;
	uint64_t registers = looked_up ? registers_of(uc) : 0;
	enum back back = looked_up ? comes_back(pc, insn->address, registers) : NOT_BACK;
	bool repeat = back == BACK_SAME || (back == BACK && p->repeats < REPEATS_MAX);
	bool walked = is_walk(addr & PAGE_MASK);

	if (looked_up)
		note_back(pc, insn->address, registers);

	bool few = !walked && p->loads < alone_max(LOADS_MAX);

	if (insn->class == INSN_OPERAND && is_within(insn) && (partial || (few && changes_expected())) &&
	    aside_begin(uc, insn, false)) {
		p->loads += !partial;
		counts.loads++;
		check_snapshots();
		return;
	}
	if (alone && (partial || few || (!walked && (poll || repeat)))) {
		if (poll)
			counts.polls++;
		else if (repeat)
			p->repeats += back == BACK;
		else if (!partial)
			p->loads++;
		note_alone(p, pc, insn->address);
		load_alone(uc, p, insn);
		check_snapshots();
		return;
	}
	if (show_snapshot(addr & PAGE_MASK, p, !alone)) {
		walk_goes_on(addr & PAGE_MASK);
		return;
	}
	event_flag(SR_EXPOSED_ALONE);
	load_alone(uc, p, insn);
	check_snapshots();
}

/* The counters of a page are of one epoch. */
NO_VECTORS void renew(struct page *p)
{
	if (p->epoch == thread_epoch())
		return;
	p->epoch = thread_epoch();
	p->loads = 0;
	p->repeats = 0;
}
