/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/confirm_why.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logd/trace/reader.h"

static void __attribute__((format(printf, 2, 3))) say(struct sr_confirm_why *w, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	if (w->n < SR_CONFIRM_WHYS && vasprintf(&w->words[w->n], format, list) >= 0)
		w->n++;
	va_end(list);
}

static char side_letter(int i)
{
	return i ? 'b' : 'a';
}

static size_t listed_ranks(const char *list)
{
	size_t n = 1;

	for (; *list; list++)
		n += *list == ',';
	return n;
}

/* Launched without its recorder, a rank has no number, or has another one's. */
static void say_not_recorded(struct sr_confirm_why *w, const struct sr_confirming *x, const struct sr_trace *t, int32_t rank)
{
	const size_t n = sr_trace_ranks(t), was = listed_ranks(x->ranks);

	if (!n)
		say(w, "no rank was recorded: `%s` has to be the line that starts the whole job", x->command[0]);
	else if (n < was)
		say(w, "rank %d was not recorded, only %zu of the %zu ranks of the recording: start as many, by a launcher that gives them their numbers "
		       "(mpirun, srun), or with `sreplay record --rank N --` in front of each in the line that starts them",
		    rank, n, was);
	else
		say(w, "rank %d was not recorded, but others were: give the ranks the numbers of the recording (sreplay record --rank N)", rank);
}

/* The ranks agree by a file that they map: that works on one node. */
static bool is_elsewhere(struct sr_confirm_why *w, const json_t *process, int32_t rank)
{
	const char *host = json_string_value(json_object_get(process, "hostname"));
	char here[256] = "";

	if (!host || gethostname(here, sizeof(here) - 1) || !strcmp(host, here))
		return false;
	say(w, "rank %d ran on %s: both accesses have to be made on this node, %s", rank, host, here);
	return true;
}

static void explain_side(struct sr_confirm_why *w, const struct sr_confirm_outcome *o, const json_t *process, int i)
{
	const struct sr_confirm_side *s = &o->c.side[i];

	if (is_elsewhere(w, process, s->rank) || s->held)
		return;
	if (s->seen)
		say(w, "rank %d came to the place of %c %" PRIu64 " times, never as in the recording (its callers, how often, which memory): start it with the same arguments",
		    s->rank, side_letter(i), (uint64_t)s->seen);
	else
		say(w, "rank %d never came to the place of %c%s: run the same program, with the same arguments and as many ranks", s->rank, side_letter(i),
		    o->status ? " before it ended" : "");
}

void sr_confirm_explain(struct sr_confirm_why *w, const struct sr_confirming *x, const struct sr_confirm_outcome *o)
{
	const struct sr_confirm_side *s = o->c.side;
	struct sr_trace *t;
	struct sr_error err;
	bool is_known;

	if (sr_trace_open(&t, o->trace, &err))
		return;
	for (int i = 0; i < 2; i++)
		if (!sr_trace_process(t, s[i].rank)) {
			say_not_recorded(w, x, t, s[i].rank);
			break;
		}
	if (!w->n && sr_trace_ranks(t) < listed_ranks(x->ranks))
		say(w, "this run had %zu ranks, the recording %zu: start as many", sr_trace_ranks(t), listed_ranks(x->ranks));
	is_known = w->n;
	for (int i = 0; i < 2 && !is_known; i++)
		explain_side(w, o, sr_trace_process(t, s[i].rank), i);
	sr_trace_close(t);
	if (!w->n)
		say(w, "both were held, but never at once: something orders them in these runs, or they are far apart (--wait MS, --tries K)");
	else if (o->status)
		say(w, "the run ended with status %d: %s has what it printed", o->status, o->output);
}

void sr_confirm_why_free(struct sr_confirm_why *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->words[i]);
	*w = (struct sr_confirm_why){0};
}
