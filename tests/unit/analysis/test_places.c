/* SPDX-License-Identifier: BSD-2-Clause */
/* test_places.c: which ranges meet, and where first, against all pairs; for one share of the memory and for several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "replay/analysis/races/places.h"

#define RANGES 120u
#define OWNERS 2u
#define SHARES 3u

struct asked {
	uint64_t begin, end, word;
	uint32_t owner;
};

static struct asked make(unsigned int *seed)
{
	const uint64_t begin = (uint64_t)rand_r(seed) % (20 * SR_PIECE), length = 9 + (uint64_t)rand_r(seed) % (4 * SR_PIECE);

	return (struct asked){begin, begin + length, begin + (uint64_t)rand_r(seed) % length, (uint32_t)rand_r(seed) % OWNERS};
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static unsigned int meetings_of(const struct sr_range *r, uint64_t number, uint32_t range)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < r->meetings_n; i++)
		n += r->meetings[i].number == number && r->meetings[i].range == range;
	return n;
}

/* How many meetings the range has to have. */
static unsigned int check_range(const struct sr_places *p, uint32_t range)
{
	const struct sr_range *r = &p->ranges[range];
	unsigned int n = 0;

	for (uint32_t i = 0; i < p->ranges_n; i++) {
		const struct sr_range *o = &p->ranges[i];
		const uint64_t first = later(r->begin, o->begin) / SR_PIECE;

		if (o->owner != r->owner || o->begin >= r->end || r->begin >= o->end || !sr_places_has(p, r->owner, first))
			continue;
		assert_int_equal(meetings_of(r, first, i), 1);
		n++;
	}
	return n;
}

static unsigned int check_words(struct sr_places *p, const struct sr_range *r)
{
	unsigned int n = 0;

	for (uint64_t k = r->begin / SR_PIECE; k <= (r->end - 1) / SR_PIECE; k++) {
		const uint32_t piece = sr_places_has(p, r->owner, k) ? sr_places_piece(p, r->owner, k, false) : SR_NO_PLACE;

		if (piece == SR_NO_PLACE || !p->pieces[piece].has_words)
			continue;
		assert_int_equal(meetings_of(r, k, SR_NO_PLACE), 1);
		n++;
	}
	return n;
}

static void check(struct sr_places *p)
{
	for (uint32_t i = 0; i < p->ranges_n; i++) {
		const struct sr_range *r = &p->ranges[i];

		assert_false(r->is_crowded);
		assert_int_equal(r->meetings_n, check_range(p, i) + check_words(p, r));
		for (uint32_t k = 1; k < r->meetings_n; k++)
			assert_true(r->meetings[k - 1].number <= r->meetings[k].number);
	}
}

static void run(unsigned int shares, unsigned int share, unsigned int seed)
{
	struct sr_places p = {.shares = shares, .share = share, .keeps_meetings = true};

	for (unsigned int i = 0; i < RANGES; i++) {
		const struct asked a = make(&seed);
		const uint64_t number = a.word / SR_PIECE;
		const uint32_t range = sr_places_range(&p, a.owner, a.begin, a.end);

		assert_int_equal(range, sr_places_range(&p, a.owner, a.begin, a.end));
		if (i % 4 || !sr_places_has(&p, a.owner, number))
			continue;
		assert_int_equal(sr_places_add_words(&p, sr_places_piece(&p, a.owner, number, true), number), 0);
	}
	check(&p);
	sr_places_free(&p);
}

static void test_meetings(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed < 20; seed++)
		for (unsigned int share = 0; share <= SHARES; share++)
			run(share == SHARES ? 1 : SHARES, share % SHARES, seed);
}

/* Ranges that all meet each other are too many to be kept; they are in their pieces. */
static void test_crowded(void **state)
{
	struct sr_places p = {.keeps_meetings = true};

	(void)state;
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(sr_places_range(&p, 0, i, 4000), i);
	assert_true(p.ranges[0].is_crowded);
	assert_int_equal(p.ranges[0].meetings_n, 0);
	assert_int_equal(p.pieces[sr_places_piece(&p, 0, 3000 / SR_PIECE, false)].n, 1000);
	sr_places_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_meetings), cmocka_unit_test(test_crowded)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
