/* SPDX-License-Identifier: BSD-2-Clause */
/* stream_resume.h: where a stream that another daemon began ends. */
#ifndef LOGD_WRITER_STREAM_RESUME_H
#define LOGD_WRITER_STREAM_RESUME_H

#include <stdbool.h>
#include <stdint.h>

struct stream_end_found {
	uint64_t offset; /* end of the last whole frame */
	uint64_t next_sn;
	uint64_t ring_position;
	bool open;
	uint64_t records;
	/* What the last record is; a mark only if the daemon before wrote it. */
	bool exit;
	uint32_t mark; /* its reason, or 0 */
};

/*
 * Walk the frames from the first one, which begins at offset; the last one's
 * checksum is looked at too, since only that one can be torn.  -errno.
 */
int stream_find_end(int fd, uint64_t offset, struct stream_end_found *end);

#endif
