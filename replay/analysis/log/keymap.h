/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * keymap.h: a map of numbers: addresses and keys of a recorded process to what is known about
 * them.
 */
#ifndef REPLAY_ANALYSIS_LOG_KEYMAP_H
#define REPLAY_ANALYSIS_LOG_KEYMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sr_keymap {
	struct sr_keymap_slot *slots; /* zeroed: empty */
	size_t room, used;
	uint64_t zero; /* the value of key 0 */
	bool has_zero;
};

/* The key of a number that each rank has its own of: an address, a word. */
static inline uint64_t sr_keymap_of_rank(uint64_t number, size_t rank)
{
	return number * 0x10001 + rank;
}

/* 0 or -ENOMEM; a value that was there is replaced. */
int sr_keymap_put(struct sr_keymap *m, uint64_t key, uint64_t value);
bool sr_keymap_get(const struct sr_keymap *m, uint64_t key, uint64_t *value);
void sr_keymap_free(struct sr_keymap *m);

#endif
