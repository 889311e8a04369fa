/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * read_frames.h: the frames of a stream, for read_stream.c, which makes records of them.
 *
 * One thread at a time for each stream.
 */
#ifndef LOGD_TRACE_READ_FRAMES_H
#define LOGD_TRACE_READ_FRAMES_H

#include <limits.h>
#include <sys/types.h>

#include "logd/trace/cycles.h"
#include "logd/trace/frame.h"
#include "logd/trace/reader.h"

#define INDEX_ENTRIES 4096

struct sr_stream {
	char label[96]; /* of its image */
	int fd;
	char path[PATH_MAX];
	char warning[PATH_MAX + 256];
	int broken;    /* the -errno that each further read returns */
	bool headless; /* the file ends before its first frame */

	struct sr_stream_place at; /* the next frame */
	bool open;                 /* ... begins within a record */

	unsigned char *stored; /* as read */
	unsigned char *frame;  /* decoded */
	uint32_t stored_room, frame_room;
	uint32_t frame_bytes, frame_used;
	uint64_t frame_offset, frame_position; /* in the file, in the ring */
	uint64_t next_sn;

	unsigned char *whole; /* the pieces of a record so far */
	size_t whole_size, whole_room;
	bool assembling;
	struct sr_entry entry;
	uint64_t entry_position;    /* in the ring */
	struct sr_earlier *earlier; /* references.h; NULL: there was no reference */
	struct sr_cycles cycles;
	bool held;  /* a seek found `entry`, and it is the next to return */
	bool ended; /* the entry that was returned last ends the stream */

	struct sr_stream_place index[INDEX_ENTRIES];
	uint32_t n_index;
	uint32_t stride, since_indexed; /* frames between two entries; doubles when full */
	struct sr_stream_totals totals;
	struct sr_read_ahead *ahead; /* read_ahead.h; NULL: nothing has been read ahead */
};

/* Makes the stream's warning; returns code. */
__attribute__((format(printf, 3, 4))) int sr_stream_note(struct sr_stream *s, int code,
							 const char *format, ...);

/* The frame at offset is damaged, and nothing behind it is read.  Returns -EBADMSG. */
int sr_stream_damaged(struct sr_stream *s, uint64_t offset, uint64_t next_sn, const char *what);

/* How many bytes there are at offset, up to size; or -errno. */
ssize_t sr_stream_read_at(struct sr_stream *s, void *data, size_t size, uint64_t offset);

/* 1: *h is the header of the next frame; 0: there is none yet; -errno. */
int sr_stream_next_header(struct sr_stream *s, struct sr_frame_header *h);
/* Goes behind that frame. */
void sr_stream_pass_frame(struct sr_stream *s, const struct sr_frame_header *h);

/* 1: the next frame's records are in s->frame, checked; 0: there is none yet; -errno. */
int sr_stream_load_frame(struct sr_stream *s);

/* Puts the place where the stream is into its index, if it is due there. */
void sr_stream_remember_place(struct sr_stream *s);

/* The last place in the index that is not behind this position in the ring. */
const struct sr_stream_place *sr_stream_place_before(const struct sr_stream *s, uint64_t position);

#endif
