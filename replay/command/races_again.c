/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/races_again.h"

#include <errno.h>
#include <stdlib.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/log/schema.h"
#include "replay/analysis/races/instances.h"
#include "replay/print/json.h"

/* Of each access: its call, and the one in front of it. */
#define INSTANCES 2

static const char *kind_word(uint8_t kind)
{
	static const char *const words[SR_ACCESS_KINDS] = {
	    [SR_ACCESS_WRITE] = "write",   [SR_ACCESS_READ] = "read",       [SR_ACCESS_ATOMIC] = "atomic",
	    [SR_ACCESS_LOAD] = "load",     [SR_ACCESS_STORE] = "store",     [SR_ACCESS_GATHER] = "gather",
	    [SR_ACCESS_SCATTER] = "scatter", [SR_ACCESS_RECV] = "receive", [SR_ACCESS_RELEASE] = "release",
	};

	return kind < SR_ACCESS_KINDS && words[kind] ? words[kind] : "";
}

static void ask(struct sr_instance at[INSTANCES], const struct sr_races *r, const struct sr_access *a)
{
	const int32_t rank = r->how.links->ranks[a->rank].number;
	/* A store at a fault comes before the call after that one. */
	const uint64_t sn = a->kind == SR_ACCESS_STORE && a->fault ? a->sn + 1 : a->sn;

	at[0] = (struct sr_instance){.rank = rank, .thread = a->thread, .sn = sn};
	at[1] = (struct sr_instance){.rank = rank, .thread = a->thread, .sn = sn, .is_before = true};
}

static json_t *instance(const struct sr_schema *schema, const struct sr_instance *i)
{
	if (!i->kind)
		return json_null();
	return json_pack("{s:s, s:o, s:I}", "name", sr_schema_name(schema, i->kind), "site", sr_json_address(i->site),
			 "occurrence", (json_int_t)i->occurrence);
}

static int add(json_t *access, const struct sr_races *r, const struct sr_access *a, const struct sr_instance at[INSTANCES],
	       struct sr_error *err)
{
	struct sr_schema *schema = sr_schema_of(r->how.trace, at[0].rank, err);

	if (!schema)
		return -EBADMSG;
	json_object_set_new(access, "kind", json_string(kind_word(a->kind)));
	json_object_set_new(access, "opcode", json_integer(a->opcode));
	json_object_set_new(access, "call", instance(schema, &at[0]));
	if (a->kind == SR_ACCESS_STORE)
		json_object_set_new(access, "after", instance(schema, &at[1]));
	sr_schema_free(schema);
	return 0;
}

int sr_races_add_instances(json_t *list, const struct sr_races *r, struct sr_error *err)
{
	const size_t n = json_array_size(list);
	struct sr_instance *all = calloc(n * 2 * INSTANCES + 1, sizeof(*all));
	json_t *race;
	size_t i;
	int ret = all ? 0 : sr_error_set(err, -ENOMEM, "no memory left");

	json_array_foreach(list, i, race) {
		const struct sr_race *of = &r->races[json_integer_value(json_object_get(race, "id")) - 1];

		if (ret)
			break;
		ask(&all[i * 2 * INSTANCES], r, &of->a);
		ask(&all[(i * 2 + 1) * INSTANCES], r, &of->b);
	}
	if (!ret)
		ret = sr_instances_find(r->how.trace, all, n * 2 * INSTANCES, err);
	json_array_foreach(list, i, race) {
		const struct sr_race *of = &r->races[json_integer_value(json_object_get(race, "id")) - 1];
		json_t *accesses = json_object_get(race, "accesses");

		if (!ret)
			ret = add(json_array_get(accesses, 0), r, &of->a, &all[i * 2 * INSTANCES], err);
		if (!ret)
			ret = add(json_array_get(accesses, 1), r, &of->b, &all[(i * 2 + 1) * INSTANCES], err);
	}
	free(all);
	return ret;
}
