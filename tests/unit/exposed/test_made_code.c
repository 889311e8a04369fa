/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_made_code.c: code that the program makes at run time gets probes and breakpoints, and has its own bytes again whenever
 * the program may look at or change them.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shim/exposed/page/lock.h"
#include "shim/exposed/probe/breakpoint.h"
#include "shim/exposed/probe/made_code.h"
#include "shim/exposed/probe/probes.h"
#include "tests/unit/exposed/simulator.h"

#define PAGE_BYTES 4096
#define CODE_PAGES 3
#define ROUNDS	   100
#define JUMP	   0xe9
#define LOW_CODE   ((void *)0x10000000)

typedef uint64_t function(volatile void *p);

/* They load, and return that and two; or three; or what is at an address that the code has. */
static const uint8_t adds_two[] = {0x48, 0x8b, 0x07, 0x48, 0x8d, 0x40, 0x02, 0xc3},
		     adds_three[] = {0x48, 0x8b, 0x07, 0x48, 0x8d, 0x40, 0x03, 0xc3},
		     adds_constant[] = {0x48, 0x8b, 0x07, 0x48, 0x05, 0x02, 0x00, 0x01, 0x00, 0xc3};
#define CONSTANT 0x10002

static volatile uint64_t *user, *dma;
static uint8_t *code;
static uint32_t stops, lost;
static uintptr_t lost_at;

static bool is_here(uintptr_t pc, const uint64_t r[16])
{
	return true;
}

static bool stop(uintptr_t pc, const uint64_t r[16], const char *vectors)
{
	stops++;
	return false;
}

static void note_lost(uintptr_t pc, bool jump, uint8_t told_by)
{
	lost_at = pc;
	lost++;
}

/* As the shim's handler: a breakpoint's trap comes first. */
static void take(int sig, siginfo_t *info, void *uc)
{
	if (!breakpoint_trapped(uc) && !sr_exposed_fault(info, uc))
		take_no_faults();
}

static void ignore(const struct sr_exposed_event *e)
{
}

static int set_up(void **state)
{
	static const struct sr_exposed_hooks h = {.event = ignore, .patches = true};
	static const struct breakpoint_handlers b = {.is_here = is_here, .stop = stop, .lost = note_lost};
	struct sigaction sa = {.sa_sigaction = take, .sa_flags = SA_SIGINFO | SA_NODEFER};

	if (!map_for_nic(4 * PAGE_BYTES, &user, &dma))
		return -1;
	sigaction(SIGSEGV, &sa, NULL);
	code = mmap(NULL, CODE_PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	made_code_follow();
	return code == MAP_FAILED || sr_exposed_init(&h) || sr_exposed_add((void *)user, 4 * PAGE_BYTES) != SR_EXPOSED_OK ||
	       !breakpoints_start(&b);
}

/* What the shim does around the program's call. */
static void protect(int prot)
{
	made_code_changes(code, CODE_PAGES * PAGE_BYTES);
	assert_return_code(mprotect(code, CODE_PAGES * PAGE_BYTES, prot), 0);
	made_code_changed();
}

static function *make(const uint8_t *bytes, size_t n)
{
	protect(PROT_READ | PROT_WRITE);
	memset(code, 0x90, CODE_PAGES * PAGE_BYTES);
	memcpy(code, bytes, n);
	protect(PROT_READ | PROT_EXEC);
	return (function *)(uintptr_t)code;
}

static void call_often(function *f, uint64_t adds)
{
	for (uint64_t i = 0; i < ROUNDS; i++) {
		sr_exposed_observe();
		dma[42] = i;
		assert_int_equal(f(&user[42]), i + adds);
	}
}

static void test_jumps_come_and_go(void **state)
{
	function *f = make(adds_two, sizeof(adds_two));

	call_often(f, 2);
	assert_int_equal(code[0], JUMP);
	/* For reading, too: some compilers compare what they have made. */
	protect(PROT_READ);
	assert_memory_equal(code, adds_two, sizeof(adds_two));
	protect(PROT_READ | PROT_EXEC);
	call_often(f, 2);
	assert_int_equal(code[0], JUMP);
	f = make(adds_three, sizeof(adds_three));
	call_often(f, 3);
	assert_int_equal(code[0], JUMP);
	assert_int_equal(f(&user[42]), ROUNDS - 1 + 3);
}

/* A copy of what a jump lies in front of has the same bytes as before, if the neighbours of a page change. */
static void test_next_to_each_other(void **state)
{
	function *f = make(adds_two, sizeof(adds_two)), *other = (function *)(uintptr_t)(code + 64);

	call_often(f, 2);
	assert_int_equal(code[0], JUMP);
	made_code_changes(code + PAGE_BYTES, PAGE_BYTES);
	assert_return_code(mprotect(code + PAGE_BYTES, PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
	made_code_changed();
	assert_int_equal(code[0], JUMP);
	/* The first page is a mapping of its own now, and is copied anew. */
	make(adds_two, sizeof(adds_two));
	protect(PROT_READ | PROT_WRITE);
	memcpy(code + 64, adds_three, sizeof(adds_three));
	protect(PROT_READ | PROT_EXEC);
	call_often(other, 3);
	call_often(f, 2);
	protect(PROT_READ);
	assert_memory_equal(code, adds_two, sizeof(adds_two));
	assert_memory_equal(code + 64, adds_three, sizeof(adds_three));
	protect(PROT_READ | PROT_EXEC);
}

static void test_addresses_stay(void **state)
{
	function *f = make(adds_constant, sizeof(adds_constant));

	call_often(f, CONSTANT);
	/* The jump has none of the bytes in which that is. */
	assert_int_equal(code[0], JUMP);
	assert_memory_equal(code + 3, adds_constant + 3, sizeof(adds_constant) - 3);
}

static void test_writable_code_is_left_alone(void **state)
{
	function *f = make(adds_two, sizeof(adds_two));

	protect(PROT_READ | PROT_WRITE | PROT_EXEC);
	call_often(f, 2);
	assert_memory_equal(code, adds_two, sizeof(adds_two));
}

static void test_breakpoint(void **state)
{
	const uint64_t r[16] = {0};
	function *f = make(adds_two, sizeof(adds_two));
	uintptr_t at = (uintptr_t)code + 3;
	unsigned int length;

	assert_int_equal(breakpoint_suits(at, &length), BREAKPOINT_JUMP);
	assert_true(breakpoint_set(at, true, 0));
	breakpoint_await(at, 0, r, NULL, 0);
	dma[42] = 0;
	stops = lost = 0;
	assert_int_equal(f(&user[42]), 2);
	assert_int_equal(stops, 1);
	protect(PROT_READ | PROT_WRITE);
	assert_memory_equal(code, adds_two, sizeof(adds_two));
	assert_int_equal(lost, 1);
	assert_int_equal(lost_at, at);
	protect(PROT_READ | PROT_EXEC);
	assert_true(breakpoint_set(at, true, 0));
	assert_int_equal(f(&user[42]), 2);
	assert_int_equal(stops, 2);
	breakpoint_await_none();
}

/*
 * A jump has a byte that traps where an instruction begins.  As the highest byte of its distance that leads down, and below a low
 * program no stub can be.
 */
static void test_breakpoint_in_low_code(void **state)
{
	static const uint8_t adds[] = {0x48, 0x8d, 0x40, 0x01, 0x48, 0x01, 0xc8, 0x48, 0x01, 0xc8, 0xc3};
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	uint8_t *low = mmap(LOW_CODE, PAGE_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
	unsigned int length;

	assert_ptr_equal(low, LOW_CODE);
	memcpy(low, adds, sizeof(adds));
	made_code_changes(low, PAGE_BYTES);
	assert_return_code(mprotect(low, PAGE_BYTES, PROT_READ | PROT_EXEC), 0);
	made_code_changed();
	assert_int_equal(breakpoint_suits((uintptr_t)low, &length), BREAKPOINT_TRAP);
	assert_int_equal(breakpoint_suits((uintptr_t)low + 4, &length), BREAKPOINT_JUMP);
	assert_true(breakpoint_set((uintptr_t)low + 4, true, 0));
	assert_int_equal(low[4], JUMP);
	make(adds, sizeof(adds));
	assert_int_equal(breakpoint_suits((uintptr_t)code, &length), BREAKPOINT_JUMP);
}

static void test_unmapped(void **state)
{
	function *f = make(adds_two, sizeof(adds_two));

	call_often(f, 2);
	made_code_ends(code, CODE_PAGES * PAGE_BYTES);
	munmap(code, CODE_PAGES * PAGE_BYTES);
	made_code_ends(code, CODE_PAGES * PAGE_BYTES);
	assert_ptr_equal(mmap(code, CODE_PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), code);
	call_often(make(adds_two, sizeof(adds_two)), 2);
	assert_int_equal(code[0], JUMP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_jumps_come_and_go),
	    cmocka_unit_test(test_next_to_each_other),
	    cmocka_unit_test(test_addresses_stay),
	    cmocka_unit_test(test_writable_code_is_left_alone),
	    cmocka_unit_test(test_unmapped),
	    cmocka_unit_test(test_breakpoint),
	    cmocka_unit_test(test_breakpoint_in_low_code),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
