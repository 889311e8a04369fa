/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/notes.h"

#include "nicclock/order_code.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/record/emit.h"
#include "shim/record/streams.h"

void sr_record_note(struct sr_thread *t, uint16_t kind, const void *payload, size_t size)
{
	enum sr_heap before = sr_enter(t);

	if (!t->started)
		sr_record_start_thread(t);
	if (!t->silent) {
		sr_flush_repeats(t);
		sr_emit_passed(t);
		sr_emit(t, kind, payload, size);
		/* A repeat would refer to the previous record, which is this one and not a call. */
		t->last.len = 0;
	}
	sr_leave(t, before);
}

bool sr_record_passes(struct sr_thread *t)
{
	/* In front of the next call's record nothing needs to say it. */
	if (t->passed_behind != t->sn)
		t->passed = 0;
	t->passed_behind = t->sn;
	t->passed++;
	return true;
}

/*
 * Signal handlers may call this. The deltas refer to the stream's last clock record, so they are
 * encoded inside the reservation, where no handler can write a clock record in between.
 */
static void put_clock(struct sr_thread *t, uint64_t event, const struct sr_order *orders,
		      uint32_t n)
{
	bool usual = !n && sr_order_is_next(&t->orders, event);
	void *room = sr_ring_reserve(&t->ring, SR_REC_CLOCK, usual ? 1 : SR_ORDER_MAX_BYTES(n));

	/* A handler has written a clock record in between. */
	if (room && usual && !sr_order_is_next(&t->orders, event)) {
		sr_ring_cancel(&t->ring);
		room = sr_ring_reserve(&t->ring, SR_REC_CLOCK, SR_ORDER_MAX_BYTES(n));
	}
	if (!room)
		return;
	sr_ring_commit(&t->ring, sr_order_encode(&t->orders, event, orders, n, room));
}

/* The stream's own numbers show it nearly always. */
static void put_behind(struct sr_thread *t, uint64_t behind)
{
	if (!sr_threaded || !behind || behind == t->shown)
		return;
	t->shown = behind;
	sr_emit(t, SR_REC_BEHIND, &behind, sizeof(behind));
}

void sr_record_clock(struct sr_clock_moment moment, const struct sr_order *orders, uint32_t n)
{
	struct sr_thread *t = &sr_self;
	enum sr_heap before = sr_enter(t);

	if (!t->started)
		sr_record_start_thread(t);
	if (!t->silent) {
		sr_flush_repeats(t);
		put_behind(t, moment.behind);
		put_clock(t, moment.event, orders, n);
		/*
		 * The call under way follows this record, so it is no repeat even if it looks
		 * the same.
		 */
		t->last.len = 0;
	}
	sr_leave(t, before);
}
