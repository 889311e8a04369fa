/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/elf_id.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/hex.h"
#include "logd/trace/file_io.h"

/* No linker writes more notes, and no more program headers. */
#define NOTES_MAX   (64 << 10)
#define HEADERS_MAX 256

bool is_elf(int fd)
{
	char magic[SELFMAG];

	return read_fully(fd, magic, SELFMAG, 0) && !memcmp(magic, ELFMAG, SELFMAG);
}

static size_t round4(size_t n)
{
	return (n + 3) & ~(size_t)3;
}

static bool find_in_notes(const unsigned char *notes, size_t size, char *hex, size_t hex_size)
{
	size_t at = 0;

	while (size - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr n;
		size_t name = at + sizeof(n), description, end;

		memcpy(&n, notes + at, sizeof(n));
		if (n.n_namesz > size || n.n_descsz > size)
			return false;
		description = name + round4(n.n_namesz);
		end = description + round4(n.n_descsz);
		if (end > size)
			return false;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 &&
		    !memcmp(notes + name, "GNU", 4) && n.n_descsz &&
		    2 * (size_t)n.n_descsz < hex_size) {
			sr_to_hex(hex, notes + description, n.n_descsz);
			return true;
		}
		at = end;
	}
	return false;
}

static bool find_in_segment(int fd, const Elf64_Phdr *p, char *hex, size_t hex_size)
{
	unsigned char *notes;
	bool found;

	if (p->p_type != PT_NOTE || p->p_filesz > NOTES_MAX)
		return false;
	notes = malloc(p->p_filesz + 1);
	found = notes && read_fully(fd, notes, p->p_filesz, p->p_offset) &&
		find_in_notes(notes, p->p_filesz, hex, hex_size);
	free(notes);
	return found;
}

bool elf_build_id(int fd, char *hex, size_t size)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;

	if (!read_fully(fd, &e, sizeof(e), 0) || memcmp(e.e_ident, ELFMAG, SELFMAG) ||
	    e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_phentsize != sizeof(p))
		return false;
	for (int i = 0; i < e.e_phnum && i < HEADERS_MAX; i++) {
		if (read_fully(fd, &p, sizeof(p), e.e_phoff + (uint64_t)i * sizeof(p)) &&
		    find_in_segment(fd, &p, hex, size))
			return true;
	}
	return false;
}
