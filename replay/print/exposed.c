/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/print/exposed.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "logd/base/hex.h"
#include "logd/trace/exposed_records.h"
#include "replay/print/json.h"
#include "replay/print/names.h"

typedef unsigned long long ull;

static const char *const reasons[] = {
    [SR_EXPOSED_OK] = "protected",
    [SR_EXPOSED_REFUSED_ADDRESS] = "its address is in none of the zones",
    [SR_EXPOSED_REFUSED_READ_ONLY] = "a read-only mapping",
    [SR_EXPOSED_REFUSED_HUGE] = "huge pages",
    [SR_EXPOSED_REFUSED_STACK] = "a stack, or thread-local memory",
    [SR_EXPOSED_REFUSED_UNMAPPED] = "not memory of the CPU's",
    [SR_EXPOSED_REFUSED_BY_KERNEL] = "the kernel refused",
    [SR_EXPOSED_REFUSED_NO_MEMORY] = "no memory",
    [SR_EXPOSED_REFUSED_BY_USER] = "as asked for by --exposed=compare",
    [SR_EXPOSED_REFUSED_REREG] = "registered anew by ibv_rereg_mr",
};

#define REASONS (sizeof(reasons) / sizeof(*reasons))

static const char *reason(uint32_t refusal)
{
	return refusal < REASONS ? reasons[refusal] : "unknown";
}

static json_t *bytes(const void *p, size_t n)
{
	char text[2 * 64 + 4];
	size_t shown = n < 64 ? n : 64;

	sr_to_hex(text, p, shown);
	if (shown < n)
		strcat(text, "...");
	return json_string(text);
}

static void print_flags(json_t *v, uint32_t flags)
{
	static const struct {
		uint32_t flag;
		const char *name;
	} names[] = {
	    {SR_EXPOSED_ASYNC, "asynchronous"},           {SR_EXPOSED_AT_CALL, "at_call"},
	    {SR_EXPOSED_AT_RETURN, "at_return"},  {SR_EXPOSED_TICK, "tick"},
	    {SR_EXPOSED_ALONE, "not_still"},      {SR_EXPOSED_YIELD, "yield"},
	    {SR_EXPOSED_MANY, "many"},            {SR_EXPOSED_SNAPSHOT, "snapshot"},
	    {SR_EXPOSED_FILLED, "filled"},           {SR_EXPOSED_LANDING, "landing"},
	    {SR_EXPOSED_BEHIND, "behind"},           {SR_EXPOSED_WRITTEN, "written"},
	    {SR_EXPOSED_AFTER_TICK, "after_tick"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (flags & names[i].flag)
			json_object_set_new(v, names[i].name, json_true());
}

static json_t *print_value(const struct sr_exposed_value *v)
{
	json_t *value = json_pack("{s:o, s:I}", "addr", sr_json_address(v->addr), "length", (json_int_t)v->length);

	if (v->data)
		json_object_set_new(value, "data", bytes(v->data, v->length));
	else
		json_object_set_new(value, "checksum", sr_json_address(v->checksum));
	return value;
}

static json_t *print_event(const struct sr_exposed_event *e)
{
	json_t *v = json_pack("{s:s, s:I}", "record", sr_record_name(SR_REC_EXPOSED), "access", (json_int_t)e->fault);
	json_t *values = json_array(), *protected = json_array();

	if (e->addr)
		json_object_set_new(v, "of", sr_json_address(e->addr));
	if (e->pc)
		json_object_set_new(v, "by", sr_json_address(e->pc));
	if (e->ticks)
		json_object_set_new(v, "ticks", sr_json_count(e->ticks));
	print_flags(v, e->flags);
	for (uint32_t i = 0; i < e->values_n; i++)
		json_array_append_new(values, print_value(&e->values[i]));
	for (uint32_t i = 0; i < e->protected_n; i++)
		json_array_append_new(protected, sr_json_address(e->protected[i]));
	json_object_set_new(v, "values", values);
	json_object_set_new(v, "protected", protected);
	return v;
}

static json_t *print_region(const struct sr_region_payload *r)
{
	return json_pack("{s:s, s:s, s:o, s:I, s:s}", "record", sr_record_name(SR_REC_REGION), "what",
			 (r->what & ~SR_REGION_AT_RETURN) == SR_REGION_ADDED ? "added" : "removed", "addr",
			 sr_json_address(r->addr), "length", (json_int_t)r->length, "how",
			 reason(r->refusal));
}

static void set_counts(json_t *v, const struct sr_exposed_counts_payload *c)
{
#define COUNTED(name) {#name, offsetof(struct sr_exposed_counts_payload, name)}
	static const struct {
		const char *name;
		size_t at;
	} fields[] = {
	    COUNTED(faults),
	    COUNTED(loads),
	    COUNTED(polls),
	    COUNTED(snapshots),
	    COUNTED(stores),
	    COUNTED(exchanges),
	    COUNTED(pass_throughs),
	    COUNTED(protected_by_change),
	    COUNTED(ticks),
	    COUNTED(async_values),
	    COUNTED(unstable),
	    COUNTED(jumps),
	    COUNTED(by_jump),
	};
#undef COUNTED

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		uint64_t count;

		memcpy(&count, (const char *)c + fields[i].at, sizeof(count));
		json_object_set_new(v, fields[i].name, sr_json_count(count));
	}
}

static json_t *print_counts(const struct sr_exposed_counts_payload *c)
{
	json_t *v = json_pack("{s:s}", "record", sr_record_name(SR_REC_EXPOSED_COUNTS));

	set_counts(v, c);
	return v;
}

json_t *sr_exposed_print(const struct sr_entry *e)
{
	static struct sr_exposed_records records;
	struct sr_exposed_counts_payload counts;
	struct sr_region_payload region;

	if (e->kind == SR_REC_EXPOSED)
		return sr_exposed_records_decode(&records, e->payload, e->size)
			   ? print_event(&records.event)
			   : NULL;
	if (e->kind == SR_REC_REGION && e->size >= sizeof(region)) {
		memcpy(&region, e->payload, sizeof(region));
		return print_region(&region);
	}
	if (e->kind == SR_REC_EXPOSED_COUNTS && e->size >= sizeof(counts)) {
		memcpy(&counts, e->payload, sizeof(counts));
		return print_counts(&counts);
	}
	return NULL;
}

static void add_event(struct sr_exposed_sum *sum, const struct sr_exposed_event *e)
{
	sum->values += e->values_n;
	for (uint32_t i = 0; i < e->values_n; i++)
		sum->bytes += e->values[i].length;
	if (e->flags & SR_EXPOSED_ASYNC)
		sum->late += e->values_n;
	sum->ticks += !!(e->flags & SR_EXPOSED_TICK);
	sum->not_still += !!(e->flags & SR_EXPOSED_ALONE);
}

static void add_region(struct sr_exposed_sum *sum, const struct sr_region_payload *r)
{
	uint32_t why = r->refusal < REASONS ? r->refusal : 0;

	if ((r->what & ~SR_REGION_AT_RETURN) != SR_REGION_ADDED)
		return;
	sum->regions += !why;
	sum->region_bytes += why ? 0 : r->length;
	sum->compared[why] += !!why;
	sum->compared_bytes[why] += why ? r->length : 0;
}

void sr_exposed_sum_add(struct sr_exposed_sum *sum, const struct sr_entry *e)
{
	static struct sr_exposed_records records;
	struct sr_region_payload region;

	if (e->kind == SR_REC_EXPOSED &&
	    sr_exposed_records_decode(&records, e->payload, e->size))
		add_event(sum, &records.event);
	if (e->kind == SR_REC_REGION && e->size >= sizeof(region)) {
		memcpy(&region, e->payload, sizeof(region));
		add_region(sum, &region);
	}
	if (e->kind == SR_REC_EXPOSED_COUNTS && e->size >= sizeof(sum->counts)) {
		memcpy(&sum->counts, e->payload, sizeof(sum->counts));
		sum->has_counts = true;
	}
}

static const char *s(uint64_t n)
{
	return n == 1 ? "" : "s";
}

void sr_exposed_sum_print(const struct sr_exposed_sum *sum)
{
	const struct sr_exposed_counts_payload *c = &sum->counts;

	if (sum->regions)
		printf("  exposed: %llu region%s protected (%llu bytes)\n", (ull)sum->regions,
		       s(sum->regions), (ull)sum->region_bytes);
	for (size_t i = 1; i < REASONS; i++)
		if (sum->compared[i])
			printf("  exposed: %llu region%s compared at calls (%llu bytes): %s\n",
			       (ull)sum->compared[i], s(sum->compared[i]),
			       (ull)sum->compared_bytes[i], reasons[i]);
	if (sum->values)
		printf("  exposed: %llu value%s that peers wrote (%llu bytes), %llu of them asynchronous; "
		       "%llu tick%s, %llu page%s that did not hold still\n",
		       (ull)sum->values, s(sum->values), (ull)sum->bytes, (ull)sum->late,
		       (ull)sum->ticks, s(sum->ticks), (ull)sum->not_still, s(sum->not_still));
	if (sum->has_counts)
		printf("  exposed: %llu fault%s, %llu load%s alone (%llu of them polls), %llu "
		       "snapshot%s, %llu store%s, %llu atomic operation%s, %llu passed through, %llu not "
		       "stable\n",
		       (ull)c->faults, s(c->faults), (ull)c->loads, s(c->loads), (ull)c->polls,
		       (ull)c->snapshots, s(c->snapshots), (ull)c->stores, s(c->stores),
		       (ull)c->exchanges, s(c->exchanges), (ull)c->pass_throughs, (ull)c->unstable);
	if (sum->has_counts && c->jumps)
		printf("  exposed: %llu instruction%s of the program replaced by jumps, which %llu of these faults came by\n",
		       (ull)c->jumps, s(c->jumps), (ull)c->by_jump);
}

json_t *sr_exposed_sum_json(const struct sr_exposed_sum *sum)
{
	json_t *v = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "regions", (json_int_t)sum->regions,
			      "region_bytes", (json_int_t)sum->region_bytes, "values", (json_int_t)sum->values,
			      "value_bytes", (json_int_t)sum->bytes, "asynchronous", (json_int_t)sum->late,
			      "ticks", (json_int_t)sum->ticks, "not_still", (json_int_t)sum->not_still);
	json_t *compared = json_array(), *counters = NULL;

	for (size_t i = 1; i < REASONS; i++)
		if (sum->compared[i])
			json_array_append_new(compared, json_pack("{s:s, s:I, s:I}", "why", reasons[i], "regions",
								  (json_int_t)sum->compared[i], "bytes",
								  (json_int_t)sum->compared_bytes[i]));
	json_object_set_new(v, "compared_at_calls", compared);
	if (sum->has_counts) {
		counters = json_object();
		set_counts(counters, &sum->counts);
	}
	json_object_set_new(v, "counters", counters ? counters : json_null());
	return v;
}
