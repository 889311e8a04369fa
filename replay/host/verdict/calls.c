/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/verdict/messages.h"

#include <stdio.h>
#include <string.h>

#include "replay/host/other_output.h"
#include "replay/host/verdict/verdict.h"
#include "replay/host/verdict/words.h"
#include "replay/print/exec.h"
#include "replay/print/say.h"

typedef unsigned long long ull;

/* NULL: the report does not have them, or not all of their bytes. */
static json_t *decode_arguments(const struct sr_verdict *v, uint16_t kind, const uint8_t *in,
				uint32_t size)
{
	if (!v->with.schema || size > SR_REPLAY_BYTES)
		return NULL;
	return sr_schema_decode_in(v->with.schema, kind, in, size);
}

static void say_call(const struct sr_verdict *v, const char *what, uint16_t kind, uint64_t site,
		     const json_t *arguments, const uint8_t *in, uint32_t size)
{
	if (kind < SR_REC_CALL) {
		fprintf(stderr, "sreplay:   %s %s", what, sr_verdict_name(v, kind));
		if (kind == SR_REC_EXEC)
			sr_print_exec(stderr, in, size);
		fputc('\n', stderr);
		return;
	}
	fprintf(stderr, "sreplay:   %s %s(", what, sr_verdict_name(v, kind));
	if (arguments)
		sr_schema_print(stderr, arguments);
	else
		fprintf(stderr, "%u bytes", size);
	fputs(") ", stderr);
	sr_print_site(stderr, &v->with, site);
	fputc('\n', stderr);
}

/* Long arguments are cut when printed, so their names help. */
static void say_which_differ(json_t *recorded, json_t *now)
{
	const char *name, *separator = " ";
	json_t *value;

	fputs("sreplay:   different:", stderr);
	json_object_foreach(recorded, name, value)
	{
		if (json_equal(value, json_object_get(now, name)))
			continue;
		fprintf(stderr, "%s%s", separator, name);
		separator = ", ";
	}
	fputc('\n', stderr);
}

static bool has_recorded_arguments(const struct sr_replay_report *r)
{
	return r->expected_size == r->found_size && r->found_size <= SR_REPLAY_BYTES &&
	       !memcmp(r->expected_in, r->found_in, r->found_size);
}

void sr_verdict_say_divergence(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;
	json_t *recorded = decode_arguments(v, r->expected, r->expected_in, r->expected_size);
	json_t *now = decode_arguments(v, r->found, r->found_in, r->found_size);

	sr_verdict_mismatch(v, c); /* which may be why */
	sr_verdict_where(v, r);
	if (r->expected != r->found)
		fprintf(stderr, "the program called %s where the recording has %s\n",
			sr_verdict_name(v, r->found), sr_verdict_name(v, r->expected));
	else if (r->output.differs && has_recorded_arguments(r))
		fprintf(stderr, "%s writes other bytes than recorded\n", sr_verdict_name(v, r->found));
	else
		fprintf(stderr, "%s with other arguments than recorded\n", sr_verdict_name(v, r->found));
	say_call(v, "recorded:", r->expected, r->expected_site, recorded, r->expected_in,
		 r->expected_size);
	say_call(v, "now:     ", r->found, r->found_site, now, r->found_in, r->found_size);
	if (r->expected == r->found && recorded && now && !has_recorded_arguments(r))
		say_which_differ(recorded, now);
	if (r->output.differs)
		sr_say_other_output(&r->output);
	json_decref(recorded);
	json_decref(now);
	sr_verdict_last_calls(v, r);
}

void sr_verdict_say_early_exit(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;

	sr_verdict_where(v, r);
	fprintf(stderr, "the program ended with status %d", r->found_status);
	if (r->expected) {
		fprintf(stderr, " where the recording has %s ", sr_verdict_name(v, r->expected));
		sr_print_site(stderr, &v->with, r->expected_site);
		fputc('\n', stderr);
	} else {
		fprintf(stderr, ", recorded was %d\n", r->expected_status);
	}
	sr_verdict_last_calls(v, r);
}

void sr_verdict_say_late_call(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;

	sr_verdict_where(v, r);
	fprintf(stderr, "the program called %s where the recording ends with status %d\n",
		sr_verdict_name(v, r->found), r->expected_status);
	fputs("sreplay:   now:      ", stderr);
	sr_print_site(stderr, &v->with, r->found_site);
	fputc('\n', stderr);
	sr_verdict_last_calls(v, r);
}

/* The recording has only the loads that found something new. */
void sr_verdict_say_missed_load(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;

	sr_verdict_where(v, r);
	fputs("after it, the program does not load from an exposed region where the recording does\n",
	      stderr);
	sr_verdict_place(v, "recorded:", r->expected_site, r->expected_address, SR_REC_EXPOSED);
	sr_verdict_place(v, "now:     ", r->found_site, r->found_address, r->found);
	sr_verdict_last_calls(v, r);
}

void sr_verdict_say_waits(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;

	sr_verdict_where(v, r);
	fputs("after it, the program waits for an exposed region to change, where the recording "
	      "goes on\n",
	      stderr);
	sr_verdict_place(v, "recorded:", r->expected_site, 0, r->expected);
	sr_verdict_place(v, "now:     ", r->found_site, r->found_address, SR_REC_EXPOSED);
	sr_verdict_last_calls(v, r);
}

void sr_verdict_say_no_exposed(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;

	sr_verdict_where(v, r);
	fprintf(stderr,
		"the exposed region at 0x%llx cannot be watched here as it was in the recording\n",
		(ull)r->expected_address);
}

void sr_verdict_say_cut(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;

	sr_verdict_where(v, r);
	if (r->found)
		fprintf(stderr, "the trace ends here, before the program does (next would be %s)\n", sr_verdict_name(v, r->found));
	else
		fprintf(stderr, "the trace ends here, before the program does, which makes no recorded call any more\n");
	if (v->warning)
		sr_note("%s", v->warning);
}

void sr_verdict_say_unsupported(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	sr_verdict_where(v, &c->report);
	fprintf(stderr, "%s cannot be replayed yet\n", sr_verdict_name(v, c->report.found));
}

void sr_verdict_say_bad_record(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	sr_verdict_where(v, &c->report);
	fprintf(stderr, "the record of %s is damaged, or of another version of sreplay\n",
		sr_verdict_name(v, c->report.expected));
}
