/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame.h: headers and checksums of streams and frames, and what the records in them count.
 * For the daemon, which writes and resumes streams, and for the reader.  Any thread.
 */
#ifndef LOGD_TRACE_FRAME_H
#define LOGD_TRACE_FRAME_H

#include <stdbool.h>
#include <stddef.h>

#include "logd/trace/format.h"

/* zstd's level, of the daemon and of the records that are encoded elsewhere as it does; ... */
#define SR_LEVEL_DEFAULT 1
/*
 * ... and for a frame of `raw` bytes of records: their columns (0: they are stored as they are) may be so few bytes that a
 * higher one takes little more time.  It takes 15 ns a byte of them, and gains 2 to 15 %.
 */
static inline int sr_level_of_frame(int level, size_t columns, size_t raw)
{
	return columns && columns < raw / 32 ? level + 8 : level;
}

void sr_stream_header_seal(struct sr_stream_header *h);
bool sr_stream_header_valid(const struct sr_stream_header *h);

/* Fills in both checksums of a frame. */
void sr_frame_seal(struct sr_frame_header *h, const void *stored);
/* Are magic, checksum and sizes of the header right? */
bool sr_frame_header_valid(const struct sr_frame_header *h);
bool sr_frame_body_valid(const struct sr_frame_header *h, const void *stored);

/* Is it one that sr_frame_decode knows? */
bool sr_frame_codec_known(uint16_t codec);

/*
 * The h->raw_bytes of records, 8-byte aligned, of a frame whose header and body are valid.  0;
 * -EBADMSG: the stored bytes are something else; -ENOMEM.
 */
int sr_frame_decode(const struct sr_frame_header *h, const void *stored, void *records);

/* What the records of a frame, or in a ring, amount to. */
struct sr_count {
	size_t bytes; /* whole records */
	uint32_t records;
	uint64_t sns;
	bool open;     /* the last one goes on in the next */
	bool refers;   /* one has SR_RECORD_REFERS */
	bool exit;     /* the last one is SR_REC_EXIT */
	bool inputs;   /* there are SR_REC_INPUT: in a ring */
	uint32_t mark; /* the last one is a mark with this reason; 0: it is none */
};

/*
 * Counts whole records in the first `limit` of the `available` bytes, but at least one record.
 * open: the record in front had SR_RECORD_MORE.  -EINVAL: these are no records.
 */
int sr_count_records(struct sr_count *c, const void *records, size_t available, size_t limit,
		     bool open);

#endif
