/* SPDX-License-Identifier: BSD-2-Clause */
/* probes.c: which instructions become probes. */
#include "shim/exposed/probe/made_code.h"
#include "shim/exposed/probe/probe.h"
#include "shim/exposed/probe/probes.h"

#include <cpuid.h>
#include <string.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/x86/word.h"

/* Faults of an instruction before it becomes a probe. */
#define FAULTS_MIN 16
/* They are doubled each time that its jump was given up, at most so often. */
#define AGAIN_MAX 8

#ifndef ARCH_SHSTK_STATUS
#define ARCH_SHSTK_STATUS 0x5005
#endif
#define STACK_BYTES (64ul << 10)

static bool possible; /* it was asked for, and the processor is suited */
bool probes_stopped;
const struct probe_handlers *probe_handlers;

bool probes_are_wanted(void)
{
	return possible && !probes_stopped;
}

static bool is_worth_it(const struct insn *insn)
{
	/* How much it stores is in a register that the stub does not look at. */
	if (insn->mask)
		return false;
	if (insn->class == INSN_LOAD)
		return insn->reg != REGISTER_SP || insn->high; /* the stub does not write rsp back */
	if (insn->class == INSN_OPERAND)
		return insn->always || insn->signals;
	if (insn->class == INSN_EXCHANGE)
		return !decode_names_sp(insn) && !encoding_chooses_bit(&insn->encoding) && !encoding_pops(&insn->encoding);
	return insn->class == INSN_COMPARE || insn->class == INSN_STORE || is_transfer(insn) || is_vector_move(insn);
}

static struct group group_of_one(uint8_t length)
{
	return (struct group){.n = 1, .length = length, .at = {0, length}};
}

/* A store around the caches would take the operand out of them: movntps becomes movaps, and movntdq movdqa. */
static void store_into_cache(uint8_t *opcode)
{
	*opcode = *opcode == 0x2b ? 0x29 : *opcode == 0xe7 ? 0x7f : *opcode;
}

/*
 * Puts the instruction behind the copies, with what the handler has read as its operand.  How many bytes it takes; 0:
 * it would be too long.  See struct probe, `aside`.
 */
static size_t put_aside(struct probe *s, uint8_t *at)
{
	size_t n = relocate_operand(at, s->code, &s->insn.encoding, PREFIX_FS, distance_from_fs(exposed_self.probe.operand));

	if (!n)
		return 0;
	s->aside = (uintptr_t)at;
	if (s->insn.class == INSN_VECTOR_STORE)
		store_into_cache(at + s->insn.encoding.modrm_at); /* behind the segment's prefix */
	if (s->insn.class == INSN_EXCHANGE || s->insn.class == INSN_VECTOR_STORE) {
		at[n] = OPCODE_RET;
		return n + 1;
	}
	put_jump(at + n, (uintptr_t)at + n, copy_of(s, 1));
	return n + JUMP_BYTES;
}

/* Of vectors it only saves time. */
static bool has_aside(const struct insn *insn)
{
	return insn->class == INSN_OPERAND || insn->class == INSN_EXCHANGE || is_vector_move(insn);
}

/* Writes stub and copies.  How many bytes the copies have; 0: they cannot be made, or the stub is too far. */
static size_t write_stub(struct probe *s, uint8_t *stub)
{
	uint8_t *copies = put_stub(stub, (uint32_t)(s - probes));
	size_t n = relocate(s->code, s->pc, &s->group, copies, &s->copy, s->back), aside;

	s->copies = (uintptr_t)copies;
	s->aside = 0;
	if (n && has_aside(&s->insn)) {
		aside = put_aside(s, copies + n);
		n = aside || is_vector_move(&s->insn) ? n + aside : 0;
	}
	return (s->springboard.at ? springboard_put(s, (uintptr_t)stub) : put_jump(s->jump, s->at, (uintptr_t)stub)) ? n : 0;
}

bool probe_finish_stub(struct probe *s, uintptr_t pages, size_t copies)
{
	if (!copies || sr_syscall(SYS_mprotect, (long)pages, 2 * PAGE, PROT_READ | PROT_EXEC, 0, 0, 0)) {
		s->stub = 0;
		sr_sys_munmap((void *)pages, 2 * PAGE);
		return false;
	}
	s->end = s->copies + copies;
	probe_note_stub(s);
	return true;
}

static bool take_operand(struct probe *s)
{
	return encoding_operand(s->code, s->pc, &s->insn.encoding, &s->operand);
}

static bool make_stub(struct probe *s)
{
	uint8_t *stub = place_stub(s);
	uintptr_t pages = (uintptr_t)stub & PAGE_MASK;
	size_t n;

	if (!stub)
		return false;
	n = write_stub(s, stub);
	s->stub = (uintptr_t)stub;
	return probe_finish_stub(s, pages, n);
}

/*
 * The instruction may lie under another probe's jump, since the words of a message are read one after the other.  Then its
 * copy, which that jump leads to, gets a jump of its own.
 */
static bool take_copy(struct probe *s, const struct probe *over, unsigned int k)
{
	s->group = group_of_one((uint8_t)(over->group.at[k + 1] - over->group.at[k]));
	s->at = copy_of(over, k);
	s->back = copy_of(over, k + 1);
	memcpy(s->code, over->code + over->group.at[k], CODE_MAX);
	memcpy(s->was, gap, sizeof(s->was));
	return take_operand(s) && make_stub(s);
}

/* The jump lies over as many instructions as it needs, or is punned.  The bytes there must be the file's. */
static bool take_text(struct probe *s, bool punned)
{
	size_t n;

	s->punned = punned;
	if (punned)
		s->group = group_of_one(s->insn.length);
	n = punned ? JUMP_BYTES : s->group.length;
	s->at = s->pc;
	s->back = s->pc + s->group.length;
	memcpy(s->was, s->code, sizeof(s->was));
	return !memcmp(s->code, (const void *)s->pc, n) && take_operand(s) && make_stub(s);
}

/* The jump has two bytes, which any instruction with an operand in memory has, and leads to a nop nearby. */
static bool take_springboard(struct probe *s, const struct text *t)
{
	s->punned = false;
	s->group = group_of_one(s->insn.length);
	s->back = s->pc + s->group.length;
	memcpy(s->was, s->code, sizeof(s->was));
	if (!memcmp(s->code, (const void *)s->pc, s->group.length) && !has_jump_within(s->at, s->at + SHORT_JUMP_BYTES, s) &&
	    springboard_find(s, t) && take_operand(s) && make_stub(s))
		return true;
	s->springboard.at = 0;
	return false;
}

static bool can_be_punned(const struct probe *s)
{
	return s->insn.length < JUMP_BYTES && can_be_shared(s->code, s->insn.length) && !overlaps_another(s);
}

/*
 * Takes the bytes from the file, or those that the program has made.  A file's code that was changed is left alone; so is code
 * that the program could change without a call, or may not only execute.
 *
 * A jump over several instructions leaves another one free to be punned, or to have a jump in its copy.  But where
 * branches lead to one of them they would trap.  A springboard takes two jumps, and is the last that never traps; but nops in
 * made code may be there to be written over.
 */
static bool take_code(struct probe *s)
{
	const struct group own = group_of_one(s->insn.length);
	struct group g;
	struct text t;
	bool wide;

	if (!text_at(s->pc, &t) || !t.is_text || t.end - s->pc < sizeof(s->code) || is_shared_by_another(s))
		return false;
	memcpy(s->code, t.file + (s->pc - t.begin), sizeof(s->code));
	s->at = s->pc;
	if (t.is_made && !made_code_can_be_copied(s->code, &own))
		return false;
	wide = !s->punned && group_of(s->code, s->pc, &g) && (!t.is_made || made_code_can_be_copied(s->code, &g));
	if (wide && !is_branched_into_nearby(t.file, t.end - t.begin, s->pc - t.begin, &g)) {
		s->group = g;
		if (take_text(s, false))
			return true;
	}
	if (can_be_punned(s) && take_text(s, true))
		return true;
	if (!t.is_made && take_springboard(s, &t))
		return true;
	s->group = g;
	return wide && take_text(s, false);
}

static void patch(struct probe *s, const struct insn *insn)
{
	const struct probe *over;
	unsigned int k;

	s->stores = insn->class == INSN_STORE || insn->class == INSN_VECTOR_STORE || insn->class == INSN_EXCHANGE;
	s->insn = *insn;
	over = probe_over(s->pc, &k);
	if (!(over ? take_copy(s, over, k) : take_code(s)))
		return;
	s->state = PROBE_CHANGING;
	atomic_fetch_add_explicit(&patched_n, 1, memory_order_release);
	/* From here on other threads come to the stub. */
	s->state = (!s->springboard.at || springboard_write(s)) && write_code(s, s->jump) ? PROBE_PATCHED : PROBE_REFUSED;
	counts.jumps += s->state == PROBE_PATCHED;
}

/* So many bytes of the code its jump was made for. */
static unsigned int bytes_of(const struct probe *s)
{
	return s->punned ? JUMP_BYTES : s->group.length;
}

/* The stub and the copies are still there. */
static void patch_again(struct probe *s)
{
	struct text t;

	if (s->counter || s->breaks || s->at != s->pc || overlaps_another(s) || is_shared_by_another(s))
		return;
	if (!text_at(s->pc, &t) || !t.is_text || t.end - s->pc < sizeof(s->code) ||
	    memcmp(s->code, (const void *)s->pc, bytes_of(s)) ||
	    (s->springboard.at && !springboard_is_there(s)))
		return;
	s->entered = s->served = 0;
	s->state = PROBE_CHANGING;
	s->state = write_code(s, s->jump) ? PROBE_PATCHED : PROBE_GIVEN_UP;
}

/* The C library chooses it before the program starts. */
bool has_shadow_stack(void)
{
	static enum { UNKNOWN, NO, YES } has;
	uint64_t features = 0;

	if (has == UNKNOWN)
		has = !sr_syscall(SYS_arch_prctl, ARCH_SHSTK_STATUS, SR_ARG(&features), 0, 0, 0, 0) && features ? YES : NO;
	return has == YES;
}

/* entry.c relies on where xsave puts what it saves, which is the same on every processor of today.  Others have no probes. */
bool probes_are_possible(void)
{
	uint32_t a, b, c, d;

	/* The copy of a call pushes the original's return address. */
	if (has_shadow_stack())
		return false;
	__cpuid(1, a, b, c, d);
	if (!(c & bit_OSXSAVE))
		return false;
	for (uint32_t component = 2; component < 8; component++) {
		if (!(XSAVE_COMPONENTS >> component & 1))
			continue;
		__cpuid_count(13, component, a, b, c, d);
		if (a + b > XSAVE_BYTES)
			return false;
	}
	return true;
}

void probes_init(const struct probe_handlers *h)
{
	probe_handlers = h;
	possible = hooks.patches && probes_are_possible();
}

/* --------------------------------------------------- instructions that fault */

/* Those without a jump.  Two at one place push each other out; the one that faults more often stays. */
#define COUNTED 4096

static struct counted {
	uint64_t pc : 48, faults : 16; /* few bytes, since the library's image must be small (tests/unit/shim/image.py) */
} counted[COUNTED];

_Static_assert((FAULTS_MIN << AGAIN_MAX) < 1 << 16, "they can be counted");

static struct counted *counted_at(uintptr_t pc)
{
	return &counted[pc * 0x9e3779b97f4a7c15ull >> 40 & (COUNTED - 1)];
}

static uint32_t count_fault(uintptr_t pc)
{
	struct counted *c = counted_at(pc);

	if (c->pc != pc && c->faults > 1) {
		c->faults--;
		return 0;
	}
	if (c->pc != pc)
		*c = (struct counted){.pc = pc};
	return ++c->faults;
}

/*
 * A jump that was in the way of other accesses is worth it again once the instruction faults.  It may be in the way
 * again, so each time more faults must come before.
 */
static uint32_t faults_before(const struct probe *s)
{
	uint32_t times = !s ? 0 : s->given_up < AGAIN_MAX ? s->given_up : AGAIN_MAX;

	return (uint32_t)FAULTS_MIN << times;
}

static void make_probe(uintptr_t pc, const struct insn *insn, bool punned)
{
	struct probe *s = probe_next();

	if (!s)
		return;
	*s = (struct probe){.pc = pc, .state = PROBE_REFUSED, .punned = punned};
	probe_add(s);
	patch(s, insn);
}

/* Has the program made other code where that of the probe was? */
static bool is_made_anew(const struct probe *s)
{
	struct text t;

	return s->at == s->pc && text_at(s->pc, &t) && t.is_made && !begins_with(s->pc, s->code, bytes_of(s));
}

/*
 * s: the last probe that was made for the instruction, or NULL.  If many came to the middle of its jump, the next one
 * must be punned.
 */
static void try_probe(uintptr_t pc, const struct insn *insn, struct probe *s)
{
	if (s && is_made_anew(s))
		make_probe(pc, insn, false);
	else if (!s || (probe_has_trapped(s) && !s->punned))
		make_probe(pc, insn, s);
	else if (!probe_has_trapped(s))
		patch_again(s);
}

void probes_count(const ucontext_t *uc, const struct insn *insn)
{
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	struct probe *s;

	if (!probes_are_wanted() || exposed_self.probe.inside || !is_worth_it(insn))
		return;
	s = probe_at(pc);
	if ((s && s->state != PROBE_GIVEN_UP) || count_fault(pc) < faults_before(s))
		return;
	counted_at(pc)->faults = 0;
	try_probe(pc, insn, s);
}
