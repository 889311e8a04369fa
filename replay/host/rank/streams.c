/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "replay/host/rank/replayed.h"
#include "replay/host/streams.h"
#include "replay/print/say.h"

/* All rings are filled from the start; with many threads, most streams are short. */
#define RING        (4u << 20)
#define SMALL_RING  (256u << 10)
#define FEW_THREADS 64
#define SPARE_FDS   1024 /* besides those of the streams */

/*
 * Raises the limit on open descriptors as far as the system allows: this process has a stream open for each
 * thread.  Returns the old limit, which the replayed process gets back before it runs; 0: not known.
 */
static unsigned long raise_limit(size_t needed)
{
	struct rlimit limit;
	unsigned long before;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	before = limit.rlim_cur;
	if (limit.rlim_cur < needed) {
		limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	return before;
}

static bool open_orders(struct sr_replayed_rank *r, size_t i, uint32_t thread)
{
	struct sr_error err;

	if (sr_orders_open(&r->orders[i], r->plan, r->group, r->options->rank, thread, &err)) {
		sr_fail("%s", err.text);
		return false;
	}
	r->feeders[i].orders = &r->orders[i];
	return true;
}

static bool open_plan(struct sr_replayed_rank *r)
{
	struct sr_error err;

	return !r->group || !sr_plan_open(&r->plan, r->trace, &err) || !sr_fail("%s", err.text);
}

/* The rings of n threads. */
static bool make_rings(struct sr_replayed_rank *r, size_t n)
{
	const uint64_t bytes = n > FEW_THREADS ? SMALL_RING : RING;

	r->rings = (struct sr_feeder_rings){.fd = n ? sr_ring_file_create((uint32_t)n, bytes) : -1, .ring_bytes = bytes};
	r->control->rings_fd = r->rings.fd;
	r->control->ring_bytes = (uint32_t)bytes;
	return !n || r->rings.fd >= 0 || !sr_fail("cannot make the rings of %zu threads: %s", n, strerror(-r->rings.fd));
}

static bool open_listed(struct sr_replayed_rank *r, const bool *listed, size_t n)
{
	if (!make_rings(r, n))
		return false;
	for (uint32_t thread = 0; thread < SR_REPLAY_THREADS; thread++) {
		size_t i = r->n_feeders;

		if (!listed[thread])
			continue;
		if (!sr_streams_open(&r->feeders[i], &r->forks, r->control->fork, thread, &r->rings, i))
			return false;
		r->control->ring_of[thread] = (uint32_t)++r->n_feeders;
		if (r->plan && !open_orders(r, i, thread))
			return false;
		r->control->threads = thread + 1;
	}
	return true;
}

static bool open_feeders(struct sr_replayed_rank *r, unsigned long *limit)
{
	size_t n;
	bool *listed = sr_streams_list(&r->forks, &n), done;

	if (!listed)
		return false;
	*limit = raise_limit(n + SPARE_FDS);
	r->feeders = calloc(n ? n : 1, sizeof(*r->feeders));
	r->orders = calloc(n ? n : 1, sizeof(*r->orders));
	done = r->feeders && r->orders && open_listed(r, listed, n);
	free(listed);
	return done;
}

bool sr_replayed_open_streams(struct sr_replayed_rank *r, unsigned long *limit)
{
	return open_plan(r) && open_feeders(r, limit);
}
