/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/columns.h"

#include <stdlib.h>
#include <string.h>

#include "logd/base/leb128.h"
#include "logd/trace/columns_keys.h"
#include "logd/trace/layouts.h"

/* The fewest bytes that a shape takes. */
#define SHAPE_MIN 4

struct shape {
	uint16_t kind, flags;
	uint32_t size, count;
	uint32_t first; /* index in `at` of the first one */
	uint32_t used;  /* so many have been placed */
};

/* A column that is stored by a key, behind the others. */
struct keyed {
	uint32_t offset, width;
	bool by_step;
};

struct decoder {
	const uint8_t *p, *end;
	bool bad;
	struct shape *shapes;
	uint32_t shapes_n;
	uint32_t *at; /* where the payloads of the records are, by shape */
	uint32_t n;   /* records */
	unsigned char *records;
	size_t size;
	/* Of the shape at hand: its fields, and those that are stored by a key. */
	uint32_t fields, keyed_n, key;
	uint32_t width[SR_FIELDS_MAX], offset[SR_FIELDS_MAX];
	struct keyed keyed[SR_FIELDS_MAX];
	/* ... and those with the values of others. */
	uint32_t same_n;
	struct {
		uint32_t offset, width, other;
	} same[SR_FIELDS_MAX];
	struct sr_keys keys;
	struct sr_expected expected;
};

/* 0 where the columns are damaged, or the number is over `most`. */
static uint64_t take(struct decoder *d, uint64_t most)
{
	uint64_t number = 0;
	int n = d->bad ? -1 : sr_leb128_get(d->p, (size_t)(d->end - d->p), &number);

	if (n < 0 || number > most) {
		d->bad = true;
		return 0;
	}
	d->p += n;
	return number;
}

/* NULL: there are fewer. */
static const uint8_t *take_bytes(struct decoder *d, uint64_t n)
{
	const uint8_t *p = d->p;

	if (d->bad || n > (size_t)(d->end - d->p)) {
		d->bad = true;
		return NULL;
	}
	d->p += n;
	return p;
}

/* ---- the shapes, and where each record is ---- */

static void take_shape(struct decoder *d, struct shape *s)
{
	s->kind = (uint16_t)take(d, UINT16_MAX);
	s->flags = (uint16_t)take(d, UINT16_MAX);
	s->size = (uint32_t)take(d, d->size);
	s->count = (uint32_t)take(d, d->size / sizeof(struct sr_record));
	s->first = d->n;
	d->n += s->count;
	d->bad |= s->size < sizeof(struct sr_record) || !s->count;
}

static void take_shapes(struct decoder *d)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < d->shapes_n && !d->bad; i++) {
		take_shape(d, &d->shapes[i]);
		bytes += (uint64_t)d->shapes[i].count * sr_record_padded(d->shapes[i].size);
		d->bad |= bytes > d->size;
	}
	d->bad |= bytes != d->size;
}

static void place_record(struct decoder *d, struct shape *s, uint32_t at)
{
	struct sr_record *r = (struct sr_record *)(d->records + at);

	/* The padding, if there is any, is in the last word. */
	memset(d->records + at + sr_record_padded(s->size) - SR_RECORD_ALIGN, 0, SR_RECORD_ALIGN);
	*r = (struct sr_record){.size = s->size, .kind = s->kind, .flags = s->flags};
	d->at[s->first + s->used++] = at + (uint32_t)sizeof(*r);
}

static void place_records(struct decoder *d)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < d->n; i++) {
		struct shape *s = &d->shapes[take(d, d->shapes_n - 1)];

		d->bad |= s->used == s->count;
		if (d->bad)
			return;
		place_record(d, s, at);
		at += sr_record_padded(s->size);
	}
}

/* ---- the columns ---- */

/* `step`: from one value to the next; 0: there is only one. */
static inline __attribute__((always_inline)) void
fill_width(const uint8_t *values, uint32_t step, unsigned char *field, const uint32_t *at, uint32_t n, uint32_t width)
{
	for (uint32_t i = 0; i < n; i++, values += step)
		memcpy(field + at[i], values, width);
}

/* Most columns are numbers: for these the compiler makes an instruction of the copy. */
static void fill(const uint8_t *values, uint32_t step, unsigned char *field, const uint32_t *at,
		 uint32_t n, uint32_t width)
{
	if (width == 8)
		fill_width(values, step, field, at, n, 8);
	else if (width == 4)
		fill_width(values, step, field, at, n, 4);
	else if (width == 2)
		fill_width(values, step, field, at, n, 2);
	else
		fill_width(values, step, field, at, n, width);
}

static inline __attribute__((always_inline)) void
fill_deltas(struct decoder *d, unsigned char *field, const uint32_t *at, uint32_t n, uint32_t width)
{
	const uint8_t *p = d->p;
	uint64_t value = 0, number;

	for (uint32_t i = 0; i < n; i++) {
		int got = sr_leb128_get(p, (size_t)(d->end - p), &number);

		if (got < 0) {
			d->bad = true;
			return;
		}
		p += got;
		value += sr_unzigzag(number);
		memcpy(field + at[i], &value, width);
	}
	d->p = p;
}

static void take_deltas(struct decoder *d, unsigned char *field, const uint32_t *at, uint32_t n,
			uint32_t width)
{
	if (width == 2)
		fill_deltas(d, field, at, n, 2);
	else if (width == 4)
		fill_deltas(d, field, at, n, 4);
	else if (width == 8)
		fill_deltas(d, field, at, n, 8);
	else
		d->bad = true;
}

/* All of a shape have the same key, which is none of them. */
static void begin_keyed(struct decoder *d, uint32_t offset, uint32_t width, bool by_step)
{
	uint32_t key = (uint32_t)take(d, SR_FIELDS_MAX - 1);

	d->bad |= !sr_column_is_number(width) || d->keyed_n == SR_FIELDS_MAX || (d->keyed_n && key != d->key);
	if (d->bad)
		return;
	d->key = key;
	d->keyed[d->keyed_n++] = (struct keyed){offset, width, by_step};
}

static void take_keyed_column(struct decoder *d, const struct shape *s, const struct keyed *c)
{
	const uint32_t *at = &d->at[s->first];
	struct sr_expected *x = &d->expected;

	memset(&d->keys, 0, sizeof(d->keys));
	memset(x, 0, sizeof(*x));
	for (uint32_t i = 0; i < s->count; i++) {
		uint64_t number = take(d, UINT64_MAX), value;
		int k = sr_keys_number(&d->keys, sr_column_value(d->records + d->offset[d->key] + at[i], d->width[d->key]));

		d->bad |= k < 0;
		if (d->bad)
			return;
		value = x->last[k] + x->step[k] + sr_unzigzag(number);
		if (c->width < sizeof(value))
			value &= (1ull << 8 * c->width) - 1;
		memcpy(d->records + c->offset + at[i], &value, c->width);
		sr_expected_next(x, k, value, c->by_step);
	}
}

static void take_keyed_columns(struct decoder *d, const struct shape *s)
{
	if (!d->keyed_n)
		return;
	d->bad |= d->key >= d->fields || !sr_column_is_number(d->width[d->key]);
	for (uint32_t i = 0; i < d->keyed_n && !d->bad; i++)
		d->bad |= d->keyed[i].offset == d->offset[d->key];
	for (uint32_t i = 0; i < d->same_n && !d->bad; i++)
		d->bad |= d->same[i].offset == d->offset[d->key];
	for (uint32_t i = 0; i < d->keyed_n && !d->bad; i++)
		take_keyed_column(d, s, &d->keyed[i]);
}

static void begin_same(struct decoder *d, uint32_t offset, uint32_t width)
{
	uint32_t other = (uint32_t)take(d, SR_FIELDS_MAX - 1);

	d->bad |= d->same_n == SR_FIELDS_MAX || other >= d->fields || d->width[other] != width ||
		  d->offset[other] == offset;
	for (uint32_t i = 0; i < d->same_n && !d->bad; i++)
		d->bad |= d->same[i].offset == d->offset[other];
	if (d->bad)
		return;
	d->same[d->same_n].offset = offset;
	d->same[d->same_n].width = width;
	d->same[d->same_n++].other = d->offset[other];
}

static void copy_fields(unsigned char *to, const unsigned char *from, const uint32_t *at, uint32_t n, uint32_t width)
{
	if (width == 8)
		for (uint32_t i = 0; i < n; i++)
			memcpy(to + at[i], from + at[i], 8);
	else
		for (uint32_t i = 0; i < n; i++)
			memcpy(to + at[i], from + at[i], width);
}

static void fill_same(struct decoder *d, const struct shape *s)
{
	const uint32_t *at = &d->at[s->first];

	for (uint32_t i = 0; i < d->same_n && !d->bad; i++)
		copy_fields(d->records + d->same[i].offset, d->records + d->same[i].other, at, s->count, d->same[i].width);
}

static void take_column(struct decoder *d, const struct shape *s, uint32_t offset, uint32_t width)
{
	const uint8_t *how = take_bytes(d, 1), *values;
	const uint32_t *at = &d->at[s->first];
	unsigned char *field = d->records + offset;

	if (!how)
		return;
	if (*how == SR_COLUMN_DELTAS)
		take_deltas(d, field, at, s->count, width);
	else if (*how == SR_COLUMN_EQUAL && (values = take_bytes(d, width)))
		fill(values, 0, field, at, s->count, width);
	else if (*how == SR_COLUMN_PLAIN && (values = take_bytes(d, (uint64_t)s->count * width)))
		fill(values, width, field, at, s->count, width);
	else if (*how == SR_COLUMN_SAME)
		begin_same(d, offset, width);
	else if (*how == SR_COLUMN_BY_KEY || *how == SR_COLUMN_STEPS_BY_KEY)
		begin_keyed(d, offset, width, *how == SR_COLUMN_STEPS_BY_KEY);
	else
		d->bad = true;
}

static void take_columns(struct decoder *d, const struct shape *s)
{
	uint32_t payload = s->size - (uint32_t)sizeof(struct sr_record), width;

	d->fields = d->keyed_n = d->same_n = 0;
	for (uint32_t offset = 0; offset < payload && !d->bad; offset += width) {
		width = (uint32_t)take(d, payload - offset);
		d->bad |= !width;
		/* Only the first ones can be keys. */
		if (d->fields < SR_FIELDS_MAX) {
			d->width[d->fields] = width;
			d->offset[d->fields++] = offset;
		}
		if (!d->bad)
			take_column(d, s, offset, width);
	}
	take_keyed_columns(d, s);
	fill_same(d, s);
}

static int decode(struct decoder *d)
{
	d->shapes_n = (uint32_t)take(d, (size_t)(d->end - d->p) / SHAPE_MIN);
	d->shapes = calloc(d->shapes_n + 1, sizeof(*d->shapes));
	if (!d->shapes)
		return -ENOMEM;
	take_shapes(d);
	if (d->bad)
		return -EBADMSG;
	d->at = malloc((d->n + 1) * sizeof(*d->at));
	if (!d->at)
		return -ENOMEM;
	place_records(d);
	for (uint32_t i = 0; i < d->shapes_n && !d->bad; i++)
		take_columns(d, &d->shapes[i]);
	return d->bad || d->p != d->end ? -EBADMSG : 0;
}

int sr_columns_decode(const void *columns, size_t columns_size, void *records, size_t size)
{
	struct decoder d = {
	    .p = columns,
	    .end = (const uint8_t *)columns + columns_size,
	    .records = records,
	    .size = size,
	};
	int err = decode(&d);

	free(d.shapes);
	free(d.at);
	return err;
}
