/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/read_frames.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int sr_stream_note(struct sr_stream *s, int code, const char *format, ...)
{
	int n = snprintf(s->warning, sizeof(s->warning), "%s: ", s->path);
	va_list args;

	va_start(args, format);
	vsnprintf(s->warning + n, sizeof(s->warning) - (size_t)n, format, args);
	va_end(args);
	return code;
}

int sr_stream_damaged(struct sr_stream *s, uint64_t offset, uint64_t next_sn, const char *what)
{
	s->broken =
	    sr_stream_note(s, -EBADMSG,
			   "damaged: %s in the frame at offset %llu; what comes before it, up to "
			   "SN %llu, is good",
			   what, (unsigned long long)offset, (unsigned long long)next_sn - 1);
	return s->broken;
}

/* The next frame is. */
static int damaged(struct sr_stream *s, const char *what)
{
	return sr_stream_damaged(s, s->at.offset, s->at.sn, what);
}

static int torn(struct sr_stream *s)
{
	return sr_stream_note(
	    s, 0,
	    "the file ends within a frame, at offset %llu: read up to there, SN %llu is "
	    "the last",
	    (unsigned long long)s->at.offset, (unsigned long long)s->at.sn - 1);
}

/* ---- bytes from the file ---- */

ssize_t sr_stream_read_at(struct sr_stream *s, void *data, size_t size, uint64_t offset)
{
	size_t got = 0;

	while (got < size) {
		ssize_t n = pread(s->fd, (char *)data + got, size - got, (off_t)(offset + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int err = errno;

			s->broken =
			    sr_stream_note(s, -err, "cannot be read at offset %llu: %s",
					   (unsigned long long)(offset + got), strerror(err));
			return -err;
		}
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

/* A file system that lost its last blocks in a crash leaves zeros. */
static bool only_zeros_from(struct sr_stream *s, uint64_t offset)
{
	unsigned char block[4096];
	ssize_t n;

	for (;;) {
		/* A file may have a hole of any size, and takes no longer to read for that. */
		off_t data = lseek(s->fd, (off_t)offset, SEEK_DATA);

		if (data < 0 && errno == ENXIO)
			return true;
		if (data > (off_t)offset)
			offset = (uint64_t)data;
		n = sr_stream_read_at(s, block, sizeof(block), offset);
		if (n <= 0)
			return n == 0;
		for (ssize_t i = 0; i < n; i++) {
			if (block[i])
				return false;
		}
		offset += (uint64_t)n;
	}
}

/* ---- frames ---- */

static bool is_raw(const struct sr_frame_header *h)
{
	return (h->codec & ~SR_CODEC_REFERS) == SR_CODEC_RAW;
}

int sr_stream_next_header(struct sr_stream *s, struct sr_frame_header *h)
{
	ssize_t n = sr_stream_read_at(s, h, sizeof(*h), s->at.offset);

	s->warning[0] = 0;
	if (n < 0)
		return (int)n;
	if (n == 0)
		return 0;
	if (n < (ssize_t)sizeof(*h))
		return torn(s);
	if (!sr_frame_header_valid(h))
		return only_zeros_from(s, s->at.offset) ? torn(s) : damaged(s, "a bad header");
	if (!sr_frame_codec_known(h->codec))
		return damaged(s, "a codec that this build does not know (a later one may)");
	if (is_raw(h) && h->stored_bytes != h->raw_bytes)
		return damaged(s, "a wrong size");
	if (h->ring_bytes && h->ring_bytes != h->raw_bytes)
		return damaged(s, "a wrong number of ring bytes");
	/* Frames follow each other without a hole, or one is missing here. */
	if (h->first_sn != s->at.sn || h->ring_begin != s->at.ring_position ||
	    h->sns > INT64_MAX - h->first_sn)
		return damaged(s, "a hole in front of it or a wrong SN");
	return 1;
}

/* Buffers grow with the frames, which most traces have small ones of: a sanitizer marks all of a buffer. */
static int make_room(struct sr_stream *s, unsigned char **buffer, uint32_t *room, uint32_t need)
{
	const uint32_t twice = *room < SR_FRAME_MAX_RAW / 2 ? *room * 2 : SR_FRAME_MAX_RAW;

	if (*buffer && need <= *room)
		return 0;
	if (need < twice)
		need = twice;
	free(*buffer);
	*buffer = malloc(need + 1);
	*room = *buffer ? need : 0;
	return *buffer ? 0 : sr_stream_note(s, -ENOMEM, "no memory to read a frame");
}

static void swap_buffers(struct sr_stream *s)
{
	unsigned char *frame = s->stored;
	uint32_t room = s->stored_room;

	s->stored = s->frame;
	s->stored_room = s->frame_room;
	s->frame = frame;
	s->frame_room = room;
}

static int decode(struct sr_stream *s, const struct sr_frame_header *h)
{
	int err;

	if (is_raw(h)) {
		swap_buffers(s);
		return 0;
	}
	err = make_room(s, &s->frame, &s->frame_room, h->raw_bytes);
	if (err)
		return err;
	err = sr_frame_decode(h, s->stored, s->frame);
	if (err == -ENOMEM)
		return sr_stream_note(s, err, "no memory to decode a frame");
	return err ? damaged(s, "compressed data that do not decompress") : 0;
}

/* The records must be what the header counts. */
static int check_records(struct sr_stream *s, const struct sr_frame_header *h)
{
	struct sr_count count;

	if (sr_count_records(&count, s->frame, h->raw_bytes, h->raw_bytes, s->open) ||
	    count.bytes != h->raw_bytes || count.records != h->records || count.sns != h->sns ||
	    count.open != !!(h->flags & SR_FRAME_OPEN))
		return damaged(s, "records that are not what its header counts");
	return 0;
}

void sr_stream_remember_place(struct sr_stream *s)
{
	if (s->n_index && s->at.offset <= s->index[s->n_index - 1].offset)
		return;
	if (s->open || ++s->since_indexed < s->stride)
		return;
	if (s->n_index == INDEX_ENTRIES) {
		for (uint32_t i = 0; i < INDEX_ENTRIES / 2; i++)
			s->index[i] = s->index[2 * i];
		s->n_index = INDEX_ENTRIES / 2;
		s->stride *= 2;
	}
	s->index[s->n_index++] = s->at;
	s->since_indexed = 0;
}

const struct sr_stream_place *sr_stream_place_before(const struct sr_stream *s, uint64_t position)
{
	uint32_t low = 0, high = s->n_index;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (s->index[middle].ring_position <= position)
			low = middle;
		else
			high = middle;
	}
	return &s->index[low];
}

void sr_stream_pass_frame(struct sr_stream *s, const struct sr_frame_header *h)
{
	s->at.offset += sizeof(*h) + h->stored_bytes;
	s->at.sn += h->sns;
	s->at.ring_position += h->ring_bytes;
	s->open = h->flags & SR_FRAME_OPEN;
}

static void add_to_totals(struct sr_stream *s, const struct sr_frame_header *h)
{
	s->totals.frames++;
	s->totals.records += h->records;
	s->totals.sns += h->sns;
	s->totals.raw_bytes += h->raw_bytes;
	s->totals.stored_bytes += h->stored_bytes;
}

int sr_stream_load_frame(struct sr_stream *s)
{
	struct sr_frame_header h;
	ssize_t n;
	int ret;

	sr_stream_remember_place(s);
	ret = sr_stream_next_header(s, &h);
	if (ret <= 0)
		return ret;
	ret = make_room(s, &s->stored, &s->stored_room, h.stored_bytes);
	if (ret)
		return ret;
	n = sr_stream_read_at(s, s->stored, h.stored_bytes, s->at.offset + sizeof(h));
	if (n < 0)
		return (int)n;
	if ((size_t)n < h.stored_bytes)
		return torn(s);
	if (!sr_frame_body_valid(&h, s->stored))
		return damaged(s, "a wrong checksum");
	ret = decode(s, &h);
	if (!ret)
		ret = check_records(s, &h);
	if (ret)
		return ret;
	s->frame_offset = s->at.offset;
	s->frame_position = s->at.ring_position;
	s->frame_bytes = h.raw_bytes;
	s->frame_used = 0;
	add_to_totals(s, &h);
	sr_stream_pass_frame(s, &h);
	return 1;
}
