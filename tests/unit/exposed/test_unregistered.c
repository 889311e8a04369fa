/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_unregistered.c: unregistered bytes on partially registered pages, which are the
 * program's own.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/exposed/fixture.h"

/* Whether another thread registers a buffer or not: this one frees what is behind it. */
static void what_malloc_has_between_buffers_is_beside(void **state)
{
	volatile uint64_t *p = (void *)memory(1);
	uint64_t faults;

	assert_int_equal(sr_exposed_add((void *)(p + 100), 8), SR_EXPOSED_OK);
	have_threads(true);
	faults = sr_exposed_faults();
	/* As of malloc(24). */
	for (int i = 0; i < 2; i++) {
		p[3] |= 1;
		(void)p[3];
		assert_int_equal(sr_exposed_faults(), faults);
		if (i)
			break;
		assert_int_equal(sr_exposed_add((void *)p, 24), SR_EXPOSED_OK);
	}
	have_threads(false);
	sr_exposed_remove((void *)p, 24);
	sr_exposed_remove((void *)(p + 100), 8);
}

/* Whether another thread registers something there or not: this one copies and clears what is beside it. */
static void strings_beside_a_region_are_not_counted(void **state)
{
	volatile char *p = (void *)memory(2);
	void *to = (void *)(p + 512), *from = (void *)(p + 256);
	size_t n = 100;
	uint64_t faults;

	memset(from, 'a', n);
	assert_int_equal(sr_exposed_add((void *)(p + 1024), 8), SR_EXPOSED_OK);
	have_threads(true);
	faults = sr_exposed_faults();
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	assert_int_equal(p[512 + 99], 'a');
	to = (void *)(p + 600);
	n = PAGE;
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"('b') : "memory");
	assert_int_equal(p[600 + PAGE - 1], 'b');
	assert_int_equal(p[599], 'a');
	/* The second string's bytes of the first page cover the region. */
	assert_int_equal(sr_exposed_faults(), faults + 1);
	have_threads(false);
	sr_exposed_remove((void *)(p + 1024), 8);
	assert_int_equal(p[1024], 'b');
}

/* A thread that computes there comes to its end, since the page is opened for it. */
static void who_computes_beside_a_region_is_given_the_page(void **state)
{
	volatile uint32_t *p = (void *)memory(1);
	struct sr_exposed_counts before, after;

	assert_int_equal(sr_exposed_add((void *)p, 100), SR_EXPOSED_OK);
	have_threads(true);
	sr_exposed_get_counts(&before);
	for (uint32_t i = 0; i < 65536 + 100; i++)
		p[256] = i;
	assert_int_equal(p[256], 65536 + 99);
	sr_exposed_get_counts(&after);
	assert_int_equal(after.pass_throughs, before.pass_throughs + 1);
	have_threads(false);
	sr_exposed_remove((void *)p, 100);
	assert_int_equal(p[256], 65536 + 99);
}

/* A second region on a page makes nothing known of what a first one, which has the whole page, was brought. */
static void what_a_whole_region_has_is_not_the_programs_own(void **state)
{
	volatile uint8_t *p = memory(1);

	assert_int_equal(sr_exposed_add((void *)p, PAGE), SR_EXPOSED_OK);
	have_threads(true);
	(void)p[0];
	write_by_nic((void *)(p + 100), "\x5a", 1);
	values = 0;
	assert_int_equal(sr_exposed_add((void *)(p + 90), 20), SR_EXPOSED_OK);
	sr_exposed_observe();
	assert_int_equal(p[100], 0x5a);
	assert_int_equal(values, 1);
	assert_ptr_equal(last.addr, p + 100);
	have_threads(false);
	sr_exposed_remove((void *)(p + 90), 20);
	sr_exposed_remove((void *)p, PAGE);
}

/* A thread that waits there for a peer loads some million times, and is not given the page. */
static void who_polls_beside_others_is_not_given_the_page(void **state)
{
	volatile uint32_t *p = (void *)memory(1);
	struct sr_exposed_counts before, after;

	assert_int_equal(sr_exposed_add((void *)p, 100), SR_EXPOSED_OK);
	have_threads(true);
	sr_exposed_get_counts(&before);
	for (uint32_t i = 0; i < 300000; i++)
		(void)p[3];
	sr_exposed_get_counts(&after);
	assert_int_equal(after.snapshots, before.snapshots);
	for (uint32_t i = 0; i < 2 * 65536; i++)
		(void)p[3 + i % 2];
	sr_exposed_get_counts(&after);
	assert_int_equal(after.snapshots, before.snapshots + 1);
	have_threads(false);
	sr_exposed_remove((void *)p, 100);
}

/* A list leads to unmapped memory: the program faults, as it would without exposed regions. */
static void what_is_copied_may_end_in_nothing(void **state)
{
	uint8_t *p = memory(2), to[64];
	int status, ended = 0;
	pid_t child;

	assert_int_equal(sr_exposed_add(p + 100, 100), SR_EXPOSED_OK);
	munmap(p + PAGE, PAGE);
	child = fork();
	if (!child) {
		sr_exposed_copy(p + PAGE - 16, to, 32);
		_exit(0);
	}
	for (int i = 0; i < 500 && !(ended = waitpid(child, &status, WNOHANG)); i++)
		usleep(10000);
	if (!ended)
		kill(child, SIGKILL);
	assert_int_equal(ended, child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
	sr_exposed_remove(p + 100, 100);
}

/*
 * A call's argument is read at once, unless a region covers some of it or the page has
 * nothing else.
 */
static void what_lies_beside_regions_is_copied(void **state)
{
	volatile uint8_t *p = memory(2);
	char to[16] = "";
	uint64_t faults;

	p[8] = 'a';
	assert_false(sr_exposed_copy_unregistered((void *)p, to, 16));
	assert_int_equal(sr_exposed_add((void *)(p + 1024), PAGE - 1024 + 64), SR_EXPOSED_OK);
	have_threads(true);
	p[8] = 'b';
	faults = sr_exposed_faults();
	assert_true(sr_exposed_copy_unregistered((void *)p, to, 16));
	assert_int_equal(to[8], 'b');
	assert_int_equal(sr_exposed_faults(), faults);
	to[8] = 'c';
	assert_false(sr_exposed_copy_unregistered((void *)(p + 1016), to, 16));
	assert_false(sr_exposed_copy_unregistered((void *)(p + 1024), to, 16));
	/* From the end of one page to the next one. */
	assert_false(sr_exposed_copy_unregistered((void *)(p + PAGE - 8), to, 16));
	assert_int_equal(to[8], 'c');
	assert_true(sr_exposed_copy_unregistered((void *)(p + PAGE + 128), to, 16));
	have_threads(false);
	sr_exposed_remove((void *)(p + 1024), PAGE - 1024 + 64);
	assert_false(sr_exposed_copy_unregistered((void *)p, to, 16));
}

/* The threads' words beside a region stay right, whatever happens to the region. */
#define BESIDE_WORDS 4
static atomic_bool beside_ends;

static void *count_unregistered(void *arg)
{
	uint64_t *word = arg, n = 0;

	for (; !beside_ends; n++) {
		uint64_t was = __atomic_fetch_add(&word[0], 1, __ATOMIC_SEQ_CST);

		assert_true(was == n);
		((volatile uint64_t *)word)[1] = n;
		assert_true(((volatile uint64_t *)word)[1] == n);
		assert_true(__sync_bool_compare_and_swap(&word[2], n, n + 1));
		memcpy(&word[3], &word[2], 8);
		assert_true(((volatile uint64_t *)word)[3] == n + 1);
	}
	return (void *)n;
}

static void others_go_on_beside_regions_that_come_and_go(void **state)
{
	uint8_t *p = memory(2);
	uint64_t *words = (uint64_t *)(p + PAGE - 3 * 8 * BESIDE_WORDS), seed = 1;
	pthread_t t[3];
	void *n;

	memset(p, 0, 2 * PAGE);
	have_threads(true);
	beside_ends = false;
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, count_unregistered, words + i * BESIDE_WORDS);
	for (int round = 0; round < 3000; round++) {
		struct {
			uint8_t *addr;
			size_t length;
		} r[4];

		for (int i = 0; i < 4; i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			r[i].addr = p + (seed >> 33) % 2000;
			r[i].length = 1 + (seed >> 50) % 1500;
			/* Over the threads' words, too. */
			if (round % 5 == 0 && i == 3)
				r[i].length = PAGE;
			assert_int_equal(sr_exposed_add(r[i].addr, r[i].length), SR_EXPOSED_OK);
		}
		for (int i = 0; i < 4; i++)
			sr_exposed_remove(r[(i + round) % 4].addr, r[(i + round) % 4].length);
	}
	beside_ends = true;
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i], &n);
		assert_int_equal(words[i * BESIDE_WORDS], (uint64_t)n);
	}
	have_threads(false);
	assert_false(sr_exposed_touches(p, 2 * PAGE));
}

static void tick_at(ucontext_t *uc)
{
	siginfo_t info = {.si_signo = SIGSEGV, .si_code = SI_TIMER, .si_ptr = (void *)SR_EXPOSED_TICK_VALUE};

	assert_true(sr_exposed_fault(&info, uc));
}

/* On a machine that takes the processor away, a tick comes as soon as the last one has ended. */
static void who_has_not_gone_on_since_the_last_tick_does_not_wait(void **state)
{
	volatile uint8_t *p = memory(1);
	struct sr_exposed_counts before, after;
	ucontext_t here = {0}, on = {0};
	sigset_t real;
	int sum = 0;

	sigemptyset(&real);
	sigaddset(&real, SIGSEGV);
	on.uc_mcontext.gregs[REG_RAX] = 1;
	assert_int_equal(sr_exposed_add((void *)p, PAGE), SR_EXPOSED_OK);
	sr_exposed_get_counts(&before);
	for (int i = 0; i < 64; i++)
		sum += p[64 * i];
	sr_exposed_get_counts(&after);
	assert_int_equal(after.snapshots, before.snapshots + 1);
	write_by_nic((void *)(p + 8), "new", 3);
	sigprocmask(SIG_BLOCK, &real, NULL);
	tick_at(&here);
	tick_at(&here);
	tick_at(&here);
	sr_exposed_get_counts(&after);
	assert_int_equal(after.ticks, before.ticks);
	/* A loop that comes back to it does. */
	tick_at(&on);
	tick_at(&here);
	sr_exposed_get_counts(&after);
	assert_int_equal(after.ticks, before.ticks + 1);
	sigprocmask(SIG_UNBLOCK, &real, NULL);
	assert_true(sum > 0);
	sr_exposed_observe();
	sr_exposed_remove((void *)p, PAGE);
}

struct __attribute__((packed)) over_two {
	uint64_t word;
	uint8_t bytes[16];
};

/* ... nor does what lies over two such pages, or over one and other memory. */
static void operands_over_two_pages_are_done_alone(void **state)
{
	struct sr_exposed_counts before, after;
	uint8_t *p = memory(3);

	assert_int_equal(sr_exposed_add(p + PAGE, 100), SR_EXPOSED_OK);
	for (int both = 0; both < 2; both++) {
		if (both)
			assert_int_equal(sr_exposed_add(p + 10, 100), SR_EXPOSED_OK);
		have_threads(true);
		sr_exposed_get_counts(&before);
		for (uint64_t at = 1; at < 24; at++) {
			volatile struct over_two *w = (void *)(p + PAGE - at);
			uint8_t bytes[16];

			w->word = 0x0807060504030201ull * at;
			assert_int_equal(w->word, 0x0807060504030201ull * at);
			memset(bytes, (int)at, 16);
			memcpy((void *)w->bytes, bytes, 16);
			assert_memory_equal((void *)w->bytes, bytes, 16);
			*(uint64_t *)((char *)sr_exposed_backing(p + PAGE)) = at;
			assert_int_equal(*(volatile uint64_t *)(p + PAGE), at);
		}
		sr_exposed_get_counts(&after);
		assert_int_equal(after.snapshots, before.snapshots);
		assert_int_equal(after.pass_throughs, before.pass_throughs);
		have_threads(false);
	}
	sr_exposed_remove(p + PAGE, 100);
	sr_exposed_remove(p + 10, 100);
}

/* What another thread's call is given stays where it is, and is not opened to this one. */
static void calls_are_given_aliases_of_common_pages(void **state)
{
	volatile uint32_t *p = (void *)memory(2);
	uint32_t *alias;
	uint64_t before;

	assert_int_equal(sr_exposed_add((void *)p, 100), SR_EXPOSED_OK);
	assert_null(sr_exposed_alias((void *)p, 8));
	have_threads(true);
	assert_null(sr_exposed_alias((void *)(p + PAGE / 4 - 1), 8));
	alias = sr_exposed_alias((void *)p, 8);
	assert_non_null(alias);
	assert_true(sr_exposed_is_alias(alias));
	*alias = 77;
	before = sr_exposed_faults();
	assert_int_equal(*p, 77);
	p[1] = 78;
	assert_int_equal(sr_exposed_faults(), before + 2);
	assert_int_equal(alias[1], 78);
	/* The region ends meanwhile. */
	sr_exposed_remove((void *)p, 100);
	alias[0] = 79;
	before = sr_exposed_faults();
	assert_int_equal(p[0], 79);
	p[2] = 80;
	assert_int_equal(alias[2], 80);
	values = 0;
	assert_ptr_equal(sr_exposed_unalias(alias, 8), p);
	assert_int_equal(p[0], 79);
	/* For how long the other call was given it is not seen in what is counted. */
	assert_int_equal(sr_exposed_faults(), before);
	assert_int_equal(values, 0);
	have_threads(false);
	assert_false(sr_exposed_touches((void *)p, 8));
}

/* More loads than a program that ends has, and one more within a call. */
static void a_call_is_given_a_shared_page_whatever_was_before_it(void **state)
{
	volatile uint32_t *p = (void *)memory(1);
	uint32_t *alias;

	assert_int_equal(sr_exposed_add((void *)p, 100), SR_EXPOSED_OK);
	have_threads(true);
	/* Another thread's call, which is over when this one does something, waits there. */
	alias = sr_exposed_alias((void *)p, 8);
	assert_non_null(alias);
	for (uint32_t i = 0; i < 65536 + 10; i++)
		p[2 + i % 4] = i;
	sr_exposed_call_begins();
	alarm(10); /* The store came again and again. */
	p[0] = 77;
	alarm(0);
	sr_exposed_call_ends();
	assert_int_equal(*alias, 77);
	sr_exposed_unalias(alias, 8);
	have_threads(false);
	sr_exposed_remove((void *)p, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_malloc_has_between_buffers_is_beside),
	    cmocka_unit_test(strings_beside_a_region_are_not_counted),
	    cmocka_unit_test(who_computes_beside_a_region_is_given_the_page),
	    cmocka_unit_test(what_a_whole_region_has_is_not_the_programs_own),
	    cmocka_unit_test(what_is_copied_may_end_in_nothing),
	    cmocka_unit_test(others_go_on_beside_regions_that_come_and_go),
	    cmocka_unit_test(who_has_not_gone_on_since_the_last_tick_does_not_wait),
	    cmocka_unit_test(operands_over_two_pages_are_done_alone),
	    cmocka_unit_test(who_polls_beside_others_is_not_given_the_page),
	    cmocka_unit_test(what_lies_beside_regions_is_copied),
	    cmocka_unit_test(calls_are_given_aliases_of_common_pages),
	    cmocka_unit_test(a_call_is_given_a_shared_page_whatever_was_before_it),
	};

	return cmocka_run_group_tests_name("beside", tests, set_up, NULL);
}
