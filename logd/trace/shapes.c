/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/shapes.h"

#include <stdlib.h>
#include <string.h>

#include "logd/trace/columns_keys.h"

#define BUCKETS (2 * SR_SHAPES_MAX)

/* Behind so many words, a payload is mostly what was sent. */
#define DIFFER_MOST 256

/* A shape is split where each part has so many records on average, and into so many parts at most. */
#define PART_LEAST 24
#define PARTS_MAX  64
#define SLOTS	   (4 * PARTS_MAX)

/* How the records of a shape are split so far, and with one field more. */
struct sr_splitter {
	uint8_t *part, *finer; /* of each record */
	uint32_t parts;
	struct {
		uint64_t value;
		uint8_t part, finer, used;
	} slots[SLOTS];
	uint16_t buckets[BUCKETS]; /* 1 + number of a shape; 0: free */
	uint32_t differ_n, differ_room;
};

bool sr_shapes_begin(struct sr_shapes *s, size_t most)
{
	size_t records = most / sizeof(struct sr_record);

	memset(s, 0, sizeof(*s));
	s->copy = malloc(most);
	s->shape_of = malloc(records * sizeof(*s->shape_of));
	s->payloads = malloc(records * sizeof(*s->payloads));
	s->at = malloc(records * sizeof(*s->at));
	s->splitter = calloc(1, sizeof(*s->splitter));
	if (!s->splitter)
		return false;
	s->splitter->part = malloc(records);
	s->splitter->finer = malloc(records);
	s->differ = malloc(most);
	s->splitter->differ_room = (uint32_t)(most / sizeof(s->differ[0]));
	return s->copy && s->shape_of && s->payloads && s->at && s->splitter->part && s->splitter->finer && s->differ;
}

void sr_shapes_end(struct sr_shapes *s)
{
	free(s->copy);
	free(s->shape_of);
	free(s->payloads);
	free(s->at);
	free(s->differ);
	if (s->splitter) {
		free(s->splitter->part);
		free(s->splitter->finer);
	}
	free(s->splitter);
}

/* ---- by kind, flags and size ---- */

/* Its number; -1: there are too many. */
static int32_t shape_of(struct sr_shapes *s, const struct sr_record *r)
{
	uint64_t key = (uint64_t)r->size << 32 | (uint32_t)r->kind << 16 | r->flags;
	uint32_t i = (uint32_t)(key * 0x9e3779b97f4a7c15ull >> 51) % BUCKETS;
	struct sr_splitter *x = s->splitter;
	struct sr_shape *shape;

	for (; x->buckets[i]; i = (i + 1) % BUCKETS) {
		shape = &s->shapes[x->buckets[i] - 1];
		if (shape->kind == r->kind && shape->flags == r->flags && shape->size == r->size)
			return x->buckets[i] - 1;
	}
	if (s->shapes_n == SR_SHAPES_MAX)
		return -1;
	s->shapes[s->shapes_n] = (struct sr_shape){.kind = r->kind, .flags = r->flags, .size = r->size};
	x->buckets[i] = (uint16_t)++s->shapes_n;
	return (int32_t)s->shapes_n - 1;
}

static bool has_zeros(const unsigned char *p, size_t n)
{
	while (n--)
		if (*p++)
			return false;
	return true;
}

/* False: these are no records, or they have too many shapes. */
static bool find_records(struct sr_shapes *s, size_t size)
{
	memset(s->splitter->buckets, 0, sizeof(s->splitter->buckets));
	s->n = s->shapes_n = 0;
	for (size_t at = 0; at < size;) {
		const struct sr_record *r = (const struct sr_record *)(s->copy + at);
		uint32_t padded;
		int32_t shape;

		if (size - at < sizeof(*r) || r->size < sizeof(*r) || r->size > size - at)
			return false;
		padded = sr_record_padded(r->size);
		if (padded > size - at || !has_zeros(s->copy + at + r->size, padded - r->size))
			return false;
		shape = shape_of(s, r);
		if (shape < 0)
			return false;
		s->at[s->n] = (uint32_t)at;
		s->shape_of[s->n++] = (uint16_t)shape;
		s->shapes[shape].count++;
		at += padded;
	}
	return true;
}

static void sort_records(struct sr_shapes *s)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < s->shapes_n; i++) {
		s->shapes[i].first = first;
		first += s->shapes[i].count;
		s->shapes[i].count = 0;
	}
	for (uint32_t i = 0; i < s->n; i++) {
		struct sr_shape *shape = &s->shapes[s->shape_of[i]];

		s->payloads[shape->first + shape->count++] = s->at[i] + (uint32_t)sizeof(struct sr_record);
	}
}

/* ---- in what the records of a shape differ ---- */

static uint32_t words_to_compare(const struct sr_shape *shape)
{
	uint32_t words = sr_record_padded(shape->size) / (uint32_t)sizeof(uint64_t) - 1;

	return words < DIFFER_MOST ? words : DIFFER_MOST;
}

/* False: there is no room. */
static bool note_differences(struct sr_shapes *s, struct sr_shape *shape)
{
	uint32_t words = words_to_compare(shape);
	const uint32_t *at = &s->payloads[shape->first];
	const uint64_t *first = (const uint64_t *)(s->copy + at[0]);
	uint64_t *differ = s->differ + s->splitter->differ_n;

	if (words > s->splitter->differ_room - s->splitter->differ_n)
		return false;
	shape->differ = s->splitter->differ_n;
	s->splitter->differ_n += words;
	memset(differ, 0, words * sizeof(differ[0]));
	for (uint32_t i = 1; i < shape->count; i++) {
		const uint64_t *payload = (const uint64_t *)(s->copy + at[i]);

		for (uint32_t k = 0; k < words; k++)
			differ[k] |= first[k] ^ payload[k];
	}
	return true;
}

bool sr_shape_is_equal(const struct sr_shapes *s, const struct sr_shape *shape, uint32_t offset, uint32_t width)
{
	const uint32_t *at = &s->payloads[shape->first];

	if (offset + width <= words_to_compare(shape) * sizeof(uint64_t))
		return has_zeros((const unsigned char *)(s->differ + shape->differ) + offset, width);
	for (uint32_t i = 1; i < shape->count; i++)
		if (memcmp(s->copy + at[0] + offset, s->copy + at[i] + offset, width))
			return false;
	return true;
}

/* ---- by fields with few values ---- */

/* The part of a record with this value that was in that part; -1: there would be too many. */
static int finer_part(struct sr_splitter *x, uint32_t part, uint64_t value, uint32_t *parts, uint32_t most)
{
	uint32_t i = (uint32_t)((value ^ (uint64_t)part << 40) * 0x9e3779b97f4a7c15ull >> 40) % SLOTS;

	for (; x->slots[i].used; i = (i + 1) % SLOTS)
		if (x->slots[i].value == value && x->slots[i].part == part)
			return x->slots[i].finer;
	if (*parts == most)
		return -1;
	x->slots[i].value = value;
	x->slots[i].part = (uint8_t)part;
	x->slots[i].used = 1;
	x->slots[i].finer = (uint8_t)*parts;
	return (int)(*parts)++;
}

/* Splits the parts by one field more, if that does not make too many of them. */
static void try_field(struct sr_shapes *s, const struct sr_shape *shape, uint32_t offset, uint32_t width, uint32_t most)
{
	const uint32_t *at = &s->payloads[shape->first];
	struct sr_splitter *x = s->splitter;
	uint32_t parts = 0;
	uint8_t *swap;

	memset(x->slots, 0, sizeof(x->slots));
	for (uint32_t i = 0; i < shape->count; i++) {
		int part = finer_part(x, x->part[i], sr_column_value(s->copy + at[i] + offset, width), &parts, most);

		if (part < 0)
			return;
		x->finer[i] = (uint8_t)part;
	}
	swap = x->part;
	x->part = x->finer;
	x->finer = swap;
	x->parts = parts;
}

/* Of the first record's fields. */
static void find_parts(struct sr_shapes *s, const struct sr_layouts *l, uint32_t number)
{
	const struct sr_shape *shape = &s->shapes[number];
	uint32_t most = shape->count / PART_LEAST, offset = 0;
	struct sr_fields f;

	s->splitter->parts = 1;
	if (most > PARTS_MAX)
		most = PARTS_MAX;
	if (most < 2)
		return;
	memset(s->splitter->part, 0, shape->count);
	sr_layouts_fields(l, shape->kind, s->copy + s->payloads[shape->first], shape->size - (uint32_t)sizeof(struct sr_record), &f);
	for (uint32_t i = 0; i < f.n; offset += f.width[i++])
		if (sr_column_is_number(f.width[i]) && !sr_shape_is_equal(s, shape, offset, f.width[i]))
			try_field(s, shape, offset, f.width[i], most);
}

/* The records of the first part keep the shape, each of the others has a new one. */
static void split(struct sr_shapes *s, uint32_t number)
{
	struct sr_shape *shape = &s->shapes[number];
	uint32_t first_new = s->shapes_n, n = 0;

	if (s->splitter->parts < 2 || s->splitter->parts - 1 > SR_SHAPES_MAX - s->shapes_n)
		return;
	for (uint32_t i = 1; i < s->splitter->parts; i++) {
		s->shapes[s->shapes_n] = *shape;
		s->shapes[s->shapes_n++].count = 0;
	}
	shape->count = 0;
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t part;

		if (s->shape_of[i] != number)
			continue;
		part = s->splitter->part[n++];
		if (part)
			s->shape_of[i] = (uint16_t)(first_new + part - 1);
		s->shapes[s->shape_of[i]].count++;
	}
}

/* By shape.  False: there is no room. */
static bool sort_and_compare(struct sr_shapes *s)
{
	sort_records(s);
	s->splitter->differ_n = 0;
	for (uint32_t i = 0; i < s->shapes_n; i++)
		if (!note_differences(s, &s->shapes[i]))
			return false;
	return true;
}

bool sr_shapes_find(struct sr_shapes *s, const struct sr_layouts *l, const void *records, size_t size)
{
	uint32_t n;

	memcpy(s->copy, records, size);
	if (!find_records(s, size) || !sort_and_compare(s))
		return false;
	n = s->shapes_n;
	for (uint32_t i = 0; i < n; i++) {
		find_parts(s, l, i);
		split(s, i);
	}
	return s->shapes_n == n || sort_and_compare(s);
}
