/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/layout/vdso.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#define PREFIX "__vdso_"

static const struct {
	const char *name;
	int32_t nr;
} known[] = {
    {"clock_gettime", SYS_clock_gettime},
    {"clock_getres", SYS_clock_getres},
    {"gettimeofday", SYS_gettimeofday},
    {"time", SYS_time},
    {"getcpu", SYS_getcpu},
};

static void put_function(uint8_t *at, const char *name)
{
	/* mov $nr, %eax; syscall; ret -- or mov $-ENOSYS, %rax; ret */
	uint8_t call[] = {0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3};
	uint8_t fail[] = {0x48, 0xc7, 0xc0, 0, 0, 0, 0, 0xc3};
	const int32_t error = -ENOSYS;

	/* Each has two names. */
	if (!strncmp(name, PREFIX, strlen(PREFIX)))
		name += strlen(PREFIX);

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(name, known[i].name))
			continue;
		memcpy(call + 1, &known[i].nr, sizeof(known[i].nr));
		memcpy(at, call, sizeof(call));
		return;
	}
	memcpy(fail + 3, &error, sizeof(error));
	memcpy(at, fail, sizeof(fail));
}

/* Where the symbols and their names begin; the linker script puts the names after the symbols. */
static bool find_symbols(const uint8_t *image, size_t size, uint64_t *symbols, uint64_t *names)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;

	if (size < sizeof(*header) || memcmp(header->e_ident, ELFMAG, SELFMAG) ||
	    header->e_phoff > size ||
	    header->e_phnum > (size - header->e_phoff) / sizeof(Elf64_Phdr))
		return false;
	for (int i = 0; i < header->e_phnum; i++) {
		const Elf64_Phdr *segment = (const Elf64_Phdr *)(image + header->e_phoff) + i;
		const Elf64_Dyn *d = (const Elf64_Dyn *)(image + segment->p_offset);

		if (segment->p_type != PT_DYNAMIC || segment->p_offset > size)
			continue;
		for (; (const uint8_t *)(d + 1) <= image + size && d->d_tag != DT_NULL; d++) {
			if (d->d_tag == DT_SYMTAB)
				*symbols = d->d_un.d_ptr;
			if (d->d_tag == DT_STRTAB)
				*names = d->d_un.d_ptr;
		}
	}
	return *symbols && *symbols < *names && *names < size;
}

bool sr_vdso_use_system_calls(uint8_t *image, size_t size)
{
	uint64_t at = 0, names = 0;

	if (!find_symbols(image, size, &at, &names))
		return false;
	for (; at + sizeof(Elf64_Sym) <= names; at += sizeof(Elf64_Sym)) {
		const Elf64_Sym *s = (const Elf64_Sym *)(image + at);

		if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_size >= 8 &&
		    s->st_value + 8 <= size && names + s->st_name < size)
			put_function(image + s->st_value, (const char *)image + names + s->st_name);
	}
	return true;
}
