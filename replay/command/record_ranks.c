/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/record_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/command/command.h"
#include "replay/host/group/choose.h"
#include "shim/core/ranks.h"

static bool is_among(const int32_t *ranks, size_t n, long rank)
{
	for (size_t i = 0; i < n; i++)
		if (ranks[i] == rank)
			return true;
	return false;
}

/* Is each rank of the list replayed?  False after a message. */
static bool are_replayed(const char *dir, const char *list, const int32_t *ranks, size_t n)
{
	const char *at = list;
	long first, last;

	while (*at) {
		if (!sr_ranks_next(&at, &first, &last))
			return !sr_fail("--record-ranks %s: expected ranks as in 0,2-5", list);
		for (long rank = first; rank <= last; rank++)
			if (!is_among(ranks, n, rank))
				return !sr_fail("rank %ld is not in %s: what it sent and received cannot be "
						"produced again; record the job with it (record --group)",
						rank, dir);
	}
	return true;
}

/* The descriptor for the rank's values; -1: they are not wanted. */
static int file_of(const struct sr_detail *d, int32_t rank)
{
	for (size_t i = 0; i < d->count; i++)
		if (d->ranks[i].rank == rank)
			return d->ranks[i].produced;
	return -1;
}

int sr_record_ranks_begin(struct sr_record_ranks *r, struct sr_trace *t, const char *dir,
			  const char *list, const int32_t *ranks, size_t n, const char *output)
{
	int32_t *chosen;
	size_t count;
	int status;

	*r = (struct sr_record_ranks){.detail.draft_fd = -1};
	if (!output)
		return sr_fail("--record-ranks %s: where to? -o NAME.srec", list);
	if (!are_replayed(dir, list, ranks, n))
		return SR_EXIT_FAILED;
	count = sr_ranks_choose(t, dir, list, &chosen);
	if (!count)
		return SR_EXIT_FAILED;
	status = sr_detail_begin(&r->detail, t, dir, chosen, count, output);
	free(chosen);
	r->of = status ? NULL : calloc(n, sizeof(*r->of));
	r->count = r->of ? n : 0;
	for (size_t i = 0; i < r->count; i++)
		r->of[i].fd = file_of(&r->detail, ranks[i]);
	return status || r->of ? status : sr_fail("no memory left");
}

/* Did all ranks do what was recorded?  Then so did those that are wanted, and their files are whole. */
static bool take_results(struct sr_record_ranks *r)
{
	bool good = r->count;

	for (size_t i = 0, next = 0; i < r->count; i++) {
		good = good && r->of[i].ended_as_recorded;
		if (r->of[i].fd >= 0)
			r->detail.ranks[next++].error = r->of[i].error;
	}
	return good;
}

int sr_record_ranks_end(struct sr_record_ranks *r, int status)
{
	int made = SR_EXIT_FAILED;

	if (take_results(r)) {
		made = sr_detail_finish(&r->detail);
		if (!made)
			sr_note("%s: %zu rank%s in detail, each of which replays alone (sreplay replay -r %d %s)",
				r->detail.output, r->detail.count, r->detail.count == 1 ? "" : "s",
				r->detail.ranks[0].rank, r->detail.output);
		status = made ? made : status;
	} else if (r->count) {
		sr_note("%s is not made, because the replay was not as recorded", r->detail.output);
	}
	sr_detail_end(&r->detail);
	free(r->of);
	return status;
}
