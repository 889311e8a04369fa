/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * places.c: stops a thread where it was stopped between two calls; see own.h and shim/record/places.h.
 *
 * When the next record of a thread is a place, its instruction becomes a breakpoint.  Each time that the thread comes
 * there, its registers are compared with the recorded ones; then its stack, and the words in memory of the code around.
 */
#include <signal.h>
#include <string.h>

#include "logd/base/lock.h"
#include "logd/base/rawsys.h"
#include "shim/exposed/probe/breakpoint.h"
#include "shim/exposed/x86/vector.h"
#include "shim/memory/heap.h"
#include "shim/memory/kept_stack.h"
#include "shim/process/ids.h"
#include "shim/replay/own.h"
#include "shim/signals/signals.h"

/* A loop may ask in each of its turns. */
#define TURNS 64

/*
 * The command stops a process that does nothing of what was recorded.  A thread that has millions of turns to compare, until it
 * is at its place, gets on; one that comes back with the same registers again and again may wait for ever.
 */
NO_VECTORS static void note_way(const struct sr_thread *t, struct sr_replay_stream *s, const uint64_t r[16])
{
	uint64_t sum = 0;

	if (s->came_by++ % TURNS)
		return;
	for (int i = 0; i < 16; i++)
		sum = (sum ^ r[i]) * 0x9e3779b97f4a7c15ull;
	if (sum != s->came_with)
		atomic_fetch_add_explicit(&sr_replay_page->thread[t->number].seen_on_way, 1, memory_order_relaxed);
	s->came_with = sum;
}

NO_VECTORS static bool is_here(uintptr_t pc, const uint64_t r[16])
{
	const struct sr_thread *t = &sr_self;
	struct sr_replay_stream *s = t->stream;

	if (!s || !s->awaits_place || s->place.p.pc != pc || t->depth)
		return false;
	note_way(t, s, r);
	return sr_place_has_registers(&s->place.p, r) &&
	       (!s->place_is_readable || sr_place_has_words(&s->place, &s->ids));
}

static void await(struct sr_replay_stream *s)
{
	const struct sr_place *place = &s->place;
	const uint64_t *word = NULL;

	s->ids.real = (uint32_t)sr_sys_gettid();
	s->ids.recorded = (uint32_t)sr_recorded_id((int32_t)s->ids.real);
	s->place_is_readable = sr_place_is_readable(place);
	if (s->place_is_readable && place->p.words)
		word = (const uint64_t *)place->word[0].addr;
	breakpoint_await(place->p.pc, (uint8_t)place->p.told_by, place->p.registers, word, place->word[0].value);
}

/* The thread gives its ticket away, and goes on when it is its turn again.  True: a handler comes first. */
static bool stop(uintptr_t pc, const uint64_t r[16], const char *vectors)
{
	struct sr_thread *t = &sr_self;
	struct sr_replay_stream *s = t->stream;
	enum sr_heap before;
	bool comes;

	if (!sr_place_is(&s->place, s->place_is_readable, &s->ids, t->heap_ops, vectors)) {
		s->passed_place++;
		/*
		 * A loop's first turn may have mapped what was missing; millions of further turns are left to compare.  What
		 * is protected stays unreadable: it is tried ever less often.
		 */
		if (!s->place_is_readable && !(s->passed_place & (s->passed_place - 1)))
			await(s);
		return false;
	}
	before = sr_enter(t);
	s->awaits_place = s->peeked = false;
	breakpoint_await_none();
	atomic_fetch_add(&sr_replay_page->thread[t->number].places, 1);
	sr_replay_note_stop(t);
	/* Without one it had given the token away, and nobody had taken it. */
	sr_replay_run_again(t);
	sr_replay_suspend_awaited(t);
	comes = sr_replay_handler_comes_at_place(t);
	sr_leave(t, before);
	return comes;
}

static void interrupt(ucontext_t *uc)
{
	struct sr_thread *t = &sr_self;

	sr_replay_handler_at_place(t);
	sr_signals_missed(t);
}

/* --------------------------------------------------- code that is not there yet */

/*
 * The program maps the code after the call that was recorded last: V8 has its builtins a second time for each thread.  Or it
 * makes the code, perhaps a second time.
 */
#define PENDING_MAX 64

static struct {
	struct sr_lock lock;
	uint32_t n;
	struct pending {
		uintptr_t pc;
		bool jump;
		uint8_t told_by;
	} place[PENDING_MAX];
} pending;

static void set_when_mapped(uintptr_t pc, bool jump, uint8_t told_by)
{
	sr_lock(&pending.lock);
	if (pending.n < PENDING_MAX)
		pending.place[pending.n++] = (struct pending){pc, jump, told_by};
	sr_unlock(&pending.lock);
}

static void on_code(void *addr, size_t size, int prot)
{
	sr_lock(&pending.lock);
	for (uint32_t i = 0; i < pending.n;) {
		const struct pending *p = &pending.place[i];

		if (p->pc - (uintptr_t)addr < size && breakpoint_set(p->pc, p->jump, p->told_by))
			pending.place[i] = pending.place[--pending.n];
		else
			i++;
	}
	sr_unlock(&pending.lock);
}

/* A thread's id is another one now; libc has it in what describes the thread, and in each mutex that the thread holds. */
static uint64_t with_real_id(uint64_t value)
{
	return (value & ~0xfffffffful) | (uint32_t)sr_real_id((int32_t)value);
}

static void take_real_ids(struct sr_place *place)
{
	for (uint32_t i = 0; i < place->p.words && i < SR_PLACE_SIGNAL_WORDS; i++)
		place->word[i].value = with_real_id(place->word[i].value);
	for (size_t i = 0; i < sizeof(place->p.registers) / sizeof(place->p.registers[0]); i++)
		if (!(place->p.registers[i] >> 32))
			place->p.registers[i] = with_real_id(place->p.registers[i]);
}

void sr_replay_await_place(struct sr_thread *t)
{
	struct sr_replay_stream *s = t->stream;
	struct sr_place *place = &s->place;
	size_t size = s->next.size;
	struct sr_kept_stack kept;

	if (size > sizeof(*place))
		size = sizeof(*place);
	memset(place, 0, sizeof(*place));
	memcpy(place, s->next.payload, size);
	if (size < sizeof(place->p) || size < sizeof(place->p) + place->p.words * sizeof(place->word[0]))
		sr_replay_diverge(t, SR_REPLAY_BAD_RECORD, SR_REC_PLACE, SR_REC_PLACE);
	take_real_ids(place);
	s->awaits_place = true;
	s->passed_place = 0;
	sr_stack_keep(t, &kept);
	if (!breakpoint_set(place->p.pc, place->p.flags & SR_PLACE_JUMP, (uint8_t)place->p.told_by))
		set_when_mapped(place->p.pc, place->p.flags & SR_PLACE_JUMP, (uint8_t)place->p.told_by);
	await(s);
	sr_stack_put_back(&kept);
}

void sr_replay_miss_place(struct sr_thread *t)
{
	struct sr_replay_stream *s = t->stream;

	s->awaits_place = s->peeked = false;
	breakpoint_await_none();
	sr_replay_note_stop(t);
	atomic_store(&sr_replay_page->missed_thread, t->number);
	atomic_store(&sr_replay_page->missed_sn, t->sn + 1);
	atomic_store(&sr_replay_page->missed_site, s->place.p.pc);
	atomic_fetch_add(&sr_replay_page->missed, 1);
}

static bool on_fault(siginfo_t *info, ucontext_t *uc)
{
	return breakpoint_trapped(uc);
}

void sr_replay_start_places(void)
{
	static const struct breakpoint_handlers handlers = {.is_here = is_here, .stop = stop, .lost = set_when_mapped};

	if (!breakpoints_start(&handlers))
		return;
	breakpoints_interrupt_by(interrupt);
	sr_signals_claim(SIGSEGV, on_fault);
	sr_heap_on_code(on_code);
}
