/* SPDX-License-Identifier: BSD-2-Clause */
/* sums.c: compares the sums of what the records of calls lack; see own.h and shim/core/sums.h. */
#include <string.h>

#include "shim/core/sums.h"
#include "shim/memory/heap.h"
#include "shim/replay/own.h"
#include "shim/replay/produced.h"

void sr_replay_start_sums(void)
{
	sr_sums_on = sr_replay_page->sums;
}

static bool lacks_arguments(enum sr_call_number n)
{
	return n == SR_CALL_post_send || n == SR_CALL_post_recv || n == SR_CALL_post_srq_recv ||
	       n == SR_CALL_wr_set_inline_data || n == SR_CALL_wr_set_inline_data_list;
}

bool sr_replay_keeps_arguments(enum sr_call_number n)
{
	return sr_sums_on && sr_replay_page->produced_fd >= 0 && lacks_arguments(n);
}

void sr_replay_complete_arguments(const struct sr_thread *t, struct sr_buf *parts, struct sr_buf *whole)
{
	struct sr_sums_part part;

	sr_put_raw(whole, t->buf.p, t->buf.len);
	for (size_t at = 0, n; at < parts->len; at += sizeof(part) + n) {
		memcpy(&part, parts->p + at, sizeof(part));
		n = part.n;
		memcpy(whole->p + part.at, parts->p + at + sizeof(part), n);
	}
	sr_free(parts->p);
}

void sr_replay_keep_arguments(const struct sr_thread *t, struct sr_buf *whole)
{
	if (whole->len)
		sr_produced_keep(t, whole->p, whole->len);
	sr_free(whole->p);
}

/*
 * What was received is compared first: a rank that has received something else may well send something else, and is not
 * the one that went another way.
 */
static void compare(struct sr_thread *t, const struct sr_check_payload *recorded)
{
	bool received = recorded->received == sr_sum_shown(t->sums.received);

	if (received && recorded->sent == sr_sum_shown(t->sums.sent))
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
