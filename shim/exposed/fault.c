/* SPDX-License-Identifier: BSD-2-Clause */
/* fault.c: a load or store of the program's met a page that is not open: what is to be done. */
#include "shim/exposed/access.h"
#include "shim/exposed/exposed.h"
#include "shim/exposed/page/announced.h"
#include "shim/exposed/page/event.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/page/mappings.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/page/states.h"
#include "shim/exposed/page/timer.h"
#include "shim/exposed/probe/aside.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/word.h"

#define ERR_WRITE    2

/*
 * Another thread may just have released the page, which then faults no more.  A second fault of this kind in a row is
 * not ours, unless a page was exposed and released again in between.
 */
static bool may_try_again(uintptr_t addr, uintptr_t pc)
{
	struct exposed_thread *t = &exposed_self;
	uint64_t now = atomic_load(&pages_returned);
	bool again = t->strange_at != addr || t->strange_pc != pc || t->strange_pages_returned != now;

	t->strange_at = again ? addr : 0;
	t->strange_pc = again ? pc : 0;
	t->strange_pages_returned = now;
	return again;
}

/* Pages that are never opened, if that can be helped: what lies over two of them is loaded in parts. */
static bool is_loaded_in_parts(const struct page *p, const struct insn *insn)
{
	return (is_partial(p) || p->meets) && can_be_parted(insn) && !is_within(insn);
}

/* Of an operand over two pages, the processor reports the part that it may not access. */
static bool lies_in(const struct insn *insn, const struct page *p)
{
	if (page_at(insn->address) == p)
		return true;
	return (writes(insn) || is_loaded_in_parts(p, insn)) && page_at(insn->address + insn->size - 1) == p;
}

/*
 * Another thread has seen that this page changed, and may have told this thread so in ways that need no call.  So a
 * new snapshot is taken, at a place where a replay has no fault.
 */
static void refresh(uintptr_t user, const ucontext_t *uc)
{
	event_begin(exposed_self.fault, SR_EXPOSED_TICK | SR_EXPOSED_REFRESHED,
		    (uintptr_t)uc->uc_mcontext.gregs[REG_RIP], 0);
	record_page(user, SR_EXPOSED_ASYNC);
	if (changes_expected()) {
		page_protect(user);
		event_protected(user);
	} else {
		page_renew_snapshot(user);
	}
	suspend_changed();
	event_end();
}

/*
 * The access is not counted.  False: the page is to be treated as a protected one.  One that was passed through, and that a call of
 * another thread's has meanwhile where it is, is accessed there.
 */
static bool resume_suspended(ucontext_t *uc, struct page *p, uintptr_t addr, const struct insn *insn, bool write)
{
	if (p->state == PAGE_SUSPENDED_PASS_THROUGH) {
		if (!page_reopen(addr & PAGE_MASK))
			do_unseen(uc, addr, p, insn, write); /* or it comes again */
	} else if (!write) {
		refresh(addr & PAGE_MASK, uc);
	} else {
		return false;
	}
	return true;
}

/* Instructions that have faulted lately, since they fault again.  Their bytes may have changed meanwhile. */
static struct decoded {
	uintptr_t pc;
	uint8_t code[INSN_BYTES_MAX];
	struct insn insn;
} decoded[32];

/* Byte by byte: behind an instruction that ends where they differ, nothing need be mapped. */
static bool has_same_code(const struct decoded *d, const uint8_t *code)
{
	for (uint8_t i = 0; i < d->insn.length; i++)
		if (d->code[i] != code[i])
			return false;
	return true;
}

static const struct insn *decode_cached(const uint8_t *code, uintptr_t pc)
{
	struct decoded *d = &decoded[pc % (sizeof(decoded) / sizeof(*decoded))];

	if (d->pc == pc && d->insn.length && has_same_code(d, code))
		return &d->insn;
	decode_bytes(code, pc, &d->insn);
	d->pc = pc;
	memcpy(d->code, code, d->insn.length);
	return &d->insn;
}

static void find_instruction(const ucontext_t *uc, const struct page *p, bool write, struct insn *insn)
{
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];

	*insn = *decode_cached(probes_code_at(pc), pc);
	decode_address(uc, insn);
	if (insn->class != INSN_STRING && !lies_in(insn, p))
		insn->class = INSN_UNKNOWN;
	if (insn->class == INSN_OPERAND && write)
		insn->class = INSN_UNKNOWN;
	if (insn->class == INSN_CALL && has_shadow_stack())
		insn->class = INSN_UNKNOWN;
}

/* ---------------------------------------------------------- watched accesses */

/* Bytes of the page that the instruction accesses: of a string what is left of it, of another one what is known. */
static void tell_accessed(const ucontext_t *uc, uintptr_t addr, const struct insn *insn, bool write)
{
	const greg_t *g = uc->uc_mcontext.gregs;
	uintptr_t begin = is_within(insn) && insn->class != INSN_UNKNOWN ? insn->address : addr;
	size_t n = begin == insn->address ? insn->size : 1, left = PAGE - addr % PAGE;

	if (insn->class == INSN_STRING) {
		begin = addr;
		n = (insn->repeat ? (size_t)g[REG_RCX] : 1) * insn->size;
	}
	hooks.accessed((uintptr_t)g[REG_RIP], (uintptr_t)g[REG_RSP], begin, n < left || begin != addr ? n : left, write);
}

/* Loads from a hidden snapshot that are watched; then it is shown. */
#define WATCHED_MAX 250

static bool is_whole_load(const struct insn *insn)
{
	return is_within(insn) && (is_word(insn) || insn->class == INSN_VECTOR_LOAD);
}

/* The load finds what the program knows already.  It has no number.  False: the frame does not have the register. */
static bool load_known(ucontext_t *uc, const struct insn *insn)
{
	char now[VECTOR_MAX];

	memcpy(now, shadow_of(insn->address), insn->size);
	if (insn->class != INSN_VECTOR_LOAD)
		finish_load(uc, insn, word_load(now, insn->size));
	else if (vector_put(uc, insn->reg, now, insn->size, insn->vex))
		uc->uc_mcontext.gregs[REG_RIP] += insn->length;
	else
		return false;
	return true;
}

/* A replay's tick interrupts a loop elsewhere: the thread comes to another load first, which came before the tick when recorded. */
static bool is_done_before_tick(ucontext_t *uc, const struct page *p, const struct insn *insn)
{
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];

	return hooks.is_before_tick && p->shadow_valid && is_whole_load(insn) &&
	       hooks.is_before_tick(exposed_self.fault + 1, pc, insn->address) && load_known(uc, insn);
}

/* The page is a snapshot: where nobody watches, the load does not fault.  It has no number. */
static void load_hidden(ucontext_t *uc, uintptr_t addr, struct page *p)
{
	struct insn insn;

	find_instruction(uc, p, false, &insn);
	if (!exposed_self.silent)
		tell_accessed(uc, addr, &insn, false);
	if (exposed_self.silent || ++p->watched >= WATCHED_MAX) {
		page_show_unwatched(addr & PAGE_MASK);
		return;
	}
	/* A sum of numbers, for example. */
	if (!is_whole_load(&insn)) {
		page_show_hidden(addr & PAGE_MASK);
		if (hooks.step)
			hooks.step(uc, addr & PAGE_MASK);
		return;
	}
	if (!load_known(uc, &insn))
		page_show_unwatched(addr & PAGE_MASK);
}

void sr_exposed_suspend(const void *addr)
{
	const uintptr_t user = (uintptr_t)addr & PAGE_MASK;
	const struct page *p;

	exposed_lock(NULL);
	p = page_at(user);
	if (p && p->state == PAGE_SNAPSHOT)
		page_suspend(user);
	exposed_unlock(NULL);
}

void sr_exposed_hide(uintptr_t page)
{
	exposed_lock(NULL);
	page_hide_again(page);
	exposed_unlock(NULL);
}

/*
 * What other threads' calls do meanwhile decides how long such a page stays exposed, so an access to it is not counted: a
 * replay may find the page returned.
 */
static void handle_left_behind(ucontext_t *uc, uintptr_t addr, struct page *p, const struct insn *insn, bool write)
{
	if (!p->aliases) {
		page_release(addr & PAGE_MASK);
		return;
	}
	if (is_done_unregistered(uc, p, insn))
		return;
	/* Where that is not possible, the access faults again until those calls have ended. */
	do_unseen(uc, addr, p, insn, write);
}

/* What the program has given ld.so to read, it knows.  Such loads have no numbers. */
static bool is_done_for_loader(ucontext_t *uc, uintptr_t addr, struct page *p, const struct insn *insn)
{
	return hooks.is_loaders && hooks.is_loaders((uintptr_t)uc->uc_mcontext.gregs[REG_RIP]) && !writes(insn) &&
	       do_unseen(uc, addr, p, insn, false);
}

/* Within a call nothing is recorded.  But other threads load from the page meanwhile, and are to see that they do. */
static void handle_silently(ucontext_t *uc, uintptr_t addr, struct page *p, bool write)
{
	const uintptr_t user = addr & PAGE_MASK;
	struct insn insn;

	if (!has_threads()) {
		page_open_silently(user);
		return;
	}
	find_instruction(uc, p, write, &insn);
	if (!do_silently(uc, addr, p, &insn, write))
		page_open_silently(user);
	else if (write)
		page_tell_unwatched(user);
}

/*
 * A load that polls is no event while nothing has changed.  True: the page's state changed, and the load need not
 * fault again.
 */
static bool has_waited(const ucontext_t *uc, struct page *p, const struct insn *insn)
{
	return !hooks.recorded && !announced_any() && is_word(insn) && is_within(insn) && p->shadow_valid && wait_at_fault(uc, p, insn) &&
	       !fault_needs_handling(p, false);
}

static bool finds_nothing(const struct page *p, const struct insn *insn)
{
	return is_word(insn) && is_within(insn) && p->shadow_valid &&
	       word_load(backing_of(p, insn->address), insn->size) == word_load(shadow_of(insn->address), insn->size);
}

/* Loops that wait load the same words again soon; code that gets on rarely does.  Has this load just been there? */
static bool comes_in_vain(uintptr_t pc, uintptr_t addr)
{
	struct exposed_thread *t = &exposed_self;

	if (!t->fault)
		t->vain_n = 0;
	for (uint32_t i = 0; i < VAIN && i < t->vain_n; i++)
		if (t->vain[i].pc == pc && t->vain[i].addr == addr)
			return true;
	t->vain[t->vain_n % VAIN].pc = pc;
	t->vain[t->vain_n++ % VAIN].addr = addr;
	return false;
}

/*
 * A load that finds nothing new, again, may wait for another thread of the program, not for a peer.  True: others have run,
 * and the instruction must be executed again.  It lets them run once: if each of several threads let the others go first
 * again, none would ever get on.
 */
static bool has_yielded(const ucontext_t *uc, const struct page *p, const struct insn *insn)
{
	enum sr_exposed_wanted wanted = hooks.wanted ? hooks.wanted() : SR_EXPOSED_ALL_RUN;

	if (wanted == SR_EXPOSED_ALL_RUN)
		return false;
	if (wanted == SR_EXPOSED_OTHERS_WAIT &&
	    (!finds_nothing(p, insn) || !comes_in_vain((uintptr_t)uc->uc_mcontext.gregs[REG_RIP], insn->address)))
		return false;
	if (wanted != SR_EXPOSED_OTHERS_RUN && exposed_self.yielded_at == exposed_self.fault + 1)
		return false;
	exposed_self.yielded_at = exposed_self.fault + 1;
	exposed_unlock(NULL);
	hooks.yield(exposed_self.fault, (uintptr_t)uc->uc_mcontext.gregs[REG_RIP]);
	exposed_lock(NULL);
	return true;
}

static bool may_yield_again(void)
{
	return hooks.recorded && hooks.yield && !exposed_self.silent && exposed_self.fault + 1 >= exposed_self.quiet_until;
}

/* In a replay, what a tick brought behind the last access comes before the next one. */
static void replay_tick(void)
{
	if (!may_yield_again())
		return;
	event_begin(exposed_self.fault, SR_EXPOSED_TICK, 0, 0);
	replay_values();
	replay_protected();
	event_end();
}

/*
 * In a replay, others run where they ran in the recording: before an access that counts, not before what it does not see of
 * the same page.  True: they have, and the instruction must be executed again.
 */
static bool has_yielded_again(const ucontext_t *uc)
{
	bool has;

	if (!may_yield_again())
		return false;
	exposed_unlock(NULL);
	has = hooks.yield(exposed_self.fault, (uintptr_t)uc->uc_mcontext.gregs[REG_RIP]);
	exposed_lock(NULL);
	return has;
}

static void load_parts(ucontext_t *uc, const struct insn *insn)
{
	uint64_t before = counts.values;

	do_parts(uc, insn);
	check_snapshots_since(before);
}

static void do_access(ucontext_t *uc, uintptr_t addr, struct page *p, const struct insn *insn, bool write)
{
	uintptr_t user = addr & PAGE_MASK;

	if (sr_exposed_has_stack((uintptr_t)uc->uc_mcontext.gregs[REG_RSP])) {
		/* Then the instruction is executed again. */
		stack_give_up((uintptr_t)uc->uc_mcontext.gregs[REG_RSP]);
		check_snapshots();
	} else if (!p->users) {
		/* Its region is gone: this is the last sample. */
		take_sample(user, PAGE);
		if (p->aliases)
			p->left_behind = true; /* and the instruction comes again */
		else
			page_release(user);
		check_snapshots();
	} else if (insn->class == INSN_STRING) {
		fault_string(uc, insn);
	} else if (write) {
		fault_store(uc, addr, p, insn);
	} else if (is_loaded_in_parts(p, insn)) {
		load_parts(uc, insn);
	} else {
		fault_load(uc, addr, p, insn);
	}
	note_access(is_within(insn) ? insn->address : user, is_word(insn));
}

/* What an instruction that reads and writes will find. */
static void keep_operand(const struct insn *insn, char found[VECTOR_MAX])
{
	if (insn->class == INSN_EXCHANGE && is_within(insn))
		memcpy(found, sr_exposed_backing((void *)insn->address), insn->size);
}

/* It has been done, and has left its operand as it was, as a compare-and-swap that fails does: that is a load. */
static bool has_only_loaded(const ucontext_t *uc, const ucontext_t *before, const struct insn *insn, const char found[VECTOR_MAX])
{
	return insn->class == INSN_EXCHANGE && is_within(insn) && uc->uc_mcontext.gregs[REG_RIP] != before->uc_mcontext.gregs[REG_RIP] &&
	       !memcmp(found, sr_exposed_backing((void *)insn->address), insn->size);
}

static void handle(ucontext_t *uc, uintptr_t addr, bool write)
{
	uintptr_t user = addr & PAGE_MASK;
	struct page *p = page_at(addr);
	const bool begun = aside_has_begun((uintptr_t)uc->uc_mcontext.gregs[REG_RIP]);
	struct insn insn;
	ucontext_t before;
	char found[VECTOR_MAX];

	/* Another thread's instruction is shown a copy, which this one may use as well. */
	if (p->apart)
		return;
	if (!fault_needs_handling(p, write)) {
		if (p->state == PAGE_SNAPSHOT && p->hidden)
			load_hidden(uc, addr, p);
		return;
	}
	if (exposed_self.silent && !p->left_behind) {
		handle_silently(uc, addr, p, write);
		return;
	}
	find_instruction(uc, p, write, &insn);
	if (p->left_behind) {
		handle_left_behind(uc, addr, p, &insn, write);
		return;
	}
	if (!write && is_done_for_loader(uc, addr, p, &insn))
		return;
	if (is_within(&insn))
		probes_count(uc, &insn);
	if (is_done_unregistered(uc, p, &insn))
		return;
	/* What it reads first, too, is done as a store. */
	write |= writes(&insn) || begun;
	if (is_suspended(p) && is_mine(p) && resume_suspended(uc, p, addr, &insn, write))
		return;
	/* Not with pages open. */
	if (!begun && has_yielded_again(uc))
		return;
	if (!write && is_done_before_tick(uc, p, &insn))
		return;
	renew(p);
	exposed_self.accesses_n++;
	counts.faults++;
	counts.by_jump += exposed_self.by_jump;
	if ((!write && has_waited(uc, p, &insn)) || (!begun && has_yielded(uc, p, &insn)))
		return;
	if (hooks.accessed)
		before = *uc;
	announced_late_event();
	event_begin(++exposed_self.fault, 0, (uintptr_t)uc->uc_mcontext.gregs[REG_RIP], addr);
	replay_values();
	announced_take();
	if (exposed_self.after_tick)
		event_flag(SR_EXPOSED_AFTER_TICK);
	exposed_self.after_tick = false;
	/* A store to a suspended page of this thread leaves its state as it is. */
	if (is_suspended(p) && !(write && is_mine(p)))
		page_protect(user);
	if (hooks.accessed)
		keep_operand(&insn, found);
	do_access(uc, addr, p, &insn, write);
	if (hooks.accessed)
		tell_accessed(&before, addr, &insn, write && !has_only_loaded(uc, &before, &insn, found));
	replay_protected();
	event_end();
}

/*
 * In a replay the next accesses by probes take the short way (quick.c) up to there; and a handler that is due comes before them.
 * An access that let others run is made again by a fault.
 */
static void look_ahead(void)
{
	if (!hooks.quiet_until)
		return;
	exposed_self.quiet_until = hooks.quiet_until(exposed_self.fault);
	if (exposed_self.quiet_until <= exposed_self.fault)
		tick_await();
}

void sr_exposed_end(void)
{
	exposed_self.ends = true;
}

/* As if it were passed through, but unrecorded.  Without the lock, which this thread may have, and which it will not come to release. */
static bool open_at_end(struct page *p, uintptr_t user)
{
	if (p->state == PAGE_NONE || map_through(user, user + PAGE))
		return false;
	p->state = PAGE_PASS_THROUGH;
	return true;
}

static void fault_at_probe(ucontext_t *uc, uintptr_t addr, bool write)
{
	/* The copy of the access faults, and opens the page. */
	if (exposed_self.ends)
		return;
	exposed_lock(NULL);
	replay_tick();
	exposed_self.by_jump = true;
	handle(uc, addr, write);
	exposed_self.by_jump = false;
	look_ahead();
	exposed_unlock(NULL);
}

const struct probe_handlers fault_probe_handlers = {
    .fault = fault_at_probe,
    .quickly = fault_quickly_at_probe,
    .unregistered = fault_unregistered_at_probe,
    .tick = tick_at_probe,
};

static bool fault(siginfo_t *info, ucontext_t *uc)
{
	uintptr_t addr = (uintptr_t)info->si_addr;
	struct page *p;
	bool ours, watched;

	if (tick_is(info)) {
		tick(uc);
		return true;
	}
	/* A signal that somebody has sent may come there, too, before the instruction is executed. */
	if (info->si_code == SI_KERNEL && aside_ended(uc)) {
		exposed_lock(NULL);
		aside_end(uc);
		look_ahead();
		exposed_unlock(NULL);
		return true;
	}
	p = info->si_code > 0 ? page_at(addr) : NULL;
	if (!p)
		return false;
	if (exposed_self.ends)
		return open_at_end(p, addr & PAGE_MASK);
	watched = __builtin_expect(is_watched_load(uc, addr), 0);
	if (watched)
		watched_load_begins(uc, addr);
	exposed_lock(NULL);
	replay_tick();
	ours = p->state != PAGE_NONE;
	if (ours) {
		handle(uc, addr, uc->uc_mcontext.gregs[REG_ERR] & ERR_WRITE);
		aside_go_on(uc);
		/* What comes behind the access comes behind the stub. */
		if (!aside_goes_on())
			look_ahead();
	}
	exposed_unlock(NULL);
	if (watched)
		watched_load_ends(addr);
	return ours || may_try_again(addr, (uintptr_t)uc->uc_mcontext.gregs[REG_RIP]);
}

bool sr_exposed_fault(siginfo_t *info, ucontext_t *uc)
{
	greg_t *const rip = &uc->uc_mcontext.gregs[REG_RIP];
	struct probes_guard guard;
	greg_t before;
	bool done;

	if (info->si_code > 0)
		aside_step_back(uc);
	before = *rip;
	probes_guard_begin(&guard);
	done = info->si_code == SI_KERNEL && probes_trapped(uc);
	if (!done) {
		probes_make_stack();
		probes_enter(uc);
		done = fault(info, uc);
		/* Another claim may let the thread go on here, and the original's bytes may be those of a jump. */
		if (done)
			probes_leave(uc);
		else
			*rip = before;
	}
	probes_guard_end(&guard);
	return done;
}
