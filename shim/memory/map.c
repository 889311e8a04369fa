/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/memory/map.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "shim/memory/heap.h"

#define FIRST_SLOTS 4096

static struct sr_map_slot *find(struct sr_map_table *t, uint64_t key)
{
	for (uint64_t i = sr_map_hash(key);; i++) {
		struct sr_map_slot *s = &t->slots[i & t->mask];
		uint64_t k = atomic_load_explicit(&s->key, memory_order_relaxed);

		if (k == key || !k)
			return s;
	}
}

static void *store(struct sr_map *m, struct sr_map_table *t, uint64_t key, void *value)
{
	struct sr_map_slot *s = find(t, key);
	/* Store the value before the key: a reader that finds the key must find its value, too. */
	void *old = atomic_exchange_explicit(&s->value, value, memory_order_acq_rel);

	if (!atomic_load_explicit(&s->key, memory_order_relaxed)) {
		atomic_store_explicit(&s->key, key, memory_order_release);
		m->used++;
	}
	return old;
}

static uint64_t count_values(const struct sr_map_table *t)
{
	uint64_t n = 0;

	for (uint64_t i = 0; t && i <= t->mask; i++)
		n += atomic_load_explicit(&t->slots[i].value, memory_order_relaxed) != NULL;
	return n;
}

/* Makes a new table with the keys that have a value, without the keys of removed values. */
static int renew(struct sr_map *m)
{
	struct sr_map_table *old = atomic_load_explicit(&m->table, memory_order_relaxed), *t;
	uint64_t n = FIRST_SLOTS, live = count_values(old);

	while (n < live * 4)
		n *= 2;
	/*
	 * Use the previously replaced table again if it has the right size. A reader that still
	 * uses that table was interrupted for at least 2,048 changes; at worst it misses a key.
	 */
	t = m->spare && m->spare->mask == n - 1 ? m->spare : NULL;
	if (t)
		memset(t->slots, 0, n * sizeof(t->slots[0]));
	else
		t = sr_alloc_zeroed(sizeof(*t) + n * sizeof(t->slots[0]));
	if (!t)
		return -ENOMEM;
	t->mask = n - 1;
	m->spare = old;
	m->used = 0;
	for (uint64_t i = 0; old && i <= old->mask; i++) {
		void *value = atomic_load_explicit(&old->slots[i].value, memory_order_relaxed);

		if (value)
			store(m, t, atomic_load_explicit(&old->slots[i].key, memory_order_relaxed),
			      value);
	}
	atomic_store_explicit(&m->table, t, memory_order_release);
	return 0;
}

int sr_map_put(struct sr_map *m, uint64_t key, void *value, void **old)
{
	struct sr_map_table *t;
	int err = 0;

	sr_lock(&m->lock);
	t = atomic_load_explicit(&m->table, memory_order_relaxed);
	if (!t || m->used * 2 > t->mask)
		err = renew(m);
	if (!err)
		*old = store(m, atomic_load_explicit(&m->table, memory_order_relaxed), key, value);
	sr_unlock(&m->lock);
	return err;
}

void *sr_map_take(struct sr_map *m, uint64_t key)
{
	struct sr_map_table *t;
	void *value = NULL;

	sr_lock(&m->lock);
	t = atomic_load_explicit(&m->table, memory_order_relaxed);
	/* The key stays, so that searches for other keys still pass over this slot. */
	if (t)
		value = atomic_exchange_explicit(&find(t, key)->value, NULL, memory_order_acq_rel);
	sr_unlock(&m->lock);
	return value;
}

void sr_map_each(struct sr_map *m, void (*f)(void *value, void *argument), void *argument)
{
	struct sr_map_table *t;
	void *value;

	sr_lock(&m->lock);
	t = atomic_load_explicit(&m->table, memory_order_relaxed);
	for (uint64_t i = 0; t && i <= t->mask; i++) {
		value = atomic_load_explicit(&t->slots[i].value, memory_order_relaxed);
		if (value)
			f(value, argument);
	}
	sr_unlock(&m->lock);
}
