/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/signals/shown.h"

#include <string.h>
#include <unwind.h>

#include "shim/core/call_stack.h"
#include "shim/core/own_image.h"
#include "shim/signals/frame.h"

#if defined(__x86_64__)

/* REG_R8 to REG_EFL are the first, in this order (sys/ucontext.h). */
_Static_assert(REG_R8 == 0 && REG_EFL == SR_HIDDEN_REGISTERS - 1, "the first registers of a context");

/* Registers that a call leaves as they are, in the order of struct sr_caller; and their numbers for unwinders (System V ABI). */
static const struct {
	uint8_t in_context, of_unwinder;
} kept_by_calls[] = {{REG_RBX, 3}, {REG_RBP, 6}, {REG_R12, 12}, {REG_R13, 13}, {REG_R14, 14}, {REG_R15, 15}};

#define KEPT (sizeof(kept_by_calls) / sizeof(kept_by_calls[0]))

/* Interrupt enable, and a bit that is always set. */
#define FLAGS 0x202

struct caller {
	uintptr_t pc, sp;
	uint64_t kept[KEPT];
};

/* ------------------------------------------------------- on the program's stack */

/* Frames of the shim's handler, of the shim in the call, and of what it calls. */
#define FRAMES_MOST 64

struct walk {
	uintptr_t pc, sp; /* where the signal came */
	uintptr_t base;	  /* the call's frame */
	bool inside;	  /* this frame, and those further out, are the interrupted code's */
	int frames;
	struct caller *caller;
};

static bool is_callers(const struct walk *w, uintptr_t pc, uintptr_t sp)
{
	return w->inside && pc && sp > w->base && !sr_is_own_code(pc);
}

static _Unwind_Reason_Code look_at_frame(struct _Unwind_Context *context, void *argument)
{
	struct walk *w = argument;
	/* That of a frame is where its callee's frame ends. */
	const uintptr_t pc = _Unwind_GetIP(context), sp = _Unwind_GetCFA(context);

	w->inside |= pc == w->pc && sp == w->sp;
	if (!is_callers(w, pc, sp))
		return ++w->frames < FRAMES_MOST ? _URC_NO_REASON : _URC_END_OF_STACK;
	w->caller->pc = pc;
	w->caller->sp = sp;
	for (size_t i = 0; i < KEPT; i++)
		w->caller->kept[i] = _Unwind_GetGR(context, kept_by_calls[i].of_unwinder);
	return _URC_END_OF_STACK;
}

static bool unwind(const struct sr_thread *t, const ucontext_t *uc, struct caller *caller)
{
	struct walk w = {
	    .pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP],
	    .sp = sr_frame_stack_pointer(uc),
	    .base = t->signals.base,
	    .caller = caller,
	};

	caller->pc = 0;
	_Unwind_Backtrace(look_at_frame, &w);
	return caller->pc;
}

/* ----------------------------------------------------------------- in any call */

static void find_on_call_stack(const struct sr_caller *from, struct caller *caller)
{
	caller->pc = *(const uintptr_t *)from->stack;
	caller->sp = from->stack + sizeof(uintptr_t);
	memcpy(caller->kept, from->registers, sizeof(caller->kept));
}

/*
 * An unwinder takes this for the address of an instruction, not for one behind a call.  Behind a call that never returns another
 * function may begin; then it is shown the call itself.
 */
static uintptr_t shown_address(uintptr_t pc)
{
	return _Unwind_FindEnclosingFunction((void *)pc) == _Unwind_FindEnclosingFunction((void *)(pc + 1)) ? pc : pc - 1;
}

void sr_show_caller(const struct sr_thread *t, ucontext_t *uc, struct sr_hidden_context *hidden)
{
	const struct sr_caller *on_call_stack = sr_caller_of(&t->signals.stack, sr_frame_stack_pointer(uc));
	greg_t *r = uc->uc_mcontext.gregs;
	struct caller caller;

	hidden->shown = 0;
	if (on_call_stack)
		find_on_call_stack(on_call_stack, &caller);
	else if (!unwind(t, uc, &caller))
		return;
	memcpy(hidden->registers, r, sizeof(hidden->registers));
	memset(r, 0, sizeof(hidden->registers));
	for (size_t i = 0; i < KEPT; i++)
		r[kept_by_calls[i].in_context] = (greg_t)caller.kept[i];
	hidden->shown = shown_address(caller.pc);
	r[REG_RIP] = (greg_t)hidden->shown;
	r[REG_RSP] = (greg_t)caller.sp;
	r[REG_EFL] = FLAGS;
}

bool sr_unshow_caller(ucontext_t *uc, const struct sr_hidden_context *hidden)
{
	if (!hidden->shown)
		return true;
	if ((uintptr_t)uc->uc_mcontext.gregs[REG_RIP] != hidden->shown)
		return false;
	memcpy(uc->uc_mcontext.gregs, hidden->registers, sizeof(hidden->registers));
	return true;
}

#else

void sr_show_caller(const struct sr_thread *t, ucontext_t *uc, struct sr_hidden_context *hidden)
{
	hidden->shown = 0;
}

bool sr_unshow_caller(ucontext_t *uc, const struct sr_hidden_context *hidden)
{
	return true;
}

#endif
