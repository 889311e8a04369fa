/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/group/make_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay/analysis/log/children.h"
#include "replay/analysis/log/sizes.h"
#include "replay/analysis/plan/plan.h"
#include "replay/analysis/plan_make.h"
#include "replay/host/group/choose.h"
#include "replay/print/json.h"
#include "replay/print/progress.h"
#include "replay/print/say.h"

typedef unsigned long long ull;

static void say_doubts(const struct sr_process_counts *c)
{
	if (c->ambiguous_links)
		sr_note("%llu connections could be to one of several queue pairs: the likeliest "
			"was taken, and what follows from it is marked",
			(ull)c->ambiguous_links);
	if (c->unmatched)
		sr_note("%llu receives from recorded ranks have no send in the trace",
			(ull)c->unmatched);
	if (c->unexpected)
		sr_note("%llu completions are of no request in the trace", (ull)c->unexpected);
	if (c->weakened)
		sr_note("%llu orders go far back, and are kept somewhat weaker than found",
			(ull)c->weakened);
	if (c->holes)
		sr_note("the trace lacks %llu calls: what is around them is not certain",
			(ull)c->holes);
}

static void print_json(const char *dir, const struct sr_process_counts *c)
{
	sr_json_print(json_pack(
	    "{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "trace", sr_json_string(dir),
	    "records", (json_int_t)c->records, "calls", (json_int_t)c->calls, "values",
	    (json_int_t)c->values, "value_bytes", (json_int_t)c->bytes, "orders", (json_int_t)c->orders,
	    "messages", (json_int_t)c->messages, "unmatched_receives", (json_int_t)c->unmatched,
	    "unexpected_completions", (json_int_t)c->unexpected, "weakened_orders",
	    (json_int_t)c->weakened, "ambiguous_connections", (json_int_t)c->ambiguous_links,
	    "missing_calls", (json_int_t)c->holes, "threads_without_end", (json_int_t)c->cut));
}

static void print_text(const char *dir, const struct sr_process_counts *c)
{
	printf("%s: %llu records, %llu values (%llu bytes), %llu orders, %llu messages\n", dir,
	       (ull)c->records, (ull)c->values, (ull)c->bytes, (ull)c->orders, (ull)c->messages);
}

static int make(struct sr_trace *t, const struct sr_make_plan_options *o)
{
	struct sr_process_counts counts;
	struct sr_error err;
	int32_t *ranks;
	size_t n = sr_ranks_choose(t, o->dir, o->list, &ranks);
	int ret;

	if (!n)
		return SR_EXIT_FAILED;
	ret = sr_plan_make(t, ranks, n, sr_progress_begin("processing", sr_stream_bytes(t, -1), o->quiet), &counts, &err);
	free(ranks);
	sr_progress_end();
	if (ret) {
		sr_fail("%s", err.text);
		return ret == -ELOOP ? 1 : SR_EXIT_FAILED;
	}
	say_doubts(&counts);
	if (o->json)
		print_json(o->dir, &counts);
	else if (!o->quiet)
		print_text(o->dir, &counts);
	return 0;
}

int sr_make_plan(const struct sr_make_plan_options *o)
{
	struct sr_trace *t;
	struct sr_error err;
	int status;

	if (sr_trace_open(&t, o->dir, &err))
		return sr_fail("%s", err.text);
	status = sr_children_adopt(t, &err) ? sr_fail("%s", err.text) : make(t, o);
	sr_trace_close(t);
	return status;
}

static bool is_among(const int32_t *ranks, size_t n, int32_t rank)
{
	for (size_t i = 0; i < n; i++)
		if (ranks[i] == rank)
			return true;
	return false;
}

static bool has_plan(struct sr_trace *t, const int32_t *ranks, size_t n)
{
	struct sr_plan *p;
	struct sr_error err;
	const int32_t *group;
	size_t size, there = 0;

	if (sr_plan_open(&p, t, &err))
		return false;
	group = sr_plan_group(p, &size);
	for (size_t i = 0; i < n; i++)
		there += is_among(group, size, ranks[i]);
	sr_plan_close(p);
	return there == n;
}

/*
 * Makes a plan for all recorded ranks, which serves any group of them, in a child process, whose
 * memory is freed with it.  It does not exec: that takes as long as the plan of a short trace.
 */
static bool make_plan_apart(const char *dir, bool quiet)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return sr_fail("cannot fork: %s", strerror(errno)), false;
	if (!pid) {
		dup2(2, 1); /* standard output belongs to the programs */
		status = sr_make_plan(&(struct sr_make_plan_options){.dir = dir, .quiet = quiet});
		fflush(NULL);
		_exit(status);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static uint64_t bytes_of(const struct sr_trace *t, const int32_t *ranks, size_t n)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += sr_stream_bytes_of_image(t, ranks[i]);
	return bytes;
}

bool sr_ensure_plan(struct sr_trace *t, const char *dir, const int32_t *ranks, size_t n, bool quiet)
{
	uint64_t bytes = bytes_of(t, ranks, n);

	if (has_plan(t, ranks, n) || (make_plan_apart(dir, quiet) && has_plan(t, ranks, n)))
		return true;
	if (bytes_of(t, ranks, n) != bytes)
		sr_fail("%s is still being recorded: it has grown since it was opened, so that its ranks cannot be replayed together; wait until its "
			"processes have ended, or replay a copy of it", dir);
	else
		sr_fail("there is no plan for %s, and \"sreplay process\" could make none", dir);
	return false;
}
