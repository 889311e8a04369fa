/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/info_data_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "logd/trace/columns.h"
#include "logd/trace/exposed_records.h"
#include "logd/trace/format.h"
#include "replay/analysis/log/decode.h"
#include "replay/print/json.h"
#include "shim/core/call.h"

#define ROOM  (2u << 20)
#define FRAME (256u << 10) /* as the daemon */

typedef unsigned long long ull;

struct sr_data_path {
	uint64_t requests, completions, values;
	uint64_t bytes;
	struct sr_layouts *layouts;
	struct sr_columns_encoder *encoder;
	ZSTD_CCtx *compressor;
	unsigned char *records, *stored;
	uint32_t size;
	bool in_poll; /* a REPEAT belongs to the call in front of it */
};

struct sr_data_path *sr_data_path_new(const struct sr_trace *t, int32_t rank)
{
	struct sr_data_path *d = calloc(1, sizeof(*d));
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
	sr_data_path_free(d);
	return NULL;
}

void sr_data_path_free(struct sr_data_path *d)
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

void sr_data_path_end_stream(struct sr_data_path *d)
{
	const void *columns;
	size_t size, n;

	if (!d->size)
		return;
	size = sr_columns_encode(d->encoder, d->layouts, d->records, d->size, &columns);
	n = size ? ZSTD_compress2(d->compressor, d->stored, ZSTD_compressBound(ROOM), columns, size)
		 : ZSTD_compress2(d->compressor, d->stored, ZSTD_compressBound(ROOM), d->records, d->size);
	d->bytes += sizeof(struct sr_frame_header) + (ZSTD_isError(n) || n > d->size ? d->size : n);
	d->size = 0;
}

static void count_polled(struct sr_data_path *d, const struct sr_log_kinds *kinds, const struct sr_entry *e)
{
	struct sr_log_polled polled;

	if (sr_log_get_polled_of(kinds, e, &polled))
		d->completions += polled.n;
}

/* The arguments of a call that posts a list begin with the queue and the list's length. */
static void count_posted(struct sr_data_path *d, const struct sr_entry *e)
{
	const size_t at = sizeof(struct sr_call_head) + sizeof(uint64_t);
	uint32_t n;

	if (e->size < at + sizeof(n))
		return;
	memcpy(&n, (const uint8_t *)e->payload + at, sizeof(n));
	d->requests += n;
}

static void count_values(struct sr_data_path *d, const struct sr_entry *e)
{
	struct sr_exposed_payload p;

	if (e->size < sizeof(p))
		return;
	memcpy(&p, e->payload, sizeof(p));
	d->values += p.values;
}

/* Does the record belong to the data path?  Counts its events. */
static bool take(struct sr_data_path *d, const struct sr_log_kinds *kinds, const struct sr_entry *e)
{
	enum sr_what what = sr_log_what(kinds, e->kind);

	if (e->kind >= SR_REC_CALL) {
		d->in_poll = what != SR_WHAT_NOTHING && what < SR_WHAT_DATA_PATH_END;
		if (what == SR_WHAT_POST_SEND || what == SR_WHAT_POST_RECV || what == SR_WHAT_POST_SRQ_RECV)
			count_posted(d, e);
		else if (what == SR_WHAT_BUILD_PLAIN || what == SR_WHAT_BUILD_REMOTE)
			d->requests++;
		else if (what == SR_WHAT_POLL || what == SR_WHAT_POLL_EX)
			count_polled(d, kinds, e);
		return d->in_poll;
	}
	if (e->kind == SR_REC_EXPOSED)
		count_values(d, e);
	return e->kind == SR_REC_EXPOSED || e->kind == SR_REC_CLOCK || e->kind == SR_REC_BEHIND || e->kind == SR_REC_CHECK ||
	       (e->kind == SR_REC_REPEAT && d->in_poll);
}

static void add_long(struct sr_data_path *d, const uint8_t *payload, size_t size)
{
	for (size_t at = 0, piece; at < size; at += piece) {
		size_t n;

		piece = size - at < ROOM ? size - at : ROOM;
		n = ZSTD_compress2(d->compressor, d->stored, ZSTD_compressBound(ROOM), payload + at, piece);
		d->bytes += ZSTD_isError(n) || n > piece ? piece : n;
	}
}

void sr_data_path_add(struct sr_data_path *d, const struct sr_log_kinds *kinds, const struct sr_entry *e)
{
	/* What comes again was written once: the estimate leaves it out at the end. */
	const size_t size = e->cycle ? sizeof(*e->cycle) : e->written < e->size ? e->written : e->size;
	const void *payload = e->cycle ? (const void *)e->cycle : e->payload;
	struct sr_record r = {.size = (uint32_t)(sizeof(r) + size), .kind = e->cycle ? SR_REC_CYCLE : e->kind};
	uint32_t padded;

	if (!take(d, kinds, e) || (e->again && !e->cycle))
		return;
	if (size > ROOM / 2) {
		add_long(d, payload, size);
		return;
	}
	padded = sr_record_padded(r.size);
	if (d->size + padded > ROOM || d->size >= FRAME)
		sr_data_path_end_stream(d);
	memset(d->records + d->size + padded - SR_RECORD_ALIGN, 0, SR_RECORD_ALIGN);
	memcpy(d->records + d->size, &r, sizeof(r));
	memcpy(d->records + d->size + sizeof(r), payload, size);
	d->size += padded;
}

static uint64_t events_of(const struct sr_data_path *d)
{
	return d->requests + d->completions + d->values;
}

void sr_data_path_print(const struct sr_data_path *d)
{
	uint64_t events = events_of(d);

	if (events)
		printf("  data path: %llu requests, %llu completions, %llu values of exposed memory; %llu bytes on disk, %.2f for "
		       "each of these events\n",
		       (ull)d->requests, (ull)d->completions, (ull)d->values, (ull)d->bytes,
		       (double)d->bytes / (double)events);
}

json_t *sr_data_path_json(const struct sr_data_path *d)
{
	return json_pack("{s:o, s:o, s:o, s:o}", "requests", sr_json_count(d->requests), "completions",
			 sr_json_count(d->completions), "values", sr_json_count(d->values), "bytes_on_disk",
			 sr_json_count(d->bytes));
}
