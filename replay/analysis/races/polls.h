/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * polls.h: which READs wait for memory to change?
 *
 * A READ that is posted again, by the same call, once it is over, and that finds something else in the end, waits: its bytes are a
 * flag.  (READs of one batch do not wait for each other; what is read twice and stays the same was not waited for.)
 */
#ifndef REPLAY_ANALYSIS_RACES_POLLS_H
#define REPLAY_ANALYSIS_RACES_POLLS_H

#include "replay/analysis/races/collecting.h"

/* Its remote access, which is added next. */
void sr_collect_note_poll(struct sr_collect *c, struct sr_collected_request *rq, const struct sr_access *a);

/* All values are known: the READs of all bytes that were waited for wait (struct sr_access, is_polled). */
void sr_collect_end_polls(struct sr_collect *c);

/*
 * A place in the program (a stack) at which a READ waits may find what it waits for at once, each time, in another word.  So all of
 * its READs wait, unless one of them went on with what it had found before: a place that reads data does.  stack_of: 0 if it is not known.
 * 0 or -ENOMEM.
 */
int sr_race_find_polls(struct sr_race_model *m, uint64_t (*stack_of)(const void *argument, const struct sr_access *a), const void *argument);

#endif
