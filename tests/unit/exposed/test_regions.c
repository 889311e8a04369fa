/* SPDX-License-Identifier: BSD-2-Clause */
/* test_regions.c: what becomes an exposed region, what it costs the program's memory, and every instruction.
 */
#include <pthread.h>
#include <sched.h>
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

#include "tests/unit/exposed/simulator.h"

#define PAGE 4096ul

static struct {
	uintptr_t addr;
	uint32_t length;
	uint8_t data[PAGE];
} last;
static volatile uint64_t values; /* counted in the handler */

/* A clock that the NIC leaves in front of its data, and one of the program's own. */
static _Atomic uint64_t nics_clock, own_clock;
static uint64_t clock_seen;

static void look(void)
{
	clock_seen = atomic_load(&nics_clock);
}

static bool threads;

static bool has_threads(void)
{
	return threads;
}

static void have_threads(bool have)
{
	threads = have;
	/* Faults are counted from here. */
	sr_exposed_call_begins();
	sr_exposed_call_ends();
}

static bool own;

static bool is_its_own(const void *addr, size_t length)
{
	return own;
}

static void begin_store(void)
{
	atomic_fetch_add(&own_clock, 1);
}

static void note(const struct sr_exposed_event *e)
{
	for (uint32_t i = 0; i < e->values_n; i++) {
		last.addr = e->values[i].addr;
		last.length = e->values[i].length;
		memcpy(last.data, e->values[i].data, e->values[i].length);
		values++;
	}
}

static uint8_t *memory(size_t pages)
{
	uint8_t *p =
	    mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	take_faults();
	for (size_t i = 0; i < pages * PAGE; i++)
		p[i] = (uint8_t)(i / 7);
	return p;
}

/* As the NIC does: nothing of it passes by the CPU's view. */
static void write_by_nic(const void *p, const void *data, size_t n)
{
	memcpy(sr_exposed_backing(p), data, n);
}

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
	/* Its own stores are none. */
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

static void what_cannot_be_a_exposed_is_refused(void **state)
{
	uint8_t here[10], *shared, *end;

	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(sr_exposed_add(shared, PAGE), SR_EXPOSED_REFUSED_SHARED);
	assert_int_equal(sr_exposed_add(here, sizeof(here)), SR_EXPOSED_REFUSED_STACK);
	assert_int_equal(sr_exposed_add((void *)0x400000000000, PAGE), SR_EXPOSED_REFUSED_ADDRESS);
	assert_int_equal(sr_exposed_add(NULL, SIZE_MAX), SR_EXPOSED_REFUSED_ADDRESS);
	/* Half of it is: nothing has changed then. */
	end = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(end + 2 * PAGE, PAGE);
	assert_int_equal(sr_exposed_add(end, 3 * PAGE), SR_EXPOSED_REFUSED_UNMAPPED);
	assert_ptr_equal(sr_exposed_backing(end), end);
	end[0] = 1;
}

/*
 * Each instruction on an exposed region and on plain memory, from the same registers:
 * results, flags and memory must be the same.
 */
#define FLAGS "pushfq; popq %1;"
#define BOTH(insn)                                                                                 \
	do {                                                                                       \
		for (int v = 0; v < 64; v++) {                                                     \
			uint64_t r[2] = {0x8877665544332211ull * (unsigned)v + 3}, f[2], a[2];     \
			uint64_t x = 0x0123456789abcdefull * (unsigned)(v * 5 + 1);                \
                                                                                                   \
			r[1] = r[0];                                                               \
			a[0] = a[1] = v & 1 ? x : r[0] >> v;                                       \
			for (int w = 0; w < 2; w++) {                                              \
				uint8_t *m = w ? window : plain;                                   \
                                                                                                   \
				sr_exposed_observe();                                               \
				memcpy(w ? sr_exposed_backing(m + 24) : m + 24, &x, 8);             \
				__asm__ volatile("lea -128(%%rsp), %%rsp; xorl %%r8d, %%r8d;" insn \
						 "; " FLAGS "lea 128(%%rsp), %%rsp"                \
						 : "+b"(r[w]), "=&r"(f[w]), "+a"(a[w])             \
						 : "D"(m), "S"(3ul)                                \
						 : "rcx", "r8", "xmm0", "xmm1", "xmm8", "xmm9", "cc", "memory");                          \
			}                                                                          \
			assert_int_equal(r[0], r[1]);                                              \
			assert_int_equal(a[0], a[1]);                                              \
			assert_int_equal(f[0] & 0x8d5, f[1] & 0x8d5);                              \
			assert_memory_equal(plain, sr_exposed_backing(window), 64);                 \
		}                                                                                  \
	} while (0)

static void run_every_instruction(uint8_t *window)
{
	static _Alignas(64) uint8_t plain[64];

	memcpy(plain, sr_exposed_backing(window), 64);
	BOTH("movq 24(%3), %0");
	BOTH("movl (%3,%4,8), %k0");
	BOTH("movw 24(%3), %w0");
	BOTH("movb 24(%3), %b0");
	BOTH("movb 24(%3), %%bh");
	BOTH("movzbl 24(%3), %k0");
	BOTH("movzwq 24(%3), %0");
	BOTH("movsbw 24(%3), %w0");
	BOTH("movswq 24(%3), %0");
	BOTH("movslq 24(%3), %0");
	BOTH("movq %0, 24(%3)");
	BOTH("movl %k0, 24(%3)");
	BOTH("movw %w0, 24(%3)");
	BOTH("movb %%bh, 24(%3)");
	BOTH("movb $-2, 24(%3)");
	BOTH("movw $-2, 24(%3)");
	BOTH("movq $-2, 24(%3)");
	BOTH("cmpq %0, 24(%3)");
	BOTH("cmpl 24(%3), %k0");
	BOTH("cmpb $7, 24(%3)");
	BOTH("cmpw $0x1234, 24(%3)");
	BOTH("cmpq $-5, 24(%3)");
	BOTH("testl $0x12345678, 24(%3)");
	BOTH("testb $8, 24(%3)");
	BOTH("testq %0, 24(%3)");
	BOTH("addq %0, 24(%3)");
	BOTH("lock addl %k0, 24(%3)");
	BOTH("lock xaddq %0, 24(%3)");
	BOTH("xchgq %0, 24(%3)");
	BOTH("xchgb %b0, 24(%3)");
	BOTH("lock cmpxchgq %0, 24(%3)");
	BOTH("lock cmpxchgl %k0, 24(%3)");
	BOTH("stc; adcl $5, 24(%3)");
	BOTH("lock btsq $13, 24(%3)");
	BOTH("lock incw 24(%3)");
	BOTH("decb 24(%3)");
	BOTH("notq 24(%3)");
	BOTH("negl 24(%3)");
	BOTH("lock orl $0x100, (%3,%4,8)");
	BOTH("shlq $3, 24(%3)");
	BOTH("sarw 24(%3)");
	BOTH("movb $3, %%cl; rorl %%cl, 24(%3)");
	BOTH("shldq $7, %0, 24(%3)");
	BOTH("cmpq %0, %2; setc 24(%3)");
	/* What computes with memory and leaves it as it is. */
	BOTH("imulq 24(%3), %0");
	BOTH("imull $77, 24(%3), %k0");
	BOTH("addq 24(%3), %0");
	BOTH("subb 24(%3), %%bh");
	BOTH("stc; sbbl (%3,%4,8), %k0");
	BOTH("xorw 24(%3), %w0");
	BOTH("cmpq %0, %2; cmovcq 24(%3), %0");
	BOTH("popcntq 24(%3), %0");
	BOTH("bsrl 24(%3), %k0");
	BOTH("btl $5, 24(%3)");
	BOTH("cvtsi2sdq 24(%3), %%xmm0; mulsd 32(%3), %%xmm0; addss 24(%3), %%xmm0; movq %%xmm0, %0");
	BOTH("pxor %%xmm1, %%xmm1; pcmpeqb 16(%3), %%xmm1; pmovmskb %%xmm1, %k0; movq %0, %%xmm9; paddq 16(%3), %%xmm9; "
	     "movq %%xmm9, %0");
	BOTH("movq %0, %%xmm1; pshufd $0x1b, 16(%3), %%xmm0; ucomisd 24(%3), %%xmm1; movq %%xmm0, %0");
	if (__builtin_cpu_supports("avx2")) {
		BOTH("vpxor %%xmm0, %%xmm0, %%xmm0; vpcmpeqb 9(%3), %%ymm0, %%ymm1; vpmovmskb %%ymm1, %k0; vzeroupper");
		BOTH("vpxor %%xmm8, %%xmm8, %%xmm8; vpminub (%3,%4,8), %%ymm8, %%ymm9; vpmovmskb %%ymm9, %k0; "
		     "vpermq $1, 1(%3), %%ymm9; vmovq %%xmm9, %2; vzeroupper");
		BOTH("andn 24(%3), %0, %0; shlxq %2, 24(%3), %2; rorxl $3, 24(%3), %k0");
	}
	if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
		BOTH("vpxorq %%ymm17, %%ymm17, %%ymm17; vpcmpeqb 32(%3), %%ymm17, %%k1; kmovd %%k1, %k0; "
		     "vpcmpub $1, (%3,%4,8), %%ymm17, %%k2; kmovd %%k2, %k2");
}

static void every_instruction_does_what_it_does_elsewhere(void **state)
{
	uint8_t *window = memory(1);

	assert_int_equal(sr_exposed_add(window, PAGE), SR_EXPOSED_OK);
	run_every_instruction(window);
	sr_exposed_remove(window, PAGE);
}

/* With several threads, on a page that other things share: none of them opens it. */
static void every_instruction_is_done_alone_on_a_common_page(void **state)
{
	struct sr_exposed_counts before, after;
	uint8_t *window = memory(2);

	assert_int_equal(sr_exposed_add(window, 100), SR_EXPOSED_OK);
	have_threads(true);
	sr_exposed_get_counts(&before);
	run_every_instruction(window);
	sr_exposed_get_counts(&after);
	assert_int_equal(after.snapshots, before.snapshots);
	assert_int_equal(after.pass_throughs, before.pass_throughs);
	have_threads(false);
	sr_exposed_remove(window, 100);
}

/* ... what no region has is the program's own: nothing is counted, or recorded. */
static void what_is_beside_a_region_is_the_programs_own(void **state)
{
	volatile uint32_t *p = (void *)memory(1);
	uint32_t *backing;
	uint64_t faults;

	assert_int_equal(sr_exposed_add((void *)p, 100), SR_EXPOSED_OK);
	have_threads(true);
	faults = sr_exposed_faults();
	values = 0;
	backing = sr_exposed_backing((void *)p);
	/* To the region's last piece of 8 bytes. */
	for (uint32_t i = 104 / 4; i < PAGE / 4; i++) {
		p[i] = i;
		assert_int_equal(backing[i], i);
		__atomic_fetch_add(&p[i], 3, __ATOMIC_SEQ_CST);
		backing[i]++;
		assert_int_equal(p[i], i + 4);
	}
	run_every_instruction((uint8_t *)p + 1024);
	assert_int_equal(values, 0);
	p[0] = 1;
	(void)p[100 / 4];
	assert_true(sr_exposed_faults() >= faults + 2);
	/* What lies over both is the region's. */
	faults = sr_exposed_faults();
	backing[100 / 4]++;
	assert_true(*(volatile uint64_t *)((char *)p + 100) != 0);
	assert_int_equal(sr_exposed_faults(), faults + 1);
	assert_int_equal(values, 1);
	/* A second region's bytes are what they were, and from then on others'. */
	values = 0;
	assert_int_equal(sr_exposed_add((void *)(p + 256), 16), SR_EXPOSED_OK);
	assert_int_equal(p[256], backing[256]);
	assert_int_equal(values, 0);
	assert_int_equal(sr_exposed_faults(), faults + 2);
	backing[256]++;
	assert_int_equal(p[256], backing[256]);
	assert_int_equal(values, 1);
	/* The last of them is seen when it ends. */
	backing[257]++;
	sr_exposed_remove((void *)(p + 256), 16);
	assert_int_equal(values, 2);
	backing[258]++;
	assert_int_equal(p[258], backing[258]);
	assert_int_equal(values, 2);
	have_threads(false);
	sr_exposed_remove((void *)p, 100);
	assert_int_equal(values, 2);
}

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

/* Who waits there for a peer looks some million times, and is not given the page. */
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

/* A list that goes on where nothing is: the program faults, as without exposed regions. */
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

/* What a call is given is read at once, unless a region has any of it or a page has nothing else. */
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

/* A large region's last look is left out, and what a peer wrote there is not lost to who registers a part later. */
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

/* What threads have beside a region is right whatever becomes of it meanwhile. */
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

/* On a machine whose processor is taken away, a tick comes as soon as the last one was over. */
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
	/* Who comes back does. */
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
	assert_int_equal(p[0], 79);
	assert_ptr_equal(sr_exposed_unalias(alias, 8), p);
	assert_int_equal(p[0], 79);
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

/*
 * A vector register is filled from plain memory, another one from the exposed region, and
 * stored back beside: all 64 bytes of it, for what a load clears.
 */
#define VECTOR(fill, insn, show)                                                                   \
	do {                                                                                       \
		uint8_t shown[2][64];                                                              \
                                                                                                   \
		for (int w = 0; w < 2; w++) {                                                      \
			uint8_t *m = w ? window : plain;                                           \
                                                                                                   \
			sr_exposed_observe();                                                       \
			memcpy(w ? sr_exposed_backing(m) : m, pattern, 256);                        \
			memset(shown[w], 0, 64);                                                   \
			__asm__ volatile(fill "; " insn "; " show                                  \
					 :                                                         \
					 : "D"(m), "S"(pattern + 256), "d"(shown[w])               \
					 : "xmm3", "xmm11", "xmm12", "memory");                    \
		}                                                                                  \
		assert_memory_equal(shown[0], shown[1], 64);                                       \
		assert_memory_equal(plain, sr_exposed_backing(window), 256);                        \
		sr_exposed_observe();                                                               \
		assert_memory_equal(plain, window, 256);                                           \
	} while (0)

static void count_pass_throughs(uint64_t *pass_throughs)
{
	struct sr_exposed_counts c;

	sr_exposed_get_counts(&c);
	*pass_throughs = c.pass_throughs;
}

static void vectors_are_moved_as_elsewhere(void **state)
{
	static uint8_t plain[256], pattern[512];
	uint8_t *window = memory(1);
	uint64_t before, after;

	for (int i = 0; i < 512; i++)
		pattern[i] = (uint8_t)(i * 7 + 1);
	assert_int_equal(sr_exposed_add(window, PAGE), SR_EXPOSED_OK);
	count_pass_throughs(&before);
#define SSE(insn)                                                                                  \
	VECTOR("movdqu (%1), %%xmm3; movdqu 16(%1), %%xmm11", insn,                                \
	       "movdqu %%xmm3, (%2); movdqu %%xmm11, 16(%2)")
	SSE("movdqu 5(%0), %%xmm3");
	SSE("movdqa 16(%0), %%xmm11");
	SSE("movups 33(%0), %%xmm11");
	SSE("movupd 33(%0), %%xmm3");
	SSE("movss 3(%0), %%xmm3");
	SSE("movsd 3(%0), %%xmm11");
	SSE("movd 9(%0), %%xmm3");
	SSE("movq 9(%0), %%xmm3");
	SSE("lddqu 9(%0), %%xmm3");
	SSE("movdqu %%xmm3, 5(%0)");
	SSE("movdqa %%xmm11, 32(%0)");
	SSE("movups %%xmm11, 37(%0)");
	SSE("movss %%xmm3, 37(%0)");
	SSE("movsd %%xmm3, 37(%0)");
	SSE("movd %%xmm3, 37(%0)");
	SSE("movq %%xmm11, 37(%0)");
	SSE("movntdq %%xmm11, 48(%0)");
	if (__builtin_cpu_supports("avx2")) {
#define AVX(insn)                                                                                  \
	VECTOR("vmovdqu (%1), %%ymm3; vmovdqu 32(%1), %%ymm11", insn,                              \
	       "vmovdqu %%ymm3, (%2); vmovdqu %%ymm11, 32(%2)")
		AVX("vmovdqu 5(%0), %%ymm3");
		AVX("vmovdqu 5(%0), %%xmm11");
		AVX("vmovups 140(%0), %%ymm11");
		AVX("vmovq 14(%0), %%xmm3");
		AVX("vmovdqu %%ymm3, 5(%0)");
		AVX("vmovdqu %%xmm11, 5(%0)");
		AVX("vmovups %%ymm11, 77(%0)");
		AVX("vmovq %%xmm11, 77(%0)");
		AVX("vmovdqu 9(%0), %%xmm3; vmovdqu %%ymm3, 100(%0)");
	}
	if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) {
#define AVX512(insn)                                                                               \
	VECTOR("vmovdqu64 (%1), %%zmm3; vmovdqu64 32(%1), %%zmm11; vmovdqu64 64(%1), %%zmm19",     \
	       insn, "vmovdqu64 %%zmm3, (%2); vmovdqu64 %%ymm19, (%2); vmovdqu64 %%ymm11, 32(%2)")
		AVX512("vmovdqu64 5(%0), %%zmm3");
		AVX512("vmovdqu64 5(%0), %%zmm19");
		AVX512("vmovdqu8 64(%0), %%ymm19");
		AVX512("vmovdqu64 32(%0), %%xmm19");
		AVX512("vmovdqu64 %%zmm3, 64(%0)");
		AVX512("vmovdqu8 %%ymm19, 32(%0)");
		AVX512("vmovdqu64 %%xmm19, 77(%0)");
		AVX512("vmovdqu 5(%0), %%ymm3; vmovdqu64 %%zmm3, 64(%0)");
	}
	count_pass_throughs(&after);
	assert_int_equal(after, before);
	sr_exposed_remove(window, PAGE);
}

/* rep movs and stos, over pages, from plain memory, from exposed regions, and onto themselves. */
static void strings_are_moved_as_elsewhere(void **state)
{
	static const struct {
		uint32_t to, from, bytes;
	} moves[] = {{10, 3000, 100},    {4000, 9000, 300},  {0, 4096, 8192},   {8000, 100, 4000},
		     {5000, 4990, 3000}, {4990, 5000, 3000}, {4093, 200, 8},    {200, 4093, 16},
		     {64, 63, 4096},     {1000, 1000, 50},   {3000, 3003, 5000}};
	uint8_t *window = memory(3), *plain = malloc(3 * PAGE), *aside = malloc(3 * PAGE);
	uint64_t before, after;

	for (size_t i = 0; i < 3 * PAGE; i++)
		plain[i] = aside[i] = (uint8_t)(i / 7);
	assert_int_equal(sr_exposed_add(window, 3 * PAGE), SR_EXPOSED_OK);
	count_pass_throughs(&before);
	for (size_t i = 0; i < sizeof(moves) / sizeof(*moves); i++) {
		for (int how = 0; how < 3; how++) {
			for (int w = 0; w < 2; w++) {
				uint8_t *m = w ? window : plain, *to = m + moves[i].to;
				const uint8_t *from = how == 1 ? aside : m;
				uint64_t n = moves[i].bytes;

				sr_exposed_observe();
				from += moves[i].from;
				if (how == 2)
					__asm__ volatile("rep stosb"
							 : "+D"(to), "+c"(n)
							 : "a"(i * 3 + 1)
							 : "memory");
				else
					__asm__ volatile("rep movsb"
							 : "+D"(to), "+S"(from), "+c"(n)
							 :
							 : "memory");
				assert_int_equal(n, 0);
				assert_ptr_equal(to, m + moves[i].to + moves[i].bytes);
			}
			assert_memory_equal(plain, sr_exposed_backing(window), 3 * PAGE);
			sr_exposed_observe();
			assert_memory_equal(plain, window, 3 * PAGE);
		}
	}
	count_pass_throughs(&after);
	assert_int_equal(after, before);
	/* By elements, one of which lies across two pages. */
	for (int w = 0; w < 2; w++) {
		uint8_t *to = (w ? window : plain) + PAGE - 20;
		uint64_t n = 9;

		__asm__ volatile("rep stosq"
				 : "+D"(to), "+c"(n)
				 : "a"(0x1122334455667788ull)
				 : "memory");
	}
	sr_exposed_observe();
	assert_memory_equal(plain, window, 3 * PAGE);
	sr_exposed_remove(window, 3 * PAGE);
	free(plain);
	free(aside);
}

static int set_up(void **state)
{
	static const struct sr_exposed_hooks h = {
	    .event = note, .looked = look, .storing = begin_store, .threads = has_threads,
	    .is_its_own = is_its_own};

	return sr_exposed_init(&h);
}

#define ROUNDS 1000

static atomic_bool stop;

static void *write_clock_and_data(void *p)
{
	for (uint64_t n = 1; !atomic_load(&stop); n++) {
		atomic_store(&nics_clock, n);
		atomic_store((_Atomic uint64_t *)sr_exposed_backing(p), n);
	}
	return NULL;
}

static void clocks_are_looked_at_behind_a_value_and_in_front_of_its_record(void **state)
{
	volatile uint64_t *p = (void *)memory(1);
	uint64_t n, before, found = 0;
	pthread_t nic;

	*p = 0;
	atomic_store(&nics_clock, 0);
	assert_int_equal(sr_exposed_add((void *)p, PAGE), SR_EXPOSED_OK);
	assert_int_equal(*p, 0);
	pthread_create(&nic, NULL, write_clock_and_data, (void *)p);
	while (found < ROUNDS) {
		before = values;
		sr_exposed_observe();
		n = *p;
		found += values != before;
		assert_true(values == before || clock_seen >= n);
	}
	atomic_store(&stop, true);
	pthread_join(nic, NULL);
	sr_exposed_remove((void *)p, PAGE);
}

static atomic_bool late;

/* Who sees the n-th store sees its number. */
static void *read_data_and_clock(void *p)
{
	uint64_t n = 0;

	while (n < ROUNDS) {
		n = atomic_load((_Atomic uint64_t *)sr_exposed_backing(p));
		if (atomic_load(&own_clock) < n)
			atomic_store(&late, true);
	}
	return NULL;
}

static void a_store_is_told_before_it_is_seen(void **state)
{
	volatile uint64_t *p = (void *)memory(1);
	pthread_t reader;

	*p = 0;
	assert_int_equal(sr_exposed_add((void *)p, PAGE), SR_EXPOSED_OK);
	atomic_store(&own_clock, 0);
	pthread_create(&reader, NULL, read_data_and_clock, (void *)p);
	for (uint64_t n = 1; n <= ROUNDS; n++) {
		/* Few in a row: each is done alone. */
		if (n % 4 == 0)
			sr_exposed_observe();
		*p = n;
	}
	pthread_join(reader, NULL);
	assert_false(atomic_load(&late));
	sr_exposed_remove((void *)p, PAGE);
}

#define FILLED 40
#define ALONE  16 /* stores in a row, before the page goes live */

/* What is in memory when it becomes an exposed region is no value: only what has changed by then is. */
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
	/* What was not looked at at all is, at the end. */
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

static void *fill_words(void *p)
{
	volatile uint64_t *word = p;

	for (int i = 0; i < FILLED; i++)
		word[i] = (uint64_t)i;
	return (void *)sr_exposed_faults();
}

/* While the backing mapping is held, for another thread's call, the store that would do it comes again. */
static void a_store_that_must_wait_counts_once(void **state)
{
	uint8_t *p = memory(1);
	pthread_t program;
	void *faults;

	assert_int_equal(sr_exposed_add(p, PAGE), SR_EXPOSED_OK);
	sr_exposed_hold(p);
	pthread_create(&program, NULL, fill_words, p);
	usleep(20000);
	sr_exposed_release();
	pthread_join(program, &faults);
	assert_int_equal((uintptr_t)faults, ALONE + 1);
	sr_exposed_remove(p, PAGE);
}

static void *hammer(void *p)
{
	for (uint64_t n = 1; !atomic_load_explicit(&stop, memory_order_relaxed); n++)
		for (int i = 0; i < 64; i++)
			((volatile uint64_t *)p)[i * 8] = n;
	return NULL;
}

/* Both CPUs for a moment, if that is allowed: on a busy machine few pages are caught changing. */
static void set_urgent(bool urgent)
{
	struct sched_param param = {.sched_priority = urgent};

	sched_setscheduler(0, urgent ? SCHED_FIFO : SCHED_OTHER, &param);
}

/* x87: not decoded, so the page must be frozen. */
static double load_by_x87(volatile double *p)
{
	double d;

	__asm__ volatile("fldl %1; fstpl %0" : "=m"(d) : "m"(*p));
	return d;
}

/*
 * A page that never holds still is shown as the last pass over it had it; what was frozen
 * before may not be older than that.
 */
static void a_page_that_changes_all_the_time_is_not_newer_than_another(void **state)
{
	volatile uint64_t *p = (void *)memory(2), *backing;
	struct sr_exposed_counts before, after;
	uint64_t unstable = 0;
	pthread_t nic;

	assert_int_equal(sr_exposed_add((void *)p, 2 * PAGE), SR_EXPOSED_OK);
	backing = sr_exposed_backing((void *)p);
	atomic_store(&stop, false);
	set_urgent(true);
	pthread_create(&nic, NULL, hammer, (void *)(backing + PAGE / 8));
	for (uint64_t n = 1; n <= 2000 && unstable < 3; n++) {
		sr_exposed_observe();
		load_by_x87((volatile double *)&p[3]);
		sr_exposed_get_counts(&before);
		backing[3] = n;
		load_by_x87((volatile double *)&p[PAGE / 8 + 5]);
		assert_int_equal(p[3], n);
		sr_exposed_get_counts(&after);
		unstable += after.unstable - before.unstable;
	}
	atomic_store(&stop, true);
	pthread_join(nic, NULL);
	set_urgent(false);
	if (!unstable)
		print_message("# no page was caught changing\n");
	sr_exposed_observe();
	sr_exposed_remove((void *)p, 2 * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_region_keeps_what_was_in_it),
	    cmocka_unit_test(regions_overlap),
	    cmocka_unit_test(what_was_there_before_is_not_new),
	    cmocka_unit_test(what_another_region_has_had_is_new),
	    cmocka_unit_test(a_value_is_recorded_once),
	    cmocka_unit_test(a_region_of_two_mappings_comes_back),
	    cmocka_unit_test(a_large_region_ends_page_by_page),
	    cmocka_unit_test(memory_that_is_unmapped_is_forgotten),
	    cmocka_unit_test(clocks_are_looked_at_behind_a_value_and_in_front_of_its_record),
	    cmocka_unit_test(a_store_is_told_before_it_is_seen),
	    cmocka_unit_test(a_store_that_must_wait_counts_once),
	    cmocka_unit_test(what_cannot_be_a_exposed_is_refused),
	    cmocka_unit_test(every_instruction_does_what_it_does_elsewhere),
	    cmocka_unit_test(every_instruction_is_done_alone_on_a_common_page),
	    cmocka_unit_test(what_is_beside_a_region_is_the_programs_own),
	    cmocka_unit_test(what_malloc_has_between_buffers_is_beside),
	    cmocka_unit_test(who_computes_beside_a_region_is_given_the_page),
	    cmocka_unit_test(what_a_whole_region_has_is_not_the_programs_own),
	    cmocka_unit_test(a_region_that_was_forgotten_ends),
	    cmocka_unit_test(regions_are_counted_beyond_16_bits),
	    cmocka_unit_test(what_is_copied_may_end_in_nothing),
	    cmocka_unit_test(others_go_on_beside_regions_that_come_and_go),
	    cmocka_unit_test(who_has_not_gone_on_since_the_last_tick_does_not_wait),
	    cmocka_unit_test(operands_over_two_pages_are_done_alone),
	    cmocka_unit_test(who_polls_beside_others_is_not_given_the_page),
	    cmocka_unit_test(what_lies_beside_regions_is_copied),
	    cmocka_unit_test(what_a_large_region_leaves_is_seen),
	    cmocka_unit_test(calls_are_given_aliases_of_common_pages),
	    cmocka_unit_test(a_call_is_given_a_shared_page_whatever_was_before_it),
	    cmocka_unit_test(vectors_are_moved_as_elsewhere),
	    cmocka_unit_test(strings_are_moved_as_elsewhere),
	    cmocka_unit_test(a_page_that_changes_all_the_time_is_not_newer_than_another),
	};

	return cmocka_run_group_tests_name("regions", tests, set_up, NULL);
}
