/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * annotations.h: what programs say of themselves (sreplay/annotate.h): locks, barriers, memory in which races do no harm.
 *
 * A barrier is a moment behind all that enter it and before all that leave it.  Locks become critical sections (sections.h).
 */
#ifndef REPLAY_ANALYSIS_RACES_ANNOTATIONS_H
#define REPLAY_ANALYSIS_RACES_ANNOTATIONS_H

#include "replay/analysis/races/collecting.h"
#include "replay/analysis/races/sections.h"

/* A hook of sr_process(). */
int sr_collect_annotated(void *argument, const struct sr_annotated *a);

/* The critical sections of annotated locks, which get numbers from *locks on.  0 or -ENOMEM. */
int sr_annotations_add_sections(const struct sr_annotations *a, struct sr_sections *s, uint32_t *locks);

void sr_annotations_free(struct sr_annotations *a);

#endif
