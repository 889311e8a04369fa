/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/verdict.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "replay/print/exec.h"
#include "replay/print/say.h"
#include "replay/host/other_output.h"
#include "replay/host/stuck.h"
#include "logd/base/processor.h"

typedef unsigned long long ull;

/* Records that are no calls, as an event of the program. */
static const struct {
	uint16_t kind;
	const char *name;
} events[] = {
    {SR_REC_HEAP, "a heap operation"},
    {SR_REC_EXPOSED, "a load from an exposed region"},
    {SR_REC_REGION, "a registration"},
    {SR_REC_SIGNAL, "a signal's handler"},
    {SR_REC_RUN_TOKEN, "a switch to another thread"},
    {SR_REC_EXEC, "exec"},
    {SR_REC_CHECK, "a sum of checksums"},
    {SR_REC_EXIT, "the end of the process"},
    {SR_REC_EXIT_BEGINS, "exit"},
};

static const char *name_of(const struct sr_verdict *v, uint16_t kind)
{
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (events[i].kind == kind)
			return events[i].name;
	return v->with.schema ? sr_schema_name(v->with.schema, kind) : "a call";
}

/* "rank 0 thread 0 SN 42: " */
static void where(const struct sr_verdict *v, const struct sr_replay_report *r)
{
	fprintf(stderr, "sreplay: rank %d thread %u SN %llu: ", v->rank, r->thread, (ull)r->sn);
}

/* NULL: the report does not have them, or not all of their bytes. */
static json_t *decode_arguments(const struct sr_verdict *v, uint16_t kind, const uint8_t *in,
				uint32_t size)
{
	if (!v->with.schema || size > SR_REPLAY_BYTES)
		return NULL;
	return sr_schema_decode_in(v->with.schema, kind, in, size);
}

static void say_call(const struct sr_verdict *v, const char *what, uint16_t kind, uint64_t site,
		     const json_t *arguments, const uint8_t *in, uint32_t size)
{
	if (kind < SR_REC_CALL) {
		fprintf(stderr, "sreplay:   %s %s", what, name_of(v, kind));
		if (kind == SR_REC_EXEC)
			sr_print_exec(stderr, in, size);
		fputc('\n', stderr);
		return;
	}
	fprintf(stderr, "sreplay:   %s %s(", what, name_of(v, kind));
	if (arguments)
		sr_schema_print(stderr, arguments);
	else
		fprintf(stderr, "%u bytes", size);
	fputs(") ", stderr);
	sr_print_site(stderr, &v->with, site);
	fputc('\n', stderr);
}

/* Long arguments are cut when printed, so their names help. */
static void say_which_differ(json_t *recorded, json_t *now)
{
	const char *name, *separator = " ";
	json_t *value;

	fputs("sreplay:   different:", stderr);
	json_object_foreach(recorded, name, value)
	{
		if (json_equal(value, json_object_get(now, name)))
			continue;
		fprintf(stderr, "%s%s", separator, name);
		separator = ", ";
	}
	fputc('\n', stderr);
}

static void say_last_calls(const struct sr_verdict *v, const struct sr_replay_report *r)
{
	fprintf(stderr, "sreplay: the last calls of thread %u:\n", r->thread);
	sr_say_calls_before(v->trace, v->rank, r->thread, r->sn, &v->with);
}

static void say_bytes(const char *what, const uint8_t *bytes, uint32_t n)
{
	fprintf(stderr, "sreplay:   %s", what);
	for (uint32_t i = 0; i < n; i++)
		fprintf(stderr, " %02x", bytes[i]);
	fputc('\n', stderr);
}

/* A peer sent other bytes than the trace says were received. */
static void say_mismatch(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_mismatch *m = &c->mismatch;
	ull count = atomic_load(&c->mismatches);
	uint32_t shown = m->length - m->at;

	if (!count)
		return;
	if (shown > sizeof(m->recorded))
		shown = sizeof(m->recorded);
	fprintf(stderr,
		"sreplay: rank %d thread %u SN %llu: the %u bytes received at 0x%llx are not "
		"those that rank %d sends (thread %u SN %llu); from byte %u on:\n",
		v->rank, m->thread, (ull)m->sn, m->length, (ull)m->addr, m->from, m->from_thread,
		(ull)m->from_sn, m->at);
	say_bytes("recorded:", m->recorded, shown);
	say_bytes("sent:    ", m->produced, shown);
	if (count > 1)
		sr_note("rank %d: %llu more values are not what their senders send", v->rank,
			count - 1);
}

static bool has_recorded_arguments(const struct sr_replay_report *r)
{
	return r->expected_size == r->found_size && r->found_size <= SR_REPLAY_BYTES &&
	       !memcmp(r->expected_in, r->found_in, r->found_size);
}

static void say_divergence(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;
	json_t *recorded = decode_arguments(v, r->expected, r->expected_in, r->expected_size);
	json_t *now = decode_arguments(v, r->found, r->found_in, r->found_size);

	say_mismatch(v, c); /* which may be why */
	where(v, r);
	if (r->expected != r->found)
		fprintf(stderr, "the program called %s where the recording has %s\n",
			name_of(v, r->found), name_of(v, r->expected));
	else if (r->output.differs && has_recorded_arguments(r))
		fprintf(stderr, "%s writes other bytes than recorded\n", name_of(v, r->found));
	else
		fprintf(stderr, "%s with other arguments than recorded\n", name_of(v, r->found));
	say_call(v, "recorded:", r->expected, r->expected_site, recorded, r->expected_in,
		 r->expected_size);
	say_call(v, "now:     ", r->found, r->found_site, now, r->found_in, r->found_size);
	if (r->expected == r->found && recorded && now && !has_recorded_arguments(r))
		say_which_differ(recorded, now);
	if (r->output.differs)
		sr_say_other_output(&r->output);
	json_decref(recorded);
	json_decref(now);
	say_last_calls(v, r);
}

static void say_missed_places(const struct sr_replay_control *c)
{
	ull missed = atomic_load(&c->missed);

	if (missed)
		sr_note("%llu time%s a thread did not come to the place between two calls where it was "
			"stopped in the recording, and others, or the handler of a signal, ran at another time; the last one was before "
			"thread %u SN %llu, at 0x%llx",
			missed, missed == 1 ? "" : "s", atomic_load(&c->missed_thread),
			(ull)atomic_load(&c->missed_sn), (ull)atomic_load(&c->missed_site));
}

/* The usual reason for a divergence of one of several threads. */
static void say_threads(const struct sr_replay_control *c)
{
	ull lost = atomic_load(&c->late);

	if (atomic_load(&c->missed))
		say_missed_places(c);
	if (c->threads < 2)
		return;
	if (!c->serial)
		sr_note(
		    "the program has threads: if they synchronise by plain atomics, and not only "
		    "by calls, their order there was not recorded (record --threads=serial does)");
	else if (!atomic_load(&c->missed) && lost)
		sr_note("the program's threads were recorded one at a time, except %llu time%s "
			"until here, when a thread computed, or made no call for long, and others ran beside it: "
			"what they decided then by plain atomics was not recorded; the last time "
			"was before thread %u SN %llu",
			lost, lost == 1 ? "" : "s", atomic_load(&c->late_thread),
			(ull)atomic_load(&c->late_sn));
}

/* If cpuid could not be made to trap, the program saw the processor of this machine. */
static void say_processor(const struct sr_replay_control *c)
{
	struct sr_processor here;

	if (!c->processor.entries || atomic_load(&c->cpuid_emulated))
		return;
	sr_processor_read(&here);
	if (!sr_processors_are_alike(&c->processor, &here))
		sr_note("it was recorded on a processor with other features: a program that asks cpuid "
			"may behave differently here");
}

static void say_lacks(const struct sr_replay_control *c)
{
	struct sr_processor here;
	char names[256];

	sr_processor_read(&here);
	if (sr_processor_lacks(&c->processor, &here, SR_CPUID_ANY, names, sizeof(names)))
		sr_note("it was recorded on a processor with features that this one lacks (%s): "
			"replay it on one that has them",
			names);
}

static void say_early_exit(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;

	where(v, r);
	fprintf(stderr, "the program ended with status %d", r->found_status);
	if (r->expected) {
		fprintf(stderr, " where the recording has %s ", name_of(v, r->expected));
		sr_print_site(stderr, &v->with, r->expected_site);
		fputc('\n', stderr);
	} else {
		fprintf(stderr, ", recorded was %d\n", r->expected_status);
	}
	say_last_calls(v, r);
}

static void say_late_call(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;

	where(v, r);
	fprintf(stderr, "the program called %s where the recording ends with status %d\n",
		name_of(v, r->found), r->expected_status);
	fputs("sreplay:   now:      ", stderr);
	sr_print_site(stderr, &v->with, r->found_site);
	fputc('\n', stderr);
	say_last_calls(v, r);
}

static void say_place(const struct sr_verdict *v, const char *what, uint64_t site, uint64_t address,
		      uint16_t kind)
{
	fprintf(stderr, "sreplay:   %s ", what);
	if (address)
		fprintf(stderr, "load of 0x%llx ", (ull)address);
	else
		fprintf(stderr, "%s ", kind ? name_of(v, kind) : "the end");
	if (site)
		sr_print_site(stderr, &v->with, site);
	fputc('\n', stderr);
}

/* The recording has only the loads that found something new. */
static void say_missed_load(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;

	where(v, r);
	fputs("after it, the program does not load from an exposed region where the recording does\n",
	      stderr);
	say_place(v, "recorded:", r->expected_site, r->expected_address, SR_REC_EXPOSED);
	say_place(v, "now:     ", r->found_site, r->found_address, r->found);
	say_last_calls(v, r);
}

static void say_waits(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;

	where(v, r);
	fputs("after it, the program waits for an exposed region to change, where the recording "
	      "goes on\n",
	      stderr);
	say_place(v, "recorded:", r->expected_site, 0, r->expected);
	say_place(v, "now:     ", r->found_site, r->found_address, SR_REC_EXPOSED);
	say_last_calls(v, r);
}

static void say_no_exposed(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;

	where(v, r);
	fprintf(stderr,
		"the exposed region at 0x%llx cannot be watched here as it was in the recording\n",
		(ull)r->expected_address);
}

/* Neither the trace nor the program is to blame. */
static void say_not_transferred(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	where(v, &c->report);
	fprintf(stderr, "the device did not do again what the call does: %s\n",
		c->not_transferred);
	say_place(v, "recorded:", c->report.expected_site, 0, c->report.expected);
	say_last_calls(v, &c->report);
	sr_note("--transport shm needs no device");
}

static void say_cut(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;

	where(v, r);
	if (r->found)
		fprintf(stderr, "the trace ends here, before the program does (next would be %s)\n", name_of(v, r->found));
	else
		fprintf(stderr, "the trace ends here, before the program does, which makes no recorded call any more\n");
	if (v->warning)
		sr_note("%s", v->warning);
}

static void say_unexplained(const struct sr_verdict *v)
{
	const struct sr_found_bytes *b = &v->found;
	uint32_t shown = b->first.length < sizeof(b->first_bytes) ? b->first.length
								  : sizeof(b->first_bytes);

	if (!b->nobody)
		return;
	fprintf(stderr,
		"sreplay: rank %d thread %u SN %llu: no rank has written the %u bytes at 0x%llx, "
		"and nobody else can have:\n",
		v->rank, b->first.thread, (ull)b->first.sn, b->first.length, (ull)b->first.addr);
	say_bytes("recorded:", b->first_bytes, shown);
	if (b->nobody > b->first.length)
		sr_note("rank %d: nobody can have written %llu more bytes either", v->rank,
			(ull)(b->nobody - b->first.length));
}

/* " child 1/2", or "". */
static const char *child_label(const struct sr_verdict *v)
{
	static char label[80];
	const char *child = sr_trace_child(v->trace, v->rank);

	snprintf(label, sizeof(label), "%s%s", child ? " child " : "", child ? child : "");
	return label;
}

static int end_line(struct sr_verdict *v, const struct sr_replay_control *c, const char *how,
		    int status)
{
	uint32_t children = atomic_load(&c->children);
	char images[32] = "";

	snprintf(v->text, sizeof(v->text), "%s", how);
	if (children)
		sr_note("rank %d%s: %u child%s of the program %s not started again: what %s printed "
			"is missing",
			v->rank, child_label(v), children, children > 1 ? "ren" : "",
			children > 1 ? "were" : "was", children > 1 ? "they" : "it");
	if (v->image)
		snprintf(images, sizeof(images), " in %u images", v->image + 1);
	sr_note("rank %d%s: %llu calls replayed%s, %d divergences: %s", v->rank, child_label(v),
		(ull)(v->calls_before + sr_replay_calls(c)), images,
		status == SR_REPLAY_EXIT_DIVERGED && v->how == SR_VERDICT_FAILED &&
		    !atomic_load(&c->mismatches),
		how);
	return status;
}

/* "exact" or similar, and what of its output nothing is known of. */
static void say_uncompared(const struct sr_verdict *v, char *how, size_t size, const char *begin,
			   const struct sr_replay_control *c)
{
	static const char *const whats[] = {
	    "what it stores into mapped files",
	    "what it writes to descriptors with the highest numbers",
	    "what the kernel moves from pipes and sockets",
	};
	const char *sep = ", but not compared is ";
	int n = snprintf(how, size, "%s", begin);

	for (unsigned int i = 0; i < sizeof(whats) / sizeof(whats[0]); i++) {
		if (!(c->uncompared >> i & 1))
			continue;
		n += snprintf(how + n, size - (size_t)n, "%s%s", sep, whats[i]);
		sep = ", and ";
	}
	if (v->writing) {
		n += snprintf(how + n, size - (size_t)n, "%swhat it was writing when it ended", sep);
		sep = ", and ";
	}
	if (!c->trap) {
		n += snprintf(how + n, size - (size_t)n, "%swhat libc itself writes", sep);
		sep = ", and ";
	}
	if (c->serial && atomic_load(&c->late)) {
		n += snprintf(how + n, size - (size_t)n, "%swhat threads decided while they ran beside each other", sep);
		sep = ", and ";
	}
	if (atomic_load(&c->handlers_between))
		snprintf(how + n, size - (size_t)n, "%swhere signals came in computing code", sep);
}

/*
 * What is compared was as recorded.  But what the threads decided meanwhile, and what no call has
 * shown, is not known.
 */
static void say_ran_at_once(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	ull lost = atomic_load(&c->late);

	if (c->serial && lost)
		sr_note("rank %d: %llu time%s a thread computed, or made no call for long, and others ran beside it: what "
			"they decided then by plain atomics was not recorded, and is compared as far as "
			"calls show it; the last time was before thread %u SN %llu",
			v->rank, lost, lost == 1 ? "" : "s", atomic_load(&c->late_thread),
			(ull)atomic_load(&c->late_sn));
}

/* The rank did what was recorded; did the others send it what was recorded? */
static int exact(struct sr_verdict *v, const struct sr_replay_control *c, int status)
{
	char how[512];

	if (v->found.inside || v->found.outside)
		sr_note("rank %d: %llu bytes entered from the group, %llu from outside", v->rank,
			(ull)v->found.inside, (ull)v->found.outside);
	if (v->found.shared)
		sr_note("rank %d: %llu bytes entered through memory shared with other processes: no rank of "
			"the group is known to have stored these",
			v->rank, (ull)v->found.shared);
	if (atomic_load(&c->mismatches) || v->found.nobody) {
		say_mismatch(v, c);
		say_unexplained(v);
		return end_line(v, c, "exact, but for values that the group did not produce",
				SR_REPLAY_EXIT_DIVERGED);
	}
	if (atomic_load(&c->missed)) {
		say_missed_places(c);
		return end_line(v, c, "all calls as recorded, but threads took turns, or handlers ran, elsewhere between them",
				SR_REPLAY_EXIT_DIVERGED);
	}
	v->how = SR_VERDICT_EXACT;
	say_ran_at_once(v, c);
	say_uncompared(v, how, sizeof(how), "exact", c);
	return end_line(v, c, how, status);
}

/* What it executed is the rank's next image, or was not recorded. */
static int say_executed(struct sr_verdict *v, const struct sr_replay_control *c)
{
	v->how = SR_VERDICT_EXACT;
	if (v->image + 1 < v->images) {
		sr_note("rank %d: image %u replayed, %llu calls, exact; it executes the next one",
			v->rank, v->image, (ull)sr_replay_calls(c));
		return 0;
	}
	return end_line(v, c, "exact, up to where it executes a program that is not recorded",
			SR_REPLAY_EXIT_CUT);
}

static int say_signal(struct sr_verdict *v, const struct sr_replay_control *c)
{
	int signo = WTERMSIG(v->wait_status);
	char how[256];
	bool as_recorded = v->killed && sr_replay_calls(c) == v->recorded_calls;

	sr_note("rank %d: the program was ended by signal %d (%s)%s", v->rank, signo,
		strsignal(signo), as_recorded ? ", where the recording ends too" : "");
	if (as_recorded) {
		v->how = SR_VERDICT_EXACT;
		say_uncompared(v, how, sizeof(how), "exact", c);
		return end_line(v, c, how, 128 + signo);
	}
	if (signo == SIGILL)
		say_lacks(c);
	return end_line(v, c, "the program died", SR_REPLAY_EXIT_DIVERGED);
}

static int say_unfinished(struct sr_verdict *v, const struct sr_replay_control *c)
{
	if (v->stuck)
		return end_line(v, c, "stuck", SR_REPLAY_EXIT_DIVERGED);
	if (v->with_tool && !atomic_load(&c->process)) {
		sr_fail("rank %d: the tool did not start the program", v->rank);
		return SR_REPLAY_EXIT_FAILED;
	}
	if (v->debugged) {
		v->how = SR_VERDICT_CUT;
		return end_line(v, c, "ended by the debugger", SR_REPLAY_EXIT_CUT);
	}
	if (WIFSIGNALED(v->wait_status))
		return say_signal(v, c);
	if (WEXITSTATUS(v->wait_status) == SR_REPLAY_EXIT_FAILED)
		return SR_REPLAY_EXIT_FAILED; /* the child has printed why */
	return end_line(v, c, "the program ended without a report to sreplay",
			SR_REPLAY_EXIT_DIVERGED);
}

static void say_unsupported(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	where(v, &c->report);
	fprintf(stderr, "%s cannot be replayed yet\n", name_of(v, c->report.found));
}

static void say_bad_record(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	where(v, &c->report);
	fprintf(stderr, "the record of %s is damaged, or of another version of sreplay\n",
		name_of(v, c->report.expected));
}

/* A load that found a value; else the call did. */
static void say_value(const struct sr_verdict *v, const struct sr_replay_report *r)
{
	if (r->found != SR_REC_EXPOSED)
		return;
	fprintf(stderr, "sreplay:   %u bytes at 0x%llx, found by a load ", r->expected_size,
		(ull)r->expected_address);
	sr_print_site(stderr, &v->with, r->expected_site);
	fputc('\n', stderr);
}

static void say_not_produced(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	where(v, &c->report);
	fprintf(stderr,
		"what %s brought is not in the trace, which was recorded with --order: replay all ranks "
		"together, not one alone and not with --transport none; or first make a detailed trace: sreplay "
		"replay --record-ranks %d -o DETAIL.srec\n",
		name_of(v, c->report.found), v->rank);
	say_value(v, &c->report);
}

/* The writes of members did not come to what a load found: shim/replay/group/landed.c. */
static void say_others_landed(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	where(v, &c->report);
	fputs("what a load found after it is left out of the trace (record --order), and cannot be put together from ",
	      stderr);
	if (c->report.sender >= 0)
		fprintf(stderr, "what rank %d, which alone writes there, sends in this replay: that rank goes another way, or "
				"changed it after its post; record without --order\n",
			c->report.sender);
	else
		fputs("what the ranks write in this replay: several of them write there, and nothing orders their writes, or "
		      "a rank changed what it sends after its post; record without --order\n",
		      stderr);
	say_value(v, &c->report);
}

static void say_other_produced(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	if (c->report.found == SR_REC_EXPOSED) {
		say_others_landed(v, c);
		return;
	}
	where(v, &c->report);
	fprintf(stderr,
		"what %s brought is not what its sender, rank %d, sends in this replay: that rank goes another way, or "
		"changed it after its post, or several receives share memory; record without --order\n",
		name_of(v, c->report.found), c->report.sender);
}

static void say_sum(const struct sr_verdict *v, const struct sr_replay_control *c, const char *what)
{
	where(v, &c->report);
	fprintf(stderr, "between SN %llu and this call %s: the trace has a sum of their checksums (record --order), "
			"and this replay comes to another one\n",
		(ull)c->report.since, what);
}

static void say_other_sent(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	say_sum(v, c, "the program sends other bytes than recorded");
}

static void say_other_received(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	say_sum(v, c, "it received other bytes from other ranks than recorded");
}

static void say_causes_end(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	where(v, &c->report);
	fprintf(stderr,
		"%s needs what rank %d did, and that rank's trace ends before it\n",
		name_of(v, c->report.found), c->report.sender);
}

static void say_peer_exited(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	where(v, &c->report);
	fprintf(stderr,
		"%s waits for a call of another rank, which ended before making it: the trace's "
		"orders are damaged\n",
		name_of(v, c->report.found));
}

/* What each outcome prints and comes to; those without an `end` are in sr_verdict_say. */
static const struct outcome {
	void (*say)(const struct sr_verdict *v, const struct sr_replay_control *c);
	const char *end; /* of the rank's last line */
	int status;
	enum sr_verdict_kind how;
	bool threads, processor; /* may be the reason */
} outcomes[] = {
    [SR_REPLAY_DIED] = {NULL, "exact, up to where the recorded program was killed",
			SR_REPLAY_EXIT_CUT, .how = SR_VERDICT_EXACT},
    [SR_REPLAY_CUT] = {say_cut, "exact, up to the end of the trace", SR_REPLAY_EXIT_CUT,
		       .how = SR_VERDICT_CUT},
    [SR_REPLAY_THREAD_CUT] = {say_cut, "exact, up to the end of the trace", SR_REPLAY_EXIT_CUT,
			      .how = SR_VERDICT_CUT},
    [SR_REPLAY_DIVERGED] = {say_divergence, "stopped at the first", SR_REPLAY_EXIT_DIVERGED,
			    .threads = true, .processor = true},
    [SR_REPLAY_EARLY_EXIT] = {say_early_exit, "the end is not the recorded one",
			      SR_REPLAY_EXIT_DIVERGED},
    [SR_REPLAY_LATE_CALL] = {say_late_call, "the end is not the recorded one",
			     SR_REPLAY_EXIT_DIVERGED},
    [SR_REPLAY_UNSUPPORTED] = {say_unsupported, "stopped there", SR_REPLAY_EXIT_CUT},
    [SR_REPLAY_BAD_RECORD] = {say_bad_record, "stopped there", SR_REPLAY_EXIT_FAILED},
    [SR_REPLAY_PEER_EXITED] = {say_peer_exited, "stopped there", SR_REPLAY_EXIT_DIVERGED},
    [SR_REPLAY_MISSED_LOAD] = {say_missed_load, "stopped there", SR_REPLAY_EXIT_DIVERGED,
			       .threads = true},
    [SR_REPLAY_WAITS] = {say_waits, "stopped there", SR_REPLAY_EXIT_DIVERGED, .threads = true},
    [SR_REPLAY_NO_EXPOSED] = {say_no_exposed, "stopped there", SR_REPLAY_EXIT_FAILED},
    [SR_REPLAY_NOT_TRANSFERRED] = {say_not_transferred, "stopped there", SR_REPLAY_EXIT_FAILED},
    [SR_REPLAY_NOT_PRODUCED] = {say_not_produced, "stopped there", SR_REPLAY_EXIT_FAILED},
    [SR_REPLAY_CAUSES_END] = {say_causes_end, "exact, up to what another rank's trace lacks",
			      SR_REPLAY_EXIT_CUT, .how = SR_VERDICT_CUT},
    [SR_REPLAY_OTHER_SENT] = {say_other_sent, "stopped there", SR_REPLAY_EXIT_DIVERGED, .threads = true,
			      .processor = true},
    [SR_REPLAY_OTHER_RECEIVED] = {say_other_received, "stopped there", SR_REPLAY_EXIT_DIVERGED},
    [SR_REPLAY_OTHER_PRODUCED] = {say_other_produced, "stopped there", SR_REPLAY_EXIT_DIVERGED},
};

int sr_verdict_say(struct sr_verdict *v, const struct sr_replay_control *c)
{
	uint32_t number = atomic_load_explicit(&c->outcome, memory_order_acquire);
	const struct outcome *o = &outcomes[number];
	char how[256];

	if (number == SR_REPLAY_EXACT)
		return exact(v, c, c->report.expected_status & 0xff);
	if (number == SR_REPLAY_EXECUTED)
		return say_executed(v, c);
	if (number >= sizeof(outcomes) / sizeof(outcomes[0]) || !o->end)
		return say_unfinished(v, c);
	v->how = o->how;
	if (o->say)
		o->say(v, c);
	if (o->threads)
		say_threads(c);
	if (o->processor)
		say_processor(c);
	if (number == SR_REPLAY_DIED) {
		say_uncompared(v, how, sizeof(how), o->end, c);
		return end_line(v, c, how, o->status);
	}
	return end_line(v, c, o->end, o->status);
}
