/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/traffic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

const char *const sr_traffic_names[SR_OP_KINDS] = {
    [SR_OP_KIND_SEND] = "send",
    [SR_OP_KIND_WRITE] = "write",
    [SR_OP_KIND_READ] = "read",
    [SR_OP_KIND_ATOMIC] = "atomic",
};

int sr_traffic_init(struct sr_traffic *t, size_t ranks)
{
	t->n = ranks;
	t->cells = calloc(ranks * (ranks + 1) + 1, sizeof(*t->cells));
	return t->cells ? 0 : -ENOMEM;
}

void sr_traffic_free(struct sr_traffic *t)
{
	free(t->cells);
	t->cells = NULL;
}

void sr_traffic_add(struct sr_traffic *t, size_t from, size_t to, uint8_t opcode, uint64_t bytes)
{
	struct sr_traffic_cell *cell = &t->cells[from * (t->n + 1) + to];
	int kind = sr_op_kind(opcode);

	if (kind < 0)
		return;
	cell->count[kind]++;
	cell->bytes[kind] += bytes;
}

static json_t *cell_json(const struct sr_traffic_cell *cell, int32_t from, json_t *to)
{
	json_t *json = json_pack("{s:i, s:o}", "from", (int)from, "to", to);
	char name[32];

	for (int k = 0; k < SR_OP_KINDS; k++) {
		if (!cell->count[k])
			continue;
		snprintf(name, sizeof(name), "%ss", sr_traffic_names[k]);
		json_object_set_new(json, name, json_integer((json_int_t)cell->count[k]));
		snprintf(name, sizeof(name), "%s_bytes", sr_traffic_names[k]);
		json_object_set_new(json, name, json_integer((json_int_t)cell->bytes[k]));
	}
	return json;
}

json_t *sr_traffic_json(const struct sr_traffic *t, const struct sr_links *links)
{
	json_t *list = json_array();

	for (size_t from = 0; from < t->n; from++)
		for (size_t to = 0; to <= t->n; to++) {
			const struct sr_traffic_cell *cell = &t->cells[from * (t->n + 1) + to];
			uint64_t any = 0;

			for (int k = 0; k < SR_OP_KINDS; k++)
				any |= cell->count[k];
			if (any)
				json_array_append_new(
				    list,
				    cell_json(cell, links->ranks[from].number,
					      to < t->n ? json_integer(links->ranks[to].number)
							: json_null()));
		}
	return list;
}
