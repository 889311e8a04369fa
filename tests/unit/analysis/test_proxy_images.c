/* SPDX-License-Identifier: BSD-2-Clause */
/* The proxy keeps as many pieces of memory registered as the user may register, and always finds the one it is asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "replay/host/proxy/images.h"

static uint32_t registered, most, allowed, calls;

struct ibv_mr *sr_device_register(struct sr_device *d, void *memory, size_t size)
{
	calls++;
	if (registered == allowed)
		return NULL;
	if (++registered > most)
		most = registered;
	return malloc(sizeof(struct ibv_mr));
}

void sr_device_release(struct sr_device *d, struct ibv_mr *mr)
{
	free(mr);
	registered--;
}

static void read_all(uint32_t limit, uint32_t pieces)
{
	struct sr_images *all = calloc(1, sizeof(*all));

	allowed = limit;
	registered = most = calls = 0;
	all->fd = memfd_create("images", 0);
	all->room = SR_IMAGES_REGISTERED;
	assert_int_equal(ftruncate(all->fd, (off_t)(pieces + 1) * SR_PIECE), 0);
	for (uint32_t round = 0; round < 3; round++)
		for (uint32_t k = 1; k <= pieces; k++) {
			struct sr_image *i = sr_image_of(all, (uint64_t)k * SR_PIECE + 8);

			assert_non_null(i);
			assert_int_equal(i->at, (uint64_t)k * SR_PIECE);
			if (!round)
				*(uint32_t *)(i->memory + 8) = k;
			assert_int_equal(*(uint32_t *)(i->memory + 8), k);
		}
	for (uint32_t i = 0; i < SR_IMAGES_REGISTERED; i++)
		if (all->images[i].at) {
			sr_device_release(all->device, all->images[i].mr);
			munmap(all->images[i].memory, SR_PIECE);
		}
	assert_int_equal(registered, 0);
	close(all->fd);
	free(all);
}

/* Those that fit are registered once. */
static void test_kept(void **state)
{
	read_all(1000, 200);
	assert_int_equal(calls, 200);
}

static void test_more_than_are_kept(void **state)
{
	read_all(1000, 300);
	assert_int_equal(most, SR_IMAGES_REGISTERED);
}

/* The user may register fewer: found out once. */
static void test_few_allowed(void **state)
{
	read_all(20, 100);
	assert_int_equal(most, 20);
	assert_int_equal(calls, 3 * 100 + 1);
}

static void test_none_allowed(void **state)
{
	struct sr_images all = {.fd = -1, .room = SR_IMAGES_REGISTERED};

	assert_null(sr_image_of(&all, SR_PIECE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_kept),
	    cmocka_unit_test(test_more_than_are_kept),
	    cmocka_unit_test(test_few_allowed),
	    cmocka_unit_test(test_none_allowed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
