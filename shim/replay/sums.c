/* SPDX-License-Identifier: BSD-2-Clause */
/* sums.c: compares the sums of checksums that the records of calls lack; see own.h and shim/core/sums.h. */
#include <string.h>

#include "shim/core/sums.h"
#include "shim/replay/own.h"
#include "shim/replay/produced.h"

/* A detailed trace has the checksums again. */
static void keep(uint64_t checksum)
{
	sr_produced_keep(&sr_self, &checksum, sizeof(checksum));
}

void sr_replay_start_sums(void)
{
	sr_sums_on = sr_replay_page->sums;
	if (sr_replay_page->produced_fd >= 0)
		sr_sums_keep = keep;
}

/*
 * What was received is compared first: a rank that has received something else may well send something else, and is not
 * the one that went another way.
 */
static void compare(struct sr_thread *t, const struct sr_check_payload *recorded)
{
	bool received = recorded->received == t->sums.received;

	if (received && recorded->sent == t->sums.sent)
		return;
	sr_replay_claim_report();
	sr_replay_page->report.since = t->sums.checked_sn + 1;
	sr_replay_diverge(t, received ? SR_REPLAY_OTHER_SENT : SR_REPLAY_OTHER_RECEIVED, SR_REC_CHECK, SR_REC_CHECK);
}

void sr_replay_take_check(struct sr_thread *t)
{
	struct sr_replay_stream *s = t->stream;
	struct sr_check_payload recorded;

	if (t->silent || !t->sums.events || s->repeats_left || !sr_replay_peek(t) || s->next.kind != SR_REC_CHECK ||
	    s->next.size < sizeof(recorded))
		return;
	memcpy(&recorded, s->next.payload, sizeof(recorded));
	s->peeked = false;
	compare(t, &recorded);
	t->sums.events = 0;
	t->sums.checked_sn = t->sn;
}
