/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/signals/waiting.h"

#include <string.h>

#include "logd/base/thread_timer.h"
#include "shim/core/engine.h"
#include "shim/core/thread.h"
#include "shim/exposed/probe/breakpoint.h"
#include "shim/exposed/probe/probes.h"
#include "shim/memory/heap.h"
#include "shim/signals/dispositions.h"
#include "shim/signals/frame.h"
#include "shim/signals/stack.h"

void sr_signal_hold(struct sr_signal_state *s, int signo, const siginfo_t *info)
{
	if (s->held & SR_SIGNAL_BIT(signo))
		return;
	s->held_info[sr_claimable_index(signo)] = *info;
	s->held |= SR_SIGNAL_BIT(signo);
}

/* Sends again those that the program does not block any more. */
static void release_held(struct sr_signal_state *s)
{
	for (int i = 0; i < SR_CLAIMABLE; i++) {
		int signo = sr_claimable_signals[i];

		if (!(s->held & ~s->hidden & SR_SIGNAL_BIT(signo)))
			continue;
		s->held &= ~SR_SIGNAL_BIT(signo);
		sr_queue_to_self(signo, &s->held_info[i]);
	}
}

void sr_signals_release_at_return(struct sr_signal_state *s)
{
	const uint64_t bits = s->held & ~s->hidden;

	if (!bits)
		return;
	sr_kernel_mask(SIG_BLOCK, &bits, NULL);
	release_held(s);
}

#define WAITING 32

struct sr_signal_queue {
	uint32_t n, room;
	siginfo_t info[];
};

static struct sr_signal_queue *new_queue(uint32_t room)
{
	struct sr_signal_queue *q =
	    sr_alloc_zeroed(sizeof(*q) + room * sizeof(q->info[0]));

	if (q)
		q->room = room;
	return q;
}

/* Without memory the queue keeps its size. */
void sr_signal_queue_grow(struct sr_signal_state *s)
{
	struct sr_signal_queue *old = s->queue, *q = new_queue(2 * old->room);

	if (!q)
		return;
	q->n = old->n;
	memcpy(q->info, old->info, old->n * sizeof(old->info[0]));
	s->queue = q;
	sr_free(old);
}

void sr_signal_queue_empty(struct sr_signal_state *s)
{
	if (s->queue)
		s->queue->n = 0;
}

bool sr_signal_queue_is_full(const struct sr_signal_state *s)
{
	return s->queue->n == s->queue->room;
}

/* How long a signal waits in a thread that makes no call. */
#define TICK_NS 5000000
/*
 * The limit of ticks for a thread that gets no CPU time, since the machine is busy with
 * others: 1 s.
 */
#define TICKS_MAX 200
#define MAGIC   ((void *)0x73725f7369676e61ul)

static bool make_timer(struct sr_signal_state *s, clockid_t clock)
{
	if (!s->has_timer)
		s->has_timer = !sr_thread_timer_make(clock, MAGIC, &s->timer);
	return s->has_timer;
}

static void set_timer(struct sr_signal_state *s, clockid_t clock, long ns)
{
	if (make_timer(s, clock))
		s->timer_set = !sr_thread_timer_set(s->timer, ns) && ns;
}

void sr_signals_await_stall(struct sr_thread *t, bool on)
{
	struct sr_signal_state *s = &t->signals;

	if (on != s->timer_set && sr_signals_claimed() & SR_SIGNAL_BIT(SIGSEGV))
		set_timer(s, CLOCK_THREAD_CPUTIME_ID, on ? 4 * TICK_NS : 0);
}

/* The kernel queues each real-time signal, but any other signal only once. */
static bool is_there(const struct sr_signal_queue *q, int signo)
{
	for (uint32_t i = 0; i < q->n && signo < SIGRTMIN; i++)
		if (q->info[i].si_signo == signo)
			return true;
	return false;
}

bool sr_signal_enqueue(struct sr_signal_state *s, int signo, const siginfo_t *info)
{
	struct sr_signal_queue *q = s->queue;

	if (is_there(q, signo))
		return true;
	if (q->n == q->room)
		return false;
	q->info[q->n] = *info;
	q->info[q->n++].si_signo = signo;
	s->waiting = true;
	return true;
}

/*
 * Sends the queued signals again, in their order; the kernel delivers them when they are
 * unblocked.
 */
static void empty_queue(struct sr_signal_state *s)
{
	struct sr_signal_queue *q = s->queue;

	s->waiting = false;
	s->searches = s->missed_ticks = 0;
	for (uint32_t i = 0; q && i < q->n; i++)
		sr_queue_to_self(q->info[i].si_signo, &q->info[i]);
	if (q)
		q->n = 0;
}

void sr_signals_take(struct sr_thread *t, uint8_t place)
{
	struct sr_signal_state *s = &t->signals;
	const uint64_t all = ~sr_signals_claimed();
	uint8_t before = s->taking;
	uint64_t mask;

	/*
	 * Deliver one batch after the other: when a handler returns, another signal may be
	 * waiting.
	 */
	while (s->waiting && !sr_is_section(t)) {
		if (s->timer_set)
			set_timer(s, CLOCK_MONOTONIC, 0);
		sr_kernel_mask(SIG_SETMASK, &all, &mask);
		s->taking = place;
		empty_queue(s);
		if (s->overflowed)
			mask = s->overflow_mask;
		s->overflowed = false;
		sr_kernel_mask(SIG_SETMASK, &mask, NULL);
		release_held(s);
		s->taking = before;
	}
}

static int64_t cpu_time(void)
{
	struct timespec ts = {0};

	sr_sys_clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

void sr_signals_left(struct sr_thread *t)
{
	struct sr_signal_state *s = &t->signals;

	/*
	 * The next call takes the waiting signals. Set a timer in case that call does not come
	 * soon.
	 */
	if (t->depth || s->timer_set || !(sr_signals_claimed() & SR_SIGNAL_BIT(SIGSEGV)))
		return;
	s->cpu_time = cpu_time();
	s->ticks = 0;
	set_timer(s, CLOCK_MONOTONIC, TICK_NS);
}

/* The first may have been by chance. */
#define MISSED_MAX 2

void sr_signals_missed(struct sr_thread *t)
{
	struct sr_signal_state *s = &t->signals;

	if (t->depth || s->missed_ticks < MISSED_MAX)
		return;
	s->missed_ticks = 0;
	if (!sr_signals_are_replayed())
		sr_signals_take(t, SR_SIGNAL_BETWEEN);
	else if (sr_engine)
		sr_engine->stalled(t);
}

/*
 * The thread got no CPU time because the machine was busy: the signals wait on, a limited
 * number of times.
 */
static bool had_no_time(struct sr_signal_state *s, const ucontext_t *uc)
{
	if (sr_frame_is_in_call(uc) || cpu_time() - s->cpu_time >= TICK_NS || s->ticks++ >= TICKS_MAX)
		return false;
	set_timer(s, CLOCK_MONOTONIC, TICK_NS);
	return true;
}

bool (*sr_signals_find_place)(struct sr_thread *t, ucontext_t *uc);

/* Where each search meets something that it must not step over, none is found. */
#define SEARCHES_MAX 10

/* A claimed one that is sent again at a place is held until the shim's handler has ended, and so comes behind it. */
static bool some_come_late(const struct sr_thread *t)
{
	return sr_signals_waiting(t) & sr_signals_claimed();
}

static bool finds_place(struct sr_thread *t, ucontext_t *uc)
{
	struct sr_signal_state *s = &t->signals;

	if (!sr_signals_find_place || s->overflowed || some_come_late(t) || s->searches >= SEARCHES_MAX || sr_frame_is_in_call(uc) ||
	    !sr_signals_find_place(t, uc))
		return false;
	s->computed = true;
	s->computed_sn = t->sn;
	return true;
}

/* The first that may come at uc; q->n: the code there blocks them all. */
static uint32_t first_open(const struct sr_signal_queue *q, const ucontext_t *uc)
{
	uint64_t mask = sr_frame_mask(uc);
	uint32_t i = 0;

	while (i < q->n && mask & SR_SIGNAL_BIT(q->info[i].si_signo))
		i++;
	return i;
}

/* A handler may have begun meanwhile that blocks them. */
static bool all_are_blocked(const struct sr_signal_state *s, const ucontext_t *uc)
{
	return s->waiting && !s->overflowed && !s->held && s->queue && first_open(s->queue, uc) == s->queue->n;
}

void sr_signals_search_again(struct sr_thread *t)
{
	t->signals.searches++;
	sr_signals_left(t);
}

void sr_signals_compute(struct sr_thread *t, ucontext_t *uc)
{
	if (all_are_blocked(&t->signals, uc) || !finds_place(t, uc))
		sr_signals_left(t);
}

void sr_signals_await_place(struct sr_thread *t, ucontext_t *uc)
{
	const struct sr_signal_state *s = &t->signals;

	if (s->computed && s->computed_sn == t->sn && !t->depth)
		sr_signals_compute(t, uc);
	else
		sr_signals_left(t);
}

void sr_signals_deliver(struct sr_thread *t, ucontext_t *uc)
{
	struct sr_signal_state *s = &t->signals;

	s->at_once = s->overflowed ? UINT64_MAX : sr_signals_waiting(t);
	s->at_place = 0;
	empty_queue(s);
	if (s->overflowed)
		sr_frame_set_mask(uc, s->overflow_mask);
	s->overflowed = false;
}

void sr_signals_deliver_next(struct sr_thread *t, const ucontext_t *uc, bool same_place)
{
	struct sr_signal_state *s = &t->signals;
	struct sr_signal_queue *q = s->queue;
	siginfo_t first;
	uint32_t i;

	if (s->overflowed || s->held || (i = first_open(q, uc)) == q->n) {
		sr_signals_left(t);
		return;
	}
	first = q->info[i];
	q->n--;
	memmove(&q->info[i], &q->info[i + 1], (q->n - i) * sizeof(q->info[0]));
	s->waiting = q->n;
	s->searches = 0;
	s->same_place = same_place;
	s->at_once = s->at_place = SR_SIGNAL_BIT(first.si_signo);
	sr_queue_to_self(first.si_signo, &first);
	if (s->waiting)
		sr_signals_left(t);
}

uint64_t sr_signals_waiting(const struct sr_thread *t)
{
	const struct sr_signal_state *s = &t->signals;
	uint64_t bits = s->held;

	for (uint32_t i = 0; s->queue && i < s->queue->n; i++)
		bits |= SR_SIGNAL_BIT(s->queue->info[i].si_signo);
	return bits;
}

#define NESTED_MAX 6

/*
 * The thread will have left the section in a moment.  Where a system call takes as long as that (a virtual machine that is
 * emulated), the next tick comes while this handler returns: then a longer moment, or the handlers' stack would be full of ticks.
 */
static void tick_again(struct sr_signal_state *s, const ucontext_t *uc)
{
	if (!sr_signal_stack_is_own(&s->stack, sr_frame_stack_pointer(uc)))
		s->nested_ticks = 0;
	else if (s->nested_ticks < NESTED_MAX)
		s->nested_ticks++;
	set_timer(s, CLOCK_MONOTONIC, (TICK_NS / 100) << 2 * s->nested_ticks);
}

void sr_signals_interrupt(struct sr_thread *t)
{
	t->signals.missed_ticks = MISSED_MAX;
	breakpoint_interrupt_at_probe();
}

/* In a replay the thread may never be seen outside of stubs: they take much longer there. */
static void miss_tick(struct sr_signal_state *s)
{
	if (++s->missed_ticks >= MISSED_MAX && sr_signals_are_replayed())
		breakpoint_interrupt_at_probe();
}

/* Recording: the thread computes at uc. */
static void look_for_place(struct sr_thread *t, ucontext_t *uc)
{
	if (all_are_blocked(&t->signals, uc))
		sr_signals_left(t);
	else if (t->signals.waiting && !had_no_time(&t->signals, uc) && !finds_place(t, uc))
		sr_signals_deliver(t, uc);
}

void sr_signals_interrupted(struct sr_thread *t, ucontext_t *uc)
{
	if (!t->depth)
		look_for_place(t, uc);
}

bool sr_signal_tick(siginfo_t *info, ucontext_t *uc)
{
	struct sr_thread *t = &sr_self;
	struct sr_signal_state *s = &t->signals;

	if (!sr_thread_timer_is(info, MAGIC))
		return false;
	s->timer_set = false;
	if (t->depth) {
		miss_tick(s);
		if (sr_signals_are_replayed())
			set_timer(s, CLOCK_THREAD_CPUTIME_ID, TICK_NS);
		return true;
	}
	if (probes_is_section(uc)) {
		/* A loop that does little but accesses to exposed memory is hardly ever seen outside of stubs. */
		if (sr_signals_are_replayed())
			miss_tick(s);
		else
			breakpoint_interrupt_at_probe();
		tick_again(s, uc);
		return true;
	}
	if (sr_signals_are_replayed()) {
		if (sr_engine)
			sr_engine->stalled(t);
	} else {
		look_for_place(t, uc);
	}
	return true;
}

void sr_waiting_thread_begins(struct sr_thread *t)
{
	if (!t->signals.queue)
		t->signals.queue = new_queue(WAITING);
}

void sr_signal_wait_for_section(struct sr_signal_state *s, int signo, siginfo_t *info, ucontext_t *uc)
{
	if (s->queue && sr_signal_enqueue(s, signo, info))
		return;
	/* The kernel never keeps a claimed one. */
	if (sr_signals_claimed() & SR_SIGNAL_BIT(signo)) {
		sr_signal_hold(s, signo, info);
		s->waiting = true;
		return;
	}
	/* The queue is full: block this and all later signals until the section ends. */
	if (!s->overflowed)
		s->overflow_mask = sr_frame_mask(uc);
	s->overflowed = s->waiting = true;
	sr_queue_to_self(signo, info);
	sr_frame_set_mask(uc, ~(sr_signals_claimed() | SR_SIGNAL_FAULTS));
}

void sr_waiting_thread_ends(struct sr_thread *t)
{
	struct sr_signal_state *s = &t->signals;
	struct sr_signal_queue *queue = s->queue;

	if (s->has_timer)
		sr_syscall(SYS_timer_delete, s->timer, 0, 0, 0, 0, 0);
	s->has_timer = s->timer_set = s->waiting = false;
	s->queue = NULL;
	sr_free(queue);
}
