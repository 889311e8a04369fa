/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/found.h"

#include <errno.h>
#include <stdbool.h>

#include "replay/analysis/log/grow.h"

int sr_found_keep(struct sr_found_pairs *p, struct sr_found_pair pair)
{
	struct sr_found_pair *at = sr_grow((void **)&p->all, p->n, &p->room, sizeof(*at));

	if (!at)
		return -ENOMEM;
	*at = pair;
	p->n++;
	return 0;
}

static bool is_before(const struct sr_found_pair *a, const struct sr_found_pair *b)
{
	return a->place != b->place ? a->place < b->place : a->piece < b->piece;
}

const struct sr_found_pair *sr_found_next(struct sr_found_pairs *const *p, size_t n)
{
	struct sr_found_pairs *first = NULL;

	for (size_t i = 0; i < n; i++)
		if (p[i]->told < p[i]->n && (!first || is_before(&p[i]->all[p[i]->told], &first->all[first->told])))
			first = p[i];
	return first ? &first->all[first->told++] : NULL;
}
