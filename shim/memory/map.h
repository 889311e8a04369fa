/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * map.h: from a 64-bit key (an object's address, a queue pair's number, an lkey) to the shim's
 * own struct for it.
 *
 * Readers on the data path take no lock; changes are made under one.  A table that was replaced
 * is kept, since a reader may still be in it, and is used again when the next table of its size
 * is needed.  By then half a table of changes has passed.
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

/* Key 0 is not one.  *old is what was there, or NULL.  0 or -ENOMEM. */
int sr_map_put(struct sr_map *m, uint64_t key, void *value, void **old);

/* Takes the value out; NULL if there was none. */
void *sr_map_take(struct sr_map *m, uint64_t key);

/* Of every value, none of which is taken out meanwhile. */
void sr_map_each(struct sr_map *m, void (*f)(void *value, void *argument), void *argument);

#endif
