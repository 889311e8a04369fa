/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_PROGRAMS_PROCESS_EARLY_ALLOCATOR_H
#define TESTS_PROGRAMS_PROCESS_EARLY_ALLOCATOR_H

#include <stdint.h>
#include <time.h>

/* What it read when it was first used. */
extern struct early_allocator {
	int64_t began;
	uint64_t seed;
} early_allocator;

/* Reads the clock in a thread of the allocator's own; 0: it has run. */
int early_allocator_thread(struct timespec *now);

#endif
