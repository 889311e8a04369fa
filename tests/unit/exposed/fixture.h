/* SPDX-License-Identifier: BSD-2-Clause */
/* fixture.h: exposed regions in a test's own memory, whose events are counted. */
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
	bool still; /* no request was landing in its page */
	uint8_t data[PAGE];
};
extern struct noted_value last;
extern volatile uint64_t values; /* counted in the handler */

/* A clock that the NIC writes before its data, the value seen of it, and a clock of the program. */
extern _Atomic uint64_t nics_clock, own_clock;
extern uint64_t clock_seen;

/* Called in the handler, with each event, unless it is NULL. */
extern void (*in_handler)(void);

/* Are unregistered bytes beside a region the program's own? */
extern bool own;

/* What is taken for code of ld.so: so many bytes from there on. */
extern uintptr_t loaders_code;
extern size_t loaders_bytes;

/* Sets whether the program has several threads. */
void have_threads(bool have);

/* Returns pages of the program, with some content. */
uint8_t *memory(size_t pages);

/* Writes like the NIC: past the user mapping. */
void write_by_nic(const void *p, const void *data, size_t n);

/* Setup function of a cmocka group. */
int set_up(void **state);

#endif
