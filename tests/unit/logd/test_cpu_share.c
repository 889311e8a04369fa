/* SPDX-License-Identifier: BSD-2-Clause */
/* test_cpu_share.c: a thread that shares its CPU with three others is short of it; where the kernel tells nothing, none is. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "logd/writer/cpu_share.h"

static atomic_bool over;

static void *spin(void *unused)
{
	while (!over)
		;
	return NULL;
}

static void pin_to_one(void)
{
	cpu_set_t all, one;

	CPU_ZERO(&one);
	sched_getaffinity(0, sizeof(all), &all);
	for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static void test_beside_others(void **state)
{
	const time_t end = time(NULL) + 20;
	struct cpu_share s;
	pthread_t others[3];
	bool is_short = false;

	pin_to_one();
	for (int i = 0; i < 3; i++)
		pthread_create(&others[i], NULL, spin, NULL);
	cpu_share_begin(&s);
	if (s.fd < 0)
		skip();
	while (!is_short && time(NULL) < end)
		is_short = cpu_share_is_short(&s);
	over = true;
	for (int i = 0; i < 3; i++)
		pthread_join(others[i], NULL);
	cpu_share_end(&s);
	assert_true(is_short);
}

static void test_untold(void **state)
{
	struct cpu_share s = {.fd = -1};

	assert_false(cpu_share_is_short(&s));
	cpu_share_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_untold),
	    cmocka_unit_test(test_beside_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
