/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mutate_stream.c: changes some records of a stream, or some bytes of another file of a trace.
 *
 *     mutate_stream FILE SEED
 *
 * FILE ends in .srs: some records are changed, missing, twice, or of another kind. The frames are written anew and
 * their checksums are right, so that what reads the records meets the changes.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "changes.h"
#include "logd/trace/format.h"
#include "logd/trace/frame.h"

#define GROWS 4096 /* by how much a record may */

struct bytes {
	uint8_t *data;
	size_t size, room;
};

static void fail(const char *what)
{
	fprintf(stderr, "mutate_stream: %s\n", what);
	exit(2);
}

static void append(struct bytes *b, const void *data, size_t size)
{
	if (b->size + size > b->room) {
		b->room = 2 * (b->size + size);
		b->data = realloc(b->data, b->room);
		if (!b->data)
			fail("no memory");
	}
	memcpy(b->data + b->size, data, size);
	b->size += size;
}

static struct bytes whole_file(const char *path)
{
	struct bytes b = {0};
	uint8_t part[65536];
	size_t n;
	FILE *f = fopen(path, "re");

	if (!f)
		fail("no such file");
	while ((n = fread(part, 1, sizeof(part), f)))
		append(&b, part, n);
	fclose(f);
	return b;
}

static void write_file(const char *path, const struct bytes *b)
{
	FILE *f = fopen(path, "we");

	if (!f || fwrite(b->data, 1, b->size, f) != b->size || fclose(f))
		fail("cannot write");
}

static void append_record(struct bytes *to, const struct sr_record *head, const uint8_t *payload)
{
	static const uint8_t zeros[SR_RECORD_ALIGN];

	append(to, head, sizeof(*head));
	append(to, payload, head->size - sizeof(*head));
	append(to, zeros, sr_record_padded(head->size) - head->size);
}

static void change_record(struct bytes *to, struct sr_record head, const uint8_t *payload)
{
	size_t size = head.size - sizeof(head), room = size + GROWS;
	uint8_t *copy = malloc(room);

	if (!copy)
		fail("no memory");
	memcpy(copy, payload, size);
	switch (below(6)) {
	case 0: /* missing */
		break;
	case 1:
		append_record(to, &head, copy);
		append_record(to, &head, copy);
		break;
	case 2:
		head.kind = (uint16_t)(below(2) ? below(SR_REC_CHANGED + 1) : SR_REC_CALL + below(600));
		append_record(to, &head, copy);
		break;
	default:
		for (size_t n = 1 + below(3); n && size; n--)
			size = change(copy, size, room, payload, head.size - sizeof(head));
		head.size = (uint32_t)(sizeof(head) + size);
		append_record(to, &head, copy);
	}
	free(copy);
}

/* Copies the records; one in `seldom` is changed. */
static struct bytes changed_records(const uint8_t *records, size_t size, size_t seldom)
{
	struct bytes made = {0};
	struct sr_record head;

	for (size_t at = 0; at + sizeof(head) <= size; at += sr_record_padded(head.size)) {
		memcpy(&head, records + at, sizeof(head));
		if (head.size < sizeof(head) || head.size > size - at)
			break;
		if (below(seldom))
			append_record(&made, &head, records + at + sizeof(head));
		else
			change_record(&made, head, records + at + sizeof(head));
	}
	return made;
}

/* Appends the frame that begins there, with some records changed; returns how long it was. */
static size_t change_frame(struct bytes *to, const uint8_t *at, size_t left, size_t seldom)
{
	struct sr_frame_header h;
	struct sr_count count;
	struct bytes made;
	void *raw;

	if (left < sizeof(h))
		return 0;
	memcpy(&h, at, sizeof(h));
	if (!sr_frame_header_valid(&h) || h.stored_bytes > left - sizeof(h))
		return 0;
	raw = malloc(h.raw_bytes + 8);
	if (!raw || sr_frame_decode(&h, at + sizeof(h), raw))
		fail("cannot decode a frame");
	made = changed_records(raw, h.raw_bytes, seldom);
	left = sizeof(h) + h.stored_bytes;
	h.codec = SR_CODEC_RAW;
	h.raw_bytes = h.stored_bytes = (uint32_t)made.size;
	if (made.size && !sr_count_records(&count, made.data, made.size, made.size, false)) {
		h.records = count.records;
		h.sns = count.sns;
	}
	if (made.size && made.size <= SR_FRAME_MAX_RAW) {
		sr_frame_seal(&h, made.data);
		append(to, &h, sizeof(h));
		append(to, made.data, made.size);
	}
	free(made.data);
	free(raw);
	return left;
}

/* The frames behind a changed one count on from what it counts now: only what the records say is wrong. */
static void number_frames(struct bytes *stream)
{
	struct sr_frame_header h;
	uint64_t sn = 0;

	for (size_t at = sizeof(struct sr_stream_header); at < stream->size; at += sizeof(h) + h.stored_bytes) {
		memcpy(&h, stream->data + at, sizeof(h));
		if (sn)
			h.first_sn = sn;
		sn = h.first_sn + h.sns;
		sr_frame_seal(&h, stream->data + at + sizeof(h));
		memcpy(stream->data + at, &h, sizeof(h));
	}
}

static struct bytes changed_stream(const struct bytes *b)
{
	size_t at = sizeof(struct sr_stream_header), seldom = (size_t)1 << below(12), n;
	struct bytes made = {0};

	if (b->size < at)
		fail("not a stream");
	append(&made, b->data, at);
	while ((n = change_frame(&made, b->data + at, b->size - at, seldom)))
		at += n;
	number_frames(&made);
	return made;
}

static struct bytes changed_file(const struct bytes *b)
{
	struct bytes made = {0};

	append(&made, b->data, b->size);
	made.data = realloc(made.data, b->size + GROWS);
	if (!made.data)
		fail("no memory");
	for (size_t n = 1 + below(6); n && made.size; n--)
		made.size = change(made.data, made.size, b->size + GROWS, b->data, b->size);
	return made;
}

int main(int argc, char **argv)
{
	struct bytes before, made;
	size_t length;

	if (argc != 3)
		fail("FILE SEED");
	seed(strtoull(argv[2], NULL, 0));
	before = whole_file(argv[1]);
	length = strlen(argv[1]);
	made = length > 4 && !strcmp(argv[1] + length - 4, ".srs") ? changed_stream(&before) : changed_file(&before);
	write_file(argv[1], &made);
	free(before.data);
	free(made.data);
	return 0;
}
