/* SPDX-License-Identifier: BSD-2-Clause */
/* exposed.c: supplies the values that loads of exposed regions found; see own.h. */
#include <string.h>

#include "logd/base/checksum.h"
#include "logd/base/page.h"
#include "shim/core/sums.h"
#include "shim/replay/group/group.h"
#include "shim/replay/group/landed.h"
#include "shim/replay/own.h"
#include "shim/replay/produced.h"
#include "shim/replay/stacks.h"
#include "shim/replay/trial.h"
#include "shim/replay/watch.h"
#include "shim/verbs/regions.h"

/* A loop that repeats its loads so often without a new value waits in vain. */
#define VAIN_MAX 300000

/* The program made a load (or a call, at found_site) where the recording has another load. */
static void __attribute__((noreturn))
miss_load(struct sr_thread *t, const struct sr_exposed_event *expected, uint16_t found,
	  uint64_t found_site, uint64_t found_address)
{
	sr_replay_claim_report();
	sr_replay_page->report.expected_site = expected->pc;
	sr_replay_page->report.expected_address = expected->addr;
	sr_replay_page->report.found_site = found_site;
	sr_replay_page->report.found_address = found_address;
	sr_replay_diverge(t, SR_REPLAY_MISSED_LOAD, SR_REC_EXPOSED, found);
}

/* The event of the next record; NULL if that is not about an exposed region. */
static const struct sr_exposed_event *next_event(struct sr_thread *t)
{
	struct sr_replay_stream *s = t->stream;

	if (s->repeats_left || !sr_replay_peek(t) || s->next.kind != SR_REC_EXPOSED)
		return NULL;
	if (!sr_exposed_records_decode(&s->regions, s->next.payload, s->next.size))
		sr_replay_diverge(t, SR_REPLAY_BAD_RECORD, SR_REC_EXPOSED, SR_REC_EXPOSED);
	return &s->regions.event;
}

void sr_replay_pass_number(struct sr_thread *t)
{
	const struct sr_exposed_event *next = t->silent || t->ended ? NULL : next_event(t);

	if (next && next->flags & SR_EXPOSED_MANY && !next->values_n && !next->protected_n)
		t->stream->peeked = false;
}

/* Without the lock of the exposed regions, whose holder should not wait for a record either. */
bool sr_replay_exposed_expected(void)
{
	struct sr_thread *t = &sr_self;
	struct sr_replay_stream *s;
	enum sr_heap before;
	bool expected;

	if (!t->started)
		return true;
	if (sr_trial_has_begun())
		return false;
	s = t->stream;
	if (t->silent || t->ended || s->repeats_left)
		return false;
	before = sr_enter(t);
	expected = sr_replay_peek(t) && s->next.kind == SR_REC_EXPOSED;
	sr_leave(t, before);
	return expected;
}

/*
 * Detects a loop that never ends: it repeats the same loads although the recording has no more
 * values before the next call, where the recorded program left the loop.
 *
 * before: the recorded program is known to have made so many loads before that call.
 */
static void count_load(struct sr_thread *t, const struct sr_exposed_event *now, uint64_t before)
{
	struct sr_replay_stream *s = t->stream;
	bool again = false;

	if (now->fault <= before)
		return;
	for (int i = 0; i < SR_REPLAY_LOADS; i++)
		again = again || (s->loads[i].pc == now->pc && !((s->loads[i].addr ^ now->addr) >> 12));
	if (!again) {
		s->loads[s->loads_at % SR_REPLAY_LOADS].pc = now->pc;
		s->loads[s->loads_at++ % SR_REPLAY_LOADS].addr = now->addr;
		s->vain = 0;
	}
	/* With those that were not looked up (QUIET_MAX). */
	s->vain += s->vain && now->fault > s->counted_fault ? now->fault - s->counted_fault : 1;
	s->counted_fault = now->fault;
	if (s->vain < VAIN_MAX || !s->peeked || (s->next.kind < SR_REC_CALL && !before))
		return;
	sr_replay_claim_report();
	sr_replay_page->report.found_site = now->pc;
	sr_replay_page->report.found_address = now->addr;
	if (s->next.kind >= SR_REC_CALL && s->next.size >= sizeof(struct sr_call_head))
		sr_replay_page->report.expected_site =
		    ((const struct sr_call_head *)s->next.payload)->site;
	sr_replay_diverge(t, SR_REPLAY_WAITS, s->next.kind, SR_REC_EXPOSED);
}

/*
 * Loads that need not be looked up one by one, although no event comes, before a loop that never ends is looked for
 * again.
 */
#define QUIET_MAX 1024

/* The fault at which the next record may have something to say; UINT64_MAX: none before the next call. */
static uint64_t next_fault(struct sr_thread *t, uint64_t fault)
{
	const struct sr_exposed_event *next = next_event(t);
	struct sr_token_payload yield;
	uint64_t access;

	if (next)
		return next->flags & SR_EXPOSED_MANY ? UINT64_MAX : next->fault;
	if (sr_replay_peek_yield(t, &yield))
		return yield.other + 1ull;
	if (sr_replay_handler_behind_access(t, &access)) {
		if (access <= fault)
			sr_signals_interrupt(t);
		return access;
	}
	/* Behind the heap operation or the handler that comes next there may be an event. */
	return t->stream->peeked && t->stream->next.kind < SR_REC_CALL ? fault + 1 : UINT64_MAX;
}

uint64_t sr_replay_quiet_until(uint64_t fault)
{
	struct sr_thread *t = &sr_self;
	enum sr_heap before = sr_enter(t);
	uint64_t until = t->started && !t->silent && !t->ended && !sr_trial_has_begun() ? next_fault(t, fault) : UINT64_MAX;

	sr_leave(t, before);
	return until < fault + QUIET_MAX ? until : fault + QUIET_MAX;
}

/* The event that comes next; NULL: something else does. */
static const struct sr_exposed_event *peek_event(struct sr_thread *t)
{
	return t->started && !t->silent && !t->ended && !sr_trial_has_begun() ? next_event(t) : NULL;
}

bool sr_replay_awaits_late(void)
{
	const uint32_t late = SR_EXPOSED_TICK | SR_EXPOSED_WRITTEN;
	enum sr_heap before = sr_enter(&sr_self);
	const struct sr_exposed_event *next = peek_event(&sr_self);
	bool awaits = next && (next->flags & late) == late;

	sr_leave(&sr_self, before);
	return awaits;
}

/* One turn of a loop has fewer loads than this.  A thread that only computes may never come back to that load. */
#define TURN_MAX 4096

bool sr_replay_is_before_tick(uint64_t fault, uintptr_t pc, uintptr_t addr)
{
	enum sr_heap before = sr_enter(&sr_self);
	const struct sr_exposed_event *next = peek_event(&sr_self);
	bool is = next && next->flags & SR_EXPOSED_AFTER_TICK && next->fault == fault &&
		  (next->pc != pc || next->addr != addr) &&
		  sr_self.stream->before_tick++ < TURN_MAX;

	sr_leave(&sr_self, before);
	return is;
}

/* Values that the record lacks come from the members that wrote them; then they are what was found. */
static void fill_left_out(struct sr_thread *t, const struct sr_exposed_event *e)
{
	struct sr_exposed_value *values = t->stream->regions.values;
	enum sr_landed how;
	struct sr_landed_lack lack = {.writer = -1};
	uint32_t lacks = 0;

	for (uint32_t i = 0; i < e->values_n; i++)
		lacks += !values[i].data;
	sr_sums_count(e->values_n - lacks);
	if (!lacks)
		return;
	how = sr_landed_fill(t, e, values, &lack);
	if (how != SR_LANDED) {
		sr_replay_claim_report();
		sr_replay_page->report.expected_address = values[lack.which].addr;
		sr_replay_page->report.expected_size = values[lack.which].length;
		sr_replay_page->report.expected_site = e->pc;
		sr_replay_page->report.sender = lack.writer;
		sr_replay_page->report.contended = lack.contended;
		sr_replay_page->report.contended_bytes = lack.contended_bytes;
		sr_replay_diverge_from_group(t, how == SR_LANDED_OTHERS && sr_replay_page->whole_job ? SR_REPLAY_OTHER_PRODUCED : SR_REPLAY_NOT_PRODUCED,
					     SR_REC_EXPOSED);
	}
	for (uint32_t i = 0; i < e->values_n; i++) {
		if (!values[i].mask)
			continue;
		sr_sums_received(sr_checksum(values[i].data, values[i].length, 0));
		sr_produced_keep(t, values[i].data, values[i].length);
	}
}

/* With --order the trace has only the page of the address that was accessed. */
static bool is_page_alone(const struct sr_exposed_event *e)
{
	return e->addr && e->addr % PAGE == 0;
}

/*
 * A loop that waits in vain must not find its page shown: it would make no further fault.  Another processor's memcpy
 * has another instruction for the same address.
 */
static bool is_another_load(const struct sr_exposed_event *next, const struct sr_exposed_event *now)
{
	return (next->addr ^ now->addr) >> 12 ||
	       (next->flags & SR_EXPOSED_SNAPSHOT && next->pc != now->pc && next->addr != now->addr && !is_page_alone(next));
}

/* The command puts it into a detailed trace. */
static void keep_address(struct sr_thread *t, const struct sr_exposed_event *e, const struct sr_exposed_event *now)
{
	uint64_t addr = now->addr ? now->addr : e->addr;

	if (sr_sums_on && is_page_alone(e))
		sr_produced_keep(t, &addr, sizeof(addr));
}

/*
 * The recorded thread made this access, too, before the event or the call that comes next: the command does not take the thread
 * for one that waits in vain, though filling a large region may take it longer than the command waits for a call.
 */
static void count_access(const struct sr_thread *t, const struct sr_exposed_event *now, const struct sr_exposed_event *next)
{
	if (next && now->fault <= next->fault)
		atomic_fetch_add_explicit(&sr_replay_page->thread[t->number].accesses_seen, 1, memory_order_relaxed);
}

/* See struct sr_exposed_hooks.  Called in the fault handler, or around a call. */
bool sr_replay_exposed_event(const struct sr_exposed_event *now, struct sr_exposed_event *e)
{
	struct sr_thread *t = &sr_self;
	const struct sr_exposed_event *next;
	enum sr_heap before = sr_enter(t);
	bool due;

	if (!t->started)
		sr_replay_start_thread(t);
	if (sr_trial_has_begun()) {
		sr_leave(t, before);
		return false;
	}
	next = t->silent || t->ended || t->stream->changing ? NULL : next_event(t);
	due = next && sr_exposed_is_due(next, now);
	count_access(t, now, next);
	if (due && next->addr && now->addr && is_another_load(next, now))
		miss_load(t, next, SR_REC_EXPOSED, now->pc, now->addr);
	if (due) {
		*e = *next;
		t->stream->peeked = false;
		t->stream->vain = 0;
		t->stream->before_tick = 0;
		sr_replay_await_group(t, SR_REC_EXPOSED, (void *)now->pc);
		keep_address(t, e, now);
		fill_left_out(t, e);
		sr_group_seen(t, e);
		sr_watch_values(t, e);
		sr_trial_values(t, now->fault, t->stream->regions.values, e->values_n);
		if (now->pc && !(now->flags & (SR_EXPOSED_TICK | SR_EXPOSED_AT_CALL | SR_EXPOSED_AT_RETURN)))
			sr_stacks_load(t, now->fault, now->pc);
	} else if (now->pc && t->stream && (!next || next->flags & SR_EXPOSED_MANY)) {
		count_load(t, now, next ? next->fault : 0);
	}
	if (!due) {
		sr_trial_values(t, now->fault, NULL, 0);
		sr_replay_handler_may_be_awaited(t);
	}
	sr_leave(t, before);
	return due;
}

void sr_replay_suspend_awaited(struct sr_thread *t)
{
	const struct sr_exposed_event *next = next_event(t);

	if (next && next->addr && next->fault == sr_exposed_faults() + 1)
		sr_exposed_suspend((void *)next->addr);
}

static void change_region(struct sr_thread *t, const struct sr_region_payload *region, uint16_t found)
{
	if (!sr_regions_replay_region(region)) {
		sr_replay_claim_report();
		sr_replay_page->report.expected_address = region->addr;
		sr_replay_diverge(t, SR_REPLAY_NO_EXPOSED, SR_REC_REGION, found);
	}
	if (region->what == SR_REGION_ADDED && !region->refusal)
		sr_group_region(t, region->addr, region->length);
}

void sr_replay_change_regions(struct sr_thread *t, uint16_t found)
{
	struct sr_replay_stream *s = t->stream;
	struct sr_region_payload region;

	if (!s)
		return;
	s->changing = true;
	if (s->changes.len)
		sr_watch_regions_change();
	for (size_t at = 0; at < s->changes.len; at += sizeof(region)) {
		memcpy(&region, s->changes.p + at, sizeof(region));
		change_region(t, &region, found);
	}
	s->changing = false;
	s->changes.len = 0;
}

/* Behind a call: what it has changed there.  Only of a process with threads. */
void sr_replay_change_regions_at_return(struct sr_thread *t, uint16_t found)
{
	struct sr_replay_stream *s = t->stream;
	struct sr_region_payload region;

	while (!t->silent && !s->repeats_left && sr_replay_peek(t) && s->next.kind == SR_REC_REGION && s->next.size >= sizeof(region)) {
		memcpy(&region, s->next.payload, sizeof(region));
		if (!(region.what & SR_REGION_AT_RETURN))
			return;
		sr_put_raw(&s->changes, &region, sizeof(region));
		s->peeked = false;
		sr_replay_change_regions(t, found);
	}
}

void sr_replay_pass_exposed(struct sr_thread *t, uint16_t found, void *site)
{
	struct sr_replay_stream *s = t->stream;
	const struct sr_exposed_event *missed;
	struct sr_token_payload yield;

	while (!s->repeats_left && sr_replay_peek(t) && s->next.kind == SR_REC_REGION &&
	       s->next.size >= sizeof(struct sr_region_payload)) {
		sr_put_raw(&s->changes, s->next.payload, sizeof(struct sr_region_payload));
		s->peeked = false;
	}
	missed = next_event(t);
	if (missed)
		miss_load(t, missed, found, (uintptr_t)site, 0);
	if (sr_replay_peek_yield(t, &yield))
		miss_load(t, &(struct sr_exposed_event){.pc = yield.site}, found, (uintptr_t)site, 0);
}
