/* SPDX-License-Identifier: BSD-2-Clause */
/* stream_file.h: what a stream's file begins with, and how much a frame in it holds. */
#ifndef LOGD_WRITER_STREAM_FILE_H
#define LOGD_WRITER_STREAM_FILE_H

#include <stdint.h>

#include "logd/ring/ring.h"
#include "logd/trace/format.h"

/* A frame is cut here: large enough to compress well, small enough for a cache. */
#define STREAM_FRAME_TARGET (512u << 10)
/* ... or here, where the frame before became few bytes: what it begins with is much of it. */
#define STREAM_FRAME_DENSE  (1u << 20)
/* ... unless a single record is larger; none is larger than this. */
#define STREAM_FRAME_MOST (SR_RING_MAX_PIECE + sizeof(struct sr_record))

void stream_file_header(struct sr_stream_header *h, int32_t rank, uint32_t thread,
			const uint8_t *process);

/* Adds the thread to the rank's list: `sreplay verify` misses a stream that is in it and not there. */
int stream_file_list(int rank_fd, uint32_t thread);

#endif
