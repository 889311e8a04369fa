/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_breakpoints.c: a thread is looked at where a breakpoint is, also where probes of accesses were before, or where another
 * breakpoint follows; and what a signal is told of a thread that it interrupts in a breakpoint's stub.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shim/exposed/page/lock.h"
#include "shim/exposed/probe/breakpoint.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/opcodes.h"
#include "tests/unit/exposed/simulator.h"

#define PAGE_BYTES 4096
#define ROUNDS	   200
#define TURNS	   5
#define STEPS	   6 /* of a comparison, at least */

uint64_t site_loads(volatile void *p);
uint64_t site_loads_and_adds(volatile void *p);
/* They return what is in rax meanwhile. */
uint64_t site_never_stops(uint64_t in_rax, uint64_t rounds);
uint64_t site_waits_for_word(uint64_t in_rax, uint64_t rounds);
uint64_t step_through(uint64_t in_rax, uint64_t rounds, uint64_t (*site)(uint64_t, uint64_t));
void site_stores(volatile void *p, uint64_t value);
extern const char site_adds[], site_behind_store[], site_turns[], site_turns_by_word[];

#define IN_RAX 0x1234567890
#define IN_RCX 0x9876543210
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

__asm__(".text\n.p2align 8, 0x90\n"
	"site_loads: mov (%rdi), %rax\n lea 1(%rax), %rax\n ret\n nop\n"
	".p2align 8, 0x90\n"
	"site_loads_and_adds: mov (%rdi), %rax\n"
	"site_adds: add $1, %rax\n ret\n nop\n nop\n"
	".p2align 8, 0x90\n"
	"site_stores: mov %rsi, (%rdi)\n"
	"site_behind_store: lea 1(%rsi), %rsi\n ret\n nop\n nop\n"
	".p2align 8, 0x90\n"
	"site_never_stops: mov %rdi, %rax\n mov $" TEXT(IN_RCX) ", %rcx\n"
	"site_turns: lea 0(%rax), %rax\n lea 0(%rcx), %rcx\n dec %rsi\n jnz site_turns\n ret\n"
	".p2align 8, 0x90\n"
	"site_waits_for_word: mov %rdi, %rax\n mov $" TEXT(IN_RCX) ", %rcx\n"
	"site_turns_by_word: lea 0(%rax), %rax\n lea 0(%rcx), %rcx\n dec %rsi\n jnz site_turns_by_word\n ret\n"
	/* Each instruction of a site raises SIGTRAP. */
	".p2align 8, 0x90\n"
	"step_through: push %rbx\n mov %rdx, %rbx\n pushfq\n orq $0x100, (%rsp)\n popfq\n call *%rbx\n"
	"	pushfq\n andq $~0x100, (%rsp)\n popfq\n pop %rbx\n ret\n"
	".p2align 8, 0x90\n .skip 256, 0x90\n");

static volatile uint64_t *user, *dma;
static uintptr_t stopped_at;
static uint32_t stops;

static bool is_here(uintptr_t pc, const uint64_t r[16])
{
	return true;
}

static bool stop(uintptr_t pc, const uint64_t r[16], const char *vectors)
{
	stopped_at = pc;
	stops++;
	return false;
}

/* As the shim: breakpoints have faults, too. */
static void take_all_faults(int sig, siginfo_t *info, void *uc)
{
	if (!breakpoint_trapped(uc))
		take_fault(sig, info, uc);
}

static void ignore(const struct sr_exposed_event *e)
{
}

static int set_up(void **state)
{
	static const struct sr_exposed_hooks h = {.event = ignore, .patches = true};
	static const struct breakpoint_handlers handlers = {.is_here = is_here, .stop = stop};
	struct sigaction sa = {.sa_sigaction = take_all_faults, .sa_flags = SA_SIGINFO | SA_NODEFER};

	if (!map_for_nic(PAGE_BYTES, &user, &dma))
		return -1;
	sigaction(SIGSEGV, &sa, NULL);
	if (sr_exposed_init(&h) || sr_exposed_add((void *)user, PAGE_BYTES) != SR_EXPOSED_OK)
		return -1;
	return !breakpoints_start(&handlers);
}

/* So often that the load becomes a jump. */
static void make_probe(uint64_t (*site)(volatile void *))
{
	struct sr_exposed_counts before, now;

	sr_exposed_get_counts(&before);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_exposed_observe();
		dma[0] = i;
		assert_int_equal(site(user), i + 1);
	}
	sr_exposed_get_counts(&now);
	assert_int_equal(now.jumps, before.jumps + 1);
}

/* One passage is looked at, and the site does what it did. */
static void expect_stop(uint64_t (*site)(volatile void *), uintptr_t pc)
{
	uint64_t r[16] = {0}, own = 41, word = 7;

	assert_true(breakpoint_set(pc, true, BREAKPOINT_BY_WORD));
	breakpoint_await(pc, BREAKPOINT_BY_WORD, r, &word, 7);
	stops = 0;
	assert_int_equal(site(&own), 42);
	assert_int_equal(stops, 1);
	assert_int_equal(stopped_at, pc);
	dma[0] = 99;
	sr_exposed_observe();
	assert_int_equal(site(user), 100);
	assert_int_equal(stops, 2);
	breakpoint_await_none();
	assert_int_equal(site(user), 100);
	assert_int_equal(stops, 2);
}

static void test_at_a_probe(void **state)
{
	make_probe(site_loads);
	expect_stop(site_loads, (uintptr_t)site_loads);
}

static void test_under_the_jump_of_a_probe(void **state)
{
	make_probe(site_loads_and_adds);
	expect_stop(site_loads_and_adds, (uintptr_t)site_adds);
}

/* The second trap changes what lies within five bytes of the first one. */
static void test_side_by_side(void **state)
{
	struct sr_exposed_counts before, now;

	assert_true(breakpoint_set((uintptr_t)site_stores, false, REGISTER_SP));
	assert_true(breakpoint_set((uintptr_t)site_behind_store, false, REGISTER_SP));
	sr_exposed_get_counts(&before);
	stops = 0;
	site_stores(user, 7);
	sr_exposed_get_counts(&now);
	assert_int_equal(stops, 2);
	assert_int_equal(dma[0], 7);
	/* The recorder knows what is under the first trap. */
	assert_int_equal(now.pass_throughs, before.pass_throughs);
}

/* ------------------------------------------------------------------ signals */

static uintptr_t turns_at;
static uint64_t interrupted, interrupted_wrong;

static void look(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *uc = context;
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	uint64_t r[16] = {[REGISTER_AX] = (uint64_t)uc->uc_mcontext.gregs[REG_RAX],
			  [REGISTER_CX] = (uint64_t)uc->uc_mcontext.gregs[REG_RCX]};
	struct probes_guard guard;

	probes_guard_begin(&guard);
	/* Libc's code in a handler may have breakpoints, too. */
	site_never_stops(1, 1);
	site_waits_for_word(1, 1);
	if (breakpoint_interrupted(&pc, r)) {
		interrupted++;
		interrupted_wrong += pc != turns_at || r[REGISTER_AX] != IN_RAX ||
				     r[REGISTER_CX] != IN_RCX;
	}
	probes_guard_end(&guard);
}

static void interrupt_at_each_step(uint64_t (*site)(uint64_t, uint64_t), const char *turns)
{
	struct sigaction sa = {.sa_sigaction = look, .sa_flags = SA_SIGINFO};

	turns_at = (uintptr_t)turns;
	interrupted = interrupted_wrong = 0;
	sigaction(SIGTRAP, &sa, NULL);
	assert_int_equal(step_through(IN_RAX, TURNS, site), IN_RAX);
	assert_true(interrupted >= STEPS * TURNS);
	assert_int_equal(interrupted_wrong, 0);
}

static void test_interrupted(void **state)
{
	uint64_t r[16] = {[REGISTER_SP] = 1}, word = 7;

	assert_true(breakpoint_set((uintptr_t)site_turns, true, REGISTER_SP));
	assert_true(breakpoint_set((uintptr_t)site_turns_by_word, true, BREAKPOINT_BY_WORD));
	stops = 0;
	breakpoint_await((uintptr_t)site_turns, REGISTER_SP, r, NULL, 0);
	interrupt_at_each_step(site_never_stops, site_turns);
	breakpoint_await((uintptr_t)site_turns_by_word, BREAKPOINT_BY_WORD, r, &word, 8);
	interrupt_at_each_step(site_waits_for_word, site_turns_by_word);
	breakpoint_await_none();
	assert_int_equal(stops, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_at_a_probe),
	    cmocka_unit_test(test_under_the_jump_of_a_probe),
	    cmocka_unit_test(test_side_by_side),
	    cmocka_unit_test(test_interrupted),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
