/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * format.h: what surrounds the records on disk.  docs/format/trace-format.md describes all of
 * it; the structs here and in sreplay/trace.h are the layouts.
 */
#ifndef LOGD_TRACE_FORMAT_H
#define LOGD_TRACE_FORMAT_H

#include <stdint.h>

#include <sreplay/trace.h>

/* Of a rank: which threads have a stream. */
#define SR_STREAMS_FILE "streams"

/* ... and that this user's daemon recorded it (seal.h). */
#define SR_SEAL_FILE "seal"

#define SR_STREAM_MAGIC "srstream"

/* The first bytes of a thread-T.srs. */
struct sr_stream_header {
	char magic[8];
	uint32_t version; /* SR_TRACE_VERSION */
	uint32_t header_bytes;
	int32_t rank;
	uint32_t thread;
	uint8_t process[16]; /* the "process" of process.json */
	uint8_t reserved[16];
	uint64_t checksum; /* XXH3 of the fields in front of it */
};

/* The directory of an image, in that of its rank; image 0 is in the rank's directory itself. */
#define SR_IMAGE_DIR  "image-%u"
#define SR_IMAGES_MAX 1000000u

/* The trace of a process that this one has forked, in the directory of its image. */
#define SR_CHILD_PREFIX "child-"
#define SR_CHILD_DIR    SR_CHILD_PREFIX "%u.srec"

#define SR_FRAME_MAGIC 0x6d726673u /* "sfrm" */

enum sr_codec {
	SR_CODEC_RAW = 0,
	SR_CODEC_ZSTD = 1,
	SR_CODEC_COLUMNS = 2, /* zstd of columns (columns.h) */
	SR_CODEC_COLUMNS_BY_KEY = 3, /* the same, some of them stored by a key */
	/* Added to one of these: a record has SR_RECORD_REFERS.  Earlier readers do not know that. */
	SR_CODEC_REFERS = 16,
};

/* The frame's last record has SR_RECORD_MORE: it goes on in the next frame. */
#define SR_FRAME_OPEN 1u

struct sr_frame_header {
	uint32_t magic;
	uint16_t codec;
	uint16_t flags;
	uint32_t stored_bytes;    /* that follow this header */
	uint32_t raw_bytes;       /* of records, when decoded */
	uint64_t first_sn;        /* of the first call that begins in this frame */
	uint64_t sns;             /* calls that begin in this frame */
	uint64_t ring_begin;      /* position of the first record in the thread's ring */
	uint32_t ring_bytes;      /* 0: the records are the daemon's own */
	uint32_t records;         /* each piece of a record counts */
	uint64_t checksum;        /* XXH3 of the stored bytes */
	uint64_t header_checksum; /* XXH3 of the fields in front of it */
};

_Static_assert(sizeof(struct sr_stream_header) == 64, "on disk");
_Static_assert(sizeof(struct sr_frame_header) == 64, "on disk");

/* No frame decodes to more.  The writer ends a frame where a record ends, and stays below this. */
#define SR_FRAME_MAX_RAW (4u << 20)

#endif
