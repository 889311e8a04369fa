/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * table.c: the table of probes; where a thread is that has come to one.
 *
 * Each fault asks several times, so probes are found by hashes: of the instruction, and of the pages of the stub.  They
 * are read without the lock; an entry is whole before it is linked, and stays.
 */
#include <stdatomic.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/probe/probe.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/probe/write.h"

/* A thread that comes to the middle of a jump pays a fault for it, and may do so again and again. */
#define TRAPS_MAX 64

struct probe *probes;
uint32_t probes_n;
_Atomic uint32_t patched_n;
/* All stubs are in this range: most addresses are not. */
static uintptr_t stubs_begin = UINTPTR_MAX, stubs_end;

/* Number + 1 of the last probe with this hash; 0: none. */
#define HASHES (2 * PROBES_MAX)
static _Atomic uint16_t by_pc[HASHES], by_page[HASHES];
static uint16_t next_by_pc[PROBES_MAX], next_by_page[PROBES_MAX];

_Static_assert(PROBES_MAX < UINT16_MAX, "numbers fit");

/* Of an instruction's address, or of the number of a stub's page. */
static unsigned int hash(uintptr_t of)
{
	return of * 0x9e3779b97f4a7c15ull >> 40 & (HASHES - 1);
}

static void link_probe(_Atomic uint16_t *first, uint16_t *next, const struct probe *s)
{
	next[s - probes] = atomic_load_explicit(first, memory_order_relaxed);
	atomic_store_explicit(first, (uint16_t)(s - probes + 1), memory_order_release);
}

/* Mapped when it is needed, since the library's image must be small (tests/unit/shim/image.py). */
static bool has_table(void)
{
	void *p;

	if (probes)
		return true;
	p = sr_sys_mmap((void *)PROBES_BASE, PROBES_MAX * sizeof(*probes), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (sr_sys_is_error(p))
		return false;
	probes = p;
	return true;
}

struct probe *probe_next(void)
{
	return probes_n < PROBES_MAX && has_table() ? &probes[probes_n] : NULL;
}

void probe_add(const struct probe *s)
{
	link_probe(&by_pc[hash(s->pc)], next_by_pc, s);
	probes_n++;
}

static struct probe *first_at(uintptr_t pc)
{
	uint16_t n = atomic_load_explicit(&by_pc[hash(pc)], memory_order_acquire);

	while (n && probes[n - 1].pc != pc)
		n = next_by_pc[n - 1];
	return n ? &probes[n - 1] : NULL;
}

/* The one that was made before s, for the same instruction. */
static struct probe *next_at(const struct probe *s)
{
	uint16_t n = next_by_pc[s - probes];

	while (n && probes[n - 1].pc != s->pc)
		n = next_by_pc[n - 1];
	return n ? &probes[n - 1] : NULL;
}

struct probe *probe_at(uintptr_t pc)
{
	return first_at(pc);
}

/* Has another probe a jump at pc, which has a byte at or behind `reaches`? */
static bool has_other_jump(uintptr_t pc, const struct probe *than, bool punned, uintptr_t reaches)
{
	for (const struct probe *p = first_at(pc); p; p = next_at(p))
		if (p != than && p->at == pc && (p->punned || !punned) && pc + jump_bytes(p) > reaches &&
		    (p->state == PROBE_PATCHED || p->state == PROBE_CHANGING))
			return true;
	return false;
}

bool has_jump_within(uintptr_t begin, uintptr_t end, const struct probe *than)
{
	for (uintptr_t pc = begin - (JUMP_BYTES - 1); pc < end; pc++)
		if (has_other_jump(pc, than, false, begin))
			return true;
	return false;
}

static bool is_over(const struct probe *s, uintptr_t begin, uintptr_t end)
{
	return s->pc < end && s->pc + s->group.length > begin && s->state == PROBE_PATCHED && !s->breaks && !s->counter;
}

void give_up_within(uintptr_t begin, uintptr_t end)
{
	for (uintptr_t pc = begin - (GROUP_BYTES_MAX - 1); pc < end; pc++)
		for (struct probe *s = first_at(pc); s; s = next_at(s))
			if (is_over(s, begin, end))
				give_up(s);
}

bool overlaps_another(const struct probe *s)
{
	uintptr_t end = s->at + jump_bytes(s);

	return has_jump_within(s->at, end, s) || springboard_overlaps(s->at, end);
}

bool is_shared_by_another(const struct probe *s)
{
	for (uintptr_t pc = s->pc - (JUMP_BYTES - 1); pc <= s->pc; pc++)
		if (has_other_jump(pc, s, true, s->pc))
			return true;
	return false;
}

static struct probe *of_stub_from(uintptr_t page, uintptr_t at)
{
	uint16_t n = atomic_load_explicit(&by_page[hash(page)], memory_order_acquire);

	for (; n; n = next_by_page[n - 1]) {
		struct probe *s = &probes[n - 1];

		if (s->stub && at >= s->stub && at < s->end)
			return s;
	}
	return NULL;
}

/* A stub has two pages of its own. */
struct probe *probe_of_stub(uintptr_t at)
{
	struct probe *s;

	if (at < stubs_begin || at >= stubs_end)
		return NULL;
	s = of_stub_from(at / PAGE, at);
	return s ? s : of_stub_from(at / PAGE - 1, at);
}

void probe_note_stub(const struct probe *s)
{
	if (s->stub < stubs_begin)
		stubs_begin = s->stub;
	if (s->end > stubs_end)
		stubs_end = s->end;
	link_probe(&by_page[hash(s->stub / PAGE)], next_by_page, s);
}

/* Not libc's memcmp(): a thread that is in the middle of a jump in there would meet that jump again. */
bool begins_with(uintptr_t pc, const uint8_t *bytes, unsigned int n)
{
	const volatile uint8_t *code = (const volatile uint8_t *)pc;

	for (unsigned int i = 0; i < n; i++)
		if (code[i] != bytes[i])
			return false;
	return true;
}

bool probe_has_jump(const struct probe *s)
{
	return s->state == PROBE_PATCHED && begins_with(s->at, s->jump, jump_bytes(s));
}

void probes_originals(uintptr_t from, uint8_t *code, size_t n)
{
	springboard_originals(from, code, n);
	for (const struct probe *s = probes; s < probes + probes_n; s++) {
		if (s->at != s->pc || s->state != PROBE_PATCHED)
			continue;
		for (unsigned int i = 0; i < jump_bytes(s); i++)
			if (s->at + i - from < n && code[s->at + i - from] == s->jump[i])
				code[s->at + i - from] = s->code[i];
	}
}

/* The bytes there are not the original ones, or will not be in a moment. */
static bool is_changed(const struct probe *s)
{
	return s->state == PROBE_CHANGING || probe_has_jump(s);
}

unsigned int under_begin(const struct group *g, uintptr_t at)
{
	for (unsigned int i = 1; i < g->n; i++)
		if (at == g->at[i])
			return i;
	return 0;
}

static unsigned int under_jump(const struct probe *s, uintptr_t pc)
{
	return under_begin(&s->group, pc - s->pc);
}

/*
 * The first probe, from the instruction at pc backwards, under whose jump that one begins, or which is for that one
 * itself: has() says whether it will do.  k: which instruction of its group it is.
 */
static struct probe *find_near(uintptr_t pc, unsigned int *k, bool (*has)(const struct probe *s, unsigned int k))
{
	for (unsigned int i = 0; i < JUMP_BYTES; i++)
		for (struct probe *s = first_at(pc - i); s; s = next_at(s)) {
			*k = under_jump(s, pc);
			if ((*k || !i) && has(s, *k))
				return s;
		}
	return NULL;
}

static bool has_gap(const struct probe *s, unsigned int k)
{
	return k && s->copy.gaps >> k & 1 && probe_has_jump(s);
}

struct probe *probe_over(uintptr_t pc, unsigned int *k)
{
	return find_near(pc, k, has_gap);
}

/* Are the bytes of its k-th instruction not the original ones? */
static bool has_changed_code(const struct probe *s, unsigned int k)
{
	return (k || s->at == s->pc) && is_changed(s);
}

static const uint8_t *original_code(uintptr_t pc)
{
	const struct probe *s;
	unsigned int k;

	if (!atomic_load_explicit(&patched_n, memory_order_acquire))
		return NULL;
	if (exposed_self.probe.inside && exposed_self.probe.current->pc == pc)
		return exposed_self.probe.current->code;
	s = find_near(pc, &k, has_changed_code);
	return s ? s->code + (pc - s->pc) : NULL;
}

const uint8_t *probes_code_at(uintptr_t pc)
{
	const uint8_t *original = original_code(pc);

	return original ? original : code_at(pc);
}

uintptr_t copy_of(const struct probe *s, unsigned int i)
{
	return s->copies + s->copy.at[i];
}

int copy_at(const struct probe *s, uintptr_t at)
{
	for (unsigned int i = 0; i <= s->group.n; i++)
		if (at == copy_of(s, i) || at == s->copies + copy_behind_gap(&s->copy, i))
			return (int)i;
	return -1;
}

void probes_enter(ucontext_t *uc)
{
	uintptr_t at = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	const struct probe *s, *sprung;
	int i;

	if (!atomic_load_explicit(&patched_n, memory_order_acquire))
		return;
	s = probe_of_stub(at);
	i = s ? copy_at(s, at) : -1;
	sprung = s ? NULL : springboard_probe(at);
	if (i >= 0)
		uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(s->pc + s->group.at[i]);
	else if (sprung)
		uc->uc_mcontext.gregs[REG_RIP] = (greg_t)sprung->pc;
}

static bool is_under_changed(const struct probe *s, unsigned int k)
{
	return k && is_changed(s);
}

/* At the first instruction the jump itself leads on, except at the moment when it is written. */
void probes_leave(ucontext_t *uc)
{
	uintptr_t at = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	const struct probe *s;
	unsigned int k;

	if (!atomic_load_explicit(&patched_n, memory_order_acquire))
		return;
	s = find_near(at, &k, is_under_changed);
	if (s)
		uc->uc_mcontext.gregs[REG_RIP] = (greg_t)copy_of(s, k);
}

/* The jump may have been taken back meanwhile; but what is mapped there now must be what it was made of. */
static bool has_copies_of(const struct probe *s)
{
	return s->stub && (is_changed(s) || begins_with(s->at, s->was, jump_bytes(s)));
}

/*
 * The shim's own code may come here as well, in libc's functions, with this lock held, or with one that the holder of
 * this lock waits for.  Then it is done the next time.
 */
bool try_to_give_up(struct probe *s)
{
	if (!exposed_try_lock())
		return false;
	give_up(s);
	exposed_unlock(NULL);
	return true;
}

bool probe_has_trapped(const struct probe *s)
{
	return s->traps >= TRAPS_MAX;
}

static void count_trap(struct probe *s)
{
	/* What is served by the jump would have been a fault, which costs as much as a trap. */
	s->traps++;
	if (!s->breaks && probe_has_trapped(s) && s->traps > s->served / 2 && s->state == PROBE_PATCHED)
		try_to_give_up(s);
}

bool probes_trapped(ucontext_t *uc)
{
	uintptr_t at = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];

	if (!atomic_load_explicit(&patched_n, memory_order_acquire))
		return false;
	for (uint32_t i = 0; i < probes_n; i++) {
		struct probe *s = &probes[i];
		unsigned int k = under_jump(s, at);

		if (springboard_trapped(s, at)) {
			uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(at + s->springboard.length);
			return true;
		}
		if ((k || at == s->at) && has_copies_of(s)) {
			uc->uc_mcontext.gregs[REG_RIP] = (greg_t)copy_of(s, k);
			count_trap(s);
			return true;
		}
	}
	return false;
}
