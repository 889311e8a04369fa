/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "logd/base/checksum.h"
#include "logd/trace/columns.h"

void sr_stream_header_seal(struct sr_stream_header *h)
{
	h->checksum = XXH3_64bits(h, offsetof(struct sr_stream_header, checksum));
}

bool sr_stream_header_valid(const struct sr_stream_header *h)
{
	return h->checksum == XXH3_64bits(h, offsetof(struct sr_stream_header, checksum));
}

static uint64_t frame_header_checksum(const struct sr_frame_header *h)
{
	return XXH3_64bits(h, offsetof(struct sr_frame_header, header_checksum));
}

void sr_frame_seal(struct sr_frame_header *h, const void *stored)
{
	h->checksum = sr_checksum(stored, h->stored_bytes, 0);
	h->header_checksum = frame_header_checksum(h);
}

bool sr_frame_header_valid(const struct sr_frame_header *h)
{
	return h->magic == SR_FRAME_MAGIC && h->header_checksum == frame_header_checksum(h) &&
	       h->raw_bytes <= SR_FRAME_MAX_RAW && h->stored_bytes <= SR_FRAME_MAX_RAW;
}

bool sr_frame_body_valid(const struct sr_frame_header *h, const void *stored)
{
	return h->checksum == sr_checksum(stored, h->stored_bytes, 0);
}

bool sr_frame_codec_known(uint16_t codec)
{
	codec &= (uint16_t)~SR_CODEC_REFERS;
	return codec == SR_CODEC_RAW || codec == SR_CODEC_ZSTD || codec == SR_CODEC_COLUMNS ||
	       codec == SR_CODEC_COLUMNS_BY_KEY;
}

/* Columns are fewer bytes than their records. */
static int decode_columns(const struct sr_frame_header *h, const void *stored, void *records)
{
	void *columns = malloc(h->raw_bytes + 1);
	int err = -ENOMEM;
	size_t n;

	if (columns) {
		n = ZSTD_decompress(columns, h->raw_bytes, stored, h->stored_bytes);
		err = ZSTD_isError(n) ? -EBADMSG
				      : sr_columns_decode(columns, n, records, h->raw_bytes);
	}
	free(columns);
	return err;
}

int sr_frame_decode(const struct sr_frame_header *h, const void *stored, void *records)
{
	size_t n;

	switch (h->codec & ~SR_CODEC_REFERS) {
	case SR_CODEC_RAW:
		if (h->stored_bytes != h->raw_bytes)
			return -EBADMSG;
		memcpy(records, stored, h->raw_bytes);
		return 0;
	case SR_CODEC_ZSTD:
		n = ZSTD_decompress(records, h->raw_bytes, stored, h->stored_bytes);
		return n == h->raw_bytes ? 0 : -EBADMSG;
	case SR_CODEC_COLUMNS:
	case SR_CODEC_COLUMNS_BY_KEY:
		return decode_columns(h, stored, records);
	default:
		return -EBADMSG;
	}
}

/* The reason of a mark; 0: the record is none.  It has been checked to be whole. */
static uint32_t mark_of(const struct sr_record *r)
{
	struct sr_mark_payload mark;

	if (r->kind != SR_REC_MARK)
		return 0;
	memcpy(&mark, r + 1, sizeof(mark));
	return mark.reason;
}

static int64_t sns_of_cycle(const void *payload, uint32_t size)
{
	struct sr_cycle_payload cycle;

	if (size != sizeof(cycle))
		return -1;
	memcpy(&cycle, payload, sizeof(cycle));
	return cycle.calls && cycle.calls <= SR_CYCLE_CALLS ? (int64_t)cycle.calls : -1;
}

/* By how much the record advances the SN; -1: its payload does not say. */
static int64_t sns_of(const struct sr_record *r)
{
	const void *payload = r + 1;
	uint32_t size = r->size - sizeof(*r);
	struct sr_repeat_payload repeat;
	struct sr_mark_payload mark;

	if (r->kind >= SR_REC_CALL)
		return 1;
	switch (r->kind) {
	case SR_REC_REPEAT:
		if (size < sizeof(repeat))
			return -1;
		memcpy(&repeat, payload, sizeof(repeat));
		return repeat.count > INT64_MAX ? -1 : (int64_t)repeat.count;
	case SR_REC_CYCLE:
		return sns_of_cycle(payload, size);
	case SR_REC_MARK:
		if (size < sizeof(mark))
			return -1;
		memcpy(&mark, payload, sizeof(mark));
		return mark.skipped_sns > INT64_MAX ? -1 : (int64_t)mark.skipped_sns;
	default:
		return 0;
	}
}

int sr_count_records(struct sr_count *c, const void *records, size_t available, size_t limit,
		     bool open)
{
	const unsigned char *data = records;

	*c = (struct sr_count){.open = open};
	if (limit > available)
		limit = available;
	while (c->bytes < limit) {
		const struct sr_record *r = (const struct sr_record *)(data + c->bytes);
		/* Read once: in a ring, the recorded program could change it meanwhile. */
		uint32_t size = available - c->bytes < sizeof(*r)
				    ? 0
				    : __atomic_load_n(&r->size, __ATOMIC_RELAXED);
		int64_t sns;

		if (size < sizeof(*r) || size > UINT32_MAX - SR_RECORD_ALIGN ||
		    sr_record_padded(size) > available - c->bytes)
			return -EINVAL;
		if (c->bytes && sr_record_padded(size) > limit - c->bytes)
			break;
		/* A record is counted where it begins; a mark in place of the rest ends it. */
		sns = c->open && r->kind != SR_REC_MARK ? 0 : sns_of(r);
		if (sns < 0)
			return -EINVAL;
		c->sns += (uint64_t)sns;
		c->open = r->flags & SR_RECORD_MORE;
		c->refers |= (r->flags & SR_RECORD_REFERS) != 0;
		c->exit = r->kind == SR_REC_EXIT;
		c->inputs |= r->kind == SR_REC_INPUT;
		c->mark = mark_of(r);
		c->records++;
		c->bytes += sr_record_padded(size);
	}
	return 0;
}
