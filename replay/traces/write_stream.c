/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/traces/write_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logd/trace/frame.h"
#include "logd/writer/frame_writer.h"
#include "logd/writer/stream_file.h"

#define FILE_MODE 0600

struct sr_stream_writer {
	struct frame_writer *frames;
	const struct sr_layouts *layouts;
	int fd;
	uint64_t offset; /* end of the file */
	uint64_t next_sn;
	uint64_t written; /* bytes of records so far */
	bool open;        /* the last record of the last frame goes on */
	size_t used;
	_Alignas(8) unsigned char records[STREAM_FRAME_MOST];
};

static int flush(struct sr_stream_writer *w)
{
	struct sr_count count;
	struct frame_job job;

	if (!w->used)
		return 0;
	if (sr_count_records(&count, w->records, w->used, w->used, w->open) ||
	    count.bytes != w->used)
		return -EBADMSG;
	job = (struct frame_job){
	    .fd = w->fd,
	    .offset = w->offset,
	    .records = w->records,
	    .layouts = w->layouts,
	    .h = {.flags = count.open ? SR_FRAME_OPEN : 0,
		  .raw_bytes = (uint32_t)count.bytes,
		  .first_sn = w->next_sn,
		  .sns = count.sns,
		  .ring_begin = w->written,
		  .ring_bytes = (uint32_t)count.bytes,
		  .records = count.records},
	};
	frame_write(w->frames, &job, 1);
	if (job.result < 0)
		return (int)job.result;
	w->offset += (uint64_t)job.result;
	w->written += count.bytes;
	w->next_sn += count.sns;
	w->open = count.open;
	w->used = 0;
	return 0;
}

static int begin(struct sr_stream_writer *w, const struct sr_stream_origin *o)
{
	struct sr_stream_header h;
	char name[48];
	ssize_t n;

	snprintf(name, sizeof(name), "thread-%u.srs", o->thread);
	w->fd = openat(o->rank_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
	if (w->fd < 0)
		return -errno;
	stream_file_header(&h, o->rank, o->thread, o->process);
	n = pwrite(w->fd, &h, sizeof(h), 0);
	if (n != sizeof(h))
		return n < 0 ? -errno : -ENOSPC;
	w->offset = sizeof(h);
	w->next_sn = o->sns_before + 1;
	return stream_file_list(o->rank_fd, o->thread);
}

int sr_stream_writer_open(struct sr_stream_writer **writer, const struct sr_stream_origin *o)
{
	struct sr_stream_writer *w = calloc(1, sizeof(*w));
	int err;

	*writer = NULL;
	if (!w)
		return -ENOMEM;
	w->fd = -1;
	w->layouts = o->layouts;
	w->frames = frame_writer_new(SR_LEVEL_DEFAULT, true);
	err = w->frames ? begin(w, o) : -ENOMEM;
	if (err) {
		w->used = 0;
		sr_stream_writer_close(w);
		return err;
	}
	*writer = w;
	return 0;
}

static int add_piece(struct sr_stream_writer *w, const struct sr_record *r, const void *payload)
{
	size_t size = r->size - sizeof(*r), padded = sr_record_padded(r->size);
	unsigned char *at;
	int err = 0;

	if (w->used && w->used + padded > STREAM_FRAME_TARGET)
		err = flush(w);
	if (err)
		return err;
	at = w->records + w->used;
	memcpy(at, r, sizeof(*r));
	memcpy(at + sizeof(*r), payload, size);
	memset(at + r->size, 0, padded - r->size);
	w->used += padded;
	return 0;
}

int sr_stream_writer_add(struct sr_stream_writer *w, uint16_t kind, uint16_t flags,
			 const void *payload, size_t size)
{
	const unsigned char *p = payload;
	int err;

	do {
		size_t n = size < SR_RING_MAX_PIECE ? size : SR_RING_MAX_PIECE;
		struct sr_record r = {
		    .size = (uint32_t)(sizeof(r) + n),
		    .kind = kind,
		    .flags = (uint16_t)(flags | (n < size ? SR_RECORD_MORE : 0)),
		};

		err = add_piece(w, &r, p);
		p += n;
		size -= n;
	} while (size && !err);
	return err;
}

int sr_stream_writer_close(struct sr_stream_writer *w)
{
	int err = flush(w);

	if (w->fd >= 0 && close(w->fd) && !err)
		err = -errno;
	frame_writer_free(w->frames);
	free(w);
	return err;
}
