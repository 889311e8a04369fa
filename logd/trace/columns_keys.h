/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * columns_keys.h: which records of a shape have the same value in a field, the key.
 *
 * Requests and completions of several queue pairs come in any order, but those of one queue pair follow each other
 * regularly: what a field's value will be, the last record of the same queue pair tells, not the last of all.
 * For columns_encode.c and columns_decode.c.
 */
#ifndef LOGD_TRACE_COLUMNS_KEYS_H
#define LOGD_TRACE_COLUMNS_KEYS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A field with more values is no key. */
#define SR_KEYS_MAX 128
#define SR_KEY_SLOTS (2 * SR_KEYS_MAX)

/* The values of a key so far, numbered as they came; zeroed at the start. */
struct sr_keys {
	uint64_t value[SR_KEY_SLOTS];
	uint8_t number[SR_KEY_SLOTS]; /* 1 + number; 0: free */
	uint32_t n;
};

/* The number of a key's value; -1: it has too many values. */
static inline int sr_keys_number(struct sr_keys *k, uint64_t value)
{
	uint32_t i = (uint32_t)(value * 0x9e3779b97f4a7c15ull >> 56);

	for (; k->number[i]; i = (i + 1) % SR_KEY_SLOTS)
		if (k->value[i] == value)
			return k->number[i] - 1;
	if (k->n == SR_KEYS_MAX)
		return -1;
	k->value[i] = value;
	k->number[i] = (uint8_t)++k->n;
	return (int)k->n - 1;
}

static inline bool sr_column_is_number(uint32_t width)
{
	return width == 1 || width == 2 || width == 4 || width == 8;
}

/* The integer of 1, 2, 4 or 8 bytes at p.  Of a known width, no call is needed. */
static inline uint64_t sr_column_value(const unsigned char *p, uint32_t width)
{
	uint64_t value = 0;

	switch (width) {
	case 1:
		return *p;
	case 2:
		memcpy(&value, p, 2);
		return value;
	case 4:
		memcpy(&value, p, 4);
		return value;
	default:
		memcpy(&value, p, 8);
		return value;
	}
}

/* What the next value of a field is expected to be, for each value of the key; zeroed at the start. */
struct sr_expected {
	uint64_t last[SR_KEYS_MAX], step[SR_KEYS_MAX];
};

/* The value came for this number of the key.  by_step: its step from the last one is expected again. */
static inline void sr_expected_next(struct sr_expected *x, int number, uint64_t value, bool by_step)
{
	if (by_step)
		x->step[number] = value - x->last[number];
	x->last[number] = value;
}

#endif
