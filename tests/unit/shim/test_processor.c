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
#include <string.h>
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

/* A processor's answers, of which the table knows what stands for them. */
static void the_table_says_what_is_behind_the_ranges(void **state)
{
	static const uint32_t ranges[] = {0, 0x40000000, 0x80000000};
	static struct sr_processor p;
	uint32_t reg[4], own[4];

	sr_processor_read(&p);
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		sr_processor_ask(&p, ranges[i], 0, reg);
		for (uint32_t sub = 0; sub < 8; sub++) {
			uint32_t beyond[] = {(reg[0] < ranges[i] ? ranges[i] : reg[0]) + 1,
					     ranges[i] + 0x3fffffff};

			for (size_t k = 0; k < 2 && is_stable(reg[0]); k++) {
				uint32_t answer[4];

				sr_processor_execute(beyond[k], sub, own);
				sr_processor_ask(&p, beyond[k], sub, answer);
				assert_memory_equal(answer, own, sizeof(own));
			}
		}
	}
}

/* An Intel processor whose last leaf is of topology: behind it each subleaf has an answer. */
static void behind_a_topology_there_are_subleaves(void **state)
{
	static const struct sr_processor p = {
	    .entries = 4,
	    .entry = {{0, SR_CPUID_ANY, {0xb, 0, 0, 0}},
		      {0xb, 0, {1, 2, 0x100, 7}},
		      {0xb, 1, {4, 8, 0x201, 7}},
		      {0x3fffffff, SR_CPUID_ANY, {1, 2, 0x100, 7}}},
	};
	uint32_t reg[4];

	sr_processor_ask(&p, 0xc, 1, reg);
	assert_memory_equal(reg, p.entry[2].reg, sizeof(reg));
	sr_processor_ask(&p, 0xc, 9, reg);
	assert_memory_equal(reg, ((uint32_t[]){0, 0, 9, 7}), sizeof(reg));
}

static void a_processor_is_the_same_on_each_of_its_cpus(void **state)
{
	static struct sr_processor p[2];
	cpu_set_t all, set;

	sched_getaffinity(0, sizeof(all), &all);
	for (int cpu = 0; cpu < 2; cpu++) {
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (sched_setaffinity(0, sizeof(set), &set))
			skip();
		sr_processor_read(&p[cpu]);
	}
	sched_setaffinity(0, sizeof(all), &all);
	assert_true(sr_processors_are_the_same(&p[0], &p[1]));
	/* They differ in their numbers. */
	assert_memory_not_equal(&p[0], &p[1], sizeof(p[0]));
	p[1].entry[p[1].entries - 1].reg[0] ^= 1;
	assert_false(sr_processors_are_the_same(&p[0], &p[1]));
}

/* What libc may use is what both have; that one has it faster is no reason to go another way. */
static void libc_gets_the_instructions_of_both(void **state)
{
	static const struct sr_processor recorded = {
	    .entries = 2,
	    .entry = {{0, SR_CPUID_ANY, {7, 0, 0, 0}}, {7, 0, {0, 1u << 31 | 1u << 9 | 1u << 5, 0, 1u << 4}}},
	};
	static const struct sr_processor here = {
	    .entries = 2,
	    .entry = {{0, SR_CPUID_ANY, {7, 0, 0, 0}}, {7, 0, {0, 1u << 18 | 1u << 5, 0, 0}}},
	};
	uint32_t reg[4];

	sr_processor_ask_for_libc(&recorded, &here, 7, 0, reg);
	assert_memory_equal(reg, ((uint32_t[]){0, 1u << 9 | 1u << 5, 0, 1u << 4}), sizeof(reg));
}

static void an_answer_takes_the_number_of_another_cpu(void **state)
{
	const uint32_t from[4] = {0x11111111, 0x22222222, 0x33333333, 0x44444444};
	uint32_t to[4] = {0};

	sr_processor_number(1, from, to);
	assert_memory_equal(to, ((uint32_t[]){0, 0x22000000, 0, 0}), sizeof(to));
	sr_processor_number(0xb, from, to);
	assert_memory_equal(to, ((uint32_t[]){0, 0x22000000, 0, 0x44444444}), sizeof(to));
	memset(to, 0, sizeof(to));
	sr_processor_number(7, from, to);
	assert_memory_equal(to, ((uint32_t[4]){0}), sizeof(to));
}

static void a_cpu_has_the_number_that_it_answers(void **state)
{
	static const uint32_t leaves[] = {1, 7, 0xb, 0x8000001e};
	cpu_set_t all, one;

	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++) {
		uint32_t own[4], put[4], before[4];

		/* Unless a hypervisor has moved it meanwhile. */
		for (int tries = 0; tries < READS; tries++) {
			struct sr_cpu_number n;

			sr_processor_execute(leaves[i], 0, before);
			n = sr_cpu_number_here();
			sr_processor_execute(leaves[i], 0, own);
			memcpy(put, own, sizeof(put));
			sr_processor_number(leaves[i], (uint32_t[4]){0}, put);
			sr_cpu_number_put(&n, leaves[i], put);
			if (!memcmp(before, own, sizeof(own)))
				break;
		}
		assert_memory_equal(put, own, sizeof(own));
	}
	sched_setaffinity(0, sizeof(all), &all);
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
	    cmocka_unit_test(a_cpu_has_the_number_that_it_answers),
	    cmocka_unit_test(the_table_has_all_extended_state),
	    cmocka_unit_test(the_table_says_what_is_behind_the_ranges),
	    cmocka_unit_test(behind_a_topology_there_are_subleaves),
	    cmocka_unit_test(a_processor_is_the_same_on_each_of_its_cpus),
	    cmocka_unit_test(libc_gets_the_instructions_of_both),
	    cmocka_unit_test(an_answer_takes_the_number_of_another_cpu),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
