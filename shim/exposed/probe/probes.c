/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/probe/probes.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/exposed/probe/code.h"
#include "shim/exposed/page.h"
#include "shim/exposed/x86/relocate.h"
#include "shim/exposed/x86/vector.h"
#include "shim/exposed/x86/word.h"

/* Faults before an instruction is worth it. */
#define FAULTS_MIN 16

/* A stub that is entered so many times more than it serves anybody is in the way of others. */
#define BAILS_MAX   64
#define BAILS_LEAST 2000

#define PROBES_MAX 256 /* instructions that have faulted */

/* Who comes to the midst of a jump pays a fault for it, and may do so again and again. */
#define TRAPS_MAX 64

#ifndef ARCH_SHSTK_STATUS
#define ARCH_SHSTK_STATUS 0x5005
#endif
#define STACK_BYTES (64ul << 10)

enum probe_state {
	PROBE_COUNTED,
	PROBE_CHANGING, /* the jump, or the original, is being written */
	PROBE_PATCHED,
	PROBE_REFUSED,
	PROBE_GIVEN_UP, /* the original is back; who is in the stub goes on there */
};

struct probe {
	uintptr_t pc;
	uint8_t state;
	bool stores;
	struct insn insn; /* but for its address, which is another each time */
	struct operand operand;
	struct group group;
	uint8_t code[GROUP_BYTES_MAX + CODE_MAX]; /* the originals, and what follows them */
	uintptr_t at; /* where its jump is: at pc, or before its copy where that lies under another one's jump */
	uint8_t was[JUMP_BYTES], jump[JUMP_BYTES]; /* there */
	struct copies copy; /* from `copies` on */
	uint32_t faults, traps;
	uint64_t entered, served;
	uintptr_t stub, copies, end;
	uintptr_t back; /* where the copies lead to */
	uintptr_t aside; /* INSN_OPERAND: the first one, with the thread's `operand` as its operand */
};

static struct probe probes[PROBES_MAX];
static uint32_t probes_n; /* used */
static _Atomic uint32_t patched_n;
/* All of the stubs are in here: most addresses are not. */
static uintptr_t stubs_begin = UINTPTR_MAX, stubs_end;
static _Atomic uintptr_t next_stack = PROBE_STACKS_BASE;
static bool possible; /* where it was asked for */
static bool stopped;

static bool is_wanted(void)
{
	return possible && !stopped && !hooks.recorded;
}

/* ------------------------------------------------------------ where who is */

static struct probe *probe_at(uintptr_t pc)
{
	for (uint32_t i = 0; i < probes_n; i++)
		if (probes[i].pc == pc)
			return &probes[i];
	return NULL;
}

static struct probe *probe_of_stub(uintptr_t at)
{
	if (at < stubs_begin || at >= stubs_end)
		return NULL;
	for (uint32_t i = 0; i < probes_n; i++)
		if (probes[i].stub && at >= probes[i].stub && at < probes[i].end)
			return &probes[i];
	return NULL;
}

/* Not libc's memcmp: who has come to a jump's midst there would come to it again. */
static bool begins_with(uintptr_t pc, const uint8_t *bytes)
{
	const volatile uint8_t *code = (const volatile uint8_t *)pc;

	for (int i = 0; i < JUMP_BYTES; i++)
		if (code[i] != bytes[i])
			return false;
	return true;
}

static bool has_jump(const struct probe *s)
{
	return s->state == PROBE_PATCHED && begins_with(s->at, s->jump);
}

/* What is there is not what it was, or will not be in a moment. */
static bool is_changed(const struct probe *s)
{
	return s->state == PROBE_CHANGING || has_jump(s);
}

/* Which instruction of the group, but for the first one, begins there; 0: none. */
static unsigned int under_begin(const struct group *g, uintptr_t at)
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

/* The one under whose jump there is the program's instruction, and a gap before its copy, for another jump; which one it is. */
static struct probe *probe_over(uintptr_t pc, unsigned int *k)
{
	for (uint32_t i = 0; i < probes_n; i++) {
		*k = under_jump(&probes[i], pc);
		if (*k && probes[i].copy.gaps >> *k & 1 && has_jump(&probes[i]))
			return &probes[i];
	}
	return NULL;
}

const uint8_t *probes_code(uintptr_t pc)
{
	if (!atomic_load_explicit(&patched_n, memory_order_acquire))
		return NULL;
	if (exposed_self.probe.inside && exposed_self.probe.current->pc == pc)
		return exposed_self.probe.current->code;
	for (uint32_t i = 0; i < probes_n; i++) {
		const struct probe *s = &probes[i];

		if (((pc == s->pc && s->at == pc) || under_jump(s, pc)) && is_changed(s))
			return s->code + (pc - s->pc);
	}
	return NULL;
}

static uintptr_t copy_of(const struct probe *s, unsigned int i)
{
	return s->copies + s->copy.at[i];
}

/* Which instruction's copy begins there, the jump back being the last one; -1: none. */
static int copy_at(const struct probe *s, uintptr_t at)
{
	for (unsigned int i = 0; i <= s->group.n; i++)
		if (at == copy_of(s, i) || at == s->copies + copy_behind_gap(&s->copy, i))
			return (int)i;
	return -1;
}

void probes_enter(ucontext_t *uc)
{
	uintptr_t at = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	struct probe *s =
	    atomic_load_explicit(&patched_n, memory_order_acquire) ? probe_of_stub(at) : NULL;
	int i = s ? copy_at(s, at) : -1;

	if (i >= 0)
		uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(s->pc + s->group.at[i]);
}

/* At the first one the jump itself leads on, but for the moment when it is written. */
void probes_leave(ucontext_t *uc)
{
	uintptr_t at = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];

	if (!atomic_load_explicit(&patched_n, memory_order_acquire))
		return;
	for (uint32_t i = 0; i < probes_n; i++) {
		const struct probe *s = &probes[i];
		unsigned int k = under_jump(s, at);

		if (k && is_changed(s)) {
			uc->uc_mcontext.gregs[REG_RIP] = (greg_t)copy_of(s, k);
			return;
		}
	}
}

/* The jump may have been taken back meanwhile; but what is mapped there now must be what it was made of. */
static bool has_copies_of(const struct probe *s)
{
	return s->stub && (is_changed(s) || begins_with(s->at, s->was));
}

static void give_up(struct probe *s);

/*
 * The shim's own code may be here as well, in libc's, with this lock or with one for which who has this lock waits: then
 * it is done the next time.
 */
static void try_to_give_up(struct probe *s)
{
	if (!exposed_try_lock())
		return;
	give_up(s);
	exposed_unlock(NULL);
}

static void note_trap(struct probe *s)
{
	if (++s->traps >= TRAPS_MAX && s->state == PROBE_PATCHED)
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

		if ((k || at == s->at) && has_copies_of(s)) {
			uc->uc_mcontext.gregs[REG_RIP] = (greg_t)copy_of(s, k);
			note_trap(s);
			return true;
		}
	}
	return false;
}

/* ------------------------------------------------------------- the way there */

/*
 * What a stub pushes, and what it calls with, lowest first.  The general registers, by their numbers in
 * instructions, are kept here; the vectors' below, by xsave: whoever records may use them.
 */
struct probe_frame {
	uint64_t r[16]; /* but for r[REGISTER_SP] */
	uint64_t flags, back, index;
};

/* Of the CPU's extended state, SSE, AVX, and the three of AVX-512.  No C code here touches the x87's. */
#define SAVED       0xe6
#define STATE_BYTES 3008
#define STRING_OF(x) #x
#define STRING(x)   STRING_OF(x)

void sr_probe_entry(void);
extern const char sr_probe_entry_end[];

__asm__(".text\n"
	".globl sr_probe_entry, sr_probe_entry_end\n"
	".hidden sr_probe_entry, sr_probe_entry_end\n"
	".type sr_probe_entry, @function\n"
	"sr_probe_entry:\n"
	"	pushfq\n"
	"	push %r15\n	push %r14\n	push %r13\n	push %r12\n	push %r11\n	push %r10\n"
	"	push %r9\n	push %r8\n	push %rdi\n	push %rsi\n	push %rbp\n	push %rsp\n"
	"	push %rbx\n	push %rdx\n	push %rcx\n	push %rax\n"
	"	cld\n"
	"	mov %rsp, %rbx\n"
	"	mov %rsp, %rdi\n"
	"	and $-64, %rsp\n"
	"	call sr_probe_is_needed\n"
	"	test %al, %al\n"
	"	jz 1f\n"
	"	sub $" STRING(STATE_BYTES) ", %rsp\n"
	"	xor %eax, %eax\n"
	"	mov %rax, 512(%rsp)\n	mov %rax, 520(%rsp)\n	mov %rax, 528(%rsp)\n"
	"	mov %rax, 536(%rsp)\n	mov %rax, 544(%rsp)\n	mov %rax, 552(%rsp)\n"
	"	mov %rax, 560(%rsp)\n	mov %rax, 568(%rsp)\n"
	"	mov $" STRING(SAVED) ", %eax\n"
	"	xor %edx, %edx\n"
	"	xsave64 (%rsp)\n"
	"	mov %rbx, %rdi\n"
	"	mov %rsp, %rsi\n"
	"	call sr_probe_serve\n"
	"	mov $" STRING(SAVED) ", %eax\n"
	"	xor %edx, %edx\n"
	"	xrstor64 (%rsp)\n"
	"1:	mov %rbx, %rsp\n"
	"	pop %rax\n	pop %rcx\n	pop %rdx\n	pop %rbx\n	lea 8(%rsp), %rsp\n"
	"	pop %rbp\n	pop %rsi\n	pop %rdi\n	pop %r8\n	pop %r9\n	pop %r10\n"
	"	pop %r11\n	pop %r12\n	pop %r13\n	pop %r14\n	pop %r15\n"
	"	popfq\n"
	"	ret\n"
	"sr_probe_entry_end:\n"
	".size sr_probe_entry, .-sr_probe_entry\n");

bool sr_probe_is_needed(struct probe_frame *f);
void sr_probe_serve(struct probe_frame *f, char *vectors);

/* The most frequent one: who looks whether something has come finds that nothing has. */
NO_VECTORS static bool is_over(struct probe_frame *f, struct probe *s, uintptr_t addr)
{
	const struct insn *insn = &s->insn;
	uint64_t v;

	if (!fault_known_at_probe(insn, s->pc, addr, f->r, &v))
		return false;
	s->served++;
	word_take(insn, (greg_t *)&f->r[insn->reg], (greg_t *)&f->flags, v);
	exposed_self.probe.resume = copy_of(s, 1);
	return true;
}

/*
 * Would it fault, and is there something to do?  Without the lock: the answer may have changed when it is done, then it
 * faults, or nothing is done.
 */
NO_VECTORS SR_HIDDEN __attribute__((used)) bool sr_probe_is_needed(struct probe_frame *f)
{
	struct probe *s = &probes[f->index];
	struct exposed_thread *t = &exposed_self;
	const struct operand *o = &s->operand;
	const struct page *p;
	uintptr_t addr = o->displacement;

	t->probe.current = s;
	t->probe.resume = s->copies;
	s->entered++;
	f->r[REGISTER_SP] = t->probe.sp;
	if (o->base != NO_REGISTER)
		addr += f->r[o->base];
	if (o->index != NO_REGISTER)
		addr += f->r[o->index] << o->shift;
	t->probe.addr = addr;
	p = page_at(addr);
	t->probe.give_up = s->entered - s->served > BAILS_LEAST && s->entered / BAILS_MAX > s->served;
	if (t->probe.give_up)
		return true;
	if (!p || !fault_needs_handling(p, s->stores) || !is_in_one_page(addr, s->insn.size) || addr & s->insn.align)
		return false;
	if (is_partial(p) && fault_unregistered_at_probe(&s->insn, addr, f->r, &f->flags)) {
		s->served++;
		t->probe.resume = copy_of(s, 1);
		return false;
	}
	return !is_over(f, s, addr);
}

SR_HIDDEN __attribute__((used)) void sr_probe_serve(struct probe_frame *f, char *vectors)
{
	struct exposed_thread *t = &exposed_self;
	struct probe *s = &probes[f->index];
	greg_t *g = t->probe.uc.uc_mcontext.gregs;
	int saved = errno;

	if (t->probe.give_up) {
		try_to_give_up(s);
		errno = saved;
		return;
	}
	s->served++;
	for (uint8_t i = 0; i < 16; i++)
		*decode_register(&t->probe.uc, i) = (greg_t)f->r[i];
	g[REG_EFL] = (greg_t)f->flags;
	g[REG_RIP] = (greg_t)s->pc;
	vector_frame(&t->probe.uc, vectors, STATE_BYTES);
	fault_at_probe(&t->probe.uc, t->probe.addr, s->stores);
	for (uint8_t i = 0; i < 16; i++)
		f->r[i] = (uint64_t)*decode_register(&t->probe.uc, i);
	f->flags = (uint64_t)g[REG_EFL];
	if ((uintptr_t)g[REG_RIP] != s->pc)
		t->probe.resume = s->aside ? s->aside : copy_of(s, 1);
	errno = saved;
}

bool probes_is_section(const ucontext_t *uc)
{
	uintptr_t at = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	const struct probe *s;

	if (exposed_self.probe.inside)
		return true;
	if (!atomic_load_explicit(&patched_n, memory_order_acquire))
		return false;
	s = probe_of_stub(at);
	/* A call's copy has pushed half of where it was, till its end. */
	return (s && copy_at(s, at) < 0) ||
	       (at >= (uintptr_t)sr_probe_entry && at < (uintptr_t)sr_probe_entry_end);
}

/* Without a stack, a stub goes on to the copies, and no more than RCX's place has been written. */
void probes_guard_begin(struct probes_guard *g)
{
	struct exposed_thread *t = &exposed_self;

	g->rcx = t->probe.rcx;
	t->probe.guards++;
	t->probe.stack = 0;
	/* This very thread's next signal, or call, finds it so. */
	atomic_signal_fence(memory_order_seq_cst);
}

void probes_guard_end(const struct probes_guard *g)
{
	struct exposed_thread *t = &exposed_self;

	atomic_signal_fence(memory_order_seq_cst);
	t->probe.rcx = g->rcx;
	/* Who is inside gives it back himself. */
	if (!--t->probe.guards && !t->probe.inside)
		t->probe.stack = t->probe.top;
}

uint32_t probes_handler_begins(void)
{
	struct exposed_thread *t = &exposed_self;
	uint32_t others = t->probe.guards ? t->probe.guards - 1 : 0;

	t->probe.guards -= others;
	return others;
}

void probes_handler_ends(uint32_t guards)
{
	exposed_self.probe.guards += guards;
}

void probes_make_stack(void)
{
	struct exposed_thread *t = &exposed_self;
	char *p;

	if (t->probe.base || t->probe.inside || !is_wanted())
		return;
	/* A page that is not there between two. */
	p = (char *)atomic_fetch_add(&next_stack, STACK_BYTES + PAGE);
	p = sr_sys_mmap(p, STACK_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (sr_sys_is_error(p))
		return;
	t->probe.base = p;
	t->probe.top = (uint64_t)p + STACK_BYTES - 64;
}

void probes_thread_ends(void)
{
	struct exposed_thread *t = &exposed_self;
	char *base = t->probe.base;

	if (t->probe.inside)
		return;
	t->probe.stack = t->probe.top = 0;
	t->probe.base = NULL;
	if (base)
		sr_sys_munmap(base, STACK_BYTES);
}

/* ----------------------------------------------------------------- the stub */

struct writer {
	uint8_t *p;
};

static void put(struct writer *w, const void *bytes, size_t n)
{
	memcpy(w->p, bytes, n);
	w->p += n;
}

/* A thread-local word's distance from FS. */
static int32_t distance_from_fs(const void *tls)
{
	return (int32_t)((intptr_t)tls - (intptr_t)__builtin_thread_pointer());
}

/* An instruction whose operand is the word, by its distance from FS; an immediate may follow. */
static void put_fs_of(struct writer *w, const uint8_t *code, size_t n, const void *tls)
{
	int32_t distance = distance_from_fs(tls);

	put(w, code, n);
	put(w, &distance, sizeof(distance));
}

static void put_fs(struct writer *w, const uint8_t code[5], const void *tls)
{
	put_fs_of(w, code, 5, tls);
}

static const uint8_t rcx_to_fs[5] = {0x64, 0x48, 0x89, 0x0c, 0x25}, fs_to_rcx[5] = {0x64, 0x48, 0x8b, 0x0c, 0x25},
		     rsp_to_fs[5] = {0x64, 0x48, 0x89, 0x24, 0x25}, fs_to_rsp[5] = {0x64, 0x48, 0x8b, 0x24, 0x25};

static void put_inside(struct writer *w, uint8_t yes)
{
	static const uint8_t byte_to_fs[4] = {0x64, 0xc6, 0x04, 0x25};

	put_fs_of(w, byte_to_fs, sizeof(byte_to_fs), &exposed_self.probe.inside);
	put(w, &yes, 1);
}

static void put_no_stack(struct writer *w)
{
	static const uint8_t word_to_fs[5] = {0x64, 0x48, 0xc7, 0x04, 0x25}, zero[4];

	put_fs(w, word_to_fs, &exposed_self.probe.stack);
	put(w, zero, 4);
}

/*
 * To the thread's own stack, since below the program's stack pointer there are things of its
 * own; none of these instructions changes a flag.  That it is inside is said here, where a signal that
 * comes in between finds the thread by its RIP (probes_is_section), and not in C.  A thread without one (it has just begun, or
 * is in here already) goes to the original.
 *
 * Returns where the copies begin.
 */
static uint8_t *put_stub(uint8_t *at, uint32_t index)
{
	static const uint8_t jrcxz[1] = {0xe3}, rcx_to_rsp[3] = {0x48, 0x89, 0xcc}, push[1] = {0x68},
			     call[6] = {0xff, 0x15, 0x02, 0x00, 0x00, 0x00}, over[2] = {0xeb, 0x08};
	static const uint8_t fs_jump[4] = {0x64, 0xff, 0x24, 0x25};
	const uint64_t entry = (uint64_t)sr_probe_entry;
	struct exposed_thread *t = &exposed_self;
	struct writer w = {at};
	uint8_t *branch;

	put_fs(&w, rcx_to_fs, &t->probe.rcx);
	put_fs(&w, fs_to_rcx, &t->probe.stack);
	put(&w, jrcxz, 1);
	branch = w.p++;
	put_fs(&w, rsp_to_fs, &t->probe.sp);
	put(&w, rcx_to_rsp, 3);
	put_fs(&w, fs_to_rcx, &t->probe.rcx);
	put_inside(&w, 1);
	put_no_stack(&w);
	put(&w, push, 1);
	put(&w, &index, sizeof(index));
	put(&w, call, 6);
	put(&w, over, 2);
	put(&w, &entry, sizeof(entry));
	/* Back: the stack may be used again from where it is given back on. */
	put_fs(&w, rcx_to_fs, &t->probe.rcx);
	put_fs(&w, fs_to_rcx, &t->probe.top);
	put_fs(&w, rcx_to_fs, &t->probe.stack);
	put_fs(&w, fs_to_rcx, &t->probe.rcx);
	put_fs(&w, fs_to_rsp, &t->probe.sp);
	put_inside(&w, 0);
	put_fs_of(&w, fs_jump, sizeof(fs_jump), &t->probe.resume);
	*branch = (uint8_t)(w.p - branch - 1);
	put_fs(&w, fs_to_rcx, &t->probe.rcx);
	return w.p;
}

/* --------------------------------------------------------- where it may lie */

/*
 * The one instruction of one byte that no program may ever execute: I/O, and the flag of interrupts, can be
 * allowed to it (iopl).
 */
#define TRAP 0xf4 /* hlt */

/*
 * The distance's highest byte.  A stub 176 MiB to 2 GiB down is where nothing grows; a program that
 * lies too low for that has its heap above it, whose first 1.5 GiB are left to it.
 */
static const uint8_t down[] = {0xf4, 0xf0, 0xe8, 0xe0, 0xd8, 0xd0, 0xc8, 0xc0, 0xb0, 0xa0, 0x90, 0x80},
		     up[] = {0x60, 0x68, 0x70, 0x78},
		     on[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06}; /* a program's that lies low, from another stub there */
#define LOW 0x20000000ul

static uint8_t highest_byte(const struct probe *s, unsigned int n)
{
	if (s->pc >= LOW)
		return down[n % sizeof(down)];
	return s->at == s->pc ? up[n % sizeof(up)] : on[n % sizeof(on)];
}

/* Does an instruction begin with the jump's byte of the distance, 0 to 3? */
static bool is_begin(const struct group *g, unsigned int byte)
{
	return under_begin(g, byte + 1);
}

/* The n-th way to choose the distance's bytes: those that begin an instruction are traps. */
static int32_t distance_of(const struct probe *s, unsigned int n)
{
	const struct group *g = &s->group;
	uint32_t high = highest_byte(s, n), v;

	v = (is_begin(g, 3) ? TRAP : high) << 24;
	v |= (is_begin(g, 2) ? TRAP : n * 37 & 0xff) << 16;
	v |= (is_begin(g, 1) ? TRAP : 0u) << 8;
	/* To a page's beginning, where that is free to choose. */
	v |= is_begin(g, 0) ? TRAP : (uint32_t)(-(s->at + JUMP_BYTES) & 0xff);
	if (!is_begin(g, 1))
		v |= (uint32_t)((-(s->at + JUMP_BYTES + v) >> 8 & 0xf) << 8);
	return (int32_t)v;
}

#define PLACES 240

/* Two pages: the stub may lie at the end of the first. */
static uint8_t *place_stub(const struct probe *s)
{
	for (unsigned int n = 0; n < PLACES; n++) {
		uintptr_t at = s->at + JUMP_BYTES + (uintptr_t)(intptr_t)distance_of(s, n);
		char *p, *pages = (char *)(at & PAGE_MASK);

		if ((at > s->at) != (s->pc < LOW) || at < 0x10000)
			continue;
		p = sr_sys_mmap(pages, 2 * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (p == pages)
			return (uint8_t *)at;
		if (!sr_sys_is_error(p))
			sr_sys_munmap(p, 2 * PAGE);
	}
	return NULL;
}

/* --------------------------------------------------------------- the patch */

/* All threads have done what they had fetched of the old bytes, and fetch anew. */
static bool all_fetch_anew(void)
{
	static bool registered;

	if (!registered)
		registered = !sr_syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0, 0, 0, 0);
	return registered && !sr_syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0, 0, 0, 0);
}

/*
 * The process's memory as a file: what may not be written can be, without any mapping being changed, and what is not there is no
 * fault.
 */
static int open_memory(void)
{
	return (int)sr_syscall(SYS_openat, AT_FDCWD, SR_ARG("/proc/self/mem"), O_RDWR | O_CLOEXEC, 0, 0, 0);
}

static bool put_bytes(int memory, uintptr_t at, const uint8_t *bytes, size_t n)
{
	return sr_syscall(SYS_pwrite64, memory, SR_ARG(bytes), (long)n, (long)at, 0, 0) == (long)n;
}

/* Those with which instructions of the group begin, the first excepted; or the others.  In runs: a write takes long. */
static bool put_under(int memory, const struct probe *s, const uint8_t *bytes, bool begins)
{
	unsigned int from, to;
	bool done = true;

	for (from = 1; from < JUMP_BYTES && done; from = to + 1) {
		for (to = from; to < JUMP_BYTES && !under_begin(&s->group, to) != begins; to++)
			;
		if (to > from)
			done = put_bytes(memory, s->at + from, bytes + from, to - from);
	}
	return done;
}

/*
 * Others may be executing these bytes.  First each instruction of the group begins with a byte
 * that faults, so that whoever comes goes on in the copies (the Intel manual's cross-modifying
 * code, volume 3, 9.1.3: no CPU may fetch what is half written); what does not begin one is written then, and the
 * first byte last.
 */
static bool put_unregistered_others(int memory, const struct probe *s, const uint8_t *bytes)
{
	static const uint8_t traps[JUMP_BYTES] = {TRAP, TRAP, TRAP, TRAP, TRAP};

	if (!put_bytes(memory, s->at, traps, 1) || !put_under(memory, s, traps, true))
		return false;
	all_fetch_anew();
	if (!put_under(memory, s, bytes, false))
		return false;
	all_fetch_anew();
	if (s->group.n > 1) {
		if (!put_under(memory, s, bytes, true))
			return false;
		all_fetch_anew();
	}
	if (!put_bytes(memory, s->at, bytes, 1))
		return false;
	all_fetch_anew();
	return true;
}

/* False: nothing is changed.  Whether there is a barrier is known before anything is written. */
static bool write_code(const struct probe *s, const uint8_t *bytes)
{
	int memory = open_memory();
	bool done;

	if (memory < 0)
		return false;
	done = all_fetch_anew() && put_unregistered_others(memory, s, bytes);
	if (!done)
		put_bytes(memory, s->at, s->was, JUMP_BYTES);
	sr_sys_close(memory);
	return done;
}

/* The originals are written as a jump is: who comes meanwhile goes on in the copies. */
static void give_up(struct probe *s)
{
	if (s->state != PROBE_PATCHED || !has_jump(s))
		return;
	s->state = PROBE_CHANGING;
	write_code(s, s->was);
	s->state = PROBE_GIVEN_UP;
}

/* Of code that may have been unmapped meanwhile. */
static bool still_has_jump(int memory, const struct probe *s)
{
	uint8_t now[JUMP_BYTES];

	if (s->state != PROBE_PATCHED && s->state != PROBE_CHANGING)
		return false;
	return sr_syscall(SYS_pread64, memory, SR_ARG(now), sizeof(now), (long)s->at, 0, 0) == sizeof(now) &&
	       (s->state == PROBE_CHANGING || !memcmp(now, s->jump, sizeof(now)));
}

void probes_stop(void)
{
	uint64_t mask;
	int memory;

	exposed_lock(&mask);
	stopped = true;
	memory = probes_n ? open_memory() : -1;
	for (uint32_t i = 0; i < probes_n && memory >= 0; i++)
		if (still_has_jump(memory, &probes[i]))
			give_up(&probes[i]);
	if (memory >= 0)
		sr_sys_close(memory);
	exposed_unlock(&mask);
}

/* There is no other thread, and the one that had the lock may have been one. */
void probes_stop_in_child(void)
{
	int memory = probes_n ? open_memory() : -1;

	stopped = true;
	for (uint32_t i = 0; i < probes_n && memory >= 0; i++)
		if (still_has_jump(memory, &probes[i]) && put_bytes(memory, probes[i].at, probes[i].was, JUMP_BYTES))
			probes[i].state = PROBE_GIVEN_UP;
	if (memory >= 0)
		sr_sys_close(memory);
}

static bool is_worth_it(const struct insn *insn)
{
	if (insn->class == INSN_LOAD)
		return insn->reg != 4 || insn->high; /* rsp is not given back by the stub */
	if (insn->class == INSN_OPERAND)
		return insn->always;
	return insn->class == INSN_COMPARE || insn->class == INSN_STORE ||
	       insn->class == INSN_VECTOR_LOAD || insn->class == INSN_VECTOR_STORE;
}

/*
 * Its bytes, as the file has them: what is not from a file, or was changed, is left alone, and so is what the
 * program could change with no call, or does not allow to be executed alone.
 */
static bool take_text(struct probe *s)
{
	struct text t;

	s->at = s->pc;
	if (!text_at(s->pc, &t) || !t.is_text || t.end - s->pc < sizeof(s->code))
		return false;
	memcpy(s->code, t.file + (s->pc - t.begin), sizeof(s->code));
	return group_of(s->code, &s->group) && !memcmp(s->code, (const void *)s->pc, s->group.length) &&
	       (s->group.n == 1 || !is_branched_into(t.file, t.end - t.begin, s->pc - t.begin, &s->group));
}

/* Its copy, which another one's jump leads to, gets a jump of its own: of messages' words, one is read after the other. */
static void take_copy(struct probe *s, const struct probe *over, unsigned int k)
{
	uint8_t length = (uint8_t)(over->group.at[k + 1] - over->group.at[k]);

	memcpy(s->code, over->code + over->group.at[k], CODE_MAX);
	s->group = (struct group){.n = 1, .length = length, .at = {0, length}};
	s->at = copy_of(over, k);
	s->back = copy_of(over, k + 1);
	memcpy(s->was, gap, sizeof(gap));
}

static bool take_code(struct probe *s)
{
	unsigned int k;
	const struct probe *over = probe_over(s->pc, &k);

	if (over) {
		take_copy(s, over, k);
		return true;
	}
	if (!take_text(s))
		return false;
	s->back = s->pc + s->group.length;
	memcpy(s->was, s->code, sizeof(s->was));
	return true;
}

/* Behind the copies: the instruction itself, with what the handler has read.  How many bytes; 0: it would be too long. */
static size_t put_aside(struct probe *s, uint8_t *at)
{
	size_t n = relocate_operand(at, s->code, &s->insn.encoding, PREFIX_FS, distance_from_fs(exposed_self.probe.operand));

	if (!n)
		return 0;
	put_jump(at + n, (uintptr_t)at + n, copy_of(s, 1));
	s->aside = (uintptr_t)at;
	return n + JUMP_BYTES;
}

static bool patch(struct probe *s, const struct insn *insn)
{
	uint8_t *stub, *copies;
	size_t n, aside;

	s->stores = insn->class == INSN_STORE || insn->class == INSN_VECTOR_STORE;
	s->insn = *insn;
	if (!take_code(s) || !encoding_operand(s->code, s->pc, &insn->encoding, &s->operand))
		return false;
	stub = place_stub(s);
	if (!stub)
		return false;
	copies = put_stub(stub, (uint32_t)(s - probes));
	n = relocate(s->code, s->pc, &s->group, copies, &s->copy, s->back);
	s->copies = (uintptr_t)copies;
	if (n && insn->class == INSN_OPERAND) {
		aside = put_aside(s, copies + n);
		n = aside ? n + aside : 0;
	}
	if (!n || !put_jump(s->jump, s->at, (uintptr_t)stub) ||
	    sr_syscall(SYS_mprotect, (long)((uintptr_t)stub & PAGE_MASK), 2 * PAGE, PROT_READ | PROT_EXEC, 0, 0, 0)) {
		sr_sys_munmap((void *)((uintptr_t)stub & PAGE_MASK), 2 * PAGE);
		return false;
	}
	s->stub = (uintptr_t)stub;
	s->end = (uintptr_t)copies + n;
	if (s->stub < stubs_begin)
		stubs_begin = s->stub;
	if (s->end > stubs_end)
		stubs_end = s->end;
	s->state = PROBE_CHANGING;
	atomic_fetch_add_explicit(&patched_n, 1, memory_order_release);
	/* From here on others come to the stub. */
	if (!write_code(s, s->jump))
		return false;
	counts.jumps++;
	s->state = PROBE_PATCHED;
	return true;
}

/* What the way there saves lies where xsave puts it on every CPU of today; who has more, or less, has no sites. */
static bool is_possible(void)
{
	uint32_t a, b, c, d;
	uint64_t features = 0;

	/* A call's copy pushes where it was, which a stack of return addresses alone would not know. */
	if (!sr_syscall(SYS_arch_prctl, ARCH_SHSTK_STATUS, SR_ARG(&features), 0, 0, 0, 0) && features)
		return false;
	__cpuid(1, a, b, c, d);
	if (!(c & bit_OSXSAVE))
		return false;
	for (uint32_t component = 2; component < 8; component++) {
		if (!(SAVED >> component & 1))
			continue;
		__cpuid_count(13, component, a, b, c, d);
		if (a + b > STATE_BYTES)
			return false;
	}
	return true;
}

void probes_init(void)
{
	possible = hooks.patches && is_possible();
}

void probes_count(const ucontext_t *uc, const struct insn *insn)
{
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	struct probe *s;

	if (!is_wanted() || exposed_self.probe.inside || !is_worth_it(insn))
		return;
	s = probe_at(pc);
	if (!s) {
		if (probes_n == PROBES_MAX)
			return;
		s = &probes[probes_n];
		*s = (struct probe){.pc = pc, .state = PROBE_COUNTED};
		probes_n++;
	}
	if (++s->faults < FAULTS_MIN || s->state != PROBE_COUNTED)
		return;
	if (!patch(s, insn))
		s->state = PROBE_REFUSED;
}
