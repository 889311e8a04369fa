/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/keymap.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Open addressing.  Nothing is ever removed: numbers that go away are few, or are used again.  Behind the slots is a bit for
 * each: is it used?
 */
struct sr_keymap_slot {
	uint64_t key, value;
};

static uint64_t *used_of(const struct sr_keymap *m, size_t slot)
{
	return (uint64_t *)(m->slots + m->room) + slot / 64;
}

static bool is_used(const struct sr_keymap *m, size_t slot)
{
	return *used_of(m, slot) >> slot % 64 & 1;
}

/* Where the key is, or is to be. */
static size_t slot_of(const struct sr_keymap *m, uint64_t key)
{
	size_t i = (key * 0x9e3779b97f4a7c15ull) >> 32 & (m->room - 1);

	while (is_used(m, i) && m->slots[i].key != key)
		i = (i + 1) & (m->room - 1);
	return i;
}

static void fill(struct sr_keymap *m, size_t slot, uint64_t key, uint64_t value)
{
	m->used += !is_used(m, slot);
	*used_of(m, slot) |= UINT64_C(1) << slot % 64;
	m->slots[slot] = (struct sr_keymap_slot){key, value};
}

static int grow(struct sr_keymap *m)
{
	struct sr_keymap bigger = {.room = m->room ? 2 * m->room : 64};

	bigger.slots = calloc(1, bigger.room * sizeof(*bigger.slots) + bigger.room / 8);
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < m->room; i++)
		if (is_used(m, i))
			fill(&bigger, slot_of(&bigger, m->slots[i].key), m->slots[i].key, m->slots[i].value);
	free(m->slots);
	*m = bigger;
	return 0;
}

int sr_keymap_put(struct sr_keymap *m, uint64_t key, uint64_t value)
{
	int err = 2 * m->used >= m->room ? grow(m) : 0;

	if (!err)
		fill(m, slot_of(m, key), key, value);
	return err;
}

bool sr_keymap_get(const struct sr_keymap *m, uint64_t key, uint64_t *value)
{
	const size_t slot = m->room ? slot_of(m, key) : 0;

	if (!m->room || !is_used(m, slot))
		return false;
	*value = m->slots[slot].value;
	return true;
}

void sr_keymap_free(struct sr_keymap *m)
{
	free(m->slots);
	*m = (struct sr_keymap){0};
}
