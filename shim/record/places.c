/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/places.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>

#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/core/own_image.h"
#include "shim/core/phases.h"
#include "shim/core/run_token.h"
#include "shim/core/stall_timeout.h"
#include "shim/core/thread.h"
#include "shim/exposed/exposed.h"
#include "shim/exposed/page/thread.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/decode.h"
#include "shim/exposed/x86/mentions.h"
#include "shim/memory/images.h"
#include "shim/record/next_instruction.h"
#include "shim/record/notes.h"
#include "shim/record/place_words.h"
#include "shim/record/serial.h"
#include "shim/record/streams.h"
#include "shim/record/suited.h"
#include "shim/signals/frame.h"
#include "shim/signals/signals.h"
#include "shim/signals/stack.h"
#include "shim/threads/place.h"
#include "shim/threads/shared_code.h"
#include "shim/verbs/idle_poll.h"

/*
 * Steps until the turn of a loop counts as too long, and further ones until an instruction is suited.  An interpreter's loop
 * has long turns, of which only some words in memory tell one from the next; unless a heap operation is in it.
 */
#define TURN_MAX      48
#define LONG_TURN_MAX 600
/* No word is known that tells this place from the last one of a signal: one is to be found. */
#define SEARCH_TURN_MAX 1800
#define FIND_MAX      32
#define STEPS_MAX     4096 /* in all, with those in the shim's own code */
/* An exception takes some 10,000 through a handful of frames; after so many the next instruction is to do. */
#define UNWINDER_STEPS	   32768
#define UNWINDER_STEPS_MAX 262144
/* A string instruction of more elements, such as a memset of megabytes, is not stepped through: each costs a thousand times as much so. */
#define REPEATS_MAX   160
/*
 * In code that is in no file there is no place. But a thread that is asked there may spin, or be about to leave it: so it goes one
 * short turn, at the first of so many times that it is asked since its last call.
 */
#define OUTSIDE_ASKS 4
/* It came back so often within a short turn: a tight loop, in which a register counts. */
#define TIGHT	      3

#define XMM_AT	   160 /* in the frame of a signal */
#define XMM_BYTES  256
/* The others may have what a call of the recorder left there. */
#define KEPT_BY_CALLS (1u << 3 | 1u << 5 | 0xf000u)

/* One thread at a time is on its way to a place. */
static struct {
	_Atomic(struct sr_thread *) thread;
	bool for_signal;        /* it has signals to be delivered; else it is to give the run token away */
	uint64_t token;         /* the run token's word, as it was when it began */
	uint32_t steps, looked;
	bool outside; /* it began in code that is in no file */
	uint32_t outside_asks;
	uint64_t unwinder_sp; /* at the unwinder's last step, 0 if there was none */
	uint32_t unwinder_steps;
	bool unwinding;
	uintptr_t began_at, last, last_rip; /* the instruction at which it began; the one before this, and where that was executed */
	uint64_t began_with[16];
	char vectors[XMM_BYTES];
	uint32_t turn_max, returns;
	bool not_told; /* of some instruction it could not be told whether it is suited */
	bool hurries; /* the last turn was too long: a heap operation was in it, or a call */
	bool closed; /* it came back to where it began, with the same registers */
	bool changed; /* ... but not to the same memory */
	/* It came back with one register changed, or has paused: it counts while it waits. */
	bool counts, pauses;
	uint32_t counts_touched;
	bool other_vectors;
	struct sr_place place;
} step = {.turn_max = TURN_MAX};

/* ------------------------------------------------------------------- asking */

static char message;

static void ask(int32_t tid)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_signo = SIGSEGV;
	info.si_code = SI_QUEUE;
	info.si_pid = (pid_t)sr_sys_getpid();
	info.si_ptr = &message;
	sr_syscall(SYS_rt_tgsigqueueinfo, info.si_pid, tid, SIGSEGV, SR_ARG(&info), 0, 0);
}

/* ------------------------------------------------------------------- stopping */

static enum breakpoint_kind suits(uintptr_t pc)
{
	enum breakpoint_kind kind = sr_suited(pc);

	if (kind != BREAKPOINT_ASK_LATER)
		return kind;
	step.not_told = true;
	return BREAKPOINT_NONE;
}

/*
 * The shim does something for the thread, which on a slow machine may take long: behind a call it may search all code for
 * instructions that read the counter.  Soon it will be done.
 */
static bool is_at_work(const struct sr_thread *t)
{
	return t->depth || t->in_operation || exposed_self.probe.guards != 1 || exposed_self.probe.inside;
}

/*
 * A handler of the shim's has just begun, so is_at_work() does not know it yet: two signals came at once.  A step there would
 * kill the thread where SIGTRAP is blocked in its own handler.
 */
static bool is_on_own_stack(const struct sr_thread *t, const ucontext_t *uc)
{
	return sr_signal_stack_is_own(&t->signals.stack, sr_frame_stack_pointer(uc));
}

/* In the program's code, with the token, and in no handler of the shim's but this one. */
static bool may_stop(const struct sr_thread *t)
{
	return !is_at_work(t) && !t->ended && t->numbered && sr_token_is_asked_for(&t->run_token);
}

static void end_steps(ucontext_t *uc)
{
	uc->uc_mcontext.gregs[REG_EFL] &= ~FLAG_STEP;
	sr_token_end_stop(&sr_self.run_token);
	atomic_store(&step.thread, NULL);
}

/* ... or has signals to be delivered. */
static bool may_interrupt(const struct sr_thread *t)
{
	return !is_at_work(t) && !t->ended && t->numbered && t->signals.waiting;
}

static bool may_go_on(const struct sr_thread *t)
{
	return step.for_signal ? may_interrupt(t) : may_stop(t) && step.token == t->run_token.word;
}

/* What is compared of the stack ends there. */
static uint64_t end_of_stack(const struct sr_thread *t, uint64_t sp, uint64_t most)
{
	/* Others that run meanwhile may store there: a team's variables often lie on the main thread's stack. */
	if (sr_token_others_parted())
		return sp;
	/* The frame of a signal has registers that do not matter. */
	return t->signals.handlers && sp <= t->signals.frame && t->signals.frame - sp < most ? t->signals.frame : t->stack_top;
}

static void describe(const struct sr_thread *t, uintptr_t pc, const uint64_t r[16], const ucontext_t *uc)
{
	const uint64_t most = step.for_signal ? SR_PLACE_SIGNAL_STACK : SR_PLACE_STACK;
	struct sr_place_payload *p = &step.place.p;
	const char *vectors = (const char *)uc->uc_mcontext.fpregs + XMM_AT;

	p->pc = pc;
	p->heap_position = t->heap_ops;
	p->told_by = REGISTER_SP;
	p->compared |= 1u << REGISTER_SP;
	for (uint32_t i = 0; i < 16; i++)
		if (r[i] != step.began_with[i] && p->compared >> i & 1 && i != REGISTER_CX && p->told_by == REGISTER_SP)
			p->told_by = i;
	memcpy(p->registers, r, sizeof(p->registers));
	for (uint32_t i = 0; i < 16; i++)
		if (memcmp(step.vectors + 16 * i, vectors + 16 * i, 16))
			p->vectors |= 1u << i;
	p->vectors_sum = sr_place_sum_vectors(vectors, p->vectors);
	sr_place_take_stack(p, end_of_stack(t, p->registers[REGISTER_SP], most), most);
	if (sr_place_words_take(&step.place, step.for_signal) && p->told_by == REGISTER_SP)
		p->told_by = BREAKPOINT_BY_WORD;
	if (sr_place_words_touched() > SR_PLACE_WORDS)
		p->flags |= SR_PLACE_UNKNOWN;
	if (step.closed && !step.changed && !(p->flags & SR_PLACE_UNKNOWN) && !step.other_vectors)
		p->flags |= SR_PLACE_SPIN;
	else
		p->compared |= KEPT_BY_CALLS;
	if (sr_suited_take(pc) == BREAKPOINT_JUMP)
		p->flags |= SR_PLACE_JUMP;
}

/* Does the code wait for another thread, as far as its steps show? */
static bool is_waiting(void)
{
	return step.pauses || step.place.p.flags & SR_PLACE_SPIN || (step.counts && sr_place_words_touched() == step.counts_touched);
}

/* True if the thread is to part here. */
static bool note_phase(const struct sr_thread *t, uintptr_t pc, uintptr_t sp)
{
	uintptr_t site = t->run_token.site;

	if (is_waiting()) {
		sr_phase_waits(site);
		return false;
	}
	if (sr_phase_is_to_be_told(site) && sr_code_is_shared(pc, sp, t->stack_top))
		sr_phase_shares(site);
	else
		sr_phase_computes(site, sr_stall_now());
	return sr_phase_parts(site);
}

/* The thread is at the place: others run until it gets the token again. */
static void stop(struct sr_thread *t, ucontext_t *uc, uintptr_t pc, const uint64_t r[16])
{
	bool parts;
	enum sr_heap before = sr_enter(t);
	size_t size;

	if (!t->started)
		sr_record_start_thread(t);
	if (!sr_token_keep(&t->run_token)) {
		end_steps(uc);
		sr_leave(t, before);
		return;
	}
	describe(t, pc, r, uc);
	size = sizeof(step.place.p) + step.place.p.words * sizeof(step.place.word[0]);
	sr_record_note(t, SR_REC_PLACE, &step.place, size);
	sr_token_adapt_slice(step.place.p.flags & SR_PLACE_SPIN);
	parts = note_phase(t, pc, r[REGISTER_SP]);
	step.hurries = false;
	end_steps(uc);
	if (parts) {
		sr_serial_note(t, &(struct sr_token_payload){.what = SR_RUN_TOKEN_PARTED, .site = t->run_token.site});
		sr_token_part(&t->run_token);
	} else {
		sr_serial_release(t, SR_TOKEN_AWAY);
		sr_serial_run_again(t);
	}
	sr_leave(t, before);
	/* They need not wait for a call: it computes. */
	if (t->signals.waiting)
		sr_signals_compute(t, uc);
}

/* The thread is at the place: the handlers of its signals run when this one has returned. */
static void interrupt(struct sr_thread *t, ucontext_t *uc, uintptr_t pc, const uint64_t r[16])
{
	enum sr_heap before = sr_enter(t);

	if (!t->started)
		sr_record_start_thread(t);
	describe(t, pc, r, uc);
	step.place.p.flags |= SR_PLACE_SIGNAL;
	sr_idle_polls_forget(t);
	sr_record_note(t, SR_REC_PLACE, &step.place, sizeof(step.place.p) + step.place.p.words * sizeof(step.place.word[0]));
	step.hurries = false;
	end_steps(uc);
	sr_signals_deliver_next(t, uc, false);
	sr_leave(t, before);
}

/* ---------------------------------------------------------------------- steps */

/* Of the instruction that comes next: what it loads or stores. */
static void note_operand(uintptr_t pc, const uint64_t r[16])
{
	step.place.p.compared |= mentions_of(probes_code_at(pc));
	if (!sr_place_words_instruction(pc, r))
		step.place.p.flags |= SR_PLACE_UNKNOWN;
}

/* The loop has come back: has nothing but a count changed?  Further turns must not meet other memory. */
static void check_count(const uint64_t r[16])
{
	unsigned int changed = 0;

	for (uint32_t i = 0; i < 16; i++)
		changed += r[i] != step.began_with[i];
	if (step.counts || changed != 1 || step.other_vectors || step.place.p.flags & SR_PLACE_UNKNOWN || sr_place_words_any_changed())
		return;
	step.counts = true;
	step.counts_touched = sr_place_words_touched();
}

static void check_turn(uintptr_t pc, const uint64_t r[16], const ucontext_t *uc)
{
	const char *vectors = (const char *)uc->uc_mcontext.fpregs + XMM_AT;

	if (step.closed || !step.looked || pc != step.began_at)
		return;
	step.other_vectors = memcmp(step.vectors, vectors, XMM_BYTES);
	if (memcmp(r, step.began_with, sizeof(step.began_with))) {
		if (++step.returns == TIGHT && step.looked < TURN_MAX)
			step.turn_max = TURN_MAX;
		check_count(r);
		return;
	}
	step.closed = true;
	step.changed = sr_place_words_any_changed();
}

static bool is_place(uintptr_t pc)
{
	enum breakpoint_kind kind;

	if (!step.closed && step.looked < step.turn_max)
		return false;
	kind = suits(pc);
	/* What a trap costs is little beside the unwinder. */
	return kind == BREAKPOINT_JUMP ||
	       (kind == BREAKPOINT_TRAP && (step.unwinder_steps || step.looked >= step.turn_max + FIND_MAX || next_is_delicate(pc)));
}

/* The program's own address: a probe of exposed memory may have its instruction elsewhere. */
static uintptr_t original(ucontext_t *uc)
{
	greg_t *g = uc->uc_mcontext.gregs, rip = g[REG_RIP];
	uintptr_t pc;

	probes_enter(uc);
	pc = (uintptr_t)g[REG_RIP];
	g[REG_RIP] = rip;
	return pc;
}

/* The thread is nowhere where it could stop, but may be soon. */
static void stop_later(struct sr_thread *t, ucontext_t *uc)
{
	if (step.for_signal)
		sr_signals_search_again(t);
	else
		sr_token_ask_later(&t->run_token);
	end_steps(uc);
}

/* There is no such place here. */
static void give_up(struct sr_thread *t, ucontext_t *uc)
{
	/* Others must not run beside it, unless it waits for them. */
	bool waits = is_waiting() || (step.closed && !step.changed && !step.other_vectors);

	if (step.not_told || (!step.for_signal && !waits)) {
		stop_later(t, uc);
		return;
	}
	if (step.for_signal)
		sr_signals_deliver(t, uc);
	else
		sr_token_refuse_to_stop(&t->run_token);
	end_steps(uc);
}

/*
 * A string instruction traps after each of its elements, and again, until all are done, but is one step of the program.  So is one
 * under a probe's jump, or behind it: the thread is at the jump and at the copy, or at the jump that leads back and behind that.
 */
static bool is_within_last(uintptr_t pc, uintptr_t rip)
{
	return pc == step.last && (next_is_string(pc) || rip != pc || step.last_rip != pc);
}

static void begin_turn(void)
{
	step.looked = step.returns = 0;
	step.closed = step.changed = step.other_vectors = step.counts = step.pauses = false;
	sr_place_words_begin();
	memset(&step.place.p, 0, sizeof(step.place.p));
}

/* In what the unwinder calls, too, which has the stack below it. */
static bool is_unwinding(uintptr_t pc, uint64_t sp)
{
	if (!sr_is_unwinder((const void *)pc))
		return sp <= step.unwinder_sp;
	step.unwinder_sp = sp;
	return true;
}

static void step_through_unwinder(struct sr_thread *t, ucontext_t *uc, uintptr_t pc)
{
	step.unwinding = true;
	if (++step.unwinder_steps > UNWINDER_STEPS)
		step.turn_max = 0;
	if (step.unwinder_steps > UNWINDER_STEPS_MAX || next_is_delicate(pc) || sr_frame_leaves(pc))
		stop_later(t, uc);
	else
		uc->uc_mcontext.gregs[REG_EFL] |= FLAG_STEP;
}

/* What it leaves in vector registers matters to nobody, and has addresses in the list of libraries. */
static void leave_unwinder(const ucontext_t *uc)
{
	step.unwinding = false;
	memcpy(step.vectors, (const char *)uc->uc_mcontext.fpregs + XMM_AT, XMM_BYTES);
	/* The turn began in what the unwinder had called, which is skipped from now on. */
	if (step.began_with[REGISTER_SP] <= step.unwinder_sp)
		begin_turn();
}

/* The thread is about to execute another instruction. */
static void look(struct sr_thread *t, ucontext_t *uc)
{
	uintptr_t rip = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP], pc = original(uc);
	bool is_within;
	uint64_t r[16];

	/*
	 * What ld.so and the unwinder work on lies elsewhere in a replay, where fewer libraries are loaded, so no place there
	 * would be found again.  ld.so is soon done, and the thread is asked again.  So it is behind a handler, where all signals
	 * are blocked: a step there would kill the thread.  Programs that throw much are hardly ever outside of the unwinder.
	 */
	if (is_unwinding(pc, (uint64_t)*decode_register(uc, REGISTER_SP))) {
		step_through_unwinder(t, uc, pc);
		return;
	}
	if (sr_is_loader((const void *)pc) || sr_frame_leaves(pc)) {
		stop_later(t, uc);
		return;
	}
	uc->uc_mcontext.gregs[REG_EFL] |= FLAG_STEP;
	if (next_is_string(pc) && (uint64_t)*decode_register(uc, REGISTER_CX) > REPEATS_MAX) {
		stop_later(t, uc);
		return;
	}
	is_within = is_within_last(pc, rip);
	step.last = pc;
	step.last_rip = rip;
	if (++step.steps > STEPS_MAX || step.looked > step.turn_max + 2 * FIND_MAX) {
		give_up(t, uc);
		return;
	}
	if (is_within || sr_is_own_code(pc) || probes_is_section(uc))
		return;
	if (step.unwinding)
		leave_unwinder(uc);
	for (uint8_t i = 0; i < 16; i++)
		r[i] = (uint64_t)*decode_register(uc, i);
	sr_place_words_stack(r[REGISTER_SP], t->stack_top);
	check_turn(pc, r, uc);
	if (is_place(pc)) {
		if (sr_suited_serves_libraries(pc, r))
			stop_later(t, uc);
		else if (step.for_signal)
			interrupt(t, uc, pc, r);
		else
			stop(t, uc, pc, r);
		return;
	}
	if (next_is_delicate(pc)) {
		step.hurries = true;
		if (step.for_signal)
			sr_signals_search_again(t);
		end_steps(uc);
		return;
	}
	if (!step.looked) {
		step.began_at = pc;
		memcpy(step.began_with, r, sizeof(r));
		memcpy(step.vectors, (const char *)uc->uc_mcontext.fpregs + XMM_AT, XMM_BYTES);
	}
	step.looked++;
	step.pauses |= next_is_pause(pc);
	if (!step.closed)
		note_operand(pc, r);
}

/* A handler of the program may have jumped away from where the thread was stepping. */
static bool has_left_steps(const struct sr_thread *t, const ucontext_t *uc)
{
	return atomic_load(&step.thread) == t && !(uc->uc_mcontext.gregs[REG_EFL] & FLAG_STEP);
}

static bool begin_steps(struct sr_thread *t, const ucontext_t *uc, bool for_signal)
{
	struct sr_thread *none = NULL;

	if (!has_left_steps(t, uc) && !atomic_compare_exchange_strong(&step.thread, &none, t))
		return false;
	sr_token_begin_stop(&t->run_token);
	t->signals.stepped = true;
	step.for_signal = for_signal;
	if (step.token != t->run_token.word)
		step.outside_asks = 0;
	step.token = t->run_token.word;
	step.outside = !for_signal && !sr_suited_may_be((uintptr_t)uc->uc_mcontext.gregs[REG_RIP]);
	step.steps = step.unwinder_steps = 0;
	step.unwinder_sp = step.last = 0;
	step.unwinding = step.not_told = false;
	begin_turn();
	step.turn_max = step.hurries || step.outside ? TURN_MAX : for_signal && !sr_place_words_progressed() ? SEARCH_TURN_MAX : LONG_TURN_MAX;
	return true;
}

static bool find_place(struct sr_thread *t, ucontext_t *uc)
{
	/* It is on its way already: its steps may take longer than signals wait. */
	if (atomic_load(&step.thread) == t && step.for_signal && !has_left_steps(t, uc))
		return true;
	if (!may_interrupt(t))
		return false;
	if (!is_on_own_stack(t, uc) && begin_steps(t, uc, true))
		look(t, uc);
	else
		sr_signals_search_again(t); /* when the thread that is on its way now has come there */
	return true;
}

static bool on_message(siginfo_t *info, ucontext_t *uc)
{
	struct sr_thread *t = &sr_self;

	if (info->si_code != SI_QUEUE || info->si_ptr != &message)
		return breakpoint_trapped(uc);
	if ((is_at_work(t) || is_on_own_stack(t, uc)) && sr_token_is_asked_for(&t->run_token)) {
		t->asked_in_operation |= t->in_operation != NULL;
		if (!t->in_operation)
			sr_phase_is_ours(t->run_token.site);
		sr_token_ask_later(&t->run_token);
		return true;
	}
	if (!may_stop(t) || !begin_steps(t, uc, false))
		return true;
	if (step.outside && step.outside_asks++ % OUTSIDE_ASKS)
		stop_later(t, uc);
	else
		look(t, uc);
	return true;
}

static void interrupt_behind_stub(ucontext_t *uc)
{
	sr_signals_interrupted(&sr_self, uc);
}

static bool on_step(siginfo_t *info, ucontext_t *uc)
{
	struct sr_thread *t = &sr_self;

	if (info->si_code != TRAP_TRACE)
		return false;
	if (atomic_load(&step.thread) != t) {
		/* The steps have ended in a handler, whose frame was above: this code goes on as it was interrupted, stepping. */
		uc->uc_mcontext.gregs[REG_EFL] &= ~FLAG_STEP;
		return t->signals.stepped;
	}
	if (step.for_signal && probes_is_section(uc)) {
		probes_step_over(uc);
		return true;
	}
	if (may_go_on(t)) {
		look(t, uc);
		return true;
	}
	step.hurries = true;
	t->asked_in_operation |= !step.for_signal && t->in_operation;
	if (step.for_signal && t->signals.waiting)
		sr_signals_search_again(t);
	end_steps(uc);
	return true;
}

/* Of the main thread, which may be bound to fewer than there are. */
static bool has_several_processors(void)
{
	uint64_t set[16] = {0};
	long bytes = sr_syscall(SYS_sched_getaffinity, 0, sizeof(set), SR_ARG(set), 0, 0, 0);
	int n = 0;

	for (long i = 0; i < bytes / 8; i++)
		n += __builtin_popcountll(set[i]);
	return n > 1;
}

void sr_places_record(bool in_turns, bool may_part)
{
	if (!sr_suited_start() || !sr_place_words_start() || sr_signals_claim(SIGSEGV, on_message) || sr_signals_claim(SIGTRAP, on_step))
		return;
	sr_signals_find_place = find_place;
	breakpoints_interrupt_by(interrupt_behind_stub);
	if (!in_turns)
		return;
	sr_token_stop_holder = ask;
	if (may_part && has_several_processors())
		sr_phases_start();
}
