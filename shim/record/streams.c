/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/streams.h"

#include <errno.h>

#include "logd/base/lock.h"
#include "logd/base/say.h"
#include "shim/core/engine.h"
#include "shim/files/own_fds.h"
#include "shim/memory/heap.h"
#include "shim/record/emit.h"
#include "shim/signals/signals.h"
#include "shim/threads/program_threads.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/polls.h"

struct sr_recorder sr_recorder;

static struct sr_thread *threads;
static struct sr_lock threads_lock;

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

void sr_record_end_thread(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);

	if (sr_engine_is_active() && t->started && !t->silent) {
		sr_flush_repeats(t);
		unlink_thread(t);
		if (sr_ring_stopped(&t->ring))
			sr_recorder.ring_stopped(sr_ring_stop_error(&t->ring));
		sr_client_remove_ring(&sr_recorder.client, &t->ring);
	}
	t->started = false;
	sr_free(t->buf.p);
	sr_free(t->last.p);
	sr_free(t->received.pieces);
	sr_poller_ends(&t->received);
	t->buf = t->last = (struct sr_buf){0};
	t->received = (struct sr_received){0};
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
	/* The thread existed before the recording. */
	if (!t->signals.queue)
		sr_signals_thread_begins(t->signals.hidden, false);
	err = sr_ring_create(&t->ring, sr_recorder.ring_bytes);
	if (!err) {
		sr_ring_set_lossy(&t->ring, sr_recorder.lossy);
		sr_ring_set_stop_hook(&t->ring, sr_recorder.ring_stopped);
		err = sr_client_add_ring(&sr_recorder.client, t->number, &t->ring);
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

void sr_record_start_thread(struct sr_thread *t)
{
	int saved = errno;

	t->started = true;
	t->error = &errno;
	open_stream(t);
	errno = saved;
}

int sr_record_own_fd_from(int from)
{
	int fds[4] = {sr_recorder.client.socket, sr_recorder.client.hello_fd}, first = -1;
	/* Enter a section: a handler may close descriptors, too. */
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
