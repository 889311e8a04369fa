/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/probe/exchange.h"

#include <stdatomic.h>
#include <string.h>

#include "shim/exposed/page/parts.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/probe/aside.h"
#include "shim/exposed/probe/probe.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/word.h"

/* The aligned word around an operand, which can be compared and exchanged. */
struct word {
	unsigned int size, at; /* at: the operand, in it */
	_Alignas(16) uint8_t before[16], after[16];
};

/* Of 8 or 16 bytes; 0: the operand does not lie in one. */
static unsigned int word_of(uintptr_t address, unsigned int size)
{
	if ((address & 7) + size <= 8)
		return 8;
	return (address & 15) + size <= 16 ? 16 : 0;
}

#define STATUS_FLAGS "0x8d5" /* CF, PF, AF, ZF, SF, OF: others are no result of such instructions */

/* The offsets are those of gregset_t (sys/ucontext.h). */
_Static_assert(REG_R8 == 0 && REG_R15 == 7 && REG_RDI == 8 && REG_RCX == 14 && REG_EFL == 17,
	       "the code below has these numbers");

__asm__(".text\n"
	".globl sr_exchange_call\n"
	".hidden sr_exchange_call\n"
	".type sr_exchange_call, @function\n"
	"sr_exchange_call:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
	"	push %rdi\n	push %rsi\n"
	"	mov 136(%rdi), %rax\n"
	"	and $" STATUS_FLAGS ", %eax\n"
	"	push %rax\n"
	"	popfq\n"
	"	mov (%rdi), %r8\n	mov 8(%rdi), %r9\n	mov 16(%rdi), %r10\n	mov 24(%rdi), %r11\n"
	"	mov 32(%rdi), %r12\n	mov 40(%rdi), %r13\n	mov 48(%rdi), %r14\n	mov 56(%rdi), %r15\n"
	"	mov 72(%rdi), %rsi\n	mov 80(%rdi), %rbp\n	mov 88(%rdi), %rbx\n	mov 96(%rdi), %rdx\n"
	"	mov 104(%rdi), %rax\n	mov 112(%rdi), %rcx\n	mov 64(%rdi), %rdi\n"
	"	call *(%rsp)\n"
	"	push %rdi\n"
	"	mov 16(%rsp), %rdi\n"
	"	mov %r8, (%rdi)\n	mov %r9, 8(%rdi)\n	mov %r10, 16(%rdi)\n	mov %r11, 24(%rdi)\n"
	"	mov %r12, 32(%rdi)\n	mov %r13, 40(%rdi)\n	mov %r14, 48(%rdi)\n	mov %r15, 56(%rdi)\n"
	"	mov %rsi, 72(%rdi)\n	mov %rbp, 80(%rdi)\n	mov %rbx, 88(%rdi)\n	mov %rdx, 96(%rdi)\n"
	"	mov %rax, 104(%rdi)\n	mov %rcx, 112(%rdi)\n"
	"	pop 64(%rdi)\n"
	"	pushfq\n"
	"	pop %rax\n"
	"	and $" STATUS_FLAGS ", %eax\n"
	"	andq $~" STATUS_FLAGS ", 136(%rdi)\n"
	"	or %rax, 136(%rdi)\n"
	"	add $16, %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n	pop %rbx\n"
	"	ret\n"
	".size sr_exchange_call, .-sr_exchange_call\n");

#define REGISTER_BP 5

/*
 * The instruction with the thread's `operand` as its operand, and ret behind it.  0: there is none.  The handler has a stack
 * pointer of its own, so that rbp takes the program's place (call_with_sp).
 */
static uintptr_t code_for(const ucontext_t *uc, const struct insn *insn)
{
	uint8_t *code;

	if (exposed_self.by_jump)
		return exposed_self.probe.current->aside;
	code = (uint8_t *)aside_write(probes_code_at((uintptr_t)uc->uc_mcontext.gregs[REG_RIP]), insn);
	if (code && decode_names_sp(insn))
		code[1 + insn->encoding.modrm_at] ^= (REGISTER_SP ^ REGISTER_BP) << 3; /* behind the segment's prefix */
	return (uintptr_t)code;
}

/* 16 bytes may be torn: then the exchange fails and is tried again. */
static void read_word(struct word *w, const char *from)
{
	for (unsigned int i = 0; i < w->size; i += 8)
		*(uint64_t *)(w->before + i) = *(volatile const uint64_t *)(from + i);
	memcpy(w->after, w->before, w->size);
}

static bool write_word(char *at, const struct word *w)
{
	uint64_t b[2], a[2];
	bool done;

	memcpy(b, w->before, sizeof(b));
	memcpy(a, w->after, sizeof(a));
	if (w->size == 8)
		return __atomic_compare_exchange_n((uint64_t *)at, &b[0], a[0], false, __ATOMIC_SEQ_CST,
						   __ATOMIC_SEQ_CST);
	__asm__ volatile("lock cmpxchg16b %1"
			 : "=@ccz"(done), "+m"(*(char(*)[16])at), "+a"(b[0]), "+d"(b[1])
			 : "b"(a[0]), "c"(a[1])
			 : "memory");
	return done;
}

static void call_with_sp(greg_t *g, uintptr_t code)
{
	greg_t bp = g[REG_RBP];

	g[REG_RBP] = g[REG_RSP];
	sr_exchange_call(g, code);
	g[REG_RSP] = g[REG_RBP];
	g[REG_RBP] = bp;
}

static void call(greg_t *g, uintptr_t code, const struct insn *insn)
{
	(decode_names_sp(insn) ? call_with_sp : sr_exchange_call)(g, code);
}

/* The handler has another stack pointer. */
static void pop(greg_t *g, unsigned int size)
{
	memcpy(exposed_self.probe.operand, (const void *)g[REG_RSP], size);
	g[REG_RSP] += size;
}

/* The operand is the word that has the bit. */
static void change_bit(greg_t *g, uintptr_t code, const struct insn *insn)
{
	greg_t *reg = &g[decode_greg(insn->reg)], was = *reg;

	*reg &= 8 * insn->size - 1;
	call(g, code, insn);
	*reg = was;
}

/* With the thread's `operand`. */
static void execute(greg_t *g, uintptr_t code, const struct insn *insn)
{
	if (encoding_pops(&insn->encoding))
		pop(g, insn->size);
	else if (encoding_chooses_bit(&insn->encoding))
		change_bit(g, code, insn);
	else
		call(g, code, insn);
}

static void execute_word(greg_t *g, uintptr_t code, const struct insn *insn, struct word *w)
{
	char *operand = exposed_self.probe.operand;

	memcpy(operand, w->before + w->at, insn->size);
	execute(g, code, insn);
	memcpy(w->after + w->at, operand, insn->size);
}

NO_VECTORS bool exchange_quickly(const struct insn *insn, const struct page *p, uintptr_t addr, uint64_t r[16], uint64_t *flags)
{
	const unsigned int size = insn->size, at = addr & 7, shift = 8 * at;
	const uint64_t mask = size < 8 ? (1ull << 8 * size) - 1 : ~0ull;
	const uintptr_t code = exposed_self.probe.current->aside;
	uint64_t *word = (uint64_t *)backing_of(p, addr - at);
	char *operand = exposed_self.probe.operand;
	uint64_t before, after, found;
	gregset_t g;

	if (!code || at + size > sizeof(*word))
		return false;
	before = word_load(word, sizeof(*word));
	found = before >> shift & mask;
	if (found != word_load(shadow_of(addr), size))
		return false;
	word_store(operand, found, size);
	decode_registers_to(g, r, *flags);
	sr_exchange_call(g, code);
	after = (before & ~(mask << shift)) | word_load(operand, size) << shift;
	if (!__atomic_compare_exchange_n(word, &before, after, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return false;
	word_store(shadow_to_change(addr), word_load(operand, size), size);
	decode_registers_from(g, r, flags);
	return true;
}

/* The program learns what it found there, and the shadow copy gets what is there now. */
static void record(const struct insn *insn, const struct word *w, enum visibility v)
{
	const void *stored = w->after + w->at;

	if (v == SEEN)
		record_difference(insn->address, (const char *)w->before + w->at, insn->size, 0);
	if (v != UNSEEN)
		memcpy(shadow_to_change(insn->address), stored, insn->size);
	if (v != UNREGISTERED && hooks.stored)
		hooks.stored(insn->address, stored, insn->size);
}

static void exchange_word(greg_t *g, uintptr_t code, const struct insn *insn, unsigned int size, enum visibility v)
{
	struct page *p = page_at(insn->address);
	struct word w = {.size = size, .at = (unsigned int)(insn->address & (size - 1))};
	char *at = backing_of(p, insn->address - w.at);
	gregset_t now;

	if (v == SEEN)
		validate_shadow(insn->address & PAGE_MASK, p);
	do {
		memcpy(now, g, sizeof(now));
		read_word(&w, at);
		execute_word(now, code, insn, &w);
	} while (!write_word(at, &w));
	memcpy(g, now, sizeof(now));
	p->own = true;
	record(insn, &w, v);
}

/*
 * The operand lies in no such word, and perhaps over two pages.  Another thread's store to it may come in between, as
 * it may on a processor.  (With lock it may not there; a program whose threads meet at such a word is not known.)
 */
static void exchange_parts(greg_t *g, uintptr_t code, const struct insn *insn, enum visibility v)
{
	char *operand = exposed_self.probe.operand;

	parts_load(insn->address, operand, insn->size, v);
	execute(g, code, insn);
	parts_store(insn->address, operand, NULL, insn->size, v);
}

static bool exchange(ucontext_t *uc, const struct insn *insn, enum visibility v)
{
	const unsigned int size = word_of(insn->address, insn->size);
	greg_t *g = uc->uc_mcontext.gregs;
	uintptr_t code;

	code = code_for(uc, insn);
	if (!code)
		return false;
	if (size)
		exchange_word(g, code, insn, size, v);
	else
		exchange_parts(g, code, insn, v);
	g[REG_RIP] += insn->length;
	counts.exchanges++;
	return true;
}

bool exchange_do(ucontext_t *uc, const struct insn *insn)
{
	return exchange(uc, insn, visibility_now());
}

bool exchange_unregistered(ucontext_t *uc, const struct insn *insn)
{
	return exchange(uc, insn, UNREGISTERED);
}
