/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/exposed/fixture.h"

#include <string.h>
#include <sys/mman.h>

struct noted_value last;
volatile uint64_t values;
_Atomic uint64_t nics_clock, own_clock;
uint64_t clock_seen;
bool own;
uintptr_t loaders_code;
size_t loaders_bytes;

static bool threads;

static bool is_loaders(uintptr_t pc)
{
	return pc - loaders_code < loaders_bytes;
}

static void look(void)
{
	clock_seen = atomic_load(&nics_clock);
}

static bool has_threads(void)
{
	return threads;
}

void have_threads(bool have)
{
	threads = have;
	/* Faults are counted from here. */
	sr_exposed_call_begins();
	sr_exposed_call_ends();
}

static bool is_its_own(const void *addr, size_t length)
{
	return own;
}

static void begin_store(void)
{
	atomic_fetch_add(&own_clock, 1);
}

void (*in_handler)(void);

static void note(const struct sr_exposed_event *e)
{
	if (in_handler)
		in_handler();
	for (uint32_t i = 0; i < e->values_n; i++) {
		last.addr = e->values[i].addr;
		last.length = e->values[i].length;
		last.still = e->values[i].still;
		memcpy(last.data, e->values[i].data, e->values[i].length);
		values++;
	}
}

uint8_t *memory(size_t pages)
{
	uint8_t *p =
	    mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	take_faults();
	for (size_t i = 0; i < pages * PAGE; i++)
		p[i] = (uint8_t)(i / 7);
	return p;
}

void write_by_nic(const void *p, const void *data, size_t n)
{
	memcpy(sr_exposed_backing(p), data, n);
}

int set_up(void **state)
{
	static const struct sr_exposed_hooks h = {
	    .event = note, .found = look, .storing = begin_store, .threads = has_threads,
	    .is_its_own = is_its_own, .is_loaders = is_loaders};

	return sr_exposed_init(&h);
}
