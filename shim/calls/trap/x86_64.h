/* SPDX-License-Identifier: BSD-2-Clause */
/* x86_64.h: the parts of the system-call trap that depend on the registers of x86-64. */
#ifndef SHIM_CALLS_TRAP_X86_64_H
#define SHIM_CALLS_TRAP_X86_64_H

#include <stdint.h>
#include <ucontext.h>

#include "logd/base/rawsys.h"

static inline long sr_trapped_number(const ucontext_t *uc)
{
	return uc->uc_mcontext.gregs[REG_RAX];
}

static inline void sr_trapped_arguments(const ucontext_t *uc, uint64_t a[6])
{
	const greg_t *r = uc->uc_mcontext.gregs;

	a[0] = (uint64_t)r[REG_RDI];
	a[1] = (uint64_t)r[REG_RSI];
	a[2] = (uint64_t)r[REG_RDX];
	a[3] = (uint64_t)r[REG_R10];
	a[4] = (uint64_t)r[REG_R8];
	a[5] = (uint64_t)r[REG_R9];
}

static inline void *sr_trapped_site(const ucontext_t *uc)
{
	return (void *)uc->uc_mcontext.gregs[REG_RIP];
}

static inline void sr_trapped_return(ucontext_t *uc, long result)
{
	uc->uc_mcontext.gregs[REG_RAX] = result;
}

/*
 * Executes a trapped rt_sigreturn.  The kernel takes the signal frame from the stack pointer,
 * so this function first sets it to the stack pointer of the trapped code.
 */
static inline void __attribute__((noreturn)) sr_sigreturn_of(const ucontext_t *uc)
{
	__asm__ volatile("mov %0, %%rsp\n\t"
			 "mov %1, %%eax\n\t"
			 "syscall"
			 :
			 : "r"(uc->uc_mcontext.gregs[REG_RSP]), "i"(SYS_rt_sigreturn)
			 : "memory");
	__builtin_unreachable();
}

/*
 * Executes clone or clone3 (nr) for a child with a stack of its own, and returns its result to
 * the parent.  The child continues behind the trapped system call, with the registers of the
 * trapped code (regs).  The parent may return before the child runs, so the child cannot use
 * the parent's stack frame: its registers are loaded before the system call, and the caller
 * has stored the address to continue at in the word below the child's stack pointer.
 */
long sr_trap_clone(long nr, const uint64_t a[6], const greg_t *regs);
__asm__(".pushsection .text\n"
	".type sr_trap_clone, @function\n"
	".local sr_trap_clone\n"
	"sr_trap_clone:\n"
	"	push %rbx\n"
	"	push %rbp\n"
	"	push %r12\n"
	"	push %r13\n"
	"	push %r14\n"
	"	push %r15\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rcx\n"
	"	mov %rdx, %r11\n"
	"	mov 0(%rcx), %rdi\n"
	"	mov 8(%rcx), %rsi\n"
	"	mov 16(%rcx), %rdx\n"
	"	mov 24(%rcx), %r10\n"
	"	mov 32(%rcx), %r8\n"
	"	mov 40(%rcx), %r9\n"
	/* gregs are 8 bytes each, in the order of <sys/ucontext.h> */
	"	mov 8*4(%r11), %r12\n"
	"	mov 8*5(%r11), %r13\n"
	"	mov 8*6(%r11), %r14\n"
	"	mov 8*7(%r11), %r15\n"
	"	mov 8*10(%r11), %rbp\n"
	"	mov 8*11(%r11), %rbx\n"
	"	syscall\n"
	"	test %rax, %rax\n"
	"	jz 1f\n"
	"	pop %r15\n"
	"	pop %r14\n"
	"	pop %r13\n"
	"	pop %r12\n"
	"	pop %rbp\n"
	"	pop %rbx\n"
	"	ret\n"
	"1:	jmp *-8(%rsp)\n"
	".size sr_trap_clone, . - sr_trap_clone\n"
	".popsection\n");

#endif
