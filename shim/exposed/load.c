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

/* Loads that the handler does before it takes a snapshot: together they cost as much as that. */
#define LOADS_MAX    3

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

enum back {
	NOT_BACK,
	BACK,      /* this load has been done lately, with no call since */
	BACK_SAME, /* ... with all registers as they are now */
};

static enum back comes_back(const ucontext_t *uc, uintptr_t pc, uintptr_t addr)
{
	struct exposed_thread *t = &exposed_self;
	uint64_t registers = registers_of(uc), before;

	if (t->recent_epoch != thread_epoch()) {
		memset(t->recent, 0, sizeof(t->recent));
		t->recent_epoch = thread_epoch();
	}
	for (int i = 0; i < RECENT; i++) {
		if (t->recent[i].pc != pc || t->recent[i].addr != addr)
			continue;
		before = t->recent[i].registers;
		t->recent[i].registers = registers;
		return before == registers ? BACK_SAME : BACK;
	}
	t->recent[t->recent_at % RECENT].pc = pc;
	t->recent[t->recent_at % RECENT].addr = addr;
	t->recent[t->recent_at++ % RECENT].registers = registers;
	return NOT_BACK;
}

/* A loop that waits must see each change; one that only computes must get on. */
#define REPEATS_MAX 4096

void fault_load(ucontext_t *uc, uintptr_t addr, struct page *p, const struct insn *insn)
{
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	bool alone = is_alone(insn);
	bool poll = alone && is_poll(p, pc, insn->address);
	/* A poll is not looked up here, since a probe's short way (finish_unchanged) does not either. */
	enum back back = alone && !poll && !is_partial(p) ? comes_back(uc, pc, insn->address) : NOT_BACK;
	bool repeat = back == BACK_SAME || (back == BACK && p->repeats < REPEATS_MAX);
	bool walked = is_walk(addr & PAGE_MASK);
	bool partial = is_partial(p);

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
