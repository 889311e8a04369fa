/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_regions.c: which memory becomes an exposed region, and how that affects the
 * program's memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shim/exposed/page/address.h"
#include "tests/unit/exposed/fixture.h"

static void a_region_keeps_what_was_in_it(void **state)
{
	uint8_t *p = memory(4);

	assert_int_equal(sr_exposed_add(p + 100, 3 * PAGE), SR_EXPOSED_OK);
	for (size_t i = 0; i < 4 * PAGE; i++)
		assert_int_equal(p[i], (uint8_t)(i / 7));
	sr_exposed_observe();
	p[200] = 77;
	write_by_nic(p + 5000, "abc", 3);
	sr_exposed_remove(p + 100, 3 * PAGE);
	assert_ptr_equal(sr_exposed_backing(p), p);
	assert_int_equal(p[200], 77);
	assert_memory_equal(p + 5000, "abc", 3);
	assert_int_equal(p[4 * PAGE - 1], (uint8_t)((4 * PAGE - 1) / 7));
}

static void regions_overlap(void **state)
{
	uint8_t *p = memory(8);

	assert_int_equal(sr_exposed_add(p, 4 * PAGE), SR_EXPOSED_OK);
	assert_int_equal(sr_exposed_add(p + 2 * PAGE + 5, 5 * PAGE), SR_EXPOSED_OK);
	assert_int_equal(sr_exposed_add(p + 3 * PAGE, 10), SR_EXPOSED_OK);
	/* One the backing mapping for all. */
	assert_ptr_equal((uint8_t *)sr_exposed_backing(p) + 6 * PAGE,
			 sr_exposed_backing(p + 6 * PAGE));
	sr_exposed_remove(p, 4 * PAGE);
	assert_ptr_equal(sr_exposed_backing(p + PAGE), p + PAGE);
	assert_ptr_not_equal(sr_exposed_backing(p + 3 * PAGE), p + 3 * PAGE);
	write_by_nic(p + 3 * PAGE, "x", 1);
	assert_int_equal(p[3 * PAGE], 'x');
	sr_exposed_remove(p + 2 * PAGE + 5, 5 * PAGE);
	sr_exposed_remove(p + 3 * PAGE, 10);
	assert_int_equal(p[3 * PAGE], 'x');
	for (size_t i = 0; i < 8 * PAGE; i++)
		if (i != 3 * PAGE)
			assert_int_equal(p[i], (uint8_t)(i / 7));
}

static void a_value_is_recorded_once(void **state)
{
	uint8_t *p = memory(1);
	uint64_t before;

	assert_int_equal(sr_exposed_add(p, PAGE), SR_EXPOSED_OK);
	assert_int_equal(*(volatile uint8_t *)(p + 9), 1);
	before = values;
	write_by_nic(p + 8, "\x11\x22\x33\x44", 4);
	sr_exposed_observe();
	assert_int_equal(*(volatile uint32_t *)(p + 8), 0x44332211);
	assert_int_equal(values, before + 1);
	assert_ptr_equal(last.addr, p + 8);
	assert_int_equal(last.length, 4);
	assert_memory_equal(last.data, "\x11\x22\x33\x44", 4);
	sr_exposed_observe();
	/* The program's own stores are not values. */
	*(volatile uint32_t *)(p + 8) = 5;
	sr_exposed_observe();
	assert_int_equal(*(volatile uint32_t *)(p + 8), 5);
	assert_int_equal(values, before + 1);
	sr_exposed_remove(p, PAGE);
}

/* Its pages are looked at when the program comes to them, and nothing is copied for the others. */
/* As a program's .data and .bss are: before Linux 6.17 no call moves both at once. */
static void a_region_of_two_mappings_comes_back(void **state)
{
	int fd = memfd_create("data", 0), status;
	char *p = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t child;

	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_ptr_equal(
	    mmap(p, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0), p);
	memset(p, 'x', 2 * 4096);
	assert_int_equal(sr_exposed_add(p + 100, 4096), SR_EXPOSED_OK);
	sr_exposed_before_fork();
	child = fork();
	if (!child) {
		sr_exposed_after_fork(true);
		take_no_faults();
		_exit(p[4095] == 'x' && p[4096] == 'x' ? 7 : 1);
	}
	sr_exposed_after_fork(false);
	waitpid(child, &status, 0);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	sr_exposed_remove(p + 100, 4096);
	assert_int_equal(p[0] + p[4095], 2 * 'x');
	assert_int_equal(p[4096] + p[8191], 2 * 'x');
	munmap(p, 2 * 4096);
	close(fd);
}

static void a_large_region_ends_page_by_page(void **state)
{
	const size_t pages = 1024;
	uint8_t *p = memory(pages);
	uint64_t before = values;

	assert_int_equal(sr_exposed_add(p, pages * PAGE), SR_EXPOSED_OK);
	write_by_nic(p + 700 * PAGE + 5, "\x33", 1);
	sr_exposed_remove(p, pages * PAGE);
	assert_int_equal(values, before);
	assert_int_equal(p[700 * PAGE + 5], 0x33);
	assert_int_equal(values, before + 1);
	assert_false(sr_exposed_touches(p + 700 * PAGE, PAGE));
	assert_true(sr_exposed_touches(p + 701 * PAGE, PAGE));
	/* An argument that is no address: the search must not go on behind the last page. */
	assert_false(sr_exposed_touches((void *)-4288l, 512));
	p[3 * PAGE] = 9;
	assert_int_equal(p[3 * PAGE], 9);
	assert_int_equal(p[3 * PAGE + 7], (uint8_t)((3 * PAGE + 7) / 7));
	/* What is left of it may be registered again. */
	assert_int_equal(sr_exposed_add(p + 2 * PAGE, 2 * PAGE), SR_EXPOSED_OK);
	write_by_nic(p + 2 * PAGE, "\x44", 1);
	assert_int_equal(p[2 * PAGE], 0x44);
	sr_exposed_remove(p + 2 * PAGE, 2 * PAGE);
	assert_int_equal(p[2 * PAGE], 0x44);
	assert_int_equal(p[3 * PAGE], 9);
}

static void memory_that_is_unmapped_is_forgotten(void **state)
{
	uint8_t *p = memory(3);

	assert_int_equal(sr_exposed_add(p, 3 * PAGE), SR_EXPOSED_OK);
	assert_int_equal(p[PAGE + 70], (uint8_t)((PAGE + 70) / 7));
	sr_exposed_forget(p + PAGE, PAGE);
	mmap(p + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	p[PAGE + 70] = 5;
	sr_exposed_remove(p, 3 * PAGE);
	assert_int_equal(p[PAGE + 70], 5);
	assert_int_equal(p[PAGE + 71], 0);
	assert_int_equal(p[2 * PAGE + 9], (uint8_t)((2 * PAGE + 9) / 7));
}

/* As MPICH's windows are; the second one lies across a multiple of a GiB. */
static void a_program_may_choose_any_address(void **state)
{
	/* The others lie between mappings of the module's own, and between those of the shim. */
	static const uintptr_t at[] = {0x252460016000, 0x072f80000000 - PAGE, 0x67b42f1d1000, 0x6800409c0000, 0x6c2460016000,
				       0x75f460016000, 0x7d4460016000};

	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
		volatile uint8_t *p = mmap((void *)at[i], 2 * PAGE, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		assert_ptr_equal((void *)p, (void *)at[i]);
		p[PAGE - 1] = 3;
		assert_int_equal(sr_exposed_add((void *)p, 2 * PAGE), SR_EXPOSED_OK);
		assert_int_equal(p[PAGE - 1], 3);
		*(uint8_t *)sr_exposed_backing((void *)(p + PAGE)) = 4;
		assert_int_equal(p[PAGE], 4);
		p[PAGE] = 5;
		sr_exposed_remove((void *)p, 2 * PAGE);
		assert_int_equal(p[PAGE], 5);
		munmap((void *)p, 2 * PAGE);
	}
}

/* The program has its own memory where the backing mapping, or the shadow copy, would be. */
static void memory_of_the_program_is_not_mapped_over(void **state)
{
	static const uintptr_t bases[] = {BACKING_BASE, SHADOW_BASE};

	for (size_t i = 0; i < 2; i++) {
		uint8_t *p = memory(3), *q;
		uintptr_t there = bases[i] + offset_of((uintptr_t)p + PAGE);

		q = mmap((void *)there, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		assert_ptr_equal(q, (void *)there);
		*q = 7;
		assert_int_equal(sr_exposed_add(p, 3 * PAGE), SR_EXPOSED_REFUSED_ADDRESS);
		assert_int_equal(*q, 7);
		assert_int_equal(p[PAGE], (uint8_t)(PAGE / 7));
		assert_false(sr_exposed_is_alias(q));
		munmap(q, PAGE);
		assert_int_equal(sr_exposed_add(p, 3 * PAGE), SR_EXPOSED_OK);
		assert_int_equal(p[PAGE], (uint8_t)(PAGE / 7));
		sr_exposed_remove(p, 3 * PAGE);
		munmap(p, 3 * PAGE);
	}
}

/* As ibv_reg_mr does after ibv_fork_init: the page is a mapping of its own then, which is not named as a stack. */
static void a_page_of_the_stack_is_refused_when_it_was_split_off(void **state)
{
	uint8_t here[4 * PAGE];
	uint8_t *page = (uint8_t *)(((uintptr_t)here + 2 * PAGE) & ~(uintptr_t)(PAGE - 1));

	page[0] = 7;
	assert_int_equal(madvise(page, PAGE, MADV_DONTFORK), 0);
	assert_int_equal(sr_exposed_add(page, 96), SR_EXPOSED_REFUSED_STACK);
	assert_int_equal(madvise(page, PAGE, MADV_DOFORK), 0);
	assert_int_equal(page[0], 7);
}

static void what_cannot_be_a_exposed_is_refused(void **state)
{
	uint8_t here[10], *constant, *end;

	constant = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(sr_exposed_add(constant, PAGE), SR_EXPOSED_REFUSED_READ_ONLY);
	assert_int_equal(sr_exposed_add(here, sizeof(here)), SR_EXPOSED_REFUSED_STACK);
	assert_int_equal(sr_exposed_add((void *)0x400000000000, PAGE), SR_EXPOSED_REFUSED_UNMAPPED);
	assert_int_equal(sr_exposed_add(NULL, SIZE_MAX), SR_EXPOSED_REFUSED_ADDRESS);
	/* Half of it is: nothing has changed then. */
	end = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(end + 2 * PAGE, PAGE);
	assert_int_equal(sr_exposed_add(end, 3 * PAGE), SR_EXPOSED_REFUSED_UNMAPPED);
	assert_ptr_equal(sr_exposed_backing(end), end);
	end[0] = 1;
}

/* Memory was unmapped while it was registered, and a region of others' is there when the old one ends. */
static void a_region_that_was_forgotten_ends(void **state)
{
	volatile uint8_t *p = memory(3), *q = p + PAGE;

	for (int whole = 0; whole < 2; whole++) {
		uint8_t *old = (uint8_t *)q + (whole ? 0 : 100);
		size_t length = whole ? PAGE : 100;

		assert_int_equal(sr_exposed_add(old, length), SR_EXPOSED_OK);
		sr_exposed_forget((void *)q, PAGE);
		assert_ptr_equal(mmap((void *)q, PAGE, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), q);
		if (whole)
			assert_int_equal(sr_exposed_add((void *)(q + 8), 64), SR_EXPOSED_OK);
		else
			assert_int_equal(sr_exposed_add((void *)p, 3 * PAGE), SR_EXPOSED_OK);
		sr_exposed_remove(old, length);
		/* The new one goes on. */
		write_by_nic((void *)(q + 20), "\x5b", 1);
		values = 0;
		sr_exposed_observe();
		assert_int_equal(q[20], 0x5b);
		assert_int_equal(values, 1);
		if (whole)
			sr_exposed_remove((void *)(q + 8), 64);
		else
			sr_exposed_remove((void *)p, 3 * PAGE);
		assert_false(sr_exposed_touches((void *)p, 3 * PAGE));
	}
	/* Both have a part, but not the same. */
	assert_int_equal(sr_exposed_add((void *)(q + 200), 50), SR_EXPOSED_OK);
	sr_exposed_forget((void *)q, PAGE);
	assert_ptr_equal(mmap((void *)q, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 q);
	assert_int_equal(sr_exposed_add((void *)(q + 300), 50), SR_EXPOSED_OK);
	sr_exposed_remove((void *)(q + 200), 50);
	assert_true(sr_exposed_touches((void *)q, PAGE));
	sr_exposed_remove((void *)(q + 300), 50);
	assert_false(sr_exposed_touches((void *)q, PAGE));
}

/* As many as a device may have, of one buffer. */
static void regions_are_counted_beyond_16_bits(void **state)
{
	volatile uint8_t *p = memory(1);
	uint64_t faults;

	for (uint32_t i = 0; i < 65536; i++)
		assert_int_equal(sr_exposed_add((void *)(p + 32), 64), SR_EXPOSED_OK);
	have_threads(true);
	values = 0;
	write_by_nic((void *)(p + 40), "\x5c", 1);
	faults = sr_exposed_faults();
	assert_int_equal(p[40], 0x5c);
	assert_int_equal(sr_exposed_faults(), faults + 1);
	assert_int_equal(values, 1);
	for (uint32_t i = 0; i < 65536; i++) {
		assert_true(sr_exposed_touches((void *)p, PAGE));
		sr_exposed_remove((void *)(p + 32), 64);
	}
	have_threads(false);
	assert_false(sr_exposed_touches((void *)p, PAGE));
}

/*
 * The last sample of a large region is left out. What a peer wrote there is not lost for a
 * program that registers a part of it later.
 */
static void what_a_large_region_leaves_is_seen(void **state)
{
	const size_t pages = 600;
	volatile uint8_t *p = memory(pages), *q = p + 10 * PAGE;

	memset((void *)p, 1, pages * PAGE);
	assert_int_equal(sr_exposed_add((void *)p, pages * PAGE), SR_EXPOSED_OK);
	assert_int_equal(q[8], 1);
	sr_exposed_observe();
	write_by_nic((void *)(q + 8), "\x77", 1);
	write_by_nic((void *)(q + 1024), "\x78", 1);
	sr_exposed_remove((void *)p, pages * PAGE);
	values = 0;
	assert_int_equal(sr_exposed_add((void *)q, 64), SR_EXPOSED_OK);
	sr_exposed_observe();
	assert_int_equal(q[8], 0x77);
	assert_int_equal(q[1024], 0x78);
	assert_int_equal(values, 2);
	sr_exposed_remove((void *)q, 64);
}

/* The content of memory when it becomes an exposed region is no value; only later changes are. */
static void what_was_there_before_is_not_new(void **state)
{
	uint8_t *p = memory(5);
	volatile uint8_t *v = p; /* each load where it stands */

	own = true;
	assert_int_equal(sr_exposed_add(p, 5 * PAGE), SR_EXPOSED_OK);
	own = false;
	write_by_nic(p + PAGE + 8, "abc", 3);
	write_by_nic(p + 2 * PAGE + 8, "def", 3);
	values = 0;
	assert_int_equal(v[70], 10);
	assert_int_equal(values, 0);
	/* Loaded and stored to for the first time. */
	assert_int_equal(v[PAGE + 8], 'a');
	assert_int_equal(values, 1);
	v[2 * PAGE + 100] = 7;
	assert_int_equal(values, 2);
	assert_int_equal(v[2 * PAGE + 8], 'd');
	assert_int_equal(v[2 * PAGE + 100], 7);
	/* A store to a page as it was brings nothing, nor does the load behind it. */
	v[3 * PAGE + 100] = 9;
	assert_int_equal(v[3 * PAGE + 100], 9);
	assert_int_equal(v[3 * PAGE + 70], (uint8_t)((3 * PAGE + 70) / 7));
	assert_int_equal(values, 2);
	/* What was never sampled is sampled at the end. */
	write_by_nic(p + 4 * PAGE + 8, "ghi", 3);
	sr_exposed_remove(p, 5 * PAGE);
	assert_int_equal(values, 3);
	assert_ptr_equal(last.addr, p + 4 * PAGE);
	munmap(p, 5 * PAGE);
}

/* A page of which a region is left has been written to by the NIC, who knows when. */
static void what_another_region_has_had_is_new(void **state)
{
	uint8_t *p = memory(600);
	volatile uint8_t *v = p;

	/* So large that its pages stay, when it ends, until they are touched. */
	assert_int_equal(sr_exposed_add(p, 600 * PAGE), SR_EXPOSED_OK);
	sr_exposed_remove(p, 600 * PAGE);
	own = true;
	assert_int_equal(sr_exposed_add(p, PAGE), SR_EXPOSED_OK);
	values = 0;
	(void)v[100];
	assert_int_equal(values, 1);
	sr_exposed_remove(p, PAGE);
	/* Nor is what was taken out of a region while a device can write there, from then on. */
	assert_int_equal(sr_exposed_add(p, PAGE), SR_EXPOSED_OK);
	sr_exposed_give_up(p, PAGE);
	assert_int_equal(sr_exposed_add(p, PAGE), SR_EXPOSED_OK);
	own = false;
	values = 0;
	(void)v[100];
	assert_int_equal(values, 1);
	sr_exposed_remove(p, PAGE);
	sr_exposed_forget(p, 600 * PAGE);
	munmap(p, 600 * PAGE);
}

/* ld.so compares a name with those of its libraries, which may be others in a replay: only its loads are not counted. */
static void loads_of_the_loader_have_no_numbers(void **state)
{
	extern const char loader_begins[], loader_ends[];
	uint8_t *p = memory(1);
	uint64_t word, faults;
	char vectors[3][16];

	memcpy(p + 64, "/usr/lib/libnone.so.1 and more", 31);
	assert_int_equal(sr_exposed_add(p, PAGE), SR_EXPOSED_OK);
	have_threads(true);
	faults = sr_exposed_faults();
	loaders_code = (uintptr_t)loader_begins;
	loaders_bytes = (size_t)(loader_ends - loader_begins);
	for (int i = 0; i < 300; i++)
		__asm__ volatile("loader_begins:\n\t"
				 "mov (%1), %0\n\t"
				 "movdqu (%1), %%xmm0\n\t"
				 "movlpd (%1), %%xmm1\n\t"
				 "movhpd 8(%1), %%xmm1\n\t"
				 "pcmpeqd %%xmm2, %%xmm2\n\t"
				 "pand (%1), %%xmm2\n\t"
				 "loader_ends:\n\t"
				 "movdqu %%xmm0, (%2)\n\t"
				 "movdqu %%xmm1, 16(%2)\n\t"
				 "movdqu %%xmm2, 32(%2)"
				 : "=&r"(word)
				 : "r"(p + 64), "r"(vectors)
				 : "xmm0", "xmm1", "xmm2", "memory");
	assert_int_equal(sr_exposed_faults(), faults);
	assert_memory_equal(&word, "/usr/lib", 8);
	for (int i = 0; i < 3; i++)
		assert_memory_equal(vectors[i], "/usr/lib/libnone", 16);
	loaders_bytes = 0;
	assert_int_equal(*(volatile uint8_t *)(p + 64), '/');
	assert_int_equal(sr_exposed_faults(), faults + 1);
	have_threads(false);
	sr_exposed_remove(p, PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(loads_of_the_loader_have_no_numbers),
	    cmocka_unit_test(a_region_keeps_what_was_in_it),
	    cmocka_unit_test(regions_overlap),
	    cmocka_unit_test(what_was_there_before_is_not_new),
	    cmocka_unit_test(what_another_region_has_had_is_new),
	    cmocka_unit_test(a_value_is_recorded_once),
	    cmocka_unit_test(a_region_of_two_mappings_comes_back),
	    cmocka_unit_test(a_large_region_ends_page_by_page),
	    cmocka_unit_test(memory_that_is_unmapped_is_forgotten),
	    cmocka_unit_test(a_program_may_choose_any_address),
	    cmocka_unit_test(memory_of_the_program_is_not_mapped_over),
	    cmocka_unit_test(a_page_of_the_stack_is_refused_when_it_was_split_off),
	    cmocka_unit_test(what_cannot_be_a_exposed_is_refused),
	    cmocka_unit_test(a_region_that_was_forgotten_ends),
	    cmocka_unit_test(regions_are_counted_beyond_16_bits),
	    cmocka_unit_test(what_a_large_region_leaves_is_seen),
	};

	return cmocka_run_group_tests_name("regions", tests, set_up, NULL);
}
