/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/serial.h"

#include "shim/record/creating.h"
#include "shim/record/notes.h"
#include "shim/record/streams.h"
#include "shim/verbs/idle_poll.h"

void sr_serial_note(struct sr_thread *t, const struct sr_token_payload *p)
{
	sr_idle_polls_forget(t);
	if (p->event)
		t->shown = p->event;
	sr_record_note(t, SR_REC_RUN_TOKEN, p, sizeof(*p));
}

void sr_serial_thread_begins(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);

	sr_creation_await(t);
	if (!t->started)
		sr_record_start_thread(t);
	sr_serial_arrive(t, NULL);
	sr_serial_go_on(t);
	sr_leave(t, before);
}

void sr_serial_releases(struct sr_thread *t)
{
	enum sr_heap before;

	if (!sr_threaded)
		return;
	before = sr_enter(t);
	if (!t->started)
		sr_record_start_thread(t);
	/* A handler for a fault in a real call may have made no call. */
	if (!sr_token_is_released(&t->run_token)) {
		sr_serial_arrive(t, NULL);
		sr_serial_release(t, SR_TOKEN_FOR_LONG);
	}
	sr_leave(t, before);
}

void sr_serial_resumes(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);
	uint64_t event = t->ended ? 0 : sr_serial_regain(t);

	if (event)
		sr_serial_note(t, &(struct sr_token_payload){.what = SR_RUN_TOKEN_ACQUIRED, .event = event});
	sr_serial_go_on(t);
	sr_leave(t, before);
}

void sr_serial_has_exposed(struct sr_thread *t)
{
	/* Not if a library registers memory within another call: the token is released already. */
	if (t->run_token.begun && !sr_token_is_released(&t->run_token))
		sr_serial_release(t, SR_TOKEN_BRIEFLY);
}

void sr_serial_regains(struct sr_thread *t, const struct sr_call_desc *d)
{
	/* Within another call more may follow, for which the token must be released. */
	if (t->makes == d && !t->ended && sr_token_is_released(&t->run_token))
		t->regained = sr_serial_regain(t);
}

void sr_serial_run_again(struct sr_thread *t)
{
	uint64_t event = sr_serial_regain(t);

	/* Also if nobody ran meanwhile: without the record, a replay would take the thread for one that never did. */
	sr_serial_note(t, &(struct sr_token_payload){.what = SR_RUN_TOKEN_ACQUIRED, .event = event ? event : sr_draw_event()});
	sr_serial_go_on(t);
}

bool sr_serial_yields(struct sr_thread *t, uint64_t accesses, uintptr_t site)
{
	struct sr_token_payload p = {.what = SR_RUN_TOKEN_YIELDED, .other = (uint32_t)accesses, .site = site};
	enum sr_heap before;
	bool keeps;

	/* Within a call the token is released already, and a record of the thread may be half written. */
	if (t->depth || t->ended || !t->started || accesses > UINT32_MAX)
		return false;
	before = sr_enter(t);
	keeps = sr_token_keep(&t->run_token);
	if (!keeps) {
		p.what = SR_RUN_TOKEN_REJOINED;
		p.arrived = sr_draw_event();
	}
	/* Before others run: the process may end while they do. */
	sr_serial_note(t, &p);
	if (keeps)
		sr_serial_release(t, SR_TOKEN_AWAY);
	sr_serial_run_again(t);
	sr_leave(t, before);
	return true;
}
