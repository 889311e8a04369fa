/* SPDX-License-Identifier: BSD-2-Clause */
#include "frame_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zstd.h>

struct frame_writer {
	ZSTD_CCtx *compressor; /* NULL: raw */
	void *compressed;
	size_t room;
};

struct frame_writer *frame_writer_new(int level)
{
	struct frame_writer *w = calloc(1, sizeof(*w));

	if (!w || !level)
		return w;
	w->room = ZSTD_compressBound(SR_FRAME_MAX_RAW);
	w->compressed = malloc(w->room);
	w->compressor = ZSTD_createCCtx();
	if (!w->compressed || !w->compressor) {
		frame_writer_free(w);
		return NULL;
	}
	ZSTD_CCtx_setParameter(w->compressor, ZSTD_c_compressionLevel, level);
	return w;
}

void frame_writer_free(struct frame_writer *w)
{
	if (!w)
		return;
	ZSTD_freeCCtx(w->compressor);
	free(w->compressed);
	free(w);
}

/* What is stored of the records: compressed if that makes it smaller. */
static const void *encode(struct frame_writer *w, struct sr_frame_header *h, const void *records)
{
	size_t n;

	h->codec = SR_CODEC_RAW;
	h->stored_bytes = h->raw_bytes;
	if (!w->compressor)
		return records;
	n = ZSTD_compress2(w->compressor, w->compressed, w->room, records, h->raw_bytes);
	if (ZSTD_isError(n) || n >= h->raw_bytes)
		return records;
	h->codec = SR_CODEC_ZSTD;
	h->stored_bytes = (uint32_t)n;
	return w->compressed;
}

/* 0 or -errno. */
static int write_at(int fd, struct iovec *iov, int n, uint64_t offset)
{
	while (n) {
		ssize_t done = pwritev(fd, iov, n, (off_t)offset);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? -errno : -EIO;
		offset += (uint64_t)done;
		while (n && (size_t)done >= iov->iov_len) {
			done -= (ssize_t)iov->iov_len;
			iov++;
			n--;
		}
		if (n) {
			iov->iov_base = (char *)iov->iov_base + done;
			iov->iov_len -= (size_t)done;
		}
	}
	return 0;
}

int64_t frame_write(struct frame_writer *w, int fd, uint64_t offset, struct sr_frame_header *h,
		    const void *records)
{
	const void *stored = encode(w, h, records);
	struct iovec iov[] = {{h, sizeof(*h)}, {(void *)stored, h->stored_bytes}};
	int err;

	h->magic = SR_FRAME_MAGIC;
	sr_frame_seal(h, stored);
	err = write_at(fd, iov, 2, offset);
	if (!err)
		return (int64_t)(sizeof(*h) + h->stored_bytes);
	/* No torn frame in front of a mark; where even this fails, readers cut it. */
	if (ftruncate(fd, (off_t)offset))
		return err;
	return err;
}
