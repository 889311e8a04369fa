/* SPDX-License-Identifier: BSD-2-Clause */
/* conflicts.h: which accesses to the same memory are a race if nothing orders them. */
#ifndef REPLAY_ANALYSIS_RACES_CONFLICTS_H
#define REPLAY_ANALYSIS_RACES_CONFLICTS_H

#include "replay/analysis/races/model.h"

/* Does the access change memory? */
bool sr_access_is_write(const struct sr_access *a);

/* Do they conflict?  Of one owner; in any order. */
bool sr_accesses_conflict(const struct sr_access *a, const struct sr_access *b);

#endif
