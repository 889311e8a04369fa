/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_probes.c: instructions that are replaced by jumps do what they did before, whatever
 * stands next to them, and even if a branch leads into the middle of a jump.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "shim/exposed/page/lock.h"
#include "shim/exposed/x86/relocate.h"
#include "shim/exposed/probe/probes.h"
#include "tests/unit/exposed/simulator.h"

#define ROUNDS 300
#define WORDS  512

/* An exposed region in the program's own data, for operands relative to RIP. */
char probes_data[4 * 4096] __attribute__((aligned(4096)));

static volatile uint64_t *user, *dma;
static bool several_threads;

/*
 * Each takes a pointer into the exposed region, and returns what it read there, or computed from it. The
 * instruction in question is the first one, mostly of two to four bytes.
 */
uint64_t site_then_return(volatile void *p);
uint64_t site_then_function(volatile void *p);
uint64_t site_then_branch(volatile void *p);
uint64_t site_then_call(volatile void *p);
uint64_t site_then_relative(volatile void *p);
uint64_t site_compares(volatile void *p, uint64_t with);
uint64_t site_keeps_flags(volatile void *p);
uint64_t site_in_a_loop(volatile void *p, uint64_t until);
uint64_t site_counts(volatile void *p, uint64_t until);
uint64_t site_exchanges(volatile void *p, uint64_t with);
uint64_t site_exchanges_wide(volatile void *p, uint64_t with);
uint64_t site_of_the_stack_pointer(volatile void *p);
uint64_t site_two_loads(volatile void *p);
uint64_t site_by_index(volatile void *p, uint64_t index);
uint64_t site_of_rip(void);
uint64_t site_entered_behind(volatile void *p, uint64_t way);
uint64_t site_sign_extends(volatile void *p);
void site_ends_function(volatile void *p, uint64_t v);
void site_fills(volatile void *p, uint64_t n, uint64_t with);
uint64_t site_below_stack_and_vectors(volatile void *p);
void site_of_vectors(volatile void *from, volatile void *to);
void site_of_wide_vectors(volatile void *from, volatile void *to);
uint64_t site_branched_into(volatile void *p, uint64_t until);
uint64_t site_branched_rarely(volatile void *p, uint64_t n);
uint64_t site_calls_by_register(volatile void *p, uint64_t target);
uint64_t site_calls_by_memory(volatile void *p, uint64_t v);
uint64_t site_stores_and_calls(volatile void *p, uint64_t v);
uint64_t site_jumps_by_memory(volatile void *p, uint64_t v);
uint64_t double_it(void), triple_it(void);
uint64_t site_before_a_target(volatile void *p, uint64_t way);
uint64_t site_before_a_far_target(volatile void *p, uint64_t way);
uint64_t site_before_a_load(volatile void *p, uint64_t way);
uint64_t site_before_padding(volatile void *p, uint64_t v);
uint64_t site_before_a_gap(volatile void *p);
uint64_t site_in_a_child(volatile void *p, uint64_t way);
uint64_t site_of_all(volatile void *p);
uint64_t site_in_odd_state(volatile void *p);
uint64_t site_of_rwx(volatile void *p);
uint64_t step_through(volatile void *p, uint64_t (*probe)(volatile void *));

/* Keeps them apart, so that no byte of one looks like a branch to another. */
#define APART ".p2align 8, 0x90\n"

/* No nop for a springboard is near. */
#define NO_SPRINGBOARD " .skip 128, 0xcc\n"

__asm__(".text\n"
	APART "site_then_return: mov (%rdi), %rax\n ret\n nop\n"
	APART "site_then_function: mov (%rdi), %rax\n ret\n endbr64\n" NO_SPRINGBOARD
	APART "site_then_branch: mov (%rdi), %eax\n test %eax, %eax\n je 1f\n inc %rax\n ret\n"
	"1: mov $-1, %rax\n ret\n"
	"double_it: lea (%rax, %rax), %rax\n ret\n"
	APART "site_then_call: sub $8, %rsp\n mov (%rdi), %rax\n call double_it\n inc %rax\n add $8, %rsp\n ret\n"
	APART "triple_it: lea (%rax, %rax, 2), %rax\n ret\n"
	APART "site_calls_by_register: sub $8, %rsp\n mov (%rdi), %rax\n call *%rsi\n inc %rax\n add $8, %rsp\n ret\n"
	APART "site_calls_by_memory: sub $8, %rsp\n mov %rsi, %rax\n call *8(%rdi)\n lea 1(%rax), %rax\n add $8, %rsp\n ret\n"
	APART "site_stores_and_calls: push %r12\n mov %rsi, %rax\n mov %rdi, %r12\n mov %rsi, (%r12)\n call *8(%r12)\n"
	"	mov (%r12), %rcx\n add %rcx, %rax\n pop %r12\n ret\n"
	APART "site_jumps_by_memory: mov %rsi, %rax\n jmp *(%rdi)\n nop\n nop\n nop\n"
	APART "site_then_relative: mov (%rdi), %eax\n add seventeen(%rip), %eax\n ret\n"
	"seventeen: .long 17\n"
	APART "site_compares: cmp (%rdi), %esi\n sete %al\n movzbl %al, %eax\n ret\n"
	APART "site_keeps_flags: stc\n mov (%rdi), %rax\n adc $0, %rax\n ret\n"
	APART "site_in_a_loop: xor %ecx, %ecx\n"
	"1: mov (%rdi), %eax\n inc %rcx\n cmp %rsi, %rcx\n jb 1b\n ret\n"
	APART "site_counts: xor %ecx, %ecx\n"
	"1: mov (%rdi), %eax\n inc %rcx\n cmp %rsi, %rcx\n jne 1b\n mov %rcx, %rax\n ret\n"
	/* What the first found, doubled, and the carry of the second; the rest leaves what the third made. */
	APART "site_exchanges: mov %rsi, %rax\n lock xadd %rax, (%rdi)\n add %rax, %rax\n"
	"	subq %rsi, 8(%rdi)\n adc $0, %rax\n andl $0xff00, 16(%rdi)\n mov %rsi, %rdx\n xchg %dh, 24(%rdi)\n ret\n"
	APART "site_exchanges_wide: push %rbx\n mov %rsi, %rbx\n lea 1(%rsi), %rcx\n xor %eax, %eax\n xor %edx, %edx\n"
	"1:	lock cmpxchg16b (%rdi)\n jnz 1b\n add %rdx, %rax\n pop %rbx\n ret\n"
	APART "site_of_the_stack_pointer: mov %rsp, %rax\n xadd %rsp, (%rdi)\n xchg %rsp, %rax\n ret\n"
	APART "site_two_loads: mov (%rdi), %eax\n mov 8(%rdi), %ecx\n shl $32, %rcx\n or %rcx, %rax\n ret\n"
	APART "site_by_index: mov 16(%rdi, %rsi, 8), %rax\n ret\n"
	APART "site_of_rip: mov probes_data + 8(%rip), %rax\n ret\n"
	APART "site_entered_behind: xor %eax, %eax\n test %rsi, %rsi\n lea 2f(%rip), %rdx\n jz 1f\n jmp *%rdx\n"
	"1: mov (%rdi), %eax\n"
	"2: inc %eax\n inc %eax\n ret\n"
	APART "site_sign_extends: movsbq (%rdi), %rax\n ret\n nop\n"
	APART "site_ends_function: push %rbp\n mov %rsi, %rax\n mov %al, (%rdi)\n nop\n pop %rbp\n ret\n" NO_SPRINGBOARD
	APART "site_fills: add %rdi, %rsi\n"
	"1: mov %dl, (%rdi)\n inc %rdi\n cmp %rsi, %rdi\n jne 1b\n ret\n"
	APART "site_of_vectors: movdqu (%rdi), %xmm3\n pand %xmm3, %xmm3\n movdqu %xmm3, (%rsi)\n movdqa %xmm3, %xmm4\n ret\n"
	APART "site_of_wide_vectors: vmovdqu (%rdi), %ymm9\n vpand %ymm9, %ymm9, %ymm9\n vmovdqu %ymm9, (%rsi)\n vzeroupper\n ret\n"
	APART "site_branched_into: mov (%rdi), %eax\n xor %ecx, %ecx\n"
	"1: inc %ecx\n cmp %rsi, %rcx\n jb 1b\n ret\n" NO_SPRINGBOARD
	APART "site_branched_rarely: mov (%rdi), %eax\n"
	"1: xor %ecx, %ecx\n dec %rsi\n jz 1b\n ret\n"
	APART "site_before_a_target: xor %eax, %eax\n test %rsi, %rsi\n jz 1f\n mov 8(%rdi), %rax\n"
	"1: add $1, %rax\n ret\n"
	APART "site_before_a_far_target: xor %eax, %eax\n test %rsi, %rsi\n jz 2f\n mov 8(%rdi), %rax\n"
	"1: add $1, %rax\n ret\n .skip 256, 0xcc\n"
	"2: jmp 1b\n"
	APART "site_before_a_load: xor %eax, %eax\n test %rsi, %rsi\n jz 1f\n mov 8(%rdi), %rax\n"
	"1: mov (%rdi), %rcx\n add %rcx, %rax\n ret\n"
	APART "site_before_padding: mov %rsi, %rax\n mov %sil, (%rdi)\n ret\n .nops 6\n"
	APART "site_before_a_gap: mov (%rdi), %rax\n nopl (%rax)\n lea 1(%rax), %rax\n ret\n" NO_SPRINGBOARD
	APART "site_in_a_child: xor %eax, %eax\n test %rsi, %rsi\n lea 2f(%rip), %rdx\n jz 1f\n jmp *%rdx\n"
	"1: mov (%rdi), %eax\n"
	"2: inc %eax\n inc %eax\n ret\n"
	APART "site_of_all: mov (%rdi), %rax\n lea 1(%rax), %rax\n ret\n"
	APART "site_in_odd_state:\n"
	"	sub $24, %rsp\n movl $0x7f80, (%rsp)\n ldmxcsr (%rsp)\n fld1\n std\n stc\n"
	"	mov (%rdi), %rax\n adc $0, %rax\n"
	"	pushfq\n pop %rcx\n cld\n stmxcsr 4(%rsp)\n movl $0x1f80, (%rsp)\n ldmxcsr (%rsp)\n fstpl 8(%rsp)\n"
	"	bt $10, %ecx\n jnc 1f\n cmpl $0x7f80, 4(%rsp)\n jne 1f\n"
	"	mov $0x3ff0000000000000, %rdx\n cmp %rdx, 8(%rsp)\n jne 1f\n add $24, %rsp\n ret\n"
	"1: add $24, %rsp\n mov $-1, %rax\n ret\n"
	".p2align 12\n"
	APART "site_of_rwx: mov (%rdi), %rax\n lea 2(%rax), %rax\n ret\n"
	".p2align 12\n"
	/* With a trap behind each instruction. */
	"step_through: pushfq\n orl $0x100, (%rsp)\n popfq\n call *%rsi\n"
	"	pushfq\n andl $0xfffffeff, (%rsp)\n popfq\n ret\n"
	APART "site_below_stack_and_vectors:\n"
	"	movq $0x1234, -8(%rsp)\n movq $0x5678, -120(%rsp)\n"
	"	mov $7, %eax\n movd %eax, %xmm0\n movd %eax, %xmm15\n"
	"	mov (%rdi), %rax\n add $0, %rax\n"
	"	movd %xmm0, %ecx\n cmp $7, %ecx\n jne 1f\n movd %xmm15, %ecx\n cmp $7, %ecx\n jne 1f\n"
	"	cmpq $0x1234, -8(%rsp)\n jne 1f\n cmpq $0x5678, -120(%rsp)\n jne 1f\n ret\n"
	"1: mov $-1, %rax\n ret\n");

/* ------------------------------------------------------------------ before */

static void ignore(const struct sr_exposed_event *e)
{
}

static bool threads(void)
{
	return several_threads;
}

static int set_up(void **state)
{
	static const struct sr_exposed_hooks h = {.event = ignore, .patches = true, .threads = threads};

	if (!map_for_nic(4 * 4096, &user, &dma))
		return -1;
	take_faults();
	return sr_exposed_init(&h) || sr_exposed_add((void *)user, 4 * 4096) != SR_EXPOSED_OK ||
	       sr_exposed_add(probes_data, sizeof(probes_data)) != SR_EXPOSED_OK;
}

static uint64_t served(void)
{
	struct sr_exposed_counts c;

	sr_exposed_get_counts(&c);
	return c.by_jump;
}

/* Most of so many rounds were served without a fault. */
#define assert_served(before, rounds) assert_true(served() - (before) > (rounds) / 2)

/* ------------------------------------------------------------------ one at a time */

static void test_each_does_what_it_did(void **state)
{
	static uint64_t (*const plain[])(volatile void *) = {
	    site_keeps_flags, site_then_call, site_below_stack_and_vectors, site_in_odd_state, site_then_return,
	    site_then_function};

	for (size_t k = 0; k < sizeof(plain) / sizeof(*plain); k++) {
		uint64_t before = served();

		for (uint64_t i = 1; i <= ROUNDS; i++) {
			uint64_t want[] = {i + 1, 2 * i + 1, i, i + 1, i, i};

			sr_exposed_observe();
			dma[k] = i;
			assert_int_equal(plain[k](&user[k]), want[k]);
		}
		/* Four bytes, and another function behind them: there is no place for a jump. */
		if (plain[k] == site_then_function)
			assert_int_equal(served(), before);
		else
			assert_served(before, ROUNDS);
	}
}

static void test_branches_and_comparisons(void **state)
{
	uint64_t before = served();

	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_exposed_observe();
		dma[10] = i % 3;
		assert_int_equal(site_then_branch(&user[10]), i % 3 ? i % 3 + 1 : UINT64_MAX);
		sr_exposed_observe();
		assert_int_equal(site_compares(&user[10], 2), i % 3 == 2);
		sr_exposed_observe();
		dma[11] = i % 2 ? 0x80 : 0x7f;
		assert_int_equal(site_sign_extends(&user[11]), i % 2 ? -128 : 127);
	}
	assert_served(before, 3 * ROUNDS);
}

/* As compilers without optimisation end a function. */
static void test_end_of_a_function(void **state)
{
	uint64_t before = served();

	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_exposed_observe();
		dma[12] = 0;
		site_ends_function(&user[12], i);
		assert_int_equal(dma[12], i & 0xff);
	}
	assert_served(before, ROUNDS);
}

static void test_operands(void **state)
{
	uint64_t before = served();

	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_exposed_observe();
		dma[20] = i;
		assert_int_equal(site_then_relative(&user[20]), i + 17);
		sr_exposed_observe();
		dma[25] = i * 3;
		assert_int_equal(site_by_index(&user[20], 3), i * 3);
		sr_exposed_observe();
		*(volatile uint64_t *)sr_exposed_backing(probes_data + 8) = i * 5;
		assert_int_equal(site_of_rip(), i * 5);
	}
	assert_served(before, 3 * ROUNDS);
}

/* Instructions that read and write: by jump, too, with the registers and flags that the program finds. */
static void test_exchanges(void **state)
{
	uint64_t before = served();

	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_exposed_observe();
		dma[120] = i;
		dma[121] = i % 2 ? 2 : 3;
		dma[122] = 0xaabbccddee;
		dma[123] = 0x99;
		assert_int_equal(site_exchanges(&user[120], 3), 2 * i + i % 2);
		assert_int_equal(dma[120], i + 3);
		assert_int_equal(dma[121], i % 2 ? UINT64_MAX : 0);
		assert_int_equal(dma[122], 0xaa0000dd00);
		assert_int_equal(dma[123], 0);
		sr_exposed_observe();
		dma[124] = i;
		dma[125] = 2 * i;
		assert_int_equal(site_exchanges_wide(&user[124], 5), 3 * i);
		assert_int_equal(dma[124], 5);
		assert_int_equal(dma[125], 6);
	}
	assert_served(before, 5 * ROUNDS);
}

/* It cannot be executed in the handler, whose stack pointer is another. */
static void test_exchanges_of_the_stack_pointer(void **state)
{
	for (uint64_t i = 0; i < 20; i++) {
		uint64_t sum;

		sr_exposed_observe();
		dma[126] = 0;
		sum = site_of_the_stack_pointer(&user[126]);
		assert_int_equal(sum, 0);
		assert_true(dma[126] - (uintptr_t)&sum < 4096 || (uintptr_t)&sum - dma[126] < 4096);
	}
}

/* The second one lies under the first one's jump: it gets one of its own, in its copy. */
static void test_two_loads_next_to_each_other(void **state)
{
	uint64_t before = served();

	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_exposed_observe();
		dma[30] = i;
		dma[31] = i + 1;
		assert_int_equal(site_two_loads(&user[30]), i | (i + 1) << 32);
	}
	assert_true(served() - before >= 2 * (ROUNDS - 18));
}

/* Two loads and a store under one jump: what is in the first word and the second, added; the third becomes the first. */
#define ROW(name) \
	uint64_t name(volatile void *p); \
	__asm__(".text\n" APART #name ": lea 8(%rdi), %rcx\n lea 16(%rdi), %rdx\n" \
		" mov (%rdi), %eax\n mov (%rcx), %ecx\n mov %eax, (%rdx)\n lea (%rax, %rcx), %rax\n ret\n")
ROW(row_of_one);
ROW(row_of_threads);
ROW(row_of_others);

static void test_three_under_one_jump(void **state)
{
	uint64_t before = served(), own[3] = {1, 2, 0};
	struct sr_exposed_counts c, d;

	sr_exposed_get_counts(&c);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_exposed_observe();
		dma[32] = i;
		dma[33] = 2 * i;
		assert_int_equal(row_of_one(&user[32]), 3 * i);
		assert_int_equal(dma[34], i);
		assert_int_equal(row_of_one(own), 3);
		assert_int_equal(own[2], 1);
	}
	sr_exposed_get_counts(&d);
	assert_int_equal(d.jumps - c.jumps, 3);
	assert_true(served() - before >= 3 * (ROUNDS - 20));
	/* They serve others now, and are taken back, one after the other. */
	before = served();
	for (uint64_t i = 0; i < 200000; i++)
		assert_int_equal(row_of_others(own), 3);
	for (uint64_t i = 0; i < 50; i++) {
		sr_exposed_observe();
		dma[32] = i;
		assert_int_equal(row_of_others(&user[32]), i + dma[33]);
	}
	assert_true(served() > before);
	before = served();
	for (uint64_t i = 0; i < 200000; i++)
		assert_int_equal(row_of_others(own), 3);
	sr_exposed_observe();
	dma[32] = 4;
	assert_int_equal(row_of_others(&user[32]), 4 + dma[33]);
	assert_int_equal(served(), before);
}

#define JUMP 0xe9

/* Its load has become a jump after so many rounds? */
static bool is_jump(uintptr_t from, size_t within)
{
	for (size_t i = 0; i < within; i++)
		if (((const uint8_t *)from)[i] == JUMP)
			return true;
	return false;
}

/* Code that comes there again and again does not pay for a fault each time. */
static void test_who_comes_to_the_midst(void **state)
{
	uint64_t before = served();
	bool was_jump = false;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_exposed_observe();
		dma[40] = i;
		assert_int_equal(site_entered_behind(&user[40], 0), i + 2);
		assert_int_equal(site_entered_behind(&user[40], 1), 2);
		was_jump |= is_jump((uintptr_t)site_entered_behind, 20);
	}
	assert_true(was_jump && served() > before + 30);
	assert_false(is_jump((uintptr_t)site_entered_behind, 20));
}

/* From each place where a branch could begin, finds where it leads, as the processor does. */
static bool is_reached(const uint8_t *text, size_t n, size_t place)
{
	for (size_t i = 0; i < n; i++) {
		int32_t distance;

		if ((text[i] >> 4 == 7 || text[i] == 0xeb || (text[i] >= 0xe0 && text[i] <= 0xe3)) && i + 2 <= n &&
		    i + 2 + (size_t)(int8_t)text[i + 1] == place)
			return true;
		for (size_t opcode = 1; opcode <= 2 && i + opcode + 4 <= n; opcode++) {
			memcpy(&distance, text + i + opcode, 4);
			if ((opcode == 1 ? text[i] == 0xe8 || text[i] == 0xe9 : text[i] == 0x0f && text[i + 1] >> 4 == 8) &&
			    i + opcode + 4 + (size_t)distance == place)
				return true;
		}
	}
	return false;
}

/* Mostly opcodes of branches, and small distances. */
static uint8_t byte_of_branches(unsigned int *seed)
{
	static const uint8_t often[] = {0xe8, 0xe9, 0xeb, 0x0f, 0x84, 0x75, 0xe2, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff};
	unsigned int r = (unsigned int)rand_r(seed);

	return r % 3 ? often[r / 3 % sizeof(often)] : (uint8_t)(r >> 8);
}

static void test_branches_to_the_midst_are_found(void **state)
{
	static const struct group g = {.n = 2, .length = 7, .at = {0, 3, 7}};
	unsigned int seed = 1, found = 0;
	uint8_t text[300];

	for (unsigned int i = 0; i < 20000; i++) {
		size_t n = 8 + (size_t)rand_r(&seed) % (sizeof(text) - 8), at = (size_t)rand_r(&seed) % (n - 7);
		bool reached;

		for (size_t k = 0; k < n; k++)
			text[k] = byte_of_branches(&seed);
		reached = is_reached(text, n, at + 3);
		assert_int_equal(is_branched_into(text, n, at, &g), reached);
		found += reached;
	}
	assert_in_range(found, 1000, 19000);
}

/* A branch into the midst of a jump traps; if that is rare, the jump is worth it. */
static void test_a_branch_that_is_rarely_taken(void **state)
{
	for (uint64_t i = 1; i <= 10 * ROUNDS; i++) {
		sr_exposed_observe();
		dma[41] = i;
		assert_int_equal(site_branched_rarely(&user[41], i % 10 ? 2 : 1), i);
	}
	assert_true(is_jump((uintptr_t)site_branched_rarely, 1));
}

/* A register says where, or a pointer that a peer changes: no page is opened for that. */
static void test_calls_by_register_and_memory(void **state)
{
	uint64_t before = served(), snapshots = counts.snapshots;

	for (uint64_t i = 1; i <= ROUNDS; i++) {
		uint64_t (*target)(void) = i % 3 ? double_it : triple_it;
		uint64_t times = i % 3 ? 2 : 3;

		sr_exposed_observe();
		dma[50] = i;
		dma[51] = (uint64_t)target;
		assert_int_equal(site_calls_by_register(&user[50], (uint64_t)target), times * i + 1);
		assert_int_equal(site_calls_by_memory(&user[50], i), times * i + 1);
		sr_exposed_observe();
		assert_int_equal(site_stores_and_calls(&user[50], i), times * i + i);
		assert_int_equal(site_jumps_by_memory(&user[51], i), times * i);
	}
	assert_true(served() - before > 6 * ROUNDS - 7 * 16);
	assert_int_equal(counts.snapshots, snapshots);
}

/*
 * Branches lead to the next instruction, which the jump of five bytes covers by one: it stays as it is.  Afterwards
 * neither way faults.
 */
static void test_a_target_of_branches_behind_it(void **state)
{
	static uint64_t (*const sites[])(volatile void *, uint64_t) = {site_before_a_target, site_before_a_far_target};

	for (size_t k = 0; k < 2; k++) {
		uint64_t before = 0;

		for (uint64_t i = 1; i <= 2 * ROUNDS; i++) {
			if (i == ROUNDS + 1)
				before = served();
			sr_exposed_observe();
			dma[45] = i;
			assert_int_equal(sites[k](&user[44], i % 2), i % 2 ? i + 1 : 1);
		}
		assert_int_equal(served() - before, ROUNDS / 2);
		assert_true(is_jump((uintptr_t)sites[k], 12));
	}
}

/* The next instruction meets protected pages as well: only one of the two can have a jump, and both are right. */
static void test_a_load_at_a_target_of_branches(void **state)
{
	for (uint64_t i = 1; i <= 2 * ROUNDS; i++) {
		sr_exposed_observe();
		dma[44] = i;
		dma[45] = 3 * i;
		assert_int_equal(site_before_a_load(&user[44], i % 2), i % 2 ? 4 * i : i);
	}
}

/* Two bytes of instruction and return: the jump covers nops behind them. */
static void test_padding_is_covered(void **state)
{
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		sr_exposed_observe();
		assert_int_equal(site_before_padding(&user[43], i & 127), i & 127);
		assert_int_equal(dma[43] & 255, i & 127);
	}
	assert_true(is_jump((uintptr_t)site_before_padding, 4));
}

static void test_where_no_jump_is_written(void **state)
{
	uint8_t before[2][16];

	memcpy(before[0], (void *)site_branched_into, 16);
	memcpy(before[1], (void *)site_before_a_gap, 16);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		sr_exposed_observe();
		dma[41] = i;
		assert_int_equal(site_branched_into(&user[41], i), i);
		sr_exposed_observe();
		assert_int_equal(site_before_a_gap(&user[41]), i + 1);
	}
	assert_memory_equal((void *)site_branched_into, before[0], 16);
	assert_memory_equal((void *)site_before_a_gap, before[1], 16);
}

/* Code that the program can write stays unchanged. */
static void test_code_that_may_be_written(void **state)
{
	volatile uint8_t *code = (volatile uint8_t *)site_of_rwx;

	assert_int_equal(mprotect((void *)code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_exposed_observe();
		dma[42] = i;
		assert_int_equal(site_of_rwx(&user[42]), i + 2);
	}
	assert_false(is_jump((uintptr_t)code, 1));
	code[0] = code[0];
	assert_int_equal(mprotect((void *)code, 4096, PROT_READ | PROT_EXEC), 0);
}

static void touch_often(uint64_t (*f)(volatile void *), volatile uint64_t *at, volatile uint64_t *from_nic)
{
	for (uint64_t i = 0; i < 50; i++) {
		sr_exposed_observe();
		*from_nic = i;
		assert_int_equal(f(at), i + 1);
	}
}

static void *read_own(void *own)
{
	probes_make_stack();
	exposed_self.probe.stack = exposed_self.probe.top;
	for (int i = 0; i < 10; i++)
		assert_int_equal(site_of_all(own), 6);
	sr_exposed_thread_ends();
	return NULL;
}

/*
 * The shim's own code gets there from libc's, with the lock held, and must not remove the
 * jump then.
 */
static void test_bails_with_the_lock(void **state)
{
	uint64_t own = 5, mask;
	pthread_t t;

	touch_often(site_of_all, &user[43], &dma[43]);
	assert_true(is_jump((uintptr_t)site_of_all, 1));
	exposed_lock(&mask);
	for (uint64_t i = 0; i < 300000; i++)
		assert_int_equal(site_of_all(&own), 6);
	/* Another thread may hold the lock and wait for what this one holds. */
	pthread_create(&t, NULL, read_own, &own);
	pthread_join(t, NULL);
	exposed_unlock(&mask);
	assert_true(is_jump((uintptr_t)site_of_all, 1));
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(site_of_all(&own), 6);
	assert_false(is_jump((uintptr_t)site_of_all, 1));
}

/* What was in the way of other accesses is worth a jump again, once it faults; each time later than before. */
static void test_jumps_again(void **state)
{
	uint64_t own = 5;

	touch_often(site_of_all, &user[43], &dma[43]);
	for (int times = 0; times < 3; times++) {
		touch_often(site_of_all, &user[43], &dma[43]);
		touch_often(site_of_all, &user[43], &dma[43]);
		touch_often(site_of_all, &user[43], &dma[43]);
		assert_true(is_jump((uintptr_t)site_of_all, 1));
		for (uint64_t i = 0; i < 300000; i++)
			assert_int_equal(site_of_all(&own), 6);
		assert_false(is_jump((uintptr_t)site_of_all, 1));
	}
	for (uint64_t i = 0; i < 60; i++) {
		sr_exposed_observe();
		dma[43] = i;
		assert_int_equal(site_of_all(&user[43]), i + 1);
	}
	assert_false(is_jump((uintptr_t)site_of_all, 1));
}

/* ------------------------------------------------------------ other code at its place */

static void *map_code(const uint8_t *code, size_t n, void *at)
{
	char name[] = "/tmp/sitesXXXXXX", page[4096] = {0};
	int fd = mkstemp(name);
	void *p;

	memcpy(page, code, n);
	assert_int_equal(write(fd, page, sizeof(page)), sizeof(page));
	p = mmap(at, sizeof(page), PROT_READ | PROT_EXEC, MAP_PRIVATE | (at ? MAP_FIXED : 0), fd, 0);
	close(fd);
	if (at)
		unlink(name);
	return p;
}

static sigjmp_buf back;

static void jump_back(int sig, siginfo_t *info, void *uc)
{
	if (!sr_exposed_fault(info, uc))
		siglongjmp(back, 1);
}

static bool is_handed_on(uint64_t (*f)(volatile void *))
{
	struct sigaction sa = {.sa_sigaction = jump_back, .sa_flags = SA_SIGINFO | SA_NODEFER}, old;
	volatile bool jumped = sigsetjmp(back, 1);

	if (!jumped) {
		sigaction(SIGSEGV, &sa, &old);
		f((volatile void *)0x8000000000000000);
	}
	take_faults();
	return jumped;
}

/* Replaces code like dlclose and dlopen. */
static void test_other_code_at_its_place(void **state)
{
	static const uint8_t one[] = {0x48, 0x8b, 0x07, 0x48, 0x8d, 0x40, 0x01, 0xc3}, /* mov (%rdi), %rax; lea 1(%rax), %rax; ret */
	    other[] = {0x90, 0x90, 0x90, 0x48, 0x8b, 0x07, 0x48, 0xff, 0xc0, 0xc3}; /* nops; mov (%rdi), %rax; inc %rax; ret */
	uint64_t (*f)(volatile void *) = map_code(one, sizeof(one), NULL);

	touch_often(f, &user[44], &dma[44]);
	assert_true(is_jump((uintptr_t)f, 1));
	map_code(other, sizeof(other), (void *)f);
	touch_often(f, &user[44], &dma[44]);
	/* A general protection fault where a jump's third byte was. */
	assert_true(is_handed_on(f));
	map_code(one, sizeof(one), (void *)f);
	touch_often(f, &user[44], &dma[44]);
	assert_true(is_handed_on(f));
	munmap((void *)f, 4096);
	sr_exposed_observe();
}

static void test_loops(void **state)
{
	uint64_t before = served();

	dma[50] = 77;
	for (int i = 0; i < 20; i++) {
		sr_exposed_observe();
		assert_int_equal(site_in_a_loop(&user[50], 100), 77);
	}
	assert_served(before, 2000);
}

static void test_stores(void **state)
{
	uint64_t before = served();

	for (uint64_t i = 0; i < 2 * ROUNDS; i++) {
		sr_exposed_observe();
		site_fills(&user[60], 12, i);
		for (int k = 0; k < 12; k++)
			assert_int_equal(((volatile uint8_t *)&dma[60])[k], i & 255);
	}
	assert_served(before, 2 * ROUNDS);
}

static void test_vectors(void **state)
{
	uint64_t before = served();

	for (uint64_t i = 0; i < ROUNDS; i++) {
		for (int k = 0; k < 4; k++)
			dma[300 + k] = i * 7 + (uint64_t)k;
		sr_exposed_observe();
		site_of_vectors(&user[300], &user[320]);
		assert_memory_equal((void *)&dma[320], (void *)&dma[300], 16);
		if (!__builtin_cpu_supports("avx2"))
			continue;
		sr_exposed_observe();
		site_of_wide_vectors(&user[300], &user[320]);
		assert_memory_equal((void *)&dma[320], (void *)&dma[300], 32);
	}
	assert_served(before, 2 * ROUNDS);
}

/* Memory outside exposed regions, and a pass-through page. */
/* A short message: its loads by a jump cost less than a snapshot of its page. */
static void test_short_messages(void **state)
{
	uint64_t snapshots, sum = 0, right = 0;

	for (uint64_t i = 0; i < 50; i++) {
		sr_exposed_observe();
		dma[2] = i;
		assert_int_equal(site_by_index(user, 0), i);
	}
	snapshots = counts.snapshots;
	for (uint64_t i = 0; i < ROUNDS; i++) {
		for (uint64_t n = 0; n < 20; n++)
			right += dma[2 + n] = i * n;
		sr_exposed_observe();
		for (uint64_t n = 0; n < 20; n++)
			sum += site_by_index(user, n);
	}
	assert_int_equal(sum, right);
	assert_int_equal(counts.snapshots, snapshots);
}

static void test_other_memory(void **state)
{
	uint64_t own = 5;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		own = i;
		assert_int_equal(site_then_return(&own), i);
	}
	sr_exposed_observe();
	dma[1] = 9;
	for (uint64_t i = 0; i < WORDS; i++)
		(void)user[i];
	assert_int_equal(site_then_return(&user[1]), 9);
}

/* ------------------------------------------------------------------ signals */

static _Atomic uint64_t interrupted, interrupted_wrong;

/* Acts as a handler of the shim that calls libc, whose code has probes. */
static void interrupt(int sig, siginfo_t *info, void *uc)
{
	struct probes_guard guard;
	uint64_t own = 41;

	probes_guard_begin(&guard);
	interrupted_wrong += site_counts(&own, 3) != 3 || site_keeps_flags(&own) != 42;
	interrupted += probes_is_section(uc);
	probes_guard_end(&guard);
}

static void test_a_handler_amidst_a_stub(void **state)
{
	struct sigaction sa = {.sa_sigaction = interrupt, .sa_flags = SA_SIGINFO | SA_RESTART};
	struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
	uint64_t own = 1, rounds = 0;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_exposed_observe();
		site_counts(&user[90], 20);
	}
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (interrupted < 2000 && rounds++ < 2000000)
		assert_int_equal(site_counts(&own, 100), 100);
	setitimer(ITIMER_REAL, &never, NULL);
	assert_int_equal(interrupted_wrong, 0);
	assert_true(interrupted > 100);
}

/* Runs between any two instructions of a stub, of what the stub calls, and of the copies. */
static _Atomic uint64_t steps;

static void step(int sig, siginfo_t *info, void *uc)
{
	interrupt(sig, info, uc);
	steps++;
}

static void take_steps(void (*each)(int, siginfo_t *, void *))
{
	static char stack[256 << 10];
	const stack_t own_stack = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct sigaction sa = {.sa_sigaction = each, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	sigaltstack(&own_stack, NULL);
	sigaction(SIGTRAP, &sa, NULL);
}

static void take_no_steps(void)
{
	const stack_t none = {.ss_flags = SS_DISABLE};
	struct sigaction sa = {.sa_handler = SIG_DFL};

	sigaction(SIGTRAP, &sa, NULL);
	sigaltstack(&none, NULL);
}

static void test_a_handler_at_each_step(void **state)
{
	uint64_t own = 6, row[3] = {8, 2, 0}, before = served();

	for (uint64_t i = 0; i < 50; i++) {
		sr_exposed_observe();
		assert_int_equal(site_then_call(&user[45]), 2 * dma[45] + 1);
	}
	take_steps(step);
	for (uint64_t i = 0; i < 10; i++) {
		assert_int_equal(step_through(&own, site_then_call), 13);
		assert_int_equal(step_through(&own, site_in_odd_state), 7);
		assert_int_equal(step_through(row, row_of_one), 10);
		sr_exposed_observe();
		dma[45] = i;
		assert_int_equal(step_through(&user[45], site_then_call), 2 * i + 1);
		sr_exposed_observe();
		assert_int_equal(step_through(&user[45], site_in_odd_state), i + 1);
		dma[34] = 0;
		assert_int_equal(step_through(&user[32], row_of_one), dma[32] + dma[33]);
		assert_int_equal(dma[34], dma[32]);
	}
	take_no_steps();
	assert_true(steps > 5000);
	assert_int_equal(interrupted_wrong, 0);
	assert_true(served() > before + 20);
	assert_false(exposed_self.probe.inside);
}

uint64_t site_of_a_float(volatile void *p);
uint64_t site_stores_a_float(volatile void *p);
__asm__(".text\n" APART "site_of_a_float: movd (%rdi), %xmm0\n movd %xmm0, %eax\n ret\n"
	APART "site_stores_a_float: movd a_float(%rip), %xmm0\n movd %xmm0, (%rdi)\n ret\n");

uint32_t a_float;
static uint64_t floats_torn;

static bool is_torn(uint32_t v)
{
	return v && ~v;
}

/*
 * Acts as the NIC between any two instructions: stores all bits or none, and reads what was
 * stored.
 */
static void at_each_step(int sig, siginfo_t *info, void *uc)
{
	volatile uint32_t *words = (volatile uint32_t *)&dma[400];

	words[0] = ~words[0];
	floats_torn += is_torn(words[1]);
}

/* A value of four bytes is read and written as a whole, as the processor would. */
static void test_no_float_is_torn(void **state)
{
	volatile uint32_t *words = (volatile uint32_t *)&user[400];
	uint64_t before = served();

	dma[400] = 0;
	take_steps(at_each_step);
	for (uint64_t i = 0; i < 60; i++) {
		a_float = ~a_float;
		sr_exposed_observe();
		/* The first accesses fault, and the fault handler is not stepped. */
		floats_torn += is_torn((uint32_t)step_through(&words[0], site_of_a_float));
		step_through(&words[1], site_stores_a_float);
		assert_int_equal(((volatile uint32_t *)&dma[400])[1], a_float);
	}
	take_no_steps();
	assert_served(before, 120);
	assert_int_equal(floats_torn, 0);
}

/* A handler of the program's that interrupts a system call within the shim's, and jumps away. */
static void test_guards_of_a_handler_that_jumps(void **state)
{
	struct probes_guard outer, inner, after;
	uint32_t n;

	probes_guard_begin(&outer);
	probes_guard_begin(&inner);
	n = probes_handler_begins();
	probes_guard_end(&inner);
	assert_true(exposed_self.probe.stack && exposed_self.probe.stack == exposed_self.probe.top);
	/* Or it comes back. */
	probes_guard_begin(&after);
	probes_handler_ends(n);
	probes_guard_end(&after);
	assert_int_equal(exposed_self.probe.stack, 0);
	probes_guard_end(&outer);
	assert_true(exposed_self.probe.stack == exposed_self.probe.top);
}

/* ----------------------------------------------------------------------- by a springboard */

/*
 * As in libc's memcpy(): branches lead to what is behind a store of two bytes, and the bytes there are no distance at
 * which a stub may lie.  A nop follows that nobody needs, though a thread may come to it.
 */
#define SPRUNG(name) \
	uint64_t name(volatile void *p, uint64_t v); \
	extern uint8_t name##_store[2], name##_nop[9]; \
	uint64_t name##_nop_called(void); \
	__asm__(".text\n" APART #name ": mov %rsi, %rax\n mov %esi, %ecx\n test %rsi, %rsi\n jz 1f\n" \
		#name "_store: mov %cl, (%rdi)\n" \
		"1: ret\n mov (%rax), %edx\n inc %rax\n ret\n" \
		#name "_nop_called: mov $7, %eax\n" \
		#name "_nop: .byte 0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n inc %eax\n ret\n")
SPRUNG(sprung);
SPRUNG(sprung_of_threads);
SPRUNG(sprung_for_others);

#define SHORT_JUMP 0xeb

static void test_a_jump_of_two_bytes(void **state)
{
	uint64_t before = served();

	assert_int_equal(sprung_nop_called(), 8);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		sr_exposed_observe();
		assert_int_equal(sprung(&user[110], i % 100), i % 100);
		assert_true(i % 100 == 0 || (dma[110] & 255) == i % 100);
		assert_int_equal(sprung_nop_called(), 8);
	}
	assert_int_equal(sprung_store[0], SHORT_JUMP);
	assert_int_equal(sprung_nop[0], SHORT_JUMP);
	/* All but those that came first. */
	assert_true(served() - before >= ROUNDS - ROUNDS / 100 - 20);
}

static _Atomic uint64_t at_springboard, at_springboard_wrong;

/* For the program, a thread that is between the two jumps is at the instruction. */
static void look_at_springboard(int sig, siginfo_t *info, void *context)
{
	ucontext_t uc = *(ucontext_t *)context;
	uintptr_t at = (uintptr_t)uc.uc_mcontext.gregs[REG_RIP];

	if (at > (uintptr_t)sprung_nop && at < (uintptr_t)sprung_nop + sizeof(sprung_nop)) {
		probes_enter(&uc);
		at_springboard++;
		at_springboard_wrong += (uintptr_t)uc.uc_mcontext.gregs[REG_RIP] != (uintptr_t)sprung_store || probes_is_section(context);
	}
	interrupt(sig, info, context);
}

static uint64_t sprung_with_5(volatile void *p)
{
	return sprung(p, 5);
}

static void test_a_handler_at_each_step_of_a_springboard(void **state)
{
	uint64_t own = 0, before = served();

	take_steps(look_at_springboard);
	for (uint64_t i = 0; i < 10; i++) {
		sr_exposed_observe();
		dma[110] = 0;
		assert_int_equal(step_through(&user[110], sprung_with_5), 5);
		assert_int_equal(dma[110], 5);
		assert_int_equal(step_through(&own, sprung_with_5), 5);
		assert_int_equal(own, 5);
	}
	take_no_steps();
	assert_true(at_springboard >= 20);
	assert_int_equal(at_springboard_wrong, 0);
	assert_true(served() >= before + 10);
}

static void test_a_springboard_is_given_up_and_used_again(void **state)
{
	uint64_t own = 0, before;

	for (int times = 0; times < 2; times++) {
		for (uint64_t i = 1; i <= 100; i++) {
			sr_exposed_observe();
			assert_int_equal(sprung_for_others(&user[111], i), i);
			assert_int_equal(dma[111] & 255, i);
		}
		assert_int_equal(sprung_for_others_store[0], SHORT_JUMP);
		for (uint64_t i = 0; i < 300000; i++)
			assert_int_equal(sprung_for_others(&own, 9), 9);
		assert_int_equal(sprung_for_others_store[0], 0x88);
		assert_int_equal(sprung_for_others_nop_called(), 8);
	}
	before = served();
	for (uint64_t i = 1; i <= 10; i++) {
		sr_exposed_observe();
		assert_int_equal(sprung_for_others(&user[111], i), i);
		assert_int_equal(dma[111] & 255, i);
	}
	assert_int_equal(served(), before);
}

/* ------------------------------------------------------------------ several threads */

uint64_t site_of_threads(volatile void *p, uint64_t v);
__asm__(".text\n" APART "site_of_threads: mov %rsi, (%rdi)\n lea 1(%rsi), %rax\n ret\n");

static _Atomic uint64_t wrong;

static void *store(void *arg)
{
	uintptr_t word = 70 + 8 * (uintptr_t)arg;

	for (uint64_t i = 0; i < 5000; i++) {
		sr_exposed_observe();
		wrong += site_of_threads(&user[word], i) != i + 1 || dma[word] != i;
		wrong += row_of_threads(&user[word]) != i || dma[word + 2] != i;
		wrong += sprung_of_threads(&user[word], i & 127) != (i & 127) || (i & 127 && (dma[word] & 255) != (i & 127));
		wrong += sprung_of_threads_nop_called() != 8;
	}
	sr_exposed_thread_ends();
	return NULL;
}

/* Each loads, compares or stores an unregistered word on a partially registered page. */
#define BESIDE(name, code) \
	uint64_t name(volatile void *p, uint64_t v); \
	__asm__(".text\n.p2align 4\n" #name ": xor %eax, %eax\n xor %ecx, %ecx\n" code "\n lea 8(%r8), %r9\n lea 8(%r8), %r9\n" \
		" mov %rcx, %rdx\n setc %cl\n rol $8, %rcx\n sets %cl\n rol $8, %rcx\n setz %cl\n rol $8, %rcx\n seto %cl\n" \
		" rol $8, %rcx\n xor %rdx, %rax\n rol $7, %rax\n xor %rcx, %rax\n ret\n")
BESIDE(beside_load, "mov 8(%rdi), %rax");
BESIDE(beside_half, "mov 8(%rdi), %eax");
BESIDE(beside_byte, "mov 8(%rdi), %cl");
BESIDE(beside_high, "mov 8(%rdi), %ch");
BESIDE(beside_zero, "movzbl 9(%rdi), %eax");
BESIDE(beside_sign, "movswq 8(%rdi), %rax");
BESIDE(beside_compare, "cmp %rsi, 8(%rdi)");
BESIDE(beside_compared, "cmp 8(%rdi), %rsi");
BESIDE(beside_immediate, "cmpl $-5, 8(%rdi)");
BESIDE(beside_test, "testb $0x42, 8(%rdi)");
BESIDE(beside_store, "mov %rsi, 8(%rdi)");
BESIDE(beside_store_high, "mov %rsi, %rcx\n mov %ch, 8(%rdi)");
BESIDE(beside_store_immediate, "movw $-7, 8(%rdi)");
BESIDE(beside_store_sp, "mov %rsp, 8(%rdi)\n mov $0, %eax");

static void test_beside_a_region(void **state)
{
	static uint64_t (*const each[])(volatile void *, uint64_t) = {
	    beside_load, beside_half, beside_byte, beside_high, beside_zero, beside_sign, beside_compare,
	    beside_compared, beside_immediate, beside_test, beside_store, beside_store_high,
	    beside_store_immediate, beside_store_sp};
	uint64_t plain[4], v = 0x9e3779b97f4a7c15;
	struct sr_exposed_counts before, after;
	volatile uint64_t *part, *beside;

	part = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	beside = part + 100;
	assert_int_equal(sr_exposed_add((void *)part, 64), SR_EXPOSED_OK);
	several_threads = true;
	sr_exposed_get_counts(&before);
	for (int round = 0; round < 200; round++)
		for (size_t k = 0; k < sizeof(each) / sizeof(*each); k++, v = v * 6364136223846793005 + 1442695040888963407) {
			uint64_t *backing = (uint64_t *)sr_exposed_backing((void *)beside);

			for (int i = 0; i < 4; i++)
				plain[i] = backing[i] = v * (uint64_t)(i + 1);
			if (round % 3 == 0)
				plain[1] = backing[1] = v;
			assert_int_equal(each[k](beside, v), each[k](plain, v));
			assert_memory_equal(backing, plain, sizeof(plain));
		}
	sr_exposed_get_counts(&after);
	several_threads = false;
	assert_int_equal(after.jumps - before.jumps, sizeof(each) / sizeof(*each));
	assert_int_equal(after.faults, before.faults);
	assert_int_equal(after.values, before.values);
	sr_exposed_remove((void *)part, 64);
}

static void test_threads(void **state)
{
	pthread_t t[4];
	uint64_t before = served();

	several_threads = true;
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, store, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	several_threads = false;
	assert_int_equal(wrong, 0);
	/* Of each one's five accesses. */
	assert_served(before, 100000);
	assert_int_equal(sprung_of_threads_store[0], SHORT_JUMP);
}

/* Code that differs from its file is left alone. */
static void test_code_that_is_not_the_files(void **state)
{
	static const uint8_t code[] = {0x48, 0x8b, 0x07, 0xc3, 0x90, 0x90, 0x90, 0x90};
	uint64_t (*f)(volatile void *) =
	    mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy((void *)f, code, sizeof(code));
	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_exposed_observe();
		dma[80] = i;
		assert_int_equal(f(&user[80]), i);
	}
	assert_memory_equal((void *)f, code, sizeof(code));
}

static void test_a_child(void **state)
{
	int status;
	pid_t pid;

	for (uint64_t i = 0; i < 50; i++) {
		sr_exposed_observe();
		dma[46] = i;
		assert_int_equal(site_in_a_child(&user[46], 0), i + 2);
	}
	assert_true(is_jump((uintptr_t)site_in_a_child, 20));
	sr_exposed_before_fork();
	pid = fork();
	sr_exposed_after_fork(!pid);
	if (!pid) {
		uint64_t own = 3, row[3] = {4, 5, 0};

		/* The child has no handler for jumps into the middle of a probe. */
		probes_stop_in_child();
		take_no_faults();
		_exit(site_then_return(&own) == 3 && site_then_return(&user[0]) == dma[0] && site_in_a_child(&own, 0) == 5 &&
			      site_in_a_child(&own, 1) == 2 && site_keeps_flags(&own) == 4 && row_of_one(row) == 9 && row[2] == 4 &&
			      sprung(&own, 6) == 6 && own == 6 && sprung_nop_called() == 8 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(is_jump((uintptr_t)site_in_a_child, 20));
}

/* As many instructions as an MPI program has with its libraries. */
#define MANY	   1200
#define MANY_BYTES 64
extern char many_loads[MANY][MANY_BYTES];
__asm__(".text\n" APART "many_loads: .rept 1200\n .p2align 6, 0x90\n mov 0x180(%rdi), %rax\n inc %rax\n ret\n .endr\n"
	".p2align 6, 0x90\n");

static void test_many_instructions(void **state)
{
	struct sr_exposed_counts c, d;

	sr_exposed_get_counts(&c);
	for (uint64_t i = 1; i <= 40; i++)
		for (int k = 0; k < MANY; k++) {
			sr_exposed_observe();
			dma[48] = i + (uint64_t)k;
			assert_int_equal(((uint64_t(*)(volatile void *))many_loads[k])(user), i + (uint64_t)k + 1);
		}
	sr_exposed_get_counts(&d);
	assert_int_equal(d.jumps - c.jumps, MANY);
}

static _Atomic bool over;

static void *go_on(void *arg)
{
	uint64_t own = 0, row[3] = {6, 7, 0};

	while (!over) {
		wrong += row_of_one(row) != 13 || row_of_threads(row) != 13;
		wrong += site_keeps_flags(&own) != 1 || site_in_a_loop(&own, 3) || site_below_stack_and_vectors(&own);
		wrong += site_in_a_child(&user[46], 0) != dma[46] + 2;
		wrong += sprung(&own, 0) || sprung_of_threads(&row[2], 1) != 1 || sprung_nop_called() != 8;
		sr_exposed_observe();
	}
	sr_exposed_thread_ends();
	return NULL;
}

static void test_stop(void **state)
{
	pthread_t t[3];

	several_threads = true;
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, go_on, NULL);
	usleep(20000);
	probes_stop();
	usleep(20000);
	over = true;
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	several_threads = false;
	assert_int_equal(wrong, 0);
	assert_false(is_jump((uintptr_t)site_in_a_child, 20));
	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_exposed_observe();
		dma[47] = i;
		assert_int_equal(site_by_index(&user[44], 1), i);
	}
	assert_true(sprung_store[0] == 0x88 && sprung_of_threads_store[0] == 0x88);
	assert_false(is_jump((uintptr_t)site_keeps_flags, 2) || is_jump((uintptr_t)site_by_index, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_each_does_what_it_did),
	    cmocka_unit_test(test_branches_and_comparisons),
	    cmocka_unit_test(test_end_of_a_function),
	    cmocka_unit_test(test_operands),
	    cmocka_unit_test(test_exchanges),
	    cmocka_unit_test(test_exchanges_of_the_stack_pointer),
	    cmocka_unit_test(test_two_loads_next_to_each_other),
	    cmocka_unit_test(test_three_under_one_jump),
	    cmocka_unit_test(test_who_comes_to_the_midst),
	    cmocka_unit_test(test_branches_to_the_midst_are_found),
	    cmocka_unit_test(test_a_branch_that_is_rarely_taken),
	    cmocka_unit_test(test_calls_by_register_and_memory),
	    cmocka_unit_test(test_a_target_of_branches_behind_it),
	    cmocka_unit_test(test_a_load_at_a_target_of_branches),
	    cmocka_unit_test(test_padding_is_covered),
	    cmocka_unit_test(test_where_no_jump_is_written),
	    cmocka_unit_test(test_code_that_may_be_written),
	    cmocka_unit_test(test_bails_with_the_lock),
	    cmocka_unit_test(test_jumps_again),
	    cmocka_unit_test(test_other_code_at_its_place),
	    cmocka_unit_test(test_loops),
	    cmocka_unit_test(test_stores),
	    cmocka_unit_test(test_vectors),
	    cmocka_unit_test(test_short_messages),
	    cmocka_unit_test(test_other_memory),
	    cmocka_unit_test(test_a_handler_amidst_a_stub),
	    cmocka_unit_test(test_a_handler_at_each_step),
	    cmocka_unit_test(test_no_float_is_torn),
	    cmocka_unit_test(test_guards_of_a_handler_that_jumps),
	    cmocka_unit_test(test_a_jump_of_two_bytes),
	    cmocka_unit_test(test_a_handler_at_each_step_of_a_springboard),
	    cmocka_unit_test(test_a_springboard_is_given_up_and_used_again),
	    cmocka_unit_test(test_beside_a_region),
	    cmocka_unit_test(test_threads),
	    cmocka_unit_test(test_code_that_is_not_the_files),
	    cmocka_unit_test(test_many_instructions),
	    cmocka_unit_test(test_a_child),
	    cmocka_unit_test(test_stop),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
