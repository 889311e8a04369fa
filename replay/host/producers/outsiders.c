/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/producers/outsiders.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/log/links.h"
#include "replay/analysis/process/process.h"
#include "logd/base/opcodes.h"
#include "shim/core/setting.h"

#define NOT_A_MEMBER SIZE_MAX

struct member {
	bool unknown; /* they may have written anywhere */
	struct sr_outsiders_range *ranges;
	size_t n, room;
};

struct sr_outsiders {
	struct member *members;
	size_t members_n;
};

struct pass {
	struct sr_outsiders *o;
	struct sr_trace *trace;
	struct sr_links links;
	size_t *member_of; /* by rank of the links */
};

const struct sr_outsiders_range *sr_outsiders_ranges(const struct sr_outsiders *o, size_t member,
						     size_t *n)
{
	static const struct sr_outsiders_range none;
	const struct member *m = &o->members[member];

	*n = m->n;
	if (m->unknown)
		return NULL;
	return m->n ? m->ranges : &none;
}

void sr_outsiders_free(struct sr_outsiders *o)
{
	if (!o)
		return;
	for (size_t i = 0; o->members && i < o->members_n; i++)
		free(o->members[i].ranges);
	free(o->members);
	free(o);
}

static int by_begin(const void *a, const void *b)
{
	const struct sr_outsiders_range *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void merge(struct member *m)
{
	size_t kept = 0;

	if (!m->n)
		return;
	qsort(m->ranges, m->n, sizeof(*m->ranges), by_begin);
	for (size_t i = 1; i < m->n; i++) {
		struct sr_outsiders_range *last = &m->ranges[kept], *r = &m->ranges[i];

		if (r->begin > last->end)
			m->ranges[++kept] = *r;
		else if (r->end > last->end)
			last->end = r->end;
	}
	m->n = kept + 1;
}

/*
 * Makes room by merging, so that memory grows with the number of separate places, not of requests.
 */
static int make_room(struct member *m)
{
	struct sr_outsiders_range *more;
	size_t room;

	if (m->n < m->room)
		return 0;
	merge(m);
	if (m->n < m->room / 2)
		return 0;
	room = m->room ? 2 * m->room : 64;
	more = realloc(m->ranges, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	m->ranges = more;
	m->room = room;
	return 0;
}

static int see_posted(void *argument, const struct sr_posted *p)
{
	const struct pass *x = argument;
	struct member *m;
	uint64_t length = sr_op(p->opcode) & SR_OP_ATOMIC ? 8 : p->length;

	if (!(sr_op(p->opcode) & SR_OP_CHANGES) || p->to == SR_NO_RANK ||
	    x->member_of[p->to] == NOT_A_MEMBER || x->member_of[p->rank] != NOT_A_MEMBER)
		return 0;
	m = &x->o->members[x->member_of[p->to]];
	/* The trace has no length of inline data in several pieces, only their checksum. */
	if (!length || p->address + length < p->address) {
		m->unknown = m->unknown || length || p->checksum;
		return 0;
	}
	if (make_room(m))
		return -ENOMEM;
	m->ranges[m->n++] = (struct sr_outsiders_range){p->address, p->address + length};
	return 0;
}

/* With --allow-direct, direct verbs post past the recorder. */
static bool posts_unseen(const json_t *process)
{
	const char *name = sr_setting_variable(SR_SETTING_ALLOW_DIRECT);
	size_t n = strlen(name);
	const json_t *environment = json_object_get(process, "environment");

	for (size_t i = 0; i < json_array_size(environment); i++) {
		const char *entry = json_string_value(json_array_get(environment, i));

		if (entry && !strncmp(entry, name, n) && entry[n] == '=')
			return sr_setting_is_on(entry + n + 1);
	}
	return false;
}

/* Are the other end's requests in the trace? */
static bool is_known(const struct pass *x, const struct sr_end *e)
{
	return e->peer != SR_NO_END && !e->ambiguous && !x->links.ends[e->peer].ambiguous &&
	       (e->type == IBV_QPT_RC || e->type == IBV_QPT_UC) &&
	       !posts_unseen(sr_trace_process(
		   x->trace, x->links.ranks[x->links.ends[e->peer].rank].number));
}

static void check_peers(struct pass *x)
{
	for (size_t i = 0; i < x->links.ends_n; i++) {
		const struct sr_end *e = &x->links.ends[i];
		size_t member = x->member_of[e->rank];

		if (member != NOT_A_MEMBER && e->type != IBV_QPT_UD && !is_known(x, e))
			x->o->members[member].unknown = true;
	}
}

static int name_members(struct pass *x, const int32_t *ranks, size_t n)
{
	x->member_of = calloc(x->links.ranks_n + 1, sizeof(*x->member_of));
	if (!x->member_of)
		return -ENOMEM;
	for (size_t i = 0; i < x->links.ranks_n; i++) {
		x->member_of[i] = NOT_A_MEMBER;
		for (size_t m = 0; m < n; m++)
			if (ranks[m] == x->links.ranks[i].number)
				x->member_of[i] = m;
	}
	return 0;
}

/* Reads all requests; a hole anywhere makes every member unknown. */
static int read_requests(struct pass *x, struct sr_error *err)
{
	const struct sr_process_hooks hooks = {.posted = see_posted, .argument = x};
	struct sr_process_counts counts = {0};
	bool *group = calloc(x->links.ranks_n + 1, sizeof(*group));
	int ret = group ? sr_process(x->trace, &x->links, group, &hooks, &counts, err) : -ENOMEM;

	free(group);
	for (size_t i = 0; i < x->o->members_n; i++) {
		if (counts.holes || counts.cut)
			x->o->members[i].unknown = true;
		merge(&x->o->members[i]);
	}
	return ret;
}

int sr_outsiders_find(struct sr_outsiders **outsiders, struct sr_trace *t, const int32_t *ranks,
		      size_t n, struct sr_error *err)
{
	struct pass x = {.o = calloc(1, sizeof(*x.o)), .trace = t};
	int ret;

	*outsiders = NULL;
	if (x.o)
		x.o->members = calloc(n, sizeof(*x.o->members));
	if (!x.o || !x.o->members) {
		sr_outsiders_free(x.o);
		return sr_error_set(err, -ENOMEM, "no memory left");
	}
	x.o->members_n = n;
	ret = sr_links_find(&x.links, t, NULL, err);
	if (!ret)
		ret = name_members(&x, ranks, n);
	if (!ret) {
		check_peers(&x);
		ret = read_requests(&x, err);
	}
	sr_links_free(&x.links);
	free(x.member_of);
	if (ret)
		sr_outsiders_free(x.o);
	else
		*outsiders = x.o;
	return ret;
}
