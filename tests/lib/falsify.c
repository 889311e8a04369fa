/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * falsify.c: changes one byte of a trace: the last byte of what a call returned. All
 * checksums are right afterwards, so only a check of the content can find the change.
 *
 *     falsify DIR.srec RANK THREAD SN
 *     falsify DIR.srec RANK THREAD SN exposed [BYTE]
 *     falsify DIR.srec RANK THREAD SN plant ADDRESS
 *
 * The second form changes a bit of that byte of the last value that was found in an exposed
 * region after that call. The third form adds another value to those found there: a byte of
 * 1 at that address.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/trace/frame.h"
#include "logd/trace/reader.h"
#include "shim/core/call.h"

static FILE *out;
static struct sr_frame_header frame = {.magic = SR_FRAME_MAGIC, .first_sn = 1};

static void fail(const char *what)
{
	fprintf(stderr, "falsify: %s\n", what);
	exit(2);
}

static void put(const void *p, size_t n)
{
	if (fwrite(p, 1, n, out) != n)
		fail("cannot write");
}

/* Writes each record into a frame of its own. */
static void put_record(const struct sr_entry *e, const uint8_t *payload)
{
	uint32_t size = (uint32_t)(sizeof(struct sr_record) + e->size);
	uint32_t padded = sr_record_padded(size);
	struct sr_record head = {.size = size, .kind = e->kind};
	uint8_t *raw = calloc(1, padded);

	if (!raw)
		fail("no memory");
	memcpy(raw, &head, sizeof(head));
	memcpy(raw + sizeof(head), payload, e->size);
	frame.records = 1;
	frame.sns = e->kind == SR_REC_MARK ? 0 : (uint32_t)e->count;
	frame.raw_bytes = frame.stored_bytes = padded;
	frame.ring_bytes = padded;
	sr_frame_seal(&frame, raw);
	put(&frame, sizeof(frame));
	put(raw, padded);
	frame.first_sn += frame.sns;
	frame.ring_begin += padded;
	free(raw);
}

static void change(uint8_t *payload, size_t size)
{
	struct sr_call_head head;

	memcpy(&head, payload, sizeof(head));
	if (size <= sizeof(head) + head.in_size + head.orders * sizeof(uint64_t))
		fail("the call gave nothing back");
	payload[size - head.orders * sizeof(uint64_t) - 1] ^= 0x55;
}

/* False if the record contains no value. */
static bool change_value(uint8_t *payload, size_t size, uint32_t byte)
{
	struct sr_exposed_payload head;
	struct sr_exposed_value_head value;
	size_t at;

	memcpy(&head, payload, sizeof(head));
	at = sizeof(head) + head.protected_pages * sizeof(uint64_t);
	for (uint32_t i = 0; i < head.values && at < size; i++) {
		memcpy(&value, payload + at, sizeof(value));
		at += sizeof(value);
		if (i == head.values - 1 && byte >= value.length)
			fail("no such byte");
		if (i == head.values - 1)
			payload[at + byte] ^= 1;
		at += (value.length + 7) & ~7u;
	}
	return head.values;
}

/* Appends a value to the others, for which there is room. False if there are no others. */
static bool plant_value(uint8_t *payload, size_t *size, uint64_t addr)
{
	const struct sr_exposed_value_head value = {.addr = addr, .length = 1};
	struct sr_exposed_payload head;

	memcpy(&head, payload, sizeof(head));
	if (!head.values)
		return false;
	head.values++;
	memcpy(payload, &head, sizeof(head));
	memcpy(payload + *size, &value, sizeof(value));
	memset(payload + *size + sizeof(value), 0, 8);
	payload[*size + sizeof(value)] = 1;
	*size += sizeof(value) + 8;
	return true;
}

int main(int argc, char **argv)
{
	struct sr_stream_header header;
	char path[4096], made[4200];
	struct sr_trace *t;
	struct sr_stream *s;
	struct sr_error err;
	struct sr_entry e;
	uint64_t sn;
	FILE *in;
	bool exposed = (argc == 6 || argc == 7) && !strcmp(argv[5], "exposed");
	bool plant = argc == 7 && !strcmp(argv[5], "plant");
	int changed = 0;

	if (argc != 5 && !exposed && !plant)
		fail("DIR.srec RANK THREAD SN [exposed [BYTE] | plant ADDRESS]");
	sn = strtoull(argv[4], NULL, 10);
	snprintf(path, sizeof(path), "%s/rank-%s/thread-%s.srs", argv[1], argv[2], argv[3]);
	snprintf(made, sizeof(made), "%s.new", path);
	in = fopen(path, "re");
	out = fopen(made, "we");
	if (!in || !out || fread(&header, sizeof(header), 1, in) != 1)
		fail("no such stream");
	put(&header, sizeof(header));
	if (sr_trace_open(&t, argv[1], &err) ||
	    sr_stream_open(&s, t, atoi(argv[2]), (uint32_t)atoi(argv[3]), &err))
		fail(err.text);
	while (sr_stream_next(s, &e) > 0) {
		uint8_t *copy = malloc(e.size + sizeof(struct sr_exposed_value_head) + 8);
		size_t size = e.size;

		if (!copy)
			fail("no memory");
		memcpy(copy, e.payload, e.size);
		if (argc == 5 && e.sn == sn && e.kind >= SR_REC_CALL && !changed++)
			change(copy, e.size);
		if (exposed && e.sn == sn && e.kind == SR_REC_EXPOSED && !changed)
			changed +=
			    change_value(copy, e.size, argc == 7 ? (uint32_t)atoi(argv[6]) : 0);
		if (plant && e.sn == sn && e.kind == SR_REC_EXPOSED && !changed)
			changed += plant_value(copy, &size, strtoull(argv[6], NULL, 0));
		e.size = size;
		put_record(&e, copy);
		free(copy);
	}
	sr_stream_close(s);
	sr_trace_close(t);
	if (fclose(out) || !changed || rename(made, path))
		fail("no such call");
	return 0;
}
