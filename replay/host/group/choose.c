/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/group/choose.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/print/say.h"
#include "shim/core/ranks.h"

/* A piece of a list: ranks, with their children; or the child N/K, with its own. */
struct piece {
	long first, last;
	char child[64]; /* "": ranks */
};

/* Removes the first piece and its comma. */
static bool next_piece(const char **list, struct piece *p)
{
	size_t n = strcspn(*list, ",");

	*p = (struct piece){.first = 0};
	if (!memchr(*list, '/', n))
		return sr_ranks_next(list, &p->first, &p->last);
	if (n >= sizeof(p->child) || strspn(*list, "0123456789/") != n || (*list)[0] == '/' || (*list)[n - 1] == '/')
		return false;
	memcpy(p->child, *list, n);
	*list += n;
	if (!**list)
		return true;
	++*list;
	return **list != 0;
}

static bool names(const struct piece *p, const struct sr_trace *t, int32_t rank)
{
	const char *name = sr_trace_rank_name(t, rank);
	const size_t n = strlen(p->child);
	const long recorded = sr_trace_recorded_rank(t, rank);

	if (n)
		return !strncmp(name, p->child, n) && (!name[n] || name[n] == '/');
	return p->first <= recorded && recorded <= p->last;
}

/* -1: not a list. */
static int is_named(const char *list, const struct sr_trace *t, int32_t rank)
{
	bool named = false;
	struct piece p;

	while (*list) {
		if (!next_piece(&list, &p))
			return -1;
		named = named || names(&p, t, rank);
	}
	return named;
}

static void say_what_is_there(const struct sr_trace *t, const char *dir)
{
	fprintf(stderr, "sreplay: %s holds:", dir);
	for (size_t i = 0; i < sr_trace_ranks(t); i++)
		fprintf(stderr, " %s", sr_trace_rank_name(t, sr_trace_rank_number(t, i)));
	fputc('\n', stderr);
}

/* Each piece must name at least one rank of the trace. */
static bool all_are_there(const struct sr_trace *t, const char *list)
{
	struct piece p;

	while (*list && next_piece(&list, &p)) {
		bool there = false;

		for (size_t i = 0; i < sr_trace_ranks(t); i++)
			there = there || names(&p, t, sr_trace_rank_number(t, i));
		if (!there)
			return false;
	}
	return true;
}

size_t sr_ranks_choose(const struct sr_trace *t, const char *dir, const char *list,
		       int32_t **ranks)
{
	size_t n = sr_trace_ranks(t), count = 0;

	*ranks = calloc(n ? n : 1, sizeof(**ranks));
	if (!*ranks) {
		sr_fail("no memory left");
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		int32_t rank = sr_trace_rank_number(t, i);
		int named = list ? is_named(list, t, rank) : 1;

		if (named < 0) {
			sr_fail("%s: expected ranks as in 0,2-5, or children of ranks as in 3/1", list);
			goto none;
		}
		if (named)
			(*ranks)[count++] = rank;
	}
	if (!n) {
		sr_fail("%s holds no rank: nothing was recorded", dir);
	} else if (!count || (list && !all_are_there(t, list))) {
		sr_fail("%s has not all of the ranks %s", dir, list);
		say_what_is_there(t, dir);
		if (list && strchr(list, '/'))
			sr_note("a child that used no verbs, and no memory that processes share, is replayed alone: by -r");
		goto none;
	}
	if (count)
		return count;
none:
	free(*ranks);
	*ranks = NULL;
	return 0;
}
