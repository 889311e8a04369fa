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
	    {SR_DOUBT_END, "a child has ended, and no wait says when its parent knew that: it may order them"},
	    {SR_DOUBT_UNCLOCKED, "a forked process without a clock may order them by what it read or wrote"},
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

/* What a user knows it by. */
static const char *name_of(const struct sr_races *r, uint32_t rank)
{
	return r->how.links->ranks[rank].name;
}

/* "rank", and of a child "child" as well, as explain has them. */
static json_t *with_rank(json_t *o, const struct sr_races *r, uint32_t rank)
{
	const char *child;

	json_object_set_new(o, "rank", json_integer(sr_json_rank(name_of(r, rank), &child)));
	if (child)
		json_object_set_new(o, "child", json_string(child));
	return o;
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

static void print_content(FILE *out, const char *words, const struct sr_race_content *c)
{
	fprintf(out, "%s", words);
	for (uint32_t i = 0; i < c->length; i++)
		fprintf(out, "%02x", c->bytes[i]);
}

/* Memory order, as `sreplay confirm` has it. */
static void print_found(FILE *out, const struct sr_race_content *c, bool is_reader, const struct sr_race_content *other)
{
	if (c->length)
		print_content(out, is_reader ? "      found " : "      left ", c);
	if (is_reader && other->length)
		print_content(out, c->length ? "; in the other order " : "      in the other order it finds ", other);
	if (c->length || (is_reader && other->length))
		fprintf(out, "\n");
}

static json_t *content_json(const struct sr_race_content *c)
{
	char text[2 * sizeof(c->bytes) + 1];

	for (uint32_t i = 0; i < c->length; i++)
		snprintf(text + 2 * i, 3, "%02x", c->bytes[i]);
	return c->length ? json_string(text) : json_null();
}

/* The one that reads, and what it would have found: null if that is not known. */
static json_t *other_json(const struct sr_race_contents *c)
{
	if (!c->other.length)
		return json_null();
	return json_pack("{s:i, s:o}", "access", c->a_reads ? 0 : 1, "value", content_json(&c->other));
}

void sr_race_access_print(FILE *out, struct sr_call_sites *sites, const struct sr_races *r, const struct sr_access *a, uint64_t stack)
{
	char text[64], *place = sr_race_place(sites, r, a);

	fprintf(out, "    %s", sr_race_access_words(a, text));
	if (a->kind != SR_ACCESS_MESSAGE)
		fprintf(out, " of %" PRIu64 " bytes", a->end - a->begin);
	fprintf(out, "%s by rank %s", a->kind == SR_ACCESS_CHANGE ? ", found" : "", name_of(r, a->rank));
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

static void print_bound(FILE *out, struct sr_call_sites *sites, const struct sr_races *r, const char *when, uint32_t rank, const struct sr_race_call *c)
{
	fprintf(out, "  %s both: rank %s", when, name_of(r, rank));
	if (c->thread)
		fprintf(out, " thread %u", c->thread);
	fprintf(out, " SN %" PRIu64 ", %s\n", c->sn, sr_call_sites_call(sites, number_of(r, rank), c->thread, c->sn));
}

static void print_bounds(FILE *out, struct sr_call_sites *sites, const struct sr_races *r, const struct sr_race *race)
{
	const struct sr_race_bounds *b = &race->bounds;
	const uint32_t ranks[] = {race->a.rank, race->b.rank};

	for (size_t i = 0; i < 2; i++)
		if (b->before[i])
			print_bound(out, sites, r, "before", ranks[i], b->before[i]);
	for (size_t i = 0; i < 2; i++)
		if (b->after[i])
			print_bound(out, sites, r, "after", ranks[i], b->after[i]);
	if (race->has_bounds && !b->after[0] && !b->after[1])
		fprintf(out, "  nothing in this run comes after both\n");
}

static json_t *bound_json(struct sr_call_sites *sites, const struct sr_races *r, uint32_t rank, const struct sr_race_call *c)
{
	return with_rank(json_pack("{s:I, s:I, s:o}", "thread", (json_int_t)c->thread, "sn", (json_int_t)c->sn, "place",
				   sr_json_string(sr_call_sites_call(sites, number_of(r, rank), c->thread, c->sn))), r, rank);
}

static json_t *bounds_json(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_race *race)
{
	json_t *before = json_array(), *after = json_array();
	const uint32_t ranks[] = {race->a.rank, race->b.rank};

	if (!race->has_bounds) {
		json_decref(before);
		json_decref(after);
		return json_null();
	}
	for (size_t i = 0; i < 2; i++) {
		if (race->bounds.before[i])
			json_array_append_new(before, bound_json(sites, r, ranks[i], race->bounds.before[i]));
		if (race->bounds.after[i])
			json_array_append_new(after, bound_json(sites, r, ranks[i], race->bounds.after[i]));
	}
	return json_pack("{s:o, s:o}", "before", before, "after", after);
}

/* A group may have a few ranks of very many. */
#define MISSING_MOST 16

/* Ranks that were not recorded, as far as their numbers show that: a list of the first ones. */
static json_t *missing_ranks(const struct sr_races *r)
{
	const struct sr_links *l = r->how.links;
	json_t *list = json_array();
	int32_t last = -1;

	for (size_t i = 0; i < l->ranks_n; i++)
		if (l->ranks[i].number < SR_FIRST_ADOPTED && l->ranks[i].number > last)
			last = l->ranks[i].number;
	for (int32_t n = 0; n < last && json_array_size(list) < MISSING_MOST; n++) {
		bool is_there = false;

		for (size_t i = 0; i < l->ranks_n && !is_there; i++)
			is_there = l->ranks[i].number == n;
		if (!is_there)
			json_array_append_new(list, json_integer(n));
	}
	return list;
}

/* Who should be recorded as well, so that it is known what orders the two. */
static void print_advice(FILE *out, const struct sr_races *r)
{
	json_t *missing = missing_ranks(r), *n;
	size_t i;

	fprintf(out, "    enlarge the recorded group by ");
	json_array_foreach(missing, i, n)
		fprintf(out, "%s%" PRIi64, i ? ", " : json_array_size(missing) > 1 ? "ranks " : "rank ", (int64_t)json_integer_value(n));
	fprintf(out, "%s\n", i == MISSING_MOST ? ", or others" : i ? "" : "the process at the other end");
	json_decref(missing);
}

static json_t *entry_json(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_race *race)
{
	const struct sr_race_entry *e = &race->entry;

	if (!(race->doubts & SR_DOUBT_OUTSIDE))
		return json_null();
	return with_rank(json_pack("{s:o, s:s, s:o}", "call", e->call ? bound_json(sites, r, e->rank, e->call) : json_null(), "by",
				   e->is_socket ? "socket" : "verbs", "missing_ranks", missing_ranks(r)), r, e->rank);
}

/* What may order the two. */
static void print_entry(FILE *out, struct sr_call_sites *sites, const struct sr_races *r, const struct sr_race_entry *e)
{
	fprintf(out, "    it came to rank %s", name_of(r, e->rank));
	if (e->call)
		fprintf(out, " at or after SN %" PRIu64 ", %s", e->call->sn, sr_call_sites_call(sites, number_of(r, e->rank), e->call->thread, e->call->sn));
	fprintf(out, e->is_socket ? ", by a socket or pipe\n" : ", by a queue pair or in its memory\n");
	print_advice(out, r);
}

/* The race is behind this load, if it finds an earlier WRITE than in this run. */
static void print_skip(FILE *out, struct sr_call_sites *sites, const struct sr_races *r, const struct sr_race *race)
{
	const struct sr_race_skip *k = race->skip;
	const struct sr_race_skipped *w = race->skipped;

	if (!k)
		return;
	fprintf(out, "  if the load of rank %s after SN %" PRIu64 " (fault %u), at %s,\n", name_of(r, k->rank), k->sn, k->fault,
		sr_call_sites_address(sites, number_of(r, k->rank), k->pc + 1));
	fprintf(out, "    finds what rank %s writes at SN %" PRIu64 " and not yet what follows (here it found more at once): the program then goes on to this access, too\n",
		name_of(r, w->rank), w->sn);
}

static json_t *skip_json(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_race *race)
{
	const struct sr_race_skip *k = race->skip;
	const struct sr_race_skipped *w = race->skipped;

	if (!k)
		return json_null();
	return with_rank(json_pack("{s:I, s:I, s:I, s:o, s:o}", "thread", (json_int_t)k->thread, "sn", (json_int_t)k->sn, "fault", (json_int_t)k->fault,
				   "place", sr_json_string(sr_call_sites_address(sites, number_of(r, k->rank), k->pc + 1)), "finds",
				   with_rank(json_pack("{s:I, s:I}", "thread", (json_int_t)w->thread, "sn", (json_int_t)w->sn), r, w->rank)),
			 r, k->rank);
}

void sr_race_print(FILE *out, struct sr_call_sites *sites, const struct sr_races *r, const struct sr_race *race,
		   size_t number)
{
	struct sr_race_contents contents;
	const char *words;

	fprintf(out, "race %zu: %s, %s, %s; %" PRIu64 " pair%s\n", number, sr_race_severity_word(race->severity),
		sr_race_class_word(race->class), sr_race_evidence_word(race->evidence), race->count,
		race->count == 1 ? "" : "s");
	if (race->class == SR_RACE_MESSAGE)
		fprintf(out, "  nothing orders who takes which receive of a shared receive queue of rank %s:\n", name_of(r, race->a.owner));
	else
		fprintf(out, "  %s, at 0x%" PRIx64 " in rank %s (%" PRIu64 " byte%s in common):\n",
			race->doubts & SR_DOUBT_LOCKSET ? "no lock and no barrier keeps apart" : "nothing orders", race->begin,
			name_of(r, race->a.owner), race->end - race->begin, race->end - race->begin == 1 ? "" : "s");
	print_region(out, sites, r, race);
	if (race->a.is_relaxed || race->b.is_relaxed)
		fprintf(out, "    with IBV_ACCESS_RELAXED_ORDERING: WRITEs come there in any order\n");
	sr_race_find_contents(r, race, &contents);
	sr_race_access_print(out, sites, r, &race->a, race->stack_a);
	print_found(out, &contents.a, contents.a_reads, &contents.other);
	sr_race_access_print(out, sites, r, &race->b, race->stack_b);
	print_found(out, &contents.b, contents.b_reads, &contents.other);
	print_skip(out, sites, r, race);
	print_bounds(out, sites, r, race);
	for (size_t i = 0; *(words = sr_race_doubt_words(race->doubts, i)); i++)
		fprintf(out, "  only possible: %s\n", words);
	if (race->doubts & SR_DOUBT_OUTSIDE)
		print_entry(out, sites, r, &race->entry);
}

json_t *sr_race_access_json(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_access *a)
{
	char text[64], *place = sr_race_place(sites, r, a);
	json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:o, s:I, s:o, s:o, s:o}", "what", sr_race_access_words(a, text),
			      "thread", (json_int_t)a->thread, "sn", (json_int_t)a->sn,
			      "fault", (json_int_t)a->fault, "address", sr_json_address(a->begin), "length",
			      (json_int_t)(a->end - a->begin), "site", sr_json_address(a->site), "instruction", sr_json_address(a->pc), "place",
			      sr_json_string(place ? place : ""));

	free(place);
	return with_rank(o, r, a->rank);
}

static json_t *memory_json(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_race *race)
{
	return with_rank(json_pack("{s:o, s:I, s:o, s:b}", "address", sr_json_address(race->begin), "length", (json_int_t)(race->end - race->begin),
				   "registered", region_json(sites, r, race), "relaxed", race->a.is_relaxed || race->b.is_relaxed),
			 r, race->a.owner);
}

json_t *sr_race_json(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_race *race, size_t number)
{
	json_t *reasons = json_array();
	struct sr_race_contents contents;
	const char *words;

	sr_race_find_contents(r, race, &contents);

	for (size_t i = 0; *(words = sr_race_doubt_words(race->doubts, i)); i++)
		json_array_append_new(reasons, json_string(words));
	return json_pack("{s:I, s:s, s:s, s:s, s:I, s:o, s:[o, o], s:o, s:o, s:[o, o], s:o, s:o, s:o}", "id", (json_int_t)number,
			 "severity", sr_race_severity_word(race->severity), "class", sr_race_class_word(race->class),
			 "evidence", sr_race_evidence_word(race->evidence), "count", (json_int_t)race->count, "memory",
			 memory_json(sites, r, race), "accesses", sr_race_access_json(sites, r, &race->a),
			 sr_race_access_json(sites, r, &race->b), "reasons", reasons, "in_order", bounds_json(sites, r, race), "values",
			 content_json(&contents.a), content_json(&contents.b), "other_order", other_json(&contents), "entered", entry_json(sites, r, race), "earlier", skip_json(sites, r, race));
}
