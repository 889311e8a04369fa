/* SPDX-License-Identifier: BSD-2-Clause */
/* One thread's stream: frames in the file, records in a frame, records made whole. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "logd/trace/frame.h"
#include "logd/trace/read_trace.h"

#define INDEX_ENTRIES 4096

struct sr_stream {
	int fd;
	char path[PATH_MAX];
	char warning[PATH_MAX + 256];
	int broken;    /* -errno that every further read returns */
	bool headless; /* the file was cut before its first frame */

	struct sr_stream_place at; /* the next frame */
	bool open;       /* it continues a record */

	unsigned char *stored; /* as read */
	unsigned char *frame;  /* decoded */
	uint32_t frame_bytes, frame_used;
	uint64_t frame_offset;
	uint64_t next_sn;

	unsigned char *whole; /* the record being put together */
	size_t whole_size, whole_room;
	bool assembling;
	struct sr_entry entry;
	bool held;  /* entry was found by a seek and is the next to return */
	bool ended; /* the last entry returned is one with which a stream ends */

	struct sr_stream_place index[INDEX_ENTRIES];
	uint32_t n_index;
	uint32_t stride, since_indexed; /* frames between two entries; doubles when full */
	struct sr_stream_totals totals;
};

const char *sr_stream_warning(const struct sr_stream *s)
{
	return s->warning[0] ? s->warning : NULL;
}

const struct sr_stream_totals *sr_stream_totals(const struct sr_stream *s)
{
	return &s->totals;
}

__attribute__((format(printf, 3, 4))) static int note(struct sr_stream *s, int code,
						      const char *format, ...)
{
	int n = snprintf(s->warning, sizeof(s->warning), "%s: ", s->path);
	va_list args;

	va_start(args, format);
	vsnprintf(s->warning + n, sizeof(s->warning) - (size_t)n, format, args);
	va_end(args);
	return code;
}

static int damaged_at(struct sr_stream *s, uint64_t offset, uint64_t next_sn, const char *what)
{
	s->broken = note(s, -EBADMSG,
			 "damaged: %s in the frame at offset %llu; what comes before it, up to "
			 "SN %llu, is good",
			 what, (unsigned long long)offset, (unsigned long long)next_sn - 1);
	return s->broken;
}

/* The next frame is. */
static int damaged(struct sr_stream *s, const char *what)
{
	return damaged_at(s, s->at.offset, s->at.sn, what);
}

static int torn(struct sr_stream *s)
{
	return note(s, 0,
		    "the file ends inside of a frame, at offset %llu: read up to there, SN %llu is "
		    "the last",
		    (unsigned long long)s->at.offset, (unsigned long long)s->at.sn - 1);
}

/* ---- bytes from the file ---- */

/* How many there are, up to size; -errno. */
static ssize_t read_at(struct sr_stream *s, void *data, size_t size, uint64_t offset)
{
	size_t got = 0;

	while (got < size) {
		ssize_t n = pread(s->fd, (char *)data + got, size - got, (off_t)(offset + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int err = errno;

			s->broken = note(s, -err, "cannot be read at offset %llu: %s",
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

	while ((n = read_at(s, block, sizeof(block), offset)) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (block[i])
				return false;
		}
		offset += (uint64_t)n;
	}
	return n == 0;
}

/* ---- frames ---- */

/* 1: *h is the header of the next frame; 0: the end; -errno. */
static int read_frame_header(struct sr_stream *s, struct sr_frame_header *h)
{
	ssize_t n = read_at(s, h, sizeof(*h), s->at.offset);

	s->warning[0] = 0;
	if (n < 0)
		return (int)n;
	if (n == 0)
		return 0;
	if (n < (ssize_t)sizeof(*h))
		return torn(s);
	if (!sr_frame_header_valid(h))
		return only_zeros_from(s, s->at.offset) ? torn(s) : damaged(s, "a bad header");
	if (h->codec != SR_CODEC_RAW && h->codec != SR_CODEC_ZSTD)
		return damaged(s, "an unknown codec");
	if (h->codec == SR_CODEC_RAW && h->stored_bytes != h->raw_bytes)
		return damaged(s, "a wrong size");
	if (h->ring_bytes && h->ring_bytes != h->raw_bytes)
		return damaged(s, "a wrong number of ring bytes");
	/* Frames follow each other without a hole, or one is missing here. */
	if (h->first_sn != s->at.sn || h->ring_begin != s->at.ring_position ||
	    h->sns > INT64_MAX - h->first_sn)
		return damaged(s, "a hole in front of it or a wrong SN");
	return 1;
}

static int decode(struct sr_stream *s, const struct sr_frame_header *h)
{
	size_t n;

	if (h->codec == SR_CODEC_RAW) {
		unsigned char *raw = s->stored;

		s->stored = s->frame;
		s->frame = raw;
		return 0;
	}
	n = ZSTD_decompress(s->frame, SR_FRAME_MAX_RAW, s->stored, h->stored_bytes);
	if (ZSTD_isError(n) || n != h->raw_bytes)
		return damaged(s, "compressed data that do not decompress");
	return 0;
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

static void remember_place(struct sr_stream *s)
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

static void pass_frame(struct sr_stream *s, const struct sr_frame_header *h)
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

/* 1: the next frame is in s->frame; 0: the end; -errno. */
static int load_frame(struct sr_stream *s)
{
	struct sr_frame_header h;
	ssize_t n;
	int ret;

	remember_place(s);
	ret = read_frame_header(s, &h);
	if (ret <= 0)
		return ret;
	n = read_at(s, s->stored, h.stored_bytes, s->at.offset + sizeof(h));
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
	s->frame_bytes = h.raw_bytes;
	s->frame_used = 0;
	add_to_totals(s, &h);
	pass_frame(s, &h);
	return 1;
}

/* ---- records ---- */

static int append(struct sr_stream *s, const void *data, size_t size)
{
	size_t need = s->whole_size + size;

	if (need > SR_RECORD_MAX)
		return damaged_at(s, s->frame_offset, s->next_sn, "a record of over 1 GiB");
	if (need > s->whole_room) {
		size_t room = need + need / 2;
		unsigned char *more = realloc(s->whole, room);

		if (!more)
			return note(s, -ENOMEM, "no memory for a record of %zu bytes", need);
		s->whole = more;
		s->whole_room = room;
	}
	memcpy(s->whole + s->whole_size, data, size);
	s->whole_size = need;
	return 0;
}

/* How many SNs; check_records has seen that the payload is large enough. */
static uint64_t sns_of(const struct sr_record *r)
{
	const void *payload = r + 1;

	if (r->kind >= SR_REC_CALL)
		return 1;
	if (r->kind == SR_REC_REPEAT)
		return ((const struct sr_repeat_payload *)payload)->count;
	if (r->kind == SR_REC_MARK)
		return ((const struct sr_mark_payload *)payload)->skipped_sns;
	return 0;
}

static void begin_entry(struct sr_stream *s, const struct sr_record *r)
{
	bool counts = r->kind >= SR_REC_CALL || r->kind == SR_REC_REPEAT;

	s->entry = (struct sr_entry){
	    .kind = r->kind,
	    .flags = r->flags & ~SR_RECORD_MORE,
	    .count = sns_of(r),
	    .sn = counts ? s->next_sn : s->next_sn - 1,
	    .payload = r + 1,
	    .size = r->size - sizeof(*r),
	    .offset = s->frame_offset,
	};
	s->next_sn += s->entry.count;
}

/* 1: s->entry is whole; 0: more pieces are needed; -errno. */
static int take_piece(struct sr_stream *s, const struct sr_record *r)
{
	bool more = r->flags & SR_RECORD_MORE;
	int ret;

	/* The process died between two pieces: what there is of the record is no record. */
	if (s->assembling && r->kind == SR_REC_MARK)
		s->assembling = false;
	if (!s->assembling) {
		begin_entry(s, r);
		if (!more)
			return 1;
		s->assembling = true;
		s->whole_size = 0;
	} else if (r->kind != s->entry.kind) {
		return damaged_at(s, s->frame_offset, s->next_sn,
				  "a record where the rest of another should be");
	}
	ret = append(s, r + 1, r->size - sizeof(*r));
	if (ret || more)
		return ret;
	s->assembling = false;
	s->entry.payload = s->whole;
	s->entry.size = s->whole_size;
	return 1;
}

static int next_entry(struct sr_stream *s)
{
	for (;;) {
		const struct sr_record *r;
		int ret = 1;

		if (s->broken || s->headless)
			return s->broken;
		if (s->frame_used == s->frame_bytes)
			ret = load_frame(s);
		if (ret <= 0)
			return ret;
		if (s->frame_used == s->frame_bytes) /* a frame without records */
			continue;
		r = (const struct sr_record *)(s->frame + s->frame_used);
		s->frame_used += sr_record_padded(r->size);
		if (r->kind == SR_REC_PAD)
			continue;
		ret = take_piece(s, r);
		if (ret)
			return ret;
	}
}

static bool is_last(const struct sr_entry *e)
{
	uint32_t reason;

	if (e->kind != SR_REC_MARK)
		return e->kind == SR_REC_EXIT;
	reason = ((const struct sr_mark_payload *)e->payload)->reason;
	return reason == SR_MARK_DIED || reason == SR_MARK_STOPPED || reason == SR_MARK_ENDED;
}

int sr_stream_next(struct sr_stream *s, struct sr_entry *e)
{
	int ret = s->held ? 1 : next_entry(s);

	s->held = false;
	if (ret == 1) {
		*e = s->entry;
		s->ended = is_last(e);
	}
	return ret;
}

bool sr_stream_ended(const struct sr_stream *s)
{
	return s->ended;
}

/* ---- seeking ---- */

static void go_to(struct sr_stream *s, const struct sr_stream_place *place)
{
	s->at = *place;
	s->next_sn = place->sn;
	s->open = s->assembling = s->held = false;
	s->frame_used = s->frame_bytes = 0;
}

static const struct sr_stream_place *last_place_before(const struct sr_stream *s, uint64_t sn)
{
	uint32_t low = 0, high = s->n_index;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (s->index[middle].sn <= sn)
			low = middle;
		else
			high = middle;
	}
	return &s->index[low];
}

const struct sr_stream_place *sr_stream_places(const struct sr_stream *s, size_t *n)
{
	*n = s->n_index;
	return s->index;
}

void sr_stream_set_places(struct sr_stream *s, const struct sr_stream_place *places, size_t n)
{
	for (size_t i = 0; i < n && s->n_index < INDEX_ENTRIES; i++)
		if (places[i].offset > s->index[s->n_index - 1].offset)
			s->index[s->n_index++] = places[i];
}

uint64_t sr_stream_size(const struct sr_stream *s)
{
	struct stat st;

	return fstat(s->fd, &st) ? 0 : (uint64_t)st.st_size;
}

/* Pass frames by their headers until the one in which sn begins. */
static int skip_frames(struct sr_stream *s, uint64_t sn)
{
	struct sr_frame_header h;
	int ret;

	for (;;) {
		remember_place(s);
		ret = read_frame_header(s, &h);
		if (ret <= 0)
			return ret;
		if (h.first_sn + h.sns > sn)
			break;
		pass_frame(s, &h);
	}
	s->next_sn = s->at.sn;
	return 1;
}

int sr_stream_seek(struct sr_stream *s, uint64_t sn)
{
	const struct sr_stream_place *place = last_place_before(s, sn);
	int ret;

	if (s->broken || s->headless)
		return s->broken ? s->broken : -ENOENT;
	go_to(s, place);
	ret = skip_frames(s, sn);
	if (ret <= 0)
		return ret ? ret : -ENOENT;
	/*
	 * The frame may begin with the rest of a record from in front of it;
	 * that one is not wanted.
	 */
	if (s->open) {
		ret = load_frame(s);
		if (ret <= 0)
			return ret ? ret : -ENOENT;
		for (bool more = true; more && s->frame_used < s->frame_bytes;) {
			const struct sr_record *r = (const void *)(s->frame + s->frame_used);

			if (r->kind == SR_REC_MARK)
				break;
			more = r->flags & SR_RECORD_MORE;
			s->frame_used += sr_record_padded(r->size);
		}
	}
	do
		ret = next_entry(s);
	while (ret == 1 && s->entry.sn + (s->entry.count ? s->entry.count - 1 : 0) < sn);
	s->held = ret == 1;
	return ret == 1 ? 0 : ret ? ret : -ENOENT;
}

int sr_stream_fingerprint(struct sr_stream *s, uint64_t *hash)
{
	struct sr_frame_header h;
	int ret;

	*hash = 0;
	if (s->broken || s->headless)
		return s->broken;
	go_to(s, &s->index[0]);
	while ((ret = read_frame_header(s, &h)) > 0) {
		*hash = XXH3_64bits_withSeed(&h, sizeof(h), *hash);
		pass_frame(s, &h);
	}
	go_to(s, &s->index[0]);
	return ret;
}

/* ---- opening ---- */

static int check_stream_header(struct sr_stream *s, struct sr_trace *t, int32_t rank,
			       uint32_t thread, struct sr_error *err)
{
	struct sr_stream_header h;
	ssize_t n = read_at(s, &h, sizeof(h), 0);
	int ret;

	if (n < 0)
		return sr_error_set(err, (int)n, "cannot read %s: %s", s->path, strerror((int)-n));
	s->at = (struct sr_stream_place){.offset = sizeof(h), .sn = 1};
	if (n < (ssize_t)sizeof(h)) {
		/* A stream without a frame, then. */
		s->headless = true;
		note(s, 0, "the file ends inside of its header, at offset %zd: nothing to read", n);
		return 0;
	}
	if (memcmp(h.magic, SR_STREAM_MAGIC, sizeof(h.magic)))
		return sr_error_set(err, -EINVAL, "%s is not a stream of an sreplay trace",
				    s->path);
	ret = sr_trace_check_version(s->path, h.version, err);
	if (ret)
		return ret;
	if (!sr_stream_header_valid(&h) || h.header_bytes < sizeof(h))
		return sr_error_set(err, -EBADMSG, "%s: damaged: a wrong checksum in its header",
				    s->path);
	if (h.rank != rank || h.thread != thread ||
	    memcmp(h.process, sr_trace_process_id(t, rank), sizeof(h.process)))
		return sr_error_set(err, -EBADMSG,
				    "%s belongs to another recording (it says rank %d, thread %u)",
				    s->path, h.rank, h.thread);
	s->at.offset = h.header_bytes;
	return 0;
}

static int allocate(struct sr_stream *s)
{
	s->stored = malloc(SR_FRAME_MAX_RAW);
	s->frame = malloc(SR_FRAME_MAX_RAW);
	s->stride = 1;
	return s->stored && s->frame ? 0 : -ENOMEM;
}

int sr_stream_open(struct sr_stream **stream, struct sr_trace *t, int32_t rank, uint32_t thread,
		   struct sr_error *err)
{
	struct sr_stream *s = calloc(1, sizeof(*s));
	int ret;

	*stream = NULL;
	if (!s)
		return sr_error_set(err, -ENOMEM, "no memory to open a stream");
	s->fd = -1;
	if (!sr_trace_process_id(t, rank)) {
		ret = sr_error_set(err, -ENOENT, "%s has no rank %d", sr_trace_dir(t), rank);
		goto fail;
	}
	snprintf(s->path, sizeof(s->path), "%s/rank-%d/thread-%u.srs", sr_trace_dir(t), rank,
		 thread);
	s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0) {
		ret = sr_error_set(err, -errno, "cannot open %s: %s", s->path, strerror(errno));
		goto fail;
	}
	ret = allocate(s);
	if (ret)
		sr_error_set(err, ret, "no memory to read %s", s->path);
	if (!ret)
		ret = check_stream_header(s, t, rank, thread, err);
	if (ret)
		goto fail;
	s->next_sn = s->at.sn;
	remember_place(s);
	*stream = s;
	return 0;
fail:
	sr_stream_close(s);
	return ret;
}

void sr_stream_close(struct sr_stream *s)
{
	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd);
	free(s->stored);
	free(s->frame);
	free(s->whole);
	free(s);
}
