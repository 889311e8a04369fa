/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * call_stack.h: the stack on which the shim and the provider carry out an operation of the data path.
 *
 * Programs send bytes that they never wrote: padding, the unwritten end of a struct.  On the program's own stack the
 * recorder would leave other bytes there than a replay.  On a stack of their own neither leaves any.
 *
 * Each thread has several: a handler of the program that interrupts an operation makes its own ones on the next
 * (signals/stack.h, which maps them).  At the upper end of each is what the program's registers were at the call.  They lie
 * lower than the stacks of the program's threads (memory/heap.h): gdb takes a lower address for an inner frame.
 */
#ifndef SHIM_CORE_CALL_STACK_H
#define SHIM_CORE_CALL_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/core/thread.h"

/* What an operation's entry (calls/on_call_stack.h) stores at the upper end of a call stack. */
struct sr_caller {
	uint64_t registers[6]; /* that a called function leaves as they are, but for the stack pointer */
	uintptr_t stack;       /* there is the address that the operation returns to */
	uint64_t unused;
};

_Static_assert(offsetof(struct sr_thread, depth) == 0 && offsetof(struct sr_thread, call_stack) == 8, "as in the entry");
_Static_assert(offsetof(struct sr_caller, stack) == 48 && sizeof(struct sr_caller) % 16 == 0, "as in the entry");

/* With the page at the lower end that nobody may touch. */
#define SR_CALL_STACK_BYTES (128ul << 10)
#define SR_CALL_STACKS      8u

/* Where this one of the stacks begins, with what an operation's entry stores there. */
static inline struct sr_caller *sr_caller_on(const struct sr_signal_stack *s, uintptr_t n)
{
	return (struct sr_caller *)(s->calls + (n + 1) * SR_CALL_STACK_BYTES) - 1;
}

/* The same, if the stack pointer is on one of them; else NULL. */
static inline const struct sr_caller *sr_caller_of(const struct sr_signal_stack *s, uintptr_t sp)
{
	const uintptr_t at = sp - s->calls;

	return s->own && at < SR_CALL_STACKS * SR_CALL_STACK_BYTES ? sr_caller_on(s, at / SR_CALL_STACK_BYTES) : NULL;
}

/* Where the program's stack ends, for code of an operation with this stack pointer; for other code it is that. */
static inline uintptr_t sr_end_of_callers_stack(const struct sr_signal_stack *s, uintptr_t sp)
{
	const struct sr_caller *caller = sr_caller_of(s, sp);

	return caller ? caller->stack : sp;
}

/* Calls f, which nothing of the caller's stack is given to but its argument, on the stack that ends there. */
static inline void sr_run_on_stack(void *end, void (*f)(uintptr_t), uintptr_t argument)
{
#if defined(__x86_64__)
	__asm__ volatile("mov %%rsp, %%rbx\n\tmov %[end], %%rsp\n\tcall *%[f]\n\tmov %%rbx, %%rsp"
			 : "+D"(argument)
			 : [end] "r"(end), [f] "r"(f)
			 : "rbx", "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",
			   "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
#else
	f(argument);
#endif
}

#endif
