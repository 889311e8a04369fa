/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/confirm_compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/call_sites.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/schema.h"
#include "replay/command/command.h"
#include "replay/command/confirm_outputs.h"
#include "shim/core/call.h"

/* What a thread did: a call that is compared, or what it put out. */
struct step {
	uint64_t what; /* a hash */
	uint64_t sn;
};

struct steps {
	struct step *calls, *output;
	size_t calls_n, calls_room, output_n, output_room;
};

enum role { COMPARED, WAITING };

struct run {
	struct sr_trace *trace;
	struct sr_call_sites *sites;
	struct sr_schema *schema; /* of a rank */
	uint8_t *roles;           /* by kind - SR_REC_CALL, as far as known; 0xff: not */
	struct sr_outputs outputs; /* of the rank */
};

#define KINDS 1024

/* How often a thread waits is a matter of time. */
static enum role role_of(const char *name)
{
	static const char *const waiting[] = {"poll_cq",
					      "start_poll",
					      "next_poll",
					      "end_poll",
					      "req_notify_cq",
					      "get_cq_event",
					      "ack_cq_events",
					      "poll",
					      "ppoll",
					      "select",
					      "pselect",
					      "epoll_wait",
					      "epoll_pwait",
					      "sched_yield",
					      "nanosleep",
					      "clock_nanosleep",
					      "usleep",
					      "sleep",
					      "clock_gettime",
					      "gettimeofday",
					      "time",
					      "pthread_cond_wait",
					      "pthread_cond_timedwait",
					      "futex",
					      "pthread_mutex_trylock",
					      "getrusage",
					      "times",
					      "tsc",
					      "rdtsc",
					      "cpuid"};

	if (!strncmp(name, "ibv_", 4))
		name += 4;
	for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
		if (!strcmp(name, waiting[i]))
			return WAITING;
	return COMPARED;
}

static enum role role(struct run *r, uint16_t kind)
{
	const size_t at = (size_t)kind - SR_REC_CALL;

	if (at >= KINDS)
		return COMPARED;
	if (r->roles[at] == 0xff)
		r->roles[at] = (uint8_t)role_of(sr_schema_name(r->schema, kind));
	return (enum role)r->roles[at];
}

static bool add(struct step **list, size_t *n, size_t *room, uint64_t what, uint64_t sn)
{
	struct step *s = sr_grow((void **)list, *n, room, sizeof(*s));

	if (!s)
		return false;
	*s = (struct step){what, sn};
	(*n)++;
	return true;
}

static bool take(struct run *r, uint32_t thread, struct steps *s, const struct sr_entry *e)
{
	struct sr_call_head head;
	size_t bytes;
	bool fine = true;

	if (e->kind < SR_REC_CALL || e->size < sizeof(head) || role(r, e->kind) == WAITING)
		return true;
	memcpy(&head, e->payload, sizeof(head));
	fine =
	    add(&s->calls, &s->calls_n, &s->calls_room, head.site ^ (uint64_t)e->kind << 48, e->sn);
	if (!sr_outputs_have(&r->outputs, thread, e->sn))
		return fine;
	bytes = e->size - sizeof(head) - head.orders * sizeof(uint64_t);
	return fine && add(&s->output, &s->output_n, &s->output_room,
			   XXH3_64bits((const char *)e->payload + sizeof(head), bytes), e->sn);
}

/* False: no memory. */
static bool read_steps(struct run *r, int32_t rank, uint32_t thread, struct steps *s)
{
	struct sr_stream *stream;
	struct sr_error err;
	struct sr_entry e;
	bool fine = true;

	*s = (struct steps){0};
	if (sr_stream_open(&stream, r->trace, rank, thread, &err))
		return true;
	while (fine && sr_stream_next(stream, &e) > 0)
		fine = take(r, thread, s, &e);
	sr_stream_close(stream);
	return fine;
}

static void free_steps(struct steps *s)
{
	free(s->calls);
	free(s->output);
}

/* ---------------------------------------------------------------- comparing */

static void name(struct run *r, int32_t rank, uint32_t thread, uint64_t sn, char place[256])
{
	snprintf(place, 256, "%s", sn ? sr_call_sites_call(r->sites, rank, thread, sn) : "");
}

/* False: no memory. */
static bool compare(struct sr_run_difference **list, size_t *n, size_t *room, struct run *a,
		    struct run *b, int32_t rank, uint32_t thread, const struct step *x, size_t x_n,
		    const struct step *y, size_t y_n)
{
	struct sr_run_difference *d;
	size_t i = 0;

	while (i < x_n && i < y_n && x[i].what == y[i].what)
		i++;
	if (i == x_n && i == y_n)
		return true;
	d = sr_grow((void **)list, *n, room, sizeof(*d));
	if (!d)
		return false;
	*d = (struct sr_run_difference){.rank = rank,
					.thread = thread,
					.at = i,
					.sn = i < x_n ? x[i].sn : 0,
					.other_sn = i < y_n ? y[i].sn : 0};
	name(a, rank, thread, d->sn, d->place);
	name(b, rank, thread, d->other_sn, d->other_place);
	(*n)++;
	return true;
}

static bool compare_thread(struct sr_run_differences *d, struct run *a, struct run *b, int32_t rank,
			   uint32_t thread)
{
	struct steps x, y;
	bool fine = read_steps(a, rank, thread, &x);

	fine = read_steps(b, rank, thread, &y) && fine;
	fine = fine && compare(&d->calls, &d->calls_n, &d->calls_room, a, b, rank, thread, x.calls,
			       x.calls_n, y.calls, y.calls_n);
	fine = fine && compare(&d->output, &d->output_n, &d->output_room, a, b, rank, thread,
			       x.output, x.output_n, y.output, y.output_n);
	free_steps(&x);
	free_steps(&y);
	return fine;
}

static bool compare_rank(struct sr_run_differences *d, struct run *a, struct run *b, int32_t rank)
{
	const uint32_t *threads;
	size_t n = sr_trace_threads(a->trace, rank, &threads);
	struct sr_error err;
	bool fine = sr_outputs_of(&a->outputs, a->trace, rank);

	fine = sr_outputs_of(&b->outputs, b->trace, rank) && fine;
	a->schema = sr_schema_of(a->trace, rank, &err);
	b->schema = sr_schema_of(b->trace, rank, &err);
	memset(a->roles, 0xff, KINDS);
	memset(b->roles, 0xff, KINDS);
	for (size_t i = 0; a->schema && b->schema && i < n && fine; i++)
		fine = compare_thread(d, a, b, rank, threads[i]);
	sr_schema_free(a->schema);
	sr_schema_free(b->schema);
	sr_outputs_free(&a->outputs);
	sr_outputs_free(&b->outputs);
	return fine;
}

static bool open_run(struct run *r, const char *dir)
{
	struct sr_error err;

	*r = (struct run){.roles = malloc(KINDS)};
	if (sr_trace_open(&r->trace, dir, &err)) {
		r->trace = NULL;
		return !sr_fail("%s", err.text);
	}
	r->sites = sr_call_sites_new(r->trace);
	return (r->sites && r->roles) || !sr_fail("no memory left");
}

static void close_run(struct run *r)
{
	sr_call_sites_free(r->sites);
	free(r->roles);
	if (r->trace)
		sr_trace_close(r->trace);
}

int sr_runs_compare(struct sr_run_differences *d, const char *dir, const char *other_dir)
{
	struct run a, b;
	bool fine = open_run(&a, dir);

	*d = (struct sr_run_differences){0};
	fine = open_run(&b, other_dir) && fine;
	for (size_t i = 0; fine && i < sr_trace_ranks(a.trace); i++)
		fine = compare_rank(d, &a, &b, sr_trace_rank_number(a.trace, i)) ||
		       !sr_fail("no memory left");
	close_run(&a);
	close_run(&b);
	return fine ? 0 : SR_EXIT_FAILED;
}

void sr_run_differences_free(struct sr_run_differences *d)
{
	free(d->calls);
	free(d->output);
}

static size_t drop(struct sr_run_difference *list, size_t n, const struct sr_run_difference *noise,
		   size_t noise_n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		bool is_noise = false;

		for (size_t k = 0; k < noise_n; k++)
			is_noise |= noise[k].rank == list[i].rank &&
				    noise[k].thread == list[i].thread && noise[k].at <= list[i].at;
		if (!is_noise)
			list[kept++] = list[i];
	}
	return kept;
}

void sr_run_differences_drop(struct sr_run_differences *d, const struct sr_run_differences *noise)
{
	d->calls_n = drop(d->calls, d->calls_n, noise->calls, noise->calls_n);
	d->output_n = drop(d->output, d->output_n, noise->output, noise->output_n);
}
