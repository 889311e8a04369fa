/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/columns.h"

#include <stdlib.h>
#include <string.h>

#include "logd/base/leb128.h"
#include "logd/trace/columns_choose.h"
#include "logd/trace/columns_keys.h"
#include "logd/trace/shapes.h"

/* Fewer records of a shape are one column each. */
#define FEW        3

struct sr_columns_encoder {
	struct sr_shapes shapes;
	uint8_t *out;
	size_t room;
	struct sr_columns_chooser *chooser;
	/* Of the shape at hand. */
	struct sr_columns_choice choice;
	bool varies[SR_FIELDS_MAX]; /* a field: it is an integer, and its values differ */
	uint8_t *number; /* of each of its records: that of its key's value */
	struct sr_keys keys;
	struct sr_expected expected;
	bool has_keys;
};

struct sr_columns_encoder *sr_columns_encoder_new(size_t most)
{
	struct sr_columns_encoder *e = calloc(1, sizeof(*e));
	size_t records = most / sizeof(struct sr_record);

	if (!e)
		return NULL;
	e->room = most;
	e->out = malloc(most);
	e->number = malloc(records);
	e->chooser = sr_columns_chooser_new();
	if (sr_shapes_begin(&e->shapes, most) && e->out && e->number && e->chooser)
		return e;
	sr_columns_encoder_free(e);
	return NULL;
}

void sr_columns_encoder_free(struct sr_columns_encoder *e)
{
	if (!e)
		return;
	sr_shapes_end(&e->shapes);
	free(e->out);
	free(e->number);
	sr_columns_chooser_free(e->chooser);
	free(e);
}

/* ---- columns ---- */

/* Where the next byte goes; NULL: there are as many as the records have. */
struct output {
	uint8_t *p, *end;
};

static void put(struct output *o, uint64_t number)
{
	if (!o->p || (size_t)(o->end - o->p) < SR_LEB128_MAX)
		o->p = NULL;
	else
		o->p = sr_leb128_put(o->p, number);
}

/* Sign-extended from its width. */
static inline uint64_t extended(uint64_t difference, uint32_t width)
{
	uint32_t unused = 64 - 8 * width;

	return (uint64_t)((int64_t)(difference << unused) >> unused);
}

static inline __attribute__((always_inline)) uint8_t *put_deltas(uint8_t *p, const uint8_t *end,
								 const unsigned char *field,
								 const uint32_t *at, uint32_t n,
								 uint32_t width)
{
	uint64_t before = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t value = 0;

		if (end - p < SR_LEB128_MAX)
			return NULL;
		memcpy(&value, field + at[i], width);
		p = sr_leb128_put(p, sr_zigzag(extended(value - before, width)));
		before = value;
	}
	return p;
}

/* NULL: there is no room, or it is not of such a width. */
static uint8_t *try_deltas(const struct output *o, const unsigned char *field, const uint32_t *at,
			   uint32_t n, uint32_t width)
{
	/* A number that takes more bytes than its field is no gain. */
	const uint8_t *end = o->p + 1 + (uint64_t)n * width + SR_LEB128_MAX;

	if (end > o->end)
		end = o->end;
	switch (width) {
	case 2:
		return put_deltas(o->p + 1, end, field, at, n, 2);
	case 4:
		return put_deltas(o->p + 1, end, field, at, n, 4);
	case 8:
		return put_deltas(o->p + 1, end, field, at, n, 8);
	default:
		return NULL;
	}
}

static void put_plain(struct output *o, const unsigned char *field, const uint32_t *at, uint32_t n,
		      uint32_t width)
{
	if ((uint64_t)(o->end - o->p) < (uint64_t)n * width) {
		o->p = NULL;
		return;
	}
	for (uint32_t i = 0; i < n; i++, o->p += width)
		memcpy(o->p, field + at[i], width);
}

static void put_column(struct output *o, bool is_equal, const unsigned char *field, const uint32_t *at, uint32_t n,
		       uint32_t width)
{
	uint8_t *end;

	if (!o->p || o->p == o->end) {
		o->p = NULL;
		return;
	}
	if (is_equal) {
		*o->p++ = SR_COLUMN_EQUAL;
		put_plain(o, field, at, 1, width);
	} else if ((end = try_deltas(o, field, at, n, width))) {
		*o->p = SR_COLUMN_DELTAS;
		o->p = end;
	} else {
		*o->p++ = SR_COLUMN_PLAIN;
		put_plain(o, field, at, n, width);
	}
}

static void fields_of(const struct sr_columns_encoder *e, const struct sr_layouts *l,
		      const struct sr_shape *s, struct sr_fields *f)
{
	uint32_t size = s->size - (uint32_t)sizeof(struct sr_record);

	if (s->count > FEW) {
		sr_layouts_fields(l, s->kind, e->shapes.copy + e->shapes.payloads[s->first], size, f);
		return;
	}
	f->n = size > 0;
	f->width[0] = size;
}

static void put_shape(struct output *o, const struct sr_shape *s)
{
	put(o, s->kind);
	put(o, s->flags);
	put(o, s->size);
	put(o, s->count);
}

/* Numbers the values of the key.  False: it has too many. */
static bool number_keys(struct sr_columns_encoder *e, const struct sr_shape *s, uint32_t offset, uint32_t width)
{
	memset(&e->keys, 0, sizeof(e->keys));
	for (uint32_t i = 0; i < s->count; i++) {
		uint64_t value = sr_column_value(e->shapes.copy + offset + e->shapes.payloads[s->first + i], width);
		int number = sr_keys_number(&e->keys, value);

		if (number < 0)
			return false;
		e->number[i] = (uint8_t)number;
	}
	return true;
}

static void choose(struct sr_columns_encoder *e, const struct sr_shape *s, const struct sr_fields *f)
{
	struct sr_columns_choice *choice = &e->choice;
	uint32_t offset = 0;

	sr_columns_choose(e->chooser, f, e->shapes.copy, &e->shapes.payloads[s->first], s->count, choice);
	for (uint32_t i = 0; i < f->n; offset += f->width[i++])
		e->varies[i] = sr_column_is_number(f->width[i]) && !sr_shape_is_equal(&e->shapes, s, offset, f->width[i]);
	offset = 0;
	for (int i = 0; i < choice->key; i++)
		offset += f->width[i];
	if (choice->key >= 0 && !number_keys(e, s, offset, f->width[choice->key])) {
		choice->key = -1;
		memset(choice->how, 0, f->n);
	}
	e->has_keys |= choice->key >= 0;
}

static void put_by_key(struct sr_columns_encoder *e, struct output *o, const struct sr_shape *s, uint32_t offset,
		       uint32_t width, bool by_step)
{
	struct sr_expected *x = &e->expected;

	memset(x, 0, sizeof(*x));
	for (uint32_t i = 0; i < s->count; i++) {
		uint64_t value = sr_column_value(e->shapes.copy + offset + e->shapes.payloads[s->first + i], width);
		int k = e->number[i];

		put(o, sr_zigzag(extended(value - x->last[k] - x->step[k], width)));
		sr_expected_next(x, k, value, by_step);
	}
}

static bool is_same(const struct sr_columns_encoder *e, const struct sr_shape *s, uint32_t a, uint32_t b, uint32_t width)
{
	const uint32_t *at = &e->shapes.payloads[s->first];

	for (uint32_t i = 0; i < s->count; i++)
		if (sr_column_value(e->shapes.copy + at[i] + a, width) != sr_column_value(e->shapes.copy + at[i] + b, width))
			return false;
	return true;
}

/* The number of a field in front of this one with the same values; -1: there is none, or they are all equal. */
static int find_same(const struct sr_columns_encoder *e, const struct sr_shape *s, const struct sr_fields *f, uint32_t field,
		     uint32_t offset)
{
	uint32_t other = 0;

	if (f->width[field] < 2 || !e->varies[field])
		return -1;
	for (uint32_t i = 0; i < field; other += f->width[i++])
		if (e->varies[i] && f->width[i] == f->width[field] && e->choice.how[i] != SR_COLUMN_SAME &&
		    is_same(e, s, other, offset, f->width[i]))
			return (int)i;
	return -1;
}

/* What is stored by a key comes behind the other fields: the key may be any of these. */
static void put_columns(struct sr_columns_encoder *e, const struct sr_layouts *l,
			struct output *o, const struct sr_shape *s)
{
	struct sr_columns_choice *choice = &e->choice;
	struct sr_fields f;
	uint32_t offset = 0;

	fields_of(e, l, s, &f);
	choose(e, s, &f);
	for (uint32_t i = 0; i < f.n; offset += f.width[i++]) {
		int same = (int)i == choice->key ? -1 : find_same(e, s, &f, i, offset);

		put(o, f.width[i]);
		if (same >= 0) {
			choice->how[i] = SR_COLUMN_SAME;
			e->has_keys = true;
			put(o, SR_COLUMN_SAME);
			put(o, (uint64_t)same);
		} else if (choice->how[i]) {
			put(o, choice->how[i]);
			put(o, (uint64_t)choice->key);
		} else {
			put_column(o, sr_shape_is_equal(&e->shapes, s, offset, f.width[i]), e->shapes.copy + offset,
				   &e->shapes.payloads[s->first], s->count, f.width[i]);
		}
	}
	offset = 0;
	for (uint32_t i = 0; choice->key >= 0 && i < f.n; offset += f.width[i++])
		if (choice->how[i] && choice->how[i] != SR_COLUMN_SAME)
			put_by_key(e, o, s, offset, f.width[i], choice->how[i] == SR_COLUMN_STEPS_BY_KEY);
}

bool sr_columns_have_keys(const struct sr_columns_encoder *e)
{
	return e->has_keys;
}

size_t sr_columns_encode(struct sr_columns_encoder *e, const struct sr_layouts *l,
			 const void *records, size_t size, const void **columns)
{
	/* As many bytes as the records have are too many. */
	struct output o = {e->out, e->out + size - 1};

	if (!size || size > e->room)
		return 0;
	if (!sr_shapes_find(&e->shapes, l, records, size))
		return 0;
	e->has_keys = false;
	put(&o, e->shapes.shapes_n);
	for (uint32_t i = 0; i < e->shapes.shapes_n; i++)
		put_shape(&o, &e->shapes.shapes[i]);
	for (uint32_t i = 0; i < e->shapes.n; i++)
		put(&o, e->shapes.shape_of[i]);
	for (uint32_t i = 0; i < e->shapes.shapes_n; i++)
		put_columns(e, l, &o, &e->shapes.shapes[i]);
	*columns = e->out;
	return o.p ? (size_t)(o.p - e->out) : 0;
}
