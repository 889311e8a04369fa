/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/references.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/read_frames.h"

/* Bytes that were referred to last, by their position. */
#define KEPT 64

struct kept {
	uint64_t position;
	uint32_t size; /* 0: nothing */
	unsigned char *bytes;
};

struct sr_earlier {
	unsigned char *stored, *frame; /* the frame that was read last */
	uint64_t begin, end;           /* positions of its records */
	struct kept kept[KEPT];
	unsigned char *whole; /* the payload of the last record */
	size_t room;
};

static int no_memory(struct sr_stream *s)
{
	return sr_stream_note(s, -ENOMEM, "no memory to read a record");
}

static int wrong(struct sr_stream *s)
{
	return sr_stream_damaged(s, s->frame_offset, s->entry.sn,
				 "a record that refers to bytes which are not there");
}

static struct sr_earlier *earlier_of(struct sr_stream *s)
{
	struct sr_earlier *e = s->earlier;

	if (e)
		return e;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->stored = malloc(SR_FRAME_MAX_RAW);
	e->frame = malloc(SR_FRAME_MAX_RAW);
	s->earlier = e;
	if (e->stored && e->frame)
		return e;
	sr_references_free(s);
	return NULL;
}

void sr_references_free(struct sr_stream *s)
{
	struct sr_earlier *e = s->earlier;

	if (!e)
		return;
	for (int i = 0; i < KEPT; i++)
		free(e->kept[i].bytes);
	free(e->stored);
	free(e->frame);
	free(e->whole);
	free(e);
	s->earlier = NULL;
}

/* Reads the body of the frame at s->at. */
static int read_frame(struct sr_stream *s, struct sr_earlier *e, const struct sr_frame_header *h)
{
	ssize_t n = sr_stream_read_at(s, e->stored, h->stored_bytes, s->at.offset + sizeof(*h));

	e->begin = e->end = 0;
	if (n < 0)
		return (int)n;
	if ((size_t)n < h->stored_bytes || !sr_frame_body_valid(h, e->stored) ||
	    sr_frame_decode(h, e->stored, e->frame))
		return wrong(s);
	e->begin = h->ring_begin;
	e->end = h->ring_begin + h->ring_bytes;
	return 1;
}

static int find_frame(struct sr_stream *s, struct sr_earlier *e, uint64_t position)
{
	struct sr_frame_header h;
	int ret;

	while ((ret = sr_stream_next_header(s, &h)) == 1) {
		if (position - h.ring_begin < h.ring_bytes)
			return read_frame(s, e, &h);
		sr_stream_pass_frame(s, &h);
	}
	return ret ? ret : wrong(s);
}

/* 1: e->frame has the position. */
static int load(struct sr_stream *s, struct sr_earlier *e, uint64_t position)
{
	struct sr_stream_place at = s->at;
	bool open = s->open;
	int ret;

	if (position - e->begin < e->end - e->begin)
		return 1;
	s->at = *sr_stream_place_before(s, position);
	ret = find_frame(s, e, position);
	s->at = at;
	s->open = open;
	return ret;
}

static int keep(struct sr_stream *s, struct kept *k, const struct sr_reference *r, const unsigned char *bytes)
{
	k->size = 0;
	free(k->bytes);
	k->bytes = malloc(r->size);
	if (!k->bytes)
		return no_memory(s);
	memcpy(k->bytes, bytes, r->size);
	k->position = r->position;
	k->size = r->size;
	return 1;
}

/* The bytes are in one piece of a record, and so in one frame. */
static int find(struct sr_stream *s, struct sr_earlier *e, const struct sr_reference *r,
		const unsigned char **bytes)
{
	struct kept *k = &e->kept[(r->position / SR_RECORD_ALIGN) * 0x9e3779b97f4a7c15ull >> 58];
	uint64_t in_frame = r->position - s->frame_position;
	int ret = 1;

	if (k->size == r->size && k->position == r->position) {
		*bytes = k->bytes;
		return 1;
	}
	if (in_frame < s->frame_bytes && r->size <= s->frame_bytes - in_frame) {
		*bytes = s->frame + in_frame;
	} else {
		ret = load(s, e, r->position);
		if (ret == 1 && r->size > e->end - r->position)
			ret = wrong(s);
		*bytes = e->frame + (r->position - e->begin);
	}
	return ret == 1 ? keep(s, k, r, *bytes) : ret;
}

static int append(struct sr_stream *s, struct sr_earlier *e, const unsigned char *bytes, size_t size)
{
	size_t need = s->entry.size + size;

	if (need > SR_RECORD_MAX)
		return sr_stream_damaged(s, s->frame_offset, s->entry.sn, "a record of over 4 GiB");
	if (need > e->room) {
		unsigned char *more = realloc(e->whole, need + need / 2);

		if (!more)
			return no_memory(s);
		e->whole = more;
		e->room = need + need / 2;
	}
	memcpy(e->whole + s->entry.size, bytes, size);
	s->entry.size = need;
	return 1;
}

/* What is written of the payload, and then the references. */
struct source {
	const unsigned char *bytes;
	size_t left;
	const unsigned char *references;
	uint32_t n;
};

static bool take_references(const struct sr_stream *s, struct source *from)
{
	size_t size = s->entry.size;

	from->bytes = s->entry.payload;
	if (size < sizeof(from->n))
		return false;
	size -= sizeof(from->n);
	memcpy(&from->n, from->bytes + size, sizeof(from->n));
	if (from->n > size / sizeof(struct sr_reference))
		return false;
	from->left = size - from->n * sizeof(struct sr_reference);
	from->references = from->bytes + from->left;
	return true;
}

/* Appends what is written in front of the reference, and what it refers to. */
static int take_reference(struct sr_stream *s, struct sr_earlier *e, struct source *from,
			  const struct sr_reference *r, uint64_t position)
{
	const unsigned char *bytes;
	size_t front = r->offset - s->entry.size;
	int ret;

	if (r->offset < s->entry.size || front > from->left || !r->size ||
	    r->size > SR_FRAME_MAX_RAW || r->position > position || r->size > position - r->position)
		return wrong(s);
	ret = append(s, e, from->bytes, front);
	from->bytes += front;
	from->left -= front;
	if (ret == 1)
		ret = find(s, e, r, &bytes);
	return ret == 1 ? append(s, e, bytes, r->size) : ret;
}

int sr_references_resolve(struct sr_stream *s, uint64_t position)
{
	struct sr_earlier *e = earlier_of(s);
	struct source from;
	int ret = 1;

	if (!e)
		return no_memory(s);
	if (!take_references(s, &from))
		return wrong(s);
	s->entry.size = 0;
	for (uint32_t i = 0; i < from.n && ret == 1; i++) {
		struct sr_reference r;

		memcpy(&r, from.references + i * sizeof(r), sizeof(r));
		ret = take_reference(s, e, &from, &r, position);
	}
	if (ret == 1)
		ret = append(s, e, from.bytes, from.left);
	s->entry.payload = e->whole;
	s->entry.flags &= (uint16_t)~SR_RECORD_REFERS;
	return ret;
}
