/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_vectors.c: stores of vectors, and around the caches, into an exposed region, by faults and then by jumps.  Each
 * writes its bytes and no others, the program is known to know them, and a page that was never filled before is not passed
 * through for them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shim/exposed/page/lock.h"
#include "tests/unit/exposed/simulator.h"

#define PAGE_BYTES 4096
#define ROUNDS	   200

typedef void store_function(volatile void *to, const void *from);

/* The value comes from `from`; two instructions are behind the store that a jump may lie over. */
#define STORE(name, load, store) \
	store_function name; \
	__asm__(".text\n.p2align 8, 0x90\n" #name ": mov (%rsi), %rax\n " load "\n " store "\n" \
		" lea 8(%rdi), %r10\n lea 8(%rdi), %r10\n vzeroupper\n ret\n");

#define X "vmovdqu (%rsi), %xmm5"
#define Y "vmovdqu (%rsi), %ymm14"
#define Z "vmovdqu64 (%rsi), %zmm21"

/* S(name, load, store, offset in `from`, bytes) */
#define STORES(S) \
	S(do_movups, X, "movups %xmm5, (%rdi)", 0, 16) \
	S(do_movaps, X, "movaps %xmm5, (%rdi)", 0, 16) \
	S(do_movupd, X, "movupd %xmm5, (%rdi)", 0, 16) \
	S(do_movdqu, X, "movdqu %xmm5, (%rdi)", 0, 16) \
	S(do_movdqa, X, "movdqa %xmm5, (%rdi)", 0, 16) \
	S(do_movntdq, X, "movntdq %xmm5, (%rdi)", 0, 16) \
	S(do_movntps, X, "movntps %xmm5, (%rdi)", 0, 16) \
	S(do_movntpd, X, "movntpd %xmm5, (%rdi)", 0, 16) \
	S(do_movnti, X, "movnti %rax, (%rdi)", 0, 8) \
	S(do_movnti_4, X, "movnti %eax, (%rdi)", 0, 4) \
	S(do_movlps, X, "movlps %xmm5, (%rdi)", 0, 8) \
	S(do_movhps, X, "movhps %xmm5, (%rdi)", 8, 8) \
	S(do_movhpd, X, "movhpd %xmm5, (%rdi)", 8, 8) \
	S(do_movq, X, "movq %xmm5, (%rdi)", 0, 8) \
	S(do_movd, X, "movd %xmm5, (%rdi)", 0, 4) \
	S(do_movss, X, "movss %xmm5, (%rdi)", 0, 4) \
	S(do_movsd, X, "movsd %xmm5, (%rdi)", 0, 8) \
	S(do_vmovups_16, X, "vmovups %xmm5, (%rdi)", 0, 16) \
	S(do_vmovhps, X, "vmovhps %xmm5, (%rdi)", 8, 8) \
	S(do_vmovups, Y, "vmovups %ymm14, (%rdi)", 0, 32) \
	S(do_vmovaps, Y, "vmovaps %ymm14, (%rdi)", 0, 32) \
	S(do_vmovdqu, Y, "vmovdqu %ymm14, (%rdi)", 0, 32) \
	S(do_vmovdqa, Y, "vmovdqa %ymm14, (%rdi)", 0, 32) \
	S(do_vmovntdq, Y, "vmovntdq %ymm14, (%rdi)", 0, 32) \
	S(do_vmovntps, Y, "vmovntps %ymm14, (%rdi)", 0, 32) \
	S(do_pextrb, X, "pextrb $0x9d, %xmm5, (%rdi)", 13, 1) \
	S(do_pextrw, X, "pextrw $0x7e, %xmm5, (%rdi)", 12, 2) \
	S(do_pextrd, X, "pextrd $5, %xmm5, (%rdi)", 4, 4) \
	S(do_pextrq, X, "pextrq $1, %xmm5, (%rdi)", 8, 8) \
	S(do_extractps, X, "extractps $3, %xmm5, (%rdi)", 12, 4) \
	S(do_vpextrb, X, "vpextrb $7, %xmm5, (%rdi)", 7, 1) \
	S(do_vpextrq, X, "vpextrq $1, %xmm5, (%rdi)", 8, 8) \
	S(do_vextractf128, Y, "vextractf128 $1, %ymm14, (%rdi)", 16, 16) \
	S(do_vextracti128_0, Y, "vextracti128 $0, %ymm14, (%rdi)", 0, 16)
#define STORES_512(S) \
	S(do_vmovups_512, Z, "vmovups %zmm21, (%rdi)", 0, 64) \
	S(do_vmovdqa_512, Z, "vmovdqa64 %zmm21, (%rdi)", 0, 64) \
	S(do_vmovntdq_512, Z, "vmovntdq %zmm21, (%rdi)", 0, 64) \
	S(do_vmovhps_evex, Z, "vmovhps %xmm21, (%rdi)", 8, 8) \
	S(do_vpextrd_evex, Z, "vpextrd $2, %xmm21, (%rdi)", 8, 4) \
	S(do_vextractps_evex, Z, "vextractps $1, %xmm21, (%rdi)", 4, 4) \
	S(do_vextractf32x4, Z, "vextractf32x4 $3, %zmm21, (%rdi)", 48, 16) \
	S(do_vextracti64x2, Z, "vextracti64x2 $1, %ymm21, (%rdi)", 16, 16) \
	S(do_vextractf32x8, Z, "vextractf32x8 $1, %zmm21, (%rdi)", 32, 32) \
	S(do_vextracti64x4, Z, "vextracti64x4 $0, %zmm21, (%rdi)", 0, 32) \
	S(do_vextractf64x4_low, "vmovdqu64 (%rsi), %zmm6", "vextractf64x4 $1, %zmm6, (%rdi)", 32, 32) \
	S(do_vextracti32x4_low, "vmovdqu64 (%rsi), %zmm6", "vextracti32x4 $2, %zmm6, (%rdi)", 32, 16)
/* As memset of less than a vector.  The mask stays above the store, where the jump would be. */
#define MASK(mask) Z "\n mov $" mask ", %r11\n kmovq %r11, %k3"
#define STORES_MASKED(S) \
	S(do_masked_8, MASK("0x1fff"), "vmovdqu8 %zmm21, (%rdi){%k3}", 0, 13) \
	S(do_masked_8_all, MASK("-1"), "vmovdqu8 %zmm21, (%rdi){%k3}", 0, 64) \
	S(do_masked_16, MASK("7"), "vmovdqu16 %xmm21, (%rdi){%k3}", 0, 6) \
	S(do_masked_32, MASK("0x1f"), "vmovdqu32 %zmm21, (%rdi){%k3}", 0, 20) \
	S(do_masked_64, MASK("3"), "vmovdqa64 %ymm21, (%rdi){%k3}", 0, 16) \
	S(do_masked_ps, MASK("0xffff"), "vmovups %ymm21, (%rdi){%k3}", 0, 32) \
	S(do_masked_pd, MASK("1"), "vmovapd %zmm21, (%rdi){%k3}", 0, 8) \
	S(do_masked_extract, MASK("3"), "vextractf32x4 $2, %zmm21, (%rdi){%k3}", 32, 8) \
	S(do_masked_ss, MASK("0xff"), "vmovss %xmm21, (%rdi){%k3}", 0, 4)

#define DEFINE(name, load, store, offset, bytes) STORE(name, load, store)
#define ROW(name, load, store, offset, bytes)	 {#name, name, offset, bytes, false, false},
#define ROW_512(name, load, store, offset, bytes) {#name, name, offset, bytes, true, false},
#define ROW_MASKED(name, load, store, offset, bytes) {#name, name, offset, bytes, true, true},

STORES(DEFINE)
STORES_512(DEFINE)
STORES_MASKED(DEFINE)

static const struct store {
	const char *name;
	store_function *f;
	unsigned int offset, bytes;
	bool avx512;
	bool masked; /* by a fault each time */
} stores[] = {STORES(ROW) STORES_512(ROW_512) STORES_MASKED(ROW_MASKED)};

static volatile uint64_t *user, *dma;

static void ignore(const struct sr_exposed_event *e)
{
}

static int set_up(void **state)
{
	static const struct sr_exposed_hooks h = {.event = ignore, .patches = true};

	if (!map_for_nic(2 * PAGE_BYTES, &user, &dma))
		return -1;
	take_faults();
	return sr_exposed_init(&h) || sr_exposed_add((void *)user, 2 * PAGE_BYTES) != SR_EXPOSED_OK;
}

static struct sr_exposed_counts counts_now(void)
{
	struct sr_exposed_counts c;

	sr_exposed_get_counts(&c);
	return c;
}

static bool is_possible(const struct store *s)
{
	return !s->avx512 || (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"));
}

/* What memory must be after it, and is; the place is another one each time. */
static void one_store(const struct store *s, uint64_t *rnd, unsigned char expected[PAGE_BYTES])
{
	static _Alignas(64) unsigned char from[64];
	size_t at = random_below(rnd, PAGE_BYTES / 64) * 64;

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (unsigned char)random_below(rnd, 256);
	memcpy(expected + at, from + s->offset, s->bytes);
	s->f((volatile char *)user + at, from);
	assert_memory_equal((void *)dma, expected, PAGE_BYTES);
}

static void rounds(const struct store *s, uint64_t *rnd, bool with_calls)
{
	static unsigned char expected[PAGE_BYTES];
	struct sr_exposed_counts before = counts_now(), after;

	memcpy(expected, (void *)dma, PAGE_BYTES);
	for (int i = 0; i < ROUNDS; i++) {
		one_store(s, rnd, expected);
		if (with_calls)
			sr_exposed_observe();
	}
	after = counts_now();
	if (after.stores - before.stores != ROUNDS)
		print_error("%s: %d stores alone\n", s->name, (int)(after.stores - before.stores));
	assert_int_equal(after.faults - before.faults, ROUNDS);
	assert_int_equal(after.stores - before.stores, ROUNDS);
	assert_int_equal(after.pass_throughs, before.pass_throughs);
}

/* A load finds what a store has left, and nothing new. */
static void all_is_known(void)
{
	uint64_t values = counts_now().values, sum = 0;

	for (size_t i = 0; i < PAGE_BYTES / 8; i++)
		sum += user[i] != dma[i];
	assert_int_equal(sum, 0);
	assert_int_equal(counts_now().values, values);
	sr_exposed_observe();
}

static void test_stores(void **state)
{
	uint64_t rnd = 1;

	for (size_t k = 0; k < sizeof(stores) / sizeof(*stores); k++) {
		struct sr_exposed_counts before, after;

		if (!is_possible(&stores[k]))
			continue;
		(void)user[1];
		before = counts_now();
		rounds(&stores[k], &rnd, true);
		rounds(&stores[k], &rnd, false);
		after = counts_now();
		if (after.jumps != before.jumps + !stores[k].masked)
			print_error("%s: %d jumps\n", stores[k].name, (int)(after.jumps - before.jumps));
		assert_int_equal(after.jumps, before.jumps + !stores[k].masked);
		assert_int_equal(after.by_jump - before.by_jump, stores[k].masked ? 0 : 2 * ROUNDS - 16);
		all_is_known();
	}
}

/* With a snapshot open, which must be compared after each store, the handler does it. */
static void test_beside_a_snapshot(void **state)
{
	static unsigned char expected[PAGE_BYTES];
	uint64_t rnd = 2;

	for (size_t k = 0; k < sizeof(stores) / sizeof(*stores); k++) {
		if (!is_possible(&stores[k]))
			continue;
		for (size_t i = 0; i < 200; i++)
			(void)user[i];
		memcpy(expected, (void *)dma, PAGE_BYTES);
		for (int i = 0; i < 20; i++)
			one_store(&stores[k], &rnd, expected);
		all_is_known();
	}
}

/* The others lie over no border. */
static bool is_unaligned(const struct store *s)
{
	static const char *const aligned[] = {"movap", "movdqa", "movntdq", "movntp", "masked_64", "masked_pd"};

	for (size_t i = 0; i < sizeof(aligned) / sizeof(*aligned); i++)
		if (strstr(s->name, aligned[i]))
			return false;
	return true;
}

/* What a peer brings to either page behind it is a value of the load that finds it. */
static void check_seen(size_t word)
{
	uint64_t values = counts_now().values;

	dma[word]++;
	assert_int_equal(user[word], dma[word]);
	assert_int_equal(counts_now().values, values + 1);
}

/* memset and memcpy end with one store over what is left, wherever that is. */
static void over_two_pages(const struct store *s, size_t first)
{
	static unsigned char expected[2 * PAGE_BYTES], from[64];
	struct sr_exposed_counts before = counts_now();

	memcpy(expected, (void *)dma, sizeof(expected));
	memset(from, (int)first, sizeof(from));
	memcpy(expected + PAGE_BYTES - first, from + s->offset, s->bytes);
	s->f((volatile char *)user + PAGE_BYTES - first, from);
	assert_memory_equal((void *)dma, expected, sizeof(expected));
	assert_int_equal(counts_now().stores, before.stores + 1);
	assert_int_equal(counts_now().pass_throughs, before.pass_throughs);
	check_seen(PAGE_BYTES / 8 + 32);
	check_seen(PAGE_BYTES / 8 - 32);
	check_seen(PAGE_BYTES / 8);
	sr_exposed_observe();
}

static void test_over_two_pages(void **state)
{
	for (size_t k = 0; k < sizeof(stores) / sizeof(*stores); k++) {
		const struct store *s = &stores[k];

		if (!is_possible(s) || !is_unaligned(s))
			continue;
		for (size_t first = 1; first < s->bytes; first++)
			over_two_pages(s, first);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_stores),
	    cmocka_unit_test(test_beside_a_snapshot),
	    cmocka_unit_test(test_over_two_pages),
	};

	/* 77: it is skipped. */
	return __builtin_cpu_supports("avx2") ? cmocka_run_group_tests(tests, set_up, NULL) : 77;
}
