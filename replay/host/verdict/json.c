/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/verdict/json.h"

#include <stdlib.h>
#include <unistd.h>

#include "replay/print/json.h"
#include "replay/print/say.h"

static const char *const outcomes[] = {
    [SR_REPLAY_RUNNING] = "unfinished",
    [SR_REPLAY_EXACT] = "exact",
    [SR_REPLAY_DIED] = "killed as recorded",
    [SR_REPLAY_CUT] = "cut",
    [SR_REPLAY_DIVERGED] = "diverged",
    [SR_REPLAY_EARLY_EXIT] = "early exit",
    [SR_REPLAY_LATE_CALL] = "late call",
    [SR_REPLAY_UNSUPPORTED] = "unsupported call",
    [SR_REPLAY_BAD_RECORD] = "bad record",
    [SR_REPLAY_THREAD_CUT] = "cut",
    [SR_REPLAY_PEER_EXITED] = "peer exited",
    [SR_REPLAY_MISSED_LOAD] = "missed load",
    [SR_REPLAY_WAITS] = "waits",
    [SR_REPLAY_NO_EXPOSED] = "exposed memory not watched",
    [SR_REPLAY_EXECUTED] = "executed",
    [SR_REPLAY_NOT_TRANSFERRED] = "not transferred",
    [SR_REPLAY_NOT_PRODUCED] = "not produced",
    [SR_REPLAY_OTHER_PRODUCED] = "other produced",
    [SR_REPLAY_CAUSES_END] = "causes end",
    [SR_REPLAY_OTHER_SENT] = "other sent",
    [SR_REPLAY_OTHER_RECEIVED] = "other received",
};

#define OUTCOMES (sizeof(outcomes) / sizeof(outcomes[0]))

static const char *outcome_of(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	uint32_t number = atomic_load_explicit(&c->outcome, memory_order_acquire);

	if (number == SR_REPLAY_RUNNING && v->stuck)
		return "stuck";
	return number < OUTCOMES ? outcomes[number] : outcomes[SR_REPLAY_RUNNING];
}

static json_t *site_json(const struct sr_verdict *v, uint64_t site)
{
	char *text = NULL;
	json_t *words;
	size_t size;
	FILE *out = site ? open_memstream(&text, &size) : NULL;

	if (out)
		sr_print_site(out, &v->with, site);
	words = out && !fclose(out) ? sr_json_string(text) : json_null();
	free(text);
	return words;
}

/* A call, or another record, which has no name. */
static json_t *event_json(const struct sr_verdict *v, uint16_t kind, uint64_t site)
{
	bool is_call = kind >= SR_REC_CALL && v->with.schema;

	return json_pack("{s:o, s:o}", "call",
			 is_call ? sr_json_string(sr_schema_name(v->with.schema, kind)) : json_null(),
			 "site", site_json(v, site));
}

/* Where the replay ended before the recording did; null: it did not. */
static json_t *place_json(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;

	if (v->how == SR_VERDICT_EXACT || !r->sn)
		return json_null();
	return json_pack("{s:i, s:I, s:o, s:o}", "thread", (int)r->thread, "sn", (json_int_t)r->sn,
			 "recorded", event_json(v, r->expected, r->expected_site), "now",
			 event_json(v, r->found, r->found_site));
}

static const char *verdict_of(const struct sr_verdict *v)
{
	return v->how == SR_VERDICT_EXACT ? "exact" : v->how == SR_VERDICT_CUT ? "cut" : "failed";
}

void sr_verdict_write(int file, const struct sr_verdict *v, const struct sr_replay_control *c,
		      int status)
{
	json_t *line = json_pack(
	    "{s:i, s:i, s:s, s:s, s:o, s:i, s:I, s:o}", "rank", sr_trace_recorded_rank(v->trace, v->rank), "image", (int)v->image,
	    "verdict", verdict_of(v), "outcome", outcome_of(v, c), "text", v->text[0] ? sr_json_string(v->text) : json_null(), "status",
	    status, "calls", (json_int_t)(v->calls_before + sr_replay_calls(c)), "at", place_json(v, c));
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (sr_trace_child(v->trace, v->rank))
		json_object_set_new(line, "child", json_string(sr_trace_child(v->trace, v->rank)));
	json_object_set_new(line, "bytes_from_group", sr_json_count(v->found.inside));
	json_object_set_new(line, "bytes_from_outside", sr_json_count(v->found.outside));
	json_object_set_new(line, "bytes_from_shared_memory", sr_json_count(v->found.shared));
	json_object_set_new(line, "bytes_from_nobody", sr_json_count(v->found.nobody));
	json_object_set_new(line, "values_not_as_sent", sr_json_count(atomic_load(&c->mismatches)));
	json_object_set_new(line, "times_beside", sr_json_count(c->serial ? atomic_load(&c->late) : 0));
	json_object_set_new(line, "places_missed", sr_json_count(atomic_load(&c->missed)));
	json_object_set_new(line, "handlers_between_calls", sr_json_count(atomic_load(&c->handlers_between)));
	json_object_set_new(line, "children_not_started",
			    sr_json_count(v->children_before + atomic_load(&c->children)));
	if (!out) {
		json_decref(line);
		return;
	}
	sr_json_write(out, line);
	if (fclose(out) || write(file, text, size) != (ssize_t)size)
		sr_note("rank %s: its verdict could not be written as JSON", sr_verdict_rank(v));
	free(text);
}
