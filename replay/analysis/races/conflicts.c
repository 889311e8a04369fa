/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/conflicts.h"

bool sr_access_is_write(const struct sr_access *a)
{
	switch (a->kind) {
	case SR_ACCESS_WRITE:
	case SR_ACCESS_ATOMIC:
	case SR_ACCESS_STORE:
	case SR_ACCESS_SCATTER:
	case SR_ACCESS_RECV:
	case SR_ACCESS_CHANGE:
	case SR_ACCESS_MESSAGE:
		return true;
	default:
		return false;
	}
}

static bool is_cpu(const struct sr_access *a)
{
	return a->kind == SR_ACCESS_LOAD || a->kind == SR_ACCESS_STORE;
}

bool sr_accesses_conflict(const struct sr_access *a, const struct sr_access *b)
{
	if (a->owner != b->owner || a->begin >= b->end || b->begin >= a->end)
		return false;
	if (a->kind == SR_ACCESS_RELEASE || b->kind == SR_ACCESS_RELEASE)
		return a->kind != b->kind && a->key && a->key == b->key;
	if (a->kind == SR_ACCESS_MESSAGE || b->kind == SR_ACCESS_MESSAGE)
		return a->kind == b->kind && a->agent != b->agent;
	if (a->kind == SR_ACCESS_CHANGE || b->kind == SR_ACCESS_CHANGE)
		return a->request == b->request && (a->kind == SR_ACCESS_GATHER || b->kind == SR_ACCESS_GATHER);
	if (!sr_access_is_write(a) && !sr_access_is_write(b))
		return false;
	/* Those of the CPU among themselves are another tool's business. */
	if (is_cpu(a) && is_cpu(b))
		return false;
	if (a->request && a->request == b->request)
		return false;
	/* Messages of a queue pair come in their order: to its receives, or to those of a shared queue. */
	if (a->kind == SR_ACCESS_RECV && b->kind == SR_ACCESS_RECV && a->agent == b->agent &&
	    (a->agent & SR_AGENT_RECEIVE || (a->sender == b->sender && a->sender != SR_NO_QUEUE)))
		return false;
	/* Devices make atomics of one word one by one. */
	return !(a->kind == SR_ACCESS_ATOMIC && b->kind == SR_ACCESS_ATOMIC && a->begin == b->begin);
}
