/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/flight.h"

#include "logd/base/opcodes.h"

/* So many of the last requests are looked at. */
#define REQUESTS_MOST 4096

static bool brings(const struct sr_collect *c, const struct sr_collected_request *rq, uint64_t begin, uint64_t end)
{
	for (uint32_t i = 0; i < rq->accesses_n; i++) {
		const struct sr_access *a = &c->m->accesses[rq->first_access + i];

		if (a->kind == SR_ACCESS_SCATTER && a->begin < end && begin < a->end)
			return true;
	}
	return false;
}

static bool is_in_flight(const struct sr_collect *c, size_t rank, uint64_t begin, uint64_t end)
{
	const size_t first = c->requests_n > REQUESTS_MOST ? c->requests_n - REQUESTS_MOST : 0;

	for (size_t i = c->requests_n; i-- > first;) {
		const struct sr_collected_request *rq = &c->requests[i];

		if (rq->rank == rank && rq->over == SR_NO_MOMENT && sr_op(rq->opcode) & SR_OP_SCATTERS && brings(c, rq, begin, end))
			return true;
	}
	return false;
}

/* What the replay found up to here was found in the recorded run as well. */
static void clear_doubts(struct sr_collect *c, size_t rank)
{
	for (size_t i = 0; i < c->m->accesses_n; i++)
		if (c->m->accesses[i].agent == (SR_AGENT_CPU | (uint32_t)rank))
			c->m->accesses[i].doubts &= (uint16_t)~SR_DOUBT_REPLAY;
}

uint16_t sr_collect_watch_doubts(struct sr_collect *c, size_t rank, bool is_load, uint64_t begin, uint64_t end)
{
	struct sr_collected_rank *r = &c->ranks[rank];
	const uint16_t doubts = c->how->watches->doubts[rank];

	if (!(doubts & SR_DOUBT_REPLAY) || !is_load || r->has_loaded_in_flight || !is_in_flight(c, rank, begin, end))
		return doubts;
	r->has_loaded_in_flight = true;
	clear_doubts(c, rank);
	return doubts & (uint16_t)~SR_DOUBT_REPLAY;
}
