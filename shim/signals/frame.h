/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame.h: the signal frame that the kernel puts on a stack for a handler.
 *
 * The shim's handler runs on its own stack, not on the program's. To start the program's
 * handler, the shim copies the kernel's frame to the stack where that handler belongs, and
 * changes the context so that the return from the shim's handler enters the program's. The
 * program's handler returns with rt_sigreturn from the copy. If it changes its context,
 * unwinds or never returns, it meets what it would meet without the shim.
 */
#ifndef SHIM_SIGNALS_FRAME_H
#define SHIM_SIGNALS_FRAME_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* The kernel's layout of sigaction. */
struct sr_kernel_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

#ifndef SA_RESTORER
#define SA_RESTORER 0x04000000
#endif

/* So many bytes below its stack pointer a function without calls may use (System V ABI). */
#define SR_RED_ZONE 128

/* A handler to start, and what to do after it. */
struct sr_frame_plan {
	uintptr_t top; /* of the stack */
	uint64_t mask;
	void *handler; /* called with the usual three arguments */
	int signo;
	/*
	 * Called when the handler has returned, with all signals blocked, and with copies of what was in the
	 * frame. It runs on another stack, since programs keep data below the end of a handler's stack (a
	 * coroutine's first frame).
	 */
	void (*after)(ucontext_t *uc, void *kept, uintptr_t frame);
	uintptr_t after_top;
	const void *kept; /* SR_FRAME_KEPT bytes, copied into the frame */
};

#define SR_FRAME_KEPT 256

/* False on an architecture that this file does not support. */
bool sr_frame_supported(void);

/* The code that a handler returns to; debuggers and unwinders recognise it as a signal frame. */
void sr_frame_restorer(void);

uintptr_t sr_frame_stack_pointer(const ucontext_t *uc);

/*
 * Has this signal just made a system call fail with EINTR? A call that the kernel restarts
 * does not count.
 */
bool sr_frame_is_interrupted_call(const ucontext_t *uc);

/* The same, or is the thread about to make a system call, or to restart an interrupted one? */
bool sr_frame_is_in_call(const ucontext_t *uc);

/* Changes *uc so that a return to it starts the handler; the handler interrupts *uc as it was. */
void sr_frame_move(ucontext_t *uc, const siginfo_t *info, const struct sr_frame_plan *plan);

/* Where the frame will be: below it, the stack is the handler's. */
uintptr_t sr_frame_place(const ucontext_t *uc, uintptr_t top);

/*
 * The handler has returned. Its frame holds what differs in a replay (addresses of the shim, the number of the last fault), and
 * a later function of the program may have a hole there, for example in a struct that it sends.
 */
void sr_frame_clear(uintptr_t frame);

/* Is it where a handler that was moved has returned to?  All signals are blocked from there on. */
bool sr_frame_leaves(uintptr_t pc);

static inline uint64_t sr_frame_mask(const ucontext_t *uc)
{
	uint64_t mask;

	/*
	 * The kernel's mask is shorter than sigset_t; the bytes after it are not part of the mask.
	 */
	__builtin_memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
	return mask;
}

static inline void sr_frame_set_mask(ucontext_t *uc, uint64_t mask)
{
	__builtin_memcpy(&uc->uc_sigmask, &mask, sizeof(mask));
}

#endif
