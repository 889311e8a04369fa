/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * symbols.c: finds glibc's dlsym without dlsym: in the hash table of the library that
 * defines it, which is libc since glibc 2.34 and libdl before.
 */
#include "shim/core/symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/core/plain_text.h"

typedef void *(*dlsym_function)(void *handle, const char *name);
typedef void *(*dlvsym_function)(void *handle, const char *name, const char *version);

static void *_Atomic real_dlsym, *_Atomic real_dlvsym;

/* A library's description of its symbols. */
struct image {
	uintptr_t base;
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *hash;
};

static const void *at(const struct image *image, ElfW(Addr) address)
{
	/* glibc relocates these in place; if it cannot write there, they stay offsets. */
	return (const void *)(address < image->base ? image->base + address : address);
}

static bool read_image(const struct link_map *library, struct image *image)
{
	const ElfW(Dyn) *dynamic = library->l_ld;

	*image = (struct image){.base = library->l_addr};
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		if (dynamic->d_tag == DT_SYMTAB)
			image->symbols = at(image, dynamic->d_un.d_ptr);
		else if (dynamic->d_tag == DT_STRTAB)
			image->strings = at(image, dynamic->d_un.d_ptr);
		else if (dynamic->d_tag == DT_GNU_HASH)
			image->hash = at(image, dynamic->d_un.d_ptr);
	}
	return image->symbols && image->strings && image->hash;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

/* All versions of what is looked for here are the same, so take the first. */
static const ElfW(Sym) *find(const struct image *image, const char *name)
{
	uint32_t buckets = image->hash[0], first = image->hash[1], bloom_words = image->hash[2];
	const uint32_t *bucket =
	    image->hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *chain = bucket + buckets;
	uint32_t wanted = gnu_hash(name), i;

	if (!buckets)
		return NULL;
	i = bucket[wanted % buckets];
	if (i < first)
		return NULL;
	do {
		const ElfW(Sym) *symbol = &image->symbols[i];

		if ((chain[i - first] | 1) == (wanted | 1) && symbol->st_shndx != SHN_UNDEF &&
		    !sr_plain_compare(image->strings + symbol->st_name, name))
			return symbol;
	} while (!(chain[i++ - first] & 1));
	return NULL;
}

static void *address(const struct image *image, const ElfW(Sym) *symbol)
{
	return (void *)(image->base + symbol->st_value);
}

static bool look_into(const struct link_map *library)
{
	const char *name = sr_plain_file(library->l_name);
	struct image image;
	const ElfW(Sym) *dlsym_there, *dlvsym_there;

	if (sr_plain_compare(name, "libc.so.6") && sr_plain_compare(name, "libdl.so.2"))
		return false;
	if (!read_image(library, &image))
		return false;
	dlsym_there = find(&image, "dlsym");
	dlvsym_there = find(&image, "dlvsym");
	if (!dlsym_there || !dlvsym_there)
		return false;
	atomic_store_explicit(&real_dlvsym, address(&image, dlvsym_there), memory_order_relaxed);
	atomic_store_explicit(&real_dlsym, address(&image, dlsym_there), memory_order_release);
	return true;
}

/* Without dl_iterate_phdr, which is one of the functions that the shim wraps. */
static void look_into_all(void)
{
	for (const struct link_map *l = _r_debug.r_map; l && !look_into(l); l = l->l_next)
		;
}

void *sr_real_dlsym(void)
{
	void *f = atomic_load_explicit(&real_dlsym, memory_order_acquire);

	if (!f) {
		look_into_all();
		f = atomic_load_explicit(&real_dlsym, memory_order_acquire);
	}
	return f;
}

void *sr_real_dlvsym(void)
{
	return sr_real_dlsym() ? atomic_load_explicit(&real_dlvsym, memory_order_relaxed) : NULL;
}

static void *find_in(const struct link_map *library, const char *name, size_t *size)
{
	struct image image;
	const ElfW(Sym) *symbol = read_image(library, &image) ? find(&image, name) : NULL;

	if (!symbol)
		return NULL;
	*size = symbol->st_size;
	return address(&image, symbol);
}

void *sr_symbol_find(const char *name, size_t *size)
{
	void *p = NULL;

	for (const struct link_map *l = _r_debug.r_map; l && !p; l = l->l_next)
		p = l->l_ld != _DYNAMIC ? find_in(l, name, size) : NULL;
	return p;
}

void *sr_symbol_of_loader(const char *name)
{
	const struct link_map *l = _r_debug.r_map;
	size_t size;

	while (l && l->l_addr != _r_debug.r_ldbase)
		l = l->l_next;
	return l ? find_in(l, name, &size) : NULL;
}

bool sr_symbol_is_defined(const char *name)
{
	size_t size;

	return sr_symbol_find(name, &size);
}

/*
 * A look-up that fails allocates its message from the program's heap. An allocator of the program's own would begin
 * there, and read clocks and random numbers before they are recorded. So what nobody defines is not looked up.
 */
void *sr_dlsym(void *handle, const char *name)
{
	dlsym_function f = (dlsym_function)sr_real_dlsym();

	if (handle == RTLD_NEXT && !sr_symbol_is_defined(name))
		return NULL;
	return f ? f(handle, name) : NULL;
}

void *sr_dlvsym(void *handle, const char *name, const char *version)
{
	dlvsym_function f = (dlvsym_function)sr_real_dlvsym();

	return f ? f(handle, name, version) : NULL;
}
