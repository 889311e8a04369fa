/* SPDX-License-Identifier: BSD-2-Clause */
/* code_maps.h: the lines of /proc/self/maps, one after the other, without libc. */
#ifndef SHIM_KERNEL_CODE_MAPS_H
#define SHIM_KERNEL_CODE_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapping {
	uintptr_t begin, end;
	uint64_t offset, inode;
	bool readable, executable, writable, shared;
	char name[16]; /* the beginning of the path */
};

/* fd: /proc/self/maps, opened for reading.  The rest begins as zeros. */
struct maps {
	int fd;
	size_t n, at;
	char text[4096];
};

/* begin-end rwxp offset major:minor inode path */
bool next_mapping(struct maps *m, struct mapping *map);

#endif
