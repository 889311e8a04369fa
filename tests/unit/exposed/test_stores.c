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
	S(add_sp, "add %rsp, (%rdi)") \
	S(lock_or_spl, "lock or %spl, (%rdi)") \
	S(cmpxchg_sp, "lock cmpxchg %esp, (%rdi)") \
	S(xchg_sp, "lea -64(%rsp), %rcx\n mov %rcx, (%rdi)\n xchg %rsp, (%rdi)\n mov %rsp, %rax\n add $64, %rsp") \
	S(xadd_sp, "mov %rsp, (%rdi)\n lock xadd %rsp, (%rdi)") \
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

/* The decoder does not know these: their pages are open while they execute. */
#define UNKNOWN(S) \
	S(backwards, "lea 64(%rdi), %rsi\n lea 20(%rdi), %rdi\n mov $9, %ecx\n std\n rep movsb\n cld") \
	S(backwards_stos, "lea 64(%rdi), %rdi\n mov $5, %ecx\n std\n rep stosq\n cld") \
	S(maskmovdqu, "maskmovdqu %xmm3, %xmm2") \
	S(maskmovq, "maskmovq %mm3, %mm2") \
	S(vstmxcsr, "vstmxcsr (%rdi)") \
	S(fxsave, "and $-64, %rdi\n fxsave64 (%rdi)") \
	S(xsave, "and $-64, %rdi\n mov $3, %eax\n xor %edx, %edx\n xsave64 (%rdi)") \
	S(fnsave, "fnsave (%rdi)") \
	S(fnstenv, "fnstenv (%rdi)") \
	S(gs_mov, "mov %rax, %gs:(%rdi)") \
	S(gs_xadd, "lock xadd %rax, %gs:(%rdi)") \
	S(addr32_mov, "movb $7, (%edi)") \
	S(addr32_movs, "lea 64(%edi), %esi\n mov $4, %ecx\n addr32 rep movsl")
#define UNKNOWN_512(S) \
	S(vpscatterdd, "vpsrld $26, %zmm21, %zmm21\n vpscatterdd %zmm20, (%rdi,%zmm21){%k1}") \
	S(vscatterqpd, "vpsrlq $58, %ymm21, %ymm21\n vscatterqpd %ymm20, (%rdi,%ymm21){%k2}")
#define MOVDIR(S) \
	S(movdir64b, "and $-64, %rdi\n movdir64b 65(%rdi), %rdi")

PLAIN(STORE)
AVX2(STORE)
AVX512(STORE)
VBMI2(STORE)
UNKNOWN(STORE)
UNKNOWN_512(STORE)
MOVDIR(STORE)

static const struct store {
	const char *name;
	store_function *f;
} plain[] = {
#define ROW(name, code) {#name, name},
    PLAIN(ROW)},
  avx2[] = {AVX2(ROW)}, avx512[] = {AVX512(ROW)}, vbmi2[] = {VBMI2(ROW)}, unknown[] = {UNKNOWN(ROW)},
  unknown_512[] = {UNKNOWN_512(ROW)}, movdir[] = {MOVDIR(ROW)};

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

static void run(const struct store *stores, size_t n, bool known)
{
	const uint64_t rounds = number("SREPLAY_TEST_ROUNDS", ROUNDS);
	struct sr_exposed_counts before, after;

	for (size_t k = 0; k < n; k++) {
		sr_exposed_get_counts(&before);
		for (uint64_t i = 0; i < rounds; i++)
			one_round(&stores[k]);
		sr_exposed_get_counts(&after);
		if (known != (after.pass_throughs == before.pass_throughs))
			print_error("%s: %s\n", stores[k].name, known ? "passed through" : "not passed through");
		assert_int_equal(after.pass_throughs == before.pass_throughs, known);
	}
}

#define RUN(stores, known) run(stores, sizeof(stores) / sizeof(*(stores)), known)

static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

static bool has_movdir64b(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & bit_MOVDIR64B;
}

/* An address of 32 bits reaches it. */
static uint8_t *low_memory(void)
{
	uint8_t *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	fill(p, 2 * PAGE);
	return p;
}

static void start(void)
{
	rnd = number("SREPLAY_TEST_SEED", 1);
	take_faults();
	region = low_memory();
	elsewhere = low_memory();
	memcpy(elsewhere, region, 2 * PAGE);
	assert_int_equal(sr_exposed_add(region, 2 * PAGE), SR_EXPOSED_OK);
}

static void stores_are_done_as_elsewhere(void **state)
{
	start();
	RUN(plain, true);
	RUN(avx2, true);
	if (has_avx512())
		RUN(avx512, true);
	if (__builtin_cpu_supports("avx512vbmi2"))
		RUN(vbmi2, true);
	sr_exposed_remove(region, 2 * PAGE);
}

static void so_are_those_that_are_not_decoded(void **state)
{
	start();
	RUN(unknown, false);
	if (has_avx512())
		RUN(unknown_512, false);
	if (has_movdir64b())
		RUN(movdir, false);
	sr_exposed_remove(region, 2 * PAGE);
}

/* It loads from one page and stores to another, and comes to more of them than are open for it at once. */
static void a_long_string_comes_to_its_end(void **state)
{
	const size_t bytes = 40 * PAGE;
	uint8_t *from = memory(40), *to = memory(40), *f = from + bytes - 8, *t = to + bytes - 8;
	uint64_t n = bytes / 8;

	from[0] = 77;
	assert_int_equal(sr_exposed_add(from, bytes), SR_EXPOSED_OK);
	assert_int_equal(sr_exposed_add(to, bytes), SR_EXPOSED_OK);
	alarm(20);
	__asm__ volatile("std\n rep movsq\n cld" : "+D"(t), "+S"(f), "+c"(n) : : "memory");
	alarm(0);
	assert_memory_equal(sr_exposed_backing(to), sr_exposed_backing(from), bytes);
	write_by_nic(to + 5, "x", 1);
	values = 0;
	assert_int_equal(*(volatile uint8_t *)(to + 5), 'x');
	assert_int_equal(values, 1);
	sr_exposed_remove(from, bytes);
	sr_exposed_remove(to, bytes);
}

static sigjmp_buf behind_fault;
static ucontext_t faulted;

static void jump_behind(int sig, siginfo_t *info, void *uc)
{
	if (sr_exposed_fault(info, uc))
		return;
	memcpy(&faulted, uc, offsetof(ucontext_t, uc_sigmask) + sizeof(uint64_t));
	siglongjmp(behind_fault, 1);
}

extern const char string_into_nowhere[];

/* The program's handler finds its own instruction, half done, and its signals as they were. */
static void a_fault_of_its_own_is_the_programs(void **state)
{
	const struct sigaction sa = {.sa_sigaction = jump_behind, .sa_flags = SA_SIGINFO | SA_NODEFER};
	uint8_t *p = memory(2), *to = p + PAGE + 100;
	uint64_t n = 200;

	/* Not unmapped: what is mapped next might come there. */
	assert_int_equal(mprotect(p, PAGE, PROT_NONE), 0);
	assert_int_equal(sr_exposed_add(p + PAGE, PAGE), SR_EXPOSED_OK);
	sigaction(SIGSEGV, &sa, NULL);
	if (!sigsetjmp(behind_fault, 1)) {
		__asm__ volatile("std\n string_into_nowhere: rep stosb\n cld" : "+D"(to), "+c"(n) : "a"(7) : "memory");
		fail();
	}
	__asm__ volatile("cld");
	take_faults();
	assert_ptr_equal((void *)faulted.uc_mcontext.gregs[REG_RIP], string_into_nowhere);
	assert_false(sigismember(&faulted.uc_sigmask, SIGALRM));
	assert_int_equal(*(uint8_t *)sr_exposed_backing(p + PAGE), 7);
	sr_exposed_observe();
	sr_exposed_remove(p + PAGE, PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(stores_are_done_as_elsewhere),
	    cmocka_unit_test(so_are_those_that_are_not_decoded),
	    cmocka_unit_test(a_long_string_comes_to_its_end),
	    cmocka_unit_test(a_fault_of_its_own_is_the_programs),
	};

	/* 77: it is skipped. */
	return __builtin_cpu_supports("avx2") ? cmocka_run_group_tests_name("stores", tests, set_up, NULL) : 77;
}
