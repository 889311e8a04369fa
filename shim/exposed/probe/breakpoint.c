/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/probe/breakpoint.h"

#include <string.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/probe/made_code.h"
#include "shim/exposed/probe/probe.h"
#include "shim/exposed/probe/probes.h"

bool breakpoints_on;
static const struct breakpoint_handlers *handlers;
static void (*interrupt)(ucontext_t *uc);

/* In the frame of a signal, as xsave leaves it. */
#define VECTORS_AT 160

bool breakpoint_is_here(uintptr_t pc, const uint64_t r[16])
{
	return handlers->is_here(pc, r);
}

/* Faults.  A stub leads there when it has given the registers back, and so to a handler that the program's context belongs to. */
extern const uint8_t sr_breakpoint_fault[] SR_HIDDEN;

__asm__(".text\n"
	".globl sr_breakpoint_fault\n"
	".hidden sr_breakpoint_fault\n"
	"sr_breakpoint_fault:\n"
	"	hlt\n");

static void interrupt_before(uintptr_t code)
{
	exposed_self.probe.interrupted = code;
	exposed_self.probe.resume = (uintptr_t)sr_breakpoint_fault;
}

void breakpoint_stop(const struct probe *s, const uint64_t r[16], const char *vectors)
{
	if (handlers->stop(s->pc, r, vectors + VECTORS_AT))
		interrupt_before(s->copies);
}

void breakpoint_lost(const struct probe *s)
{
	if (handlers && handlers->lost)
		handlers->lost(s->pc, s->jump[0] != PROBE_TRAP, s->told_by);
}

void breakpoint_interrupt_at_probe(void)
{
	exposed_self.probe.interrupts = interrupt != NULL;
}

void probe_interrupt(uintptr_t before)
{
	exposed_self.probe.interrupts = false;
	interrupt_before(before);
}

bool breakpoints_start(const struct breakpoint_handlers *h)
{
	handlers = h;
	breakpoints_on = probes_are_possible();
	return breakpoints_on;
}

void breakpoints_interrupt_by(void (*by)(ucontext_t *uc))
{
	interrupt = by;
}

/* ------------------------------------------------------------------ what is possible */

static bool is_of_vectors(const struct encoding *e)
{
	return e->op.class == INSN_VECTOR_LOAD || e->op.class == INSN_VECTOR_STORE || (e->op.class == INSN_OPERAND && e->map);
}

static bool is_single(const uint8_t *code, struct group *g)
{
	struct encoding e;

	/* Of an instruction of vectors, what repeats a string is a part of the opcode. */
	if (!encoding_of(code, &e) || e.op.form == FORM_UNKNOWN || (e.repeat && !is_of_vectors(&e)) || (e.prefixed && e.op.form >= FORM_BRANCH))
		return false;
	*g = (struct group){.n = 1, .length = e.length, .at = {0, e.length}};
	return true;
}

static bool is_jumpable(const struct text *t, uintptr_t pc, struct group *g)
{
	return group_of(t->file + (pc - t->begin), pc, g) && t->end - pc >= g->length &&
	       !is_branched_into(t->file, t->end - t->begin, pc - t->begin, g) && place_is_possible(pc, g);
}

static bool is_original(const struct text *t, uintptr_t pc, size_t n)
{
	return t->end - pc >= n && !memcmp(t->file + (pc - t->begin), (const void *)pc, n);
}

/* Is it in memory as it is known? */
static bool is_to_be_copied(const struct text *t, uintptr_t pc, const struct group *g)
{
	return is_original(t, pc, g->length) && (!t->is_made || made_code_can_be_copied((const uint8_t *)pc, g));
}

static enum breakpoint_kind suits(uintptr_t pc, struct group *g)
{
	struct text t;

	if (!text_at(pc, &t) || !t.is_text || t.end - pc < GROUP_BYTES_MAX + CODE_MAX)
		return BREAKPOINT_NONE;
	if (is_jumpable(&t, pc, g) && is_to_be_copied(&t, pc, g))
		return BREAKPOINT_JUMP;
	return is_single(t.file + (pc - t.begin), g) && is_to_be_copied(&t, pc, g) ? BREAKPOINT_TRAP : BREAKPOINT_NONE;
}

enum breakpoint_kind breakpoint_suits(uintptr_t pc, unsigned int *length)
{
	enum breakpoint_kind kind;
	struct group g = {0};

	if (!exposed_try_lock())
		return BREAKPOINT_ASK_LATER;
	kind = suits(pc, &g);
	exposed_release();
	*length = kind == BREAKPOINT_JUMP ? g.length : 1;
	return kind;
}

/* ------------------------------------------------------------------ the stub */

static uint8_t *put_fs(uint8_t *at, const uint8_t code[5], const void *tls)
{
	int32_t distance = distance_from_fs(tls);

	memcpy(at, code, 5);
	memcpy(at + 5, &distance, sizeof(distance));
	return at + 5 + sizeof(distance);
}

static uint8_t *put_bytes(uint8_t *at, const uint8_t *bytes, size_t n)
{
	memcpy(at, bytes, n);
	return at + n;
}

static const uint8_t rcx_to_fs[5] = {0x64, 0x48, 0x89, 0x0c, 0x25}, fs_to_rcx[5] = {0x64, 0x48, 0x8b, 0x0c, 0x25},
		     rax_to_fs[5] = {0x64, 0x48, 0x89, 0x04, 0x25}, fs_to_rax[5] = {0x64, 0x48, 0x8b, 0x04, 0x25};

/* rcx becomes the sum of the register and what is waited for, which is its negative. */
static uint8_t *put_sum_with_register(uint8_t *at, uint8_t reg)
{
	/* lea (%rcx,%reg), %rcx; the stack pointer can only be the base */
	const uint8_t sum[4] = {(uint8_t)(0x48 | (reg > 7 ? REX_X : 0)), 0x8d, 0x0c,
				(uint8_t)(reg == REGISTER_SP ? 0x0c : (reg & 7) << 3 | 1)};

	at = put_fs(at, fs_to_rcx, &exposed_self.probe.want);
	return put_bytes(at, sum, sizeof(sum));
}

/* The same with a word in memory. */
static uint8_t *put_sum_with_word(uint8_t *at)
{
	static const uint8_t load[3] = {0x48, 0x8b, 0x09}, sum[4] = {0x48, 0x8d, 0x0c, 0x01}; /* lea (%rcx,%rax), %rcx */
	struct exposed_thread *t = &exposed_self;

	at = put_fs(at, fs_to_rcx, &t->probe.word);
	at = put_bytes(at, load, sizeof(load));
	at = put_fs(at, rax_to_fs, &t->probe.rax);
	at = put_fs(at, fs_to_rax, &t->probe.want);
	at = put_bytes(at, sum, sizeof(sum));
	return put_fs(at, fs_to_rax, &t->probe.rax);
}

/*
 * Is the sum 0?  That is found out without a change of flags.  Returns where the distance to the copies is to be
 * written.
 */
static uint8_t *put_comparison(uint8_t **to, uint8_t told_by)
{
	struct exposed_thread *t = &exposed_self;
	uint8_t *at = *to, *branch, *distance;

	at = put_fs(at, rcx_to_fs, &t->probe.rcx);
	at = told_by == BREAKPOINT_BY_WORD ? put_sum_with_word(at) : put_sum_with_register(at, told_by);
	*at++ = 0xe3; /* jrcxz */
	branch = at++;
	at = put_fs(at, fs_to_rcx, &t->probe.rcx);
	*at++ = 0xe9; /* jmp */
	distance = at;
	at += sizeof(int32_t);
	*branch = (uint8_t)(at - branch - 1);
	*to = put_fs(at, fs_to_rcx, &t->probe.rcx);
	return distance;
}

#define FS_BYTES 9
/* In the comparison with a word: behind the instruction that stores rax. */
#define RAX_STORED (3 * FS_BYTES + 3)

bool breakpoint_interrupted(uintptr_t *pc, uint64_t r[16])
{
	const struct exposed_thread *t = &exposed_self;
	const struct probe *s = probe_of_stub(*pc);
	uintptr_t at = s ? *pc - s->stub : 0;

	if (!s || !s->breaks || at > s->comparison || !t->probe.guards)
		return false;
	*pc = s->pc;
	if (at >= FS_BYTES)
		r[REGISTER_CX] = t->probe.first_guard->rcx;
	if (s->told_by == BREAKPOINT_BY_WORD && at >= RAX_STORED)
		r[REGISTER_AX] = t->probe.first_guard->rax;
	return true;
}

static bool make_stub(struct probe *s, bool jump, uint8_t told_by)
{
	uint8_t *stub = place_stub(s), *at = stub, *distance;
	int32_t to_copies;
	size_t n;

	if (!stub)
		return false;
	s->stub = (uintptr_t)stub;
	distance = put_comparison(&at, told_by);
	s->comparison = (uint8_t)(at - stub);
	at = put_stub(at, (uint32_t)(s - probes));
	to_copies = (int32_t)(at - distance - (int)sizeof(to_copies));
	memcpy(distance, &to_copies, sizeof(to_copies));
	s->copies = (uintptr_t)at;
	n = relocate(s->code, s->pc, &s->group, at, &s->copy, s->back);
	if (jump && !put_jump(s->jump, s->at, s->stub))
		n = 0;
	return probe_finish_stub(s, s->stub & PAGE_MASK, n);
}

/* -------------------------------------------------------------------- breakpoints */

static bool take(struct probe *s, bool jump)
{
	enum breakpoint_kind kind = suits(s->pc, &s->group);

	if (kind == BREAKPOINT_NONE)
		return false;
	memcpy(s->code, (const void *)s->pc, sizeof(s->code));
	if (!jump && !is_single(s->code, &s->group))
		return false;
	s->at = s->pc;
	s->back = s->pc + s->group.length;
	memcpy(s->was, s->code, sizeof(s->was));
	memcpy(s->jump, s->code, sizeof(s->jump));
	s->jump[0] = PROBE_TRAP; /* unless it becomes a jump */
	return !jump || (kind == BREAKPOINT_JUMP && !overlaps_another(s));
}

static bool make(struct probe *s, bool jump, uint8_t told_by)
{
	*s = (struct probe){.pc = s->pc, .state = PROBE_REFUSED, .breaks = true, .told_by = told_by};
	return take(s, jump) && make_stub(s, jump, told_by);
}

static bool set(uintptr_t pc, bool jump, uint8_t told_by)
{
	struct probe *s = probe_at(pc);

	/* One that was given up is not made again but where the program has made its code anew. */
	if (s && s->breaks && s->state != PROBE_GIVEN_UP)
		return s->state == PROBE_PATCHED && probe_has_jump(s);
	/* A replay makes its probes at other accesses than the recording, in which the place was free. */
	give_up_within(pc, pc + JUMP_BYTES);
	s = probes_stopped ? NULL : probe_next();
	if (!s)
		return false;
	s->pc = pc;
	if (!make(s, jump, told_by) && !(jump && make(s, false, told_by)))
		return false;
	probe_add(s);
	s->state = PROBE_CHANGING;
	atomic_fetch_add_explicit(&patched_n, 1, memory_order_release);
	s->state = write_code(s, s->jump) ? PROBE_PATCHED : PROBE_GIVEN_UP;
	return s->state == PROBE_PATCHED;
}

bool breakpoint_set(uintptr_t pc, bool jump, uint8_t told_by)
{
	uint64_t mask;
	bool is_set, has_lock = exposed_self.busy;

	if (!breakpoints_on)
		return false;
	if (!has_lock)
		exposed_lock(&mask);
	is_set = set(pc, jump, told_by);
	if (!has_lock)
		exposed_unlock(&mask);
	return is_set;
}

void breakpoint_await(uintptr_t pc, uint8_t told_by, const uint64_t r[16], const uint64_t *word, uint64_t value)
{
	struct exposed_thread *t = &exposed_self;
	const struct probe *s = probe_at(pc);

	probes_make_stack();
	if (!t->probe.guards && !t->probe.inside)
		t->probe.stack = t->probe.top;
	t->probe.word = word ? word : &exposed_no_word;
	t->probe.want = word ? -value : 0;
	if (s)
		told_by = s->told_by;
	if (told_by != BREAKPOINT_BY_WORD)
		t->probe.want = -r[told_by];
}

void breakpoint_await_none(void)
{
	exposed_self.probe.word = &exposed_no_word;
	exposed_self.probe.want = 1;
}

/* ------------------------------------------------------------------------ traps */

static struct probe *trap_at(uintptr_t pc)
{
	struct probe *s;

	if (!atomic_load_explicit(&patched_n, memory_order_acquire))
		return NULL;
	s = probe_at(pc);
	return s && s->breaks && s->jump[0] == PROBE_TRAP && s->state == PROBE_PATCHED ? s : NULL;
}

bool breakpoint_trapped(ucontext_t *uc)
{
	greg_t *g = uc->uc_mcontext.gregs;
	struct probe *s = trap_at((uintptr_t)g[REG_RIP]);
	bool stops;
	uint64_t r[16];

	if (g[REG_RIP] == (greg_t)sr_breakpoint_fault) {
		g[REG_RIP] = (greg_t)exposed_self.probe.interrupted;
		interrupt(uc);
		return true;
	}
	if (!s)
		return false;
	for (uint8_t i = 0; i < 16; i++)
		r[i] = (uint64_t)*decode_register(uc, i);
	/* While the thread is at the original, its stack can be told. */
	stops = handlers->is_here(s->pc, r) && handlers->stop(s->pc, r, (const char *)uc->uc_mcontext.fpregs + VECTORS_AT);
	g[REG_RIP] = (greg_t)s->copies;
	if (stops)
		interrupt(uc);
	return true;
}
