/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/keymap.h"

#include <errno.h>

#include "replay/analysis/log/large.h"

/* Open addressing.  Nothing is ever removed: numbers that go away are few, or are used again. */
struct sr_keymap_slot {
	uint64_t key, value; /* key 0: free */
};

/* Where the key is, or is to be. */
static struct sr_keymap_slot *slot_of(const struct sr_keymap *m, uint64_t key)
{
	size_t i = (key * 0x9e3779b97f4a7c15ull) >> 32 & (m->room - 1);

	while (m->slots[i].key && m->slots[i].key != key)
		i = (i + 1) & (m->room - 1);
	return &m->slots[i];
}

static int grow(struct sr_keymap *m)
{
	const size_t room = m->room ? 2 * m->room : 64;
	struct sr_keymap bigger = {.slots = sr_large_zeroed(room, sizeof(*bigger.slots)), .room = room};

	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < m->room; i++)
		if (m->slots[i].key)
			*slot_of(&bigger, m->slots[i].key) = m->slots[i];
	sr_large_free(m->slots, m->room, sizeof(*m->slots));
	m->slots = bigger.slots;
	m->room = room;
	return 0;
}

int sr_keymap_put(struct sr_keymap *m, uint64_t key, uint64_t value)
{
	struct sr_keymap_slot *slot;

	if (!key) {
		m->used += !m->has_zero;
		m->has_zero = true;
		m->zero = value;
		return 0;
	}
	if (2 * m->used >= m->room && grow(m))
		return -ENOMEM;
	slot = slot_of(m, key);
	m->used += !slot->key;
	*slot = (struct sr_keymap_slot){key, value};
	return 0;
}

bool sr_keymap_get(const struct sr_keymap *m, uint64_t key, uint64_t *value)
{
	const struct sr_keymap_slot *slot;

	if (!key) {
		if (m->has_zero)
			*value = m->zero;
		return m->has_zero;
	}
	slot = m->room ? slot_of(m, key) : NULL;
	if (!slot || !slot->key)
		return false;
	*value = slot->value;
	return true;
}

void sr_keymap_free(struct sr_keymap *m)
{
	sr_large_free(m->slots, m->room, sizeof(*m->slots));
	*m = (struct sr_keymap){0};
}
