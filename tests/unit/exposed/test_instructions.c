/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_instructions.c: every kind of instruction does the same on an exposed region as elsewhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/exposed/fixture.h"

/*
 * Runs each instruction on an exposed region and on plain memory, from the same registers:
 * results, flags and memory must be equal.
 */
#define FLAGS "pushfq; popq %1;"
#define BOTH(insn)                                                                                 \
	do {                                                                                       \
		for (int v = 0; v < 64; v++) {                                                     \
			uint64_t r[2] = {0x8877665544332211ull * (unsigned)v + 3}, f[2], a[2];     \
			uint64_t x = 0x0123456789abcdefull * (unsigned)(v * 5 + 1);                \
                                                                                                   \
			r[1] = r[0];                                                               \
			a[0] = a[1] = v & 1 ? x : r[0] >> v;                                       \
			for (int w = 0; w < 2; w++) {                                              \
				uint8_t *m = w ? region : plain;                                   \
                                                                                                   \
				sr_exposed_observe();                                               \
				memcpy(w ? sr_exposed_backing(m + 24) : m + 24, &x, 8);             \
				__asm__ volatile("lea -128(%%rsp), %%rsp; xorl %%r8d, %%r8d;" insn \
						 "; " FLAGS "lea 128(%%rsp), %%rsp"                \
						 : "+b"(r[w]), "=&r"(f[w]), "+a"(a[w])             \
						 : "D"(m), "S"(3ul)                                \
						 : "rcx", "r8", "xmm0", "xmm1", "xmm8", "xmm9", "cc", "memory");                          \
			}                                                                          \
			assert_int_equal(r[0], r[1]);                                              \
			assert_int_equal(a[0], a[1]);                                              \
			assert_int_equal(f[0] & 0x8d5, f[1] & 0x8d5);                              \
			assert_memory_equal(plain, sr_exposed_backing(region), 64);                 \
		}                                                                                  \
	} while (0)

static void run_every_instruction(uint8_t *region)
{
	static _Alignas(64) uint8_t plain[64];

	memcpy(plain, sr_exposed_backing(region), 64);
	BOTH("movq 24(%3), %0");
	BOTH("movl (%3,%4,8), %k0");
	BOTH("movw 24(%3), %w0");
	BOTH("movb 24(%3), %b0");
	BOTH("movb 24(%3), %%bh");
	BOTH("movzbl 24(%3), %k0");
	BOTH("movzwq 24(%3), %0");
	BOTH("movsbw 24(%3), %w0");
	BOTH("movswq 24(%3), %0");
	BOTH("movslq 24(%3), %0");
	BOTH("movq %0, 24(%3)");
	BOTH("movl %k0, 24(%3)");
	BOTH("movw %w0, 24(%3)");
	BOTH("movb %%bh, 24(%3)");
	BOTH("movb $-2, 24(%3)");
	BOTH("movw $-2, 24(%3)");
	BOTH("movq $-2, 24(%3)");
	BOTH("cmpq %0, 24(%3)");
	BOTH("cmpl 24(%3), %k0");
	BOTH("cmpb $7, 24(%3)");
	BOTH("cmpw $0x1234, 24(%3)");
	BOTH("cmpq $-5, 24(%3)");
	BOTH("testl $0x12345678, 24(%3)");
	BOTH("testb $8, 24(%3)");
	BOTH("testq %0, 24(%3)");
	BOTH("addq %0, 24(%3)");
	BOTH("lock addl %k0, 24(%3)");
	BOTH("lock xaddq %0, 24(%3)");
	BOTH("xchgq %0, 24(%3)");
	BOTH("xchgb %b0, 24(%3)");
	BOTH("lock cmpxchgq %0, 24(%3)");
	BOTH("lock cmpxchgl %k0, 24(%3)");
	BOTH("stc; adcl $5, 24(%3)");
	BOTH("lock btsq $13, 24(%3)");
	BOTH("lock incw 24(%3)");
	BOTH("decb 24(%3)");
	BOTH("notq 24(%3)");
	BOTH("negl 24(%3)");
	BOTH("lock orl $0x100, (%3,%4,8)");
	BOTH("shlq $3, 24(%3)");
	BOTH("sarw 24(%3)");
	BOTH("movb $3, %%cl; rorl %%cl, 24(%3)");
	BOTH("shldq $7, %0, 24(%3)");
	BOTH("cmpq %0, %2; setc 24(%3)");
	/* What computes with memory and leaves it as it is. */
	BOTH("imulq 24(%3), %0");
	BOTH("imull $77, 24(%3), %k0");
	BOTH("addq 24(%3), %0");
	BOTH("subb 24(%3), %%bh");
	BOTH("stc; sbbl (%3,%4,8), %k0");
	BOTH("xorw 24(%3), %w0");
	BOTH("cmpq %0, %2; cmovcq 24(%3), %0");
	BOTH("popcntq 24(%3), %0");
	BOTH("bsrl 24(%3), %k0");
	BOTH("btl $5, 24(%3)");
	BOTH("cvtsi2sdq 24(%3), %%xmm0; mulsd 32(%3), %%xmm0; addss 24(%3), %%xmm0; movq %%xmm0, %0");
	if ((uintptr_t)region % 16 == 0) {
		BOTH("pxor %%xmm1, %%xmm1; pcmpeqb 16(%3), %%xmm1; pmovmskb %%xmm1, %k0; movq %0, %%xmm9; paddq 16(%3), %%xmm9; "
		     "movq %%xmm9, %0");
		BOTH("movq %0, %%xmm1; pshufd $0x1b, 16(%3), %%xmm0; ucomisd 24(%3), %%xmm1; movq %%xmm0, %0");
	}
	if (__builtin_cpu_supports("avx2")) {
		BOTH("vpxor %%xmm0, %%xmm0, %%xmm0; vpcmpeqb 9(%3), %%ymm0, %%ymm1; vpmovmskb %%ymm1, %k0; vzeroupper");
		BOTH("vpxor %%xmm8, %%xmm8, %%xmm8; vpminub (%3,%4,8), %%ymm8, %%ymm9; vpmovmskb %%ymm9, %k0; "
		     "vpermq $1, 1(%3), %%ymm9; vmovq %%xmm9, %2; vzeroupper");
		BOTH("movbeq %0, 24(%3); movbew %w2, 24(%3); movbel 24(%3), %k0");
		BOTH("andn 24(%3), %0, %0; shlxq %2, 24(%3), %2; rorxl $3, 24(%3), %k0");
	}
	if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
		BOTH("vpxorq %%ymm17, %%ymm17, %%ymm17; vpcmpeqb 32(%3), %%ymm17, %%k1; kmovd %%k1, %k0; "
		     "vpcmpub $1, (%3,%4,8), %%ymm17, %%k2; kmovd %%k2, %k2");
}

static uint64_t pass_throughs_now(void)
{
	struct sr_exposed_counts c;

	sr_exposed_get_counts(&c);
	return c.pass_throughs;
}

static void every_instruction_does_what_it_does_elsewhere(void **state)
{
	uint8_t *region = memory(1);

	assert_int_equal(sr_exposed_add(region, PAGE), SR_EXPOSED_OK);
	run_every_instruction(region);
	sr_exposed_remove(region, PAGE);
}

/* What a peer brings behind a store is a value of the load that finds it. */
static void check_seen_behind(void (*store)(volatile void *), volatile uint8_t *to, volatile uint8_t *at)
{
	uint8_t brought = (uint8_t)(*at + 1);

	sr_exposed_observe();
	store(to);
	write_by_nic((void *)at, &brought, 1);
	values = 0;
	assert_int_equal(*at, brought);
	assert_int_equal(values, 1);
}

static void add(volatile void *to)
{
	__asm__ volatile("addq $1, (%0)" : : "r"(to) : "cc", "memory");
}

static void shift(volatile void *to)
{
	__asm__ volatile("shll $1, (%0)" : : "r"(to) : "cc", "memory");
}

/* Its operand lies over the border of 16 bytes, of a word, and of two pages. */
static void every_store_is_seen_wherever_its_operand_lies(void **state)
{
	static const size_t places[] = {PAGE - 20, PAGE - 12, PAGE - 6, PAGE - 1};
	uint8_t *region = memory(2);
	uint64_t before;

	assert_int_equal(sr_exposed_add(region, 2 * PAGE), SR_EXPOSED_OK);
	before = pass_throughs_now();
	for (size_t k = 0; k < 4; k++) {
		const size_t at = places[k];

		run_every_instruction(region + at - 24);
		check_seen_behind(add, region + at, region + 100);
		check_seen_behind(shift, region + at, region + 2 * PAGE - 100);
	}
	assert_int_equal(pass_throughs_now(), before);
	sr_exposed_remove(region, 2 * PAGE);
}

/* With several threads, on a partially registered page: no instruction makes it pass-through. */
static void every_instruction_is_done_alone_on_a_common_page(void **state)
{
	struct sr_exposed_counts before, after;
	uint8_t *region = memory(2);

	assert_int_equal(sr_exposed_add(region, 100), SR_EXPOSED_OK);
	have_threads(true);
	sr_exposed_get_counts(&before);
	run_every_instruction(region);
	sr_exposed_get_counts(&after);
	assert_int_equal(after.snapshots, before.snapshots);
	assert_int_equal(after.pass_throughs, before.pass_throughs);
	have_threads(false);
	sr_exposed_remove(region, 100);
}

/* ... what no region has is the program's own: nothing is counted, or recorded. */
static void what_is_beside_a_region_is_the_programs_own(void **state)
{
	volatile uint32_t *p = (void *)memory(1);
	uint32_t *backing;
	uint64_t faults;

	assert_int_equal(sr_exposed_add((void *)p, 100), SR_EXPOSED_OK);
	have_threads(true);
	faults = sr_exposed_faults();
	values = 0;
	backing = sr_exposed_backing((void *)p);
	/* To the region's last piece of 8 bytes. */
	for (uint32_t i = 104 / 4; i < PAGE / 4; i++) {
		p[i] = i;
		assert_int_equal(backing[i], i);
		__atomic_fetch_add(&p[i], 3, __ATOMIC_SEQ_CST);
		backing[i]++;
		assert_int_equal(p[i], i + 4);
	}
	run_every_instruction((uint8_t *)p + 1024);
	assert_int_equal(values, 0);
	p[0] = 1;
	(void)p[100 / 4];
	assert_true(sr_exposed_faults() >= faults + 2);
	/* What lies over both is the region's. */
	faults = sr_exposed_faults();
	backing[100 / 4]++;
	assert_true(*(volatile uint64_t *)((char *)p + 100) != 0);
	assert_int_equal(sr_exposed_faults(), faults + 1);
	assert_int_equal(values, 1);
	/* A second region's bytes are what they were, and from then on others'. */
	values = 0;
	assert_int_equal(sr_exposed_add((void *)(p + 256), 16), SR_EXPOSED_OK);
	assert_int_equal(p[256], backing[256]);
	assert_int_equal(values, 0);
	assert_int_equal(sr_exposed_faults(), faults + 2);
	backing[256]++;
	assert_int_equal(p[256], backing[256]);
	assert_int_equal(values, 1);
	/* The last of them is seen when it ends. */
	backing[257]++;
	sr_exposed_remove((void *)(p + 256), 16);
	assert_int_equal(values, 2);
	backing[258]++;
	assert_int_equal(p[258], backing[258]);
	assert_int_equal(values, 2);
	have_threads(false);
	sr_exposed_remove((void *)p, 100);
	assert_int_equal(values, 2);
}

/*
 * A vector register is filled from plain memory, another one from the exposed region, and
 * stored back beside: all 64 bytes of it, for what a load clears.
 */
#define VECTOR(fill, insn, show)                                                                   \
	do {                                                                                       \
		uint8_t shown[2][64];                                                              \
                                                                                                   \
		for (int w = 0; w < 2; w++) {                                                      \
			uint8_t *m = w ? region : plain;                                           \
                                                                                                   \
			sr_exposed_observe();                                                       \
			memcpy(w ? sr_exposed_backing(m) : m, pattern, 256);                        \
			memset(shown[w], 0, 64);                                                   \
			__asm__ volatile(fill "; " insn "; " show                                  \
					 :                                                         \
					 : "D"(m), "S"(pattern + 256), "d"(shown[w])               \
					 : "xmm3", "xmm11", "xmm12", "memory");                    \
		}                                                                                  \
		assert_memory_equal(shown[0], shown[1], 64);                                       \
		assert_memory_equal(plain, sr_exposed_backing(region), 256);                        \
		sr_exposed_observe();                                                               \
		assert_memory_equal(plain, region, 256);                                           \
	} while (0)

static void vectors_are_moved_as_elsewhere(void **state)
{
	static uint8_t plain[256], pattern[512];
	uint8_t *region = memory(1);
	uint64_t before;

	for (int i = 0; i < 512; i++)
		pattern[i] = (uint8_t)(i * 7 + 1);
	assert_int_equal(sr_exposed_add(region, PAGE), SR_EXPOSED_OK);
	before = pass_throughs_now();
#define SSE(insn)                                                                                  \
	VECTOR("movdqu (%1), %%xmm3; movdqu 16(%1), %%xmm11", insn,                                \
	       "movdqu %%xmm3, (%2); movdqu %%xmm11, 16(%2)")
	SSE("movdqu 5(%0), %%xmm3");
	SSE("movdqa 16(%0), %%xmm11");
	SSE("movups 33(%0), %%xmm11");
	SSE("movupd 33(%0), %%xmm3");
	SSE("movss 3(%0), %%xmm3");
	SSE("movsd 3(%0), %%xmm11");
	SSE("movd 9(%0), %%xmm3");
	SSE("movq 9(%0), %%xmm3");
	SSE("lddqu 9(%0), %%xmm3");
	SSE("movdqu %%xmm3, 5(%0)");
	SSE("movdqa %%xmm11, 32(%0)");
	SSE("movups %%xmm11, 37(%0)");
	SSE("movss %%xmm3, 37(%0)");
	SSE("movsd %%xmm3, 37(%0)");
	SSE("movd %%xmm3, 37(%0)");
	SSE("movq %%xmm11, 37(%0)");
	SSE("movntdq %%xmm11, 48(%0)");
	if (__builtin_cpu_supports("avx2")) {
#define AVX(insn)                                                                                  \
	VECTOR("vmovdqu (%1), %%ymm3; vmovdqu 32(%1), %%ymm11", insn,                              \
	       "vmovdqu %%ymm3, (%2); vmovdqu %%ymm11, 32(%2)")
		AVX("vmovdqu 5(%0), %%ymm3");
		AVX("vmovdqu 5(%0), %%xmm11");
		AVX("vmovups 140(%0), %%ymm11");
		AVX("vmovq 14(%0), %%xmm3");
		AVX("vmovdqu %%ymm3, 5(%0)");
		AVX("vmovdqu %%xmm11, 5(%0)");
		AVX("vmovups %%ymm11, 77(%0)");
		AVX("vmovq %%xmm11, 77(%0)");
		AVX("vmovdqu 9(%0), %%xmm3; vmovdqu %%ymm3, 100(%0)");
	}
	if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) {
#define AVX512(insn)                                                                               \
	VECTOR("vmovdqu64 (%1), %%zmm3; vmovdqu64 32(%1), %%zmm11; vmovdqu64 64(%1), %%zmm19",     \
	       insn, "vmovdqu64 %%zmm3, (%2); vmovdqu64 %%ymm19, (%2); vmovdqu64 %%ymm11, 32(%2)")
		AVX512("vmovdqu64 5(%0), %%zmm3");
		AVX512("vmovdqu64 5(%0), %%zmm19");
		AVX512("vmovdqu8 64(%0), %%ymm19");
		AVX512("vmovdqu64 32(%0), %%xmm19");
		AVX512("vmovdqu64 %%zmm3, 64(%0)");
		AVX512("vmovdqu8 %%ymm19, 32(%0)");
		AVX512("vmovdqu64 %%xmm19, 77(%0)");
		AVX512("vmovdqu 5(%0), %%ymm3; vmovdqu64 %%zmm3, 64(%0)");
	}
	assert_int_equal(pass_throughs_now(), before);
	sr_exposed_remove(region, PAGE);
}

/* rep movs and stos across pages: from plain memory, from exposed regions, and onto themselves. */
static void strings_are_moved_as_elsewhere(void **state)
{
	static const struct {
		uint32_t to, from, bytes;
	} moves[] = {{10, 3000, 100},    {4000, 9000, 300},  {0, 4096, 8192},   {8000, 100, 4000},
		     {5000, 4990, 3000}, {4990, 5000, 3000}, {4093, 200, 8},    {200, 4093, 16},
		     {64, 63, 4096},     {1000, 1000, 50},   {3000, 3003, 5000}};
	uint8_t *region = memory(3), *plain = malloc(3 * PAGE), *aside = malloc(3 * PAGE);
	uint64_t before;

	for (size_t i = 0; i < 3 * PAGE; i++)
		plain[i] = aside[i] = (uint8_t)(i / 7);
	assert_int_equal(sr_exposed_add(region, 3 * PAGE), SR_EXPOSED_OK);
	before = pass_throughs_now();
	for (size_t i = 0; i < sizeof(moves) / sizeof(*moves); i++) {
		for (int how = 0; how < 3; how++) {
			for (int w = 0; w < 2; w++) {
				uint8_t *m = w ? region : plain, *to = m + moves[i].to;
				const uint8_t *from = how == 1 ? aside : m;
				uint64_t n = moves[i].bytes;

				sr_exposed_observe();
				from += moves[i].from;
				if (how == 2)
					__asm__ volatile("rep stosb"
							 : "+D"(to), "+c"(n)
							 : "a"(i * 3 + 1)
							 : "memory");
				else
					__asm__ volatile("rep movsb"
							 : "+D"(to), "+S"(from), "+c"(n)
							 :
							 : "memory");
				assert_int_equal(n, 0);
				assert_ptr_equal(to, m + moves[i].to + moves[i].bytes);
			}
			assert_memory_equal(plain, sr_exposed_backing(region), 3 * PAGE);
			sr_exposed_observe();
			assert_memory_equal(plain, region, 3 * PAGE);
		}
	}
	assert_int_equal(pass_throughs_now(), before);
	/* By elements, one of which lies across two pages. */
	for (int w = 0; w < 2; w++) {
		uint8_t *to = (w ? region : plain) + PAGE - 20;
		uint64_t n = 9;

		__asm__ volatile("rep stosq"
				 : "+D"(to), "+c"(n)
				 : "a"(0x1122334455667788ull)
				 : "memory");
	}
	sr_exposed_observe();
	assert_memory_equal(plain, region, 3 * PAGE);
	sr_exposed_remove(region, 3 * PAGE);
	free(plain);
	free(aside);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_instruction_does_what_it_does_elsewhere),
	    cmocka_unit_test(every_store_is_seen_wherever_its_operand_lies),
	    cmocka_unit_test(every_instruction_is_done_alone_on_a_common_page),
	    cmocka_unit_test(what_is_beside_a_region_is_the_programs_own),
	    cmocka_unit_test(vectors_are_moved_as_elsewhere),
	    cmocka_unit_test(strings_are_moved_as_elsewhere),
	};

	return cmocka_run_group_tests_name("instructions", tests, set_up, NULL);
}
