/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame.h: what the kernel puts on a stack for a handler.
 *
 * The shim's handler runs on another stack than the program's.  So the frame that the kernel
 * made is copied to where the program's handler needs it, and the context is changed so that
 * the return from the shim's handler starts the program's.  That one returns by a rt_sigreturn
 * from the copy.  A handler that changes its context, unwinds or never returns finds what it
 * would find without the shim.
 */
#ifndef SHIM_SIGNALS_FRAME_H
#define SHIM_SIGNALS_FRAME_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* sigaction as the kernel has it. */
struct sr_kernel_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

#ifndef SA_RESTORER
#define SA_RESTORER 0x04000000
#endif

/* A handler that is to begin, and what comes after it. */
struct sr_frame_plan {
	uintptr_t top; /* of the stack */
	uint64_t mask;
	void *handler; /* gets the usual three arguments */
	int signo;
	/*
	 * When it returns: on another stack, since programs keep things below the end
	 * of their handlers' (a coroutine's first frame), with that mask.
	 */
	void (*after)(ucontext_t *uc, void *kept);
	uintptr_t after_top;
	uint64_t after_mask;
	const void *kept; /* SR_FRAME_KEPT bytes, copied; they lie in the frame */
};

#define SR_FRAME_KEPT 64

/* False on machines that this file has no code for. */
bool sr_frame_supported(void);

/* How a handler returns: code in this library that debuggers and unwinders recognise. */
void sr_frame_restorer(void);

uintptr_t sr_frame_stack_pointer(const ucontext_t *uc);

/* Has a system call failed just now, for this signal?  One that is to be made again has not. */
bool sr_frame_is_interrupted_call(const ucontext_t *uc);

/* Or is one interrupted that will be made again, or is about to be made? */
bool sr_frame_is_in_call(const ucontext_t *uc);

/* The interrupted code keeps nothing below this address. */
uintptr_t sr_frame_free_stack(const ucontext_t *uc);

/* When this context is returned to, the handler begins; what it interrupts is *uc as it was. */
void sr_frame_move(ucontext_t *uc, const siginfo_t *info, const struct sr_frame_plan *plan);

static inline uint64_t sr_frame_mask(const ucontext_t *uc)
{
	uint64_t mask;

	/* The kernel's set is shorter than sigset_t, and what lies behind it is none. */
	__builtin_memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
	return mask;
}

static inline void sr_frame_set_mask(ucontext_t *uc, uint64_t mask)
{
	__builtin_memcpy(&uc->uc_sigmask, &mask, sizeof(mask));
}

#endif
