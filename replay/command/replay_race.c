/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/replay_race.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/reader.h"
#include "replay/command/command.h"
#include "replay/command/confirm_race.h"
#include "replay/command/same_code.h"
#include "replay/print/print.h"

/* Calls that are shown before and behind an access. */
#define SHOWN 3

static uint64_t number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_string(v) ? strtoull(json_string_value(v), NULL, 0)
				 : (uint64_t)json_integer_value(v);
}

static const char *text(const json_t *o, const char *key)
{
	const char *t = json_string_value(json_object_get(o, key));

	return t ? t : "";
}

static void describe(struct sr_replay_access *a, const json_t *access)
{
	const bool is_load = !strcmp(text(access, "kind"), "load") && number(access, "fault");

	*a = (struct sr_replay_access){.rank = (int32_t)number(access, "rank"),
				       .thread = (uint32_t)number(access, "thread"),
				       .sn = number(access, "sn"),
				       .pc = is_load ? number(access, "instruction") : 0,
				       .begin = number(access, "address")};
	a->end = a->begin + number(access, "length");
	/* A store at a fault comes before the call behind that. */
	if (!strcmp(text(access, "kind"), "store") && number(access, "fault"))
		a->sn++;
}

/* In another run of the program. */
static bool move_addresses(struct sr_replay_race *r, const char *from_dir)
{
	struct sr_trace *from = NULL, *to = NULL;
	struct sr_error err;
	bool fine = !sr_trace_open(&from, from_dir, &err) && !sr_trace_open(&to, r->dir, &err);

	for (size_t i = 0; i < 2 && fine; i++) {
		struct sr_replay_access *a = &r->access[i];
		const json_t *before = sr_trace_process(from, a->rank), *now = sr_trace_process(to, a->rank);
		const uint64_t length = a->end - a->begin;

		a->pc = sr_same_code(a->pc, before, now);
		a->begin = sr_same_code(a->begin, before, now);
		a->end = a->begin + length;
	}
	if (from)
		sr_trace_close(from);
	if (to)
		sr_trace_close(to);
	return fine || !sr_fail("%s", err.text);
}

/* In the run that sreplay confirm made in this order. */
static bool move_to_order(struct sr_replay_race *r, const json_t *race, const char *dir,
			  const char *name)
{
	json_t *order, *orders = json_object_get(json_object_get(race, "confirmation"), "orders");
	size_t i;

	json_array_foreach(orders, i, order)
	{
		if (strcmp(text(order, "order"), name) ||
		    !json_is_true(json_object_get(order, "forced")))
			continue;
		snprintf(r->dir, sizeof(r->dir), "%s/races/%s", dir, text(order, "trace"));
		for (size_t k = 0; k < 2; k++) {
			const json_t *access =
			    json_array_get(json_object_get(order, "accesses"), k);

			const json_t *sender = json_object_get(
			    json_array_get(json_object_get(race, "accesses"), k), "sender");

			/* Of a message, the post of its sender was held. */
			if (json_is_integer(sender))
				r->access[k].rank = (int32_t)json_integer_value(sender);
			r->access[k].thread = (uint32_t)number(access, "thread");
			r->access[k].sn = number(access, "sn") - (r->access[k].pc != 0);
		}
		return move_addresses(r, dir);
	}
	return !sr_fail("race %" PRIu64
			" was not forced into the order %s: first sreplay confirm --race %" PRIu64
			" %s -- COMMAND",
			number(race, "id"), name, number(race, "id"), dir);
}

/* "3:ab".  The number; 0 after a message. */
static long parse(const char *which, char order[3])
{
	const char *colon = strchr(which, ':');
	char digits[24];

	order[0] = '\0';
	snprintf(digits, sizeof(digits), "%.*s", colon ? (int)(colon - which) : 20, which);
	if (colon && strcmp(colon, ":ab") && strcmp(colon, ":ba"))
		return sr_fail("--race %s: expected N, N:ab or N:ba", which), 0;
	if (colon)
		snprintf(order, 3, "%s", colon + 1);
	return sr_parse_number("--race", digits);
}

bool sr_replay_race_find(struct sr_replay_race *r, const char *dir, const char *which)
{
	char order[3];
	long n = parse(which, order);
	json_t *all = n > 0 ? sr_races_load(dir) : NULL;
	json_t *race = all ? sr_races_number(all, dir, n) : NULL;
	bool fine = race;

	*r = (struct sr_replay_race){0};
	snprintf(r->dir, sizeof(r->dir), "%s", dir);
	for (size_t i = 0; i < 2 && fine; i++)
		describe(&r->access[i], json_array_get(json_object_get(race, "accesses"), i));
	if (fine && *order)
		fine = move_to_order(r, race, dir, order);
	json_decref(all);
	return fine;
}

/* ---------------------------------------------------------------------- gdb */

static bool add_stop(struct sr_replay_race *r, const struct sr_replay_access *a)
{
	char *more;

	if (asprintf(&more, "%s %" PRIu32 ":%" PRIu64 ":0x%" PRIx64 ":0x%" PRIx64 ":0x%" PRIx64,
		     r->stops ? r->stops : "sreplay stops", a->thread, a->sn, a->pc, a->begin,
		     a->end) < 0)
		return false;
	free(r->stops);
	r->stops = more;
	return true;
}

char **sr_replay_race_arguments(struct sr_replay_race *r, int32_t rank, char **arguments)
{
	size_t n = 0;
	char **all;
	bool fine = true;

	for (size_t i = 0; i < 2; i++)
		if (r->access[i].rank == rank)
			fine = fine && add_stop(r, &r->access[i]);
	if (!fine)
		return sr_fail("no memory left"), NULL;
	if (!r->stops)
		return sr_fail("rank %d makes none of the two accesses: --gdb %d or --gdb %d", rank,
			       r->access[0].rank, r->access[1].rank),
		       NULL;
	while (arguments && arguments[n])
		n++;
	all = calloc(n + 3, sizeof(*all));
	if (!all)
		return sr_fail("no memory left"), NULL;
	all[0] = "-ex";
	all[1] = r->stops;
	if (n)
		memcpy(all + 2, arguments, n * sizeof(*all));
	return all;
}

/* --------------------------------------------------------------------- text */

static void print_calls(struct sr_trace *t, const struct sr_replay_access *a)
{
	struct sr_print with = {
	    .schema = sr_schema_of(t, a->rank, NULL),
	    .symbols = sr_symbols_new(json_object_get(sr_trace_process(t, a->rank), "objects"))};
	uint64_t from = a->sn > SHOWN ? a->sn - SHOWN : 1;
	struct sr_stream *s = NULL;
	struct sr_error err;
	struct sr_entry e;

	if (!with.schema || sr_stream_open(&s, t, a->rank, a->thread, &err) ||
	    sr_stream_seek(s, from))
		from = UINT64_MAX;
	while (from <= a->sn + SHOWN && sr_stream_next(s, &e) > 0 && e.sn <= a->sn + SHOWN) {
		json_t *decoded = e.kind >= SR_REC_CALL ? sr_print_decode(&with, &e) : NULL;

		if (!decoded)
			continue;
		printf("  %s ", e.sn == a->sn ? "->" : "  ");
		sr_print_line(stdout, &with, &e, decoded);
		json_decref(decoded);
	}
	if (s)
		sr_stream_close(s);
	sr_symbols_free(with.symbols);
	sr_schema_free(with.schema);
}

static void print_access(struct sr_trace *t, const json_t *race, int i,
			 const struct sr_replay_access *a)
{
	json_t *frames = json_object_get(
		   json_array_get(json_object_get(race, "accesses"), (size_t)i), "frames"),
	       *frame;
	char *words = sr_race_access_text(race, i);
	size_t k;

	printf("%c: %s\n", 'a' + i, words ? words : "");
	free(words);
	printf("  rank %d thread %u, %s SN %" PRIu64 ", memory 0x%" PRIx64 " to 0x%" PRIx64 "\n",
	       a->rank, a->thread, a->pc ? "after" : "at", a->sn, a->begin, a->end);
	json_array_foreach(frames, k, frame) printf("  #%zu %s\n", k, *json_string_value(frame) ? json_string_value(frame) : "??");
	print_calls(t, a);
}

static void print_values(const json_t *race)
{
	json_t *order, *access;
	size_t i, k;

	json_array_foreach(json_object_get(json_object_get(race, "confirmation"), "orders"), i,
			   order)
	{
		if (!json_is_true(json_object_get(order, "forced")))
			continue;
		printf("order %s (races/%s):", text(order, "order"), text(order, "trace"));
		json_array_foreach(json_object_get(order, "accesses"), k, access)
		    printf(" %c %.32s", 'a' + (char)k, text(access, "value"));
		printf("\n");
	}
}

int sr_replay_race_print(const struct sr_replay_race *r, const char *dir, const char *which)
{
	char order[3];
	json_t *all = sr_races_load(dir),
	       *race = all ? sr_races_number(all, dir, parse(which, order)) : NULL;
	struct sr_error err;
	struct sr_trace *t;

	if (!race || sr_trace_open(&t, r->dir, &err)) {
		json_decref(all);
		return race ? sr_fail("%s", err.text) : SR_EXIT_FAILED;
	}
	for (int i = 0; i < 2; i++)
		print_access(t, race, i, &r->access[i]);
	print_values(race);
	sr_trace_close(t);
	json_decref(all);
	return 0;
}
