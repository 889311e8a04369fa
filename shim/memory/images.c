/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/memory/images.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "logd/base/rawsys.h"
#include "shim/memory/heap.h"

static struct image {
	uintptr_t start, size;
} vdso, loader;

/* From its lowest segment, which is where its header is, to the end of the highest. */
static struct image image_at(unsigned long auxv)
{
	const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)getauxval(auxv);
	struct image image = {.start = (uintptr_t)header};
	const ElfW(Phdr) * segment;

	if (!header)
		return image;
	segment = (const ElfW(Phdr) *)((const char *)header + header->e_phoff);
	for (int i = 0; i < header->e_phnum; i++) {
		uintptr_t end = segment[i].p_vaddr + segment[i].p_memsz;

		if (segment[i].p_type == PT_LOAD && end > image.size)
			image.size = end;
	}
	return image;
}

void sr_images_find(void)
{
	vdso = image_at(AT_SYSINFO_EHDR);
	loader = image_at(AT_BASE);
}

#define MAPS_BYTES (256ul << 10)

/* The first line that names one of them begins with its address. */
static uintptr_t find_kernel_mapping(const char *maps)
{
	for (const char *line = maps; line && *line; line = strchr(line, '\n')) {
		const char *end;

		line += *line == '\n';
		end = strchr(line, '\n');
		for (const char *at = line; end && at < end; at++)
			if (!strncmp(at, "[vvar", 5) || !strncmp(at, "[vdso]", 6))
				return strtoul(line, NULL, 16);
	}
	return 0;
}

uintptr_t sr_kernel_mappings(void)
{
	long fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG("/proc/self/maps"), O_RDONLY | O_CLOEXEC,
			     0, 0, 0);
	char *maps = sr_alloc(MAPS_BYTES);
	size_t size = 0;
	uintptr_t lowest;
	long n;

	while (maps && fd >= 0 && size < MAPS_BYTES - 1 &&
	       (n = sr_sys_read((int)fd, maps + size, MAPS_BYTES - 1 - size)) > 0)
		size += (size_t)n;
	if (fd >= 0)
		sr_sys_close((int)fd);
	if (!maps)
		return 0;
	maps[size] = 0;
	lowest = find_kernel_mapping(maps);
	sr_free(maps);
	return lowest;
}

bool sr_is_vdso(const void *code)
{
	return (uintptr_t)code - vdso.start < vdso.size;
}

bool sr_is_loader(const void *code)
{
	return (uintptr_t)code - loader.start < loader.size;
}
