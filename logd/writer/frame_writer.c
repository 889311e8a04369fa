/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/frame_writer.h"

#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

#include "logd/ring/ring.h"
#include "logd/trace/columns.h"
#include "logd/writer/batch_writer.h"
#include "logd/writer/cpu_share.h"

/* The largest frame: one record, or as many as make FRAME_TARGET. */
#define FRAME_MAX_WRITTEN (SR_RING_MAX_PIECE + sizeof(struct sr_record))

/*
 * A frame of such records, on average, is mostly messages, and columns of their other fields gain
 * nothing.  The messages may be numbers that do not compress: what zstd takes to find that out would
 * hold up a program that receives faster.
 */
#define LONG_RECORD (2u << 10)
#define RAW_MOST    31u

struct frame_writer {
	ZSTD_CCtx *compressor;     /* NULL: raw */
	int level;
	unsigned char *compressed; /* room for each job */
	size_t room;
	struct sr_columns_encoder *columns;
	struct batch_writer *batch; /* NULL: plain */
	struct cpu_share share;     /* of the thread that writes */
	bool has_share;             /* it has begun */
};

/* Messages take some 3 ns a byte to compress, and become half as long: not while programs wait for the CPU. */
static bool is_short_of_cpu(struct frame_writer *w)
{
	if (!w->has_share)
		cpu_share_begin(&w->share);
	w->has_share = true;
	return cpu_share_is_short(&w->share);
}

struct frame_writer *frame_writer_new(int level, bool plain)
{
	struct frame_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->batch = plain ? NULL : batch_writer_new(FRAME_JOBS);
	if (!level)
		return w;
	w->room = ZSTD_compressBound(FRAME_MAX_WRITTEN);
	w->compressed = malloc(FRAME_JOBS * w->room);
	w->compressor = ZSTD_createCCtx();
	w->columns = sr_columns_encoder_new(FRAME_MAX_WRITTEN);
	if (!w->compressed || !w->compressor || !w->columns) {
		frame_writer_free(w);
		return NULL;
	}
	w->level = level;
	return w;
}

void frame_writer_free(struct frame_writer *w)
{
	if (!w)
		return;
	batch_writer_free(w->batch);
	if (w->has_share)
		cpu_share_end(&w->share);
	ZSTD_freeCCtx(w->compressor);
	sr_columns_encoder_free(w->columns);
	free(w->compressed);
	free(w);
}

static size_t compress(struct frame_writer *w, int level, unsigned char *room, const void *from, size_t size)
{
	ZSTD_CCtx_setParameter(w->compressor, ZSTD_c_compressionLevel, level);
	return ZSTD_compress2(w->compressor, room, w->room, from, size);
}

/* Compresses the records themselves.  Returns 0 if that gains less than a sixteenth. */
static size_t compress_long(struct frame_writer *w, struct frame_job *job, unsigned char *room)
{
	struct frame_habit *habit = job->habit;
	uint32_t most = job->h.raw_bytes - job->h.raw_bytes / 16;
	size_t n;

	if (habit->raw) {
		habit->raw--;
		return 0;
	}
	if (is_short_of_cpu(w))
		return 0;
	n = compress(w, w->level, room, job->records, job->h.raw_bytes);
	if (!ZSTD_isError(n) && n < most) {
		habit->after = 0;
		return n;
	}
	habit->after = habit->after < RAW_MOST ? 2 * habit->after + 1 : RAW_MOST;
	habit->raw = habit->after;
	return 0;
}

/* Compresses columns of the records, or the records.  Returns 0 if that gains nothing. */
static size_t compress_columns(struct frame_writer *w, struct frame_job *job, unsigned char *room)
{
	const void *columns;
	size_t size = sr_columns_encode(w->columns, job->layouts, job->records, job->h.raw_bytes, &columns), n;

	n = compress(w, sr_level_of_frame(w->level, size, job->h.raw_bytes), room, size ? columns : job->records, size ? size : job->h.raw_bytes);
	if (ZSTD_isError(n) || n >= job->h.raw_bytes)
		return 0;
	job->h.codec = !size ? SR_CODEC_ZSTD : sr_columns_have_keys(w->columns) ? SR_CODEC_COLUMNS_BY_KEY : SR_CODEC_COLUMNS;
	return n;
}

/* What is stored of the records. */
static const void *encode(struct frame_writer *w, struct frame_job *job, unsigned char *room)
{
	struct sr_frame_header *h = &job->h;
	bool is_long = job->habit && h->raw_bytes / LONG_RECORD >= h->records;
	size_t n = 0;

	h->codec = SR_CODEC_ZSTD;
	if (w->compressor)
		n = is_long ? compress_long(w, job, room) : compress_columns(w, job, room);
	if (!n)
		h->codec = SR_CODEC_RAW;
	if (job->refers)
		h->codec |= SR_CODEC_REFERS;
	h->stored_bytes = n ? (uint32_t)n : h->raw_bytes;
	return n ? room : job->records;
}

static void seal(struct frame_writer *w, struct frame_job *job, struct batch_write *write,
		 unsigned char *room)
{
	const void *stored = encode(w, job, room);

	job->h.magic = SR_FRAME_MAGIC;
	sr_frame_seal(&job->h, stored);
	*write = (struct batch_write){
	    .fd = job->fd,
	    .offset = job->offset,
	    .iov = {{&job->h, sizeof(job->h)}, {(void *)stored, job->h.stored_bytes}},
	};
}

void frame_write(struct frame_writer *w, struct frame_job *jobs, unsigned int n)
{
	struct batch_write writes[FRAME_JOBS];

	for (unsigned int i = 0; i < n; i++)
		seal(w, &jobs[i], &writes[i], w->compressed + i * w->room);
	batch_write(w->batch, writes, n);
	for (unsigned int i = 0; i < n; i++) {
		jobs[i].result = writes[i].error;
		if (!writes[i].error)
			jobs[i].result = (int64_t)(sizeof(jobs[i].h) + jobs[i].h.stored_bytes);
		/* Removes a torn frame.  If even this fails, readers ignore it. */
		else if (ftruncate(jobs[i].fd, (off_t)jobs[i].offset))
			continue;
	}
}
