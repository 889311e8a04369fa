/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_processor.c: reads the table of cpuid while the thread moves from CPU to CPU.
 *
 * Leaf 1 contains the number of the CPU that executes cpuid. A thread that is moved between
 * two of its answers sees them differ and must not take that for subleaves: the linker asks
 * with any value in ecx and would learn that the processor has nothing.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "logd/base/processor.h"

#define READS 2000

static atomic_bool over;
static pid_t reader;

static void *send_about(void *unused)
{
	for (int cpu = 0; !atomic_load(&over); cpu = !cpu) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		sched_setaffinity(reader, sizeof(set), &set);
		usleep(50);
	}
	return NULL;
}

static uint32_t entries_of(const struct sr_processor *p, uint32_t leaf)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->entries; i++)
		n += p->entry[i].leaf == leaf;
	return n;
}

static void a_leaf_without_subleaves_has_none_for_who_is_moved(void **state)
{
	static struct sr_processor p;
	uint32_t reg[4];
	pthread_t other;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip();
	reader = getpid();
	assert_int_equal(pthread_create(&other, NULL, send_about, NULL), 0);
	for (int i = 0; i < READS; i++) {
		sr_processor_read(&p);
		assert_int_equal(entries_of(&p, 1), 1);
		assert_in_range(entries_of(&p, 0x8000001e), 0, 1);
		sr_processor_ask(&p, 1, 0x12345678, reg);
		/* SSE2, which every x86-64 processor has. */
		assert_true(reg[3] >> 26 & 1);
	}
	atomic_store(&over, true);
	pthread_join(other, NULL);
}

#if defined(__x86_64__)

/* These name the CPU, or count what it has done. */
static bool is_stable(uint32_t leaf)
{
	static const uint32_t moving[] = {1, 0xb, 0xf, 0x1f, 0x80000026, 0x8000001e};

	for (size_t i = 0; i < sizeof(moving) / sizeof(moving[0]); i++)
		if (moving[i] == leaf)
			return false;
	return leaf != 0xd;
}

static void compare_range(const struct sr_processor *p, uint32_t first)
{
	uint32_t reg[4], own[4], last;

	sr_processor_ask(p, first, 0, reg);
	last = reg[0] < first || reg[0] - first > 0x40 ? first : reg[0];
	for (uint32_t leaf = first; leaf <= last; leaf++) {
		for (uint32_t sub = 0; sub < 8 && is_stable(leaf); sub++) {
			__cpuid_count(leaf, sub, own[0], own[1], own[2], own[3]);
			sr_processor_ask(p, leaf, sub, reg);
			assert_memory_equal(reg, own, sizeof(own));
		}
	}
}

static void the_table_says_what_the_processor_does(void **state)
{
	static struct sr_processor p;

	sr_processor_read(&p);
	compare_range(&p, 0);
	compare_range(&p, 0x80000000);
}

static void the_table_has_all_extended_state(void **state)
{
	static struct sr_processor p;
	uint32_t reg[4], own[4];

	sr_processor_read(&p);
	for (uint32_t sub = 2; sub < 64; sub++) {
		__cpuid_count(0xd, sub, own[0], own[1], own[2], own[3]);
		sr_processor_ask(&p, 0xd, sub, reg);
		assert_memory_equal(reg, own, sizeof(own));
	}
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_leaf_without_subleaves_has_none_for_who_is_moved),
#if defined(__x86_64__)
	    cmocka_unit_test(the_table_says_what_the_processor_does),
	    cmocka_unit_test(the_table_has_all_extended_state),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
