/* SPDX-License-Identifier: BSD-2-Clause */
/* events.h: the events that a run of a random program recorded, in order, for a replay. */
#ifndef TESTS_EXPOSED_EVENTS_H
#define TESTS_EXPOSED_EVENTS_H

#include <stdint.h>

#include "shim/exposed/exposed.h"

struct item {
	struct item *next;
	struct sr_exposed_event e;
};

struct items {
	struct item *first, *last;
	uint64_t n;
};

/* Copies n bytes from p to memory that lasts as long as the items are needed. */
typedef void *keeper(const void *p, size_t n);

static inline void keep_event(struct items *items, const struct sr_exposed_event *e, keeper *keep)
{
	struct item new = {.e = *e}, *i;
	struct sr_exposed_value *values = keep(e->values, e->values_n * sizeof(*values));

	for (uint32_t n = 0; n < e->values_n; n++)
		values[n].data = keep(values[n].data, values[n].length);
	new.e.values = values;
	new.e.protected = keep(e->protected, e->protected_n * sizeof(*e->protected));
	i = keep(&new, sizeof(new));
	if (items->last)
		items->last->next = i;
	else
		items->first = i;
	items->last = i;
	items->n++;
}

#endif
