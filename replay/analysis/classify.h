/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * classify.h: which orders are exact.
 *
 * An order on event e of a member says that e had begun.  If what was seen
 * together with it is what that member sent at e, or at an event before e, the
 * order is exact, on that event.  Else it is ambiguous: the data of e may have
 * come a moment after its clock.  Bytes are told by their checksum, which is what
 * the trace has of what was sent; so two events that sent the same bytes are
 * not told apart, the later one is taken.
 *
 * For `sreplay orders`: all that was sent first, then what was seen.
 */
#ifndef REPLAY_ANALYSIS_CLASSIFY_H
#define REPLAY_ANALYSIS_CLASSIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/schema.h"

struct sr_classify;

/* NULL: no memory. */
struct sr_classify *sr_classify_new(void);
void sr_classify_free(struct sr_classify *s);

/* A call's record: what this member sent, at this event.  0 or -ENOMEM. */
int sr_classify_sent(struct sr_classify *s, const struct sr_schema *schema, int member, uint64_t event,
		   const struct sr_entry *e);
void sr_classify_all_sent(struct sr_classify *s);

/*
 * A call's record: is there anything in it that was seen?  Then sr_classify_event()
 * is about that: the event up to `last` of that member which sent it, or 0.
 */
bool sr_classify_seen(struct sr_classify *s, const struct sr_schema *schema, const struct sr_entry *e);
uint64_t sr_classify_event(const struct sr_classify *s, int member, uint64_t last);

#endif
