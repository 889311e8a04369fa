/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/group/choose.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "replay/print/say.h"
#include "shim/core/ranks.h"

/* -1: not a list. */
static int is_named(const char *list, long rank)
{
	bool named = false;
	long first, last;

	while (*list) {
		if (!sr_ranks_next(&list, &first, &last))
			return -1;
		named = named || (first <= rank && rank <= last);
	}
	return named;
}

static void say_what_is_there(const struct sr_trace *t, const char *dir)
{
	fprintf(stderr, "sreplay: %s holds:", dir);
	for (size_t i = 0; i < sr_trace_ranks(t); i++)
		fprintf(stderr, " %d", sr_trace_rank_number(t, i));
	fputc('\n', stderr);
}

/* Each piece must name at least one rank of the trace. */
static bool all_are_there(const struct sr_trace *t, const char *list)
{
	long first, last;

	while (*list && sr_ranks_next(&list, &first, &last)) {
		bool there = false;

		for (size_t i = 0; i < sr_trace_ranks(t); i++) {
			long rank = sr_trace_rank_number(t, i);

			there = there || (first <= rank && rank <= last);
		}
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
		int named = list ? is_named(list, rank) : 1;

		if (named < 0) {
			sr_fail("%s: expected ranks as in 0,2-5", list);
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
		goto none;
	}
	if (count)
		return count;
none:
	free(*ranks);
	*ranks = NULL;
	return 0;
}
