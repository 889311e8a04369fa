/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/signal.h"

#include "shim/core/order.h"
#include "shim/core/signal_state.h"
#include "shim/core/thread.h"
#include "shim/exposed/exposed.h"
#include "shim/record/emit.h"
#include "shim/record/serial.h"
#include "shim/record/streams.h"

/* Draws the event at which a handler begins, in the program's code or in a real call. */
static uint64_t handler_begins(struct sr_thread *t)
{
	uint64_t event = 0;

	if (sr_serial && !t->ended) {
		if (t->depth > 1)
			event = sr_serial_regain(t);
		else
			sr_serial_arrive(t, NULL);
	}
	return event ? event : sr_draw_event();
}

static void put_order(struct sr_thread *t, struct sr_signal_payload *p)
{
	p->order = handler_begins(t);
	if (p->place == SR_SIGNAL_IN_CALL) {
		/* The first of several handlers in one call takes the number. */
		p->entry = t->signals.call_entry;
		t->signals.call_entry = 0;
	}
}

static bool record(struct sr_thread *t, struct sr_signal_payload *p, bool ordered)
{
	enum sr_heap before = sr_enter(t);

	if (!t->started)
		sr_record_start_thread(t);
	if (ordered)
		put_order(t, p);
	p->heap_position = t->heap_ops;
	if (p->place == SR_SIGNAL_BETWEEN)
		p->access = (uint32_t)sr_exposed_faults();
	if (!t->silent) {
		sr_flush_repeats(t);
		t->last.len = 0;
		sr_emit_passed(t);
		sr_emit(t, SR_REC_SIGNAL, p, sizeof(*p));
	}
	if (sr_serial && ordered)
		sr_serial_go_on(t);
	sr_leave(t, before);
	return true;
}

bool sr_record_signal(struct sr_thread *t, struct sr_signal_payload *p)
{
	return record(t, p, sr_threaded);
}

bool sr_record_signal_alone(struct sr_thread *t, struct sr_signal_payload *p)
{
	return record(t, p, false);
}

void sr_record_handlers_at_heap(struct sr_thread *t)
{
	if (t->started && t->sn)
		sr_signals_take(t, SR_SIGNAL_AT_HEAP);
}
