/* SPDX-License-Identifier: BSD-2-Clause */
/* test_mentions.c: which general registers an instruction names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shim/exposed/x86/mentions.h"

#define R(n) (1u << (n))
enum { AX, CX, DX, BX, SP, BP, SI, DI };

#define BYTES(...) ((const uint8_t[16]){__VA_ARGS__})

static void test_moves_and_arithmetic(void **state)
{
	assert_int_equal(mentions_of(BYTES(0x8b, 0x07)), R(AX) | R(DI));             /* mov (%rdi), %eax */
	assert_int_equal(mentions_of(BYTES(0x4d, 0x89, 0x44, 0xc7, 0x08)), R(8) | R(15) | R(AX)); /* mov %r8, 8(%r15,%rax,8) */
	assert_int_equal(mentions_of(BYTES(0x39, 0xf0)), R(AX) | R(SI));             /* cmp %esi, %eax */
	assert_int_equal(mentions_of(BYTES(0x49, 0xff, 0xc4)), R(12));               /* inc %r12 */
	assert_int_equal(mentions_of(BYTES(0x3d, 1, 0, 0, 0)), R(AX));               /* cmp $1, %eax */
	assert_int_equal(mentions_of(BYTES(0x83, 0x3d, 0, 0, 0, 0, 1)), 0);          /* cmpl $1, 0(%rip) */
	assert_int_equal(mentions_of(BYTES(0x41, 0xb8, 1, 0, 0, 0)), R(8));          /* mov $1, %r8d */
}

static void test_implied(void **state)
{
	assert_int_equal(mentions_of(BYTES(0x55)), R(BP) | R(SP));                   /* push %rbp */
	assert_int_equal(mentions_of(BYTES(0xf7, 0xe3)), R(AX) | R(DX) | R(BX));     /* mul %ebx */
	assert_int_equal(mentions_of(BYTES(0xd3, 0xe3)), R(CX) | R(BX));             /* shl %cl, %ebx */
	assert_int_equal(mentions_of(BYTES(0xf0, 0x0f, 0xb1, 0x16)), R(AX) | R(DX) | R(SI)); /* lock cmpxchg %edx, (%rsi) */
	assert_int_equal(mentions_of(BYTES(0xc3)), R(SP));                           /* ret */
	assert_int_equal(mentions_of(BYTES(0x75, 0xf0)), 0);                         /* jne */
	assert_int_equal(mentions_of(BYTES(0xf3, 0x90)), 0);                         /* pause */
}

static void test_vectors(void **state)
{
	assert_int_equal(mentions_of(BYTES(0x0f, 0x58, 0x02)), R(DX));               /* addps (%rdx), %xmm0 */
	assert_int_equal(mentions_of(BYTES(0x0f, 0x58, 0xca)), 0);                   /* addps %xmm2, %xmm1 */
	assert_true(mentions_of(BYTES(0xf3, 0x48, 0x0f, 0x2a, 0xc3)) & R(BX));       /* cvtsi2ss %rbx, %xmm0 */
}

static void test_not_known(void **state)
{
	assert_true(mentions_of(BYTES(0xff, 0xd0)) & R(AX));                         /* call *%rax */
	assert_int_equal(mentions_of(BYTES(0x0f, 0xa2)), MENTIONS_ALL);              /* cpuid */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_moves_and_arithmetic),
	    cmocka_unit_test(test_implied),
	    cmocka_unit_test(test_vectors),
	    cmocka_unit_test(test_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
