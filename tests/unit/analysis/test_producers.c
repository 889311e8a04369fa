/* SPDX-License-Identifier: BSD-2-Clause */
/* Which request left the bytes of a value: of one that is looked at piece by piece, each piece says the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "logd/base/checksum.h"
#include "replay/analysis/races/producers.h"

#define BYTES 1024

static bool may_have_come(const void *argument, const struct sr_race_written *w)
{
	(void)argument;
	(void)w;
	return true;
}

static bool has_ended_before(const void *argument, uint64_t number, uint64_t other)
{
	(void)argument;
	(void)number;
	(void)other;
	return false;
}

/* A WRITE at this address, and a value that is all of it. */
static void find_whole(uint64_t address)
{
	struct sr_race_producers *p = sr_race_producers_new();
	struct sr_race_producing found = {.may_have_come = may_have_come, .has_ended_before = has_ended_before};
	uint8_t data[BYTES];
	struct sr_race_written w = {.number = 7, .begin = address, .end = address + BYTES, .opcode = IBV_WR_RDMA_WRITE};
	uint64_t n;

	for (size_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(i * 37 + 1);
	w.checksum = sr_checksum(data, BYTES, 0);
	assert_non_null(p);
	assert_int_equal(sr_race_producers_add(p, &w), 0);
	for (uint64_t done = 0; done < BYTES; done += n) {
		n = sr_race_producers_next(p, w.owner, address + done, data + done, BYTES - done, 0, true, &found);
		assert_in_range(n, 1, BYTES - done);
		assert_int_equal(found.n, 1);
		assert_int_equal(found.fits[0], w.number);
		assert_true(found.is_certain);
	}
	sr_race_producers_free(p);
}

static void whole_values(void **state)
{
	(void)state;
	for (uint64_t offset = 0; offset < BYTES; offset += 64)
		find_whole(0x10000 + offset);
}

#define WRITES 5

/* A counter that five WRITEs of one queue raise; another word, and another queue's WRITE, which came before it was seen first. */
static struct sr_race_producers *with_counter(uint64_t address)
{
	struct sr_race_producers *p = sr_race_producers_new();
	struct sr_race_written w = {.opcode = IBV_WR_RDMA_WRITE};

	assert_non_null(p);
	for (uint64_t i = 1; i <= WRITES; i++) {
		uint8_t number[64] = {(uint8_t)i};

		w = (struct sr_race_written){.number = 2 * i,
					     .begin = address,
					     .end = address + 8,
					     .checksum = sr_checksum(number, 8, 0),
					     .place = (uint32_t)(2 * i),
					     .opcode = IBV_WR_RDMA_WRITE};
		assert_int_equal(sr_race_producers_add(p, &w), 0);
		w.number = 2 * i + 1;
		w.begin = address + 64;
		w.end = address + 72;
		w.place++;
		assert_int_equal(sr_race_producers_add(p, &w), 0);
	}
	return p;
}

static void find_counter(struct sr_race_producers *p, uint64_t address, uint8_t number, struct sr_race_producing *found)
{
	*found = (struct sr_race_producing){.may_have_come = may_have_come, .has_ended_before = has_ended_before};
	assert_int_equal(sr_race_producers_next(p, 0, address, &number, 1, 0, true, found), 1);
	assert_true(found->is_certain);
	assert_int_equal(found->fits[0], 2 * number);
}

/* Of a counter that was found later than it could have been it is told which of its values nobody has seen. */
static void skipped_values(void **state)
{
	const uint64_t address = 0x20000;
	struct sr_race_producers *p = with_counter(address);
	struct sr_race_producing found;

	(void)state;
	find_counter(p, address, 1, &found);
	assert_int_equal(found.skipped_n, 0);
	find_counter(p, address, 4, &found);
	assert_int_equal(found.skipped_n, 2);
	assert_int_equal(found.skipped[0], 4);
	assert_int_equal(found.skipped[1], 6);
	assert_int_equal(found.word, address);
	assert_int_equal(found.before, 1);
	find_counter(p, address, 5, &found);
	assert_int_equal(found.skipped_n, 0);
	assert_int_equal(found.before, 4);
	sr_race_producers_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(whole_values), cmocka_unit_test(skipped_values)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
