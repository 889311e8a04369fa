/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reader.h: reading a trace.
 *
 * For the sreplay command, the replay and tests.  One thread at a time may use a trace, and one a
 * stream.  Memory is bounded whatever the size of the trace: a frame, one record as a whole, and an
 * index of fixed size.  Nothing that a file says is used before it is checked.  A trace may be
 * read while it grows.
 *
 * Functions that return int return 0 or -errno unless they say otherwise, and those with a
 * struct sr_error then put a sentence there (err may be NULL).  -EPROTO: the trace is of another
 * version; -EBADMSG: damaged; -ENOENT: not there.
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

/* A sentence for the user that names file, place and remedy. */
struct sr_error {
	char text[512];
};

/* A record; or, of a SR_REC_CYCLE, each of the calls that it says. */
struct sr_entry {
	uint16_t kind;  /* enum sr_record_kind, or SR_REC_CALL + number of the call */
	uint16_t flags; /* SR_RECORD_* */
	/* A call's SN; a REPEAT's first one; else that of the last call in front, or 0. */
	uint64_t sn;
	uint64_t count;      /* by how much it advances the SN; of a folded cycle: how many calls it stands for ... */
	uint32_t stride;     /* ... each of which has an SN that is so much higher than the one before; else 1 */
	const void *payload; /* whole, 8-byte aligned; valid until the next call on the stream */
	size_t size;         /* bytes */
	size_t written;      /* of these in the stream: without those that it refers to (SR_RECORD_REFERS) */
	uint64_t offset;     /* in the file, of the frame in which it begins */
	bool again;          /* the call has no record of its own, but is one of a SR_REC_CYCLE */
	const struct sr_cycle_payload *cycle; /* ... the first one of this; else NULL */
};

/* Reads the manifest and each rank's description.  sr_trace_close frees it all (NULL: nothing). */
int sr_trace_open(struct sr_trace **trace, const char *dir, struct sr_error *err);
void sr_trace_close(struct sr_trace *t);

/* How many ranks were recorded, and the number of each, ascending; -1: index is too large. */
size_t sr_trace_ranks(const struct sr_trace *t);
int32_t sr_trace_rank_number(const struct sr_trace *t, size_t index);

/*
 * A rank has an image for each program that its process executed, from 0.  What is read of a rank is
 * of one of them: of the last, unless another is chosen.  On an error the rank must not be used.
 */
uint32_t sr_trace_images(const struct sr_trace *t, int32_t rank);
uint32_t sr_trace_image(const struct sr_trace *t, int32_t rank);
int sr_trace_choose_image(struct sr_trace *t, int32_t rank, uint32_t image, struct sr_error *err);

/* Its name for users: "3"; of the first process that rank 3 has forked "3/1", of that one's second child "3/1/2". */
const char *sr_trace_rank_name(const struct sr_trace *t, int32_t rank);

/*
 * Takes the rank `rank` of another trace in as a further rank of this one: a child that belongs to the job as its rank does.
 * Adopted ranks have numbers from SR_FIRST_ADOPTED on, in the order in which they are adopted.  What was returned for other
 * ranks is no longer valid, but what was allocated.
 */
#define SR_FIRST_ADOPTED (1 << 24)
int sr_trace_adopt(struct sr_trace *t, const char *dir, int32_t rank, struct sr_error *err);

/* Its number in its own trace, and where that is. */
int32_t sr_trace_recorded_rank(const struct sr_trace *t, int32_t rank);
const char *sr_trace_rank_dir(const struct sr_trace *t, int32_t rank);

/*
 * A process that a recorded one has forked has a trace of its own, in the directory of its parent's
 * image.  Its number as a child, "1", or "1/2" of a child of that one; NULL: it is not forked.
 */
const char *sr_trace_child(const struct sr_trace *t, int32_t rank);

/* The traces of the children that the chosen image has forked; for sr_trace_children_free. */
int sr_trace_children(const struct sr_trace *t, int32_t rank, char ***dirs, size_t *n);
void sr_trace_children_free(char **dirs, size_t n);

/* Its name, with " image K" behind it if it has several. */
const char *sr_trace_rank_label(const struct sr_trace *t, int32_t rank);

/* The SNs of the image's threads go on after this one; 0 of the first image. */
uint64_t sr_trace_sns_before(const struct sr_trace *t, int32_t rank);

/* The path of the image's directory, or of the file `name` (NULL: none) there. */
void sr_trace_rank_path(const struct sr_trace *t, int32_t rank, const char *name, char *path,
			size_t size);

/*
 * Does the trace lack what other ranks of the job sent to this one (record --order)?  Then the rank is replayed
 * with all others.
 */
bool sr_trace_leaves_out(const struct sr_trace *t, int32_t rank);

/* Do its calls' records lack checksums, of which it has the sums (SR_REC_CHECK)? */
bool sr_trace_has_sums(const struct sr_trace *t, int32_t rank);

/* Do its streams say where orders were found among the numbers of its threads (SR_REC_BEHIND)?  Not those of older builds. */
bool sr_trace_has_places(const struct sr_trace *t, int32_t rank);

/* process.json and schema.json of a rank, which belong to the trace.  NULL: no such rank. */
const json_t *sr_trace_process(const struct sr_trace *t, int32_t rank);
const char *sr_trace_schema(const struct sr_trace *t, int32_t rank, size_t *size);

/* How many threads of a rank have a stream; *threads: their numbers, ascending. */
size_t sr_trace_threads(const struct sr_trace *t, int32_t rank, const uint32_t **threads);
bool sr_trace_has_thread(const struct sr_trace *t, int32_t rank, uint32_t thread);

/*
 * The threads of the rank whose streams the daemon has begun, ascending: a malloc'ed list, without
 * an entry where the trace has none.
 */
int sr_trace_listed_threads(const struct sr_trace *t, int32_t rank, uint32_t **threads, size_t *n,
			    struct sr_error *err);

/*
 * The regular files that the rank's process read, in the order of their first use, as
 *   {"path": , "size": , "xxh3": , "kept": , "changed": , "error": }
 * Only path and size are always there: xxh3 is the content's hash; kept is where the content
 * is, relative to the trace; changed says that it was modified before it could be read; error is
 * why it could not.  A new array for the caller to free, empty if there are none; NULL: err says
 * why.
 */
json_t *sr_trace_files(const struct sr_trace *t, int32_t rank, struct sr_error *err);

/*
 * Of such an array: the numbers of the notes whose content is kept, as a new object for sr_trace_is_kept().  A file that the
 * program changed itself has a second element, about the copy made before.
 */
json_t *sr_trace_kept_notes(const json_t *files);
bool sr_trace_is_kept(const json_t *notes, const json_t *file);

/*
 * The bytes of a string of process.json, or of a "path" above: JSON text, or {"hex": "..."} where
 * the bytes were not UTF-8.  A malloc'ed, 0-terminated copy; *size, if not NULL: without the 0.
 * NULL: it is neither.
 */
char *sr_trace_bytes(const json_t *string, size_t *size);

/* From now on a thread of its own decodes the next frame of each stream while the one before it is read. */
void sr_streams_read_ahead(void);

/* Opens a stream, at its first record.  It must be closed before the trace. */
int sr_stream_open(struct sr_stream **stream, struct sr_trace *t, int32_t rank, uint32_t thread,
		   struct sr_error *err);
void sr_stream_close(struct sr_stream *s);

/*
 * 1: *e is the next record (never SR_REC_PAD); 0: there is none so far, call again if the trace
 * grows; -errno: sr_stream_warning says why, and each further call returns the same.
 */
int sr_stream_next(struct sr_stream *s, struct sr_entry *e);

/*
 * From now on only the first turn of a SR_REC_CYCLE is read: each of its calls stands for itself and those that follow it in the
 * other turns.  (They are polls that find nothing, of which an hour has 10^11.)
 */
void sr_stream_fold_cycles(struct sr_stream *s);

/* The SN of the last call that this entry of a call, or REPEAT, stands for. */
uint64_t sr_entry_last_sn(const struct sr_entry *e);

/*
 * Makes the call with this SN the next record, or the first record behind its place.  -ENOENT:
 * the stream ends before.
 */
int sr_stream_seek(struct sr_stream *s, uint64_t sn);

/* Where reading can begin: a frame that does not begin within a record. */
struct sr_stream_place {
	uint64_t sn; /* of the first call behind it */
	uint64_t offset;
	uint64_t ring_position;
};

/* The places that the stream has passed, at even distances; they belong to the stream. */
const struct sr_stream_place *sr_stream_places(const struct sr_stream *s, size_t *n);

/* sr_trace_rank_label of its rank. */
const char *sr_stream_rank_label(const struct sr_stream *s);

/* The size of the file in bytes. */
uint64_t sr_stream_size(const struct sr_stream *s);

/*
 * A hash of the headers of all frames, which hold the checksums of their contents: it changes with
 * anything in the stream.  Goes back to the first record.
 */
int sr_stream_fingerprint(struct sr_stream *s, uint64_t *hash);

/*
 * Does the record that was read last end the stream (EXIT, or the mark of an end)?  If not, and
 * sr_stream_next has returned 0, then the stream is still being written, or the process and
 * its daemon were killed before the end got into the file.
 */
bool sr_stream_ended(const struct sr_stream *s);

/* A sentence about a torn end or about damage; NULL: there is none.  It belongs to the stream. */
const char *sr_stream_warning(const struct sr_stream *s);

/* Of the frames read so far. */
struct sr_stream_totals {
	uint64_t frames, records, sns, raw_bytes, stored_bytes;
};
const struct sr_stream_totals *sr_stream_totals(const struct sr_stream *s);

#endif
