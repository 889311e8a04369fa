/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame_writer.h: records into frames, frames into files.  One for each drain
 * thread: it owns the compressor and its buffers.
 */
#ifndef LOGD_WRITER_FRAME_WRITER_H
#define LOGD_WRITER_FRAME_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/format.h"
#include "logd/trace/frame.h"

struct frame_writer;

/* So many frames are written at once. */
#define FRAME_JOBS 8

/* One frame on its way to the end of one file. */
struct frame_job {
	int fd;
	uint64_t offset;          /* the file's end */
	struct sr_frame_header h; /* what it says of the records is the caller's */
	const void *records;
	/* Afterwards: bytes written; or -errno, and the file is cut back to offset. */
	int64_t result;
};

/* level: zstd's; 0 = no compression.  plain: no io_uring.  NULL: no memory. */
struct frame_writer *frame_writer_new(int level, bool plain);
void frame_writer_free(struct frame_writer *w);

/* Encode and write up to FRAME_JOBS frames, each of another file. */
void frame_write(struct frame_writer *w, struct frame_job *jobs, unsigned int n);

#endif
