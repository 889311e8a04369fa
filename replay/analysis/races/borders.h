/* SPDX-License-Identifier: BSD-2-Clause */
/* borders.h: where a rank learned, or told, what the recorded ranks do not explain. */
#ifndef REPLAY_ANALYSIS_RACES_BORDERS_H
#define REPLAY_ANALYSIS_RACES_BORDERS_H

#include "replay/analysis/races/collecting.h"

/* At this moment something outside of the recorded ranks was learned, or told.  0 or -ENOMEM. */
int sr_collect_border(struct sr_collect *c, uint32_t moment, size_t rank, bool is_entry, bool is_socket);

/* At this moment a value was found that may have come through memory that processes share.  0 or -ENOMEM. */
int sr_collect_shared_value(struct sr_collect *c, uint32_t moment, size_t rank);

/* At this moment a value was learned of which it is not known where it came from.  0 or -ENOMEM. */
int sr_collect_unknown_value(struct sr_collect *c, uint32_t moment, size_t rank);

/* ... since a process has no clock.  0 or -ENOMEM. */
int sr_collect_unclocked_value(struct sr_collect *c, uint32_t moment, size_t rank);

/* From this moment on a parent may know, unseen, that its child has ended, at `end`.  0 or -ENOMEM. */
int sr_collect_unseen_end(struct sr_collect *c, uint32_t moment, size_t rank, uint32_t end);

#endif
