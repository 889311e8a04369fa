/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * map.h: maps a 64-bit key (an object's address, a queue pair's number, an lkey) to the
 * shim's own struct for it.
 *
 * Readers on the data path take no lock; writers do. A replaced table is kept, since a
 * reader may still use it. The map uses that table again when it next needs one of its
 * size; by then the number of changes is at least half the size of a table.
 */
#ifndef SHIM_MEMORY_MAP_H
#define SHIM_MEMORY_MAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/lock.h"

struct sr_map_slot {
	_Atomic uint64_t key;
	void *_Atomic value; /* NULL: free, or removed */
};

struct sr_map_table {
	uint64_t mask;
	struct sr_map_slot slots[];
};

struct sr_map {
	struct sr_map_table *_Atomic table;
	struct sr_map_table *spare; /* the last one replaced */
	uint64_t used;              /* slots that have or had a key */
	struct sr_lock lock;
};

static inline uint64_t sr_map_hash(uint64_t key)
{
	return (key * 0x9e3779b97f4a7c15ull) >> 20;
}

/* NULL if there is none. */
static inline void *sr_map_get(struct sr_map *m, uint64_t key)
{
	struct sr_map_table *t = atomic_load_explicit(&m->table, memory_order_acquire);

	if (!t)
		return NULL;
	for (uint64_t i = sr_map_hash(key);; i++) {
		struct sr_map_slot *s = &t->slots[i & t->mask];
		uint64_t k = atomic_load_explicit(&s->key, memory_order_acquire);

		if (k == key)
			return atomic_load_explicit(&s->value, memory_order_acquire);
		if (!k)
			return NULL;
	}
}

/* Key 0 is not allowed. *old receives the previous value, or NULL. Returns 0 or -ENOMEM. */
int sr_map_put(struct sr_map *m, uint64_t key, void *value, void **old);

/* Removes the value and returns it; NULL if there was none. */
void *sr_map_take(struct sr_map *m, uint64_t key);

/* Calls f for every value. The map is locked, so no value is removed meanwhile. */
void sr_map_each(struct sr_map *m, void (*f)(void *value, void *argument), void *argument);

/* In a child of a fork: whoever had the lock was a thread of the parent's. */
static inline void sr_map_continue_in_child(struct sr_map *m)
{
	m->lock = (struct sr_lock){0};
}

#endif
