/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/producers/values.h"

#include <stdlib.h>
#include <string.h>

#include "replay/host/producers/writes.h"

/* What a write does to a word: it leaves a value there, as a peer or as the owner's CPU, or one that nobody knows. */
enum effect {
	LEFT,
	OWN,
	OPEN,
	EFFECTS,
};

/* A part of a word: from byte `begin` up to `end`.  Each is a bit of 64. */
struct part {
	unsigned begin, end;
};

/* One writer's entries in one line, by value: each of them for each word of it. */
struct of_writer {
	size_t first; /* entry; SIZE_MAX: this place of the table is free */
	uint64_t parts[EFFECTS];
	uint64_t *sorted; /* upper half: a hash of place and value; lower half: the entry */
	size_t n;
};

/* A table, by the first entry. */
struct sr_values {
	struct of_writer *all;
	size_t n, room; /* a power of two */
};

struct sr_values *sr_values_new(void)
{
	return calloc(1, sizeof(struct sr_values));
}

void sr_values_free(struct sr_values *v)
{
	if (!v)
		return;
	for (size_t i = 0; i < v->room; i++)
		free(v->all[i].sorted);
	free(v->all);
	free(v);
}

/* ---------------------------------------------------------------- the table */

static struct of_writer *place_of(const struct sr_values *v, size_t first)
{
	size_t at = (size_t)(first * 0x9e3779b97f4a7c15ull >> 32) & (v->room - 1);

	while (v->all[at].first != SIZE_MAX && v->all[at].first != first)
		at = (at + 1) & (v->room - 1);
	return &v->all[at];
}

static bool make_room(struct sr_values *v)
{
	struct sr_values old = *v;

	if (2 * v->n < v->room)
		return true;
	v->room = old.room ? 2 * old.room : 256;
	v->all = calloc(v->room, sizeof(*v->all));
	if (!v->all) {
		*v = old;
		return false;
	}
	for (size_t i = 0; i < v->room; i++)
		v->all[i].first = SIZE_MAX;
	for (size_t i = 0; i < old.room; i++)
		if (old.all[i].first != SIZE_MAX)
			*place_of(v, old.all[i].first) = old.all[i];
	free(old.all);
	return true;
}

/* -------------------------------------------------------------------- words */

static unsigned bit_of(struct part p)
{
	return p.begin * 8 + p.end - 1;
}

static uint64_t hash(uint64_t word, enum effect effect, struct part p, uint64_t value)
{
	uint64_t h = (word * EFFECTS + effect) * 64 + bit_of(p);

	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull + value;
	h = (h ^ h >> 32) * 0x94d049bb133111ebull;
	h = (h ^ h >> 29) * 0x9e3779b97f4a7c15ull;
	return h & ~(uint64_t)UINT32_MAX;
}

static enum effect effect_of(const struct sr_group_write *w)
{
	return sr_group_is_open(w->kind) ? OPEN : w->kind == SR_GROUP_OWN ? OWN : LEFT;
}

/* How much of the word the write covers. */
static struct part part_of(const struct sr_group_write *w, uint64_t word)
{
	const uint64_t begin = word * 8, end = begin + 8, stop = w->addr + w->length;

	return (struct part){(unsigned)((w->addr > begin ? w->addr : begin) - begin), (unsigned)((stop < end ? stop : end) - begin)};
}

static void add_word(struct of_writer *o, const struct sr_writes *m, const struct sr_group_write *w, uint64_t word, size_t entry)
{
	const struct part p = part_of(w, word);
	const enum effect effect = effect_of(w);
	uint64_t value = 0;

	if (effect != OPEN) {
		const uint8_t *bytes = sr_writes_bytes(m, w, word * 8 + p.begin - w->addr, p.end - p.begin);

		if (!bytes)
			return;
		memcpy(&value, bytes, p.end - p.begin);
	}
	o->parts[effect] |= 1ull << bit_of(p);
	o->sorted[o->n++] = hash(word, effect, p, value) | entry;
}

static uint64_t first_word(const struct sr_group_write *w, uint64_t line)
{
	return (w->addr > line ? w->addr : line) / 8;
}

static uint64_t end_of_words(const struct sr_group_write *w, uint64_t end)
{
	return ((w->addr + w->length < end ? w->addr + w->length : end) + 7) / 8;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void add_words(struct of_writer *o, const struct sr_writes *m, struct sr_lines_range writer, uint64_t begin, uint64_t end)
{
	for (size_t entry = writer.first; entry < writer.end; entry++) {
		const struct sr_group_write *w = sr_lines_write(&m->lines, entry);

		if (sr_group_has_no_bytes(w->kind))
			continue;
		for (uint64_t word = first_word(w, begin); word < end_of_words(w, end); word++)
			add_word(o, m, w, word, entry);
	}
	qsort(o->sorted, o->n, sizeof(*o->sorted), compare);
}

static size_t count_words(const struct sr_writes *m, struct sr_lines_range writer, uint64_t begin, uint64_t end)
{
	size_t n = 0;

	for (size_t entry = writer.first; entry < writer.end; entry++) {
		const struct sr_group_write *w = sr_lines_write(&m->lines, entry);

		if (!sr_group_has_no_bytes(w->kind))
			n += end_of_words(w, end) - first_word(w, begin);
	}
	return n;
}

/* NULL: there is no memory. */
static const struct of_writer *of_writer(struct sr_values *v, const struct sr_writes *m, struct sr_lines_range writer, uint64_t addr)
{
	struct of_writer *o, made = {.first = writer.first};
	uint64_t begin, end;

	if (!make_room(v))
		return NULL;
	o = place_of(v, writer.first);
	if (o->first != SIZE_MAX)
		return o;
	sr_lines_extent(&m->lines, addr, &begin, &end);
	made.sorted = malloc(count_words(m, writer, begin, end) * sizeof(*made.sorted) + 1);
	if (!made.sorted)
		return NULL;
	add_words(&made, m, writer, begin, end);
	*o = made;
	v->n++;
	return o;
}

/* ------------------------------------------------------------------- search */

/* The first one of [low, high) that is not below the value. */
static const uint64_t *first_not_below(const uint64_t *low, const uint64_t *high, uint64_t value)
{
	while (low < high) {
		const uint64_t *middle = low + (high - low) / 2;

		if (*middle < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The upper halves of a run are the same. */
const uint64_t *sr_values_first(const struct sr_values_run *run, size_t entry)
{
	return first_not_below(run->first, run->end, (*run->first & ~(uint64_t)UINT32_MAX) | entry);
}

static struct sr_values_run run_of(const struct of_writer *o, uint64_t hashed)
{
	const uint64_t *end = o->sorted + o->n, *first = first_not_below(o->sorted, end, hashed);

	return (struct sr_values_run){first, first_not_below(first, end, hashed + UINT32_MAX)};
}

/* -1: the sample does not have all of the part. */
static int add_part(const struct of_writer *o, enum effect effect, struct part p, const struct sr_values_wanted *b,
		    struct sr_values_run *runs, int n)
{
	const uint64_t word = b->addr / 8;
	uint64_t value = 0;

	if (effect != OPEN) {
		if (word * 8 + p.begin < b->begin || word * 8 + p.end > b->end)
			return -1;
		memcpy(&value, b->bytes + (word * 8 + p.begin - b->begin), p.end - p.begin);
	}
	runs[n] = run_of(o, hash(word, effect, p, value));
	return n + (runs[n].first < runs[n].end);
}

static int add_effect(const struct of_writer *o, enum effect effect, const struct sr_values_wanted *b, struct sr_values_run *runs, int n)
{
	const unsigned at = b->addr % 8;

	for (uint64_t parts = o->parts[effect]; parts && n >= 0; parts &= parts - 1) {
		const unsigned bit = (unsigned)__builtin_ctzll(parts);
		const struct part p = {bit / 8, bit % 8 + 1};

		if (p.begin <= at && at < p.end)
			n = add_part(o, effect, p, b, runs, n);
	}
	return n;
}

int sr_values_find(struct sr_values *v, const struct sr_writes *m, struct sr_lines_range writer,
		   const struct sr_values_wanted *b, struct sr_values_run *runs)
{
	const struct of_writer *o = of_writer(v, m, writer, b->addr);
	int n = 0;

	if (!o)
		return -1;
	if (b->is_open)
		return add_effect(o, OPEN, b, runs, n);
	n = add_effect(o, LEFT, b, runs, n);
	return n >= 0 && b->with_own ? add_effect(o, OWN, b, runs, n) : n;
}
