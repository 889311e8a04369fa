/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/explain_index.h"

#include <errno.h>
#include <stdlib.h>

#define PAGE   4096
#define CHAINS 16384 /* a power of two */

/* A page that a value has bytes in. */
struct part {
	size_t value, rank, next; /* next: its place + 1 */
	uint64_t page;
};

struct sr_explain_index {
	size_t chains[CHAINS]; /* place of the first + 1 */
	struct part *parts;
	size_t n, room, values;
	uint64_t *given, asked; /* of each value: the last question that it was an answer to */
	/* The question. */
	size_t rank, at;
	uint64_t page, last;
};

static size_t chain_of(size_t rank, uint64_t page)
{
	return ((page * 31 + rank) * 0x9e3779b97f4a7c15ull) >> 50 & (CHAINS - 1);
}

struct sr_explain_index *sr_explain_index_new(size_t values)
{
	struct sr_explain_index *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->values = values;
	x->given = calloc(values + 1, sizeof(*x->given));
	if (x->given)
		return x;
	free(x);
	return NULL;
}

void sr_explain_index_free(struct sr_explain_index *x)
{
	if (!x)
		return;
	free(x->parts);
	free(x->given);
	free(x);
}

static uint64_t last_page(uint64_t address, uint64_t length)
{
	return (address + (length ? length - 1 : 0)) / PAGE;
}

int sr_explain_index_add(struct sr_explain_index *x, size_t value, size_t rank, uint64_t address,
			 uint64_t length)
{
	for (uint64_t page = address / PAGE; page <= last_page(address, length); page++) {
		size_t *chain = &x->chains[chain_of(rank, page)];

		if (x->n == x->room) {
			size_t room = x->room ? 2 * x->room : 256;
			struct part *more = realloc(x->parts, room * sizeof(*more));

			if (!more)
				return -ENOMEM;
			x->parts = more;
			x->room = room;
		}
		x->parts[x->n++] = (struct part){value, rank, *chain, page};
		*chain = x->n;
	}
	return 0;
}

void sr_explain_index_ask(struct sr_explain_index *x, size_t rank, uint64_t address,
			  uint64_t length)
{
	x->asked++;
	x->rank = rank;
	x->page = address / PAGE;
	x->last = last_page(address, length);
	x->at = x->chains[chain_of(rank, x->page)];
}

bool sr_explain_index_next(struct sr_explain_index *x, size_t *value)
{
	for (;;) {
		const struct part *part;

		if (!x->at) {
			if (x->page >= x->last)
				return false;
			x->page++;
			x->at = x->chains[chain_of(x->rank, x->page)];
			continue;
		}
		part = &x->parts[x->at - 1];
		x->at = part->next;
		if (part->rank != x->rank || part->page != x->page ||
		    x->given[part->value] == x->asked)
			continue;
		x->given[part->value] = x->asked;
		*value = part->value;
		return true;
	}
}
