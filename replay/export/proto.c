/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/export/proto.h"

#include <stdlib.h>
#include <string.h>

#include "replay/print/json_text.h"

enum wire_type { VARINT = 0, FIXED64 = 1, BYTES = 2 };

void sr_proto_clear(struct sr_proto *m)
{
	m->n = 0;
}

void sr_proto_free(struct sr_proto *m)
{
	free(m->p);
	*m = (struct sr_proto){0};
}

static uint8_t *more(struct sr_proto *m, size_t n)
{
	if (m->room - m->n < n) {
		size_t room = 2 * (m->n + n) + 64;
		uint8_t *p = realloc(m->p, room);

		if (!p) {
			m->failed = true;
			return NULL;
		}
		m->p = p;
		m->room = room;
	}
	m->n += n;
	return m->p + m->n - n;
}

static void put_varint(struct sr_proto *m, uint64_t value)
{
	uint8_t bytes[10], *to;
	size_t n = 0;

	do {
		bytes[n] = (uint8_t)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
		value >>= 7;
		n++;
	} while (value);
	to = more(m, n);
	if (to)
		memcpy(to, bytes, n);
}

static void put_key(struct sr_proto *m, uint32_t field, enum wire_type type)
{
	put_varint(m, (uint64_t)field << 3 | type);
}

void sr_proto_number(struct sr_proto *m, uint32_t field, uint64_t value)
{
	put_key(m, field, VARINT);
	put_varint(m, value);
}

void sr_proto_fixed64(struct sr_proto *m, uint32_t field, uint64_t value)
{
	uint8_t *to;

	put_key(m, field, FIXED64);
	to = more(m, sizeof(value));
	for (size_t i = 0; to && i < sizeof(value); i++)
		to[i] = (uint8_t)(value >> (8 * i));
}

void sr_proto_bytes(struct sr_proto *m, uint32_t field, const void *bytes, size_t n)
{
	uint8_t *to;

	put_key(m, field, BYTES);
	put_varint(m, n);
	to = more(m, n);
	if (to && n)
		memcpy(to, bytes, n);
}

void sr_proto_text(struct sr_proto *m, uint32_t field, const char *text)
{
	size_t n = strlen(text), start = m->n;
	char *at;

	sr_proto_bytes(m, field, text, n);
	if (m->failed || m->n < start + n)
		return;
	at = (char *)m->p + m->n - n;
	while (n) {
		size_t length = sr_utf8_length(at, n);

		if (!length)
			*at = '?';
		length = length ? length : 1;
		at += length;
		n -= length;
	}
}

void sr_proto_message(struct sr_proto *m, uint32_t field, const struct sr_proto *inner)
{
	m->failed |= inner->failed;
	sr_proto_bytes(m, field, inner->p, inner->n);
}
