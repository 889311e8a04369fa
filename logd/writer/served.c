/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/served.h"

#include <stdlib.h>

#include "logd/service/log.h"

struct served *served_new(const struct sr_area *area, uint32_t number,
			  const struct stream_origin *origin, bool resume)
{
	struct served *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->area = *area;
	s->number = number;
	s->origin = *origin;
	s->resume = resume;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

void served_free(struct served *s)
{
	for (uint32_t slot = 0; slot < s->area.slots; slot++)
		if (s->at[slot])
			stream_free(s->at[slot]);
	sr_area_detach(&s->area);
	free(s);
}

static void link_stream(struct served *s, uint32_t slot, struct stream *stream)
{
	stream->served = s;
	stream->slot = slot;
	stream->replaced = atomic_load(&s->replaced);
	stream->gone = s->seen_gone;
	s->at[slot] = stream;
	pthread_mutex_lock(&s->lock);
	stream->next_mine = s->streams;
	if (s->streams)
		s->streams->previous_mine = stream;
	s->streams = stream;
	pthread_mutex_unlock(&s->lock);
}

static void unlink_stream(struct served *s, struct stream *stream)
{
	s->at[stream->slot] = NULL;
	pthread_mutex_lock(&s->lock);
	if (stream->previous_mine)
		stream->previous_mine->next_mine = stream->next_mine;
	else
		s->streams = stream->next_mine;
	if (stream->next_mine)
		stream->next_mine->previous_mine = stream->previous_mine;
	s->ended_sums.stored += atomic_load(&stream->stored_bytes);
	s->ended_sums.records += atomic_load(&stream->records);
	s->ended_sums.dropped += atomic_load(&stream->ring.shared->lost_records);
	pthread_mutex_unlock(&s->lock);
}

/* NULL: the slot cannot be served. */
static struct stream *open_slot(struct served *s, uint32_t slot)
{
	struct stream_origin origin = s->origin;
	struct stream *stream;
	struct sr_ring ring;

	origin.thread = s->area.shared->slot[slot].thread;
	if (sr_area_ring(&s->area, slot, SR_RING_CONSUMER, NULL, &ring)) {
		log_line("rank %d: thread %u is not recorded: its ring is damaged, or cannot be "
			 "mapped",
			 origin.rank, origin.thread);
		return NULL;
	}
	stream = stream_new(&origin, &ring, s->resume);
	if (!stream)
		sr_ring_detach(&ring);
	return stream;
}

void served_look(struct served *s, struct stream **list)
{
	uint32_t opened = atomic_load_explicit(&s->area.shared->opened, memory_order_acquire);
	struct stream *stream;

	if (atomic_load(&s->gone) && !s->seen_gone) {
		s->seen_gone = true;
		for (stream = s->streams; stream; stream = stream->next_mine) {
			atomic_store(&stream->replaced, atomic_load(&s->replaced));
			atomic_store(&stream->gone, true);
		}
		/* It opens no more: look once again, even where the count was overwritten. */
		s->seen_opened = opened - 1;
	}
	if (opened == s->seen_opened)
		return;
	s->seen_opened = opened;
	for (uint32_t slot = 0; slot < s->area.slots; slot++) {
		if (s->at[slot] || !sr_area_is_open(&s->area, slot))
			continue;
		stream = open_slot(s, slot);
		if (!stream) {
			sr_area_free_slot(&s->area, slot, 0);
			continue;
		}
		link_stream(s, slot, stream);
		stream->next = *list;
		*list = stream;
	}
}

void served_end_stream(struct stream *stream)
{
	struct served *s = stream->served;
	uint32_t slot = stream->slot;
	uint64_t used = sr_ring_position(&stream->ring);

	unlink_stream(s, stream);
	stream_free(stream);
	sr_area_free_slot(&s->area, slot, used);
}

bool served_is_over(const struct served *s)
{
	return s->seen_gone && !s->streams;
}

void served_add_up(struct served *s, struct served_sums *sums)
{
	pthread_mutex_lock(&s->lock);
	sums->stored += s->ended_sums.stored;
	sums->records += s->ended_sums.records;
	sums->dropped += s->ended_sums.dropped;
	sums->unrecorded += atomic_load(&s->area.shared->unrecorded);
	for (const struct stream *m = s->streams; m; m = m->next_mine) {
		sums->threads++;
		sums->stored += atomic_load(&m->stored_bytes);
		sums->records += atomic_load(&m->records);
		sums->lag += stream_committed(m) - atomic_load(&m->written);
		sums->dropped += atomic_load(&m->ring.shared->lost_records);
	}
	pthread_mutex_unlock(&s->lock);
}
