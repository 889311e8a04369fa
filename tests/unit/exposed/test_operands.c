/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_operands.c: instructions that compute with memory of exposed regions, by a fault and
 * by a jump, on a page that threads share. Each does what it does elsewhere, with all of
 * its operand and no more.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "shim/exposed/page/lock.h"
#include "shim/exposed/probe/probes.h"
#include "tests/unit/exposed/simulator.h"

struct result {
	uint64_t rax, rcx, rdx, carry, zero, unused[3];
	uint64_t ymm2[4];
};

typedef void operand_function(volatile void *p, struct result *out, uint64_t v);

/*
 * Each computes from what is at p, and from v, into rax, rcx, rdx, the flags and ymm2.  Two instructions are behind it
 * that a jump may lie over.
 */
#define COMPUTE(name, code) \
	operand_function name; \
	__asm__(".text\n.p2align 8, 0x90\n" #name ": mov %rdx, %r8\n mov %rsi, %r9\n xor %eax, %eax\n xor %ecx, %ecx\n" \
		" xor %edx, %edx\n vpxor %xmm2, %xmm2, %xmm2\n" code "\n lea 8(%r8), %r10\n lea 8(%r8), %r10\n" \
		" mov %rax, (%r9)\n mov %rcx, 8(%r9)\n mov %rdx, 16(%r9)\n setc 24(%r9)\n setz 32(%r9)\n" \
		" vmovdqu %ymm2, 64(%r9)\n vzeroupper\n ret\n");

#define ONES1 "vpcmpeqd %ymm1, %ymm1, %ymm1\n"
#define V1    "vmovq %r8, %xmm1\n"

/* Of general registers; vectors of integers: X(name, code). */
#define ALWAYS(X) \
	X(add, "add 16(%rdi), %rax") \
	X(adc, "stc\n adc 16(%rdi), %rax") \
	X(cmov, "test %rdi, %rdi\n cmovnz 16(%rdi), %eax") \
	X(imul, "imul $-7, 17(%rdi), %rax") \
	X(mul, "mov %r8, %rax\n mulq 16(%rdi)") \
	X(popcnt, "popcnt 24(%rdi), %ax") \
	X(xor_by_index, "push %r12\n mov $2, %r12d\n xor (%rdi, %r12, 8), %r12\n mov %r12, %rax\n pop %r12") \
	X(imul_two_prefixes, ".byte 0x66, 0x48, 0x69, 0x07\n .long 3") \
	X(tzcnt, "tzcnt 16(%rdi), %rax") \
	X(lzcnt, "lzcnt 20(%rdi), %eax") \
	X(andn, "andn 16(%rdi), %r8, %rax") \
	X(bextr, "mov $0x1004, %eax\n bextr %eax, (%rdi), %eax") \
	X(blsr, "blsr 16(%rdi), %rax") \
	X(blsi, "blsi 12(%rdi), %eax") \
	X(blsmsk, "push %r12\n mov $3, %r12d\n blsmsk (%rdi, %r12, 8), %r12\n mov %r12, %rax\n pop %r12") \
	X(bzhi, "bzhi %r8, 16(%rdi), %rax") \
	X(mulx, "mov $77, %edx\n mulx (%rdi), %rax, %rcx") \
	X(mulx_over_rdx, "mov %r8, %rdx\n mulx (%rdi), %rdx, %rcx") \
	X(pdep, "pdep 16(%rdi), %r8, %rax") \
	X(pext, "pext 20(%rdi), %r8d, %eax") \
	X(rorx, "rorx $7, (%rdi), %rax") \
	X(sarx, "sarx %r8, 16(%rdi), %rax") \
	X(shlx, "shlx %r8d, 16(%rdi), %eax") \
	X(shrx, "shrx %r8, 17(%rdi), %rax") \
	X(movbe, "movbe 16(%rdi), %rax") \
	X(movbe_word, "movbe 16(%rdi), %ax") \
	X(crc32, "mov %r8, %rax\n crc32q 16(%rdi), %rax") \
	X(crc32_byte, "mov %r8d, %eax\n crc32b 19(%rdi), %eax") \
	X(crc32_word, "mov %r8d, %eax\n crc32w 18(%rdi), %eax") \
	X(pcmpeqb, "movq %r8, %xmm2\n pcmpeqb 16(%rdi), %xmm2") \
	X(punpck, "punpckldq (%rdi), %xmm2") \
	X(andps, "movq %r8, %xmm2\n andps (%rdi), %xmm2") \
	X(vpcmpeqb, V1 "vpcmpeqb 13(%rdi), %ymm1, %ymm2") \
	X(vpcmpeqb_by_index, "push %r12\n mov $3, %r12d\n vmovq %r8, %xmm9\n vpcmpeqb (%rdi, %r12, 8), %ymm9, %ymm2\n pop %r12") \
	X(vpshufhw, "vpshufhw $27, (%rdi), %ymm2") \
	X(vpshuflw, "vpshuflw $27, (%rdi), %xmm2") \
	X(vpshufb, ONES1 "vpshufb (%rdi), %ymm1, %ymm2") \
	X(vpsrlw, ONES1 "vpsrlw (%rdi), %ymm1, %ymm2") \
	X(vmovddup, "vmovddup (%rdi), %ymm2") \
	X(vmovsldup, "vmovsldup (%rdi), %xmm2") \
	X(vmovshdup, "vmovshdup (%rdi), %ymm2") \
	X(vpmovzx, "vpmovzxbw (%rdi), %ymm2") \
	X(vpbroadcastb, "vpbroadcastb (%rdi), %ymm2") \
	X(vbroadcastf128, "vbroadcastf128 (%rdi), %ymm2") \
	X(vperm2f128, ONES1 "vperm2f128 $0x13, (%rdi), %ymm1, %ymm2") \
	X(vpblendvb, ONES1 "vpblendvb %ymm1, (%rdi), %ymm1, %ymm2") \
	X(vmovhps, "vmovhps (%rdi), %xmm2, %xmm2") \
	X(movlps, "movlps 16(%rdi), %xmm2") \
	X(shufps, "shufps $27, (%rdi), %xmm2") \
	X(pinsrw, "pinsrw $3, 18(%rdi), %xmm2") \
	X(pinsrd, "pinsrd $1, 20(%rdi), %xmm2") \
	X(vinsertps, "vinsertps $0x10, (%rdi), %xmm2, %xmm2") \
	X(vptest, ONES1 "vptest (%rdi), %ymm1")

/* Processors with AVX-512 have ADX, too. */
#define ALWAYS_512(X) \
	X(adcx, "mov %r8, %rax\n stc\n adcx 16(%rdi), %rax") \
	X(adox, "mov %r8d, %eax\n stc\n adox 16(%rdi), %eax\n seto %cl") \
	X(evex_compare, "vmovq %r8, %xmm16\n vpcmpeqb 32(%rdi), %ymm16, %k1\n kmovd %k1, %eax") \
	X(evex_compare_wide, "vmovq %r8, %xmm16\n vpcmpneqb 64(%rdi), %zmm16, %k1\n kmovq %k1, %rax") \
	X(evex_test, "vpternlogd $255, %zmm17, %zmm17, %zmm17\n vptestnmb 32(%rdi), %ymm17, %k1\n kmovd %k1, %eax") \
	X(evex_and, ONES1 "vpandd 32(%rdi), %ymm1, %ymm2")

/* Whose exceptions are masked. */
#define FLOATS(X) \
	X(addsd, "cvtsi2sd %r8, %xmm2\n addsd 16(%rdi), %xmm2") \
	X(cvttps2dq, "cvttps2dq (%rdi), %xmm2") \
	X(cvtdq2pd, "cvtdq2pd (%rdi), %xmm2") \
	X(cvtpd2dq, "cvtpd2dq (%rdi), %xmm2") \
	X(cvtps2pd, "cvtps2pd (%rdi), %xmm2") \
	X(vaddsubps, ONES1 "vaddsubps (%rdi), %ymm1, %ymm2") \
	X(vhaddps, ONES1 "vhaddps (%rdi), %ymm1, %ymm2") \
	X(vcvtdq2pd, "vcvtdq2pd (%rdi), %ymm2") \
	X(vcvtpd2dq, "vcvtpd2dqy (%rdi), %xmm2") \
	X(vcvttps2dq, "vcvttps2dq (%rdi), %ymm2") \
	X(mulss, "cvtsi2ss %r8, %xmm2\n mulss 20(%rdi), %xmm2") \
	X(vdivpd, ONES1 "vdivpd (%rdi), %ymm1, %ymm2") \
	X(comisd, "cvtsi2sd %r8, %xmm1\n comisd 16(%rdi), %xmm1") \
	X(vcmpps, ONES1 "vcmpps $4, (%rdi), %ymm1, %ymm2") \
	X(vfmadd231ss, "vmovd %r8d, %xmm1\n vfmadd231ss 12(%rdi), %xmm1, %xmm2")

/* What may have an exception of its own. */
#define BY_FAULT(X) \
	X(paddd_mmx, "pxor %mm0, %mm0\n paddd (%rdi), %mm0\n movq2dq %mm0, %xmm2\n emms") \
	X(vpcmpistri, ONES1 "vpcmpistri $0, (%rdi), %xmm1")

#define BY_FAULT_512(X) \
	X(kmov, "kmovq 8(%rdi), %k1\n kmovq %k1, %rax")

ALWAYS(COMPUTE)
ALWAYS_512(COMPUTE)
FLOATS(COMPUTE)
BY_FAULT(COMPUTE)
BY_FAULT_512(COMPUTE)
COMPUTE(vector_load, "vmovdqu64 32(%rdi), %ymm17\n vmovdqa64 %ymm17, %ymm2")
/* Where the mask is zero they read nothing, and do not fault. */
COMPUTE(masked_move, "vmovq %r8, %xmm1\n vpbroadcastq %xmm1, %ymm1\n vpmaskmovd (%rdi), %ymm1, %ymm2")
COMPUTE(masked_compare, "kmovq %r8, %k2\n vpcmpeqb (%rdi), %ymm2, %k1{%k2}\n kmovd %k1, %eax")
COMPUTE(aligned_compare, "pcmpeqb (%rdi), %xmm2")
COMPUTE(aligned_load, "movdqa (%rdi), %xmm2")
/* A displacement that counts in elements; add (%rdi), %ax, so long that it could have no other operand. */
COMPUTE(broadcast, ONES1 "vpandd 4(%rdi){1to8}, %ymm1, %ymm2")
COMPUTE(add_long, ".byte 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x03, 0x07")

struct computation {
	const char *name;
	operand_function *f;
	bool avx512, probe;
};

/* They change what they compute with. */
#define EXCHANGES(X) \
	X(add_byte, "add %r8b, 17(%rdi)") \
	X(add_to_word, "add %r8w, 18(%rdi)") \
	X(sub_long, "sub %r8d, 20(%rdi)") \
	X(adc_quad, "stc\n adc %r8, 8(%rdi)") \
	X(sbb_byte, "stc\n sbb $3, %r8d\n sbbb $7, 3(%rdi)") \
	X(and_or_xor, "or %r8, (%rdi)\n andb $0x7f, 1(%rdi)\n xor %r8d, 4(%rdi)") \
	X(inc_keeps_carry, "stc\n incw 30(%rdi)") \
	X(dec, "decq 24(%rdi)") \
	X(neg, "negl 28(%rdi)") \
	X(not, "notb 5(%rdi)") \
	X(exchange, "mov %r8, %rax\n xchg %rax, 32(%rdi)") \
	X(exchange_high, "mov %r8d, %eax\n mov %r8d, %ecx\n xchg %ch, 33(%rdi)") \
	X(xadd, "mov %r8, %rdx\n lock xadd %rdx, 40(%rdi)") \
	X(compare_and_swap, "mov 48(%rdi), %rax\n lock cmpxchg %r8, 48(%rdi)") \
	X(swap_not, "mov %r8, %rax\n mov %r8, %rcx\n cmpxchg %rcx, 56(%rdi)") \
	X(across_words, "add %r8d, 6(%rdi)") \
	X(shift, "mov %r8d, %ecx\n shll %cl, 64(%rdi)") \
	X(rotate_carry, "stc\n rcrw $1, 66(%rdi)") \
	X(bit, "btsq $33, 72(%rdi)")

EXCHANGES(COMPUTE)

#define IS(name, code)     {#name, name, false, true},
#define IS_512(name, code) {#name, name, true, true},
#define NO(name, code)     {#name, name, false, false},
#define NO_512(name, code) {#name, name, true, false},
static const struct computation computations[] = {
    ALWAYS(IS) ALWAYS_512(IS_512) IS_512(vector_load, "") FLOATS(IS) BY_FAULT(NO) BY_FAULT_512(NO_512) };
#define COMPUTATIONS (sizeof(computations) / sizeof(*computations))

#define ROUNDS 60 /* by jump from the 17th on */

/* A partially registered page. */
static volatile uint64_t *page;

static void ignore(const struct sr_exposed_event *e)
{
}

static bool threads(void)
{
	return true;
}

#define REGION (page + 128)

static int set_up(void **state)
{
	static const struct sr_exposed_hooks h = {.event = ignore, .patches = true, .threads = threads};

	take_faults();
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return sr_exposed_init(&h) || sr_exposed_add((void *)REGION, 512) != SR_EXPOSED_OK;
}

static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

static struct sr_exposed_counts counts_now(void)
{
	struct sr_exposed_counts c;

	sr_exposed_get_counts(&c);
	return c;
}

/* The NIC's, and another place's, are the same.  Each byte is another one than the last time. */
static void fill(volatile uint64_t *at, uint64_t *other)
{
	static uint64_t v = 0x2545f4914f6cdd1d;
	uint64_t *backing = (uint64_t *)sr_exposed_backing((void *)at);

	for (int i = 0; i < 32; i++) {
		v = v * 6364136223846793005 + 1442695040888963407;
		other[i] ^= v | 0x0101010101010101;
		backing[i] = other[i];
	}
}

/* How many rounds were right. */
static int rounds_right(const struct computation *c, volatile uint64_t *at)
{
	static _Alignas(64) uint64_t other[32];
	int right = 0;

	for (int i = 0; i < ROUNDS; i++) {
		struct result here, there;

		memset(&here, 0, sizeof(here));
		memset(&there, 0, sizeof(there));
		sr_exposed_observe();
		fill(at, other);
		c->f(at, &here, other[i % 3]);
		c->f(other, &there, other[i % 3]);
		right += !memcmp(&here, &there, sizeof(here));
	}
	return right;
}

static void are_right(volatile uint64_t *at, bool within)
{
	for (size_t k = 0; k < COMPUTATIONS; k++) {
		const struct computation *c = &computations[k];
		struct sr_exposed_counts before = counts_now(), after;
		int right;

		if (c->avx512 && !has_avx512())
			continue;
		right = rounds_right(c, at);
		after = counts_now();
		if (right != ROUNDS || after.jumps - before.jumps != (c->probe && !within) ||
		    after.faults - before.faults != (within ? ROUNDS : 0))
			print_error("%s: %d of %d are right, %d jumps, %d faults\n", c->name, right, ROUNDS,
				    (int)(after.jumps - before.jumps), (int)(after.faults - before.faults));
		assert_int_equal(right, ROUNDS);
		assert_int_equal(after.jumps - before.jumps, c->probe && !within);
		if (!within) {
			assert_int_equal(after.faults, before.faults);
			assert_int_equal(after.values, before.values);
			continue;
		}
		/* What was read is known, each time. */
		assert_int_equal(after.faults - before.faults, ROUNDS);
		assert_int_equal(after.by_jump - before.by_jump, c->probe ? ROUNDS : 0);
		assert_true(after.values - before.values >= ROUNDS);
	}
}

static void test_beside_a_region_then_within(void **state)
{
	are_right(page + 256, false);
	are_right(REGION, true);
}

/* Then it is executed where its signal would be expected. */
static void test_floats_with_exceptions(void **state)
{
	static const struct computation c = {"addsd", addsd, false, true};
	const unsigned int masked = __builtin_ia32_stmxcsr();
	struct sr_exposed_counts before = counts_now(), after;
	int right;

	__builtin_ia32_ldmxcsr(masked & ~0x200u); /* division by zero, which it has none of */
	right = rounds_right(&c, REGION);
	__builtin_ia32_ldmxcsr(masked);
	after = counts_now();
	assert_int_equal(right, ROUNDS);
	assert_int_equal(after.faults - before.faults, ROUNDS);
	assert_int_equal(after.by_jump, before.by_jump);
}

/* Nothing that they find is new: nothing is recorded. */
static void test_exchanges_of_what_is_known(void **state)
{
	static const struct computation each[] = {EXCHANGES(IS)};
	static _Alignas(64) uint64_t other[32];
	volatile uint64_t *at = REGION;
	uint64_t values;

	sr_exposed_observe();
	fill(at, other);
	for (int i = 0; i < 32; i++)
		assert_true(at[i] == other[i]);
	values = counts_now().values;
	for (size_t k = 0; k < sizeof(each) / sizeof(*each); k++) {
		uint64_t exchanges = counts_now().exchanges;

		for (uint64_t i = 0; i < ROUNDS; i++) {
			struct result here = {0}, there = {0};

			each[k].f(at, &here, i * 0x0123456789abcdef);
			each[k].f(other, &there, i * 0x0123456789abcdef);
			if (memcmp(&here, &there, sizeof(here)) || memcmp(sr_exposed_backing((void *)at), other, sizeof(other)))
				print_error("%s, round %d\n", each[k].name, (int)i);
			assert_memory_equal(&here, &there, sizeof(here));
			assert_memory_equal(sr_exposed_backing((void *)at), other, sizeof(other));
		}
		assert_true(counts_now().exchanges - exchanges >= ROUNDS);
	}
	assert_int_equal(counts_now().values, values);
}

/* What ends where the region begins is not the region's: as much as it reads is known. */
static void test_up_to_a_region(void **state)
{
	static const struct {
		struct computation c;
		unsigned int bytes;
	} each[] = {{{"paddd_mmx", paddd_mmx, false, false}, 8}, {{"vpsrlw", vpsrlw, false, true}, 16},
		    {{"punpck", punpck, false, true}, 16},      {{"vpshufhw", vpshufhw, false, true}, 32},
		    {{"vcvtdq2pd", vcvtdq2pd, false, false}, 32}};

	for (size_t k = 0; k < sizeof(each) / sizeof(*each); k++) {
		uint64_t faults = counts_now().faults;

		assert_int_equal(rounds_right(&each[k].c, REGION - each[k].bytes / 8), ROUNDS);
		assert_int_equal(counts_now().faults, faults);
	}
}

/* They are given the page. */
static void test_what_is_not_done_aside(void **state)
{
	static const struct computation each[] = {{"add_long", add_long, false, false}, {"broadcast", broadcast, true, false}};
	uint64_t jumps = counts_now().jumps;

	for (size_t k = 0; k < 2; k++)
		if (!each[k].avx512 || has_avx512())
			assert_int_equal(rounds_right(&each[k], REGION), ROUNDS);
	assert_int_equal(counts_now().jumps, jumps);
}

/* This thread has met no protected page yet, and has no stack for handling one. */
static void *compute_elsewhere(void *arg)
{
	uint64_t own[32] = {[2] = 40};

	add(own, arg, 0);
	return NULL;
}

static void test_without_a_stack(void **state)
{
	uint64_t own[32] = {[2] = 40};
	struct result first = {0}, elsewhere = {0}, guarded = {0};
	struct probes_guard guard;
	pthread_t t;

	add(own, &first, 0);
	pthread_create(&t, NULL, compute_elsewhere, &elsewhere);
	pthread_join(t, NULL);
	probes_guard_begin(&guard);
	add(own, &guarded, 0);
	probes_guard_end(&guard);
	assert_int_equal(first.rax, 40);
	assert_int_equal(elsewhere.rax, 40);
	assert_int_equal(guarded.rax, 40);
}

static void no_fault_where_nothing_is_read(operand_function *f)
{
	struct sr_exposed_counts before;
	struct result out;

	for (int i = 0; i < ROUNDS; i++) {
		sr_exposed_observe();
		f(REGION, &out, UINT64_MAX);
	}
	before = counts_now();
	for (int i = 0; i < ROUNDS; i++)
		f(REGION, &out, 0);
	assert_int_equal(counts_now().faults, before.faults);
}

/* An instruction that reads nothing must not fault, because it would not in a replay. */
static void test_masks_of_zero(void **state)
{
	no_fault_where_nothing_is_read(masked_move);
	if (has_avx512())
		no_fault_where_nothing_is_read(masked_compare);
}

static sigjmp_buf back;

static void jump_back(int sig, siginfo_t *info, void *uc)
{
	if (!sr_exposed_fault(info, uc))
		siglongjmp(back, 1);
}

static bool is_refused(operand_function *f)
{
	struct sigaction sa = {.sa_sigaction = jump_back, .sa_flags = SA_SIGINFO | SA_NODEFER};
	volatile bool refused = sigsetjmp(back, 1);
	struct result out;

	if (!refused) {
		sigaction(SIGSEGV, &sa, NULL);
		f(REGION + 1, &out, 0);
	}
	take_faults();
	return refused;
}

/* By a jump as it would be bare: a general protection fault. */
static void test_what_is_not_aligned(void **state)
{
	static operand_function *const each[] = {aligned_compare, aligned_load};

	for (size_t k = 0; k < 2; k++) {
		uint64_t jumps = counts_now().jumps;
		struct result out;

		assert_true(is_refused(each[k]));
		for (int i = 0; i < ROUNDS; i++) {
			sr_exposed_observe();
			each[k](REGION, &out, 0);
		}
		assert_int_equal(counts_now().jumps, jumps + 1);
		assert_true(is_refused(each[k]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_beside_a_region_then_within),
	    cmocka_unit_test(test_floats_with_exceptions),
	    cmocka_unit_test(test_exchanges_of_what_is_known),
	    cmocka_unit_test(test_up_to_a_region),
	    cmocka_unit_test(test_what_is_not_done_aside),
	    cmocka_unit_test(test_without_a_stack),
	    cmocka_unit_test(test_masks_of_zero),
	    cmocka_unit_test(test_what_is_not_aligned),
	};

	/* 77: it is skipped. */
	return __builtin_cpu_supports("avx2") ? cmocka_run_group_tests(tests, set_up, NULL) : 77;
}
