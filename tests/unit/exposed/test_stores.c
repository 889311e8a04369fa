/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_stores.c: every instruction that stores, into an exposed region and into plain memory, from random registers, at
 * random places, over two pages too: memory, registers and flags must be equal. What a peer brings next is seen by the
 * load that finds it.
 *
 *     SREPLAY_TEST_ROUNDS=100000 SREPLAY_TEST_SEED=7 test_stores
 */
#include <cpuid.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/exposed/fixture.h"

#define ROUNDS 40

/* What xsave writes, and general registers and flags behind it. */
#define XSAVE_BYTES 3008
struct registers {
	_Alignas(64) uint8_t xsave[XSAVE_BYTES + 64];
	uint64_t rax, rcx, flags, top;
};

typedef void store_function(volatile void *to, const struct registers *before, struct registers *after);

/* The operand is at rdi; rax, rcx, what is on top of the stack, and all others are `before`'s. */
#define STORE(name, code) \
	store_function name; \
	__asm__(".text\n" #name ":\n mov %rdx, %r8\n mov %rsi, %r9\n mov $0xe7, %eax\n xor %edx, %edx\n xrstor64 (%r9)\n" \
		" mov 3072(%r9), %rax\n mov 3080(%r9), %rcx\n pushq $0x5a\n pushq 3096(%r9)\n pushq 3088(%r9)\n popfq\n" \
		code "\n pushfq\n popq 3088(%r8)\n popq 3096(%r8)\n" \
		" cmpq $0x5a, 3096(%r8)\n je 1f\n pop %rdx\n1: mov %rax, 3072(%r8)\n mov %rcx, 3080(%r8)\n" \
		" mov $0xe7, %eax\n xor %edx, %edx\n xsave64 (%r8)\n fninit\n vzeroupper\n" \
		" movl $0x1f80, -4(%rsp)\n ldmxcsr -4(%rsp)\n ret\n");
_Static_assert(offsetof(struct registers, rax) == 3072 && offsetof(struct registers, top) == 3096, "the code above has these numbers");

/* S(name, code): general registers, and the x87's. */
#define PLAIN(S) \
	S(mov, "mov %rax, (%rdi)") \
	S(mov_imm, "movl $-77, (%rdi)") \
	S(add, "add %rax, (%rdi)") \
	S(adc, "adc %eax, (%rdi)") \
	S(lock_xadd, "lock xadd %rax, (%rdi)") \
	S(xchg, "xchg %rcx, (%rdi)") \
	S(cmpxchg, "lock cmpxchg %rcx, (%rdi)") \
	S(cmpxchg_4, "cmpxchg %ecx, (%rdi)") \
	S(shld, "shld $9, %rax, (%rdi)") \
	S(shrd_cl, "shrd %cl, %eax, (%rdi)") \
	S(rcl, "rclw %cl, (%rdi)") \
	S(bts, "movsx %al, %rax\n bts %rax, (%rdi)") \
	S(lock_btr, "movsx %cl, %ecx\n lock btr %ecx, (%rdi)") \
	S(btc, "movsx %cl, %cx\n btcw %cx, (%rdi)") \
	S(pop, "popq (%rdi)") \
	S(mov_segment, "mov %ss, (%rdi)") \
	S(movbe, "movbe %rax, (%rdi)") \
	S(setg, "setg (%rdi)") \
	S(fst_4, "fsts (%rdi)") \
	S(fst_8, "fstl (%rdi)") \
	S(fstp_4, "fstps (%rdi)") \
	S(fstp_8, "fstpl (%rdi)") \
	S(fstp_10, "fstpt (%rdi)") \
	S(fist_2, "fists (%rdi)") \
	S(fist_4, "fistl (%rdi)") \
	S(fistp_2, "fistps (%rdi)") \
	S(fistp_4, "fistpl (%rdi)") \
	S(fistp_8, "fistpll (%rdi)") \
	S(fisttp_2, "fisttps (%rdi)") \
	S(fisttp_4, "fisttpl (%rdi)") \
	S(fisttp_8, "fisttpll (%rdi)") \
	S(fbstp, "fbstp (%rdi)") \
	S(fnstcw, "fnstcw (%rdi)") \
	S(fnstsw, "fnstsw (%rdi)") \
	S(stmxcsr, "stmxcsr (%rdi)") \
	S(movd_mmx, "movd %mm3, (%rdi)") \
	S(movq_mmx, "movq %mm5, (%rdi)") \
	S(movntq, "movntq %mm0, (%rdi)")
#define AVX2(S) \
	S(pextrw, "pextrw $3, %xmm12, (%rdi)") \
	S(vextractf128, "vextractf128 $1, %ymm12, (%rdi)") \
	S(vmaskmovps, "vmaskmovps %ymm3, %ymm2, (%rdi)") \
	S(vmaskmovpd, "vmaskmovpd %xmm3, %xmm12, (%rdi)") \
	S(vpmaskmovd, "vpmaskmovd %xmm13, %xmm2, (%rdi)") \
	S(vpmaskmovq, "vpmaskmovq %ymm3, %ymm2, (%rdi)") \
	S(vcvtps2ph, "vcvtps2ph $0, %ymm3, (%rdi)") \
	S(vcvtps2ph_mxcsr, "vcvtps2ph $4, %xmm13, (%rdi)")
#define AVX512(S) \
	S(kmovb, "kmovb %k1, (%rdi)") \
	S(kmovw, "kmovw %k2, (%rdi)") \
	S(kmovd, "kmovd %k3, (%rdi)") \
	S(kmovq, "kmovq %k4, (%rdi)") \
	S(vmovdqu8, "vmovdqu8 %zmm21, (%rdi){%k1}") \
	S(vmovdqu16, "vmovdqu16 %ymm2, (%rdi){%k2}") \
	S(vmovups_masked, "vmovups %zmm1, (%rdi){%k3}") \
	S(vmovdqu64_masked, "vmovdqu64 %ymm31, (%rdi){%k4}") \
	S(vmovss_masked, "vmovss %xmm31, (%rdi){%k5}") \
	S(vcvtps2ph_512, "vcvtps2ph $3, %zmm17, (%rdi)") \
	S(vcvtps2ph_masked, "vcvtps2ph $1, %ymm17, (%rdi){%k1}") \
	S(vpmovwb, "vpmovwb %zmm4, (%rdi)") \
	S(vpmovswb, "vpmovswb %ymm4, (%rdi){%k1}") \
	S(vpmovuswb, "vpmovuswb %xmm4, 32(%rdi)") \
	S(vpmovdb, "vpmovdb %zmm24, 16(%rdi)") \
	S(vpmovusdb, "vpmovusdb %zmm24, (%rdi){%k6}") \
	S(vpmovqb, "vpmovqb %ymm24, 4(%rdi)") \
	S(vpmovsqb, "vpmovsqb %zmm24, (%rdi){%k7}") \
	S(vpmovdw, "vpmovdw %zmm24, (%rdi){%k2}") \
	S(vpmovsqw, "vpmovsqw %zmm4, (%rdi)") \
	S(vpmovqd, "vpmovqd %zmm4, 32(%rdi){%k1}") \
	S(vpmovusqd, "vpmovusqd %ymm4, (%rdi)") \
	S(vextractf32x4, "vextractf32x4 $3, %zmm20, (%rdi){%k1}") \
	S(vcompressps, "vcompressps %zmm20, 4(%rdi){%k1}") \
	S(vcompresspd, "vcompresspd %ymm20, 8(%rdi){%k2}") \
	S(vpcompressd, "vpcompressd %ymm5, (%rdi){%k3}") \
	S(vpcompressq, "vpcompressq %zmm20, (%rdi){%k4}")
#define VBMI2(S) \
	S(vpcompressb, "vpcompressb %zmm20, 1(%rdi){%k5}") \
	S(vpcompressw, "vpcompressw %ymm5, 2(%rdi){%k6}")

PLAIN(STORE)
AVX2(STORE)
AVX512(STORE)
VBMI2(STORE)

static const struct store {
	const char *name;
	store_function *f;
} plain[] = {
#define ROW(name, code) {#name, name},
    PLAIN(ROW)},
  avx2[] = {AVX2(ROW)}, avx512[] = {AVX512(ROW)}, vbmi2[] = {VBMI2(ROW)};

static uint64_t rnd;
static uint8_t *region, *elsewhere;

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 0) : otherwise;
}

static void fill(void *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)to)[i] = (uint8_t)random_below(&rnd, 256);
}

/* Of the x87: any state without an exception that is pending, with all of them masked. */
static void make_registers(struct registers *r)
{
	static const uint32_t components[] = {2, 5, 6, 7};
	uint32_t mxcsr = 0x1f80 | random_below(&rnd, 4) << 13 | random_below(&rnd, 2) << 15, size, at, c, d;
	const uint64_t all = 0xe7 & (__builtin_cpu_supports("avx512f") ? ~0ull : 7);

	memset(r, 0, sizeof(*r));
	r->xsave[0] = 0x7f;
	r->xsave[1] = (uint8_t)random_below(&rnd, 16);
	r->xsave[3] = (uint8_t)(random_below(&rnd, 8) << 3);
	r->xsave[4] = random_below(&rnd, 4) ? 0xff : (uint8_t)random_below(&rnd, 256);
	memcpy(r->xsave + 24, &mxcsr, sizeof(mxcsr));
	for (int i = 0; i < 8; i++) {
		fill(r->xsave + 32 + 16 * i, 10);
		/* Mostly near 1, so that conversions fit. */
		if (random_below(&rnd, 4))
			memcpy(r->xsave + 32 + 16 * i + 7, (uint8_t[]){0x80, (uint8_t)random_below(&rnd, 32), 0x40}, 3);
	}
	fill(r->xsave + 160, 256);
	for (int i = 0; i < 4; i++) {
		if (!(all >> components[i] & 1))
			continue;
		__cpuid_count(0xd, components[i], size, at, c, d);
		assert_true(at + size <= sizeof(r->xsave));
		fill(r->xsave + at, size);
	}
	memcpy(r->xsave + 512, &all, sizeof(all));
	fill(&r->rax, 16);
	r->flags = 0x202 | (random_below(&rnd, 4096) & 0x8d5);
	r->top = rnd | 0x100;
}

/* Where the x87's last instruction and operand were differs. */
static void assert_same(const struct store *s, const struct registers *a, const struct registers *b)
{
	bool same = !memcmp(a->xsave, b->xsave, 6) && !memcmp(a->xsave + 24, b->xsave + 24, 416 - 24) &&
		    !memcmp(a->xsave + 576, b->xsave + 576, sizeof(a->xsave) - 576) && a->rax == b->rax && a->rcx == b->rcx &&
		    (a->flags & 0x8d5) == (b->flags & 0x8d5) && a->top == b->top;

	if (!same)
		print_error("%s: registers differ\n", s->name);
	assert_true(same);
}

static void assert_same_memory(const struct store *s)
{
	const uint8_t *backing = sr_exposed_backing(region);

	for (size_t i = 0; i < 2 * PAGE; i++)
		if (backing[i] != elsewhere[i])
			print_error("%s: byte %zu is %02x, not %02x\n", s->name, i, backing[i], elsewhere[i]);
	assert_memory_equal(backing, elsewhere, 2 * PAGE);
}

/* By a peer, far from the operand. */
static void check_seen(const struct store *s, uint8_t *at)
{
	uint8_t brought = (uint8_t)(elsewhere[at - region] + 1);

	write_by_nic(at, &brought, 1);
	elsewhere[at - region] = brought;
	values = 0;
	if (*(volatile uint8_t *)at != brought || values != 1)
		print_error("%s: what came behind it was not seen\n", s->name);
	assert_int_equal(values, 1);
}

static void one_round(const struct store *s)
{
	static struct registers before, here, there;
	size_t at = random_below(&rnd, 2) ? PAGE - random_below(&rnd, 100) : 100 + random_below(&rnd, 200);

	make_registers(&before);
	memset(&here, 0, sizeof(here));
	memset(&there, 0, sizeof(there));
	sr_exposed_observe();
	fill(elsewhere + at, 128);
	/* So that a compare-and-swap succeeds. */
	if (random_below(&rnd, 2))
		memcpy(elsewhere + at, &before.rax, sizeof(before.rax));
	memcpy(sr_exposed_backing(region + at), elsewhere + at, 128);
	s->f(elsewhere + at, &before, &there);
	s->f(region + at, &before, &here);
	assert_same(s, &here, &there);
	assert_same_memory(s);
	check_seen(s, region + PAGE - 400);
	check_seen(s, region + 2 * PAGE - 400);
}

static void run(const struct store *stores, size_t n)
{
	const uint64_t rounds = number("SREPLAY_TEST_ROUNDS", ROUNDS);
	struct sr_exposed_counts before, after;

	for (size_t k = 0; k < n; k++) {
		sr_exposed_get_counts(&before);
		for (uint64_t i = 0; i < rounds; i++)
			one_round(&stores[k]);
		sr_exposed_get_counts(&after);
		if (after.pass_throughs != before.pass_throughs)
			print_error("%s: passed through\n", stores[k].name);
		assert_int_equal(after.pass_throughs, before.pass_throughs);
	}
}

#define RUN(stores) run(stores, sizeof(stores) / sizeof(*(stores)))

static void stores_are_done_as_elsewhere(void **state)
{
	rnd = number("SREPLAY_TEST_SEED", 1);
	region = memory(2);
	elsewhere = memory(2);
	assert_int_equal(sr_exposed_add(region, 2 * PAGE), SR_EXPOSED_OK);
	RUN(plain);
	RUN(avx2);
	if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
		RUN(avx512);
	if (__builtin_cpu_supports("avx512vbmi2"))
		RUN(vbmi2);
	sr_exposed_remove(region, 2 * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(stores_are_done_as_elsewhere),
	};

	/* 77: it is skipped. */
	return __builtin_cpu_supports("avx2") ? cmocka_run_group_tests_name("stores", tests, set_up, NULL) : 77;
}
