/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel answers to single queries is what it prints in /proc/self/maps.  On a kernel
 * without queries both read what it prints.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "maps.h"

#define PAGE  4096ul
#define COUNT 2000

static int fabric;
static char *area;

/* Pages of every kind side by side: private and shared ones, of the fabric's file, of another, of
 * none. */
static int map_pages(void **state)
{
	int other = memfd_create("other", MFD_CLOEXEC);

	fabric = memfd_create("fabric", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fabric, 64 * PAGE), 0);
	assert_int_equal(ftruncate(other, 64 * PAGE), 0);
	area = mmap(NULL, COUNT * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(area, MAP_FAILED);
	for (size_t i = 0; i < COUNT; i++) {
		int fd = i % 3 == 0 ? fabric : i % 3 == 1 ? other : -1;
		int flags = i % 2 ? MAP_SHARED : MAP_PRIVATE;
		int prot = (int)(i % 7) & (PROT_READ | PROT_WRITE);

		assert_ptr_not_equal(mmap(area + i * PAGE, PAGE, prot,
					  flags | MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS : 0), fd,
					  fd < 0 ? 0 : (off_t)((i * 5) % 64 * PAGE)),
				     MAP_FAILED);
	}
	close(other);
	sd_maps_begin(fabric);
	return 0;
}

/* Those of the area, whose mappings do not change meanwhile. */
static bool next_of_area(struct sd_maps *m, struct sd_extent *e)
{
	while (sd_maps_next(m, e))
		if (e->end > (uintptr_t)area)
			return e->begin < (uintptr_t)area + COUNT * PAGE;
	return false;
}

static int compare(uintptr_t from, bool only_files)
{
	struct sd_maps by_query, by_text;
	struct sd_extent q, t;
	int ours = 0;

	assert_true(sd_maps_open(&by_query, from, only_files));
	assert_true(sd_maps_open_text(&by_text, from, only_files));
	while (next_of_area(&by_text, &t)) {
		assert_true(next_of_area(&by_query, &q));
		assert_true(q.begin == t.begin && q.end == t.end);
		assert_int_equal(q.prot, t.prot);
		assert_int_equal(q.is_shared, t.is_shared);
		assert_int_equal(q.ours, t.ours);
		assert_int_equal(q.offset, t.offset);
		assert_int_equal(q.huge, t.huge);
		ours += t.ours;
	}
	assert_false(next_of_area(&by_query, &q));
	sd_maps_close(&by_query);
	sd_maps_close(&by_text);
	return ours;
}

static void all_of_them(void **state)
{
	assert_int_equal(compare(0, false), (COUNT + 2) / 3);
}

static void those_of_files(void **state)
{
	assert_int_equal(compare(0, true), (COUNT + 2) / 3);
}

static void from_an_address_on(void **state)
{
	for (size_t i = 0; i < COUNT; i += 97) {
		compare((uintptr_t)area + i * PAGE, false);
		compare((uintptr_t)area + i * PAGE + 8, true);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_of_them),
	    cmocka_unit_test(those_of_files),
	    cmocka_unit_test(from_an_address_on),
	};

	return cmocka_run_group_tests(tests, map_pages, NULL);
}
