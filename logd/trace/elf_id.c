/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/elf_id.h"

#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "logd/base/hex.h"
#include "logd/base/zeros.h"
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

#define BLOCK (256u << 10)

/* Leaves a hole where there are zeros. */
static int write_block(int to, const char *data, size_t n)
{
	if (is_zeros(data, n))
		return lseek(to, (off_t)n, SEEK_CUR) < 0 ? -errno : 0;
	return write_all(to, data, n);
}

static int hash_blocks(XXH3_state_t *state, char *data, int fd, int to, uint64_t *size)
{
	ssize_t n;
	int err = 0;

	while (!err && (n = pread(fd, data, BLOCK, (off_t)*size)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		XXH3_64bits_update(state, data, (size_t)n);
		*size += (uint64_t)n;
		if (to >= 0)
			err = write_block(to, data, (size_t)n);
	}
	if (!err && to >= 0 && ftruncate(to, (off_t)*size))
		err = -errno;
	return err;
}

int file_hash_copy(int fd, int to, char hex[17], uint64_t *size)
{
	XXH3_state_t *state = XXH3_createState();
	void *data = malloc(BLOCK);
	int err = -ENOMEM;

	*size = 0;
	if (state && data) {
		XXH3_64bits_reset(state);
		err = hash_blocks(state, data, fd, to, size);
		snprintf(hex, 17, "%016llx", (unsigned long long)XXH3_64bits_digest(state));
	}
	XXH3_freeState(state);
	free(data);
	return err;
}

#define SAMPLES      64
#define SAMPLE_BYTES (16u << 10)

int file_sample(int fd, uint64_t size, char hex[17])
{
	XXH3_state_t *state = XXH3_createState();
	unsigned char data[SAMPLE_BYTES];
	int err = state && size >= SAMPLE_BYTES ? 0 : -ENOMEM;

	if (!err)
		XXH3_64bits_reset(state);
	for (uint64_t i = 0; !err && i < SAMPLES; i++) {
		/* In this order, without an overflow for any size of a file. */
		uint64_t at = (size - SAMPLE_BYTES) / (SAMPLES - 1) * i;

		if (i == SAMPLES - 1)
			at = size - SAMPLE_BYTES;
		if (read_fully(fd, data, SAMPLE_BYTES, at))
			XXH3_64bits_update(state, data, SAMPLE_BYTES);
		else
			err = -EIO;
	}
	if (!err)
		snprintf(hex, 17, "%016llx", (unsigned long long)XXH3_64bits_digest(state));
	XXH3_freeState(state);
	return err;
}

bool file_hash(int fd, char hex[17])
{
	uint64_t size;

	return !file_hash_copy(fd, -1, hex, &size);
}
