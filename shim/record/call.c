/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * call.c: turns a call into a record.
 *
 * The arguments are encoded before the real call, which may change what they point to; the
 * results after it. Then the record goes into the thread's ring in one piece, so a killed
 * program leaves only whole records.
 */
#include "shim/record/call.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "shim/calls/codec/arguments.h"
#include "shim/core/hooks.h"
#include "shim/core/order.h"
#include "shim/core/phases.h"
#include "shim/core/thread.h"
#include "shim/files/fds.h"
#include "shim/files/last_outputs.h"
#include "shim/files/write_order.h"
#include "shim/record/commutes.h"
#include "shim/record/creating.h"
#include "shim/record/cycle.h"
#include "shim/record/emit.h"
#include "shim/record/queue_order.h"
#include "shim/record/serial.h"
#include "shim/record/streams.h"
#include "shim/signals/signals.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/idle_poll.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/picks.h"
#include "shim/verbs/regions.h"

/* The callee need not set the upper bits of a narrow result. */
static uint64_t widen(const struct sr_call_desc *d, uint64_t result)
{
	if (__builtin_expect(d->flags & SR_CALL_VOID, 0))
		return 0;
	if (__builtin_expect(d->ret_size == sizeof(int32_t), 1))
		return d->ret_signed ? (uint64_t)(int64_t)(int32_t)result : (uint32_t)result;
	if (d->ret_size == sizeof(uint16_t))
		return (uint16_t)result;
	return result;
}

/*
 * Writes the head into the room left for it, field by field, so that the compiler need not
 * move registers through memory.
 */
static inline void put_head(struct sr_buf *b, const struct sr_call_head *head)
{
	struct sr_call_head *to = (void *)b->p;

	if (!to)
		return;
	to->site = head->site;
	to->result = head->result;
	to->error = head->error;
	to->in_size = head->in_size;
	to->orders = head->orders;
}

/* A call under way. */
struct recording {
	struct sr_thread *t;
	enum sr_call_number n;
	const struct sr_call_desc *d;
	uint64_t *a;
	enum sr_heap before;
	struct sr_call_head head;
	uint64_t order[2]; /* the numbers of its events */
	struct sr_pinned *pinned;
	bool in_vain; /* what it is to read is no memory: the kernel says so, and nobody else looks at it */
	uint32_t writes; /* no other thread writes to the file now (write_order.h); 0: it may */
	struct sr_creation creation; /* of a call that makes a thread */
	struct sr_lock *queue; /* of a post or a poll, beside other threads */
};

/* How the process's threads run when a call is made; a constant wherever it is compiled. */
enum threads {
	ALONE,    /* there is only one, and there never was another */
	PARALLEL, /* they run at the same time */
	SERIAL,   /* they run one at a time */
};

#define INLINE static inline __attribute__((always_inline))

INLINE bool is_output(const struct sr_call_desc *d)
{
	return __builtin_expect(d->flags & (SR_CALL_OUTPUT | SR_CALL_ANY), 0);
}

/* A call that only waits for completions hands nothing to the kernel. */
INLINE bool submits(const struct sr_call_desc *d, const uint64_t *a)
{
	return __builtin_expect(d->flags & SR_CALL_SUBMITS, 0) && a[1];
}

/* The end of the process waits for its record (last_outputs.h). */
INLINE bool passes_gate(const struct sr_call_desc *d, const uint64_t *a)
{
	return is_output(d) || submits(d, a);
}

INLINE bool makes_thread(const struct sr_call_desc *d, const enum threads how)
{
	return how != ALONE && __builtin_expect(d->flags & SR_CALL_THREAD, 0);
}

/* Writes what is held back, unless the call commutes with it. */
static void let_commute(struct sr_thread *t, enum sr_call_number n, const uint64_t *a, const enum threads how)
{
	if (how != ALONE)
		sr_commutes_stop(t);
	else if (!sr_commutes_may_take(t, n, a))
		sr_commutes_pass(t, n == SR_CALL_sreplay_on_commutative);
}

INLINE bool is_of_queue(const struct sr_call_desc *d)
{
	return d->order & (SR_ORDER_POSTS | SR_ORDER_POLLS);
}

INLINE void begin(struct recording *r, void *site, const enum threads how)
{
	struct sr_thread *t = r->t;
	struct sr_buf *b = &t->buf;
	const struct sr_call_codec *codec = &sr_call_codecs[r->n];

	r->head = (struct sr_call_head){.site = (uintptr_t)site};
	if (__builtin_expect(t->commutes.on, 0))
		let_commute(t, r->n, r->a, how);
	if (how != ALONE && __builtin_expect(sr_picks_on, 0))
		sr_picks_stop();
	if (how == SERIAL)
		sr_serial_arrive(t, site);
	if (how == SERIAL && is_of_queue(r->d))
		sr_queue_await_batch(t, r->n, r->a);
	if (how == SERIAL && r->n == SR_CALL_openmp_leaves)
		t->run_token.site |= SR_PHASE_KNOWN;
	b->len = 0;
	t->received.gathered = 0;
	t->received.lacks_queue = false;
	sr_buf_room(b, sizeof(r->head)); /* known at the end */
	r->in_vain = !sr_put_arguments(b, r->d, codec, r->a);
	r->head.in_size = (uint32_t)(b->len - sizeof(r->head));
	if (__builtin_expect(sr_regions_on, 0))
		sr_regions_call_begins(r->d, r->a, r->pinned);
	if (how == ALONE)
		return;
	if (how == PARALLEL && is_of_queue(r->d))
		r->queue = sr_queue_lock(r->n, r->a);
	if (r->d->order & SR_ORDER_ENTRY)
		r->order[r->head.orders++] = sr_draw_event();
	t->signals.call_entry = r->head.orders ? r->order[0] : 0;
}

INLINE void put_order(struct recording *r)
{
	for (unsigned int i = 0; i < r->head.orders; i++)
		sr_put_u64(&r->t->buf, r->t->shown = r->order[i]);
}

/* Draws the event at which the thread continues after the real call, if the call has one. */
INLINE void draw_return(struct recording *r, const enum threads how)
{
	uint64_t event = how == SERIAL && !r->t->ended ? sr_serial_regain(r->t) : 0;
	bool nothing = how != ALONE && sr_found_nothing(r->d, r->head.result, r->head.error);

	if (how == SERIAL && __builtin_expect(r->t->regained, 0)) {
		event = r->t->regained;
		r->t->regained = 0;
	}
	if (how == SERIAL)
		sr_serial_found(r->t, r->d, nothing);
	if (event) {
		sr_idle_polls_forget(r->t);
		r->order[r->head.orders++] = event;
	} else if (how != ALONE && r->d->order & SR_ORDER_RETURN && !nothing && !(r->d->order & SR_ORDER_POLLS))
		r->order[r->head.orders++] = sr_draw_event();
}

/* Calls of the data path, the counter and locks leave the polls that found nothing as they are. */
static inline bool leaves_idle_polls(enum sr_call_number n)
{
	return n == SR_CALL_poll_cq || n == SR_CALL_post_send || n == SR_CALL_post_recv || n == SR_CALL_post_srq_recv ||
	       n == SR_CALL_rdtsc || n == SR_CALL_pthread_spin_lock || n == SR_CALL_pthread_spin_unlock ||
	       n == SR_CALL_pthread_mutex_lock || n == SR_CALL_pthread_mutex_unlock;
}

/* A poll that found nothing, in t->buf. */
static void emit_idle_poll(const struct recording *r)
{
	struct sr_thread *t = r->t;
	struct sr_idle *idle = sr_idle_poll_place(t, r->a, r->head.site);
	const size_t size = t->buf.len;

	if (idle->size == size && !memcmp(idle->record, t->buf.p, size) && sr_cycle_may_repeat(t, idle)) {
		sr_cycle_add(t, idle);
	} else if (sr_emit_kept(t, SR_REC_CALL + SR_CALL_poll_cq)) {
		idle->size = (uint8_t)size;
		memcpy(idle->record, t->last.p, size);
		idle->kept = t->idle.kept;
		idle->position = t->idle.position;
	} else {
		idle->size = 0;
	}
	idle->cq = r->a[0];
	idle->site = (void *)r->head.site;
	sr_idle_poll_note(t, idle, r->a, r->head.error);
}

INLINE void emit_call(const struct recording *r, const enum threads how)
{
	if (how != PARALLEL && r->n == SR_CALL_poll_cq && !r->head.result && !r->head.orders)
		emit_idle_poll(r);
	else
		sr_emit_call(r->t, (uint16_t)(SR_REC_CALL + r->n));
}

INLINE void end_regions(const struct recording *r)
{
	if (__builtin_expect(sr_regions_on, 0))
		sr_regions_call_ends(r->pinned);
}

INLINE void emit(struct recording *r, const enum threads how)
{
	struct sr_thread *t = r->t;
	bool parts = how == SERIAL && __builtin_expect(sr_phases_any, 0) && sr_serial_parts(t);

	if (how != ALONE)
		put_order(r);
	put_head(&t->buf, &r->head);
	if (how == ALONE && __builtin_expect(t->commutes.on, 0) && sr_commutes_take(t, r->n, r->a, r->head.result)) {
		end_regions(r);
		return;
	}
	if (t->idle.sn == t->sn && leaves_idle_polls(r->n))
		t->idle.sn++;
	t->sn++;
	if (!t->silent) {
		emit_call(r, how);
		if (r->d->flags & SR_CALL_OUTPUT || submits(r->d, r->a))
			sr_ring_end_write(&t->ring);
		if (__builtin_expect(t->sums.events >= SR_CHECK_EVENTS, 0))
			sr_emit_check(t);
	}
	end_regions(r);
	if (makes_thread(r->d, how))
		sr_creation_ends(&r->creation);
	if (how != ALONE && passes_gate(r->d, r->a))
		sr_output_ends(t);
	if (__builtin_expect(parts, 0))
		sr_token_part(&t->run_token);
	else if (how == SERIAL)
		sr_serial_go_on(t);
}

INLINE void put_results(struct recording *r, const struct sr_call_codec *codec)
{
	if (sr_is_refused(r->d, r->head.result))
		sr_put_refused(&r->t->buf, r->d, codec, r->a, r->head.result);
	else
		codec->put_out(&r->t->buf, r->a, r->head.result);
}

INLINE void end(struct recording *r, const enum threads how)
{
	const struct sr_call_desc *d = r->d;
	const struct sr_call_codec *codec = &sr_call_codecs[r->n];

	/* What children have written is copied and held before the event is drawn. */
	bool is_late = d->flags & SR_CALL_CHILDREN;

	if (__builtin_expect(is_late, 0))
		codec->put_out(&r->t->buf, r->a, r->head.result);
	draw_return(r, how);
	if (how != ALONE && r->writes)
		sr_write_ends(r->writes, r->t->number);
	sr_files_release(r->t);
	if (!is_late && codec->put_out)
		put_results(r, codec);
	if (d->flags & SR_CALL_NEWFD && (int)r->head.result >= 0)
		sr_fd_capture((int)r->head.result);
	emit(r, how);
}

/* ------------------------------------------------------------ cancellation */

struct cancellable {
	struct recording *r;
	int depth; /* the thread's, in the call */
	uint32_t handlers;
};

/* Called when the thread was cancelled in a real call and is being unwound. */
static void __attribute__((cold)) record_cancelled(void *argument)
{
	struct cancellable *c = argument;
	struct recording *r = c->r;
	struct sr_thread *t = r->t;
	uint64_t event;

	/* A handler ended the thread in the middle of the call, which then has no record. */
	if (t->signals.handlers != c->handlers)
		return;
	t->signals.interruptible = false;
	t->depth = c->depth;
	t->raw = false;
	sr_select(t);
	t->heap = SR_HEAP_SHIM;
	r->head.error = SR_ERROR_CANCELLED;
	if (r->writes)
		sr_write_ends(r->writes, t->number);
	event = sr_serial && !t->ended ? sr_serial_regain(t) : 0;
	r->order[r->head.orders++] = event ? event : sr_draw_event();
	sr_files_release(t);
	emit(r, sr_serial ? SERIAL : PARALLEL);
	sr_leave(t, r->before);
}

/*
 * libc lets a thread be cancelled at any instruction around a system call that is a cancellation point, which open, msgrcv and
 * mq_receive are: where such a call is trapped, the thread is in the shim then, whichever call that is.
 */
static inline bool may_be_cancelled(const struct sr_thread *t, const struct sr_call_desc *d)
{
	return d->flags & SR_CALL_CANCEL || t->raw;
}

static uint64_t __attribute__((noinline)) invoke_cancellable(struct recording *r)
{
	struct cancellable c = {r, r->t->depth, r->t->signals.handlers};
	uint64_t result;

	pthread_cleanup_push(record_cancelled, &c);
	result = r->in_vain ? sr_real(r->d, r->a) : sr_invoke(r->d, r->a);
	pthread_cleanup_pop(0);
	return result;
}

/* ----------------------------------------------------------------- a call */

/*
 * Behind a post, which has its number, or a poll, which gets it here: others may wait until this thread lets them run, which
 * posts until there is room, or polls until another one has posted.
 */
INLINE void leave_queue(struct recording *r, const enum threads how)
{
	const bool polls = r->d->order & SR_ORDER_POLLS, nothing = polls && sr_found_nothing(r->d, r->head.result, r->head.error);

	if (polls && !nothing)
		r->order[r->head.orders++] = sr_draw_event();
	if (how == SERIAL)
		sr_serial_release(r->t, nothing ? sr_serial_releasing(r->t, r->d, false) : SR_TOKEN_BRIEFLY);
	else
		sr_unlock(r->queue);
}

/* Makes the real call. Its errno is at *error, where the program expects `saved`. */
INLINE void make(struct recording *r, int *error, int saved, const enum threads how)
{
	struct sr_thread *t = r->t;
	const struct sr_call_desc *d = r->d;
	const bool keeps = how != ALONE && is_of_queue(d);
	uint64_t result;

	t->heap = SR_HEAP_LIBRARY;
	t->inside_rdmacm = d->source == SR_SOURCE_RDMACM;
	if (how != ALONE)
		t->makes = d;
	if (how == SERIAL) {
		if (!keeps && !(d->order & SR_ORDER_EXPOSES))
			sr_serial_release(t, sr_serial_releasing(t, d, passes_gate(d, r->a)));
	}
	if (makes_thread(d, how))
		sr_creation_begins(&r->creation, t);
	if (how != ALONE && passes_gate(d, r->a))
		sr_output_begins(t);
	if (how != ALONE && is_output(d))
		r->writes = sr_write_begins((int)r->a[d->fd_arg], t->number);
	if ((d->flags & SR_CALL_OUTPUT || submits(d, r->a)) && !t->silent)
		sr_ring_begin_write(&t->ring);
	*error = saved;
	if (how != ALONE && may_be_cancelled(t, d))
		result = invoke_cancellable(r);
	else
		result = __builtin_expect(r->in_vain, 0) ? sr_real(d, r->a) : sr_invoke(d, r->a);
	r->head.result = widen(d, result);
	r->head.error = *error;
	t->inside_rdmacm = false;
	t->heap = SR_HEAP_SHIM;
	if (keeps)
		leave_queue(r, how);
	if (how != ALONE && r->writes)
		sr_write_returned(r->writes, t->number);
}

/* entered: the section has begun, and this was the heap before; or NULL. */
INLINE uint64_t record(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site,
		       const enum threads how, const enum sr_heap *entered)
{
	/*
	 * A separate variable, so that the compiler can keep the rest of the call's state in
	 * registers.
	 */
	struct sr_pinned pinned;
	struct recording r;
	int *error, saved;

	/* Field by field: an initialiser makes "rep stos" of it, which takes longer to begin than all of these. */
	r.t = t;
	r.n = n;
	r.d = &sr_calls[n];
	r.a = a;
	r.pinned = &pinned;
	r.writes = 0;
	r.before = entered ? *entered : sr_enter(t);
	sr_pinned_none(&pinned);
	if (!t->started)
		sr_record_start_thread(t);
	error = t->error;
	saved = *error;
	begin(&r, site, how);
	make(&r, error, saved, how);
	end(&r, how);
	sr_leave_call(t, r.before);
	*error = r.head.error;
	return r.head.result;
}

/* Three compiled versions, so that no call pays for what only the others need. */
static uint64_t __attribute__((noinline))
record_alone(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	return record(t, n, a, site, ALONE, NULL);
}

static uint64_t __attribute__((noinline))
record_ordered(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	return record(t, n, a, site, PARALLEL, NULL);
}

static uint64_t __attribute__((noinline))
record_in_ticket(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	return record(t, n, a, site, SERIAL, NULL);
}

/* A replay finds completions directly behind the call before (async/uring.h): handlers run behind them. */
static void take_signals(struct sr_thread *t, enum sr_call_number n)
{
	if (n != SR_CALL_io_uring_arrivals)
		sr_signals_take(t, SR_SIGNAL_BEFORE);
}

static uint64_t __attribute__((noinline))
record_after_signals(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	take_signals(t, n);
	return sr_threaded ? record_ordered(t, n, a, site) : record_alone(t, n, a, site);
}

/* ------------------------------------------------------------- an idle poll */

uint64_t sr_record_polled(struct sr_thread *t, uint64_t *a, void *site, int entered)
{
	const enum sr_heap before = (enum sr_heap)entered;

	return sr_threaded ? record(t, SR_CALL_poll_cq, a, site, SERIAL, &before)
			   : record(t, SR_CALL_poll_cq, a, site, ALONE, &before);
}

/*
 * The provider's poll never waits, so the thread keeps the run token meanwhile.  If another one waits for it, the poll
 * takes the general way.
 */
uint64_t sr_record_polls_again(struct sr_thread *t, uint64_t *a, struct sr_idle *idle)
{
	enum sr_heap before;
	int found;

	if (sr_threaded && (sr_phases_any || t->ended || !sr_token_keep_unwanted(&t->run_token)))
		return sr_engine->call(t, SR_CALL_poll_cq, a, idle->site);
	before = sr_enter(t);
	t->run_token.site = (uintptr_t)idle->site;
	t->heap = SR_HEAP_LIBRARY;
	found = (int)idle->poll(a[0], a[1], a[2]);
	t->heap = SR_HEAP_SHIM;
	if (found || *t->error != idle->error || !sr_cycle_may_repeat(t, idle)) {
		t->received.polled = found;
		t->received.is_polled = true;
		return sr_record_polled(t, a, idle->site, before);
	}
	t->run_token.vain++;
	t->signals.call_entry = 0;
	t->idle.sn = ++t->sn;
	sr_cycle_add(t, idle);
	if (sr_threaded)
		sr_token_go_on(&t->run_token);
	sr_leave_call(t, before);
	return 0;
}

uint64_t sr_record_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	if (__builtin_expect(t->signals.waiting, 0))
		return record_after_signals(t, n, a, site);
	return sr_threaded ? record_ordered(t, n, a, site) : record_alone(t, n, a, site);
}

uint64_t sr_record_call_alone(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	if (t->signals.waiting)
		take_signals(t, n);
	return record_alone(t, n, a, site);
}

uint64_t sr_record_serial_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	if (t->signals.waiting)
		take_signals(t, n);
	return sr_threaded ? record_in_ticket(t, n, a, site) : record_alone(t, n, a, site);
}
