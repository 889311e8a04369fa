/* SPDX-License-Identifier: BSD-2-Clause */
/* fixture.h: exposed regions of a test's own memory, whose events are noted. */
#ifndef TESTS_EXPOSED_FIXTURE_H
#define TESTS_EXPOSED_FIXTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "tests/unit/exposed/simulator.h"

#define PAGE 4096ul

/* The last value that was recorded, and how many there were. */
struct noted_value {
	uintptr_t addr;
	uint32_t length;
	uint8_t data[PAGE];
};
extern struct noted_value last;
extern volatile uint64_t values; /* counted in the handler */

/* A clock that the NIC leaves in front of its data, what was seen of it, and one of the program's own. */
extern _Atomic uint64_t nics_clock, own_clock;
extern uint64_t clock_seen;

/* Whether memory beside a region is the program's own. */
extern bool own;

/* Has the program several threads? */
void have_threads(bool have);

/* Pages of the program's, with something in them. */
uint8_t *memory(size_t pages);

/* As the NIC does: nothing of it passes by the CPU's view. */
void write_by_nic(const void *p, const void *data, size_t n);

/* Of a group of cmocka's. */
int set_up(void **state);

#endif
