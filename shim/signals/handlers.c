/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/signals/handlers.h"

#include <string.h>

#include "shim/core/call_stack.h"
#include "shim/core/engine.h"
#include "shim/core/stack_below.h"
#include "shim/memory/heap.h"
#include "logd/base/say.h"
#include "shim/signals/dispositions.h"
#include "shim/signals/shown.h"
#include "shim/signals/stack.h"
#include "shim/signals/waiting.h"
#include "shim/core/thread.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/exposed.h"

/*
 * abort makes libc send the signal without an intercepted call. A replay calls abort as
 * well, so the signal comes again there.
 */
static bool is_abort(int signo, const siginfo_t *info)
{
	return signo == SIGABRT && info->si_code == SI_TKILL && !sr_self.depth &&
	       info->si_pid == sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

bool sr_signal_is_fault(int signo, const siginfo_t *info)
{
	return (SR_SIGNAL_FAULTS & SR_SIGNAL_BIT(signo) && info->si_code > 0) ||
	       is_abort(signo, info);
}

/* ------------------------------------------------------------- no handler at all */

/*
 * The default action hits the interrupted code, after the shim's handler has returned, so
 * that a core dump shows the program's code.
 */
void sr_signal_by_default(int signo, siginfo_t *info, ucontext_t *uc)
{
	const struct sr_kernel_action none = {.handler = (void *)SIG_DFL};
	uint64_t bit = SR_SIGNAL_BIT(signo);

	sr_kernel_mask(SIG_BLOCK, &bit, NULL);
	sr_kernel_action(signo, &none, NULL);
	sr_queue_to_self(signo, info);
	sr_frame_set_mask(uc, sr_frame_mask(uc) & ~bit);
}

/* ------------------------------------------------- calls that are interrupted */

/*
 * Saves the record of the interrupted call while the handler runs. It cannot be in the
 * handler's frame, since a handler that jumps away never returns that frame. If all places
 * are in use, the oldest is used again.
 */
#define SAVED_MAX 16

struct sr_saved_buffer {
	struct sr_buf buf;
	uint32_t generation;
};

/* What the thread was doing; stored in the frame. */
struct interrupted {
	int32_t depth;
	uint8_t heap, raw, inside_rdmacm, interruptible, taking, trapped;
	uint8_t saved, exposed_call;
	bool computed; /* and since then no call was made but by the handler */
	bool at_place; /* of the program's code, which is in the trace */
	uint32_t slot, generation, guards, stack;
	uint64_t call_entry, gathered, frame, end, base;
	struct sr_hidden_context hidden;
};

_Static_assert(sizeof(struct interrupted) <= SR_FRAME_KEPT, "fits into the frame");

static void exchange(struct sr_buf *a, struct sr_buf *b)
{
	struct sr_buf c = *a;

	*a = *b;
	*b = c;
}

static void save_record(struct sr_thread *t, struct interrupted *i)
{
	struct sr_signal_state *s = &t->signals;
	struct sr_saved_buffer *l;

	if (!s->saved)
		s->saved = sr_alloc_zeroed(SAVED_MAX * sizeof(*s->saved));
	i->saved = s->saved != NULL;
	if (!s->saved)
		return;
	i->slot = s->next_saved;
	s->next_saved = (s->next_saved + 1) % SAVED_MAX;
	l = &s->saved[i->slot];
	i->generation = ++l->generation;
	/* The handler uses the buffer that was in that place. */
	exchange(&t->buf, &l->buf);
}

static void restore_record(struct sr_thread *t, const struct interrupted *i)
{
	struct sr_saved_buffer *l = &t->signals.saved[i->slot];

	if (l->generation != i->generation) {
		sr_say(
		    "a call was interrupted, and so many others in its handler that its record is "
		    "lost: the recording of thread %u is not exact",
		    t->number);
		return;
	}
	exchange(&t->buf, &l->buf);
	t->signals.next_saved = i->slot;
}

static void begin_handler(struct sr_thread *t, struct interrupted *i, int signo)
{
	struct sr_signal_state *s = &t->signals;

	*i = (struct interrupted){
	    .depth = t->depth,
	    .heap = (uint8_t)t->heap,
	    .raw = t->raw,
	    .inside_rdmacm = t->inside_rdmacm,
	    .interruptible = s->interruptible,
	    .taking = s->taking,
	    .trapped = s->trapped_before,
	    .call_entry = s->call_entry,
	    .gathered = t->received.gathered,
	    .frame = s->frame,
	    .base = s->base,
	    .at_place = s->at_place & SR_SIGNAL_BIT(signo),
	    .guards = probes_handler_begins(),
	    .stack = s->stack.current,
	    .end = s->stack.end,
	};
	s->at_place = 0;
	i->exposed_call = sr_exposed_call_interrupted();
	i->computed = s->computed && s->computed_sn == t->sn;
	if (t->depth)
		save_record(t, i);
	t->depth = 0;
	t->raw = false;
	sr_select(t);
	t->heap = SR_HEAP_PROGRAM;
	t->inside_rdmacm = s->interruptible = false;
	s->taking = 0;
	s->handlers++;
}

static void end_handler(struct sr_thread *t, const struct interrupted *i)
{
	struct sr_signal_state *s = &t->signals;

	s->handlers--;
	if (i->depth && i->saved)
		restore_record(t, i);
	t->received.gathered = i->gathered;
	t->inside_rdmacm = i->inside_rdmacm;
	t->heap = (enum sr_heap)i->heap;
	s->call_entry = i->call_entry;
	s->interruptible = i->interruptible;
	s->taking = i->taking;
	s->frame = i->frame;
	s->base = i->base;
	s->computed = i->computed;
	s->computed_sn = t->sn;
	probes_handler_ends(i->guards);
	sr_exposed_call_resumes(i->exposed_call);
	t->depth = i->depth;
	t->raw = i->raw;
	sr_select(t);
	/* The thread is back in the real call. */
	if (i->depth)
		sr_engine_releases(t);
}

void sr_handlers_thread_ends(struct sr_thread *t)
{
	struct sr_saved_buffer *saved = t->signals.saved;

	t->signals.saved = NULL;
	for (int i = 0; saved && i < SAVED_MAX; i++)
		sr_free(saved[i].buf.p);
	sr_free(saved);
}

/* -------------------------------------------------------------------- they run */

/*
 * show() makes the context look as the program's handler expects it; unshow() turns it back
 * into what the kernel takes.
 */
static void show(struct sr_signal_state *s, ucontext_t *uc)
{
	sr_frame_set_mask(uc, sr_signals_are_replayed() ? s->recorded_mask
							: sr_frame_mask(uc) | s->hidden);
	if (s->stack.own)
		uc->uc_stack = s->stack.program;
}

static void unshow(struct sr_signal_state *s, ucontext_t *uc)
{
	uint64_t mask = sr_frame_mask(uc);

	s->hidden = mask & sr_signals_claimed();
	/* A replay blocks nothing: the trace decides which signals come. */
	sr_frame_set_mask(uc, sr_signals_are_replayed() ? 0 : mask & ~sr_signals_claimed());
	if (s->stack.own)
		s->stack.program = uc->uc_stack;
}

/* Back on the stacks that the interrupted code had; this code is still on another one, and its frame on the program's. */
static void return_stacks(struct sr_signal_stack *stack, ucontext_t *uc, const struct interrupted *i)
{
	sr_signal_stack_back(stack, i->stack, i->end);
	if (stack->own)
		uc->uc_stack = sr_signal_stack_for(stack, sr_frame_stack_pointer(uc));
}

/*
 * The program is about to go on at uc.  A handler that ran at a place has returned to it, so the next one can run there
 * as well; in a replay, if it did.
 */
static void go_on(struct sr_thread *t, ucontext_t *uc, bool at_place)
{
	if (sr_signals_are_replayed()) {
		if (at_place && sr_engine_is_active())
			sr_engine->returned_to_place(t);
	} else if (t->signals.waiting && at_place) {
		sr_signals_deliver_next(t, uc, true);
	} else if (t->signals.waiting) {
		sr_signals_await_place(t, uc);
	}
}

static void after_handler(ucontext_t *uc, void *kept)
{
	struct sr_thread *t = &sr_self;
	const struct interrupted *i = kept;
	const bool returns = sr_unshow_caller(uc, &i->hidden);
	struct probes_guard guard;

	probes_guard_begin(&guard);
	if (returns)
		end_handler(t, i);
	unshow(&t->signals, uc);
	if (returns)
		go_on(t, uc, i->at_place);
	return_stacks(&t->signals.stack, uc, i);
	probes_guard_end(&guard);
}

/* This runs on the handlers' stack.  A claimed signal may come as soon as the end of the program's is known. */
static void after_moved_handler(ucontext_t *uc, void *kept, uintptr_t frame)
{
	struct sr_signal_state *s = &sr_self.signals;
	const uint64_t all = ~sr_signals_claimed();

	s->stack.end = frame;
	s->trapped = false;
	sr_kernel_mask(SIG_SETMASK, &all, NULL);
	sr_frame_clear(frame);
	after_handler(uc, kept);
	sr_signals_release_at_return(s);
	s->trapped = ((const struct interrupted *)kept)->trapped;
}

static void move_to(int signo, const siginfo_t *info, ucontext_t *uc, void *handler, uintptr_t top,
		    uint64_t mask, const struct interrupted *kept)
{
	_Alignas(8) unsigned char room[SR_FRAME_KEPT] = {0};
	struct sr_signal_stack *stack = &sr_self.signals.stack;
	const struct sr_frame_plan plan = {
	    .top = top,
	    .mask = mask,
	    .handler = handler,
	    .signo = signo,
	    .after = after_moved_handler,
	    .after_top = sr_signal_stack_own_top(stack),
	    .kept = room,
	};

	memcpy(room, kept, sizeof(*kept));
	/* A claimed signal may come before the handler has begun: its frame belongs below this one's. */
	sr_self.signals.frame = stack->end = sr_frame_place(uc, top);
	sr_frame_move(uc, info, &plan);
	uc->uc_stack = sr_signal_stack_for(stack, stack->end);
}

/* The handler belongs on this stack, so call it here with the frame that the kernel made. */
static void run_here(int signo, siginfo_t *info, ucontext_t *uc, void *handler, uint64_t mask,
		     struct interrupted *kept)
{
	const uint64_t all = ~sr_signals_claimed();

	sr_kernel_mask(SIG_SETMASK, &mask, NULL);
	((void (*)(int, siginfo_t *, void *))handler)(signo, info, uc);
	sr_kernel_mask(SIG_SETMASK, &all, NULL);
	after_handler(uc, kept);
}

/* More than the recorder's frames, or a replay's, take in a call; libraries' may take more. */
#define BELOW_BASE 4096

/*
 * Where the handler's frame begins on the program's stack, which ends there.  In a call, the shim's frames are longer in one
 * mode than in the other: so it begins at a distance from the call itself, where there is room.
 */
static uintptr_t frame_top(const struct sr_thread *t, uintptr_t end)
{
	uintptr_t top = (t->signals.base - BELOW_BASE) & ~63ul;

	end -= SR_RED_ZONE;
	return (t->depth || t->signals.taking) && end - top < 2 * BELOW_BASE && sr_stack_has_room(t, top) ? top : end;
}

static void run(int signo, siginfo_t *info, ucontext_t *uc, const struct sr_kernel_action *a,
		uintptr_t here)
{
	struct sr_thread *t = &sr_self;
	struct sr_signal_state *s = &t->signals;
	uint64_t added = a->flags & SA_NODEFER ? a->mask : a->mask | SR_SIGNAL_BIT(signo);
	uint64_t mask = sr_frame_mask(uc);
	uintptr_t sp = sr_frame_stack_pointer(uc), end = sr_signal_stack_of_program(&s->stack, sp), top = 0;
	const bool in_call = t->depth || s->taking;
	struct interrupted kept;

	if (!sr_signals_are_replayed())
		mask = (mask | added) & ~sr_signals_claimed();
	if (a->flags & SA_RESETHAND)
		sr_signals_reset(signo);
	if (a->flags & SA_ONSTACK)
		top = sr_signal_stack_top(&s->stack, end);
	if (!top && sr_signal_stack_is_own(&s->stack, here))
		top = frame_top(t, end);
	show(s, uc);
	sr_signal_stack_disarm(&s->stack);
	s->hidden |= added & sr_signals_claimed();
	begin_handler(t, &kept, signo);
	if (in_call)
		sr_show_caller(t, uc, &kept.hidden);
	/* The frames of the call that it interrupts stay where they are. */
	if (sp != end)
		sr_signal_stack_next(&s->stack);
	if (top)
		move_to(signo, info, uc, a->handler, top, mask, &kept);
	else
		run_here(signo, info, uc, a->handler, mask, &kept);
}

void sr_handler_for_fault(int signo, siginfo_t *info, ucontext_t *uc,
			  const struct sr_kernel_action *a, uintptr_t here)
{
	sr_self.signals.recorded_mask = sr_frame_mask(uc);
	sr_self.signals.at_once = sr_self.signals.at_place = 0;
	run(signo, info, uc, a, here);
}

static uint16_t place_of(const struct sr_thread *t, int signo)
{
	if (t->depth)
		return SR_SIGNAL_IN_CALL;
	if (t->signals.at_place & SR_SIGNAL_BIT(signo))
		return SR_SIGNAL_AFTER;
	return t->signals.taking ? t->signals.taking : SR_SIGNAL_BETWEEN;
}

/* False in a replay if the signal comes from outside. */
static bool is_recorded(struct sr_thread *t, int signo, const siginfo_t *info, const ucontext_t *uc)
{
	struct sr_signal_state *s = &t->signals;
	struct sr_signal_payload p = {
	    .signo = (uint32_t)signo,
	    .place = place_of(t, signo),
	    .flags = s->at_place & SR_SIGNAL_BIT(signo) && s->same_place ? SR_SIGNAL_SAME_PLACE : 0,
	    .level = s->handlers,
	    .mask = sr_frame_mask(uc) | s->hidden,
	};

	if (!sr_engine_is_active())
		return true;
	memcpy(p.info, info, sizeof(p.info));
	if (!sr_engine->signal(t, &p))
		return false;
	s->recorded_mask = p.mask;
	return true;
}

/*
 * May the signal wait for the next call, where a replay can deliver it at the same place?
 * Not if it has made a system call fail that the shim does not see: the program would not
 * find the reason.
 */
static bool can_wait(struct sr_thread *t, int signo, const ucontext_t *uc)
{
	struct sr_signal_state *s = &t->signals;

	return !t->depth && !s->interruptible && !s->taking &&
	       !(s->at_once & SR_SIGNAL_BIT(signo)) && s->queue && sr_engine_is_active() &&
	       !t->ended && !sr_frame_is_interrupted_call(uc) &&
	       sr_signals_claimed() & SR_SIGNAL_BIT(SIGSEGV);
}

static bool is_replays(int signo, siginfo_t *info, ucontext_t *uc)
{
	if (is_recorded(&sr_self, signo, info, uc))
		return true;
	if (sr_signal_ends_replay(signo))
		sr_signal_by_default(signo, info, uc);
	return false;
}

void sr_handler_for_sent(int signo, siginfo_t *info, ucontext_t *uc,
			 const struct sr_kernel_action *a, uintptr_t here)
{
	struct sr_thread *t = &sr_self;
	struct sr_signal_state *s = &t->signals;

	if (sr_signals_are_replayed()) {
		if (is_replays(signo, info, uc))
			run(signo, info, uc, a, here);
		return;
	}
	if (sr_is_section(t)) {
		sr_signal_wait_for_section(s, signo, info, uc);
		return;
	}
	/* Between two calls, but within a probe's code for a load or store of the program. */
	if (probes_is_section(uc)) {
		sr_signal_wait_for_section(s, signo, info, uc);
		sr_signals_left(t);
		return;
	}
	/*
	 * A thread that has not begun yet has no number; wait until it has the number of its
	 * pthread_create.
	 */
	if (!t->numbered && !s->at_once) {
		sr_signal_wait_for_section(s, signo, info, uc);
		sr_signals_left(t);
		return;
	}
	if (can_wait(t, signo, uc)) {
		/* Many signals may wait if the machine gave the thread no time. */
		if (sr_signal_queue_is_full(s))
			sr_signal_queue_grow(s);
		if (sr_signal_enqueue(s, signo, info)) {
			sr_signals_await_place(t, uc);
			return;
		}
	}
	is_recorded(t, signo, info, uc);
	s->at_once = 0;
	run(signo, info, uc, a, here);
}

void sr_signals_replay(int signo, const siginfo_t *info)
{
	siginfo_t copy = *info;

	/* Send it through the kernel, which makes a context and a frame for it. */
	sr_queue_to_self(signo, &copy);
}
