/* SPDX-License-Identifier: BSD-2-Clause */
/* test_writers.c: which writes into a member's memory can have left a value: the indexes say the same as a look at each write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "replay/host/producers/values.h"
#include "replay/host/producers/writes.h"

#define BASE	0x7000000ull
#define AREA	8192 /* bytes, two pages */
#define MEMBERS 3
#define WRITES	400
#define ROUNDS	40

static const uint16_t kinds[] = {SR_GROUP_BYTES,   SR_GROUP_OWN,  SR_GROUP_ATOMIC, SR_GROUP_SWAP,
				 SR_GROUP_FETCHED, SR_GROUP_LOCK, SR_GROUP_HEADER, SR_GROUP_ENTERED};

static uint8_t written[WRITES * 4096];

static uint32_t below(uint32_t n)
{
	return (uint32_t)(rand() % (int)n);
}

/* Of a few values, so that several writes leave the same. */
static void fill(uint8_t *bytes, size_t n)
{
	const uint8_t value = (uint8_t)below(3);

	for (size_t i = 0; i < n; i++)
		bytes[i] = value;
}

static struct sr_group_write make_write(uint64_t tick)
{
	static const uint32_t lengths[] = {1, 4, 8, 8, 8, 16, 40, 300, 4096};
	struct sr_group_write w = {.length = lengths[below(9)], .kind = kinds[below(8)], .at = tick * 4096};
	const uint64_t page = BASE + below(AREA / 4096) * 4096;

	w.origin = (struct sr_group_origin){.tick = tick, .member = (int32_t)below(MEMBERS)};
	if (w.kind == SR_GROUP_ATOMIC || w.kind == SR_GROUP_SWAP)
		w.length = 8;
	/* Much comes to the same line. */
	w.addr = page + (below(2) ? below(64) : below(4096));
	if (w.addr + w.length > page + 4096)
		w.addr = page + 4096 - w.length;
	return w;
}

static void make_writes(struct sr_writes *m)
{
	memset(m, 0, sizeof(*m));
	m->written[0] = written;
	for (uint64_t i = 0; i < WRITES; i++) {
		const struct sr_group_write w = make_write(i);

		fill(written + w.at, w.length);
		assert_int_equal(sr_writes_add(m, &w), 0);
	}
	assert_int_equal(sr_lines_begin(&m->lines, m->writes, m->count), 0);
}

static void free_writes(struct sr_writes *m)
{
	m->written[0] = NULL; /* it is not mapped */
	sr_writes_free(m);
}

static bool covers(const struct sr_group_write *w, uint64_t addr)
{
	return addr - w->addr < w->length;
}

/* ------------------------------------------------------------------ headers */

static const struct sr_group_write *header(const struct sr_writes *m, uint64_t addr, uint64_t number)
{
	const struct sr_group_write *found = NULL;

	for (size_t i = 0; i < m->count; i++) {
		const struct sr_group_write *w = &m->writes[i];

		if (w->kind != SR_GROUP_HEADER || !covers(w, addr))
			continue;
		if (i < number || !found)
			found = w;
		if (i >= number)
			break;
	}
	return found;
}

static void headers(void **state)
{
	struct sr_lines_range of[MEMBERS];
	struct sr_writes m;

	(void)state;
	make_writes(&m);
	for (uint64_t addr = BASE; addr < BASE + AREA; addr++) {
		const uint64_t number = below(WRITES + 1);

		assert_int_equal(sr_lines_at(&m.lines, addr, MEMBERS, of), 0);
		assert_ptr_equal(sr_lines_header_at(&m.lines, addr, number), header(&m, addr, number));
	}
	free_writes(&m);
}

/* -------------------------------------------------------------------- lists */

static bool is_of(enum sr_lines_list_name list, uint16_t kind)
{
	if (list == SR_LINES_FETCHED)
		return kind == SR_GROUP_FETCHED;
	if (list == SR_LINES_LOCKS)
		return kind == SR_GROUP_LOCK;
	return !sr_group_has_no_bytes(kind) && (list == SR_LINES_WITH_BYTES || kind != SR_GROUP_OWN);
}

static void check_list(const struct sr_lines *x, enum sr_lines_list_name list)
{
	size_t n = 0;

	for (size_t entry = 0; entry < x->entries_n; entry++) {
		assert_int_equal(sr_lines_before(x, list, entry), n);
		if (is_of(list, sr_lines_write(x, entry)->kind))
			assert_int_equal(x->list[list].entries[n++], entry);
	}
	assert_int_equal(sr_lines_before(x, list, x->entries_n), n);
	assert_int_equal(x->list[list].n, n);
}

static void lists(void **state)
{
	struct sr_lines_range of[MEMBERS];
	struct sr_writes m;

	(void)state;
	make_writes(&m);
	for (uint64_t addr = BASE; addr < BASE + AREA; addr += 4096)
		assert_int_equal(sr_lines_at(&m.lines, addr, MEMBERS, of), 0);
	for (int list = 0; list < SR_LINES_LISTS; list++)
		check_list(&m.lines, list);
	free_writes(&m);
}

/* ------------------------------------------------------------------- values */

/* Is the write's part of the word, as far as that was found, what was found? */
static bool fits(const struct sr_group_write *w, const struct sr_values_wanted *b)
{
	const uint64_t begin = w->addr > b->begin ? w->addr : b->begin;
	const uint64_t end = w->addr + w->length < b->end ? w->addr + w->length : b->end;

	if (!covers(w, b->addr) || sr_group_has_no_bytes(w->kind) || sr_group_is_open(w->kind) != b->is_open ||
	    (w->kind == SR_GROUP_OWN && !b->with_own))
		return false;
	return b->is_open || !memcmp(written + w->at + (begin - w->addr), b->bytes + (begin - b->begin), end - begin);
}

static bool has(const struct sr_values_run *runs, int n, size_t entry)
{
	for (int i = 0; i < n; i++) {
		const uint64_t *at = sr_values_first(&runs[i], entry);

		if (at < runs[i].end && sr_values_entry(at) == entry)
			return true;
	}
	return false;
}

static void check_runs(const struct sr_values_run *runs, int n, struct sr_lines_range r)
{
	for (int i = 0; i < n; i++)
		for (const uint64_t *at = runs[i].first; at < runs[i].end; at++) {
			assert_in_range(sr_values_entry(at), r.first, r.end - 1);
			assert_true(at == runs[i].first || sr_values_entry(at - 1) < sr_values_entry(at));
		}
}

static int find_values(struct sr_values *v, const struct sr_writes *m, struct sr_lines_range r, const struct sr_values_wanted *b)
{
	struct sr_values_run runs[SR_VALUES_RUNS];
	int n = r.first < r.end ? sr_values_find(v, m, r, b, runs) : 0;

	if (n >= 0)
		check_runs(runs, n, r);
	for (size_t entry = r.first; n >= 0 && entry < r.end; entry++)
		if (fits(sr_lines_write(&m->lines, entry), b))
			assert_true(has(runs, n, entry));
	return n;
}

static void find_somewhere(struct sr_values *v, struct sr_writes *m)
{
	const uint64_t addr = BASE + (below(2) ? below(64) : below(AREA)), word = addr / 8 * 8;
	const bool is_whole = below(4);
	uint8_t bytes[8];
	const struct sr_values_wanted b = {
	    .addr = addr,
	    .begin = is_whole ? word : addr,
	    .end = word + 8,
	    .bytes = bytes,
	    .is_open = !below(4),
	    .with_own = below(2),
	};
	struct sr_lines_range of[MEMBERS];

	fill(bytes, 8);
	assert_int_equal(sr_lines_at(&m->lines, addr, MEMBERS, of), 0);
	for (int i = 0; i < MEMBERS; i++) {
		const int n = find_values(v, m, of[i], &b);

		/* Of a part of a word it cannot always be said. */
		if (is_whole)
			assert_true(n >= 0);
	}
}

static void values(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct sr_values *v = sr_values_new();
		struct sr_writes m;

		assert_non_null(v);
		make_writes(&m);
		for (int i = 0; i < 500; i++)
			find_somewhere(v, &m);
		sr_values_free(v);
		free_writes(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(headers), cmocka_unit_test(lists), cmocka_unit_test(values)};

	srand(20261130);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
