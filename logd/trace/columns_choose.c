/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/columns_choose.h"

#include <stdlib.h>
#include <string.h>

#include "logd/base/leb128.h"
#include "logd/trace/columns_keys.h"

/*
 * The daemon does this for each shape of a frame, so it looks at few records, and tries few keys: those with the most
 * values, of those that have few.
 */
#define SAMPLE 256 /* records */
#define VARY   24  /* fields whose values are not all equal; others are not tried */
#define LEAST  64  /* fewer records gain nothing */
#define TALLY  64
#define KEYS   2
#define VALUES 48 /* of a key, in the sample */

/* How often each number came.  Numbers that share a place are rare enough for an estimate. */
struct tally {
	uint32_t count[TALLY], n, bits;
};

struct sr_columns_chooser {
	uint32_t n; /* records of the sample */
	uint32_t varying; /* fields */
	uint32_t field[VARY];
	uint64_t value[VARY][SAMPLE];
	uint8_t number[SAMPLE]; /* of the key's value */
	struct sr_keys keys;
	struct sr_expected expected;
	struct tally tally;
	uint32_t alone[VARY];	/* bits that the field takes without a key */
	uint32_t key[KEYS], keys_n;
	uint32_t by_key[VARY];
	uint8_t how[VARY], best_how[VARY];
};

struct sr_columns_chooser *sr_columns_chooser_new(void)
{
	return calloc(1, sizeof(struct sr_columns_chooser));
}

void sr_columns_chooser_free(struct sr_columns_chooser *c)
{
	free(c);
}

/* ---- an estimate: the entropy of the numbers, and each of them once ---- */

/* 16 times the logarithm, to a sixteenth; n > 0. */
static uint32_t log2_16(uint32_t n)
{
	uint32_t whole = 31u - (uint32_t)__builtin_clz(n);

	return 16 * whole + (uint32_t)(((uint64_t)n << 4 >> whole) & 15);
}

static void tally_begin(struct tally *t)
{
	memset(t, 0, sizeof(*t));
}

static void tally_add(struct tally *t, uint64_t number)
{
	uint32_t *count = &t->count[number * 0x9e3779b97f4a7c15ull >> 58];

	if (!(*count)++)
		t->bits += 8 * (1 + (63u - (uint32_t)__builtin_clzll(number | 1)) / 7);
	t->n++;
}

static uint32_t tally_bits(const struct tally *t)
{
	uint64_t bits_16 = 0;

	for (int i = 0; i < TALLY; i++)
		if (t->count[i])
			bits_16 += (uint64_t)t->count[i] * (log2_16(t->n) - log2_16(t->count[i]));
	return t->bits + (uint32_t)(bits_16 / 16);
}

/* Sign-extended from its width. */
static uint64_t extended(uint64_t difference, uint32_t width)
{
	uint32_t unused = 64 - 8 * width;

	return (uint64_t)((int64_t)(difference << unused) >> unused);
}

static uint32_t bits_alone(struct sr_columns_chooser *c, const uint64_t *value, uint32_t width)
{
	uint64_t before = 0;

	tally_begin(&c->tally);
	for (uint32_t i = 0; i < c->n; i++) {
		tally_add(&c->tally, width == 1 ? value[i] : sr_zigzag(extended(value[i] - before, width)));
		before = value[i];
	}
	return tally_bits(&c->tally);
}

static uint32_t bits_by_key(struct sr_columns_chooser *c, const uint64_t *value, uint32_t width, bool by_step)
{
	struct sr_expected *x = &c->expected;

	memset(x, 0, sizeof(*x));
	tally_begin(&c->tally);
	for (uint32_t i = 0; i < c->n; i++) {
		int k = c->number[i];

		tally_add(&c->tally, sr_zigzag(extended(value[i] - x->last[k] - x->step[k], width)));
		sr_expected_next(x, k, value[i], by_step);
	}
	return tally_bits(&c->tally);
}

/* ---- the choice ---- */

static bool is_equal(const unsigned char *field, const uint32_t *at, uint32_t n, uint32_t width)
{
	uint64_t first = sr_column_value(field + at[0], width);

	for (uint32_t i = 1; i < n; i++)
		if (sr_column_value(field + at[i], width) != first)
			return false;
	return true;
}

static void take_sample(struct sr_columns_chooser *c, const struct sr_fields *f, const unsigned char *records,
			const uint32_t *at, uint32_t n)
{
	c->n = n < SAMPLE ? n : SAMPLE;
	c->varying = 0;
	for (uint32_t i = 0; i < f->n && c->varying < VARY; records += f->width[i++]) {
		uint64_t *value = c->value[c->varying];

		if (!sr_column_is_number(f->width[i]) || is_equal(records, at, c->n, f->width[i]))
			continue;
		for (uint32_t k = 0; k < c->n; k++)
			value[k] = sr_column_value(records + at[k], f->width[i]);
		c->field[c->varying++] = i;
	}
}

/* Numbers the values of the key.  False: it has too many. */
static bool number_keys(struct sr_columns_chooser *c, uint32_t key)
{
	memset(&c->keys, 0, sizeof(c->keys));
	for (uint32_t i = 0; i < c->n; i++) {
		int number = sr_keys_number(&c->keys, c->value[key][i]);

		if (number < 0)
			return false;
		c->number[i] = (uint8_t)number;
	}
	return true;
}

static uint32_t count_values(struct sr_columns_chooser *c, uint32_t field)
{
	memset(&c->keys, 0, sizeof(c->keys));
	for (uint32_t i = 0; i < c->n; i++)
		if (sr_keys_number(&c->keys, c->value[field][i]) >= VALUES)
			return UINT32_MAX;
	return c->keys.n;
}

/* Fields with as many values as one before tell as much, and need not be tried. */
static void choose_keys(struct sr_columns_chooser *c)
{
	uint32_t values[KEYS];

	c->keys_n = 0;
	for (uint32_t i = 0; i < c->varying; i++) {
		uint32_t n = count_values(c, i), at = 0;

		while (at < c->keys_n && values[at] > n)
			at++;
		if (n == UINT32_MAX || at == KEYS || (at < c->keys_n && values[at] == n))
			continue;
		c->keys_n += c->keys_n < KEYS;
		for (uint32_t k = c->keys_n - 1; k > at; k--) {
			values[k] = values[k - 1];
			c->key[k] = c->key[k - 1];
		}
		values[at] = n;
		c->key[at] = i;
	}
}

/* The bits of all fields with this key. */
static uint64_t try_key(struct sr_columns_chooser *c, const struct sr_fields *f, uint32_t key)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < c->varying; i++) {
		uint32_t width = f->width[c->field[i]], bits;

		c->how[i] = 0;
		c->by_key[i] = c->alone[i];
		/* A field that takes little gains little. */
		for (int by_step = 0; i != key && c->alone[i] > c->n / 2 && by_step < 2; by_step++) {
			bits = bits_by_key(c, c->value[i], width, by_step);
			if (bits + bits / 16 >= c->by_key[i])
				continue;
			c->by_key[i] = bits;
			c->how[i] = by_step ? SR_COLUMN_STEPS_BY_KEY : SR_COLUMN_BY_KEY;
		}
		all += c->by_key[i];
	}
	return all;
}

void sr_columns_choose(struct sr_columns_chooser *c, const struct sr_fields *f, const unsigned char *records,
		       const uint32_t *at, uint32_t n, struct sr_columns_choice *choice)
{
	uint64_t least = 0;

	choice->key = -1;
	memset(choice->how, 0, f->n);
	if (n < LEAST)
		return;
	take_sample(c, f, records, at, n);
	for (uint32_t i = 0; i < c->varying; i++)
		least += c->alone[i] = bits_alone(c, c->value[i], f->width[c->field[i]]);
	if (least < c->n)
		return;
	choose_keys(c);
	for (uint32_t i = 0; i < c->keys_n; i++) {
		uint32_t key = c->key[i];
		uint64_t all = number_keys(c, key) ? try_key(c, f, key) : UINT64_MAX;

		if (all >= least)
			continue;
		least = all;
		choice->key = (int)c->field[key];
		memcpy(c->best_how, c->how, sizeof(c->best_how));
	}
	for (uint32_t i = 0; choice->key >= 0 && i < c->varying; i++)
		choice->how[c->field[i]] = c->best_how[i];
}
