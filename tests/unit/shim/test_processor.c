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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_leaf_without_subleaves_has_none_for_who_is_moved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
