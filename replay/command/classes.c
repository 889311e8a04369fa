/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/classes.h"

#include <stdio.h>
#include <stdlib.h>

#include "replay/print/json.h"
#include "replay/print/names.h"

typedef unsigned long long ull;

/* A smaller share is not worth a line. */
#define LEAST_PERCENT 1.0

void sr_classes_add(struct sr_classes *c, const struct sr_entry *e)
{
	const uint16_t kind = e->again ? SR_REC_CYCLE : e->kind;
	const uint64_t size = e->again ? sizeof(*e->cycle) : e->size;

	if (e->again && !e->cycle)
		return;
	c->of[kind].records++;
	c->of[kind].bytes += (size + sizeof(struct sr_record) + SR_RECORD_ALIGN - 1) & ~(uint64_t)(SR_RECORD_ALIGN - 1);
}

static int by_bytes(const void *a, const void *b)
{
	const struct sr_class *x = *(const struct sr_class *const *)a,
			      *y = *(const struct sr_class *const *)b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x < y ? -1 : 1;
}

/* The kinds that there are, the most bytes first; malloc'ed, NULL: no memory. */
static const struct sr_class **sorted(const struct sr_classes *c, size_t *n)
{
	const struct sr_class **list = malloc(SR_KINDS * sizeof(*list));

	*n = 0;
	for (size_t kind = 0; list && kind < SR_KINDS; kind++)
		if (c->of[kind].records)
			list[(*n)++] = &c->of[kind];
	if (list)
		qsort(list, *n, sizeof(*list), by_bytes);
	return list;
}

static uint16_t kind_of(const struct sr_classes *c, const struct sr_class *class)
{
	return (uint16_t)(class - c->of);
}

static const char *name_of(const struct sr_schema *schema, uint16_t kind)
{
	return kind >= SR_REC_CALL ? sr_schema_name(schema, kind) : sr_record_name(kind);
}

void sr_classes_print(const struct sr_classes *c, const struct sr_schema *schema)
{
	size_t n;
	const struct sr_class **list = sorted(c, &n);
	double all = 0;

	for (size_t i = 0; i < n; i++)
		all += (double)list[i]->bytes;
	if (n)
		puts("  of the bytes, before they are compressed:");
	for (size_t i = 0; i < n; i++) {
		uint16_t kind = kind_of(c, list[i]);
		double percent = 100 * (double)list[i]->bytes / all;

		if (percent < LEAST_PERCENT)
			break;
		printf("  %8.1f %%  %llu bytes in %llu records %s%s\n", percent,
		       (ull)list[i]->bytes, (ull)list[i]->records, kind >= SR_REC_CALL ? "of " : "",
		       name_of(schema, kind));
	}
	free(list);
}

json_t *sr_classes_json(const struct sr_classes *c, const struct sr_schema *schema)
{
	size_t n;
	const struct sr_class **list = sorted(c, &n);
	json_t *all = json_array();

	for (size_t i = 0; i < n; i++) {
		uint16_t kind = kind_of(c, list[i]);

		json_array_append_new(
		    all, json_pack("{s:s, s:b, s:o, s:o}", "class", name_of(schema, kind), "call",
				   kind >= SR_REC_CALL, "records", sr_json_count(list[i]->records),
				   "bytes", sr_json_count(list[i]->bytes)));
	}
	free(list);
	return all;
}
