/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * write_stream.h: writes a stream of a trace, record by record.
 *
 * Functions that return int return 0 or -errno.  After an error the stream must be abandoned.
 */
#ifndef REPLAY_TRACES_WRITE_STREAM_H
#define REPLAY_TRACES_WRITE_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "logd/trace/layouts.h"

struct sr_stream_writer;

struct sr_stream_origin {
	int rank_fd; /* the directory of the image */
	int32_t rank;
	uint32_t thread;
	const uint8_t *process; /* 16 bytes */
	uint64_t sns_before;    /* its SNs go on after this one */
	const struct sr_layouts *layouts;
};

/* Creates the file, and adds it to the rank's list. */
int sr_stream_writer_open(struct sr_stream_writer **writer, const struct sr_stream_origin *o);

/* Adds a whole record, which may be larger than one in a ring. */
int sr_stream_writer_add(struct sr_stream_writer *w, uint16_t kind, uint16_t flags,
			 const void *payload, size_t size);

/* Writes what is left, and frees the writer in any case. */
int sr_stream_writer_close(struct sr_stream_writer *w);

#endif
