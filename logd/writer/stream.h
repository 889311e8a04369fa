/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stream.h: from one thread's ring into one file.
 *
 * A stream is its drain thread's (drain.h).  The main thread may use the atomic fields and
 * stream_committed only, within the lock of its area (served.h).
 *
 * The daemon may be killed at any moment, since at each: the file consists of whole frames, and
 * perhaps a torn one at its end; and the ring's tail is not beyond what those frames hold.
 */
#ifndef LOGD_WRITER_STREAM_H
#define LOGD_WRITER_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "logd/ring/ring.h"
#include "logd/writer/frame_writer.h"

struct read_files;
struct served;

/* Where a stream belongs.  Directories and `process` are the recording's. */
struct stream_origin {
	int rank_fd, trace_fd;
	int32_t rank;
	uint32_t thread;
	const uint8_t *process;
	uint32_t image;
	uint64_t sns; /* its SNs go on after this one */
	const struct sr_layouts *layouts; /* of its records; or NULL */
	struct read_files *files;         /* of its process; or NULL */
};

struct stream {
	struct stream *next;      /* of the drain thread's list */
	struct stream *next_mine, *previous_mine; /* of its area's list */
	struct served *served;    /* that area; and its place there */
	uint32_t slot;
	struct sr_ring ring;
	int fd;
	struct stream_origin origin;
	bool resume; /* an earlier daemon has written to the file */
	char name[96]; /* "rank-N/thread-T.srs", or with the image's directory in it */

	uint64_t offset; /* end of the file */
	uint64_t next_sn;
	bool open;      /* the last record goes on in the next frame */
	bool exit;      /* the last record is SR_REC_EXIT */
	uint32_t mark;  /* ... or the daemon's own mark with this reason; 0: it is none */
	bool exit_next; /* ... once the frame under way is written */
	struct frame_habit habit;
	bool dense; /* the last frame was compressed to few bytes */
	int64_t active_ms; /* when the file last got records; 0: not yet */
	int64_t due_ms; /* when even a little in the ring is written; 0: the ring is empty */
	size_t seen_waiting; /* when its drain thread looked last */

	_Atomic uint64_t written;  /* ring position up to which the file has all */
	_Atomic bool gone;         /* the process is dead: empty the ring and end */
	_Atomic bool replaced;     /* ... or rather, it has executed another program; set before */
	_Atomic bool stopped; /* an error ended the recording, and the ring drops records */
	int stop_error;       /* that error, -errno */
	const char *stop_why;
	int64_t mark_again_ms; /* when the mark of that is tried again; 0: it is written */
	_Atomic uint64_t stored_bytes, records;
};

/* For a ring of the consumer's side, which it takes over.  NULL: no memory. */
struct stream *stream_new(const struct stream_origin *o, const struct sr_ring *ring, bool resume);

/*
 * Creates the file; or, to resume, goes on where the file of an earlier daemon ends.  An error
 * (-errno) stops the ring: the thread is not recorded.
 */
int stream_begin(struct stream *s);
void stream_free(struct stream *s);

/* How many bytes wait in the ring. */
size_t stream_waiting(struct stream *s);

/* The ring position up to which the producer has committed.  Any thread. */
uint64_t stream_committed(const struct stream *s);

/* Does the process wait until more is written? */
bool stream_is_asked(const struct stream *s);

/*
 * Writes one frame of what waits.  There are two steps, around frame_write, so that the frames of
 * several streams are written at once.  stream_prepare returns false if there is nothing to
 * write.  An error stops the ring and ends the recording of this thread, with a mark.
 */
bool stream_prepare(struct stream *s, struct frame_writer *w, struct frame_job *job);
void stream_complete(struct stream *s, struct frame_writer *w, const struct frame_job *job);

/* Both steps, for one stream. */
void stream_write(struct stream *s, struct frame_writer *w);

/*
 * Where the mark of a stopped stream could not be written (no space), tries again if it is
 * time.  To be called in each round.
 */
void stream_mark_again(struct stream *s, struct frame_writer *w, int64_t now);

/* No more records will come: writes the rest and the last mark. */
void stream_end(struct stream *s, struct frame_writer *w);

#endif
