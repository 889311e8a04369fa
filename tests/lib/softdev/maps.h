/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * maps.h: which memory lies where in this process, as /proc/self/maps says.
 *
 * memory.c asks at each registration.  A process with many regions has many mappings, so the kernel
 * is asked for single ones (PROCMAP_QUERY, Linux 6.11); an older one has to print them all.
 */
#ifndef SOFTDEV_MAPS_H
#define SOFTDEV_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sd_extent {
	uintptr_t begin, end;
	int prot;
	bool is_shared;
	bool ours;       /* of the fabric */
	uint64_t offset; /* in its file */
	bool huge;
};

struct sd_maps {
	int fd;
	uintptr_t from; /* the next extent ends above */
	bool only_files;
	char *text, *at; /* NULL: the kernel answers queries */
	size_t room;
};

/* fd: of the fabric's file. */
void sd_maps_begin(int fd);

/* Of the extents that end above `from`, with only_files those that map files.  To be closed if it
 * returns true. */
bool sd_maps_open(struct sd_maps *m, uintptr_t from, bool only_files);

/* The same from what the kernel prints, whatever else it can do. */
bool sd_maps_open_text(struct sd_maps *m, uintptr_t from, bool only_files);

/* The next extent, in the order of addresses; false: there is none. */
bool sd_maps_next(struct sd_maps *m, struct sd_extent *e);

void sd_maps_close(struct sd_maps *m);

#endif
