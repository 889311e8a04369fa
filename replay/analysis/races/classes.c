/* SPDX-License-Identifier: BSD-2-Clause */
/* classes.c: of what class a race is, and how severe. */
#include <infiniband/verbs.h>

#include "logd/base/opcodes.h"
#include "replay/analysis/races/flags.h"
#include "replay/analysis/races/races.h"

static bool is_window(const struct sr_access *a)
{
	return a->kind == SR_ACCESS_GATHER || a->kind == SR_ACCESS_SCATTER || a->kind == SR_ACCESS_RECV;
}

/* A lock that compare-and-swap takes is given back by a WRITE of its word. */
static bool is_lock_word(const struct sr_access *write, const struct sr_access *lock)
{
	return write->kind == SR_ACCESS_WRITE && lock->kind == SR_ACCESS_ATOMIC &&
	       lock->opcode == IBV_WR_ATOMIC_CMP_AND_SWP && write->begin == lock->begin && write->end == lock->end;
}

/* The last word of a longer WRITE, for which the rank waits, or may wait for all that is known of it. */
static bool is_last_word(const struct sr_races *r, const struct sr_access *write, const struct sr_access *load)
{
	const bool is_replayed = r->how.watches && !(r->how.watches->doubts[load->rank] & SR_DOUBT_REPLAY);

	return sr_race_is_tail(write, load) || (!is_replayed && sr_race_may_be_awaited(write, load));
}

/* Whether a load waits is known only if the rank was watched: find_flags(). */
static bool is_flag(const struct sr_races *r, const struct sr_access *a, const struct sr_access *b)
{
	if (r->how.memory == SR_MODEL_DEVICE && (is_last_word(r, a, b) || is_last_word(r, b, a)))
		return true;
	return sr_race_is_word(a, b) || sr_race_is_word(b, a);
}

enum sr_race_class sr_race_class_of(const struct sr_races *r, const struct sr_access *a, const struct sr_access *b)
{
	if (a->kind == SR_ACCESS_RELEASE || b->kind == SR_ACCESS_RELEASE)
		return SR_RACE_LIFETIME;
	if (a->kind == SR_ACCESS_MESSAGE)
		return SR_RACE_MESSAGE;
	if (a->queue != SR_NO_QUEUE && a->queue == b->queue && (sr_op(a->opcode) | sr_op(b->opcode)) & SR_OP_SCATTERS)
		return SR_RACE_FENCE;
	if (is_window(a) || is_window(b))
		return SR_RACE_IN_FLIGHT;
	if (is_flag(r, a, b) || is_lock_word(a, b) || is_lock_word(b, a))
		return SR_RACE_SYNC;
	if (a->kind == SR_ACCESS_WRITE && b->kind == SR_ACCESS_WRITE && a->begin == b->begin && a->end == b->end &&
	    a->checksum && a->checksum == b->checksum)
		return SR_RACE_SAME_VALUE;
	return SR_RACE_DATA;
}

enum sr_race_severity sr_race_severity_of(const struct sr_race *r)
{
	if (r->evidence == SR_RACE_POSSIBLE || r->class == SR_RACE_SAME_VALUE || r->class == SR_RACE_SYNC)
		return SR_RACE_NOTE;
	return r->evidence >= SR_RACE_OBSERVED ? SR_RACE_ERROR : SR_RACE_WARNING;
}
