/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * on_call_stack.h: an operation's entry, which changes to the thread's call stack (core/call_stack.h).
 *
 * NAME goes to NAME_apart there.  Inside another call, and in a thread without such stacks, it goes to NAME_beneath, on the
 * stack that it was called on.  The entry writes nothing below that stack's pointer, and an unwinder finds the caller.  It
 * stores the caller's registers (struct sr_caller) for handlers that interrupt the call.
 */
#ifndef SHIM_CALLS_ON_CALL_STACK_H
#define SHIM_CALLS_ON_CALL_STACK_H

#if defined(__x86_64__)
/* The escape says that the caller's frame begins 8 bytes above what the word at 48(%rsp) points to. */
/* clang-format off */
#define SR_ON_CALL_STACK(name) \
	__asm__(".pushsection .text\n" \
		"	.p2align 4\n" \
		"	.type " #name ", @function\n" \
		"	.hidden " #name "\n" \
		"	.globl " #name "\n" \
		#name ":\n" \
		"	.cfi_startproc\n" \
		"	mov sr_self@gottpoff(%rip), %rax\n" \
		"	mov %fs:8(%rax), %r11\n" /* call_stack */ \
		"	cmpl $0, %fs:(%rax)\n" /* depth */ \
		"	jne 1f\n" \
		"	test %r11, %r11\n" \
		"	je 1f\n" \
		"	mov %rbx, (%r11)\n" \
		"	mov %rbp, 8(%r11)\n" \
		"	mov %r12, 16(%r11)\n" \
		"	mov %r13, 24(%r11)\n" \
		"	mov %r14, 32(%r11)\n" \
		"	mov %r15, 40(%r11)\n" \
		"	mov %rsp, 48(%r11)\n" \
		"	mov %r11, %rsp\n" \
		"	.cfi_escape 0x0f, 5, 0x77, 48, 0x06, 0x23, 8\n" \
		"	call " #name "_apart\n" \
		"	mov 48(%rsp), %rsp\n" \
		"	.cfi_def_cfa %rsp, 8\n" \
		"	mov %rax, %rdi\n" \
		"	jmp sr_left_cleared\n" \
		"1:	jmp " #name "_beneath\n" \
		"	.cfi_endproc\n" \
		".size " #name ", . - " #name "\n" \
		".popsection\n")
/* clang-format on */
#else
#define SR_ON_CALL_STACK(name) __asm__(".set " #name ", " #name "_beneath")
#endif

#endif
