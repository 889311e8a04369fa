/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/races_again.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/log/schema.h"
#include "replay/analysis/races/instances.h"
#include "replay/print/json.h"
#include "replay/print/races.h"

/* Of each access: its call, and the one in front of it. */
#define INSTANCES 2

static const char *kind_word(uint8_t kind)
{
	static const char *const words[SR_ACCESS_KINDS] = {
	    [SR_ACCESS_WRITE] = "write",     [SR_ACCESS_READ] = "read",
	    [SR_ACCESS_ATOMIC] = "atomic",   [SR_ACCESS_LOAD] = "load",
	    [SR_ACCESS_STORE] = "store",     [SR_ACCESS_GATHER] = "gather",
	    [SR_ACCESS_SCATTER] = "scatter", [SR_ACCESS_RECV] = "receive",
	    [SR_ACCESS_RELEASE] = "release", [SR_ACCESS_MESSAGE] = "message",
	    [SR_ACCESS_CHANGE] = "change",
	};

	return kind < SR_ACCESS_KINDS && words[kind] ? words[kind] : "";
}

/* What is held of a message that comes into a posted receive is the request that sends it. */
static const struct sr_access *sender_of(const struct sr_races *r, const struct sr_access *a)
{
	const struct sr_race_model *m = &r->run.model;

	for (size_t i = 0; a->kind == SR_ACCESS_RECV && a->request && i < m->accesses_n; i++)
		if (m->accesses[i].request == a->request && m->accesses[i].kind != SR_ACCESS_RECV)
			return &m->accesses[i];
	return a;
}

static void ask(struct sr_instance at[INSTANCES], const struct sr_races *r,
		const struct sr_access *access)
{
	const struct sr_access *a = sender_of(r, access);
	const int32_t rank = r->how.links->ranks[a->rank].number;
	/* A store whose instruction is known has the SN in front of it. */
	const uint64_t sn = a->kind == SR_ACCESS_STORE && a->site_is != SR_SITE_CALL ? a->sn + 1 : a->sn;

	at[0] = (struct sr_instance){.rank = rank, .thread = a->thread, .sn = sn};
	at[1] =
	    (struct sr_instance){.rank = rank, .thread = a->thread, .sn = sn, .is_before = true};
}

static json_t *code(const struct sr_races *r, const struct sr_access *a, uint64_t site)
{
	uint64_t name = sr_race_code(r->stacks, a->rank, site);

	return name ? sr_json_address(name) : json_null();
}

static json_t *instance(const struct sr_schema *schema, const struct sr_races *r,
			const struct sr_access *a, const struct sr_instance *i)
{
	if (!i->kind)
		return json_null();
	return json_pack("{s:s, s:o, s:o, s:I}", "name", sr_schema_name(schema, i->kind), "site",
			 sr_json_address(i->site), "code", code(r, a, i->site), "occurrence",
			 (json_int_t)i->occurrence);
}

/* A store has that of the call behind it. */
static void add_stack(json_t *access, struct sr_call_sites *sites, const struct sr_races *r,
		      const struct sr_access *a, uint64_t site)
{
	const bool is_fault = a->fault && a->kind == SR_ACCESS_LOAD, is_store = a->kind == SR_ACCESS_STORE;
	uint64_t stack = sr_race_stack(r->stacks, a->rank, a->thread, is_fault ? a->pc : site,
				       is_store && a->site_is != SR_SITE_CALL ? a->sn + 1 : a->sn, is_fault ? a->fault : 0);

	json_object_set_new(access, "code", code(r, a, a->pc ? a->pc : a->site));
	json_object_set_new(access, "stack", stack ? sr_json_address(stack) : json_null());
	json_object_set_new(access, "frames", sr_race_frames(sites, r, a, stack));
	/* By it the load would not be found in other runs. */
	if (is_fault && stack && !sr_race_stack_exactly(r->stacks, a->rank, a->thread, a->pc, a->sn, a->fault))
		json_object_set_new(access, "stack_of_another", json_true());
}

static int add(json_t *access, struct sr_call_sites *sites, const struct sr_races *r,
	       const struct sr_access *found, const struct sr_instance at[INSTANCES],
	       struct sr_error *err)
{
	const struct sr_access *a = sender_of(r, found);
	const char *child;
	struct sr_schema *schema = sr_schema_of(r->how.trace, at[0].rank, err);

	if (!schema)
		return -EBADMSG;
	json_object_set_new(access, "kind", json_string(kind_word(found->kind)));
	json_object_set_new(access, "opcode", json_integer(a->opcode));
	if (a != found) {
		json_object_set_new(access, "sender", json_integer(sr_json_rank(r->how.links->ranks[a->rank].name, &child)));
		if (child)
			json_object_set_new(access, "sender_child", json_string(child));
		json_object_set_new(access, "sender_sn", json_integer((json_int_t)a->sn));
	}
	json_object_set_new(access, "call", instance(schema, r, a, &at[0]));
	add_stack(access, sites, r, a, at[0].site);
	if (a->is_nearby)
		json_object_set_new(access, "nearby", json_true());
	if (a->kind == SR_ACCESS_STORE)
		json_object_set_new(access, "after", instance(schema, r, a, &at[1]));
	sr_schema_free(schema);
	return 0;
}

int sr_races_add_instances(json_t *list, struct sr_call_sites *sites, const struct sr_races *r,
			   struct sr_error *err)
{
	const size_t n = json_array_size(list);
	struct sr_instance *all = calloc(n * 2 * INSTANCES + 1, sizeof(*all));
	json_t *race;
	size_t i;
	int ret = all ? 0 : sr_error_set(err, -ENOMEM, "no memory left");

	json_array_foreach(list, i, race)
	{
		const struct sr_race *of =
		    &r->races[json_integer_value(json_object_get(race, "id")) - 1];

		if (ret)
			break;
		ask(&all[i * 2 * INSTANCES], r, &of->a);
		ask(&all[(i * 2 + 1) * INSTANCES], r, &of->b);
	}
	if (!ret)
		ret = sr_instances_find(r->how.trace, all, n * 2 * INSTANCES, err);
	json_array_foreach(list, i, race)
	{
		const struct sr_race *of =
		    &r->races[json_integer_value(json_object_get(race, "id")) - 1];
		json_t *accesses = json_object_get(race, "accesses");

		if (!ret)
			ret = add(json_array_get(accesses, 0), sites, r, &of->a,
				  &all[i * 2 * INSTANCES], err);
		if (!ret)
			ret = add(json_array_get(accesses, 1), sites, r, &of->b,
				  &all[(i * 2 + 1) * INSTANCES], err);
	}
	free(all);
	return ret;
}

static bool is_same_access(const json_t *was, const struct sr_access *a, uint64_t stack)
{
	const char *kind = json_string_value(json_object_get(was, "kind")),
		   *site = json_string_value(json_object_get(was, "site"));
	const char *name = json_string_value(json_object_get(was, "stack"));

	return kind && site && !strcmp(kind, kind_word(a->kind)) &&
	       strtoull(site, NULL, 16) == a->site &&
	       (!stack || (name && strtoull(name, NULL, 16) == stack));
}

json_t *sr_races_confirmation(const json_t *earlier, const struct sr_race *race)
{
	json_t *was, *found, *accesses;
	const char *class;
	size_t i;

	json_array_foreach(json_object_get(earlier, "races"), i, was)
	{
		found = json_object_get(was, "confirmation");
		class = json_string_value(json_object_get(was, "class"));
		accesses = json_object_get(was, "accesses");
		if (json_is_true(json_object_get(found, "confirmed")) && class &&
		    !strcmp(class, sr_race_class_word(race->class)) &&
		    is_same_access(json_array_get(accesses, 0), &race->a, race->stack_a) &&
		    is_same_access(json_array_get(accesses, 1), &race->b, race->stack_b))
			return found;
	}
	return NULL;
}

json_t *sr_races_earlier(const char *dir)
{
	char *path = NULL;
	json_t *all;

	if (asprintf(&path, "%s/races.json", dir) < 0)
		return NULL;
	all = json_load_file(path, 0, NULL);
	free(path);
	return all;
}
