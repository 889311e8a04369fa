/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame_writer.h: makes frames of records, and writes them to files.
 *
 * Each drain thread has one, which owns the compressor and its buffers.
 */
#ifndef LOGD_WRITER_FRAME_WRITER_H
#define LOGD_WRITER_FRAME_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/trace/frame.h"
#include "logd/trace/layouts.h"

struct frame_writer;

/* So many frames at most are written at once. */
#define FRAME_JOBS 8

/* What earlier frames of a stream tell about the next one.  All zeros to begin with. */
struct frame_habit {
	uint32_t raw;   /* so many frames of long records are stored as they are from here on */
	uint32_t after; /* ... and so many after the next one that does not compress */
};

/* One frame on its way to the end of one file. */
struct frame_job {
	int fd;
	uint64_t offset;          /* the file's end */
	struct sr_frame_header h; /* the caller fills in what concerns the records */
	const void *records;
	const struct sr_layouts *layouts; /* of these; or NULL */
	struct frame_habit *habit;        /* of the stream; or NULL */
	bool refers;                      /* a record has SR_RECORD_REFERS */
	/* Afterwards: bytes written; or -errno, and the file is cut back to offset. */
	int64_t result;
};

/* level: of zstd, 0: no compression.  plain: without io_uring.  NULL: no memory. */
struct frame_writer *frame_writer_new(int level, bool plain);
void frame_writer_free(struct frame_writer *w);

/* Encodes and writes up to FRAME_JOBS frames, each to another file; fills in their results. */
void frame_write(struct frame_writer *w, struct frame_job *jobs, unsigned int n);

#endif
