/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/producers/found.h"
#include "replay/analysis/plan/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "replay/print/say.h"

int sr_found_open(void)
{
	int fd = memfd_create("sreplay-found", MFD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

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

static int add_all(struct adding *a, int fd)
{
	struct sr_found_value records[512];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, records, sizeof(records), at)) > 0) {
		size_t count = (size_t)n / sizeof(records[0]);

		for (size_t i = 0; i < count; i++) {
			int error = add(a, &records[i]);

			if (error)
				return error;
		}
		if (!count)
			return 0; /* the process was killed within its last record */
		at += (off_t)(count * sizeof(records[0]));
	}
	return n < 0 ? -errno : 0;
}

bool sr_found_save(int fd, const char *dir, const struct sr_plan *p, int32_t rank,
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
	error = add_all(&a, fd);
	if (error)
		sr_plan_file_abandon(f);
	else
		error =
		    sr_plan_file_finish(f, sr_plan_trace_identity(p), sr_plan_group_hash(group, n));
	if (error)
		sr_fail("cannot write the communication report of rank %d to %s: %s", rank, plan,
			strerror(-error));
	return !error;
}
