/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * instances.h: how to find a call of a trace again in another run of the program: which call it is,
 * where it was made, and how many of these its thread had made up to there.
 *
 * Polls that found nothing count neither here nor there (shim/confirm): their number is a matter of
 * time.
 */
#ifndef REPLAY_ANALYSIS_RACES_INSTANCES_H
#define REPLAY_ANALYSIS_RACES_INSTANCES_H

#include "logd/trace/reader.h"

struct sr_instance {
	/* To be filled in; the call with this SN, or the last one before it that is no poll that
	 * found nothing. */
	int32_t rank;
	uint32_t thread;
	uint64_t sn;
	bool is_before;

	uint16_t kind;             /* of its record; 0: the trace has no such call */
	uint64_t site, occurrence; /* occurrence: from 1 */
};

/* 0, or -errno and a sentence. */
int sr_instances_find(struct sr_trace *t, struct sr_instance *all, size_t n, struct sr_error *err);

#endif
