/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/memory/malloc_key.h"

#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>

#include "logd/base/checksum.h"

#define RANDOM_BYTES 16
/* Of the smallest block; the second word of a cached one is the key. */
#define BLOCK_BYTES 24
#define KEY_WORD    1

/* libc's own, whatever stands in front of them. */
extern void *__libc_malloc(size_t size);
extern void __libc_free(void *block);

/* 0: libc has none, or the cache is off. */
static uint64_t find_key(void)
{
	uint64_t *block = __libc_malloc(BLOCK_BYTES);
	const volatile uint64_t *freed = block;

	if (!block)
		return 0;
	block[KEY_WORD] = 0;
	/* The compiler must not know that what is read is freed. */
	__asm__ volatile("" : "+r"(freed)::"memory");
	__libc_free(block);
	return freed[KEY_WORD];
}

struct search {
	uintptr_t in_libc; /* an address there */
	uint64_t key;
	uint64_t *at;
	unsigned int found;
};

static void search_segment(struct search *s, uintptr_t from, size_t size)
{
	for (uint64_t *word = (uint64_t *)((from + 7) & ~7ul); (uintptr_t)(word + 1) <= from + size; word++) {
		if (*word != s->key)
			continue;
		s->at = word;
		s->found++;
	}
}

static int search_object(struct dl_phdr_info *o, size_t size, void *search)
{
	struct search *s = search;
	bool is_libc = false;

	(void)size;
	for (int i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &o->dlpi_phdr[i];

		is_libc |= p->p_type == PT_LOAD && s->in_libc - o->dlpi_addr - p->p_vaddr < p->p_memsz;
	}
	for (int i = 0; is_libc && i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &o->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && p->p_flags & PF_W)
			search_segment(s, o->dlpi_addr + p->p_vaddr, p->p_memsz);
	}
	return is_libc;
}

void sr_malloc_pin_key(void)
{
	const void *random_bytes = (const void *)getauxval(AT_RANDOM);
	struct search s = {.in_libc = (uintptr_t)mallopt, .key = find_key()};

	if (!s.key || !random_bytes)
		return;
	dl_iterate_phdr(search_object, &s);
	/* Of 64 random bits there is no second one by chance: what is found twice is something else. */
	if (s.found == 1)
		*s.at = sr_checksum(random_bytes, RANDOM_BYTES, 0) | 1;
}
