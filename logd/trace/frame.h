/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame.h: headers and checksums of streams and frames, counting of SNs.
 * Shared by the daemon (writing, resuming) and the reader.
 */
#ifndef LOGD_TRACE_FRAME_H
#define LOGD_TRACE_FRAME_H

#include <stdbool.h>
#include <stddef.h>

#include "logd/trace/format.h"

void sr_stream_header_seal(struct sr_stream_header *h);
bool sr_stream_header_valid(const struct sr_stream_header *h);

/* Fills in both checksums. */
void sr_frame_seal(struct sr_frame_header *h, const void *stored);
/* Magic, checksum and sizes of the header alone. */
bool sr_frame_header_valid(const struct sr_frame_header *h);
bool sr_frame_body_valid(const struct sr_frame_header *h, const void *stored);

/* What the records of a frame, or of a ring, amount to. */
struct sr_count {
	size_t bytes; /* whole records */
	uint32_t records;
	uint64_t sns;
	bool open;     /* the last one goes on in the next */
	bool exit;     /* the last one is SR_REC_EXIT */
	uint32_t mark; /* the last one is a mark with this reason; 0: it is none */
};

/*
 * Count whole records up to limit bytes, of which available can be looked at.
 * open: the record in front had SR_RECORD_MORE.  -EINVAL: these are no records.
 */
int sr_count_records(struct sr_count *c, const void *records, size_t available, size_t limit,
		     bool open);

#endif
