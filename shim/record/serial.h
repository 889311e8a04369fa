/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * serial.h: records a process whose threads run one at a time (core/run_token.h).
 *
 * Around a call: arrive, release, the real call, regain, go on. Inline, because each
 * recorded call of such a process runs through them.
 */
#ifndef SHIM_RECORD_SERIAL_H
#define SHIM_RECORD_SERIAL_H

#include "shim/core/call.h"
#include "shim/core/hooks.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/files/last_outputs.h"

void sr_serial_note(struct sr_thread *t, const struct sr_token_payload *p);

/*
 * Takes the run token again. Returns an event number if another thread had the token
 * meanwhile, else 0.
 */
static inline uint64_t sr_serial_regain(struct sr_thread *t)
{
	uint64_t event;

	sr_token_take(&t->run_token, t->number);
	if (t->run_token.got == SR_TOKEN_KEPT)
		return 0;
	event = sr_draw_event();
	if (t->run_token.got == SR_TOKEN_PREEMPTED)
		sr_serial_note(t, &(struct sr_token_payload){
				 .what = SR_RUN_TOKEN_PREEMPTED, .other = t->run_token.from, .event = event});
	t->run_token.got = SR_TOKEN_KEPT;
	return event;
}

/*
 * The thread leaves the program's code. It had the token there unless another thread preempted it.
 */
static inline void sr_serial_arrive(struct sr_thread *t, void *site)
{
	struct sr_token_payload p = {.what = t->run_token.begun ? SR_RUN_TOKEN_REACQUIRED
							     : SR_RUN_TOKEN_ACQUIRED,
				     .site = (uintptr_t)site};

	if (t->ended)
		return;
	if (sr_token_meets_again(&t->run_token)) {
		p.what = SR_RUN_TOKEN_ACQUIRED;
		p.event = sr_draw_event();
	}
	t->run_token.site = (uintptr_t)site;
	if (p.event) {
		sr_serial_note(t, &p);
		return;
	}
	/* While it waits in line, the thread does not see what others do from here on. */
	if (sr_token_is_lost(&t->run_token))
		p.arrived = sr_draw_event();
	p.event = sr_serial_regain(t);
	if (p.event)
		sr_serial_note(t, &p);
}

static inline void sr_serial_go_on(struct sr_thread *t)
{
	if (!t->ended)
		sr_token_go_on(&t->run_token);
}

/* Behind its call, of which the record comes next, the thread parts (core/phases.h). */
static inline bool sr_serial_parts(struct sr_thread *t)
{
	if (t->ended || !sr_token_may_part(&t->run_token))
		return false;
	sr_serial_note(t, &(struct sr_token_payload){.what = SR_RUN_TOKEN_PARTS, .site = t->run_token.site});
	return true;
}

/* A thread that has polled so often in vain waits for another one. */
#define SR_SERIAL_VAIN 4

static inline void sr_serial_found(struct sr_thread *t, const struct sr_call_desc *d, bool nothing)
{
	if (d->order & SR_ORDER_IDLE)
		t->run_token.vain = nothing ? t->run_token.vain + 1 : 0;
}

/* How to release the token for this call. If the call may wait, a waiting thread must be woken. */
static inline enum sr_token_releasing sr_serial_releasing(const struct sr_thread *t, const struct sr_call_desc *d,
							  bool is_output)
{
	const uint8_t sees = d->order & (SR_ORDER_RETURN | SR_ORDER_IDLE);

	if (sr_call_number(d) == SR_CALL_kernel_sched_yield || (d->order & SR_ORDER_IDLE && t->run_token.vain >= SR_SERIAL_VAIN))
		return SR_TOKEN_AWAY;
	if (is_output && sr_outputs_are_closed())
		return SR_TOKEN_FOR_LONG;
	/* A lock, a barrier, or a call that may wait for more than threads. */
	if (d->flags & SR_CALL_BLOCKS || (d->when == sr_has_threads && sees == SR_ORDER_RETURN))
		return SR_TOKEN_FOR_LONG;
	return SR_TOKEN_BRIEFLY;
}

static inline void sr_serial_release(struct sr_thread *t, enum sr_token_releasing how)
{
	if (!t->ended)
		sr_token_release(&t->run_token, how);
}

/* Operations of the engine. */
void sr_serial_thread_begins(struct sr_thread *t);
void sr_serial_releases(struct sr_thread *t);
void sr_serial_resumes(struct sr_thread *t);
void sr_serial_has_exposed(struct sr_thread *t);
void sr_serial_regains(struct sr_thread *t, const struct sr_call_desc *d);
/* The thread has let others run between two calls, which is in the trace: waits until it runs again. */
void sr_serial_run_again(struct sr_thread *t);
bool sr_serial_yields(struct sr_thread *t, uint64_t accesses, uintptr_t site);

#endif
