/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/visit.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "replay/command/command.h"
#include "replay/host/forks.h"

static const struct argp_option option_list[] = {
    {"rank", 'r', "N", 0, "this rank only; N/K: the K-th process that it has forked", 0},
    SR_JSON_OPTION,
    {0},
};

static error_t parse_choice(int key, char *arg, struct argp_state *state)
{
	struct sr_choice *c = state->input;

	switch (key) {
	case 'r':
		c->child = strchr(arg, '/') ? arg : NULL;
		if (c->child)
			return 0;
		c->rank = sr_parse_number("--rank", arg);
		return c->rank < 0 ? EINVAL : 0;
	case 'j':
		c->json = true;
		return 0;
	default:
		return sr_parse_trace(key, arg, state, &c->dir);
	}
}

const struct argp sr_choice_argp = {
    option_list, parse_choice, "DIR.srec", NULL, NULL, NULL, NULL,
};

error_t sr_parse_choice_only(int key, char *arg, struct argp_state *state)
{
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = state->input;
	return 0;
}

static int first_of(int before, int now)
{
	return before ? before : now;
}

static int visit_stream(const struct sr_visitor *v, void *argument, struct sr_trace *t,
			int32_t rank, uint32_t thread)
{
	struct sr_error err;
	struct sr_stream *s;
	int status;

	if (sr_stream_open(&s, t, rank, thread, &err)) {
		sr_fail("%s", err.text);
		return v->cannot_open;
	}
	status = v->stream(argument, s, rank, thread);
	if (sr_stream_warning(s))
		sr_note("%s", sr_stream_warning(s));
	sr_stream_close(s);
	return status;
}

static int visit_image(const struct sr_visitor *v, void *argument, struct sr_trace *t,
		       int32_t rank, size_t *streams)
{
	const uint32_t *threads;
	size_t n = sr_trace_threads(t, rank, &threads);
	int status = v->rank ? v->rank(argument, t, rank) : 0;

	if (status)
		return status;
	for (size_t i = 0; i < n; i++) {
		if (v->thread >= 0 && v->thread != (long)threads[i])
			continue;
		*streams += 1;
		status = first_of(status, visit_stream(v, argument, t, rank, threads[i]));
	}
	return v->rank_end ? first_of(status, v->rank_end(argument, t, rank)) : status;
}

static int visit_children(const struct sr_visitor *v, void *argument, struct sr_trace *t,
			  int32_t rank)
{
	char **dirs;
	size_t n;
	int status = 0;

	if (sr_trace_children(t, rank, &dirs, &n))
		return 0;
	for (size_t i = 0; i < n; i++) {
		struct sr_visitor of_child = *v;
		struct sr_choice c = SR_CHOICE_INIT;

		c.dir = dirs[i];
		of_child.trace = NULL;
		status = first_of(status, sr_visit(&c, &of_child, argument));
	}
	sr_trace_children_free(dirs, n);
	return status;
}

static int visit_rank(const struct sr_visitor *v, void *argument, struct sr_trace *t, int32_t rank,
		      size_t *streams)
{
	uint32_t images = sr_trace_images(t, rank);
	struct sr_error err;
	int status = 0;

	for (uint32_t i = v->last_image ? images - 1 : 0; i < images; i++) {
		if (sr_trace_choose_image(t, rank, i, &err))
			return first_of(status, sr_fail("%s", err.text));
		status = first_of(status, visit_image(v, argument, t, rank, streams));
		if (v->children)
			status = first_of(status, visit_children(v, argument, t, rank));
	}
	return status;
}

/* A child of a rank is the rank in a trace of its own. */
static int visit_child(const struct sr_choice *c, const struct sr_visitor *v, void *argument)
{
	struct sr_choice of_child = *c;
	char path[PATH_MAX];
	int32_t rank;

	if (!sr_forks_find(path, c->dir, c->child, &rank))
		return SR_EXIT_FAILED;
	of_child.dir = path;
	of_child.child = NULL;
	of_child.rank = rank;
	return sr_visit(&of_child, v, argument);
}

int sr_visit(const struct sr_choice *c, const struct sr_visitor *v, void *argument)
{
	struct sr_error err;
	struct sr_trace *t;
	size_t streams = 0;
	int status = 0;

	if (c->child)
		return visit_child(c, v, argument);
	if (sr_trace_open(&t, c->dir, &err))
		return sr_fail("%s", err.text);
	if (v->trace)
		v->trace(argument, t);
	if (c->rank >= 0 && !sr_trace_process(t, (int32_t)c->rank))
		status = sr_fail("%s has no rank %ld", c->dir, c->rank);
	for (size_t i = 0; i < sr_trace_ranks(t); i++) {
		int32_t rank = sr_trace_rank_number(t, i);

		if (c->rank < 0 || c->rank == rank)
			status = first_of(status, visit_rank(v, argument, t, rank, &streams));
	}
	if (!status && v->thread >= 0 && !streams)
		status = sr_fail("%s has no thread %ld%s", c->dir, v->thread,
				 c->rank < 0 ? "" : " of this rank");
	sr_trace_close(t);
	return status;
}
