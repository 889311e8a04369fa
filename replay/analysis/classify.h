/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * classify.h: which orders are exact.
 *
 * An order on event e of a member says that e had begun.  The order is exact if the bytes that
 * were seen with it are what that member sent at e or before; otherwise it is ambiguous, because
 * the data of e may have come a moment after its clock.  Bytes are compared by checksum, which is
 * all a trace has of what was sent.  Of two events that sent the same bytes the later is taken.
 *
 * For `sreplay orders`: first all that was sent, then all that was seen.
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
 * Does the record have bytes that were seen?  Then sr_classify_event() refers to them: it returns
 * the event up to `last` at which that member sent them, or 0.
 */
bool sr_classify_seen(struct sr_classify *s, const struct sr_schema *schema, const struct sr_entry *e);
uint64_t sr_classify_event(const struct sr_classify *s, int member, uint64_t last);

#endif
