/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_confirm.c: `sreplay confirm`: runs a job again, recorded, and makes the two accesses of a
 * race that `sreplay races` has found come in one order and in the other (shim/confirm).
 */
#include <argp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/reader.h"
#include "replay/command/command.h"
#include "replay/command/confirm_race.h"
#include "replay/command/confirm_report.h"
#include "replay/command/confirm_run.h"
#include "replay/command/guess.h"
#include "replay/print/json.h"

#define CONFIRMED 1 /* the exit status */
#define LEAST_MS  100
#define MOST_MS   10000
#define GAPS      3 /* an access is held so many times the time between the two */
#define TRIES     6

enum hold { HOLD_AUTO, HOLD_REQUEST, HOLD_THREAD };

struct options {
	const char *dir;
	long race, wait_ms, tries;
	bool all, live_files, json;
	bool order[2];
	enum hold hold;
	char **command;
};

enum { KEY_RACE = 256, KEY_ALL, KEY_ORDER, KEY_HOLD, KEY_WAIT, KEY_TRIES, KEY_LIVE_FILES };

static const struct argp_option option_list[] = {
    {"race", KEY_RACE, "N", 0, "the race with this number in DIR.srec/races.json", 0},
    {"all", KEY_ALL, NULL, 0, "all races that are no notes (default, if --race is not given)", 0},
    {"order", KEY_ORDER, "ORDER", 0,
     "ab: the first access of the report comes first; ba: the other one; both (default)", 0},
    {"hold", KEY_HOLD, "WHAT", 0,
     "request: a request is kept back, and those behind it on its queue pair, while the program "
     "goes on; thread: the thread "
     "stops in front of the access; auto (default): the one, then the other",
     0},
    {"wait", KEY_WAIT, "MS", 0,
     "how long an access is held for the other one at first (default 100); if both came, three "
     "times the time between them",
     0},
    {"tries", KEY_TRIES, "K", 0, "so many runs for each order at most (default 6)", 0},
    {"live-files", KEY_LIVE_FILES, NULL, 0,
     "let the runs change the files of this machine (default: they change a private copy)", 0},
    {"json", 'j', NULL, 0, "print JSON: an object for each race", 0},
    {0},
};

static bool parse_words(const char *arg, const char *const words[3], int *which)
{
	for (*which = 0; *which < 3; (*which)++)
		if (!strcmp(arg, words[*which]))
			return true;
	return false;
}

static error_t parse_number(long *number, const char *option, const char *arg, long least)
{
	*number = sr_parse_number(option, arg);
	if (*number >= 0 && *number < least)
		sr_fail("%s %s: at least %ld", option, arg, least);
	return *number < least ? EINVAL : 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	static const char *const orders[] = {"ab", "ba", "both"}, *const holds[] = {
								      "auto", "request", "thread"};
	struct options *o = state->input;
	int which;

	switch (key) {
	case KEY_RACE:
		return parse_number(&o->race, "--race", arg, 1);
	case KEY_ALL:
		o->all = true;
		return 0;
	case KEY_ORDER:
		if (!parse_words(arg, orders, &which))
			argp_error(state, "--order=%s: expected ab, ba or both", arg);
		o->order[0] = which != 1;
		o->order[1] = which != 0;
		return 0;
	case KEY_HOLD:
		if (!parse_words(arg, holds, &which))
			argp_error(state, "--hold=%s: expected auto, request or thread", arg);
		o->hold = (enum hold)which;
		return 0;
	case KEY_WAIT:
		return parse_number(&o->wait_ms, "--wait", arg, 1);
	case KEY_TRIES:
		return parse_number(&o->tries, "--tries", arg, 1);
	case KEY_LIVE_FILES:
		o->live_files = true;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	default:
		return sr_parse_trace(key, arg, state, &o->dir);
	}
}

static const struct argp argp = {
    option_list,
    parse_option,
    "DIR.srec -- COMMAND [ARGUMENT...]",
    "Run COMMAND again, the whole line that started the job, with or without `sreplay record` in "
    "it, and make the accesses "
    "of a race come in both orders. The runs are recorded as DIR.srec/races/N-ab.srec and "
    "N-ba.srec, and compared.\vThe exit "
    "status is 0 if no race was confirmed, 1 if one was, 125 if something failed. What was found "
    "is in DIR.srec/races.json.",
    NULL,
    NULL,
    NULL,
};

/* ---------------------------------------------------------------- one order */

/* A thread that is held does not come to its other access. */
static bool is_one_thread(const struct sr_confirm *c)
{
	return c->side[0].rank == c->side[1].rank &&
	       c->side[0].recorded_thread == c->side[1].recorded_thread;
}

/* How the n-th try looks for the accesses. */
static void choose_way(const struct options *o, int way, struct sr_confirm *c)
{
	const bool alternates = o->hold == HOLD_AUTO && !is_one_thread(c);

	c->by_thread = alternates ? way & 1 : o->hold == HOLD_THREAD;
	/* Each instance that accesses the recorded memory, not only the one that did so in the
	 * recording. */
	if (alternates ? way & 2 : way & 1)
		c->side[0].occurrence = c->side[1].occurrence = 0;
}

static uint64_t time_between(const struct sr_confirm *c)
{
	const uint64_t a = c->side[0].arrived_ns, b = c->side[1].arrived_ns;

	return !a || !b ? 0 : a > b ? a - b : b - a;
}

/* Was the one that came first held?  Where requests are, the CPU goes on. */
static bool holds_first(const struct sr_confirm *c)
{
	const struct sr_confirm_side *first =
	    &c->side[c->side[1].arrived_ns < c->side[0].arrived_ns];

	return c->by_thread || first->kind == SR_CONFIRM_REQUEST;
}

struct way {
	int number;
	uint64_t wait_ns;
};

/* Both came, but too far from each other: they are held for longer.  Else the next way. */
static void choose_next(struct way *w, const struct sr_confirm *c)
{
	const uint64_t wanted = GAPS * time_between(c), had = w->wait_ns;

	if (c->phase == SR_CONFIRM_SEARCHING && wanted > had && wanted <= MOST_MS * 1000000ull)
		w->wait_ns = wanted;
	if (w->wait_ns == had || !holds_first(c))
		w->number++;
}

/* False: a run could not be made. */
static bool force(const struct options *o, const struct sr_confirming *x,
		  const struct sr_confirm *wanted, const char *name, int first, struct way *w,
		  struct sr_confirm_order *order)
{
	struct sr_confirm c;

	order->is_wanted = true;
	for (order->tries = 0; order->tries < o->tries && !order->is_forced;) {
		c = *wanted;
		c.first = (uint32_t)first;
		c.wait_ns = w->wait_ns;
		choose_way(o, w->number, &c);
		if (!sr_confirm_run(x, &c, name, &order->o))
			return false;
		order->tries++;
		order->is_forced = order->o.c.phase == SR_CONFIRM_DONE;
		order->ns = order->o.ns;
		order->held_ns = order->o.c.side[0].held_ns + order->o.c.side[1].held_ns;
		if (!order->is_forced)
			choose_next(w, &order->o.c);
	}
	return true;
}

/* --------------------------------------------------------------- both orders */

/*
 * A store that is not held in front of its instruction is known to be pending only between two calls.  That the request did not have to come
 * before it is shown only if the store came first.
 */
static bool confirms(const struct sr_confirm_order *order, int first)
{
	const struct sr_confirm_side *s = order->o.c.side;

	return order->is_forced && (s[!first].kind != SR_CONFIRM_STORE || s[!first].is_exact);
}

/* A second run in the order ab: what differs between these two is no effect of the order. */
static bool find_noise(const struct options *o, const struct sr_confirming *x,
		       const struct sr_confirm *wanted, const char *name, struct way w,
		       struct sr_confirm_found *f)
{
	struct sr_confirm_order again = {0};
	struct sr_run_differences noise = {0};
	bool fine = force(o, x, wanted, name, 0, &w, &again);

	if (fine && again.is_forced &&
	    !sr_runs_compare(&noise, f->order[0].o.trace, again.o.trace)) {
		f->has_noise = true;
		f->statuses_vary = again.o.status != f->order[0].o.status;
		sr_run_differences_drop(&f->differs, &noise);
	}
	sr_run_differences_free(&noise);
	sr_confirm_forget(x, name);
	return fine;
}

/* False: a run could not be made. */
static bool confirm(const struct options *o, const struct sr_confirming *x, json_t *race,
		    struct sr_confirm_found *f)
{
	const long number = (long)json_integer_value(json_object_get(race, "id"));
	struct way w[2] = {{0, (uint64_t)o->wait_ms * 1000000u},
			   {0, (uint64_t)o->wait_ms * 1000000u}};
	struct sr_confirm wanted;
	char name[2][64], again[64];

	f->why_not = sr_confirm_describe(race, &wanted);
	if (f->why_not)
		return true;
	snprintf(again, sizeof(again), "%ld-again", number);
	for (int i = 0; i < 2; i++) {
		snprintf(name[i], sizeof(name[i]), "%ld-%s", number, i ? "ba" : "ab");
		if (o->order[i] && !force(o, x, &wanted, name[i], i, &w[i], &f->order[i]))
			return false;
		f->is_confirmed |= confirms(&f->order[i], i);
		if (f->order[i].tries && !f->order[i].is_forced)
			sr_confirm_explain(&f->order[i].why, x, &f->order[i].o);
		/* The way by which the one order was reached is likely the one for the other. */
		if (!i && f->order[0].is_forced)
			w[1] = w[0];
	}
	f->is_compared = f->is_confirmed && f->order[0].is_forced && f->order[1].is_forced;
	if (!f->is_compared)
		return true;
	if (sr_runs_compare(&f->differs, f->order[0].o.trace, f->order[1].o.trace))
		return false;
	return find_noise(o, x, &wanted, again, w[0], f);
}

/* ------------------------------------------------------------------------ all */

/* A flag may come before or after a load that waits for it: that is what it is for. */
static bool is_harmless(const json_t *race)
{
	const char *class = json_string_value(json_object_get(race, "class"));

	return class && (!strcmp(class, "sync") || !strcmp(class, "same-value"));
}

static void note_in(json_t *race, const struct sr_confirm_found *f)
{
	json_object_set_new(race, "confirmation", sr_confirm_json(f));
	if (!f->is_confirmed)
		return;
	json_object_set_new(race, "evidence", json_string("confirmed"));
	if (!is_harmless(race))
		json_object_set_new(race, "severity", json_string("error"));
}

static bool take_race(const struct options *o, const struct sr_confirming *x, json_t *race,
		      bool *any)
{
	struct sr_confirm_found f = {0};
	bool fine = confirm(o, x, race, &f);

	if (fine && !f.why_not)
		note_in(race, &f);
	if (fine && !o->json)
		sr_confirm_print(race, &f);
	else if (fine)
		sr_json_print(json_incref(race));
	fflush(stdout);
	*any |= f.is_confirmed;
	sr_run_differences_free(&f.differs);
	for (int i = 0; i < 2; i++)
		sr_confirm_why_free(&f.order[i].why);
	return fine;
}

static bool is_note(const json_t *race)
{
	const char *severity = json_string_value(json_object_get(race, "severity"));

	return severity && !strcmp(severity, "note");
}

static int take_all(const struct options *o, const struct sr_confirming *x, json_t *all)
{
	json_t *race, *one = o->race ? sr_races_number(all, o->dir, o->race) : NULL;
	bool any = false, fine = !o->race || one;
	size_t i;

	if (one)
		fine = take_race(o, x, one, &any);
	json_array_foreach(json_object_get(all, "races"), i,
			   race) if (fine && !o->race && !is_note(race)) fine =
	    take_race(o, x, race, &any);
	if (!sr_races_save(all, o->dir) || !fine)
		return SR_EXIT_FAILED;
	return any ? CONFIRMED : 0;
}

static char *list_ranks(const struct sr_trace *t)
{
	char *list = NULL, *more;

	for (size_t i = 0; i < sr_trace_ranks(t); i++) {
		if (asprintf(&more, "%s%s%d", list ? list : "", list ? "," : "",
			     sr_trace_rank_number(t, i)) < 0)
			return NULL;
		free(list);
		list = more;
	}
	return list;
}

/* As the trace was recorded. */
static bool take_settings(struct sr_confirming *x, const char *dir)
{
	struct sr_error err;
	struct sr_trace *t;
	const json_t *extra;
	const char *threads;

	if (sr_trace_open(&t, dir, &err))
		return !sr_fail("%s", err.text);
	x->ranks = list_ranks(t);
	extra = json_object_get(sr_trace_process(t, sr_trace_rank_number(t, 0)), "extra");
	threads = json_string_value(json_object_get(extra, "threads"));
	x->threads = threads && !strcmp(threads, "parallel") ? "parallel"
		     : threads && !strcmp(threads, "serial") ? "serial"
							     : "auto";
	sr_trace_close(t);
	return x->ranks || !sr_fail("no memory left");
}

/* Words after "--" are the command; argp must not see them. */
static char **cut_command(int *argc, char **argv)
{
	for (int i = 1; i < *argc; i++) {
		if (strcmp(argv[i], "--"))
			continue;
		*argc = i;
		argv[i] = NULL;
		return argv[i + 1] ? argv + i + 1 : NULL;
	}
	return NULL;
}

int sr_cmd_confirm(int argc, char **argv)
{
	struct options o = {.wait_ms = LEAST_MS, .tries = TRIES, .order = {true, true}};
	struct sr_confirming x = {0};
	char dir[PATH_MAX];
	int status = SR_EXIT_FAILED;
	json_t *all;

	o.command = cut_command(&argc, argv);
	if (sr_argp_parse(&argp, argc, argv, 0, &o))
		return SR_EXIT_FAILED;
	if (!o.command)
		return sr_fail("which job? sreplay confirm %s -- COMMAND, the line that started it",
			       o.dir);
	if (o.race && o.all)
		return sr_fail("--race and --all: give one of them");
	if (!realpath(o.dir, dir))
		return sr_fail("there is no trace %s", o.dir);
	x = (struct sr_confirming){.dir = dir, .command = o.command, .live_files = o.live_files};
	all = sr_races_load(o.dir);
	if (all && take_settings(&x, o.dir) && sr_confirming_begin(&x))
		status = take_all(&o, &x, all);
	json_decref(all);
	free(x.ranks);
	return status;
}
