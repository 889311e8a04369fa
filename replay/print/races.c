/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/print/races.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "replay/print/json.h"

const char *sr_race_doubt_words(uint16_t doubts, size_t i)
{
	static const struct {
		uint16_t doubt;
		const char *words;
	} all[] = {
	    {SR_DOUBT_ORDER, "a value that was read may have come from several requests, and some of them would order the two"},
	    {SR_DOUBT_SAMPLED, "the page was read as a whole: the program may not have loaded these bytes"},
	    {SR_DOUBT_OUTSIDE, "something outside of the recorded ranks may order them"},
	    {SR_DOUBT_THREADS, "another thread may have stored this, at another time"},
	    {SR_DOUBT_REPLAY, "the store was found by a replay that was not exact"},
	    {SR_DOUBT_SENT, "the bytes had arrived: only a packet that is sent again would read them here"},
	    {SR_DOUBT_SHARED, "the ranks may order them by memory that they share"},
	    {SR_DOUBT_LOOP, "orders in the trace contradict each other, and some were dropped"},
	    {SR_DOUBT_BENIGN, "the program says that races in this memory do no harm"},
	    {SR_DOUBT_LOCKSET, "something orders them in this run, but neither a lock that both have nor a barrier does"},
	    {SR_DOUBT_CUT, "the trace has no clocks, or lacks calls"},
	};

	for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
		if (doubts & all[k].doubt && !i--)
			return all[k].words;
	return "";
}

static int32_t number_of(const struct sr_races *r, uint32_t rank)
{
	return r->how.links->ranks[rank].number;
}

char *sr_race_place(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_access *a)
{
	const int32_t rank = number_of(r, a->rank);
	const char *words;

	if (a->site_is == SR_SITE_CALL)
		words = sr_call_sites_call(sites, rank, a->thread, a->sn);
	else
		words = sr_call_sites_address(sites, rank, a->site + (a->site_is == SR_SITE_INSTRUCTION));
	return strdup(words);
}

/* What is below main is the C library's, and ours. */
static bool is_below_main(const char *frame)
{
	return !strncmp(frame, "sr_main_below", 13) || !strncmp(frame, "__libc_start", 12) || !strncmp(frame, "start_thread", 12);
}

json_t *sr_race_frames(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_access *a, uint64_t stack)
{
	const uint64_t *frame;
	size_t n = sr_race_stack_frames(r->stacks, a->rank, stack, &frame);
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		/* Of a fault the instruction, else the address behind the call. */
		const char *words = sr_call_sites_address(sites, number_of(r, a->rank), frame[i] + (a->pc && !i));

		if (is_below_main(words))
			break;
		json_array_append_new(list, sr_json_string(words));
	}
	return list;
}

static void print_callers(FILE *out, struct sr_call_sites *sites, const struct sr_races *r, const struct sr_access *a, uint64_t stack)
{
	json_t *frames = sr_race_frames(sites, r, a, stack), *frame;
	bool is_first = true;
	size_t i;

	/* Of objects that were loaded later, the trace has no names. */
	json_array_foreach(frames, i, frame)
		if (i && *json_string_value(frame)) {
			fprintf(out, "%s%s", is_first ? "      called by " : ", ", json_string_value(frame));
			is_first = false;
		}
	fprintf(out, "%s", is_first ? "" : "\n");
	json_decref(frames);
}

/* Of a store without a place only the next call is known. */
static const char *when_words(const struct sr_access *a)
{
	if (a->site_is != SR_SITE_CALL)
		return "after";
	return a->kind == SR_ACCESS_STORE ? "before" : "at";
}

void sr_race_access_print(FILE *out, struct sr_call_sites *sites, const struct sr_races *r, const struct sr_access *a, uint64_t stack)
{
	char text[64], *place = sr_race_place(sites, r, a);

	fprintf(out, "    %s", sr_race_access_words(a, text));
	if (a->kind != SR_ACCESS_MESSAGE)
		fprintf(out, " of %" PRIu64 " bytes", a->end - a->begin);
	fprintf(out, " by rank %d", number_of(r, a->rank));
	if (a->thread)
		fprintf(out, " thread %u", a->thread);
	fprintf(out, " %s SN %" PRIu64, when_words(a), a->sn);
	if (a->fault)
		fprintf(out, " (fault %u)", a->fault);
	fprintf(out, "%s%s\n", place && *place ? (a->site_is == SR_SITE_CALL ? ", " : ", at ") : "", place ? place : "");
	free(place);
	print_callers(out, sites, r, a, stack);
}

/* What the memory of the race was registered as last; NULL: not known. */
static const struct sr_region *region_of(const struct sr_races *r, const struct sr_race *race)
{
	const struct sr_links_rank *owner = &r->how.links->ranks[race->a.owner];

	for (size_t i = owner->regions_n; i-- > 0;)
		if (owner->regions[i].begin <= race->begin && race->end <= owner->regions[i].end)
			return &owner->regions[i];
	return NULL;
}

static void print_region(FILE *out, struct sr_call_sites *sites, const struct sr_races *r, const struct sr_race *race)
{
	const struct sr_region *g = race->class == SR_RACE_MESSAGE ? NULL : region_of(r, race);
	const struct sr_access owner = {.rank = race->a.owner};

	if (!g)
		return;
	fprintf(out, "    byte %" PRIu64 " of the %" PRIu64 " that it registered at SN %" PRIu64 ", %s\n", race->begin - g->begin, g->end - g->begin, g->sn,
		sr_call_sites_call(sites, number_of(r, owner.rank), g->thread, g->sn));
	print_callers(out, sites, r, &owner, sr_race_stack(r->stacks, owner.rank, g->thread, g->site, g->sn, 0));
}

static json_t *region_json(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_race *race)
{
	const struct sr_region *g = race->class == SR_RACE_MESSAGE ? NULL : region_of(r, race);

	if (!g)
		return json_null();
	return json_pack("{s:o, s:I, s:i, s:I, s:o}", "address", sr_json_address(g->begin), "length", (json_int_t)(g->end - g->begin), "thread",
			 (int)g->thread, "sn", (json_int_t)g->sn, "place",
			 sr_json_string(sr_call_sites_call(sites, number_of(r, race->a.owner), g->thread, g->sn)));
}

void sr_race_print(FILE *out, struct sr_call_sites *sites, const struct sr_races *r, const struct sr_race *race,
		   size_t number)
{
	const char *words;

	fprintf(out, "race %zu: %s, %s, %s; %" PRIu64 " pair%s\n", number, sr_race_severity_word(race->severity),
		sr_race_class_word(race->class), sr_race_evidence_word(race->evidence), race->count,
		race->count == 1 ? "" : "s");
	if (race->class == SR_RACE_MESSAGE)
		fprintf(out, "  nothing orders who takes which receive of a shared receive queue of rank %d:\n", number_of(r, race->a.owner));
	else
		fprintf(out, "  %s, at 0x%" PRIx64 " in rank %d (%" PRIu64 " byte%s in common):\n",
			race->doubts & SR_DOUBT_LOCKSET ? "no lock and no barrier keeps apart" : "nothing orders", race->begin,
			number_of(r, race->a.owner), race->end - race->begin, race->end - race->begin == 1 ? "" : "s");
	print_region(out, sites, r, race);
	sr_race_access_print(out, sites, r, &race->a, race->stack_a);
	sr_race_access_print(out, sites, r, &race->b, race->stack_b);
	for (size_t i = 0; *(words = sr_race_doubt_words(race->doubts, i)); i++)
		fprintf(out, "  only possible: %s\n", words);
}

json_t *sr_race_access_json(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_access *a)
{
	char text[64], *place = sr_race_place(sites, r, a);
	json_t *o = json_pack("{s:s, s:i, s:I, s:I, s:I, s:o, s:I, s:o, s:o, s:o}", "what", sr_race_access_words(a, text),
			      "rank", number_of(r, a->rank), "thread", (json_int_t)a->thread, "sn", (json_int_t)a->sn,
			      "fault", (json_int_t)a->fault, "address", sr_json_address(a->begin), "length",
			      (json_int_t)(a->end - a->begin), "site", sr_json_address(a->site), "instruction", sr_json_address(a->pc), "place",
			      sr_json_string(place ? place : ""));

	free(place);
	return o;
}

json_t *sr_race_json(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_race *race, size_t number)
{
	json_t *reasons = json_array();
	const char *words;

	for (size_t i = 0; *(words = sr_race_doubt_words(race->doubts, i)); i++)
		json_array_append_new(reasons, json_string(words));
	return json_pack("{s:I, s:s, s:s, s:s, s:I, s:{s:i, s:o, s:I, s:o}, s:[o, o], s:o}", "id", (json_int_t)number,
			 "severity", sr_race_severity_word(race->severity), "class", sr_race_class_word(race->class),
			 "evidence", sr_race_evidence_word(race->evidence), "count", (json_int_t)race->count, "memory",
			 "rank", number_of(r, race->a.owner), "address", sr_json_address(race->begin), "length",
			 (json_int_t)(race->end - race->begin), "registered", region_json(sites, r, race), "accesses", sr_race_access_json(sites, r, &race->a),
			 sr_race_access_json(sites, r, &race->b), "reasons", reasons);
}
