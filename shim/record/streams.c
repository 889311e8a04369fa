/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/streams.h"

#include <errno.h>

#include "logd/base/lock.h"
#include "logd/base/say.h"
#include "shim/core/engine.h"
#include "shim/files/own_fds.h"
#include "shim/kernel/user_dispatch.h"
#include "shim/memory/heap.h"
#include "shim/record/commutes.h"
#include "shim/record/emit.h"
#include "shim/record/known.h"
#include "shim/signals/signals.h"
#include "shim/threads/program_threads.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/polls.h"
#include "shim/files/small_inputs.h"

struct sr_recorder sr_recorder;

static struct sr_thread *threads;
static struct sr_lock threads_lock;
static uint64_t gone_sn; /* the highest SN of the threads that have ended */

static void link_thread(struct sr_thread *t)
{
	sr_lock(&threads_lock);
	t->previous = NULL;
	t->next = threads;
	if (threads)
		threads->previous = t;
	threads = t;
	sr_unlock(&threads_lock);
}

static void unlink_thread(struct sr_thread *t)
{
	sr_lock(&threads_lock);
	if (t->previous)
		t->previous->next = t->next;
	else
		threads = t->next;
	if (t->next)
		t->next->previous = t->previous;
	if (t->sn > gone_sn)
		gone_sn = t->sn;
	sr_unlock(&threads_lock);
}

void sr_record_keep_only(struct sr_thread *t)
{
	threads_lock = (struct sr_lock){0};
	threads = t->next = t->previous = NULL;
	gone_sn = 0;
	t->started = t->silent = false;
	t->ring = (struct sr_ring){0};
	t->orders = (struct sr_order_stream){0};
	t->stamp = t->stamp_sync = 0;
	t->repeats = 0;
	t->idle = (struct sr_idle_polls){0};
	sr_known_free(t);
	t->last_kind = 0;
	t->last.len = 0;
}

void sr_record_disarm_threads(void)
{
	sr_lock(&threads_lock);
	sr_trap_is_on = false;
	for (struct sr_thread *t = threads; t; t = t->next) {
		t->armed = SR_TRAP_ALLOW;
		t->selector = SR_TRAP_ALLOW;
	}
	sr_unlock(&threads_lock);
}

void sr_record_each_thread(void (*f)(struct sr_thread *t, void *argument), void *argument)
{
	sr_lock(&threads_lock);
	for (struct sr_thread *t = threads; t; t = t->next)
		f(t, argument);
	sr_unlock(&threads_lock);
}

void sr_record_close_streams(void)
{
	sr_lock(&threads_lock);
	for (struct sr_thread *t = threads; t; t = t->next)
		if (t == &sr_self)
			sr_ring_close(&t->ring);
		else
			sr_ring_close_of_other_thread(&t->ring);
	sr_unlock(&threads_lock);
}

void sr_record_report_stopped(void)
{
	sr_lock(&threads_lock);
	for (struct sr_thread *t = threads; t; t = t->next)
		if (sr_ring_stopped(&t->ring))
			sr_recorder.ring_stopped(sr_ring_stop_error(&t->ring));
	sr_unlock(&threads_lock);
}

uint64_t sr_record_highest_sn(void)
{
	uint64_t highest;

	sr_lock(&threads_lock);
	highest = gone_sn > sr_recorder.image.sns ? gone_sn : sr_recorder.image.sns;
	for (struct sr_thread *t = threads; t; t = t->next)
		if (t->sn > highest)
			highest = t->sn;
	sr_unlock(&threads_lock);
	return highest;
}

void sr_record_end_thread(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);

	/* Nobody needs to wait for what follows. */
	if (sr_serial)
		sr_token_drop(&t->run_token);
	sr_small_input_end(t);
	sr_free(t->late_input);
	t->late_input = NULL;
	if (sr_engine_is_active() && t->started && !t->silent) {
		sr_flush_repeats(t);
		sr_emit_check(t);
		unlink_thread(t);
		if (sr_ring_stopped(&t->ring))
			sr_recorder.ring_stopped(sr_ring_stop_error(&t->ring));
		sr_client_close_ring(&sr_recorder.client, &t->ring);
	}
	t->started = false;
	sr_free(t->buf.p);
	sr_free(t->last.p);
	sr_commutes_free(t);
	sr_known_free(t);
	sr_free(t->received.pieces);
	sr_poller_ends(&t->received);
	t->buf = t->last = (struct sr_buf){0};
	t->received = (struct sr_received){0};
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
	/* The thread existed before the recording. */
	if (!t->signals.queue)
		sr_signals_thread_begins(t->signals.hidden, false);
	err = sr_client_open_ring(&sr_recorder.client, t->number, sr_recorder.ring_bytes, &t->ring);
	if (!err) {
		sr_ring_set_lossy(&t->ring, sr_recorder.lossy);
		sr_ring_set_stop_hook(&t->ring, sr_recorder.ring_stopped);
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

void sr_record_start_thread(struct sr_thread *t)
{
	int saved = errno;

	t->started = true;
	if (t->sn < sr_recorder.image.sns)
		t->sn = sr_recorder.image.sns;
	t->error = &errno;
	open_stream(t);
	errno = saved;
}

int sr_record_own_fd_from(int from)
{
	int clocks[2], first = sr_client_own_fd_from(&sr_recorder.client, from);

	sr_clocks_own_fds(clocks);
	for (int i = 0; i < 2; i++)
		first = sr_lower_fd(first, clocks[i], from);
	return first;
}
