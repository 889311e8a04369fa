/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record.c: a call becomes a record.
 *
 * The arguments are encoded before the real call (it may change what they point
 * to), the results after it.  Then the record goes into the thread's ring in
 * one piece, so a killed program leaves whole records only.
 */
#include "shim/record/record.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#include "logd/ring/client.h"
#include "logd/base/hex.h"
#include "logd/base/rawsys.h"
#include "logd/ring/socket_path.h"
#include "nicclock/order_code.h"
#include "shim/core/run_token.h"
#include "shim/core/engine.h"
#include "shim/process/children.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/files/fds.h"
#include "shim/files/inputs.h"
#include "shim/memory/heap.h"
#include "shim/threads/heap_runs.h"
#include "shim/core/hooks.h"
#include "shim/memory/images.h"
#include "logd/base/lock.h"
#include "shim/threads/main_stack.h"
#include "shim/calls/trap/trap.h"
#include "shim/verbs/objects.h"
#include "shim/core/order.h"
#include "shim/files/own_fds.h"
#include "logd/base/processor.h"
#include "shim/threads/program_threads.h"
#include "logd/base/say.h"
#include "shim/core/schema.h"
#include "shim/core/setting.h"
#include "shim/signals/handlers.h"
#include "shim/signals/signals.h"
#include "shim/threads/stdio_pin.h"
#include "shim/core/thread.h"
#include "shim/kernel/tsc.h"
#include "shim/verbs/regions.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

/* How long the end of the process waits for its last records to be on disk. */
#define FINISH_MS 30000
/* And another thread that ends the process: for them, or where they are written for what is left to do. */
#define WRITES_IN_MS 2000
#define ENDS_IN_MS   500

static struct sr_client client;
static pid_t recorded_pid;
static size_t ring_bytes;
static bool lossy;
static struct sr_engine record_engine;

/* ------------------------------------------------------- threads' streams */

/*
 * All threads with a stream, for the end of the process: a ring that is closed
 * then was not cut off by a kill.
 */
static struct sr_thread *threads;
static struct sr_lock threads_lock;

static inline void flush_repeats(struct sr_thread *t);

static void link_thread(struct sr_thread *t)
{
	sr_lock(&threads_lock);
	t->next = threads;
	threads = t;
	sr_unlock(&threads_lock);
}

static void unlink_thread(struct sr_thread *t)
{
	struct sr_thread **link;

	sr_lock(&threads_lock);
	for (link = &threads; *link; link = &(*link)->next) {
		if (*link == t) {
			*link = t->next;
			break;
		}
	}
	sr_unlock(&threads_lock);
}

static void close_all(void)
{
	sr_lock(&threads_lock);
	for (struct sr_thread *t = threads; t; t = t->next)
		if (t == &sr_self)
			sr_ring_close(&t->ring);
		else
			sr_ring_close_of_other_thread(&t->ring);
	sr_unlock(&threads_lock);
}

static void end_thread(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);

	if (sr_engine == &record_engine && t->started && !t->silent) {
		flush_repeats(t);
		unlink_thread(t);
		sr_client_remove_ring(&client, &t->ring);
	}
	t->started = false;
	sr_free(t->buf.p);
	sr_free(t->last.p);
	sr_free(t->arrived);
	sr_poller_ends(t);
	t->buf = t->last = (struct sr_buf){0};
	t->arrived = NULL;
	t->arrived_room = 0;
	if (sr_serial)
		sr_token_drop(&t->run_token);
	sr_leave(t, before);
}

static void open_stream(struct sr_thread *t)
{
	int err;

	if (t->ended && !sr_thread_revive(t)) {
		t->silent = true;
		return;
	}
	sr_thread_number(t);
	/* One that was there before the recording. */
	if (!t->signals.queue)
		sr_signals_thread_begins(t->signals.hidden, false);
	err = sr_ring_create(&t->ring, ring_bytes);
	if (!err) {
		sr_ring_set_lossy(&t->ring, lossy);
		err = sr_client_add_ring(&client, t->number, &t->ring);
		if (err)
			sr_ring_detach(&t->ring);
	}
	if (err) {
		t->silent = true;
		sr_say("thread %u of this process is not recorded: its ring cannot be set up (%s)",
		       t->number, strerrorname_np(-err));
		return;
	}
	link_thread(t);
	sr_thread_watch_end(t);
}

/* The thread's first call: its stream. */
static void start_thread(struct sr_thread *t)
{
	int saved = errno;

	t->started = true;
	t->error = &errno;
	open_stream(t);
	errno = saved;
}

/* ---------------------------------------------------------------- records */

static bool __attribute__((noinline))
emit_in_pieces(struct sr_thread *t, uint16_t kind, const void *payload, size_t size)
{
	struct iovec iov = {.iov_base = (void *)payload, .iov_len = size};

	return !sr_ring_writev(&t->ring, kind, &iov, 1);
}

/* The usual record is not worth a call of memcpy.  The last bytes are copied twice. */
static inline void copy_payload(uint8_t *to, const uint8_t *from, size_t n)
{
	const size_t step = 32;

	if (n < step || n > 256) {
		memcpy(to, from, n);
		return;
	}
	for (size_t i = 0; i + step < n; i += step)
		__builtin_memcpy(to + i, from + i, step);
	__builtin_memcpy(to + n - step, from + n - step, step);
}

/* False if it was dropped (--lossy, or a daemon that has given up). */
static inline bool __attribute__((always_inline))
emit_inline(struct sr_thread *t, uint16_t kind, const void *payload, size_t size)
{
	void *room;

	if (__builtin_expect(size > sr_ring_max_payload(&t->ring), 0))
		return emit_in_pieces(t, kind, payload, size);
	room = sr_ring_reserve(&t->ring, kind, (uint32_t)size);
	if (!room)
		return false;
	copy_payload(room, payload, size);
	sr_ring_commit_all(&t->ring, (uint32_t)size);
	return true;
}

static bool __attribute__((noinline))
emit(struct sr_thread *t, uint16_t kind, const void *payload, size_t size)
{
	return emit_inline(t, kind, payload, size);
}

static void __attribute__((noinline)) emit_repeats(struct sr_thread *t)
{
	struct sr_repeat_payload repeat = {.count = t->repeats};

	/* A handler's record came first, and they with it. */
	if (!repeat.count)
		return;
	t->repeats = 0;
	if (!emit(t, SR_REC_REPEAT, &repeat, sizeof(repeat)))
		sr_ring_lose_sns(&t->ring, repeat.count);
}

static inline void flush_repeats(struct sr_thread *t)
{
	if (t->repeats)
		emit_repeats(t);
}

/*
 * In a signal handler as well.  The deltas are to what the stream has: encoded in
 * the reservation, where no handler's record can come in between.
 */
static void put_clock(struct sr_thread *t, uint64_t event, const struct sr_order *orders,
		      uint32_t n)
{
	bool usual = !n && sr_order_is_next(&t->orders, event);
	void *room = sr_ring_reserve(&t->ring, SR_REC_CLOCK, usual ? 1 : SR_ORDER_MAX_BYTES(n));

	/* A handler's came in between. */
	if (room && usual && !sr_order_is_next(&t->orders, event)) {
		sr_ring_cancel(&t->ring);
		room = sr_ring_reserve(&t->ring, SR_REC_CLOCK, SR_ORDER_MAX_BYTES(n));
	}
	if (!room)
		return;
	sr_ring_commit(&t->ring, sr_order_encode(&t->orders, event, orders, n, room));
}

static void record_clock(uint64_t event, const struct sr_order *orders, uint32_t n)
{
	struct sr_thread *t = &sr_self;
	enum sr_heap before;

	before = sr_enter(t);
	if (!t->started)
		start_thread(t);
	if (!t->silent) {
		flush_repeats(t);
		put_clock(t, event, orders, n);
		/* The call that is under way is another than the last one, even if it looks the
		 * same. */
		t->last.len = 0;
	}
	sr_leave(t, before);
}

static void note(struct sr_thread *t, uint16_t kind, const void *payload, size_t size)
{
	enum sr_heap before = sr_enter(t);

	if (!t->started)
		start_thread(t);
	if (!t->silent) {
		flush_repeats(t);
		emit(t, kind, payload, size);
		/* A repeat would stand for the record in front of it, which is this one. */
		t->last.len = 0;
	}
	sr_leave(t, before);
}

static inline uint64_t word_at(const uint8_t *p)
{
	uint64_t word;

	__builtin_memcpy(&word, p, sizeof(word));
	return word;
}

/* Of two records of calls, which have a word at least; they are short, and not worth a call of memcmp. */
static inline bool is_same(const uint8_t *a, const uint8_t *b, size_t n)
{
	for (size_t i = 0; i + 8 < n; i += 8)
		if (word_at(a + i) != word_at(b + i))
			return false;
	return word_at(a + n - 8) == word_at(b + n - 8);
}

/*
 * Of a record of the last one's kind.  Idle polling is the same call with the same result over
 * and over: counted, not written.
 */
static inline bool is_repeat(const struct sr_thread *t)
{
	const struct sr_buf *b = &t->buf, *last = &t->last;

	return b->len == last->len && b->len >= sizeof(struct sr_call_head) &&
	       is_same(b->p, last->p, b->len);
}

/* The record becomes the last one, without being copied. */
static void keep(struct sr_thread *t, uint16_t kind)
{
	struct sr_buf last = t->last;

	t->last = t->buf;
	t->last_kind = kind;
	t->buf = last;
}

/* What of the record is in buf up to each gathered piece, the piece, and so on. */
static int list_pieces(const struct sr_thread *t, struct iovec *iov)
{
	const struct sr_buf *b = &t->buf;
	uint32_t from = 0;
	int n = 0;

	for (uint32_t i = 0; i < t->arrived_count; i++) {
		const struct sr_arrived *a = &t->arrived[i];

		if (!a->at)
			continue;
		iov[n++] = (struct iovec){b->p + from, a->at - from};
		iov[n++] = (struct iovec){a->addr, a->length};
		from = a->at;
	}
	iov[n++] = (struct iovec){b->p + from, b->len - from};
	return n;
}

/* One copy, from where the device put it into the ring. */
static void emit_gathered(struct sr_thread *t, uint16_t kind)
{
	/* The last record is not going to be compared with: its buffer serves for the list. */
	struct sr_buf *list = &t->last;
	struct iovec *iov;
	uint64_t total = t->buf.len + t->gathered;
	unsigned char *room;
	int n;

	list->len = 0;
	iov = (void *)sr_buf_room(list, (2ull * t->arrived_count + 1) * sizeof(*iov));
	list->len = 0;
	if (!iov) {
		sr_ring_lose(&t->ring, kind);
		return;
	}
	n = list_pieces(t, iov);
	if (total > sr_ring_max_payload(&t->ring)) {
		sr_ring_writev(&t->ring, kind, iov, n);
		return;
	}
	room = sr_ring_reserve(&t->ring, kind, (uint32_t)total);
	if (!room)
		return;
	for (int i = 0; i < n; i++) {
		memcpy(room, iov[i].iov_base, iov[i].iov_len);
		room += iov[i].iov_len;
	}
	sr_ring_commit(&t->ring, (uint32_t)total);
}

static inline void __attribute__((always_inline)) emit_call(struct sr_thread *t, uint16_t kind)
{
	const struct sr_buf *b = &t->buf;

	if (kind == t->last_kind && b->len <= SR_REPEAT_MAX && !t->gathered && is_repeat(t)) {
		t->repeats++;
		return;
	}
	flush_repeats(t);
	if (t->gathered) {
		emit_gathered(t, kind);
		return;
	}
	/* A repeat stands for the record in front of it, so that must be there. */
	if (emit_inline(t, kind, b->p, b->len) && b->len <= SR_REPEAT_MAX)
		keep(t, kind);
	else
		t->last.len = 0;
}

/* The upper bits of a narrow result are not the callee's to set. */
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

/* Where room was left for it.  Field by field: what is in registers need not go by the stack. */
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

/* The numbers of its events end a record. */
static void put_order(struct sr_buf *b, const struct sr_call_head *head, const uint64_t *order)
{
	for (unsigned int i = 0; i < head->orders; i++)
		sr_put_u64(b, order[i]);
}

/* ------------------------------------------------- threads that take turns */

static void put_run_token(struct sr_thread *t, const struct sr_token_payload *p)
{
	sr_engine_note(t, SR_REC_RUN_TOKEN, p, sizeof(*p));
}

/* With the run token again.  The number of the event that says since when; 0: it was not away. */
static uint64_t regain(struct sr_thread *t)
{
	uint64_t event;

	sr_token_take(&t->run_token, t->number);
	if (t->run_token.got == SR_TOKEN_KEPT)
		return 0;
	event = sr_draw_event();
	if (t->run_token.got == SR_TOKEN_PREEMPTED)
		put_run_token(t, &(struct sr_token_payload){
				 .what = SR_RUN_TOKEN_PREEMPTED, .other = t->run_token.from, .event = event});
	t->run_token.got = SR_TOKEN_KEPT;
	return event;
}

/* Out of the program's code, where it had the run token, if nobody lost stall timeout. */
static void arrive(struct sr_thread *t, void *site)
{
	struct sr_token_payload p = {.what = t->run_token.begun ? SR_RUN_TOKEN_REACQUIRED : SR_RUN_TOKEN_ACQUIRED,
				     .site = (uintptr_t)site};

	if (t->ended)
		return;
	/* What others do from here on, while it waits in line, it has not seen. */
	if (sr_token_is_lost(&t->run_token))
		p.arrived = sr_draw_event();
	p.event = regain(t);
	if (p.event)
		put_run_token(t, &p);
}

static void go_on(struct sr_thread *t)
{
	if (!t->ended)
		sr_token_go_on(&t->run_token);
}

/* Those that wait for it had better be awake if the call is one that waits. */
static enum sr_token_releasing releasing(const struct sr_call_desc *d)
{
	const uint8_t sees = d->order & (SR_ORDER_RETURN | SR_ORDER_IDLE);

	if (sr_call_number(d) == SR_CALL_kernel_sched_yield)
		return SR_TOKEN_AWAY;
	/* A lock, a barrier, or what may wait for more than threads. */
	if (d->flags & SR_CALL_BLOCKS || (d->when == sr_has_threads && sees == SR_ORDER_RETURN))
		return SR_TOKEN_FOR_LONG;
	return SR_TOKEN_BRIEFLY;
}

static void release(struct sr_thread *t, enum sr_token_releasing how)
{
	if (!t->ended)
		sr_token_release(&t->run_token, how);
}

/* The hooks, for what is no call. */

static void thread_begins(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);

	if (!t->started)
		start_thread(t);
	arrive(t, NULL);
	go_on(t);
	sr_leave(t, before);
}

static void releases(struct sr_thread *t)
{
	enum sr_heap before;

	if (!sr_threaded)
		return;
	before = sr_enter(t);
	if (!t->started)
		start_thread(t);
	/* A handler for a fault in a real call may have called nothing. */
	if (!sr_token_is_released(&t->run_token)) {
		arrive(t, NULL);
		release(t, SR_TOKEN_FOR_LONG);
	}
	sr_leave(t, before);
}

static void resumes(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);
	uint64_t event = t->ended ? 0 : regain(t);

	if (event)
		put_run_token(t, &(struct sr_token_payload){.what = SR_RUN_TOKEN_ACQUIRED, .event = event});
	go_on(t);
	sr_leave(t, before);
}

/* The event at which a handler begins; it interrupted the program's code or a real call. */
static uint64_t handler_begins(struct sr_thread *t)
{
	uint64_t event = 0;

	if (sr_serial && !t->ended) {
		if (t->depth > 1)
			event = regain(t);
		else
			arrive(t, NULL);
	}
	return event ? event : sr_draw_event();
}

static bool record_signal(struct sr_thread *t, struct sr_signal_payload *p)
{
	enum sr_heap before = sr_enter(t);

	if (!t->started)
		start_thread(t);
	if (sr_threaded)
		p->order = handler_begins(t);
	if (p->place == SR_SIGNAL_IN_CALL) {
		/* Of several in one call, the first has it. */
		p->entry = t->signals.call_entry;
		t->signals.call_entry = 0;
	}
	p->heap_position = t->heap_ops;
	if (!t->silent) {
		flush_repeats(t);
		t->last.len = 0;
		emit(t, SR_REC_SIGNAL, p, sizeof(*p));
	}
	if (sr_serial && sr_threaded)
		go_on(t);
	sr_leave(t, before);
	return true;
}

/* ----------------------------------------------------------------- a call */

/* A call under way that may be cancelled. */
struct under_way {
	struct sr_thread *t;
	const struct sr_call_desc *d;
	uint64_t *a;
	struct sr_call_head *head;
	uint64_t *order;
	enum sr_heap before;
	int depth;         /* the thread's, in it */
	uint32_t handlers; /* likewise */
	struct sr_pinned *pinned;
};

/* The thread is cancelled inside of a real call: it is unwound, and comes past here. */
static void __attribute__((cold)) record_cancelled(void *argument)
{
	struct under_way *w = argument;
	struct sr_thread *t = w->t;
	uint64_t event;

	/* A handler ends the thread in the midst of the call: its record is not there. */
	if (t->signals.handlers != w->handlers)
		return;
	t->signals.interruptible = false;
	t->depth = w->depth;
	t->raw = false;
	sr_select(t);
	t->heap = SR_HEAP_SHIM;
	w->head->error = SR_ERROR_CANCELLED;
	event = sr_serial && !t->ended ? regain(t) : 0;
	w->order[w->head->orders++] = event ? event : sr_draw_event();
	put_order(&t->buf, w->head, w->order);
	put_head(&t->buf, w->head);
	t->sn++;
	if (!t->silent)
		emit_call(t, (uint16_t)(SR_REC_CALL + sr_call_number(w->d)));
	if (sr_regions_on)
		sr_regions_call_ends(w->pinned);
	if (sr_serial)
		go_on(t);
	sr_leave(t, w->before);
}

static uint64_t __attribute__((noinline)) invoke_cancellable(struct under_way w)
{
	uint64_t result;

	pthread_cleanup_push(record_cancelled, &w);
	result = sr_invoke(w.d, w.a);
	pthread_cleanup_pop(0);
	return result;
}

/* Of the process's threads, when a call is made; a constant where that is compiled. */
enum threads {
	ALONE,    /* there is, and was, no other */
	PARALLEL, /* they run beside each other */
	SERIAL,   /* they take turns */
};

static inline uint64_t __attribute__((always_inline))
record(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site, const enum threads how)
{
	const struct sr_call_desc *d = &sr_calls[n];
	const struct sr_call_codec *codec = &sr_call_codecs[n];
	struct sr_call_head head = {.site = (uintptr_t)site};
	struct sr_buf *b = &t->buf;
	enum sr_heap before = sr_enter(t);
	const bool ordered = how != ALONE;
	struct sr_pinned pinned;
	uint64_t order[2], event = 0;
	int *error, saved;

	sr_pinned_none(&pinned);
	if (!t->started)
		start_thread(t);
	error = t->error;
	saved = *error;
	if (how == SERIAL)
		arrive(t, site);
	b->len = 0;
	t->gathered = 0;
	sr_buf_room(b, sizeof(head)); /* known at the end */
	if (codec->put_in)
		codec->put_in(b, a);
	head.in_size = (uint32_t)(b->len - sizeof(head));
	if (__builtin_expect(sr_regions_on, 0))
		sr_regions_call_begins(d, a, &pinned);
	if (ordered && d->order & SR_ORDER_ENTRY)
		order[head.orders++] = sr_draw_event();
	if (ordered)
		t->signals.call_entry = head.orders ? order[0] : 0;

	t->heap = SR_HEAP_LIBRARY;
	t->inside_rdmacm = d->source == SR_SOURCE_RDMACM;
	if (how == SERIAL)
		release(t, releasing(d));
	*error = saved;
	if (ordered && d->flags & SR_CALL_CANCEL)
		head.result =
		    invoke_cancellable((struct under_way){t, d, a, &head, order, before, t->depth, t->signals.handlers, &pinned});
	else
		head.result = sr_invoke(d, a);
	head.result = widen(d, head.result);
	head.error = *error;
	t->inside_rdmacm = false;
	t->heap = SR_HEAP_SHIM;

	if (how == SERIAL && !t->ended)
		event = regain(t);
	if (event)
		order[head.orders++] = event;
	else if (ordered && d->order & SR_ORDER_RETURN && !sr_found_nothing(d, head.result, head.error))
		order[head.orders++] = sr_draw_event();
	if (codec->put_out)
		codec->put_out(b, a, head.result);
	if (d->flags & SR_CALL_NEWFD && (int)head.result >= 0)
		sr_fd_capture((int)head.result);
	if (ordered)
		put_order(b, &head, order);
	put_head(b, &head);
	t->sn++;
	if (!t->silent)
		emit_call(t, (uint16_t)(SR_REC_CALL + n));
	if (__builtin_expect(sr_regions_on, 0))
		sr_regions_call_ends(&pinned);
	if (how == SERIAL)
		go_on(t);

	sr_leave_call(t, before);
	*error = head.error;
	return head.result;
}

/* Each apart, so that none pays for what only another one needs. */
static uint64_t __attribute__((noinline))
record_alone(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	return record(t, n, a, site, ALONE);
}

static uint64_t __attribute__((noinline))
record_ordered(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	return record(t, n, a, site, PARALLEL);
}

static uint64_t __attribute__((noinline))
record_in_ticket(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	return record(t, n, a, site, SERIAL);
}

static uint64_t __attribute__((noinline))
record_after_signals(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	sr_signals_take(t, SR_SIGNAL_BEFORE);
	return sr_threaded ? record_ordered(t, n, a, site) : record_alone(t, n, a, site);
}

static uint64_t record_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	if (__builtin_expect(t->signals.waiting, 0))
		return record_after_signals(t, n, a, site);
	return sr_threaded ? record_ordered(t, n, a, site) : record_alone(t, n, a, site);
}

/* The same in a process whose threads take turns. */
static uint64_t record_serially(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	if (t->signals.waiting)
		sr_signals_take(t, SR_SIGNAL_BEFORE);
	return sr_threaded ? record_in_ticket(t, n, a, site) : record_alone(t, n, a, site);
}

static int own_fd_from(int from)
{
	int fds[4] = {client.socket, client.hello_fd}, first = -1;
	/* A handler may close descriptors as well. */
	enum sr_heap before = sr_enter(&sr_self);

	sr_clocks_own_fds(fds + 2);
	for (int i = 0; i < 4; i++)
		first = sr_lower_fd(first, fds[i], from);
	sr_lock(&threads_lock);
	for (struct sr_thread *t = threads; t; t = t->next)
		first = sr_lower_fd(first, t->ring.fd, from);
	sr_unlock(&threads_lock);
	sr_leave(&sr_self, before);
	return first;
}

static void exits(int status);

static struct sr_engine record_engine = {
    .call = record_call,
    .active = true,
    .note = note,
    .clock = record_clock,
    .own_fd_from = own_fd_from,
    .heap_begin = sr_record_heap_begin,
    .heap_end = sr_record_heap_end,
    .signal = record_signal,
    .thread_starts = sr_engine_ignore_start,
    .thread_begins = sr_engine_ignore,
    .thread_ends = end_thread,
    .releases = sr_engine_ignore,
    .resumes = sr_engine_ignore,
    .exits = exits,
};

/*
 * After the last record.  Other threads may go on until the process is gone:
 * unrecorded, but the shim's wr_ids must still not show in what they poll.
 */
static uint64_t pass_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	enum sr_heap before = sr_enter(t);
	uint64_t result;

	t->heap = SR_HEAP_LIBRARY;
	result = sr_invoke(&sr_calls[n], a);
	sr_leave(t, before);
	return result;
}

static const struct sr_engine passing_engine = {
    .call = pass_call,
    .note = sr_engine_no_note,
    .clock = sr_engine_no_clock,
    .own_fd_from = sr_engine_no_fd,
    .heap_begin = sr_engine_no_heap,
    .heap_end = sr_engine_ignore,
    .signal = sr_engine_any_signal,
    .thread_starts = sr_engine_ignore_start,
    .thread_begins = sr_engine_ignore,
    .thread_ends = sr_engine_ignore,
    .releases = sr_engine_ignore,
    .resumes = sr_engine_ignore,
    .exits = exits,
};

static bool given_up;

static void say_given_up(int error)
{
	given_up = true;
	sr_say("this process is not recorded any further: no answer from sreplay-logd (%s)",
	       strerrorname_np(error));
}

/*
 * The event of the process's end; 0: it has no threads.  What the others print is out, or they have
 * not begun; who is at it may wait for the run token.
 */
static uint64_t settle(struct sr_thread *t)
{
	bool serial = sr_serial && sr_threaded && !t->ended;
	uint64_t event = 0;

	if (serial) {
		arrive(t, NULL);
		release(t, SR_TOKEN_FOR_LONG);
	}
	sr_stdio_settle();
	if (serial)
		event = regain(t);
	return event || !sr_threaded ? event : sr_draw_event();
}

/* The process ends: by whom, and whether that is written down. */
static struct {
	_Atomic pid_t thread;
	_Atomic bool written;
	_Atomic int64_t awaited_until;
} ending;

/* False if another thread has begun to end the process. */
static bool begin_to_end(void)
{
	pid_t self = (pid_t)sr_sys_gettid(), nobody = 0;

	return atomic_compare_exchange_strong(&ending.thread, &nobody, self) || nobody == self;
}

/*
 * The other one's last records take the daemon some milliseconds, where bare the process would be gone in
 * some microseconds: who ends it meanwhile, maybe since things have been taken from under it, would not have come so
 * far, and is not to cut off the records, nor what is still in stdio's buffers.  It ends it if the other one hangs
 * there; on its way out it comes here twice.
 */
static void await_the_end(void)
{
	static const struct timespec a_moment = {.tv_nsec = 1000000};
	int64_t none = 0, now = sr_sys_now_ms();
	int64_t until = now + (atomic_load(&ending.written) ? ENDS_IN_MS : WRITES_IN_MS);

	if (!atomic_compare_exchange_strong(&ending.awaited_until, &none, until))
		until = none;
	for (; now < until; now = sr_sys_now_ms())
		sr_sys_nanosleep(&a_moment);
}

static void exits(int status)
{
	struct sr_thread *t = &sr_self;
	struct sr_exit_payload payload = {.status = status};
	enum sr_heap before;

	/* A child in its parent's memory (clone). */
	if (sr_sys_getpid() != recorded_pid)
		return;
	/* A handler may end the process, or jump out of here. */
	if (sr_engine == &record_engine && t->signals.waiting)
		sr_signals_take(t, SR_SIGNAL_BEFORE);
	if (!begin_to_end()) {
		await_the_end();
		return;
	}
	if (sr_engine != &record_engine)
		return;
	before = sr_enter(t);
	if (!t->started)
		start_thread(t);
	payload.order = settle(t);
	sr_regions_record_counts();
	if (!t->silent) {
		flush_repeats(t);
		emit(t, SR_REC_EXIT, &payload, sizeof(payload));
	}
	sr_engine = &passing_engine;
	if (sr_serial)
		sr_token_stop();
	close_all();
	if (sr_client_finish(&client, FINISH_MS) && !given_up)
		sr_say(
		    "the end of the recording could not be written: no answer from sreplay-logd");
	atomic_store(&ending.written, true);
	sr_leave(t, before);
}

/* A child is not recorded: the rings are its parent's. */
static void forget_in_child(void)
{
	if (!sr_engine)
		return;
	sr_engine = NULL;
	sr_signals_forget_in_child();
	sr_tsc_leave_alone();
	sr_files_stop();
	sr_threaded = sr_serial = false;
	sr_client_abandon(&client);
	sr_clocks_forget_in_child();
}

/* Its last member. */
static void describe_processor(char *extra, size_t size)
{
	static struct sr_processor p;
	static const char name[] = ",\"cpuid\":\"", end[] = "\"}";
	size_t bytes;

	sr_processor_read(&p);
	bytes = p.entries * sizeof(p.entry[0]);
	if (sizeof(name) + 2 * bytes + sizeof(end) > size)
		bytes = 0;
	memcpy(extra, name, sizeof(name) - 1);
	sr_to_hex(extra + sizeof(name) - 1, p.entry, bytes);
	memcpy(extra + sizeof(name) - 1 + 2 * bytes, end, sizeof(end));
}

/* What a process inherits of signals, before it changes anything: those ignored, and those blocked. */
static void inherited_signals(uint64_t *ignored, uint64_t *blocked)
{
	struct sr_kernel_action a;

	*ignored = *blocked = 0;
	for (int signo = 1; signo <= SR_SIGNALS; signo++)
		if (!sr_kernel_action(signo, NULL, &a) && a.handler == (void *)SIG_IGN)
			*ignored |= SR_SIGNAL_BIT(signo);
	sr_kernel_mask(SIG_BLOCK, NULL, blocked);
}

/*
 * What a replay needs besides what the daemon finds in /proc: how standard
 * output is flushed; the signals that it found ignored or blocked; the path by which the program was executed, which the
 * kernel keeps at the top of the stack; the limit that decides where
 * mappings begin; where main's frame is; and whether there is a beginning at all.
 */
static bool describe(char *extra, size_t size, const struct sr_settings *s,
		     enum sr_record_from from)
{
	const char *path = (const char *)getauxval(AT_EXECFN);
	const uint8_t *random_bytes = (const uint8_t *)getauxval(AT_RANDOM);
	char random[2 * 16 + 1] = "";
	uint64_t stack[2] = {0}, ignored, blocked;
	uintptr_t main_stack = from == SR_RECORD_FROM_START ? sr_main_stack_choose() : 0;
	int n;

	if (random_bytes)
		sr_to_hex(random, random_bytes, 16);
	sr_sys_getrlimit(RLIMIT_STACK, stack);
	inherited_signals(&ignored, &blocked);
	n = snprintf(extra, size,
		     "{\"recorded_from\":\"%s\",\"net\":%s,\"tsc\":%s,\"pid\":%ld,\"member\":%d,"
		     "\"stdout_line_buffered\":%s,"
		     "\"stack_limit\":\"%llu\",\"main_stack\":\"%#llx\","
		     "\"stack\":\"%#llx\",\"random\":\"%s\",\"libraries_below\":\"%#llx\",\"vdso\":\"%#lx\","
		     "\"signal_frame\":\"%#lx\",\"threads\":\"%s\",\"ignored\":\"%#lx\",\"blocked\":\"%#lx\","
		     "\"executed_as\":{\"hex\":\"",
		     from == SR_RECORD_FROM_START ? "start" : "open",
		     sr_trap_is_on ? "true" : "false",
		     sr_tsc_traps ? "true" : "false", sr_sys_getpid(), s->clocks ? s->member : -1,
		     sr_stdio_line_buffered() ? "true" : "false", (unsigned long long)stack[0],
		     (unsigned long long)main_stack, (unsigned long long)sr_main_stack_start(), random,
		     (unsigned long long)sr_kernel_mappings(), getauxval(AT_SYSINFO_EHDR), getauxval(AT_MINSIGSTKSZ),
		     s->threads == SR_THREADS_SERIAL ? "serial" : "parallel", ignored, blocked);
	sr_main_stack_pin(main_stack);
	/* In hexadecimal: a path need not be UTF-8. */
	for (; path && *path && n < (int)size - 8; path++)
		n += snprintf(extra + n, size - (size_t)n, "%02x", (unsigned char)*path);
	n += snprintf(extra + n, size - (size_t)n, "\"}");
	if (path && *path)
		return false;
	describe_processor(extra + n, size - (size_t)n);
	return path;
}

/* Before sr_engine is set. */
static void take_turns(void)
{
	sr_serial = true;
	record_engine.call = record_serially;
	record_engine.thread_begins = thread_begins;
	record_engine.releases = releases;
	record_engine.resumes = resumes;
}

void sr_record_start(const struct sr_settings *s, enum sr_record_from from)
{
	/* Not on the stack, where the program's frames will be. */
	static char extra[2 * PATH_MAX + 512 + 2 * SR_CPUID_ENTRIES * sizeof(struct sr_cpuid)];
	char error[512] = "", socket_path[108];
	struct sr_hello hello = {
	    .version = SR_TRACE_VERSION,
	    .rank = s->rank,
	    .trace_dir = s->trace,
	    .schema = sr_schema,
	    .schema_size = sr_schema_size,
	    .extra_json = extra,
	    .session = s->session,
	};

	/* Later on, the program may have written to it. */
	if (from == SR_RECORD_FROM_START)
		sr_stdio_pin_as_found();
	if (!describe(extra, sizeof(extra), s, from)) {
		sr_say("rank %d is not recorded: the path of its executable is too long", s->rank);
		return;
	}
	if (sr_socket_path(socket_path, sizeof(socket_path))) {
		sr_say("rank %d is not recorded: the path in %s is too long", s->rank,
		       sr_setting_variable(SR_SETTING_SOCKET));
		return;
	}
	ring_bytes = (size_t)s->ring_bytes;
	lossy = s->lossy;
	if (sr_client_connect(&client, socket_path, &hello, error, sizeof(error))) {
		sr_say("rank %d is not recorded: %s", s->rank, error);
		return;
	}
	/* Recorded from a device on, it may have threads already. */
	sr_threaded = from != SR_RECORD_FROM_START && !__libc_single_threaded;
	sr_client_set_give_up_hook(&client, say_given_up);
	sr_files_start(&client, s->record_files);
	sr_children_start(forget_in_child);
	if (s->threads == SR_THREADS_SERIAL)
		take_turns();
	recorded_pid = sr_sys_getpid();
	sr_engine = &record_engine;
	sr_signals_start(false);
	sr_trap_begin(0);
	sr_tsc_begin();
}
