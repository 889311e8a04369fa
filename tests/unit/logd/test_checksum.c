/* SPDX-License-Identifier: BSD-2-Clause */
/* test_checksum.c: whatever instructions compute a checksum, it is the same: traces move between machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "logd/base/checksum.h"
#include "logd/base/checksum_variants.h"

#define BYTES 5000

static void test_variants_agree(void **state)
{
	static uint8_t bytes[BYTES + 64];
	unsigned int seed = 1;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)rand_r(&seed);
	for (size_t n = 0; n < BYTES; n++) {
		const uint8_t *p = bytes + n % 64;
		uint64_t before = (uint64_t)rand_r(&seed) << 32, expected = XXH3_64bits_withSeed(p, n, before);

		assert_true(sr_checksum(p, n, before) == expected);
		assert_true(sr_checksum_scalar(p, n, before) == expected);
#if defined(__x86_64__)
		if (__builtin_cpu_supports("avx2"))
			assert_true(sr_checksum_avx2(p, n, before) == expected);
#endif
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_variants_agree)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
