/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/feeder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "replay/abi/control.h"
#include "replay/print/marks.h"

#define STACK_BYTES (256u << 10)

int sr_feeder_open(struct sr_feeder *f, struct sr_trace *t, int32_t rank, uint32_t thread,
		   const struct sr_feeder_rings *rings, size_t place, struct sr_error *err)
{
	int error = sr_stream_open(&f->part[0].stream, t, rank, thread, err);

	if (error)
		return error;
	sr_stream_fold_cycles(f->part[0].stream);
	error = sr_ring_map(&f->ring, rings->fd, place * sr_ring_file_bytes(rings->ring_bytes), rings->ring_bytes,
			    SR_RING_PRODUCER, NULL);
	if (error) {
		snprintf(err->text, sizeof(err->text), "cannot map a ring for thread %u: %s",
			 thread, strerror(-error));
		sr_stream_close(f->part[0].stream);
		return error;
	}
	sr_ring_renew(&f->ring);
	f->parts = 1;
	return error;
}

int sr_feeder_add(struct sr_feeder *f, struct sr_trace *t, int32_t rank, uint32_t thread,
		  uint32_t child, struct sr_error *err)
{
	int error = 0;

	if (sr_trace_has_thread(t, rank, thread)) {
		error = sr_stream_open(&f->part[f->parts].stream, t, rank, thread, err);
		if (error)
			return error;
		sr_stream_fold_cycles(f->part[f->parts].stream);
	}
	f->part[f->parts++ - 1].until = child;
	return 0;
}

/* Where the thread forks the child with this number; 0: any.  Other records are not this one. */
static bool is_fork(const struct sr_entry *e, uint32_t child)
{
	struct sr_fork_payload p;

	if (e->kind != SR_REC_FORK || e->size < sizeof(p))
		return false;
	memcpy(&p, e->payload, sizeof(p));
	return !child || p.child == child;
}

/* The next record of the parts.  A parent's may end before its fork's record, if it was killed. */
static int next(struct sr_feeder *f, struct sr_entry *e)
{
	for (;;) {
		const struct sr_feeder_part *p = &f->part[f->at];
		int got = p->stream ? sr_stream_next(p->stream, e) : 0;

		if (got > 0 && is_fork(e, 0) && !(p->until && is_fork(e, p->until)))
			continue;
		if (!p->until || (got > 0 && e->kind != SR_REC_MARK && !is_fork(e, p->until)))
			return got;
		f->at++;
		f->calls = 0;
	}
}

static int send(void *argument, uint16_t kind, const void *payload, size_t size)
{
	struct sr_feeder *f = argument;
	struct iovec iov = {.iov_base = (void *)payload, .iov_len = size};
	void *room;

	if (size > sr_ring_max_payload(&f->ring))
		return sr_ring_writev(&f->ring, kind, &iov, 1);
	/* One look at how far the process has come serves many records. */
	room = sr_ring_reserve(&f->ring, kind, (uint32_t)size);
	if (!room)
		return -EPIPE;
	memcpy(room, payload, size);
	sr_ring_commit(&f->ring, (uint32_t)size);
	return 0;
}

static uint32_t outcome_of(enum sr_mark reason)
{
	switch (reason) {
	case SR_MARK_DIED:
		return SR_REPLAY_DIED;
	case SR_MARK_ENDED:
		return SR_REPLAY_THREAD_CUT;
	default:
		return SR_REPLAY_CUT;
	}
}

static int send_orders(struct sr_feeder *f, const struct sr_entry *e)
{
	struct sr_exposed_payload exposed;

	if (e->count)
		return sr_orders_before(f->orders, e->sn + e->count - 1, 0, send, f);
	if (e->kind != SR_REC_EXPOSED || e->size < sizeof(exposed))
		return 0;
	memcpy(&exposed, e->payload, sizeof(exposed));
	return sr_orders_before(f->orders, e->sn, exposed.fault, send, f);
}

/* Reads the first turn of a cycle, whose first call is *e.  0: the stream ends there. */
static int take_turn(struct sr_feeder *f, struct sr_entry *e, struct sr_replay_turns *turns)
{
	const uint32_t period = e->stride;
	int got = 1;

	*turns = (struct sr_replay_turns){.calls = e->cycle->calls, .period = period};
	for (uint32_t i = 0; got > 0 && i < period && i < turns->calls; i++) {
		struct sr_replay_turn *to = &turns->call[i];

		if (i && (got = next(f, e)) <= 0)
			break;
		f->calls += e->count;
		to->kind = e->kind;
		to->size = (uint16_t)e->size;
		memcpy(to->payload, e->payload, e->size);
	}
	return got;
}

/* So many of the calls, from this one on. */
static int send_turns(struct sr_feeder *f, const struct sr_replay_turns *turns, uint32_t from, uint32_t calls)
{
	struct sr_replay_turns part = {.calls = calls, .period = turns->period};

	for (uint32_t i = 0; i < part.period; i++)
		part.call[i] = turns->call[(from + i) % turns->period];
	return send(f, SR_REC_REPLAY_TURNS, &part, sizeof(part));
}

/* The calls of the cycle, the first of which is *e, with what has to be between them. */
static int send_cycle(struct sr_feeder *f, struct sr_entry *e)
{
	const uint64_t sn = e->sn;
	struct sr_replay_turns turns;
	int got = take_turn(f, e, &turns);

	for (uint32_t done = 0, n; got > 0 && done < turns.calls; done += n) {
		n = turns.calls - done;
		if (f->orders) {
			if (sr_orders_before(f->orders, sn + done, 0, send, f))
				return -EPIPE;
			if (sr_orders_next(f->orders) - (sn + done) < n)
				n = (uint32_t)(sr_orders_next(f->orders) - (sn + done));
		}
		if (send_turns(f, &turns, done, n))
			return -EPIPE;
	}
	return got > 0 ? 0 : -EPIPE;
}

static void take_end(struct sr_feeder *f, const struct sr_entry *mark)
{
	struct sr_mark_payload p;

	memcpy(&p, mark->payload, sizeof(p));
	f->quiet_ms = p.argument;
	f->writing = (p.reason == SR_MARK_DIED || p.reason == SR_MARK_ENDED) && p.flags & SR_MARK_WRITING;
}

/* The recording ended before the thread did. */
static bool is_cut_short(enum sr_mark reason)
{
	return reason == SR_MARK_STOPPED || reason == SR_MARK_DROPPED;
}

/* Until the process is gone. */
static void send_all(struct sr_feeder *f)
{
	struct sr_entry e;
	uint32_t outcome = SR_REPLAY_CUT;
	char sentence[sizeof(f->warning)] = "";
	enum sr_mark reason = 0;
	bool executes = false;
	int got;

	while ((got = next(f, &e)) > 0) {
		/* A call after a mark would not follow on the one before it. */
		if (sr_entry_mark(&e, &reason, sentence, sizeof(sentence))) {
			outcome = outcome_of(reason);
			take_end(f, &e);
			break;
		}
		if (e.kind == SR_REC_STAMP)
			continue;
		atomic_store_explicit(&f->read, e.offset, memory_order_relaxed);
		if (e.cycle) {
			executes = false;
			if (send_cycle(f, &e))
				return;
			continue;
		}
		f->calls += e.count;
		executes = e.kind == SR_REC_EXEC;
		if (f->orders && send_orders(f, &e))
			return;
		if (send(f, e.kind, e.payload, e.size))
			return;
	}
	/* Had the exec failed, a record of the call would follow. */
	f->executed = executes && !is_cut_short(reason);
	if (f->executed)
		outcome = SR_REPLAY_EXECUTED;
	if (!f->part[f->parts - 1].stream)
		outcome = SR_REPLAY_DIED;
	f->killed = outcome == SR_REPLAY_DIED;
	f->cut = outcome == SR_REPLAY_CUT && reason != SR_MARK_ENDED;
	/*
	 * If the recording was cut short, the mark says why; if the file is torn, the reader does.
	 */
	if (outcome == SR_REPLAY_CUT && reason != SR_MARK_ENDED)
		memcpy(f->warning, sentence, sizeof(f->warning));
	atomic_store(&f->all_sent, true);
	send(f, SR_REC_REPLAY_END, &outcome, sizeof(outcome));
}

static void close_streams(struct sr_feeder *f)
{
	for (size_t i = 0; i < f->parts; i++) {
		if (f->part[i].stream)
			sr_stream_close(f->part[i].stream);
		f->part[i].stream = NULL;
	}
}

/* A stream that was sent gives its memory back: with thousands of threads most have long ended. */
static void *feed(void *argument)
{
	struct sr_feeder *f = argument;
	const struct sr_stream *last;
	const char *warning;

	send_all(f);
	last = f->part[f->parts - 1].stream;
	warning = last ? sr_stream_warning(last) : NULL;
	if (warning)
		snprintf(f->warning, sizeof(f->warning), "%s", warning);
	close_streams(f);
	return NULL;
}

int sr_feeder_start(struct sr_feeder *f)
{
	pthread_attr_t attributes;
	int error;

	/* Without a guard page, which would be two mappings for each of many threads: the system allows 65,530. */
	pthread_attr_init(&attributes);
	pthread_attr_setguardsize(&attributes, 0);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	error = pthread_create(&f->thread, &attributes, feed, f);
	pthread_attr_destroy(&attributes);
	f->running = !error;
	return -error;
}

void sr_feeder_stop(struct sr_feeder *f)
{
	if (f->running) {
		/* The feeder may wait for room in the ring, which no process makes any more. */
		sr_ring_stop(f->ring.shared, EPIPE);
		pthread_join(f->thread, NULL);
	}
	close_streams(f);
	sr_ring_detach(&f->ring);
}
