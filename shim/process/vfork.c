/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vfork.c: a vfork child runs in its parent's memory and calls close, dup2, _exit and others
 * there. In a recorded process these calls would be recorded as the parent's. So vfork is a fork
 * there: the child has its own memory, and the shim can tell it from the parent.
 *
 * In any other process the real vfork runs, because some programs learn through the shared memory
 * that an exec has failed. vfork returns twice, so this code cannot call it: it jumps there, with
 * the stack and the return address of the program's call.
 */
#include <unistd.h>

#include "logd/base/compiler.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/core/next.h"
#include "shim/process/children.h"

void *sr_vfork(void) SR_HIDDEN __attribute__((used));

void *sr_vfork(void)
{
	SR_NEXT(next, "vfork");

	return sr_engine ? (void *)sr_children_vfork : sr_next(&next);
}

#if defined(__x86_64__)
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, @function\n"
	"vfork:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	sub $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call sr_vfork\n"
	"	add $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	jmp *%rax\n"
	"	.cfi_endproc\n"
	".size vfork, . - vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, %function\n"
	"vfork:\n"
	"	.cfi_startproc\n"
	"	stp x29, x30, [sp, #-16]!\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset x29, -16\n"
	"	.cfi_offset x30, -8\n"
	"	bl sr_vfork\n"
	"	mov x16, x0\n"
	"	ldp x29, x30, [sp], #16\n"
	"	.cfi_def_cfa_offset 0\n"
	"	.cfi_restore x29\n"
	"	.cfi_restore x30\n"
	"	br x16\n"
	"	.cfi_endproc\n"
	".size vfork, . - vfork\n");
#endif
