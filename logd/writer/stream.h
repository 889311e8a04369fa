/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stream.h: one thread's ring on its way into one file.
 *
 * Opened by the main thread, then owned by one drain thread until it has set
 * `ended`; the main thread looks at the atomics only, and frees it after that.
 *
 * What holds at every moment, so that a daemon may be killed at any: the file
 * is whole frames, and perhaps a torn one at its end; the ring's tail is not
 * beyond the last whole frame's end.
 */
#ifndef LOGD_WRITER_STREAM_H
#define LOGD_WRITER_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "logd/ring/ring.h"

struct frame_job;
struct frame_writer;

struct stream {
	struct stream *next;      /* of the drain thread's list */
	struct stream *next_mine; /* of the recording's list */
	struct sr_ring ring;
	int fd;
	int trace_fd;  /* the trace's directory, for daemon.log; the recording's, not closed here */
	char name[64]; /* "rank-N/thread-T.srs" */
	uint32_t thread;

	uint64_t offset; /* end of the file */
	uint64_t next_sn;
	bool open;      /* the last record goes on in the next frame */
	bool exit;      /* the last record is SR_REC_EXIT */
	uint32_t mark;  /* ... or the daemon's own mark with this reason; 0: it is none */
	bool exit_next; /* ... once the frame that is being written is */
	int64_t
	    due_ms; /* when what is in the ring is written even if it is little; 0: it is empty */

	_Atomic uint64_t written;  /* ring position up to which the file has it */
	_Atomic uint64_t flush_to; /* wanted by the main thread: write up to here now */
	_Atomic bool tell;         /* ... and say so when it is reached */
	_Atomic bool gone;         /* the process is dead: empty the ring and end */
	_Atomic bool ended;
	_Atomic bool stopped; /* an error ended the recording; the ring drops */
	int stop_error;       /* ... this one */
	const char *stop_why;
	int64_t mark_again_ms; /* when the mark that says so is tried again; 0: it is written */
	_Atomic uint64_t stored_bytes, records;
};

struct stream_origin {
	int rank_fd, trace_fd;
	int32_t rank;
	uint32_t thread;
	const uint8_t *process;
};

/*
 * Make the stream's file and attach to the ring; or, where the file is there
 * already and resume is asked for, go on where it ends.  Takes memfd on
 * success.  -errno and a sentence in error.
 */
int stream_open(struct stream **stream, const struct stream_origin *o, int memfd, bool resume,
		char *error, size_t error_size);
void stream_free(struct stream *s);

/* Bytes that wait in the ring. */
size_t stream_waiting(struct stream *s);

/* How far the producer has committed; for any thread. */
uint64_t stream_committed(const struct stream *s);

/* Is flush_to still to be reached? */
bool stream_is_asked(const struct stream *s);

/*
 * Write one frame of what waits, in two steps so that the frames of several
 * streams can be written at once: prepare, frame_write, complete.  prepare
 * returns false if there is nothing to write.  On an error the recording of the
 * stream ends, with a mark if that can still be written, and the ring is
 * stopped.
 */
bool stream_prepare(struct stream *s, struct frame_writer *w, struct frame_job *job);
void stream_complete(struct stream *s, struct frame_writer *w, const struct frame_job *job);

/* The same at once. */
void stream_write(struct stream *s, struct frame_writer *w);

/*
 * The mark of a stopped stream, if it could not be written so far and the next
 * try is due: there may be space again.  For every round.
 */
void stream_mark_again(struct stream *s, struct frame_writer *w, int64_t now);

/* No more will come: the last mark if one is due, then `ended`. */
void stream_end(struct stream *s, struct frame_writer *w);

#endif
