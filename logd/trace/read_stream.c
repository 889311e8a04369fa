/* SPDX-License-Identifier: BSD-2-Clause */
/* One thread's stream: records out of frames, made whole. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "logd/trace/read_ahead.h"
#include "logd/trace/read_frames.h"
#include "logd/trace/read_trace.h"
#include "logd/trace/references.h"
#include "logd/trace/safe_file.h"

const char *sr_stream_warning(const struct sr_stream *s)
{
	return s->warning[0] ? s->warning : NULL;
}

const struct sr_stream_totals *sr_stream_totals(const struct sr_stream *s)
{
	return &s->totals;
}

/* ---- records ---- */

static int append(struct sr_stream *s, const void *data, size_t size)
{
	size_t need = s->whole_size + size;

	if (need > SR_RECORD_MAX)
		return sr_stream_damaged(s, s->frame_offset, s->next_sn, "a record of over 4 GiB");
	if (need > s->whole_room) {
		size_t room = need + need / 2;
		unsigned char *more = realloc(s->whole, room);

		if (!more)
			return sr_stream_note(s, -ENOMEM, "no memory for a record of %zu bytes",
					      need);
		s->whole = more;
		s->whole_room = room;
	}
	memcpy(s->whole + s->whole_size, data, size);
	s->whole_size = need;
	return 0;
}

/* By how much the record advances the SN; its payload has been checked to be large enough. */
static uint64_t sns_of(const struct sr_record *r)
{
	const void *payload = r + 1;

	if (r->kind >= SR_REC_CALL)
		return 1;
	if (r->kind == SR_REC_REPEAT)
		return ((const struct sr_repeat_payload *)payload)->count;
	if (r->kind == SR_REC_CYCLE)
		return ((const struct sr_cycle_payload *)payload)->calls;
	if (r->kind == SR_REC_MARK)
		return ((const struct sr_mark_payload *)payload)->skipped_sns;
	return 0;
}

static void begin_entry(struct sr_stream *s, const struct sr_record *r)
{
	bool counts = r->kind >= SR_REC_CALL || r->kind == SR_REC_REPEAT || r->kind == SR_REC_CYCLE;

	s->entry = (struct sr_entry){
	    .kind = r->kind,
	    .flags = r->flags & ~SR_RECORD_MORE,
	    .count = sns_of(r),
	    .stride = 1,
	    .sn = counts ? s->next_sn : s->next_sn - 1,
	    .payload = r + 1,
	    .size = r->size - sizeof(*r),
	    .written = r->size - sizeof(*r),
	    .offset = s->frame_offset,
	};
	s->next_sn += s->entry.count;
}

/* 1: s->entry is whole; 0: more pieces are needed; -errno. */
static int take_piece(struct sr_stream *s, const struct sr_record *r)
{
	bool more = r->flags & SR_RECORD_MORE;
	int ret;

	/* The process died between two pieces, so they are no record. */
	if (s->assembling && r->kind == SR_REC_MARK)
		s->assembling = false;
	if (!s->assembling) {
		begin_entry(s, r);
		if (!more)
			return 1;
		s->assembling = true;
		s->whole_size = 0;
	} else if (r->kind != s->entry.kind) {
		return sr_stream_damaged(s, s->frame_offset, s->next_sn,
					 "a record where the rest of another should be");
	}
	ret = append(s, r + 1, r->size - sizeof(*r));
	if (ret || more)
		return ret;
	s->assembling = false;
	s->entry.payload = s->whole;
	s->entry.size = s->entry.written = s->whole_size;
	return 1;
}

/* The entry may be one that comes again. */
static int keep_entry(struct sr_stream *s)
{
	if (!(s->entry.flags & SR_RECORD_KEPT))
		return 1;
	if (!sr_cycles_keep(&s->cycles, &s->entry))
		return sr_stream_damaged(s, s->frame_offset, s->entry.sn, "a record that cannot come again, but says so");
	s->entry.flags &= (uint16_t)~SR_RECORD_KEPT;
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
			ret = sr_read_ahead_take(s) ? 1 : sr_stream_load_frame(s);
		if (ret <= 0)
			return ret;
		if (!s->frame_used)
			sr_read_ahead_begin(s);
		if (s->frame_used == s->frame_bytes) /* a frame without records */
			continue;
		r = (const struct sr_record *)(s->frame + s->frame_used);
		if (!s->assembling)
			s->entry_position = s->frame_position + s->frame_used;
		s->frame_used += sr_record_padded(r->size);
		if (r->kind == SR_REC_PAD) {
			/* The daemon has taken a record out: there is none. */
			s->totals.records--;
			s->totals.raw_bytes -= sr_record_padded(r->size);
			continue;
		}
		ret = take_piece(s, r);
		if (ret == 1 && s->entry.flags & SR_RECORD_REFERS)
			ret = sr_references_resolve(s, s->entry_position);
		if (ret == 1)
			return keep_entry(s);
		if (ret)
			return ret;
	}
}

/* The entry is a cycle: goes to the call behind those that are passed over. */
static int begin_cycle(struct sr_stream *s, uint64_t passed)
{
	if (!sr_cycles_begin(&s->cycles, &s->entry, passed))
		return sr_stream_damaged(s, s->frame_offset, s->entry.sn, "calls that come again, but are not there");
	sr_cycles_next(&s->cycles, &s->entry);
	return 1;
}

/* The same, with the calls of a cycle in its place. */
static int next_call(struct sr_stream *s)
{
	int ret;

	if (sr_cycles_next(&s->cycles, &s->entry))
		return 1;
	ret = next_entry(s);
	return ret == 1 && s->entry.kind == SR_REC_CYCLE ? begin_cycle(s, 0) : ret;
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
	int ret = s->held ? 1 : next_call(s);

	s->held = false;
	if (ret == 1) {
		*e = s->entry;
		s->ended = is_last(e);
	}
	return ret;
}

void sr_stream_fold_cycles(struct sr_stream *s)
{
	s->cycles.folds = true;
}

uint64_t sr_entry_last_sn(const struct sr_entry *e)
{
	return e->count ? e->sn + (e->count - 1) * e->stride : e->sn;
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
	sr_cycles_forget(&s->cycles);
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

uint64_t sr_stream_size(const struct sr_stream *s)
{
	struct stat st;

	return fstat(s->fd, &st) ? 0 : (uint64_t)st.st_size;
}

/* Passes frames, by their headers, up to the one in which sn begins. */
static int skip_frames(struct sr_stream *s, uint64_t sn)
{
	struct sr_frame_header h;
	int ret;

	for (;;) {
		sr_stream_remember_place(s);
		ret = sr_stream_next_header(s, &h);
		if (ret <= 0)
			return ret;
		if (h.first_sn + h.sns > sn)
			break;
		sr_stream_pass_frame(s, &h);
	}
	return 1;
}

/* From a frame to the one where the records begin that its cycles may repeat. */
static int go_back(struct sr_stream *s)
{
	const uint64_t at = s->at.ring_position, from = at > SR_CYCLE_WITHIN ? at - SR_CYCLE_WITHIN : 0;
	struct sr_frame_header h;
	int ret;

	go_to(s, sr_stream_place_before(s, from));
	while ((ret = sr_stream_next_header(s, &h)) == 1 && h.ring_begin + h.ring_bytes <= from && s->at.ring_position < at)
		sr_stream_pass_frame(s, &h);
	s->next_sn = s->at.sn;
	return ret;
}

/*
 * The next frames may begin with the rest of a record that began in front of them: leaves that
 * behind.  1, 0: there is no frame; -errno.
 */
static int skip_rest_of_record(struct sr_stream *s)
{
	bool more = s->open;
	int ret = 1;

	while (ret == 1 && more) {
		const struct sr_record *r = (const void *)(s->frame + s->frame_used);

		if (s->frame_used == s->frame_bytes) {
			ret = sr_stream_load_frame(s);
			continue;
		}
		if (r->kind == SR_REC_MARK)
			break;
		more = r->flags & SR_RECORD_MORE;
		s->frame_used += sr_record_padded(r->size);
	}
	return ret;
}

static int seek(struct sr_stream *s, uint64_t sn)
{
	int ret;

	go_to(s, last_place_before(s, sn));
	ret = skip_frames(s, sn);
	if (ret == 1)
		ret = go_back(s);
	if (ret == 1)
		ret = skip_rest_of_record(s);
	if (ret != 1)
		return ret;
	do
		ret = next_entry(s);
	while (ret == 1 && s->entry.sn + (s->entry.count ? s->entry.count - 1 : 0) < sn);
	if (ret == 1 && s->entry.kind == SR_REC_CYCLE)
		ret = begin_cycle(s, s->entry.sn < sn ? sn - s->entry.sn : 0);
	s->held = ret == 1;
	return ret;
}

int sr_stream_seek(struct sr_stream *s, uint64_t sn)
{
	int ret = s->broken || s->headless ? s->broken : seek(s, sn);

	if (ret < 0)
		return ret;
	return ret ? 0 : -ENOENT;
}

int sr_stream_fingerprint(struct sr_stream *s, uint64_t *hash)
{
	struct sr_frame_header h;
	int ret;

	*hash = 0;
	if (s->broken || s->headless)
		return s->broken;
	go_to(s, &s->index[0]);
	while ((ret = sr_stream_next_header(s, &h)) > 0) {
		*hash = XXH3_64bits_withSeed(&h, sizeof(h), *hash);
		sr_stream_pass_frame(s, &h);
	}
	go_to(s, &s->index[0]);
	return ret;
}

/* ---- opening ---- */

static int check_stream_header(struct sr_stream *s, struct sr_trace *t, int32_t rank,
			       uint32_t thread, struct sr_error *err)
{
	struct sr_stream_header h;
	ssize_t n = sr_stream_read_at(s, &h, sizeof(h), 0);
	int ret;

	if (n < 0)
		return sr_error_set(err, (int)n, "cannot read %s: %s", s->path, strerror((int)-n));
	s->at = (struct sr_stream_place){.offset = sizeof(h), .sn = sr_trace_sns_before(t, rank) + 1};
	if (n < (ssize_t)sizeof(h)) {
		/* A stream without a frame, then. */
		s->headless = true;
		sr_stream_note(
		    s, 0, "the file ends within its header, at offset %zd: nothing to read", n);
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
	if (h.rank != sr_trace_recorded_rank(t, rank) || h.thread != thread ||
	    memcmp(h.process, sr_trace_process_id(t, rank), sizeof(h.process)))
		return sr_error_set(err, -EBADMSG,
				    "%s belongs to another recording (it says rank %d, thread %u)",
				    s->path, h.rank, h.thread);
	s->at.offset = h.header_bytes;
	return 0;
}

int sr_stream_open(struct sr_stream **stream, struct sr_trace *t, int32_t rank, uint32_t thread,
		   struct sr_error *err)
{
	struct sr_stream *s = calloc(1, sizeof(*s));
	char name[32];
	int ret;

	*stream = NULL;
	if (!s)
		return sr_error_set(err, -ENOMEM, "no memory to open a stream");
	s->fd = -1;
	s->stride = 1;
	if (!sr_trace_process_id(t, rank)) {
		ret = sr_error_set(err, -ENOENT, "%s has no rank %d", sr_trace_dir(t), rank);
		goto fail;
	}
	snprintf(s->label, sizeof(s->label), "%s", sr_trace_rank_label(t, rank));
	snprintf(name, sizeof(name), "thread-%u.srs", thread);
	sr_trace_rank_path(t, rank, name, s->path, sizeof(s->path));
	s->fd = sr_safe_open(s->path);
	if (s->fd < 0) {
		ret = sr_error_set(err, s->fd, "cannot open %s: %s", s->path,
				   sr_safe_reason(s->fd));
		goto fail;
	}
	ret = check_stream_header(s, t, rank, thread, err);
	if (ret)
		goto fail;
	s->next_sn = s->at.sn;
	sr_stream_remember_place(s);
	*stream = s;
	return 0;
fail:
	sr_stream_close(s);
	return ret;
}

const char *sr_stream_rank_label(const struct sr_stream *s)
{
	return s->label;
}

void sr_stream_close(struct sr_stream *s)
{
	if (!s)
		return;
	sr_read_ahead_free(s);
	if (s->fd >= 0)
		close(s->fd);
	free(s->stored);
	free(s->frame);
	free(s->whole);
	sr_references_free(s);
	free(s);
}
