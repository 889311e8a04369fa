/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fault.c: a load or store of the program's met a page that is not open.
 *
 * A load is done by the handler, alone, as long as few come: that needs no
 * change of mappings, and a load that comes again and again is a poll, which
 * must see each change.  When others follow, the page is frozen for them.  A
 * store is done on the backing mapping at once; when many follow, the page goes live.
 */
#include <errno.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/x86/decode.h"
#include "shim/exposed/probe/code.h"
#include "shim/exposed/probe/exchange.h"
#include "shim/exposed/mappings.h"
#include "shim/exposed/page.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/vector.h"
#include "shim/exposed/x86/word.h"

/* Loads done one by one before a page is frozen: what they cost together is what that costs. */
#define LOADS_MAX    3
/* Stores in a row likewise, before the page goes live. */
#define STORES_MAX   16

/* In pauses: as long as coming back takes, by a fault or by a jump (sites.h); and at most. */
#define POLL_WAIT_FAULT 64
#define POLL_WAIT_JUMP  8
#define POLL_WAIT_MAX   16384

#define ERR_WRITE    2

/* ------------------------------------------------------------------ loads */

static void finish_load(ucontext_t *uc, const struct insn *insn, uint64_t v)
{
	greg_t *g = uc->uc_mcontext.gregs;

	word_take(insn, decode_register(uc, insn->reg), &g[REG_EFL], v);
	g[REG_RIP] += insn->length;
}

static bool is_within(const struct insn *insn)
{
	return is_in_one_page(insn->address, insn->size);
}

NO_VECTORS static bool is_word(const struct insn *insn)
{
	return insn->class == INSN_LOAD || insn->class == INSN_COMPARE;
}

static bool is_alone(const struct insn *insn)
{
	return (is_word(insn) || insn->class == INSN_VECTOR_LOAD) && is_within(insn);
}

/* Threads that look at the backing mapping without the lock; and how often they were told to stop it. */
static atomic_uint waiting, waits_ended;

void fault_end_waits(void)
{
	atomic_fetch_add(&waits_ended, 1);
	while (atomic_load(&waiting))
		sr_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

/* Without the lock.  Has it changed before the stall timeout is at its end? */
static bool watch(const char *at, const struct insn *insn, uint64_t known, uint32_t stall_timeout,
		  unsigned int ended)
{
	for (uint32_t i = 0; i < stall_timeout && atomic_load(&waits_ended) == ended; i++) {
		if (word_load(at, insn->size) != known)
			return true;
		__builtin_ia32_pause();
	}
	return false;
}

/*
 * After a wait.  One that pays may be longer the next time, one in vain is to be shorter.  Who
 * spins, as it seems, may wait as long as coming back takes, which at worst doubles what the
 * fault costs: a task can leave all registers as they were.
 */
static uint32_t next_poll_wait(uint32_t stall_timeout, bool changed, bool spins)
{
	uint32_t back = exposed_self.probe.inside ? POLL_WAIT_JUMP : POLL_WAIT_FAULT, least = spins ? back : back / 4;

	if (changed)
		return stall_timeout * 2 < POLL_WAIT_MAX ? stall_timeout * 2 : POLL_WAIT_MAX;
	return stall_timeout / 2 > least ? stall_timeout / 2 : least;
}

/*
 * Delays a load that polls, a while, until it has something new to see.  The
 * lock is let go, since others must be able to go on; who takes the backing mapping away ends
 * the wait first.  True if the page's state may have changed.
 *
 * spins: it has done nothing but this load for a while, so that waiting, which is cheaper than
 * coming back, delays nothing else.
 */
static bool await_change(struct page *p, const struct insn *insn, bool spins)
{
	const char *at = backing_of(p, insn->address);
	uint64_t known = word_load(shadow_of(insn->address), insn->size);
	uint32_t stall_timeout = p->stall_timeout ? p->stall_timeout : POLL_WAIT_JUMP;
	unsigned int ended = atomic_load(&waits_ended);
	bool changed;

	if (word_load(at, insn->size) != known)
		return false;
	exposed_self.waits = true;
	atomic_fetch_add(&waiting, 1);
	exposed_unlock(NULL);
	changed = watch(at, insn, known, stall_timeout, ended);
	atomic_fetch_sub(&waiting, 1);
	exposed_lock(NULL);
	exposed_self.waits = false;
	if (p->state == PAGE_NONE)
		return true;
	p->stall_timeout = next_poll_wait(stall_timeout, changed, spins);
	return true;
}

/* The load done alone before, of any on this page? */
NO_VECTORS static bool is_poll(const struct page *p, uintptr_t pc, uintptr_t addr)
{
	return p->poll_at == addr && p->poll_pc == pc;
}

NO_VECTORS static void note_alone(struct page *p, uintptr_t pc, uintptr_t addr)
{
	p->poll_at = addr;
	p->poll_pc = pc;
}

NO_VECTORS static void note_polled(uint64_t traces)
{
	struct exposed_thread *t = &exposed_self;

	t->polled.traces = traces;
	t->polled.epoch = thread_epoch();
	t->polled.look = t->accesses_n;
}

static void read_registers(const ucontext_t *uc, uint64_t r[16])
{
	for (uint8_t i = 0; i < 16; i++)
		r[i] = (uint64_t)*decode_register((ucontext_t *)uc, i);
}

enum wait {
	NO_WAIT,
	WAIT,  /* the load done alone before, first after a call or with the same registers */
	SPINS, /* ... and nothing else was looked at in between */
};

/* What calls that have returned left behind below the stack pointer: so much of it, in the page that is mapped for sure. */
#define LEFT_BYTES 512
#define MIX 0x9e3779b97f4a7c15ull

/* Four sums side by side: one after the other, they were half of what a look takes. */
NO_VECTORS static uint64_t hash_words(const volatile uint64_t *p, const volatile uint64_t *end, uint64_t hash)
{
	uint64_t a = hash, b = 0, c = 0, d = 0;

	for (; end - p >= 4; p += 4) {
		a = a * 5 + p[0];
		b = b * 5 + p[1];
		c = c * 5 + p[2];
		d = d * 5 + p[3];
	}
	for (; p < end; p++)
		a = a * 5 + *p;
	return ((a * MIX + b) * MIX + c) * MIX + d;
}

/*
 * A hash of the registers and of that.  A task that is done with between two looks may leave the registers as they were:
 * its loop has its own in memory, and looks with the same ones each time.
 */
NO_VECTORS static uint64_t traces_of(const uint64_t r[16], uintptr_t pc)
{
	uint64_t hash = word_registers(r, pc);
	uintptr_t sp = r[REGISTER_SP] & ~(uintptr_t)7, begin = sp - LEFT_BYTES;
	const struct page *p = page_at(sp);

	if (p && p->state != PAGE_NONE)
		return hash;
	if (begin < (sp & PAGE_MASK))
		begin = sp & PAGE_MASK;
	return hash_words((const volatile uint64_t *)begin, (const volatile uint64_t *)sp, hash);
}

/*
 * Who comes back with other traces has done something in between, and has more to do: a
 * task, after which it looks for messages.
 */
static enum wait is_waiting(const ucontext_t *uc, const struct page *p, const struct insn *insn)
{
	struct exposed_thread *t = &exposed_self;
	uint64_t r[16], traces;
	enum wait wait = NO_WAIT;

	if (!is_poll(p, (uintptr_t)uc->uc_mcontext.gregs[REG_RIP], insn->address))
		return NO_WAIT;
	read_registers(uc, r);
	traces = traces_of(r, (uintptr_t)uc->uc_mcontext.gregs[REG_RIP]);
	if (t->polled.epoch != thread_epoch())
		wait = WAIT;
	else if (t->polled.traces == traces)
		wait = t->polled.look + 1 == t->accesses_n ? SPINS : WAIT;
	note_polled(traces);
	return wait;
}

/* now: what it brought. */
static void do_load(ucontext_t *uc, struct page *p, const struct insn *insn, char now[VECTOR_MAX])
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

static void load_alone(ucontext_t *uc, struct page *p, const struct insn *insn)
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

/* ------------------------------------------------------ over two pages */

static bool is_plain(const struct insn *insn)
{
	return is_word(insn) || insn->class == INSN_VECTOR_LOAD || insn->class == INSN_STORE ||
	       insn->class == INSN_VECTOR_STORE;
}

/* Of an operand, what is in the first page or in the second. */
struct part {
	struct page *exposed; /* NULL: none */
	char *at;            /* where it is, exposed region or not */
	uintptr_t addr;
	size_t n;
};

static void part_of(struct part *part, uintptr_t addr, size_t n)
{
	struct page *p = page_at(addr);

	part->exposed = p && p->state != PAGE_NONE ? p : NULL;
	part->at = part->exposed ? backing_of(p, addr) : (char *)addr;
	part->addr = addr;
	part->n = n;
}

static void parts_of(struct part parts[2], const struct insn *insn)
{
	size_t n = PAGE - insn->address % PAGE;

	part_of(&parts[0], insn->address, n);
	part_of(&parts[1], insn->address + n, insn->size - n);
}

static void load_parts(ucontext_t *uc, const struct insn *insn)
{
	struct part parts[2];
	char now[VECTOR_MAX];

	parts_of(parts, insn);
	for (int i = 0; i < 2; i++) {
		if (parts[i].exposed && !exposed_self.silent)
			validate_shadow(parts[i].addr & PAGE_MASK, parts[i].exposed);
		word_copy(now + (i ? parts[0].n : 0), parts[i].at, parts[i].n);
	}
	for (int i = 0; i < 2 && !exposed_self.silent; i++)
		if (parts[i].exposed)
			record_difference(parts[i].addr, now + (i ? parts[0].n : 0), parts[i].n, 0);
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
	struct part parts[2];
	char v[VECTOR_MAX], *from = v;

	if (insn->class != INSN_VECTOR_STORE)
		word_store(v, word_value(insn, *decode_register(uc, insn->reg)), insn->size);
	else if (!vector_get(uc, insn->reg, v, insn->size))
		return false;
	parts_of(parts, insn);
	for (int i = 0; i < 2; from += parts[i++].n) {
		if (parts[i].exposed)
			validate_shadow_before_store(parts[i].addr);
		word_copy(parts[i].at, from, parts[i].n);
		if (parts[i].exposed && parts[i].exposed->known && !exposed_self.silent)
			memcpy(shadow_of(parts[i].addr), from, parts[i].n);
		if (parts[i].exposed && hooks.stored)
			hooks.stored(parts[i].addr, from, (uint32_t)parts[i].n);
	}
	atomic_thread_fence(memory_order_seq_cst);
	uc->uc_mcontext.gregs[REG_RIP] += insn->length;
	counts.stores++;
	return true;
}

/* A common page is not opened for it. */
static bool do_parts(ucontext_t *uc, const struct insn *insn)
{
	if (insn->class == INSN_STORE || insn->class == INSN_VECTOR_STORE)
		return store_parts(uc, insn);
	load_parts(uc, insn);
	return true;
}

/* ---------------------------------------------------------------- frozen */

/* How often a page must hold still: others' looks in between must find it as it was copied. */
#define FREEZE_TRIES 16

static bool freeze(uintptr_t user, struct page *p, bool must)
{
	static char now[PAGE];
	bool stable = false;

	protect_pass_through();
	if (replay_flagged(SR_EXPOSED_ALONE))
		return false;
	for (int i = 0; i < FREEZE_TRIES && !stable; i++) {
		if (!snapshot(user, now))
			continue;
		validate();
		stable = is_as(now, backing_of(p, user), PAGE);
	}
	if (!stable) {
		if (!must)
			return false;
		counts.unstable++;
		/* The last copy, if no pass agreed with it, has not been: others may be older. */
		validate();
	}
	record_difference(user, now, PAGE, 0);
	p->known = true;
	page_show_snapshot(user);
	return true;
}

/* Pages frozen one next to the other, with no call in between, after which the next is frozen at
 * once. */
#define WALK_MIN 8

NO_VECTORS static bool is_walked(uintptr_t user)
{
	const struct exposed_thread *t = &exposed_self;

	return t->walk.epoch == thread_epoch() &&
	       (user == t->walk.last + PAGE || user == t->walk.last - PAGE);
}

NO_VECTORS static bool is_walk(uintptr_t user)
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

uint64_t registers_of(const ucontext_t *uc)
{
	uint64_t r[16];

	read_registers(uc, r);
	return word_registers(r, (uintptr_t)uc->uc_mcontext.gregs[REG_RIP]);
}

enum back {
	NOT_BACK,
	BACK,      /* this load has been done lately, with no call since */
	BACK_SAME, /* ... and all registers were what they are now */
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

/* A loop that waits must see each change; one that only computes has to go on. */
#define REPEATS_MAX 4096

static void fault_load(ucontext_t *uc, uintptr_t addr, struct page *p, const struct insn *insn)
{
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	bool alone = is_alone(insn);
	bool poll = alone && is_poll(p, pc, insn->address);
	/* Who comes back at once is not looked up: a jump's short way does not either (take_known). */
	enum back back = alone && !poll && !is_partial(p) ? comes_back(uc, pc, insn->address) : NOT_BACK;
	bool repeat = back == BACK_SAME || (back == BACK && p->repeats < REPEATS_MAX);
	bool walked = is_walk(addr & PAGE_MASK);
	bool common = is_partial(p);

	if (common && insn->class == INSN_OPERAND && is_within(insn) && exchange_begin(uc, insn)) {
		counts.loads++;
		validate();
		return;
	}
	if (alone && (common || (!walked && (poll || repeat || p->loads < LOADS_MAX)))) {
		if (poll)
			counts.polls++;
		else if (repeat)
			p->repeats += back == BACK;
		else if (!common)
			p->loads++;
		note_alone(p, pc, insn->address);
		load_alone(uc, p, insn);
		validate();
		return;
	}
	if (freeze(addr & PAGE_MASK, p, !alone)) {
		walk_goes_on(addr & PAGE_MASK);
		return;
	}
	event_flag(SR_EXPOSED_ALONE);
	load_alone(uc, p, insn);
	validate();
}

/* The counters of a page are of one epoch. */
NO_VECTORS static void renew(struct page *p)
{
	if (p->epoch == thread_epoch())
		return;
	p->epoch = thread_epoch();
	p->loads = 0;
	p->repeats = 0;
}

/* Polls by jump after which what is frozen is compared again. */
#define BLIND_MAX 64

/* Is it done alone, whatever came before, and is nobody to wait? */
NO_VECTORS static bool is_next(const struct page *p, uintptr_t pc, uintptr_t addr, uint64_t traces)
{
	const struct exposed_thread *t = &exposed_self;

	if (!is_poll(p, pc, addr))
		return is_partial(p);
	if (is_walk(addr & PAGE_MASK) && !is_partial(p))
		return false;
	return t->polled.epoch == thread_epoch() && t->polled.traces != traces;
}

/*
 * What handle() would do, where nothing comes of it: the value is what the program knows of this word, so that
 * it could have been read before, and what is frozen may stay as it is (for a while: who looks again
 * and again may be waiting for something there).
 */
NO_VECTORS static bool take_known(struct page *p, const struct insn *insn, uintptr_t pc, uintptr_t addr,
				  const uint64_t r[16], uint64_t *v)
{
	struct exposed_thread *t = &exposed_self;
	uint64_t traces;

	if (p->state != PAGE_PROTECTED || !p->known || (!p->users && !p->aliases) || t->silent ||
	    (is_partial(p) && is_unregistered(p, addr, insn->size)))
		return false;
	traces = traces_of(r, pc);
	if (!is_next(p, pc, addr, traces) || (open_n && t->blind++ % BLIND_MAX == 0))
		return false;
	*v = word_load(backing_of(p, addr), insn->size);
	if (*v != word_load(shadow_of(addr), insn->size))
		return false;
	renew(p);
	t->row = 0;
	t->fault++;
	note_access(addr, true);
	t->accesses_n++;
	note_polled(traces);
	counts.faults++;
	counts.by_jump++;
	counts.loads++;
	counts.polls += is_poll(p, pc, addr);
	note_alone(p, pc, addr);
	return true;
}

NO_VECTORS bool fault_known_at_probe(const struct insn *insn, uintptr_t pc, uintptr_t addr, const uint64_t r[16],
				    uint64_t *v)
{
	bool known;

	/* The shim's own code comes here as well, from libc's, and may have the lock. */
	if (!is_word(insn) || !exposed_try_lock())
		return false;
	known = take_known(page_at(addr), insn, pc, addr, r, v);
	exposed_release();
	return known;
}

/* ----------------------------------------------------------------- stores */

/* v: what it was. */
static bool do_store(ucontext_t *uc, struct page *p, const struct insn *insn, char v[VECTOR_MAX])
{
	char *to = backing_of(p, insn->address);

	if (insn->class == INSN_VECTOR_STORE) {
		if (!vector_get(uc, insn->reg, v, insn->size))
			return false;
		word_copy(to, v, insn->size);
	} else {
		word_store(v, word_value(insn, *decode_register(uc, insn->reg)), insn->size);
		word_store(to, word_load(v, insn->size), insn->size);
	}
	/* The program may have a fence behind its store, and then loads from a frozen page. */
	atomic_thread_fence(memory_order_seq_cst);
	uc->uc_mcontext.gregs[REG_RIP] += insn->length;
	return true;
}

static bool store_alone(ucontext_t *uc, struct page *p, const struct insn *insn)
{
	char v[VECTOR_MAX];

	if (!do_store(uc, p, insn, v))
		return false;
	if (p->known && !exposed_self.silent)
		memcpy(shadow_of(insn->address), v, insn->size);
	if (hooks.stored)
		hooks.stored(insn->address, v, insn->size);
	counts.stores++;
	return true;
}

/* A loop that fills a page does nothing else; one that looks at exposed regions in between is no such. */
static uint32_t stores_in_a_row(uintptr_t page)
{
	struct exposed_thread *t = &exposed_self;

	if (t->row_page != page || t->row_epoch != thread_epoch())
		t->row = 0;
	t->row_page = page;
	t->row_epoch = thread_epoch();
	return ++t->row;
}

/*
 * Not while another thread's call has the backing mapping where it is: the store comes again till
 * then, as often as that takes, and is counted when it is done.  False: it comes again.
 */
static bool pass_through(uintptr_t user)
{
	if (page_pass_through(user))
		return true;
	exposed_self.fault--;
	exposed_self.accesses -= SAME_PLACE;
	return false;
}

static void fault_store(ucontext_t *uc, uintptr_t addr, struct page *p, const struct insn *insn)
{
	bool common = is_partial(p);

	if (hooks.storing)
		hooks.storing();
	validate_shadow_before_store(addr);
	if ((common || stores_in_a_row(addr & PAGE_MASK) <= STORES_MAX) && is_within(insn)) {
		if ((insn->class == INSN_STORE || insn->class == INSN_VECTOR_STORE) &&
		    store_alone(uc, p, insn)) {
			validate();
			return;
		}
		if (insn->class == INSN_EXCHANGE && exchange_begin(uc, insn))
			return;
	}
	if (!pass_through(addr & PAGE_MASK) && !common)
		exposed_self.row--;
}

/* ---------------------------------------------------------------- strings */

static size_t to_page_end(uintptr_t addr)
{
	return PAGE - addr % PAGE;
}

/* How much of it is within one page, or two. */
static size_t piece_of(const ucontext_t *uc, const struct insn *insn)
{
	size_t n = (insn->repeat ? (size_t)uc->uc_mcontext.gregs[REG_RCX] : 1) * insn->size;
	uintptr_t apart = insn->address - insn->source;

	if (n > to_page_end(insn->address))
		n = to_page_end(insn->address);
	if (insn->source && n > to_page_end(insn->source))
		n = to_page_end(insn->source);
	/* What it writes it reads again: no more than the distance at a time. */
	if (insn->source && apart && apart < n)
		n = apart;
	return n - n % insn->size;
}

/* What the program may copy from there: looked at, if it is in an exposed region that is not live. */
static const char *source_of(const struct insn *insn, size_t n)
{
	struct page *p = page_at(insn->source);

	if (!p || p->state == PAGE_NONE || p->state == PAGE_PASS_THROUGH)
		return (const char *)insn->source;
	if (exposed_self.silent)
		return backing_of(p, insn->source);
	exposed_self.row = 0;
	sample(insn->source, n);
	return shadow_of(insn->source);
}

static void fill(char *to, uint64_t value, size_t n, unsigned int size)
{
	for (size_t i = 0; i < n; i += size)
		word_store(to + i, value, size);
}

static void do_piece(ucontext_t *uc, const struct insn *insn, size_t n)
{
	struct page *p = page_at(insn->address);
	bool exposed = p && p->state != PAGE_NONE;
	char *to = exposed ? backing_of(p, insn->address) : (char *)insn->address;

	if (exposed)
		validate_shadow_before_store(insn->address);
	if (insn->source)
		memmove(to, source_of(insn, n), n);
	else
		fill(to, (uint64_t)uc->uc_mcontext.gregs[REG_RAX], n, insn->size);
	atomic_thread_fence(memory_order_seq_cst);
	if (exposed && p->state != PAGE_PASS_THROUGH && p->known && !exposed_self.silent) {
		if (insn->source)
			memmove(shadow_of(insn->address), source_of(insn, n), n);
		else
			fill(shadow_of(insn->address), (uint64_t)uc->uc_mcontext.gregs[REG_RAX], n,
			     insn->size);
	}
	if (exposed && p->state != PAGE_PASS_THROUGH && hooks.stored)
		hooks.stored(insn->address, to, (uint32_t)n);
}

static void string_goes_on(greg_t *g, const struct insn *insn, size_t n)
{
	g[REG_RDI] += (greg_t)n;
	if (insn->source)
		g[REG_RSI] += (greg_t)n;
	if (insn->repeat)
		g[REG_RCX] -= (greg_t)(n / insn->size);
	if (!insn->repeat || !g[REG_RCX])
		g[REG_RIP] += insn->length;
}

/* False: an element lies across two pages. */
static bool fault_string(ucontext_t *uc, const struct insn *insn)
{
	greg_t *g = uc->uc_mcontext.gregs;
	size_t n = piece_of(uc, insn);

	if (!n)
		return false;
	if (hooks.storing && !exposed_self.silent)
		hooks.storing();
	do_piece(uc, insn, n);
	string_goes_on(g, insn, n);
	counts.stores++;
	if (!exposed_self.silent)
		validate();
	return true;
}

/* ------------------------------------------------------------------ entry */

/* Within a call: as it would be with the page open, and nobody learns of it. */
static bool do_silently(ucontext_t *uc, struct page *p, const struct insn *insn, bool write)
{
	if (insn->class == INSN_STRING)
		return fault_string(uc, insn);
	if (is_plain(insn) && !is_within(insn))
		return do_parts(uc, insn);
	if (insn->class == INSN_UNKNOWN || !is_within(insn))
		return false;
	if (insn->class == INSN_EXCHANGE || insn->class == INSN_OPERAND)
		return exchange_begin(uc, insn);
	if (write)
		return store_alone(uc, p, insn);
	load_alone(uc, p, insn);
	return true;
}

/* ------------------------------------------------ what no region has (pieces.c) */

/*
 * Nothing is learned, counted as a fault, or recorded: it is the program's own memory.  The
 * shadow has the program's bytes as well, since it may be what others see.
 */
static bool do_unregistered(ucontext_t *uc, struct page *p, const struct insn *insn)
{
	char v[VECTOR_MAX];

	if (is_word(insn) || insn->class == INSN_VECTOR_LOAD) {
		do_load(uc, p, insn, v);
		return true;
	}
	if (insn->class == INSN_STORE || insn->class == INSN_VECTOR_STORE) {
		if (!do_store(uc, p, insn, v))
			return false;
		memcpy(shadow_of(insn->address), v, insn->size);
		return true;
	}
	return (insn->class == INSN_OPERAND || insn->class == INSN_EXCHANGE) &&
	       exchange_unregistered(uc, insn);
}

static bool is_done_unregistered(ucontext_t *uc, struct page *p, const struct insn *insn)
{
	if (!is_within(insn) || !is_partial(p) || !is_unregistered(p, insn->address, insn->size) ||
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
	word_store(shadow_of(addr), value, insn->size);
}

NO_VECTORS bool fault_unregistered_at_probe(const struct insn *insn, uintptr_t addr, uint64_t registers[16],
				     uint64_t *flags)
{
	bool write = insn->class == INSN_STORE, done;
	struct page *p = page_at(addr);

	if (!is_word(insn) && !write)
		return false;
	if (exposed_self.silent || !exposed_try_lock())
		return false;
	done = fault_needs_handling(p, write) && is_partial(p) && is_unregistered(p, addr, insn->size);
	if (done) {
		do_unregistered_word(insn, addr, registers, flags);
		note_access(addr, !write);
	}
	exposed_release();
	return done;
}

/*
 * A page that another thread just gave back faults no more; a second time in a row it
 * is not ours, unless it may have become a exposed region's and been given back again.
 */
static bool may_try_again(uintptr_t addr, uintptr_t pc)
{
	struct exposed_thread *t = &exposed_self;
	uint64_t now = atomic_load(&pages_given_back);
	bool again = t->strange_at != addr || t->strange_pc != pc || t->strange_given_back != now;

	t->strange_at = again ? addr : 0;
	t->strange_pc = again ? pc : 0;
	t->strange_given_back = now;
	return again;
}

static bool reads_and_writes(const struct insn *insn, bool write)
{
	return write || insn->class == INSN_EXCHANGE;
}

/* Of an operand over two pages, the CPU reports the part that it may not touch. */
static bool lies_in(const struct insn *insn, const struct page *p)
{
	if (page_at(insn->address) == p)
		return true;
	return is_partial(p) && is_plain(insn) && page_at(insn->address + insn->size - 1) == p;
}

/* --------------------------------------------------------- kept for their owner */

/*
 * Another thread has seen that it changed, and may have told this one: without a call,
 * which this one need not make.  So it is looked at anew, where a replay has no fault.
 */
static void refresh(uintptr_t user, const ucontext_t *uc)
{
	static char now[PAGE];

	event_begin(exposed_self.fault, SR_EXPOSED_TICK | SR_EXPOSED_REFRESHED,
		    (uintptr_t)uc->uc_mcontext.gregs[REG_RIP], 0);
	if (!snapshot(user, now))
		counts.unstable++;
	record_difference(user, now, PAGE, SR_EXPOSED_ASYNC);
	page_renew_snapshot(user);
	keep_changed();
	event_end();
}

/* Not counted.  False: as if it were closed. */
static bool go_on_kept(ucontext_t *uc, const struct page *p, uintptr_t user, bool write)
{
	if (p->state == PAGE_KEPT_PASS_THROUGH)
		page_reopen(user); /* or it comes again */
	else if (!write)
		refresh(user, uc);
	else
		return false;
	return true;
}

static void handle(ucontext_t *uc, uintptr_t addr, bool write)
{
	struct page *p = page_at(addr);
	enum wait wait;
	struct insn insn;

	if (!fault_needs_handling(p, write))
		return;
	if (exposed_self.silent && !is_shared(p)) {
		page_open_silently(addr & PAGE_MASK);
		return;
	}
	decode(code_at((uintptr_t)uc->uc_mcontext.gregs[REG_RIP]), uc, &insn);
	if (insn.class != INSN_UNKNOWN && insn.class != INSN_STRING && !lies_in(&insn, p))
		insn.class = INSN_UNKNOWN;
	if (insn.class == INSN_OPERAND && write)
		insn.class = INSN_UNKNOWN;
	if (exposed_self.silent) {
		if (!do_silently(uc, p, &insn, write))
			page_open_silently(addr & PAGE_MASK);
		return;
	}
	if (is_within(&insn))
		probes_count(uc, &insn);
	if (is_done_unregistered(uc, p, &insn))
		return;
	if (is_kept(p) && is_mine(p) && go_on_kept(uc, p, addr & PAGE_MASK, reads_and_writes(&insn, write)))
		return;
	renew(p);
	exposed_self.accesses_n++;
	counts.faults++;
	counts.by_jump += exposed_self.by_jump;
	write = reads_and_writes(&insn, write);
	if (!hooks.recorded && !write && is_word(&insn) && is_within(&insn) && p->known &&
	    (wait = is_waiting(uc, p, &insn)) != NO_WAIT &&
	    await_change(p, &insn, wait == SPINS) && !fault_needs_handling(p, write))
		return;
	event_begin(++exposed_self.fault, 0, (uintptr_t)uc->uc_mcontext.gregs[REG_RIP],
		    addr & PAGE_MASK);
	replay_values();
	/* A store to a snapshot leaves it what it is. */
	if (is_kept(p) && !(write && is_mine(p)))
		page_protect(addr & PAGE_MASK);
	if (!p->users && !p->aliases) {
		/* Of a region that is gone: the last look. */
		sample(addr & PAGE_MASK, PAGE);
		page_release(addr & PAGE_MASK);
		validate();
	} else if (insn.class == INSN_STRING && fault_string(uc, &insn)) {
		;
	} else if (is_partial(p) && is_plain(&insn) && !is_within(&insn)) {
		if (write && hooks.storing)
			hooks.storing();
		if (!do_parts(uc, &insn))
			pass_through(addr & PAGE_MASK);
		validate();
	} else if (write) {
		fault_store(uc, addr, p, &insn);
	} else {
		fault_load(uc, addr, p, &insn);
	}
	note_access(is_within(&insn) ? insn.address : addr & PAGE_MASK, is_word(&insn));
	replay_protected();
	event_end();
}

void fault_at_probe(ucontext_t *uc, uintptr_t addr, bool write)
{
	exposed_lock(NULL);
	exposed_self.by_jump = true;
	handle(uc, addr, write);
	exposed_self.by_jump = false;
	exposed_unlock(NULL);
}

static bool fault(siginfo_t *info, ucontext_t *uc)
{
	uintptr_t addr = (uintptr_t)info->si_addr;
	struct page *p;
	bool ours;

	if (tick_is(info)) {
		tick(uc);
		return true;
	}
	if (exchange_ended(uc)) {
		exposed_lock(NULL);
		event_begin(exposed_self.fault, 0, (uintptr_t)uc->uc_mcontext.gregs[REG_RIP], 0);
		exchange_commit(uc);
		if (!exchange_is_unseen())
			validate();
		event_end();
		exposed_unlock(NULL);
		return true;
	}
	p = info->si_code > 0 ? page_at(addr) : NULL;
	if (!p)
		return false;
	exposed_lock(NULL);
	ours = p->state != PAGE_NONE;
	if (ours)
		handle(uc, addr, uc->uc_mcontext.gregs[REG_ERR] & ERR_WRITE);
	exposed_unlock(NULL);
	return ours || may_try_again(addr, (uintptr_t)uc->uc_mcontext.gregs[REG_RIP]);
}

bool sr_exposed_fault(siginfo_t *info, ucontext_t *uc)
{
	struct probes_guard guard;
	bool done;

	probes_guard_begin(&guard);
	done = info->si_code == SI_KERNEL && probes_trapped(uc);
	if (!done) {
		probes_make_stack();
		probes_enter(uc);
		done = fault(info, uc);
		if (done)
			probes_leave(uc);
	}
	probes_guard_end(&guard);
	return done;
}
