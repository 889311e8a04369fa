/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_sought.c: which occurrences of rdtsc's bytes are instructions: in code made for this
 * test, and in all libraries that this process has.
 *
 *     test_sought FILE...     # prints what is in these ELF files
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/base/page.h"
#include "shim/exposed/x86/sought.h"

/* ------------------------------------------------------------- code made by hand */

#define CODE(name, frame_begin, body, frame_end)                                                   \
	__asm__(".text\n.p2align 4\n.globl code_" name "\ncode_" name ":\n" frame_begin "\n"       \
		"nop\n" body "\nret\n" frame_end "\n.globl end_" name "\nend_" name ":\n")
#define FUNCTION(name, body) CODE(name, ".cfi_startproc", body, ".cfi_endproc")

FUNCTION("plain", "rdtsc");
FUNCTION("rdtscp", "rdtscp");
FUNCTION("behind_vectors", "vpaddd %ymm1, %ymm2, %ymm3\npcmpestri $3, %xmm1, %xmm2\nrdtsc");
FUNCTION("behind_x87", "fldl (%rsp)\nfstpl (%rsp)\nrdtsc");
FUNCTION("behind_syscall", "syscall\ncpuid\nrdtsc");
FUNCTION("behind_lock", "je 1f\nlock\n1: incl (%rdi)\nrdtsc");
FUNCTION("immediate", "mov $0x310f, %eax");
FUNCTION("immediate8", "movabs $0x1122310f33445566, %rax");
FUNCTION("displacement", "mov 0x310f00(%rdi), %eax");
FUNCTION("rdtscp_immediate", "mov $0xf9010f, %eax");
FUNCTION("prefixed", ".byte 0xf3, 0x0f, 0x31");
FUNCTION("invalid", ".byte 0x06\nrdtsc");
/* A branch into the midst of an instruction: one of the two readings is wrong. */
FUNCTION("two_ways", "jmp 1f + 1\n1: mov $0x310f, %eax");
CODE("no_frame", "", "rdtsc", "");
FUNCTION("draws", "rdrand %eax");
FUNCTION("draws_wide", "rdrand %r9");
FUNCTION("draws_seed", "rdseed %ax");
FUNCTION("draws_immediate", "mov $0xf0c70f, %eax");
FUNCTION("rdpid", "rdpid %rax");
FUNCTION("asks", "cpuid");
FUNCTION("asks_immediate", "mov $0xa20f, %eax");
FUNCTION("asks_prefixed", ".byte 0xf3, 0x0f, 0xa2");

#define DECLARE(name) extern const uint8_t code_##name[], end_##name[]
DECLARE(plain);
DECLARE(rdtscp);
DECLARE(behind_vectors);
DECLARE(behind_x87);
DECLARE(behind_syscall);
DECLARE(behind_lock);
DECLARE(immediate);
DECLARE(immediate8);
DECLARE(displacement);
DECLARE(rdtscp_immediate);
DECLARE(prefixed);
DECLARE(invalid);
DECLARE(two_ways);
DECLARE(no_frame);
DECLARE(draws);
DECLARE(draws_wide);
DECLARE(draws_seed);
DECLARE(draws_immediate);
DECLARE(rdpid);
DECLARE(asks);
DECLARE(asks_immediate);
DECLARE(asks_prefixed);

static bool read_memory(void *argument, uintptr_t at, void *to, size_t n)
{
	memcpy(to, (const void *)at, n);
	return true;
}

static struct sr_code_reader reader = {.read = read_memory};

static int find_self(struct dl_phdr_info *info, size_t size, void *base)
{
	*(uintptr_t *)base = info->dlpi_addr + sr_page_down(info->dlpi_phdr[0].p_vaddr);
	return 1;
}

static void expect(enum sr_sought sought, const char *name, const uint8_t *code, const uint8_t *end,
		   enum sr_occurrence expected)
{
	size_t n = (size_t)(end - code), at = sr_sought_find(sought, code, n, 0);
	struct sr_code_image image;
	enum sr_occurrence found;
	uintptr_t base = 0, where;

	dl_iterate_phdr(find_self, &base);
	reader.sought = sought;
	reader.begin = reader.end = 0;
	assert_true(sr_code_image_at(&reader, base, &image));
	assert_true(at < n);
	where = (uintptr_t)code + at;
	found = sr_sought_classify(&reader, &image, &where);
	if (found != expected)
		fail_msg("%s: %d, not %d", name, found, expected);
	/* With its prefixes, behind the nop. */
	if (sought == SR_SOUGHT_RANDOM && found == SR_OCCURRENCE_SITE)
		assert_int_equal(where, (uintptr_t)code + 1);
}

#define EXPECT(name, what) expect(SR_SOUGHT_COUNTER, #name, code_##name, end_##name, SR_OCCURRENCE_##what)
#define EXPECT_CPUID(name, what) expect(SR_SOUGHT_CPUID, #name, code_##name, end_##name, SR_OCCURRENCE_##what)
#define EXPECT_RANDOM(name, what) expect(SR_SOUGHT_RANDOM, #name, code_##name, end_##name, SR_OCCURRENCE_##what)

static void test_instructions(void **state)
{
	EXPECT(plain, SITE);
	EXPECT(rdtscp, SITE);
	EXPECT(behind_vectors, SITE);
	EXPECT(behind_x87, SITE);
	EXPECT(behind_syscall, SITE);
	EXPECT(behind_lock, SITE);
}

static void test_constants(void **state)
{
	EXPECT(immediate, NONE);
	EXPECT(immediate8, NONE);
	EXPECT(displacement, NONE);
	EXPECT(rdtscp_immediate, NONE);
}

static void test_unclear(void **state)
{
	uintptr_t where = (uintptr_t)code_plain + 1;

	EXPECT(prefixed, UNCLEAR);
	EXPECT(invalid, UNCLEAR);
	EXPECT(two_ways, UNCLEAR);
	EXPECT(no_frame, UNCLEAR);
	reader.begin = reader.end = 0;
	assert_int_equal(sr_sought_classify(&reader, NULL, &where), SR_OCCURRENCE_UNCLEAR);
}

static void test_random(void **state)
{
	EXPECT_RANDOM(draws, SITE);
	EXPECT_RANDOM(draws_wide, SITE);
	EXPECT_RANDOM(draws_seed, SITE);
	EXPECT_RANDOM(draws_immediate, NONE);
	EXPECT_RANDOM(rdpid, UNCLEAR);
}

static void test_cpuid(void **state)
{
	EXPECT_CPUID(asks, SITE);
	EXPECT_CPUID(behind_syscall, SITE);
	EXPECT_CPUID(asks_immediate, NONE);
	EXPECT_CPUID(asks_prefixed, UNCLEAR);
}

static void test_length(void **state)
{
	static const uint8_t rdtscp[] = {0x0f, 0x01, 0xf9}, half[] = {0x90, 0x0f};

	assert_int_equal(sr_counter_length(rdtscp, 3), 3);
	assert_int_equal(sr_counter_length(rdtscp, 2), 0);
	assert_int_equal(sr_sought_find(SR_SOUGHT_COUNTER, half, 2, 0), 2);
	assert_int_equal(sr_sought_find(SR_SOUGHT_COUNTER, rdtscp, 3, 1), 3);
}

/* ----------------------------------------------------------------- libraries */

struct totals {
	unsigned int found[3];
	unsigned int files;
};

static void count_range(struct totals *t, const struct sr_code_image *image, const char *path,
			const uint8_t *code, size_t n, bool prints)
{
	reader.sought = SR_SOUGHT_COUNTER;
	for (size_t at = sr_sought_find(SR_SOUGHT_COUNTER, code, n, 0); at < n;
	     at = sr_sought_find(SR_SOUGHT_COUNTER, code, n, at + 1)) {
		uintptr_t where = (uintptr_t)code + at;
		enum sr_occurrence what = sr_sought_classify(&reader, image, &where);

		t->found[what]++;
		if (prints)
			printf("# %s %#zx %s\n", path, at,
			       what == SR_OCCURRENCE_SITE   ? "site"
			       : what == SR_OCCURRENCE_NONE ? "none"
							    : "UNCLEAR");
	}
}

static int count_image(struct dl_phdr_info *info, size_t size, void *argument)
{
	uintptr_t base = 0;
	struct sr_code_image image;
	struct totals *t = argument;
	bool known;

	reader.begin = reader.end = 0;
	if (strstr(info->dlpi_name, "vdso") || info->dlpi_phnum == 0)
		return 0;
	for (int i = info->dlpi_phnum; i--;)
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			base = info->dlpi_addr + sr_page_down(info->dlpi_phdr[i].p_vaddr);
	known = sr_code_image_at(&reader, base, &image);
	if (info->dlpi_name[0]) /* not this program, which has the cases above */
		assert_true(known);
	for (int i = 0; i < info->dlpi_phnum && info->dlpi_name[0]; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && p->p_flags & PF_X)
			count_range(t, known ? &image : NULL, info->dlpi_name,
				    (const uint8_t *)(info->dlpi_addr + p->p_vaddr), p->p_memsz,
				    false);
	}
	t->files++;
	return 0;
}

/* libc and ld.so have assembly of all kinds. */
static void test_own_libraries(void **state)
{
	struct totals t = {0};

	dl_iterate_phdr(count_image, &t);
	printf("# %u files: %u instructions, %u in others, %u not known\n", t.files, t.found[0],
	       t.found[1], t.found[2]);
	assert_true(t.files > 2);
	assert_int_equal(t.found[SR_OCCURRENCE_UNCLEAR], 0);
}

/* --------------------------------------------------------------------- files */

/* Maps an image as ld.so does, but without relocating it. */
static uint8_t *map_image(int fd, const Elf64_Ehdr *h, const Elf64_Phdr *p)
{
	uintptr_t low = UINTPTR_MAX, high = 0;
	uint8_t *base;

	for (int i = 0; i < h->e_phnum; i++) {
		if (p[i].p_type != PT_LOAD)
			continue;
		if (p[i].p_vaddr < low)
			low = sr_page_down(p[i].p_vaddr);
		if (p[i].p_vaddr + p[i].p_memsz > high)
			high = sr_page_up(p[i].p_vaddr + p[i].p_memsz);
	}
	if (low >= high)
		return NULL;
	base = mmap(NULL, high - low, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < h->e_phnum && base != MAP_FAILED; i++) {
		uintptr_t from = sr_page_down(p[i].p_vaddr);

		if (p[i].p_type == PT_LOAD && p[i].p_filesz)
			mmap(base + (from - low), p[i].p_vaddr + p[i].p_filesz - from, PROT_READ,
			     MAP_PRIVATE | MAP_FIXED, fd, (off_t)sr_page_down(p[i].p_offset));
	}
	return base == MAP_FAILED ? NULL : base - low;
}

static void report(const char *path, struct totals *t)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct sr_code_image image;
	Elf64_Phdr p[64];
	Elf64_Ehdr h;
	uint8_t *bias;
	bool known = false;

	if (fd < 0)
		return;
	if (pread(fd, &h, sizeof(h), 0) != sizeof(h) || memcmp(h.e_ident, ELFMAG, SELFMAG) ||
	    h.e_machine != EM_X86_64 || h.e_phnum > 64 || !h.e_phnum ||
	    pread(fd, p, h.e_phnum * sizeof(p[0]), (off_t)h.e_phoff) <= 0 ||
	    !(bias = map_image(fd, &h, p))) {
		close(fd);
		return;
	}
	t->files++;
	reader.begin = reader.end = 0;
	for (int i = h.e_phnum; i--;)
		if (p[i].p_type == PT_LOAD)
			known = sr_code_image_at(
			    &reader, (uintptr_t)bias + sr_page_down(p[i].p_vaddr), &image);
	for (int i = 0; i < h.e_phnum; i++)
		if (p[i].p_type == PT_LOAD && p[i].p_flags & PF_X)
			count_range(t, known ? &image : NULL, path, bias + p[i].p_vaddr,
				    p[i].p_filesz, true);
	close(fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_instructions),  cmocka_unit_test(test_constants),
	    cmocka_unit_test(test_unclear),       cmocka_unit_test(test_random), cmocka_unit_test(test_cpuid),
	    cmocka_unit_test(test_length),
	    cmocka_unit_test(test_own_libraries),
	};
	struct totals t = {0};

	if (argc == 1)
		return cmocka_run_group_tests(tests, NULL, NULL);
	for (int i = 1; i < argc; i++)
		report(argv[i], &t);
	printf("%u files: %u instructions, %u in others, %u not known\n", t.files, t.found[0],
	       t.found[1], t.found[2]);
	return 0;
}
