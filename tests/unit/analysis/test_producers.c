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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(whole_values)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
