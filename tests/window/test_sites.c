/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_sites.c: instructions that are replaced by jumps do what they did, whatever stands
 * next to them, and whoever comes to their midst.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shim/window/page.h"
#include "shim/window/sites.h"
#include "tests/window/simulator.h"

#define ROUNDS 300
#define WORDS  512

/* A window in the program's own data, for operands relative to RIP. */
char sites_data[4 * 4096] __attribute__((aligned(4096)));

static volatile uint64_t *view, *dma;
static bool several_threads;

/*
 * Each takes a pointer into the window, and returns what it read there, or computed from it. The
 * instruction in question is the first one, mostly of two to four bytes.
 */
uint64_t site_then_return(volatile void *p);
uint64_t site_then_branch(volatile void *p);
uint64_t site_then_call(volatile void *p);
uint64_t site_then_relative(volatile void *p);
uint64_t site_compares(volatile void *p, uint64_t with);
uint64_t site_keeps_flags(volatile void *p);
uint64_t site_in_a_loop(volatile void *p, uint64_t until);
uint64_t site_counts(volatile void *p, uint64_t until);
uint64_t site_two_loads(volatile void *p);
uint64_t site_by_index(volatile void *p, uint64_t index);
uint64_t site_of_rip(void);
uint64_t site_entered_behind(volatile void *p, uint64_t way);
uint64_t site_sign_extends(volatile void *p);
void site_fills(volatile void *p, uint64_t n, uint64_t with);
uint64_t site_below_stack_and_vectors(volatile void *p);
void site_of_vectors(volatile void *from, volatile void *to);
void site_of_wide_vectors(volatile void *from, volatile void *to);

__asm__(".text\n"
	"site_then_return: mov (%rdi), %rax\n ret\n nop\n"
	"site_then_branch: mov (%rdi), %eax\n test %eax, %eax\n je 1f\n inc %rax\n ret\n"
	"1: mov $-1, %rax\n ret\n"
	"double_it: lea (%rax, %rax), %rax\n ret\n"
	"site_then_call: sub $8, %rsp\n mov (%rdi), %rax\n call double_it\n inc %rax\n add $8, %rsp\n ret\n"
	"site_then_relative: mov (%rdi), %eax\n add seventeen(%rip), %eax\n ret\n"
	"seventeen: .long 17\n"
	"site_compares: cmp (%rdi), %esi\n sete %al\n movzbl %al, %eax\n ret\n"
	"site_keeps_flags: stc\n mov (%rdi), %rax\n adc $0, %rax\n ret\n"
	"site_in_a_loop: xor %ecx, %ecx\n"
	"1: mov (%rdi), %eax\n inc %rcx\n cmp %rsi, %rcx\n jb 1b\n ret\n"
	"site_counts: xor %ecx, %ecx\n"
	"1: mov (%rdi), %eax\n inc %rcx\n cmp %rsi, %rcx\n jne 1b\n mov %rcx, %rax\n ret\n"
	"site_two_loads: mov (%rdi), %eax\n mov 8(%rdi), %ecx\n shl $32, %rcx\n or %rcx, %rax\n ret\n"
	"site_by_index: mov 16(%rdi, %rsi, 8), %rax\n ret\n"
	"site_of_rip: mov sites_data + 8(%rip), %rax\n ret\n"
	"site_entered_behind: xor %eax, %eax\n test %rsi, %rsi\n lea 2f(%rip), %rdx\n jz 1f\n jmp *%rdx\n"
	"1: mov (%rdi), %eax\n"
	"2: inc %eax\n inc %eax\n ret\n"
	"site_sign_extends: movsbq (%rdi), %rax\n ret\n nop\n"
	"site_fills: add %rdi, %rsi\n"
	"1: mov %dl, (%rdi)\n inc %rdi\n cmp %rsi, %rdi\n jne 1b\n ret\n"
	"site_of_vectors: movdqu (%rdi), %xmm3\n pand %xmm3, %xmm3\n movdqu %xmm3, (%rsi)\n movdqa %xmm3, %xmm4\n ret\n"
	"site_of_wide_vectors: vmovdqu (%rdi), %ymm9\n vpand %ymm9, %ymm9, %ymm9\n vmovdqu %ymm9, (%rsi)\n vzeroupper\n ret\n"
	"site_below_stack_and_vectors:\n"
	"	movq $0x1234, -8(%rsp)\n movq $0x5678, -120(%rsp)\n"
	"	mov $7, %eax\n movd %eax, %xmm0\n movd %eax, %xmm15\n"
	"	mov (%rdi), %rax\n add $0, %rax\n"
	"	movd %xmm0, %ecx\n cmp $7, %ecx\n jne 1f\n movd %xmm15, %ecx\n cmp $7, %ecx\n jne 1f\n"
	"	cmpq $0x1234, -8(%rsp)\n jne 1f\n cmpq $0x5678, -120(%rsp)\n jne 1f\n ret\n"
	"1: mov $-1, %rax\n ret\n");

/* ------------------------------------------------------------------ before */

static void ignore(const struct sr_window_event *e)
{
}

static bool threads(void)
{
	return several_threads;
}

static int set_up(void **state)
{
	static const struct sr_window_hooks h = {.event = ignore, .patches = true, .threads = threads};

	if (!map_for_nic(4 * 4096, &view, &dma))
		return -1;
	take_faults();
	return sr_window_init(&h) || sr_window_add((void *)view, 4 * 4096) != SR_WINDOW_OK ||
	       sr_window_add(sites_data, sizeof(sites_data)) != SR_WINDOW_OK;
}

static uint64_t served(void)
{
	struct sr_window_counts c;

	sr_window_get_counts(&c);
	return c.by_jump;
}

/* Most of so many rounds were served without a fault. */
#define assert_served(before, rounds) assert_true(served() - (before) > (rounds) / 2)

/* ------------------------------------------------------------------ one at a time */

static void test_each_does_what_it_did(void **state)
{
	static uint64_t (*const plain[])(volatile void *) = {
	    site_keeps_flags, site_then_call, site_below_stack_and_vectors, site_then_return};

	for (size_t k = 0; k < sizeof(plain) / sizeof(*plain); k++) {
		uint64_t before = served();

		for (uint64_t i = 1; i <= ROUNDS; i++) {
			uint64_t want[] = {i + 1, 2 * i + 1, i, i};

			sr_window_observe();
			dma[k] = i;
			assert_int_equal(plain[k](&view[k]), want[k]);
		}
		/* Four bytes, of which the last is the function's: there is no place for a jump. */
		if (plain[k] == site_then_return)
			assert_int_equal(served(), before);
		else
			assert_served(before, ROUNDS);
	}
}

static void test_branches_and_comparisons(void **state)
{
	uint64_t before = served();

	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_window_observe();
		dma[10] = i % 3;
		assert_int_equal(site_then_branch(&view[10]), i % 3 ? i % 3 + 1 : UINT64_MAX);
		sr_window_observe();
		assert_int_equal(site_compares(&view[10], 2), i % 3 == 2);
		sr_window_observe();
		dma[11] = i % 2 ? 0x80 : 0x7f;
		assert_int_equal(site_sign_extends(&view[11]), i % 2 ? -128 : 127);
	}
	assert_served(before, 3 * ROUNDS);
}

static void test_operands(void **state)
{
	uint64_t before = served();

	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_window_observe();
		dma[20] = i;
		assert_int_equal(site_then_relative(&view[20]), i + 17);
		sr_window_observe();
		dma[25] = i * 3;
		assert_int_equal(site_by_index(&view[20], 3), i * 3);
		sr_window_observe();
		*(volatile uint64_t *)sr_window_landing(sites_data + 8) = i * 5;
		assert_int_equal(site_of_rip(), i * 5);
	}
	assert_served(before, 3 * ROUNDS);
}

/* The second one lies under the first one's jump, and faults in its copy. */
static void test_two_loads_next_to_each_other(void **state)
{
	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_window_observe();
		dma[30] = i;
		dma[31] = i + 1;
		assert_int_equal(site_two_loads(&view[30]), i | (i + 1) << 32);
	}
}

static void test_who_comes_to_the_midst(void **state)
{
	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_window_observe();
		dma[40] = i;
		assert_int_equal(site_entered_behind(&view[40], 0), i + 2);
		assert_int_equal(site_entered_behind(&view[40], 1), 2);
	}
}

static void test_loops(void **state)
{
	uint64_t before = served();

	dma[50] = 77;
	for (int i = 0; i < 20; i++) {
		sr_window_observe();
		assert_int_equal(site_in_a_loop(&view[50], 100), 77);
	}
	assert_served(before, 2000);
}

static void test_stores(void **state)
{
	uint64_t before = served();

	for (uint64_t i = 0; i < 2 * ROUNDS; i++) {
		sr_window_observe();
		site_fills(&view[60], 12, i);
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
		sr_window_observe();
		site_of_vectors(&view[300], &view[320]);
		assert_memory_equal((void *)&dma[320], (void *)&dma[300], 16);
		if (!__builtin_cpu_supports("avx2"))
			continue;
		sr_window_observe();
		site_of_wide_vectors(&view[300], &view[320]);
		assert_memory_equal((void *)&dma[320], (void *)&dma[300], 32);
	}
	assert_served(before, 2 * ROUNDS);
}

/* Memory that is no window's, and a page that is open. */
static void test_other_memory(void **state)
{
	uint64_t own = 5;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		own = i;
		assert_int_equal(site_then_return(&own), i);
	}
	sr_window_observe();
	dma[1] = 9;
	for (uint64_t i = 0; i < WORDS; i++)
		(void)view[i];
	assert_int_equal(site_then_return(&view[1]), 9);
}

/* ------------------------------------------------------------------ signals */

static _Atomic uint64_t interrupted, interrupted_wrong;

/* As a handler of the shim's, which calls libc, whose code has sites. */
static void interrupt(int sig, siginfo_t *info, void *uc)
{
	struct sites_guard guard;
	uint64_t own = 41;

	sites_guard_begin(&guard);
	interrupted_wrong += site_counts(&own, 3) != 3 || site_keeps_flags(&own) != 42;
	interrupted += sites_is_section(uc);
	sites_guard_end(&guard);
}

static void test_a_handler_amidst_a_stub(void **state)
{
	struct sigaction sa = {.sa_sigaction = interrupt, .sa_flags = SA_SIGINFO | SA_RESTART};
	struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
	uint64_t own = 1, rounds = 0;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_window_observe();
		site_counts(&view[90], 20);
	}
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (interrupted < 2000 && rounds++ < 2000000)
		assert_int_equal(site_counts(&own, 100), 100);
	setitimer(ITIMER_REAL, &never, NULL);
	assert_int_equal(interrupted_wrong, 0);
	assert_true(interrupted > 100);
}

/* ------------------------------------------------------------------ several threads */

uint64_t site_of_threads(volatile void *p, uint64_t v);
__asm__(".text\n.p2align 4\nsite_of_threads: mov %rsi, (%rdi)\n lea 1(%rsi), %rax\n ret\n");

static _Atomic uint64_t wrong;

static void *store(void *arg)
{
	uintptr_t word = 70 + 8 * (uintptr_t)arg;

	for (uint64_t i = 0; i < 5000; i++) {
		sr_window_observe();
		wrong += site_of_threads(&view[word], i) != i + 1 || dma[word] != i;
	}
	sr_window_thread_ends();
	return NULL;
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
	assert_served(before, 20000);
}

/* Its own code, or what it was told to change, has been changed: it is left alone. */
static void test_code_that_is_not_the_files(void **state)
{
	static const uint8_t code[] = {0x48, 0x8b, 0x07, 0xc3, 0x90, 0x90, 0x90, 0x90};
	uint64_t (*f)(volatile void *) =
	    mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy((void *)f, code, sizeof(code));
	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_window_observe();
		dma[80] = i;
		assert_int_equal(f(&view[80]), i);
	}
	assert_memory_equal((void *)f, code, sizeof(code));
}

static void test_a_child(void **state)
{
	int status;
	pid_t pid;

	sr_window_before_fork();
	pid = fork();
	sr_window_after_fork(!pid);
	if (!pid) {
		uint64_t own = 3;

		_exit(site_then_return(&own) == 3 && site_then_return(&view[0]) == dma[0] ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_each_does_what_it_did),
	    cmocka_unit_test(test_branches_and_comparisons),
	    cmocka_unit_test(test_operands),
	    cmocka_unit_test(test_two_loads_next_to_each_other),
	    cmocka_unit_test(test_who_comes_to_the_midst),
	    cmocka_unit_test(test_loops),
	    cmocka_unit_test(test_stores),
	    cmocka_unit_test(test_vectors),
	    cmocka_unit_test(test_other_memory),
	    cmocka_unit_test(test_a_handler_amidst_a_stub),
	    cmocka_unit_test(test_threads),
	    cmocka_unit_test(test_code_that_is_not_the_files),
	    cmocka_unit_test(test_a_child),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
