/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/encoded.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "logd/trace/columns.h"
#include "logd/trace/format.h"
#include "logd/trace/frame.h"
#include "logd/writer/stream_file.h"

#define ROOM (2u << 20)

struct sr_encoded {
	uint64_t count, bytes;
	struct sr_layouts *layouts;
	struct sr_columns_encoder *encoder;
	ZSTD_CCtx *compressor;
	unsigned char *records, *stored;
	uint32_t size;
};

struct sr_encoded *sr_encoded_new(const struct sr_trace *t, int32_t rank)
{
	struct sr_encoded *d = calloc(1, sizeof(*d));
	size_t size;
	const char *schema = sr_trace_schema(t, rank, &size);

	if (!d)
		return NULL;
	d->layouts = sr_layouts_new(schema, size);
	d->encoder = sr_columns_encoder_new(ROOM);
	d->compressor = ZSTD_createCCtx();
	d->records = malloc(ROOM);
	d->stored = malloc(ZSTD_compressBound(ROOM));
	if (d->encoder && d->compressor && d->records && d->stored)
		return d;
	sr_encoded_free(d);
	return NULL;
}

void sr_encoded_free(struct sr_encoded *d)
{
	if (!d)
		return;
	sr_layouts_free(d->layouts);
	sr_columns_encoder_free(d->encoder);
	ZSTD_freeCCtx(d->compressor);
	free(d->records);
	free(d->stored);
	free(d);
}

static size_t compress(struct sr_encoded *d, int level, const void *from, size_t size)
{
	ZSTD_CCtx_setParameter(d->compressor, ZSTD_c_compressionLevel, level);
	return ZSTD_compress2(d->compressor, d->stored, ZSTD_compressBound(ROOM), from, size);
}

void sr_encoded_end_stream(struct sr_encoded *d)
{
	const void *columns;
	size_t size, n;

	if (!d->size)
		return;
	size = sr_columns_encode(d->encoder, d->layouts, d->records, d->size, &columns);
	n = compress(d, sr_level_of_frame(SR_LEVEL_DEFAULT, size, d->size), size ? columns : d->records, size ? size : d->size);
	d->bytes += sizeof(struct sr_frame_header) + (ZSTD_isError(n) || n > d->size ? d->size : n);
	d->size = 0;
}

static void add_long(struct sr_encoded *d, const uint8_t *payload, size_t size)
{
	for (size_t at = 0, piece; at < size; at += piece) {
		size_t n;

		piece = size - at < ROOM ? size - at : ROOM;
		n = compress(d, SR_LEVEL_DEFAULT, payload + at, piece);
		d->bytes += ZSTD_isError(n) || n > piece ? piece : n;
	}
}

void sr_encoded_add(struct sr_encoded *d, const struct sr_entry *e)
{
	/* What comes again was written once: the estimate leaves it out at the end. */
	const size_t size = e->cycle ? sizeof(*e->cycle) : e->written < e->size ? e->written : e->size;
	const void *payload = e->cycle ? (const void *)e->cycle : e->payload;
	struct sr_record r = {.size = (uint32_t)(sizeof(r) + size), .kind = e->cycle ? SR_REC_CYCLE : e->kind};
	uint32_t padded;

	if (e->again && !e->cycle)
		return;
	d->count++;
	if (size > ROOM / 2) {
		add_long(d, payload, size);
		return;
	}
	padded = sr_record_padded(r.size);
	if (d->size + padded > ROOM || d->size >= STREAM_FRAME_DENSE)
		sr_encoded_end_stream(d);
	memset(d->records + d->size + padded - SR_RECORD_ALIGN, 0, SR_RECORD_ALIGN);
	memcpy(d->records + d->size, &r, sizeof(r));
	memcpy(d->records + d->size + sizeof(r), payload, size);
	d->size += padded;
}

uint64_t sr_encoded_records(const struct sr_encoded *d)
{
	return d->count;
}

uint64_t sr_encoded_bytes(const struct sr_encoded *d)
{
	return d->bytes;
}
