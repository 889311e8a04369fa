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
	p->loaded = true;
	exposed_self.row = 0;
	counts.loads++;
}

/*
 * A thread walks over neighbouring pages, with no call in between.  After so many of them the next one becomes a
 * snapshot at once.
 */
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

static void walk_goes_on(uintptr_t user, uint32_t pages)
{
	struct exposed_thread *t = &exposed_self;

	t->walk.pages = is_walked(user) ? t->walk.pages + pages : 0;
	t->walk.last = user + (pages - 1) * PAGE;
	t->walk.epoch = thread_epoch();
}

/* ------------------------------------------------------------------- snapshots */

/* The end of the pages that become snapshots together.  A walk upwards takes as many as it has taken so far. */
static uintptr_t end_of_walk(uintptr_t user)
{
	uint32_t n = hooks.recorded ? replay_further() : exposed_self.walk.pages - 1;
	uintptr_t end = user + PAGE, stop;

	if (!hooks.recorded && (!is_walk(user) || user < exposed_self.walk.last))
		return end;
	for (stop = end + (n < PAGES_AT_ONCE ? n : PAGES_AT_ONCE - 1) * PAGE; end < stop; end += PAGE) {
		const struct page *p = page_at(end);

		if (!p || p->state != PAGE_PROTECTED || p->apart || !p->whole || offset_of(end) - offset_of(user) != end - user)
			break;
	}
	return end;
}

/* Makes the shadow copy what the page is now.  True: it was, and has been since it was last known. */
static bool is_known(uintptr_t user)
{
	const struct page *p = page_at(user);

	if (p->shadow_valid && is_equal(shadow_of(user), backing_of(p, user), PAGE))
		return true;
	record_page(user, 0);
	return false;
}

/*
 * A page that is known when a turn begins, and equal when the turn comes to it, was so when the turn began, as all the
 * others were.
 */
#define TURNS 4

bool sample_pages(uintptr_t begin, uintptr_t end)
{
	bool still = false;

	for (int i = 0; i < TURNS && !still; i++) {
		still = true;
		for (uintptr_t user = begin; user < end; user += PAGE)
			still &= is_known(user);
	}
	return still;
}

/* How often a copy of one page is tried, TRIES times each. */
#define SNAPSHOT_TRIES 16

/* False: the page did not hold still.  must: then the last copy counts. */
static bool sample_page(uintptr_t user, bool must)
{
	static char now[PAGE];
	struct page *p = page_at(user);
	enum copy copy = COPY_TORN;

	if (p->shadow_valid && is_equal(shadow_of(user), backing_of(p, user), PAGE))
		return true;
	for (int i = 0; i < SNAPSHOT_TRIES && copy == COPY_TORN; i++)
		copy = snapshot(user, now);
	if (copy == COPY_TORN && !must)
		return false;
	counts.unstable += copy == COPY_TORN;
	record_snapshot(user, now, copy, 0);
	p->shadow_valid = true;
	return true;
}

/* False: the page did not hold still, or must not be shown now. */
static bool show_snapshot(uintptr_t user, bool must)
{
	uintptr_t end = end_of_walk(user);
	uint64_t before = counts.values;

	protect_pass_through();
	if (!must && is_watched_page(user))
		return false;
	if (end == user + PAGE || !sample_pages(user, end)) {
		end = user + PAGE;
		if (!sample_page(user, must))
			return false;
	}
	/* They were like that at the moment of the sample as well, or are protected. */
	check_snapshots_since(before);
	event_flag(SR_EXPOSED_SNAPSHOT | (uint32_t)((end - user) / PAGE - 1) << 16);
	page_show_snapshots(user, end);
	for (uintptr_t at = user; at < end; at += PAGE) {
		renew(page_at(at));
		page_at(at)->loaded = true;
	}
	walk_goes_on(user, (uint32_t)((end - user) / PAGE));
	return true;
}

/* ------------------------------------------------------------------- recording */

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

/* Loads behind a store. */
#define TURN_MAX 8

NO_VECTORS bool is_by_turns(const struct page *p)
{
	return (p->reread || p->by_peers) && exposed_self.accesses_n - exposed_self.stored_at < TURN_MAX;
}

static uint32_t cost_of_load(void)
{
	return exposed_self.by_jump ? LOAD_BY_JUMP : LOAD_BY_FAULT;
}

/* An instruction that is executed aside costs two faults where no jump leads to it. */
static bool is_done_aside(struct page *p, bool walked)
{
	uint32_t cost = exposed_self.by_jump ? LOAD_BY_JUMP : 2 * LOAD_BY_FAULT;

	if (walked || p->loads >= alone_max(LOADS_MAX) || !(exposed_self.by_jump || changes_expected()))
		return false;
	p->loads += cost;
	return true;
}

/* Recording: does the handler do the load alone?  Counts it if so. */
static bool is_done_alone(const ucontext_t *uc, struct page *p, const struct insn *insn, bool poll)
{
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	bool walked = is_walk(insn->address & PAGE_MASK), repeat;
	uint64_t registers;
	enum back back;

	if (is_partial(p))
		return true;
	if (insn->class == INSN_OPERAND)
		return is_watched_page(insn->address) || is_done_aside(p, walked);
	if (poll)
		return !walked;
	registers = registers_of(uc);
	back = comes_back(pc, insn->address, registers);
	note_back(pc, insn->address, registers);
	repeat = back == BACK_SAME || (back == BACK && p->repeats < REPEATS_MAX) || (exposed_self.by_jump && is_by_turns(p));
	if (walked || !(repeat || p->loads < alone_max(LOADS_MAX)))
		return false;
	if (repeat)
		p->repeats += back == BACK;
	else
		p->loads += cost_of_load();
	return true;
}

/* A loop reads one new value after the other, where a thread that expects changes would go on so for ever. */
static bool is_read_through(const struct page *p, const struct insn *insn)
{
	return p->found >= LOADS_EXACT && insn->address == p->poll_at + insn->size;
}

/*
 * What came together with a value will be loaded next, if the loads before were followed by more.  When it is known by
 * then, these loads find nothing new, which costs a fifth.  The page is sampled before the load: of two values at one
 * place a replay shows the last one.
 */
static void sample_what_follows(const struct page *p, const struct insn *insn)
{
	bool goes_on = (exposed_self.by_jump && p->loads > LOADS_EXACT) || is_read_through(p, insn);

	if (!hooks.recorded && goes_on && p->shadow_valid &&
	    !is_equal(shadow_of(insn->address), backing_of(p, insn->address), insn->size))
		take_sample(insn->address & PAGE_MASK, PAGE);
}

/*
 * Words of 8 bytes one behind the other that have changed, from where the load finds a change.  So many came together, and
 * not as flags of several peers: then the page is shown.  With fewer it stays protected, as the program may go on waiting for
 * one of them.
 */
#define TOGETHER 4
#define BLOCK	 32

static size_t words_together(const struct page *p, const struct insn *insn)
{
	const char *shadow = shadow_of(insn->address), *backing = backing_of(p, insn->address);
	size_t left = PAGE - insn->address % PAGE, i = 0, n = 0;

	while (i < insn->size && shadow[i] == *(const volatile char *)(backing + i))
		i++;
	if (i == insn->size)
		return 0;
	for (; n < BLOCK && i + 8 <= left && word_load(shadow + i, 8) != word_load(backing + i, 8); i += 8)
		n++;
	return n;
}

/*
 * Did what the load finds come with more behind it, which the program will load next?  Where the trace lacks what was found
 * (record --order), one event of all of it takes less than one of each word.  True: the page is shown.
 */
static bool take_together(const struct page *p, const struct insn *insn)
{
	uintptr_t user = insn->address & PAGE_MASK;
	size_t n;

	if (!hooks.together || hooks.recorded || is_partial(p) || !p->shadow_valid || is_watched_page(user))
		return false;
	n = words_together(p, insn);
	if (n == BLOCK && show_snapshot(user, false))
		return true;
	if (n >= TOGETHER)
		take_sample(user, PAGE);
	return false;
}

static void do_alone(ucontext_t *uc, struct page *p, const struct insn *insn, bool poll)
{
	uint64_t before = counts.values;

	counts.polls += poll;
	if (!poll)
		sample_what_follows(p, insn);
	note_alone(p, (uintptr_t)uc->uc_mcontext.gregs[REG_RIP], insn->address);
	load_alone(uc, p, insn);
	p->found += counts.values != before;
	check_snapshots_since(before);
}

/* False: that is not possible now. */
static bool do_aside(ucontext_t *uc, const struct insn *insn)
{
	uint64_t before = counts.values;

	if (!aside_begin(uc, insn, false))
		return false;
	counts.loads++;
	check_snapshots_since(before);
	return true;
}

/* A replay takes snapshots where the trace says so, since what they cost the recorder depended on its jumps. */
static bool is_alone_again(void)
{
	if (replay_flagged(SR_EXPOSED_ALONE))
		protect_pass_through();
	return !replay_flagged(SR_EXPOSED_SNAPSHOT);
}

void fault_load(ucontext_t *uc, uintptr_t addr, struct page *p, const struct insn *insn)
{
	bool alone = is_alone(insn), aside = insn->class == INSN_OPERAND && is_within(insn);
	bool poll = alone && is_poll(p, (uintptr_t)uc->uc_mcontext.gregs[REG_RIP], insn->address);

	if (is_fill_due(addr & PAGE_MASK) && (fill_pages(addr & PAGE_MASK, insn) || hooks.recorded))
		return;
	if ((alone || aside) && take_together(p, insn))
		return;
	if ((alone || aside) && (hooks.recorded ? is_alone_again() : is_done_alone(uc, p, insn, poll))) {
		if (alone)
			do_alone(uc, p, insn, poll);
		if (alone || do_aside(uc, insn))
			return;
	}
	if (show_snapshot(addr & PAGE_MASK, !alone))
		return;
	event_flag(SR_EXPOSED_ALONE);
	do_alone(uc, p, insn, poll);
}

/* The counters of a page are of one epoch. */
NO_VECTORS void renew(struct page *p)
{
	if (p->epoch == thread_epoch())
		return;
	p->epoch = thread_epoch();
	p->loads = 0;
	p->found = 0;
	p->repeats = 0;
	if (p->loaded) {
		p->reread |= p->fills > 0;
		p->fills = 0;
	}
	p->loaded = false;
}
