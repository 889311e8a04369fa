/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * call.c: answers a call from the trace.
 *
 * The replay engine encodes the arguments as the record engine does and compares them with the
 * record, byte by byte.  Then it stores the recorded results where the program expects them.
 * It does not call the real function.  The first difference ends the process, with a report
 * that `sreplay replay` prints.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "logd/base/checksum.h"
#include "logd/base/rawsys.h"
#include "replay/abi/produced.h"
#include "shim/calls/codec/arguments.h"
#include "shim/core/sums.h"
#include "shim/core/hooks.h"
#include "shim/core/order.h"
#include "shim/files/changes.h"
#include "shim/files/fds.h"
#include "shim/replay/group/group.h"
#include "shim/replay/own.h"
#include "shim/replay/produced.h"
#include "shim/replay/stacks.h"
#include "shim/replay/trial.h"
#include "shim/replay/watch.h"
#include "shim/verbs/compared.h"
#include "shim/verbs/regions.h"

/* The current call. */
struct call {
	enum sr_call_number n;
	const struct sr_call_desc *d;
	uint64_t *a;
	void *site;
	uint16_t found; /* the kind of record that this call needs */
	struct sr_replay_record r;
	struct sr_call_head head;
	/* Its events; and the event at which the thread got the run token back, or 0. */
	uint64_t order[2], resumed;
	uint32_t events;
	bool entered; /* a handler ran in the call, after the event of its entry */
};

/* Encodes the arguments into t->buf as the record engine does. */
/* kept: whole, where the trace has only sums of some of them. */
static void encode_arguments(struct sr_thread *t, enum sr_call_number n, uint64_t *a, struct sr_buf *kept)
{
	const struct sr_call_codec *codec = &sr_call_codecs[n];
	bool keeps = sr_replay_keeps_arguments(n);
	struct sr_buf parts = {.len = 0};

	t->buf.len = 0;
	t->sums.kept = keeps ? &parts : NULL;
	sr_put_arguments(&t->buf, &sr_calls[n], codec, a);
	t->sums.kept = NULL;
	*kept = (struct sr_buf){.len = 0};
	if (keeps)
		sr_replay_complete_arguments(t, &parts, kept);
}

static bool same_arguments(const struct sr_thread *t, const struct sr_replay_record *r,
			   const struct sr_call_head *head)
{
	const uint8_t *in = r->payload + sizeof(*head);
	const struct sr_buf *b = &t->buf;

	return b->len == head->in_size && !memcmp(b->p ? b->p : in, in, b->len);
}

bool sr_replay_has_arguments(struct sr_thread *t, const struct sr_replay_record *r, enum sr_call_number n, uint64_t *a)
{
	struct sr_call_head head;
	struct sr_buf kept;

	if (r->size < sizeof(head))
		return false;
	memcpy(&head, r->payload, sizeof(head));
	encode_arguments(t, n, a, &kept);
	return head.in_size <= r->size - sizeof(head) && same_arguments(t, r, &head);
}

static struct sr_cursor results_of(const struct call *c)
{
	return (struct sr_cursor){
	    .p = c->r.payload + sizeof(c->head) + c->head.in_size,
	    .end = c->r.payload + c->r.size - c->head.orders * sizeof(uint64_t),
	};
}

/* The trace of this rank ends here for the replay, as its own end lacks that; or it needs what another rank's lacks. */
static void __attribute__((noreturn)) end_without_cause(struct sr_thread *t, int32_t rank, uint16_t found)
{
	if (rank == sr_group_rank())
		sr_replay_end(SR_REPLAY_CUT, SR_REPLAY_EXIT_CUT);
	sr_replay_claim_report();
	sr_replay_page->report.sender = rank;
	sr_replay_diverge(t, SR_REPLAY_CAUSES_END, found, found);
}

/* A poll whose record does not say of which queue its completions are: the plan does. */
static void fill_pick(struct sr_thread *t, const struct call *c)
{
	const struct sr_replay_pick *pick = &t->stream->picks[t->sn % 2];
	struct ibv_cq *cq = (struct ibv_cq *)c->a[0];
	struct ibv_wc *wc = (struct ibv_wc *)c->a[2];
	const int n = (int)c->head.result;

	if (pick->sn == t->sn && pick->qp_num == SR_PICK_LEFT_OUT)
		end_without_cause(t, (int32_t)pick->receives, c->found);
	if (c->n != SR_CALL_poll_cq || n <= 0 || wc->qp_num != SR_PICK_LEFT_OUT)
		return;
	if (pick->sn != t->sn || !sr_group_fill_pick(t, pick, cq->context, wc, n))
		sr_replay_diverge_from_group(t, SR_REPLAY_NOT_PRODUCED, c->found);
	for (int i = 0; i < n; i++) {
		const struct sr_produced_pick p = {
		    .wr_id = wc[i].wr_id,
		    .addr = (uint32_t)i < t->received.count ? (uintptr_t)t->received.pieces[i].addr : 0,
		    .qp_num = wc[i].qp_num};

		sr_produced_keep(t, &p, sizeof(p));
	}
}

static void deliver(struct sr_thread *t, const struct call *call)
{
	const struct sr_call_desc *d = call->d;
	const struct sr_call_codec *codec = &sr_call_codecs[call->n];
	const struct sr_call_head *head = &call->head;
	struct sr_cursor c = results_of(call);
	struct sr_replay_output output;
	uint64_t *a = call->a;

	output.differs = false;
	c.output = &output;
	if (codec->deliver && sr_is_refused(d, head->result))
		sr_deliver_refused(&c, d, codec, a, head->result);
	else if (codec->deliver)
		codec->deliver(&c, a, head->result);
	if (c.bad || c.p != c.end)
		sr_replay_diverge(t, SR_REPLAY_BAD_RECORD, call->r.kind, call->r.kind);
	if (output.differs)
		sr_replay_differ(t, &call->r, head, &output, call->found, call->site);
	fill_pick(t, call);
	if (d->flags & SR_CALL_NEWFD && (int)head->result >= 0)
		sr_fd_hold((int)head->result);
	if (d->flags & SR_CALL_EFFECT && (int64_t)head->result >= 0)
		sr_real(d, a);
	sr_replayed_read(d, a, head->result);
	/* A handler ran in the call: its number was freed before that (handlers.c). */
	if (d->replayed && !(call->entered && d->replayed == sr_replayed_close))
		d->replayed(d, a, head->result);
}

/*
 * Stops the thread before the call for a debugger that asked for this call.  The debugger takes
 * the SIGTRAP, so the program never gets it.
 */
static void stop_if_asked(const struct sr_thread *t)
{
	_Atomic uint64_t *stop_at = &sr_replay_page->thread[t->number].stop_at;
	uint64_t sn = atomic_load_explicit(stop_at, memory_order_relaxed);

	if (!sn || t->sn < sn)
		return;
	atomic_store(stop_at, 0);
	sr_syscall(SYS_tgkill, sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0), sr_sys_gettid(), SIGTRAP,
		   0, 0, 0);
}

/* A destructor made this call after the thread's last event.  It was not recorded. */
static uint64_t pass(struct sr_thread *t, const struct sr_call_desc *d, uint64_t *a,
		     enum sr_heap before)
{
	uint64_t result = sr_real(d, a);

	sr_leave(t, before);
	return result;
}

/* Where arguments of an output differ, its length for example, its bytes most often do, too. */
static void __attribute__((noreturn)) find_other_arguments(struct sr_thread *t, const struct call *c)
{
	struct sr_replay_output output = {0};
	struct sr_cursor results = results_of(c);

	results.output = &output;
	if (c->d->flags & SR_CALL_OUTPUT)
		sr_call_codecs[c->n].deliver(&results, c->a, c->head.result);
	sr_replay_differ(t, &c->r, &c->head, &output, c->found, c->site);
}

/* An object that the device does not have: programs ask whether it does, by trying. */
static bool made_nothing(const struct call *c)
{
	return c->d->ret_size == sizeof(void *) && !c->head.result;
}

/* Takes the call's record.  If the next record is not for this call, the replay ends here. */
static void take_record(struct sr_thread *t, struct call *c)
{
	struct sr_replay_record *r = &c->r;

	if (t->silent || !sr_replay_next_call(t, r))
		sr_replay_end_of_stream(t, NULL, c->found, c->site);
	/*
	 * Or it executed another program.  Or in this replay, another thread allocated or freed what this thread did in the
	 * recording.  This happens where plain atomics decide which thread drops the last
	 * reference.
	 */
	if (r->kind == SR_REC_HEAP || r->kind == SR_REC_EXEC)
		sr_replay_find_instead(t, r->kind, c->found, c->site);
	if (r->kind < SR_REC_CALL)
		sr_replay_end_of_stream(t, r, c->found, c->site);
	if (r->size < sizeof(c->head))
		sr_replay_diverge(t, SR_REPLAY_BAD_RECORD, r->kind, c->found);
	memcpy(&c->head, r->payload, sizeof(c->head));
	if (r->kind != c->found)
		sr_replay_differ(t, r, &c->head, NULL, c->found, c->site);
	if (c->head.in_size + c->head.orders * sizeof(uint64_t) > r->size - sizeof(c->head) ||
	    c->head.orders > 2)
		sr_replay_diverge(t, SR_REPLAY_BAD_RECORD, r->kind, c->found);
	if (c->d->flags & SR_CALL_OPAQUE && !made_nothing(c))
		sr_replay_diverge(t, SR_REPLAY_UNSUPPORTED, r->kind, c->found);
	if (!same_arguments(t, r, &c->head))
		find_other_arguments(t, c);
}

/* A record ends with the numbers of the call's events. */
static void read_order(struct call *c)
{
	size_t size = c->head.orders * sizeof(uint64_t);

	memcpy(c->order, c->r.payload + c->r.size - size, size);
	c->events = c->head.orders;
	c->resumed = 0;
	/* Other threads may have continued after its effect, before this thread did. */
	if (c->events == 2 && ((c->d->order & ~(SR_ORDER_POSTS | SR_ORDER_UNEXPOSES)) == SR_ORDER_ENTRY || c->d->order & SR_ORDER_POLLS) &&
	    c->head.error != SR_ERROR_CANCELLED) {
		c->events = 1;
		c->resumed = c->order[1];
	}
}

/* Waits until the call may return. */
static void await_order(struct sr_thread *t, const struct call *c)
{
	if (c->events && !c->entered)
		sr_replay_await_ticket(t, c->order[0]);
	if (c->d->order & SR_ORDER_EXPOSES)
		sr_replay_change_regions(t, c->found);
	if (c->events == 2) {
		if (!c->entered)
			sr_replay_let_go(c->order[0]);
		sr_replay_await_group(t, c->found, c->site);
		sr_replay_await_ticket(t, c->order[1]);
	}
	/* A call that posts waits later: first it must do what others may wait for. */
	if (!sr_group_posts(c->n))
		sr_replay_await_group(t, c->found, c->site);
	/* If others have continued after its effect, they may access until the return what it takes out of the regions. */
	if (!c->resumed)
		sr_replay_change_regions(t, c->found);
}

/* The call's last event has happened: other threads may continue. */
static void end_order(struct sr_thread *t, const struct call *c)
{
	if (c->events > c->entered)
		sr_replay_go_on(t, c->order[c->events - 1]);
	if (c->resumed) {
		sr_replay_await_ticket(t, c->resumed);
		sr_replay_change_regions(t, c->found);
		sr_replay_go_on(t, c->resumed);
	}
	sr_replay_part(t);
}

/* What the poll's record lacks has come from its senders, and is what was received then. */
static void check_left_out(struct sr_thread *t, const struct call *c)
{
	struct sr_received *r = &t->received;

	for (uint32_t i = 0; i < r->count; i++) {
		const struct sr_received_piece *p = &r->pieces[i];
		uint64_t checksum;

		if (p->filled != p->length)
			sr_replay_diverge_from_group(t, SR_REPLAY_NOT_PRODUCED, c->found);
		checksum = p->exposed ? p->sum : sr_checksum(p->addr, p->length, 0);
		if ((checksum ^ p->checksum) & p->mask) {
			sr_replay_claim_report();
			sr_replay_page->report.sender = p->sender;
			sr_replay_page->report.contended = p->in_doubt;
			sr_replay_page->report.contended_bytes = p->in_doubt ? p->length : 0;
			sr_replay_diverge(t, SR_REPLAY_OTHER_PRODUCED, c->found, c->found);
		}
		sr_sums_received(checksum);
		/* Loads bring what is in exposed memory: a detailed trace has it there. */
		sr_produced_keep(t, p->addr, p->exposed ? 0 : p->length);
	}
	r->count = 0;
}

static bool lacks_fetched(const struct sr_thread *t)
{
	for (uint32_t i = 0; i < t->received.count; i++)
		if (t->received.pieces[i].fetched)
			return true;
	return false;
}

static void do_again_in_group(struct sr_thread *t, const struct call *c)
{
	const struct sr_group_call call = {.sn = t->sn,
					   .expected_site = c->head.site,
					   .found_site = (uintptr_t)c->site,
					   .thread = t->number,
					   .kind = c->found};

	/* What a READ brought is looked for among what is known to have been before. */
	if (lacks_fetched(t))
		sr_replay_await_group(t, c->found, c->site);
	sr_group_replayed(t, &call, c->n, c->a, c->head.result);
	sr_replay_check_transfers(sr_group_not_transferred());
	check_left_out(t, c);
	sr_replay_await_group(t, c->found, c->site);
}

static bool makes_child(enum sr_call_number n)
{
	return n == SR_CALL_forked || n == SR_CALL_system || n == SR_CALL_posix_spawn ||
	       n == SR_CALL_posix_spawnp;
}

/* ------------------------------------------------------------- an idle poll */

/* While a group's rank polls in vain, it says after so many polls how far it is. */
#define PROGRESS_POLLS 256

/*
 * Is the poll one that found nothing a moment ago, and comes again, with nothing else in the trace in front of it or
 * behind?  The recorder asks the same before it only counts (verbs/idle_poll.h).
 */
static inline bool is_idle_again(struct sr_thread *t, enum sr_call_number n, const uint64_t *a)
{
	const struct sr_replay_stream *s = t->stream;
	uint32_t at;

	if (n != SR_CALL_poll_cq || !s || s->repeats_left < 2 || t->ended)
		return false;
	at = sr_replay_next_turn(s);
	return s->idle[at].known && s->idle[at].cq == a[0] && s->idle[at].entries == a[1] && s->idle[at].wc == a[2] &&
	       !s->notes.len && (!sr_threaded || sr_serial) && (!sr_regions_on || (!sr_compared_any() && sr_exposed_call_is_quiet())) &&
	       (!sr_watch_on || sr_watch_polls_in_vain());
}

static uint64_t poll_idly(struct sr_thread *t)
{
	struct sr_replay_stream *s = t->stream;

	t->sn++;
	stop_if_asked(t);
	s->vain = 0;
	s->repeats_left--;
	s->turn = sr_replay_next_turn(s);
	if (!(t->sn % PROGRESS_POLLS))
		sr_group_enter(t, SR_CALL_poll_cq);
	atomic_store_explicit(&sr_replay_page->thread[t->number].calls, t->sn, memory_order_relaxed);
	errno = s->idle[s->turn].error;
	return 0;
}

/* A poll that found nothing may come again. */
static void note_idle_poll(struct sr_thread *t, const struct call *c)
{
	struct sr_replay_stream *s = t->stream;

	if (c->n != SR_CALL_poll_cq || !s->repeats_left || c->head.result || c->events ||
	    (sr_regions_on && sr_exposed_touches((void *)c->a[2], c->a[1] * sizeof(struct ibv_wc))))
		return;
	s->idle[s->turn].cq = c->a[0];
	s->idle[s->turn].entries = c->a[1];
	s->idle[s->turn].wc = c->a[2];
	s->idle[s->turn].error = c->head.error;
	s->idle[s->turn].known = true;
}

/* ------------------------------------------------------------------- a call */

static uint64_t __attribute__((noinline)) answer(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	struct call c = {
	    .n = n, .d = &sr_calls[n], .a = a, .site = site, .found = (uint16_t)(SR_REC_CALL + n)};
	enum sr_heap before = sr_enter(t);
	struct sr_pinned pinned;
	struct sr_buf kept;
	bool regions, cancelled;

	sr_pinned_none(&pinned);
	if (!t->started)
		sr_replay_start_thread(t);
	if (t->ended)
		return pass(t, c.d, a, before);
	sr_replay_handlers_between(t);
	t->sn++;
	sr_watch_call_begins(t, c.d);
	sr_stacks_call(t, c.d, site);
	if (!t->silent)
		stop_if_asked(t);
	/* Loads from exposed regions have their records in front of the call's. */
	encode_arguments(t, n, a, &kept);
	regions = sr_regions_on;
	if (regions && t->stream)
		t->stream->vain = 0;
	sr_group_uses_locks(t, c.d, a);
	if (regions)
		sr_regions_call_begins(c.d, a, &pinned);
	if (!t->silent)
		sr_replay_pass_exposed(t, c.found, site);
	c.entered = sr_replay_handlers_in_call(t, c.d, a);
	if (!t->silent)
		sr_replay_pass_exposed(t, c.found, site);
	/* What the call's beginning brought has its record in front of the call's. */
	sr_replay_keep_arguments(t, &kept);
	sr_replay_note_sent(t, n, a);
	take_record(t, &c);
	cancelled = c.head.error == SR_ERROR_CANCELLED;
	sr_group_enter(t, n);
	read_order(&c);
	await_order(t, &c);
	/* With the call's ticket, so results and file descriptors change in recorded order. */
	sr_watch_call_delivers(t, c.d, c.head.result);
	if (!cancelled)
		deliver(t, &c);
	if (makes_child(n) && (int)c.head.result >= 0)
		atomic_fetch_add(&sr_replay_page->children, 1);
	do_again_in_group(t, &c);
	if (t->sums.events >= SR_CHECK_EVENTS)
		sr_replay_take_check(t);
	/*
	 * Each thread has its own counter, so no locked add is needed.  Before others go on: one may crash, as it did in the
	 * recording when this call had been made.
	 */
	atomic_store_explicit(&sr_replay_page->thread[t->number].calls, t->sn, memory_order_relaxed);
	end_order(t, &c);
	if (regions || sr_regions_on)
		sr_regions_call_ends(&pinned);
	if (c.d->order & SR_ORDER_UNEXPOSES && sr_threaded)
		sr_replay_change_regions_at_return(t, c.found);
	sr_watch_call_ends(c.d, a, c.head.result);
	note_idle_poll(t, &c);
	if (!cancelled)
		sr_replay_handlers_after(t);
	sr_leave(t, before);
	if (cancelled)
		pthread_exit(PTHREAD_CANCELED); /* a cancelled thread ends like this */
	errno = c.head.error;
	return c.head.result;
}

uint64_t sr_replay_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	if (sr_trial_has_begun())
		return sr_trial_call(t, n, a);
	if (sr_trial_awaits_access(t))
		sr_trial_end();
	return is_idle_again(t, n, a) ? poll_idly(t) : answer(t, n, a, site);
}
