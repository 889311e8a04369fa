/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/grow.h"

#define PAGE 4096u

static uint64_t key_of(uint32_t owner, uint64_t address)
{
	return sr_keymap_of_rank(address / PAGE, owner);
}

void sr_image_free(struct sr_image *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->pages[i]);
	free(m->pages);
	sr_keymap_free(&m->places);
}

static uint8_t *page_of(struct sr_image *m, uint32_t owner, uint64_t address)
{
	uint64_t at;
	uint8_t **added;

	if (sr_keymap_get(&m->places, key_of(owner, address), &at))
		return m->pages[at];
	added = sr_grow((void **)&m->pages, m->n, &m->room, sizeof(*added));
	if (!added)
		return NULL;
	*added = calloc(1, PAGE);
	if (!*added || sr_keymap_put(&m->places, key_of(owner, address), m->n)) {
		free(*added);
		return NULL;
	}
	return m->pages[m->n++];
}

static size_t within_page(uint64_t address, size_t length)
{
	size_t left = PAGE - address % PAGE;

	return length < left ? length : left;
}

int sr_image_put(struct sr_image *m, uint32_t owner, uint64_t address, const uint8_t *data, size_t length)
{
	size_t n;

	for (; length; length -= n, address += n, data += n) {
		uint8_t *page = page_of(m, owner, address);

		if (!page)
			return -ENOMEM;
		n = within_page(address, length);
		memcpy(page + address % PAGE, data, n);
	}
	return 0;
}

void sr_image_get(const struct sr_image *m, uint32_t owner, uint64_t address, uint8_t *data, size_t length)
{
	size_t n;
	uint64_t at;

	for (; length; length -= n, address += n, data += n) {
		n = within_page(address, length);
		if (sr_keymap_get(&m->places, key_of(owner, address), &at))
			memcpy(data, m->pages[at] + address % PAGE, n);
		else
			memset(data, 0, n);
	}
}
