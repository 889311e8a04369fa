/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "replay/export/export.h"

static int compare(struct sr_place x, struct sr_place y)
{
	if (x.track != y.track)
		return x.track < y.track ? -1 : 1;
	return x.slice < y.slice ? -1 : x.slice > y.slice;
}

static int by_from(const void *a, const void *b)
{
	const struct sr_flow *x = *(const struct sr_flow *const *)a;
	const struct sr_flow *y = *(const struct sr_flow *const *)b;

	return compare(x->from, y->from);
}

static int by_to(const void *a, const void *b)
{
	const struct sr_flow *x = *(const struct sr_flow *const *)a;
	const struct sr_flow *y = *(const struct sr_flow *const *)b;
	int order = compare(x->to, y->to);

	return order ? order : (int)y->is_before - (int)x->is_before;
}

int sr_arrows_sort(struct sr_arrows *a, const struct sr_timeline *t)
{
	*a = (struct sr_arrows){0};
	a->by_from = calloc(t->flows_n + 1, sizeof(*a->by_from));
	a->by_to = calloc(t->flows_n + 1, sizeof(*a->by_to));
	if (!a->by_from || !a->by_to)
		return -ENOMEM;
	for (size_t i = 0; i < t->flows_n; i++)
		if (sr_is_exported(&t->flows[i])) {
			a->by_from[a->n] = &t->flows[i];
			a->by_to[a->n++] = &t->flows[i];
		}
	qsort(a->by_from, a->n, sizeof(*a->by_from), by_from);
	qsort(a->by_to, a->n, sizeof(*a->by_to), by_to);
	return 0;
}

void sr_arrows_free(struct sr_arrows *a)
{
	free(a->by_from);
	free(a->by_to);
}

const struct sr_flow *sr_arrows_from(struct sr_arrows *a, struct sr_place p)
{
	if (a->from == a->n || compare(a->by_from[a->from]->from, p))
		return NULL;
	return a->by_from[a->from++];
}

const struct sr_flow *sr_arrows_to(struct sr_arrows *a, struct sr_place p, bool is_before)
{
	if (a->to == a->n || compare(a->by_to[a->to]->to, p) ||
	    a->by_to[a->to]->is_before != is_before)
		return NULL;
	return a->by_to[a->to++];
}
