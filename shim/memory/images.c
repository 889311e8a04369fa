/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/memory/images.h"

#include <gnu/libc-version.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "shim/core/loaded.h"

static struct image {
	uintptr_t start, size;
} vdso, loader, libc;

static const ElfW(Phdr) * segments_of(const ElfW(Ehdr) *header)
{
	return (const ElfW(Phdr) *)((const char *)header + header->e_phoff);
}

/* An image extends from its lowest segment, which holds its header, to the end of the highest. */
static struct image image_at(unsigned long auxv)
{
	const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)getauxval(auxv);
	struct image image = {.start = (uintptr_t)header};
	const ElfW(Phdr) * segment;

	if (!header)
		return image;
	segment = segments_of(header);
	for (int i = 0; i < header->e_phnum; i++) {
		uintptr_t end = segment[i].p_vaddr + segment[i].p_memsz;

		if (segment[i].p_type == PT_LOAD && end > image.size)
			image.size = end;
	}
	return image;
}

/* Where this code is, which a library has that ld.so has loaded. */
static struct image image_of(const void *code)
{
	struct sr_loaded object;

	if (!sr_loaded_at((uintptr_t)code, &object))
		return (struct image){0};
	return (struct image){.start = object.begin, .size = object.end - object.begin};
}

void sr_images_find(void)
{
	/* The second time it may have been hidden. */
	if (loader.start)
		return;
	vdso = image_at(AT_SYSINFO_EHDR);
	loader = image_at(AT_BASE);
	libc = image_of((const void *)gnu_get_libc_version);
}

const void *sr_images_vdso(void)
{
	return (const void *)vdso.start;
}

bool sr_is_vdso(const void *code)
{
	return (uintptr_t)code - vdso.start < vdso.size;
}

bool sr_is_loader(const void *code)
{
	return (uintptr_t)code - loader.start < loader.size;
}

bool sr_loader_code(const uint8_t **begin, const uint8_t **end)
{
	const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)getauxval(AT_BASE);

	for (int i = 0; header && i < header->e_phnum; i++) {
		const ElfW(Phdr) *segment = segments_of(header) + i;

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		*begin = (const uint8_t *)header + segment->p_vaddr;
		*end = *begin + segment->p_memsz;
		return true;
	}
	return false;
}

bool sr_is_libc(const void *place)
{
	return (uintptr_t)place - libc.start < libc.size;
}

bool sr_is_unwinder(const void *code)
{
	struct sr_loaded object;

	return sr_loaded_at((uintptr_t)code, &object) && strstr(object.name, "/libgcc_s.so");
}
