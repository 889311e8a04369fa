/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/process/history.h"

#include <stdlib.h>
#include <string.h>

struct sr_history {
	size_t stride, room, used; /* bytes of an entry, its number in front */
	uint64_t whole_from;       /* nothing was dropped from this number on */
	uint8_t entries[];
};

struct sr_history *sr_history_new(size_t bytes, size_t entries)
{
	size_t stride = sizeof(uint64_t) + bytes;
	struct sr_history *h = malloc(sizeof(*h) + stride * entries);

	if (h) {
		h->stride = stride;
		h->room = entries;
		h->used = 0;
		h->whole_from = 0;
	}
	return h;
}

void sr_history_free(struct sr_history *h)
{
	free(h);
}

static uint8_t *entry(const struct sr_history *h, size_t i)
{
	return (uint8_t *)h->entries + i * h->stride;
}

static uint64_t number_at(const struct sr_history *h, size_t i)
{
	uint64_t number;

	memcpy(&number, entry(h, i), sizeof(number));
	return number;
}

static void thin(struct sr_history *h)
{
	size_t half = h->used / 2, kept = 0;

	for (size_t i = 0; i < half; i += 2)
		memmove(entry(h, kept++), entry(h, i), h->stride);
	h->whole_from = number_at(h, half);
	memmove(entry(h, kept), entry(h, half), (h->used - half) * h->stride);
	h->used = kept + h->used - half;
}

/*
 * The first entry above this number.  Most questions are about the recent past, so it searches
 * backwards from the end, in steps that double.
 */
static size_t first_above(const struct sr_history *h, uint64_t number)
{
	size_t high = h->used, low, step = 1;

	for (low = high; low && number_at(h, low - 1) > number; step *= 2) {
		high = low - 1;
		low = high > step ? high - step : 0;
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (number_at(h, middle) <= number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void *sr_history_add(struct sr_history *h, uint64_t number)
{
	size_t at;

	if (h->used == h->room)
		thin(h);
	at = first_above(h, number);
	memmove(entry(h, at + 1), entry(h, at), (h->used - at) * h->stride);
	memcpy(entry(h, at), &number, sizeof(number));
	h->used++;
	return entry(h, at) + sizeof(number);
}

const void *sr_history_find(const struct sr_history *h, uint64_t number, bool *exact)
{
	size_t after = first_above(h, number);

	*exact = number >= h->whole_from;
	return after ? entry(h, after - 1) + sizeof(uint64_t) : NULL;
}
