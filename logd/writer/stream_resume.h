/* SPDX-License-Identifier: BSD-2-Clause */
/* stream_resume.h: finds the end of a stream that an earlier daemon wrote.  Any thread. */
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
	bool exit;     /* the last record is SR_REC_EXIT */
	uint32_t mark; /* ... or a mark that a daemon wrote, with this reason; else 0 */
};

/*
 * Walks the frames by their headers, from the first one, whose offset and SN the caller has put into
 * *end.  It checks the content of the last one only, since no other can be torn.  0 or -errno.
 */
int stream_find_end(int fd, struct stream_end_found *end);

#endif
