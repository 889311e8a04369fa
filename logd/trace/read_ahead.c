/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/read_ahead.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/helper_thread.h"
#include "logd/trace/read_frames.h"

struct sr_read_ahead {
	struct sr_read_ahead *next; /* of those that wait */
	enum { IDLE, WAITING, UNDER_WAY, DONE } state;
	struct sr_stream own;
	struct sr_stream_place from; /* where the frame is */
	int ret;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more, done;
	struct sr_read_ahead *first, **end;
	bool is_started;
} ahead = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER, .end = &ahead.first};

static void *read_frames(void *argument)
{
	(void)argument;
	pthread_mutex_lock(&ahead.lock);
	for (;;) {
		struct sr_read_ahead *a = ahead.first;

		if (!a) {
			pthread_cond_wait(&ahead.more, &ahead.lock);
			continue;
		}
		ahead.first = a->next;
		if (!ahead.first)
			ahead.end = &ahead.first;
		a->state = UNDER_WAY;
		pthread_mutex_unlock(&ahead.lock);
		a->ret = sr_stream_load_frame(&a->own);
		pthread_mutex_lock(&ahead.lock);
		a->state = DONE;
		pthread_cond_broadcast(&ahead.done);
	}
	return NULL;
}

void sr_streams_read_ahead(void)
{
	if (!ahead.is_started)
		ahead.is_started = sr_helper_thread_start(read_frames);
}

static void take_out(struct sr_read_ahead *a)
{
	struct sr_read_ahead **link = &ahead.first;

	while (*link != a)
		link = &(*link)->next;
	*link = a->next;
	if (!*link)
		ahead.end = link;
}

/* false: the thread had not begun, and will not. */
static bool await(struct sr_read_ahead *a)
{
	bool is_done;

	pthread_mutex_lock(&ahead.lock);
	if (a->state == WAITING)
		take_out(a);
	while (a->state == UNDER_WAY)
		pthread_cond_wait(&ahead.done, &ahead.lock);
	is_done = a->state == DONE;
	a->state = IDLE;
	pthread_mutex_unlock(&ahead.lock);
	return is_done;
}

static void swap_frames(struct sr_stream *s, struct sr_stream *own)
{
	unsigned char *frame = s->frame;
	const uint32_t room = s->frame_room;

	s->frame = own->frame;
	s->frame_room = own->frame_room;
	own->frame = frame;
	own->frame_room = room;
}

static void add_totals(struct sr_stream_totals *to, const struct sr_stream_totals *more)
{
	to->frames += more->frames;
	to->records += more->records;
	to->sns += more->sns;
	to->raw_bytes += more->raw_bytes;
	to->stored_bytes += more->stored_bytes;
}

bool sr_read_ahead_take(struct sr_stream *s)
{
	struct sr_read_ahead *a = s->ahead;

	if (!a || !await(a) || a->ret != 1 || a->from.offset != s->at.offset || a->from.sn != s->at.sn ||
	    a->from.ring_position != s->at.ring_position)
		return false;
	sr_stream_remember_place(s);
	swap_frames(s, &a->own);
	s->warning[0] = 0;
	s->frame_offset = a->own.frame_offset;
	s->frame_position = a->own.frame_position;
	s->frame_bytes = a->own.frame_bytes;
	s->frame_used = 0;
	add_totals(&s->totals, &a->own.totals);
	s->at = a->own.at;
	s->open = a->own.open;
	return true;
}

static bool is_there(struct sr_stream *s)
{
	if (!ahead.is_started || s->ahead)
		return s->ahead;
	s->ahead = calloc(1, sizeof(*s->ahead));
	if (s->ahead) {
		s->ahead->own.fd = s->fd;
		s->ahead->own.stride = 1;
		strcpy(s->ahead->own.path, s->path);
	}
	return s->ahead;
}

void sr_read_ahead_begin(struct sr_stream *s)
{
	struct sr_read_ahead *a;

	if (!is_there(s))
		return;
	a = s->ahead;
	await(a);
	a->from = a->own.at = s->at;
	a->own.open = s->open;
	a->own.broken = 0;
	a->own.totals = (struct sr_stream_totals){0};
	a->next = NULL;
	pthread_mutex_lock(&ahead.lock);
	a->state = WAITING;
	*ahead.end = a;
	ahead.end = &a->next;
	pthread_cond_signal(&ahead.more);
	pthread_mutex_unlock(&ahead.lock);
}

void sr_read_ahead_free(struct sr_stream *s)
{
	if (!s->ahead)
		return;
	await(s->ahead);
	free(s->ahead->own.stored);
	free(s->ahead->own.frame);
	free(s->ahead);
}
