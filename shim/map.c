/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/map.h"

#include <errno.h>
#include <stddef.h>

#include "shim/heap.h"

#define FIRST_SLOTS 64

static struct sr_map_slot *find(struct sr_map_table *t, uint64_t key)
{
	for (uint64_t i = sr_map_hash(key);; i++) {
		struct sr_map_slot *s = &t->slots[i & t->mask];
		uint64_t k = atomic_load_explicit(&s->key, memory_order_relaxed);

		if (k == key || !k)
			return s;
	}
}

static void store(struct sr_map *m, struct sr_map_table *t, uint64_t key, void *value)
{
	struct sr_map_slot *s = find(t, key);

	/* The value first: who finds the key must find it with its value. */
	atomic_store_explicit(&s->value, value, memory_order_release);
	if (!atomic_load_explicit(&s->key, memory_order_relaxed)) {
		atomic_store_explicit(&s->key, key, memory_order_release);
		m->used++;
	}
}

static int grow(struct sr_map *m)
{
	struct sr_map_table *old = atomic_load_explicit(&m->table, memory_order_relaxed);
	uint64_t n = old ? (old->mask + 1) * 2 : FIRST_SLOTS;
	struct sr_map_table *t = sr_alloc_zeroed(sizeof(*t) + n * sizeof(t->slots[0]));

	if (!t)
		return -ENOMEM;
	t->mask = n - 1;
	m->used = 0;
	for (uint64_t i = 0; old && i <= old->mask; i++) {
		void *value = atomic_load_explicit(&old->slots[i].value, memory_order_relaxed);

		if (value)
			store(m, t, atomic_load_explicit(&old->slots[i].key, memory_order_relaxed), value);
	}
	atomic_store_explicit(&m->table, t, memory_order_release);
	return 0;
}

int sr_map_put(struct sr_map *m, uint64_t key, void *value)
{
	struct sr_map_table *t;
	int err = 0;

	sr_lock(&m->lock);
	t = atomic_load_explicit(&m->table, memory_order_relaxed);
	if (!t || m->used * 2 > t->mask)
		err = grow(m);
	if (!err)
		store(m, atomic_load_explicit(&m->table, memory_order_relaxed), key, value);
	sr_unlock(&m->lock);
	return err;
}

void *sr_map_take(struct sr_map *m, uint64_t key)
{
	struct sr_map_table *t;
	void *value = NULL;

	sr_lock(&m->lock);
	t = atomic_load_explicit(&m->table, memory_order_relaxed);
	/* The key stays, as a stone to step over for searches that passed it. */
	if (t)
		value = atomic_exchange_explicit(&find(t, key)->value, NULL, memory_order_acq_rel);
	sr_unlock(&m->lock);
	return value;
}
