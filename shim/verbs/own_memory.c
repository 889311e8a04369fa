/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/own_memory.h"

#include <stdatomic.h>
#include <stdint.h>

#include "logd/base/lock.h"
#include "shim/kernel/user_dispatch.h"

/* If there are more separate places, all memory counts as written by devices. */
#define PLACES_MAX 64

/*
 * Places only grow, so they can be read without the lock.  This is needed because the system-call
 * trap must not wait.
 */
static struct {
	_Atomic uintptr_t begin, end;
} places[PLACES_MAX];
static atomic_int places_n;
static atomic_bool everywhere;
static struct sr_lock adding;

/* Returns places_n if there is none. */
static int place_of(uintptr_t begin, uintptr_t end)
{
	int i = 0;

	while (i < places_n && (begin > places[i].end || end < places[i].begin))
		i++;
	return i;
}

static void add(uintptr_t begin, uintptr_t end)
{
	int i = place_of(begin, end);

	if (end < begin || i == PLACES_MAX) {
		everywhere = true;
	} else if (i < places_n) {
		if (begin < places[i].begin)
			places[i].begin = begin;
		if (end > places[i].end)
			places[i].end = end;
	} else {
		places[i].begin = begin;
		places[i].end = end;
		places_n++;
	}
}

void sr_own_memory_registered(const void *addr, size_t length)
{
	sr_lock(&adding);
	add((uintptr_t)addr, (uintptr_t)addr + length);
	sr_unlock(&adding);
}

static bool has_place(const void *addr, size_t length)
{
	return place_of((uintptr_t)addr, (uintptr_t)addr + length) < places_n;
}

void sr_own_memory_moves(const void *addr, size_t length)
{
	if (has_place(addr, length))
		everywhere = true;
}

/* Always false without the system-call trap: the shim would not see the program move memory. */
bool sr_own_memory_is(const void *addr, size_t length)
{
	return sr_trap_is_on && !everywhere && !has_place(addr, length);
}
