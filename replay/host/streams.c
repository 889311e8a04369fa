/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/streams.h"

#include <stdlib.h>

#include "replay/print/say.h"

/* False after a message. */
static bool list_threads(bool *listed, const struct sr_trace *t, int32_t rank, size_t *n)
{
	const uint32_t *threads;
	size_t of_one = sr_trace_threads(t, rank, &threads);

	for (size_t k = 0; k < of_one; k++) {
		if (threads[k] >= SR_REPLAY_THREADS)
			return !sr_fail("rank %s has more than %d threads, which no replay can have", sr_trace_rank_name(t, rank), SR_REPLAY_THREADS);
		*n += !listed[threads[k]];
		listed[threads[k]] = true;
	}
	return true;
}

bool *sr_streams_list(const struct sr_forks *forks, size_t *n)
{
	bool *listed = calloc(SR_REPLAY_THREADS, sizeof(*listed));

	*n = 0;
	for (size_t i = 0; listed && i < forks->n; i++) {
		if (!list_threads(listed, forks->trace[i], forks->rank[i], n)) {
			free(listed);
			return NULL;
		}
	}
	return listed;
}

/*
 * If the thread is the one that forked, the child's stream follows on its parent's.  If not, a parent's
 * thread with the number of one of the child's began after the fork.
 */
bool sr_streams_open(struct sr_feeder *f, const struct sr_forks *forks,
		     const struct sr_replay_fork *fork, uint32_t thread,
		     const struct sr_feeder_rings *rings, size_t place)
{
	size_t last = forks->n - 1, first;
	struct sr_error err;

	while (last && !sr_trace_has_thread(forks->trace[last], forks->rank[last], thread) &&
	       fork[last - 1].thread != thread)
		last--;
	for (first = last; first && fork[first - 1].thread == thread;)
		first--;
	f->is_parents = last + 1 < forks->n;
	if (sr_feeder_open(f, forks->trace[first], forks->rank[first], thread, rings, place, &err))
		return !sr_fail("%s", err.text);
	for (size_t i = first + 1; i <= last; i++) {
		if (sr_feeder_add(f, forks->trace[i], forks->rank[i], thread, fork[i - 1].number, &err)) {
			sr_feeder_stop(f);
			return !sr_fail("%s", err.text);
		}
	}
	return true;
}
