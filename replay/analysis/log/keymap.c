/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/keymap.h"

#include <errno.h>
#include <stdlib.h>

/* Open addressing.  Nothing is ever removed: numbers that go away are few, or are used again. */
struct sr_keymap_slot {
	uint64_t key, value;
	bool used;
};

static struct sr_keymap_slot *slot_of(const struct sr_keymap *m, uint64_t key)
{
	size_t i = (key * 0x9e3779b97f4a7c15ull) >> 32 & (m->room - 1);

	while (m->slots[i].used && m->slots[i].key != key)
		i = (i + 1) & (m->room - 1);
	return &m->slots[i];
}

static int grow(struct sr_keymap *m)
{
	struct sr_keymap bigger = {.room = m->room ? 2 * m->room : 64, .used = m->used};

	bigger.slots = calloc(bigger.room, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < m->room; i++)
		if (m->slots[i].used)
			*slot_of(&bigger, m->slots[i].key) = m->slots[i];
	free(m->slots);
	*m = bigger;
	return 0;
}

int sr_keymap_put(struct sr_keymap *m, uint64_t key, uint64_t value)
{
	struct sr_keymap_slot *slot;
	int err = 2 * m->used >= m->room ? grow(m) : 0;

	if (err)
		return err;
	slot = slot_of(m, key);
	m->used += !slot->used;
	*slot = (struct sr_keymap_slot){key, value, true};
	return 0;
}

bool sr_keymap_get(const struct sr_keymap *m, uint64_t key, uint64_t *value)
{
	const struct sr_keymap_slot *slot = m->room ? slot_of(m, key) : NULL;

	if (!slot || !slot->used)
		return false;
	*value = slot->value;
	return true;
}

void sr_keymap_free(struct sr_keymap *m)
{
	free(m->slots);
	*m = (struct sr_keymap){0};
}
