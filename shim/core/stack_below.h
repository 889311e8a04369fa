/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stack_below.h: what a call leaves on the stack below its caller.
 *
 * Programs send bytes that they never wrote: padding, the unwritten end of a struct.  If it lies on
 * the stack, it holds what earlier functions left there, and the recorder leaves other bytes than a
 * replay.  So both clear the stack below an intercepted call before it returns.
 */
#ifndef SHIM_CORE_STACK_BELOW_H
#define SHIM_CORE_STACK_BELOW_H

#include <stdint.h>

/*
 * So many bytes, at an operation on the data path, at a poll that found something, and at any other
 * call.  After such a poll a library calls its handlers, and these make answers on their stack, several
 * functions deep.  The recorder itself goes deeper, so a small stack has room for it.  What the rest of
 * its frames leaves below is met by functions that need more stack than this.
 */
#define SR_STACK_OPERATION 512
#define SR_STACK_COMPLETED 8192
#define SR_STACK_CALL      2048

/* In a frame that is about to return, and keeps nothing below its stack pointer. */
static inline __attribute__((always_inline)) void sr_clear_stack_below(const int bytes)
{
#if defined(__x86_64__)
	char *at;

	/* "rep stos" takes longer to begin than these stores to end. */
	__asm__ volatile("pxor %%xmm0, %%xmm0\n\t"
			 "lea %c1(%%rsp), %0\n"
			 "1:\tmovups %%xmm0, (%0)\n\t"
			 "movups %%xmm0, 16(%0)\n\t"
			 "movups %%xmm0, 32(%0)\n\t"
			 "movups %%xmm0, 48(%0)\n\t"
			 "add $64, %0\n\t"
			 "cmp %%rsp, %0\n\t"
			 "jne 1b"
			 : "=&r"(at)
			 : "i"(-bytes)
			 : "memory", "xmm0", "cc");
#endif
}

#endif
