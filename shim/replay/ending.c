/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ending.c: ends a replay: with a report of the first difference in the control page, or where
 * the recording ends.  See own.h.
 */
#include <stdio.h>
#include <string.h>

#include "logd/base/rawsys.h"
#include "shim/replay/group/group.h"
#include "shim/replay/own.h"
#include "shim/replay/tickets.h"

/* A developer wants to see what the program printed before.  The kernel finds exposed memory protected: looking at it opens it. */
static void show_printed(void)
{
	sr_exposed_end();
	for (const volatile char *p = stdout->_IO_write_base; p < stdout->_IO_write_ptr; p++)
		(void)*p;
	fflush(stdout);
}

void __attribute__((noreturn)) sr_replay_end(enum sr_replay_outcome outcome, int status)
{
	uint32_t running = SR_REPLAY_RUNNING;

	/* The first outcome stays.  Release: a process that sees the outcome sees the report. */
	atomic_compare_exchange_strong_explicit(&sr_replay_page->outcome, &running, outcome,
						memory_order_release, memory_order_relaxed);
	/* An exec drops what was printed. */
	if (outcome != SR_REPLAY_DIED && outcome != SR_REPLAY_EXECUTED)
		show_printed();
	for (;;)
		sr_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

void __attribute__((noreturn)) sr_replay_sleep(void)
{
	const struct timespec long_time = {.tv_sec = 3600};

	for (;;)
		sr_sys_nanosleep(&long_time);
}

/* Only the first thread reports.  Any other thread sleeps here until the process ends. */
void sr_replay_claim_report(void)
{
	uint32_t me = (uint32_t)sr_sys_gettid(), holder = 0;

	if (!atomic_compare_exchange_strong(&sr_replay_page->reporting, &holder, me) &&
	    holder != me)
		sr_replay_sleep();
}

void __attribute__((noreturn))
sr_replay_diverge(struct sr_thread *t, enum sr_replay_outcome outcome, uint16_t expected,
		  uint16_t found)
{
	sr_replay_claim_report();
	sr_replay_page->report.thread = t->number;
	sr_replay_page->report.sn = t->sn;
	sr_replay_page->report.expected = expected;
	sr_replay_page->report.found = found;
	sr_replay_end(outcome, SR_REPLAY_EXIT_DIVERGED);
}

void __attribute__((noreturn))
sr_replay_diverge_from_group(struct sr_thread *t, enum sr_replay_outcome outcome, uint16_t found)
{
	int32_t rank = sr_group_early_end();

	if (rank < 0)
		sr_replay_diverge(t, outcome, found, found);
	sr_replay_claim_report();
	sr_replay_page->report.sender = rank;
	sr_replay_diverge(t, SR_REPLAY_CAUSES_END, found, found);
}

static void show(uint8_t *shown, uint32_t *size, const uint8_t *in, size_t in_size)
{
	*size = (uint32_t)in_size;
	memcpy(shown, in, in_size < SR_REPLAY_BYTES ? in_size : SR_REPLAY_BYTES);
}

/* A device failed to repeat this call, which may be an earlier one. */
void sr_replay_check_transfers(const struct sr_group_call *call)
{
	if (!call)
		return;
	sr_replay_claim_report();
	sr_report_call(&sr_replay_page->report, call);
	sr_replay_end(SR_REPLAY_NOT_TRANSFERRED, SR_REPLAY_EXIT_DIVERGED);
}

int32_t sr_replay_exit_status(const struct sr_replay_record *r)
{
	int32_t status = 0;

	if (sr_replay_is_end(r->kind) && r->size >= sizeof(status))
		memcpy(&status, r->payload, sizeof(status));
	return status;
}

/*
 * The recording has nothing more for this thread.  Other threads may continue until one of them
 * ends the process.  If the recorded process was killed, they may also be in code that never
 * makes a call, so the wait ends when no more calls can come, and none came for a while.
 */
static void wait_for_others(const struct sr_thread *t, uint32_t outcome)
{
	const struct timespec second = {.tv_sec = 1};
	uint64_t before;

	/* One that has no record at all had not come to a call when another one ended the process, or executed a program. */
	if (sr_tickets_park(outcome == SR_REPLAY_CUT && !t->silent))
		return;
	do {
		before = sr_replay_calls(sr_replay_page);
		sr_sys_nanosleep(&second);
		if (outcome == SR_REPLAY_CUT && sr_tickets_nothing_comes())
			return;
	} while (outcome == SR_REPLAY_THREAD_CUT || !atomic_load(&sr_replay_page->nothing_comes) ||
		 sr_replay_calls(sr_replay_page) != before);
}

static atomic_bool executed; /* a thread has come to an exec that was made */

void __attribute__((noreturn))
sr_replay_stop(struct sr_thread *t, uint32_t outcome, uint16_t found, void *site)
{
	if (t->stream)
		sr_replay_end_ticket(t);
	if (outcome == SR_REPLAY_EXECUTED)
		atomic_store(&executed, true);
	wait_for_others(t, outcome);
	/* The other threads ended with that, wherever they were. */
	if (atomic_load(&executed))
		outcome = SR_REPLAY_EXECUTED;
	sr_replay_check_transfers(sr_group_not_transferred_at_all());
	sr_replay_claim_report();
	if (outcome == SR_REPLAY_DIED)
		sr_replay_die_by_sent();
	sr_replay_page->report.found_site = (uintptr_t)site;
	sr_replay_page->report.thread = t->number;
	sr_replay_page->report.sn = t->sn;
	sr_replay_page->report.found = found;
	sr_replay_end((enum sr_replay_outcome)outcome, SR_REPLAY_EXIT_CUT);
}

uint32_t sr_replay_outcome_of(const struct sr_replay_record *end)
{
	uint32_t outcome = SR_REPLAY_CUT;

	if (end->size == sizeof(outcome))
		memcpy(&outcome, end->payload, sizeof(outcome));
	return outcome;
}

/* A stream ends where the program was killed or the trace was cut, or with the exit status. */
void __attribute__((noreturn))
sr_replay_end_of_stream(struct sr_thread *t, const struct sr_replay_record *r, uint16_t found,
			void *site)
{
	const bool ends = r && r->kind == SR_REC_REPLAY_END;

	if (r && sr_replay_is_end(r->kind)) {
		sr_replay_claim_report();
		sr_replay_page->report.found_site = (uintptr_t)site;
		sr_replay_page->report.expected_status = sr_replay_exit_status(r);
		sr_replay_diverge(t, SR_REPLAY_LATE_CALL, 0, found);
	}
	sr_replay_stop(t, ends ? sr_replay_outcome_of(r) : SR_REPLAY_CUT, found, site);
}

/* The report has the found call's arguments, which are in t->buf. */
void __attribute__((noreturn))
sr_replay_find_instead(struct sr_thread *t, uint16_t expected, uint16_t found, void *site)
{
	sr_replay_claim_report();
	sr_replay_page->report.found_site = (uintptr_t)site;
	show(sr_replay_page->report.found_in, &sr_replay_page->report.found_size, t->buf.p,
	     t->buf.len);
	sr_replay_diverge(t, SR_REPLAY_DIVERGED, expected, found);
}

/* Puts the recorded and the found call into the report. */
void __attribute__((noreturn))
sr_replay_differ(struct sr_thread *t, const struct sr_replay_record *r,
		 const struct sr_call_head *head, const struct sr_replay_output *output,
		 uint16_t found, void *site)
{
	uint32_t size = head->in_size;

	sr_replay_claim_report();
	if (output)
		sr_replay_page->report.output = *output;
	if (size > r->size - sizeof(*head))
		size = (uint32_t)(r->size - sizeof(*head));
	sr_replay_page->report.expected_site = head->site;
	show(sr_replay_page->report.expected_in, &sr_replay_page->report.expected_size,
	     r->payload + sizeof(*head), size);
	sr_replay_find_instead(t, r->kind, found, site);
}
