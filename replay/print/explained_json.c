/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/print/explained_json.h"

#include "replay/print/json.h"

json_t *sr_explained_call_json(const struct sr_explained_words *x, int32_t rank, uint32_t thread,
			       uint64_t sn)
{
	const char *child;
	int number = sr_json_rank(sr_links_name(x->links, rank), &child);

	return json_pack("{s:i, s:s*, s:i, s:I, s:o}", "rank", number, "child", child, "thread", (int)thread, "sn",
			 (json_int_t)sn, "call", sr_json_string(x->call(x->argument, rank, thread, sn)));
}

static json_t *write_json(const struct sr_explained_words *x, size_t rank, const struct sr_written *w,
			  bool is_before, bool is_match)
{
	json_t *v = sr_explained_call_json(x, x->links->ranks[rank].number, w->at.thread, w->at.sn);

	json_object_set_new(v, "opcode", sr_json_string(sr_explained_opcode(w->opcode)));
	json_object_set_new(v, "bytes", sr_json_count(w->length));
	json_object_set_new(v, "address", sr_json_address(w->address));
	json_object_set_new(v, "known_before", json_boolean(is_before));
	json_object_set_new(v, "same_checksum", json_boolean(is_match));
	return v;
}

static void add_writes(json_t *list, const struct sr_explained_words *x, const struct sr_explained *k,
		       size_t rank, uint64_t address, bool is_before)
{
	const struct sr_written *w = (is_before ? k->last : k->since) + rank * SR_WRITES_KEPT;
	size_t n = sr_writes_kept(is_before ? k->last_n[rank] : k->since_n[rank]);

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, write_json(x, rank, &w[i], is_before,
						       !sr_writes_matching(k, &w[i], 1, address)));
}

/* Requests to the memory that the value was in before: some of each rank before it, some since. */
static json_t *writes_json(const struct sr_explained_words *x, const struct sr_explained *k)
{
	json_t *list = json_array();
	uint64_t address;
	size_t memory;

	if (!sr_explained_place(k, &memory, &address))
		return list;
	for (size_t i = 0; i < x->links->ranks_n; i++) {
		add_writes(list, x, k, i, address, true);
		add_writes(list, x, k, i, address, false);
	}
	return list;
}

static const char *found_by(const struct sr_found_value *f)
{
	if (f->flags & SR_FOUND_UNCHANGED)
		return "unchanged";
	if (f->producer >= 0)
		return f->flags & SR_FOUND_CPU ? "cpu" : "request";
	if (f->flags & SR_FOUND_NOBODY)
		return "nobody";
	return f->flags & SR_FOUND_SHARED ? "shared memory" : "outside";
}

/* What a replay found by comparing the bytes. */
static json_t *found_json(const struct sr_explained_words *x, const struct sr_explained *k)
{
	json_t *list = json_array(), *v;

	for (size_t i = 0; i < x->found_n; i++) {
		const struct sr_found_value *f = &x->found[i];

		if (!sr_explained_is_of(k, f))
			continue;
		v = json_pack("{s:o, s:i, s:s, s:b, s:o}", "address", sr_json_address(f->addr), "bytes",
			      (int)f->length, "by", found_by(f), "others_wrote_the_same",
			      (f->flags & SR_FOUND_SEVERAL) != 0, "producer",
			      f->producer < 0 ? json_null()
					      : sr_explained_call_json(x, f->producer, f->producer_thread,
								       f->producer_sn));
		json_array_append_new(list, v);
	}
	return list;
}

static void set_owner(json_t *v, const struct sr_explained_words *x, size_t rank)
{
	const char *child = NULL;
	bool known = rank != SR_NO_RANK;

	json_object_set_new(v, "from", known ? json_integer(sr_json_rank(x->links->ranks[rank].name, &child)) : json_null());
	if (child)
		json_object_set_new(v, "from_child", json_string(child));
}

/* The message or the READ that brought it. */
static void set_source(json_t *v, const struct sr_explained_words *x, const struct sr_explained *k)
{
	json_t *source;

	if (k->v.is_message) {
		json_object_set_new(v, "via", json_string("message"));
		source = sr_explained_call_json(x, x->links->ranks[k->v.from].number, k->v.sent.thread,
						k->v.sent.sn);
		json_object_set_new(source, "request", json_integer(k->v.request));
		json_object_set_new(source, "bytes", sr_json_count(k->v.message_length));
		json_object_set_new(source, "ambiguous",
				    json_boolean(k->v.flags & SR_PLAN_AMBIGUOUS));
		json_object_set_new(v, "sent_by", source);
	} else if (!k->v.is_exposed && k->v.sent.sn) {
		json_object_set_new(v, "via", json_string("fetch"));
		source = sr_explained_call_json(x, x->rank, k->v.sent.thread, k->v.sent.sn);
		set_owner(source, x, k->v.from);
		json_object_set_new(source, "from_address", sr_json_address(k->v.remote));
		json_object_set_new(v, "fetched_by", source);
	} else {
		json_object_set_new(v, "via",
				    json_string(k->v.is_exposed ? "exposed memory" : "unknown sender"));
	}
}

static uint32_t count_unchanged(const struct sr_explained *k)
{
	uint32_t same = 0;

	for (uint32_t i = 0; i < k->v.length; i++)
		same += k->before_known[i] && k->before[i] == k->data[i];
	return same;
}

json_t *sr_explained_json(const struct sr_explained_words *x, const struct sr_explained *k)
{
	json_t *v = json_pack("{s:o, s:i, s:o}", "address", sr_json_address(k->v.address), "bytes",
			      (int)k->v.length, "data", sr_json_hex(k->data, k->v.length));
	uint32_t same = count_unchanged(k);

	set_source(v, x, k);
	if (k->v.at.fault) {
		json_object_set_new(v, "fault", json_integer(k->v.at.fault));
		/* The site is the instruction itself, not a return address. */
		json_object_set_new(v, "loaded_at",
				    sr_json_string(x->address(x->argument, x->rank, k->v.site + 1)));
	}
	json_object_set_new(v, "found", found_json(x, k));
	json_object_set_new(v, "writes", writes_json(x, k));
	json_object_set_new(v, "unchanged_bytes", json_integer(same));
	json_object_set_new(v, "unchanged_since_sn", same ? sr_json_count(k->before_sn) : json_null());
	return v;
}
