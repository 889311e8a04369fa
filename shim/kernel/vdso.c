/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/kernel/vdso.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/memory/images.h"
#include "shim/signals/signals.h"
#include "shim/core/plain_text.h"
#include "shim/core/symbols.h"

static int (*vdso_clock_gettime)(clockid_t, struct timespec *);
static int (*vdso_gettimeofday)(struct timeval *, void *);

/* ------------------------------------------------------------ what it exports */

struct symbols {
	uintptr_t base;
	const ElfW(Sym) * symbols;
	const char *names;
	size_t count;
};

/* The linker script puts the names after the symbols, which gives their number. */
static bool open_image(struct symbols *v, const ElfW(Ehdr) *header)
{
	const ElfW(Phdr) *segment;

	if (!header)
		return false;
	v->base = (uintptr_t)header;
	segment = (const ElfW(Phdr) *)(v->base + header->e_phoff);
	for (int i = 0; i < header->e_phnum; i++) {
		if (segment[i].p_type != PT_DYNAMIC)
			continue;
		for (const ElfW(Dyn) *d = (const ElfW(Dyn) *)(v->base + segment[i].p_offset);
		     d->d_tag != DT_NULL; d++) {
			if (d->d_tag == DT_SYMTAB)
				v->symbols = (const ElfW(Sym) *)(v->base + d->d_un.d_ptr);
			if (d->d_tag == DT_STRTAB)
				v->names = (const char *)(v->base + d->d_un.d_ptr);
		}
	}
	if (!v->symbols || v->names <= (const char *)v->symbols)
		return false;
	v->count = (size_t)(v->names - (const char *)v->symbols) / sizeof(*v->symbols);
	return true;
}

static bool open_vdso(struct symbols *v)
{
	return open_image(v, sr_images_vdso());
}

static void *find(const struct symbols *v, const char *name)
{
	for (size_t i = 0; i < v->count; i++)
		if (v->symbols[i].st_value && !sr_plain_compare(v->names + v->symbols[i].st_name, name))
			return (void *)(v->base + v->symbols[i].st_value);
	return NULL;
}

/* ------------------------------------------------------- pointers to it in libc */

/* The functions of libc that choose the vDSO's when they are bound, with the shim's wrappers. */
static const struct {
	const char *in_vdso;
	void *wrapper;
} replaced[] = {
    {"__vdso_time", (void *)time},
    {"__vdso_gettimeofday", (void *)gettimeofday},
};

/* What replaces a word that points into the vDSO; the word itself if it stays. */
static uintptr_t instead_of(const struct symbols *v, uintptr_t word, bool bound)
{
	if (!sr_is_vdso((const void *)word) || word == v->base)
		return word;
	for (size_t i = 0; bound && i < sizeof(replaced) / sizeof(replaced[0]); i++)
		if (word == (uintptr_t)find(v, replaced[i].in_vdso))
			return (uintptr_t)replaced[i].wrapper;
	for (size_t i = 0; !bound && i < v->count; i++)
		if (v->symbols[i].st_value && word == v->base + v->symbols[i].st_value)
			return 0;
	return word;
}

/* The memory is read-only by now. */
static void replace_words(const struct symbols *v, uintptr_t from, uintptr_t to, bool bound)
{
	uintptr_t page = sr_page_down(from), end = sr_page_up(to);

	if (sr_syscall(SYS_mprotect, (long)page, (long)(end - page), PROT_READ | PROT_WRITE, 0, 0,
		       0))
		return;
	for (uintptr_t at = (from + 7) & ~7ul; at + sizeof(at) <= to; at += sizeof(at))
		*(uintptr_t *)at = instead_of(v, *(uintptr_t *)at, bound);
	sr_syscall(SYS_mprotect, (long)page, (long)(end - page), PROT_READ, 0, 0, 0);
}

/* ld.so's table of the vDSO's functions, among other things, has a private name. */
static uintptr_t *loaders_table(size_t *size)
{
	return sr_symbol_find("_rtld_global_ro", size);
}

static void clear_table(const struct symbols *v)
{
	size_t size;
	uintptr_t *table = loaders_table(&size);

	if (table)
		replace_words(v, (uintptr_t)table, (uintptr_t)table + size, false);
}

/* Replaces libc's own pointers to functions that it chose at its start. */
static int bind_again(struct dl_phdr_info *info, size_t size, void *vdso)
{
	const char *slash = strrchr(info->dlpi_name, '/');

	if (strcmp(slash ? slash + 1 : info->dlpi_name, "libc.so.6"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_GNU_RELRO)
			replace_words(vdso, from, from + segment->p_memsz, true);
	}
	return 1;
}

/* ------------------------------------------------------ what the program is told */

/* Behind the arguments and the environment.  NULL: it is not found. */
static ElfW(auxv_t) *auxiliary_vector(void)
{
	/* The stack pointer with which the kernel started the process. */
	uintptr_t **stack = sr_symbol_of_loader("__libc_stack_end"), *at = stack ? *stack : NULL;

	if (!at)
		return NULL;
	at += 1 + *at + 1;
	while (*at)
		at++;
	return (ElfW(auxv_t) *)(at + 1);
}

/* NULL: the kernel has given no vDSO, or it is hidden. */
static ElfW(auxv_t) *entry_of_vdso(void)
{
	for (ElfW(auxv_t) *a = auxiliary_vector(); a && a->a_type != AT_NULL; a++)
		if (a->a_type == AT_SYSINFO_EHDR)
			return a;
	return NULL;
}

/* Go's runtime finds the vDSO by its entry in the auxiliary vector, and would read the time there all the same. */
static void hide_from_program(void)
{
	ElfW(auxv_t) *entry = entry_of_vdso();

	if (entry)
		entry->a_type = AT_IGNORE;
}

/* ------------------------------------------------------ before libc begins */

/*
 * From 2.41 on, libc asks the vDSO's getrandom before any constructor runs how much memory it wants for each thread. Later
 * it calls it without looking at the pointer again, and maps that memory, which it would not in a replay. So the pointer
 * goes before libc asks, and libc makes system calls. ld.so comes by here when it relocates the shim, as it must know
 * what an indirect function stands for. libc's functions cannot be called so early.
 */
static void clear_random(void)
{
	struct symbols v = {0};
	const ElfW(auxv_t) *entry = entry_of_vdso();
	uintptr_t *table, random;
	size_t size;

	if (!entry || !open_image(&v, (const ElfW(Ehdr) *)entry->a_un.a_val))
		return;
	random = (uintptr_t)find(&v, "__vdso_getrandom");
	table = random ? loaders_table(&size) : NULL;
	/* ld.so writes there, too, and protects it when it is done. */
	for (size_t i = 0; table && i < size / sizeof(*table); i++)
		if (table[i] == random)
			table[i] = 0;
}

static void nothing(void)
{
}

static void (*before_libc(void))(void)
{
	clear_random();
	return nothing;
}

#ifndef __SANITIZE_ADDRESS__ /* its checks read memory that is not there yet */
static void indirect(void) __attribute__((ifunc("before_libc")));
static void (*const volatile relocated)(void) __attribute__((used)) = indirect;
#endif

/* ------------------------------------------------------------------ the call */

void sr_vdso_hide(void)
{
	struct symbols v = {0};

	if (!open_vdso(&v))
		return;
	clear_table(&v);
	hide_from_program();
	dl_iterate_phdr(bind_again, &v);
	/* In a replay the vDSO is a copy that makes system calls (replay/host/layout/vdso.h). */
	if (sr_signals_are_replayed())
		return;
	vdso_clock_gettime =
	    (int (*)(clockid_t, struct timespec *))find(&v, "__vdso_clock_gettime");
	vdso_gettimeofday = (int (*)(struct timeval *, void *))find(&v, "__vdso_gettimeofday");
}

int (*sr_vdso_find_clock(void))(clockid_t, struct timespec *)
{
	struct symbols v = {0};

	if (!open_vdso(&v))
		return NULL;
	return (int (*)(clockid_t, struct timespec *))find(&v, "__vdso_clock_gettime");
}

long sr_vdso_call(long nr, uint64_t a, uint64_t b)
{
	if (nr == SYS_clock_gettime && vdso_clock_gettime)
		return vdso_clock_gettime((clockid_t)a, (struct timespec *)b);
	if (nr == SYS_gettimeofday && vdso_gettimeofday)
		return vdso_gettimeofday((struct timeval *)a, (void *)b);
	return sr_syscall(nr, (long)a, (long)b, 0, 0, 0, 0);
}
