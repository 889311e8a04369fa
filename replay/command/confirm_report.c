/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/confirm_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/command/confirm_race.h"
#include "replay/print/json.h"

static const char *const names[] = {"ab", "ba"};

/* Do the two orders bring one of the accesses other bytes, or leave others behind? */
static bool values_differ(const struct sr_confirm_found *f)
{
	const struct sr_confirm_side *ab = f->order[0].o.c.side, *ba = f->order[1].o.c.side;

	for (int i = 0; i < 2; i++)
		if ((!ab[i].is_write || (ab[i].fetches && !ab[i].is_local)) && ab[i].value_n &&
		    ba[i].value_n && ab[i].value_hash != ba[i].value_hash)
			return true;
	/* Of two that write, the last one's bytes stay. */
	return ab[0].is_write && ab[1].is_write && ab[1].value_n && ba[0].value_n &&
	       ab[1].value_hash != ba[0].value_hash;
}

const char *sr_confirm_effect(const struct sr_confirm_found *f)
{
	const bool statuses_differ =
	    f->order[0].o.status != f->order[1].o.status && !f->statuses_vary;

	if (!f->is_compared)
		return NULL;
	if (statuses_differ || f->differs.output_n)
		return "result";
	if (f->differs.calls_n)
		return "spreads";
	return values_differ(f) ? "value" : "same";
}

/* --------------------------------------------------------------------- JSON */

static json_t *side_json(const struct sr_confirm_side *s)
{
	const uint32_t n = s->value_n < SR_CONFIRM_VALUE ? s->value_n : SR_CONFIRM_VALUE;

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:b}", "seen", (json_int_t)s->seen,
			 "held", (json_int_t)s->held, "given_up", (json_int_t)s->given_up, "thread",
			 (json_int_t)s->thread, "sn", (json_int_t)s->sn, "value",
			 s->value_n ? sr_json_hex(s->value, n) : json_null(), "length",
			 (json_int_t)s->value_n, "landed", s->landed);
}

static json_t *why_json(const struct sr_confirm_why *w)
{
	json_t *list = json_array();

	for (size_t i = 0; i < w->n; i++)
		json_array_append_new(list, json_string(w->words[i]));
	return list;
}

static json_t *order_json(const struct sr_confirm_order *o, const char *name)
{
	char *trace = strrchr(o->o.trace, '/');

	return json_pack("{s:s, s:b, s:i, s:f, s:f, s:s, s:i, s:[o, o], s:o}", "order", name, "forced",
			 o->is_forced, "tries", o->tries, "held_ms", (double)o->held_ns / 1e6, "ms",
			 (double)o->ns / 1e6, "trace", trace ? trace + 1 : "", "status",
			 o->o.status, "accesses", side_json(&o->o.c.side[0]),
			 side_json(&o->o.c.side[1]), "why_not", why_json(&o->why));
}

static json_t *differences_json(const struct sr_run_difference *d, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(
		    list, json_pack("{s:i, s:I, s:I, s:s, s:I, s:s}", "rank", d[i].rank, "thread",
				    (json_int_t)d[i].thread, "ab_sn", (json_int_t)d[i].sn,
				    "ab_place", d[i].place, "ba_sn", (json_int_t)d[i].other_sn,
				    "ba_place", d[i].other_place));
	return list;
}

json_t *sr_confirm_json(const struct sr_confirm_found *f)
{
	const char *effect = sr_confirm_effect(f);
	json_t *orders = json_array();

	for (int i = 0; i < 2; i++)
		if (f->order[i].tries)
			json_array_append_new(orders, order_json(&f->order[i], names[i]));
	return json_pack("{s:b, s:o, s:o, s:o, s:o}", "confirmed", f->is_confirmed, "effect",
			 effect ? json_string(effect) : json_null(), "orders", orders, "calls",
			 differences_json(f->differs.calls, f->differs.calls_n), "output",
			 differences_json(f->differs.output, f->differs.output_n));
}

/* --------------------------------------------------------------------- text */

static void print_value(const struct sr_confirm_side *s, const char *text)
{
	const uint32_t shown = s->value_n < 16 ? s->value_n : 16;

	printf("      %s", text);
	if (s->value_n) {
		printf(": %s ", s->is_write ? "wrote" : "found");
		for (uint32_t i = 0; i < shown; i++)
			printf("%02x", s->value[i]);
		printf("%s", s->value_n > shown ? "..." : "");
	}
	printf("%s\n", s->landed ? "" : " (not proven to have landed)");
}

static void print_order(const struct sr_confirm_order *o, int which, char *const texts[2])
{
	const struct sr_confirm_side *s = o->o.c.side;
	const char *file = strrchr(o->o.trace, '/');

	if (!o->tries)
		return;
	if (!o->is_forced) {
		printf("  %s: not reached in %d runs;", names[which], o->tries);
		printf(" in the last one a was seen %" PRIu64 " times and held %" PRIu64
		       ", b %" PRIu64 " and %" PRIu64 "\n",
		       (uint64_t)s[0].seen, (uint64_t)s[0].held, (uint64_t)s[1].seen,
		       (uint64_t)s[1].held);
		for (size_t i = 0; i < o->why.n; i++)
			printf("    %s\n", o->why.words[i]);
		return;
	}
	printf("  %s: forced in run %d, exit status %d, races%s\n", names[which], o->tries,
	       o->o.status, file ? file : "");
	print_value(&s[which], texts[which]);
	print_value(&s[!which], texts[!which]);
}

static void print_differences(const char *what, const struct sr_run_difference *d, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		printf("    rank %d", d[i].rank);
		if (d[i].thread)
			printf(" thread %u", d[i].thread);
		printf(" %s: ab SN %" PRIu64 "%s%s, ba SN %" PRIu64 "%s%s\n", what, d[i].sn,
		       *d[i].place ? " " : "", d[i].place, d[i].other_sn,
		       *d[i].other_place ? " " : "", d[i].other_place);
	}
}

static void print_effect(const struct sr_confirm_found *f)
{
	const char *effect = sr_confirm_effect(f);

	if (!effect)
		return;
	printf("  effect of the order: %s%s\n", effect,
	       !strcmp(effect, "result")    ? ", what the program puts out or how it ends"
	       : !strcmp(effect, "spreads") ? ", the program goes another way"
	       : !strcmp(effect, "value")   ? ", the racing bytes only"
					    : "");
	if (f->order[0].o.status != f->order[1].o.status)
		printf("    exit status: ab %d, ba %d%s\n", f->order[0].o.status,
		       f->order[1].o.status,
		       f->statuses_vary ? " (it varies in one order too)" : "");
	print_differences("puts out other bytes", f->differs.output, f->differs.output_n);
	print_differences("goes another way", f->differs.calls, f->differs.calls_n);
}

void sr_confirm_print(const json_t *race, const struct sr_confirm_found *f)
{
	char *texts[2] = {sr_race_access_text(race, 0), sr_race_access_text(race, 1)};

	printf("race %lld: %s\n", json_integer_value(json_object_get(race, "id")),
	       f->why_not        ? "not tried"
	       : f->is_confirmed ? "confirmed"
				 : "not confirmed");
	if (f->why_not)
		printf("  %s\n", f->why_not);
	printf("  a: %s\n  b: %s\n", texts[0] ? texts[0] : "", texts[1] ? texts[1] : "");
	for (int i = 0; i < 2; i++)
		print_order(&f->order[i], i,
			    (char *[]){texts[0] ? texts[0] : "a", texts[1] ? texts[1] : "b"});
	print_effect(f);
	free(texts[0]);
	free(texts[1]);
}
