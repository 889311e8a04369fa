/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/producers/found.h"
#include "replay/analysis/plan/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "replay/host/producers/view.h"
#include "replay/print/say.h"

struct adding {
	const struct sr_found_value *pending;
	struct sr_plan_file *file;
	struct sr_producers *producers;
	struct sr_found_bytes *bytes;
};

static void count(struct adding *a, const struct sr_found_value *f)
{
	struct sr_found_bytes *b = a->bytes;
	uint32_t shown = f->length < sizeof(b->first_bytes) ? f->length : sizeof(b->first_bytes);

	if (f->flags & SR_FOUND_UNCHANGED)
		return;
	if (f->flags & SR_FOUND_NOBODY && !b->nobody) {
		b->first = *f;
		sr_producers_bytes(a->producers, a->pending, f->addr, b->first_bytes, shown);
	}
	if (f->flags & SR_FOUND_NOBODY)
		b->nobody += f->length;
	else if (f->flags & SR_FOUND_SHARED)
		b->shared += f->length;
	else
		*(f->producer >= 0 ? &b->inside : &b->outside) += f->length;
}

static int add(void *argument, const struct sr_found_value *f)
{
	struct adding *a = argument;

	if (f->flags & SR_FOUND_PENDING) {
		a->pending = f;
		return sr_producers_resolve(a->producers, f, add, argument);
	}
	count(a, f);
	return sr_plan_file_add(a->file, f);
}

static int add_all(struct adding *a, const struct sr_ended_group *e)
{
	const uint64_t bytes = atomic_load(&e->group->member[e->self].found);
	struct sr_view_part found = sr_view_map(e->fd, sr_group_found_at(e->self), bytes);
	int error = bytes && !found.n ? -ENOMEM : 0;

	for (uint64_t at = 0; !error && at + sizeof(struct sr_found_value) <= found.n; at += sizeof(struct sr_found_value)) {
		const struct sr_found_value *f = (const void *)(found.bytes + at);

		/* Of no length: the process was killed when it had made room for this one. */
		if (f->length)
			error = add(a, f);
	}
	sr_view_unmap(&found);
	return error;
}

bool sr_found_save(const struct sr_ended_group *e, const char *dir, const struct sr_plan *p, int32_t rank,
		   struct sr_producers *producers, struct sr_found_bytes *bytes)
{
	struct adding a = {.producers = producers, .bytes = bytes};
	char plan[PATH_MAX];
	struct sr_plan_file *f;
	const int32_t *group;
	size_t n;
	int error;

	snprintf(plan, sizeof(plan), "%s/plan", dir);
	f = sr_plan_file_new(plan, SR_PLAN_FOUND, rank, 0);
	if (!f || !producers)
		return sr_fail("no memory left"), false;
	group = sr_plan_group(p, &n);
	a.file = f;
	error = add_all(&a, e);
	if (error)
		sr_plan_file_abandon(f);
	else
		error =
		    sr_plan_file_finish(f, sr_plan_trace_identity(p), sr_plan_group_hash(group, n));
	if (error)
		sr_fail("cannot write the communication report of rank %s to %s: %s", sr_trace_rank_name(e->trace, rank), plan,
			strerror(-error));
	return !error;
}
