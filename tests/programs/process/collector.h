/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * collector.h: a case of hostile.c: a conservative collector of garbage.  What it keeps depends on words of the stack and of
 * registers that nobody may have meant: those of frames that have gone, of which some are the recorder's.
 */
#ifndef COLLECTOR_H
#define COLLECTOR_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CELLS 4096

static struct cell {
	struct cell *next;
	long value;
} cells[CELLS];
static unsigned char is_used[CELLS], is_marked[CELLS];
static uintptr_t bottom;
static long collections, freed;
static uintptr_t seen; /* all words that it has looked at */

static void mark(uintptr_t word)
{
	seen = seen * 31 + word;
	while (word >= (uintptr_t)cells && word < (uintptr_t)(cells + CELLS)) {
		size_t i = (word - (uintptr_t)cells) / sizeof(*cells);

		if (!is_used[i] || is_marked[i])
			return;
		is_marked[i] = 1;
		word = (uintptr_t)cells[i].next;
	}
}

static __attribute__((noinline)) void collect(void)
{
	jmp_buf registers;

	setjmp(registers);
	memset(is_marked, 0, sizeof(is_marked));
	for (uintptr_t *p = (uintptr_t *)registers; p < (uintptr_t *)bottom; p++)
		mark(*p);
	collections++;
	for (int i = 0; i < CELLS; i++) {
		freed += is_used[i] && !is_marked[i];
		is_used[i] &= is_marked[i];
	}
}

static struct cell *make_cell(struct cell *next, long value)
{
	static int at;

	for (int tries = 0; tries < 2; tries++) {
		for (int n = 0; n < CELLS; n++, at = (at + 1) % CELLS) {
			if (is_used[at])
				continue;
			is_used[at] = 1;
			cells[at] = (struct cell){next, value};
			return &cells[at];
		}
		collect();
	}
	exit(1);
}

static void conservative_collector(void)
{
	struct cell *lists[4] = {0};
	char bytes[64];

	bottom = (uintptr_t)__builtin_frame_address(0);
	for (long i = 0; i < 60000; i++) {
		lists[i % 4] = i % 97 ? make_cell(lists[i % 4], i) : NULL;
		if (i % 500)
			continue;
		int fd = open("/proc/self/stat", O_RDONLY);

		(void)!read(fd, bytes, sizeof(bytes));
		close(fd);
		usleep(1);
		printf("time %ld\n", (long)time(NULL));
	}
	printf("collections %ld, freed %ld, words 0x%lx\n", collections, freed, (long)seen);
}

#endif
