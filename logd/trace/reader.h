/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reader.h: reading a trace.
 *
 * For the sreplay command, the replay and the tests; one thread at a time for
 * each trace and for each stream.  Memory is bounded whatever the trace's size:
 * a frame, the record being put together, an index of fixed size.  Nothing
 * that a file says is believed before it is checked.
 *
 * A trace may be read while it grows.
 */
#ifndef LOGD_TRACE_READER_H
#define LOGD_TRACE_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sreplay/trace.h>

struct sr_trace;
struct sr_stream;

/* A sentence that names file, place and remedy. */
struct sr_error {
	char text[512];
};

struct sr_entry {
	uint16_t kind; /* enum sr_record_kind, or SR_REC_CALL + number of the call */
	uint16_t flags;
	/* Of a call: its SN.  Of a REPEAT: the first one it stands for.  Else: the last call's, or
	 * 0. */
	uint64_t sn;
	uint64_t count;      /* SNs that it stands for: 1, a REPEAT's count, a mark's hole, or 0 */
	const void *payload; /* whole, 8-byte aligned; until the next call on the stream */
	size_t size;
	uint64_t offset; /* in the file: the frame in which it begins */
};

/* 0, or -errno and a sentence in err. */
int sr_trace_open(struct sr_trace **trace, const char *dir, struct sr_error *err);
void sr_trace_close(struct sr_trace *t);

/* The ranks that were recorded, ascending. */
size_t sr_trace_ranks(const struct sr_trace *t);
int32_t sr_trace_rank_number(const struct sr_trace *t, size_t index);

/* NULL if there is no such rank. */
const json_t *sr_trace_process(const struct sr_trace *t, int32_t rank);
const char *sr_trace_schema(const struct sr_trace *t, int32_t rank, size_t *size);
/* The threads of a rank that have a stream, ascending; their number. */
size_t sr_trace_threads(const struct sr_trace *t, int32_t rank, const uint32_t **threads);

/*
 * The regular files that the rank's process read, in the order of first use, as
 *   {"path": , "size": , "xxh3": , "kept": , "changed": , "error": }
 * each but for path and size only if it is known: the content's hash; where the
 * content is, relative to the trace; that somebody changed it before it could
 * be read; why it could not.  A new array, empty if there are none; NULL and a
 * sentence.
 */
json_t *sr_trace_files(const struct sr_trace *t, int32_t rank, struct sr_error *err);

/*
 * The bytes of a string of process.json (and of a "path" above): JSON text as it is, or {"hex": "..."}
 * where it was not UTF-8.  A malloc'ed, 0-terminated copy; NULL if it is neither.
 */
char *sr_trace_bytes(const json_t *string, size_t *size);

int sr_stream_open(struct sr_stream **stream, struct sr_trace *t, int32_t rank, uint32_t thread,
		   struct sr_error *err);
void sr_stream_close(struct sr_stream *s);

/*
 * 1: *e is the next record; 0: the end so far (call again if the trace grows);
 * -EBADMSG: damaged; other -errno.  SR_REC_PAD is skipped.
 */
int sr_stream_next(struct sr_stream *s, struct sr_entry *e);

/*
 * The next record will be the first one that is, or comes after, the call with
 * this SN.  0; -ENOENT: the stream ends before; -errno as sr_stream_next.
 */
int sr_stream_seek(struct sr_stream *s, uint64_t sn);

/* Where reading can begin: a frame whose first record continues none. */
struct sr_stream_place {
	uint64_t sn; /* of the first call that begins there, or later */
	uint64_t offset;
	uint64_t ring_position;
};

/* Those that the stream remembers of what was read: from its beginning, at even distances. */
const struct sr_stream_place *sr_stream_places(const struct sr_stream *s, size_t *n);

/* Bytes of the file. */
uint64_t sr_stream_size(const struct sr_stream *s);

/*
 * A hash of the headers of all frames, which have the checksums of what is in
 * them: another one as soon as anything in the stream is.  Reading begins at the
 * first record again.  0, or -errno as sr_stream_next.
 */
int sr_stream_fingerprint(struct sr_stream *s, uint64_t *hash);

/*
 * Was the last record read one with which a stream ends (SR_REC_EXIT, or the
 * mark of an end)?  After sr_stream_next has returned 0, false means that the
 * stream is still being written, or that the process and its daemon were killed
 * before what was in the ring got into the file.
 */
bool sr_stream_ended(const struct sr_stream *s);

/* A sentence about a torn tail or damage, or NULL. */
const char *sr_stream_warning(const struct sr_stream *s);

/* Of the frames read so far, for verify and info. */
struct sr_stream_totals {
	uint64_t frames, records, sns, raw_bytes, stored_bytes;
};
const struct sr_stream_totals *sr_stream_totals(const struct sr_stream *s);

#endif
