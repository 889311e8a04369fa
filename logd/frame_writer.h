/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame_writer.h: records into frames, frames into files.  One for each drain
 * thread: it owns the compressor and its buffers.
 */
#ifndef LOGD_FRAME_WRITER_H
#define LOGD_FRAME_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "format.h"
#include "frame.h"

struct frame_writer;

/* level: zstd's; 0 = no compression. NULL: no memory. */
struct frame_writer *frame_writer_new(int level);
void frame_writer_free(struct frame_writer *w);

/*
 * Write one frame with these records to the end of the file.  The caller has
 * filled in what the header says of them.  Returns the bytes written; on -errno
 * the file is cut back to offset.
 */
int64_t frame_write(struct frame_writer *w, int fd, uint64_t offset, struct sr_frame_header *h,
		    const void *records);

#endif
