/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kin.h: who forked whom, as orders of a model.
 *
 * All that a child does comes after its parent's fork, and before the wait that told the parent that it has ended.  Where the
 * parent is not among the recorded ranks, or no such wait is in the trace, something unseen may tell them more.
 */
#ifndef REPLAY_ANALYSIS_RACES_KIN_H
#define REPLAY_ANALYSIS_RACES_KIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "replay/analysis/races/model.h"

/* A process that was forked. */
struct sr_race_child {
	uint32_t rank, parent; /* parent: SR_NO_PARENT if it is not known */
	uint32_t thread;       /* of the parent: that forked, and waited */
	uint64_t fork, wait;   /* SNs of its calls; wait: 0 if there is none */
	uint32_t forked, waited; /* moments; SR_NO_MOMENT until they have one */
	uint32_t first;          /* its own */
};

#define SR_NO_PARENT UINT32_MAX

struct sr_race_kin {
	struct sr_race_child *children;
	size_t n, room;
};

/* Reads the calls of those who forked.  0, or -errno and a sentence. */
int sr_race_kin_load(struct sr_race_kin *k, struct sr_trace *t, struct sr_error *err);
/* The next pass over the trace begins. */
void sr_race_kin_restart(struct sr_race_kin *k);
void sr_race_kin_free(struct sr_race_kin *k);

/* NULL: it was not forked. */
const struct sr_race_child *sr_race_kin_of(const struct sr_race_kin *k, uint32_t rank);

/* Is the call a fork or wait of one of them? */
bool sr_race_kin_has(const struct sr_race_kin *k, uint32_t rank, uint32_t thread, uint64_t sn);
/* This is its moment. */
void sr_race_kin_pass(struct sr_race_kin *k, uint32_t rank, uint32_t thread, uint64_t sn, uint32_t moment);

#endif
