/* SPDX-License-Identifier: BSD-2-Clause */
/* test_checksum.c: whatever instructions compute a checksum, it is the same: traces move between machines; and no program gets slower. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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

#if defined(__x86_64__)
/* Of the registers 0 to 3. */
__attribute__((target("avx2"))) static bool has_upper_halves(void)
{
	uint64_t halves[4][2];

	__asm__ volatile("vextracti128 $1, %%ymm0, %0\n	vextracti128 $1, %%ymm1, %1\n"
			 "	vextracti128 $1, %%ymm2, %2\n	vextracti128 $1, %%ymm3, %3\n"
			 : "=m"(halves[0]), "=m"(halves[1]), "=m"(halves[2]), "=m"(halves[3]));
	for (int i = 0; i < 4; i++)
		if (halves[i][0] || halves[i][1])
			return true;
	return false;
}
#endif

/* With values there, SSE instructions of the program wait for each other. */
static void test_upper_halves_are_clear(void **state)
{
#if defined(__x86_64__)
	static const uint8_t bytes[BYTES] = {1};

	if (!__builtin_cpu_supports("avx2"))
		return;
	for (size_t n = 0; n < BYTES; n += 100) {
		__asm__ volatile("vzeroupper");
		sr_checksum_avx2(bytes, n, n);
		assert_false(has_upper_halves());
	}
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_variants_agree),
	    cmocka_unit_test(test_upper_halves_are_clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
