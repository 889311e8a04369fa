/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/verdict/verdict.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "logd/base/processor.h"
#include "replay/host/verdict/messages.h"
#include "replay/print/say.h"

typedef unsigned long long ull;

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

/* If cpuid could not be made to trap, libc saw the processor of this machine. */
static void say_processor(const struct sr_replay_control *c)
{
	struct sr_processor here;

	if (!c->processor.entries || atomic_load(&c->cpuid_emulated))
		return;
	sr_processor_read(&here);
	if (!sr_processors_are_alike(&c->processor, &here))
		sr_note("it was recorded on a processor with other features: what libc and early constructors "
			"choose by cpuid may differ here");
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

/* That did not run in the replay. */
static uint32_t children_of(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const uint32_t all = v->children_before + atomic_load(&c->children);

	return all > v->children_in_group ? all - v->children_in_group : 0;
}

static int end_line(struct sr_verdict *v, const struct sr_replay_control *c, const char *how,
		    int status)
{
	uint32_t children = children_of(v, c);
	char images[32] = "";

	snprintf(v->text, sizeof(v->text), "%s", how);
	if (children)
		sr_note("rank %s: %u child%s of the program %s not started again: what %s printed "
			"is missing",
			sr_verdict_rank(v), children, children > 1 ? "ren" : "",
			children > 1 ? "were" : "was", children > 1 ? "they" : "it");
	if (v->image)
		snprintf(images, sizeof(images), " in %u images", v->image + 1);
	sr_note("rank %s: %llu calls replayed%s, %d divergences: %s", sr_verdict_rank(v),
		(ull)(v->calls_before + sr_replay_calls(c)), images,
		status == SR_REPLAY_EXIT_DIVERGED && v->how == SR_VERDICT_FAILED &&
		    !atomic_load(&c->mismatches),
		how);
	return status;
}

/* A reason why something is not compared; the first one begins the list. */
static void append(char *how, size_t size, bool *listed, const char *what)
{
	const size_t n = strlen(how);

	snprintf(how + n, size - n, "%s%s", *listed ? ", and " : ", but not compared is ", what);
	*listed = true;
}

/* "exact" or similar, and what of its output nothing is known of. */
static void say_uncompared(const struct sr_verdict *v, char *how, size_t size, const char *begin,
			   const struct sr_replay_control *c)
{
	static const char *const whats[] = {
	    "what it stores into mapped files",
	    "what it writes to descriptors with the highest numbers",
	    "what the kernel moves from pipes and sockets",
	    "what threads do that the program or libc made by clone",
	    "what system calls do that sreplay knows nothing of",
	    "what it stores into memory that processes share",
	    "what it had stored into mapped files when it was killed",
	};
	const uint32_t uncompared = atomic_load(&c->uncompared);
	bool listed = false;

	snprintf(how, size, "%s", begin);
	for (unsigned int i = 0; i < sizeof(whats) / sizeof(whats[0]); i++)
		if (uncompared >> i & 1)
			append(how, size, &listed, whats[i]);
	if (children_of(v, c))
		append(how, size, &listed, children_of(v, c) == 1 ? "what its child did" : "what its children did");
	if (v->writing)
		append(how, size, &listed, "what it was writing when it ended");
	if (!c->trap)
		append(how, size, &listed, "what libc itself writes");
	if (c->serial && atomic_load(&c->late))
		append(how, size, &listed, "what threads decided while they ran beside each other");
	if (atomic_load(&c->handlers_between))
		append(how, size, &listed, "where signals came in computing code");
}

/*
 * What is compared was as recorded.  But what the threads decided meanwhile, and what no call has
 * shown, is not known.
 */
static void say_ran_at_once(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	ull lost = atomic_load(&c->late);

	if (c->serial && lost)
		sr_note("rank %s: %llu time%s a thread computed, or made no call for long, and others ran beside it: what "
			"they decided then by plain atomics was not recorded, and is compared as far as "
			"calls show it; the last time was before thread %u SN %llu",
			sr_verdict_rank(v), lost, lost == 1 ? "" : "s", atomic_load(&c->late_thread),
			(ull)atomic_load(&c->late_sn));
}

/* The rank did what was recorded; did the others send it what was recorded? */
static int exact(struct sr_verdict *v, const struct sr_replay_control *c, int status)
{
	char how[SR_VERDICT_TEXT];

	if (v->found.inside || v->found.outside)
		sr_note("rank %s: %llu bytes entered from the group, %llu from outside", sr_verdict_rank(v),
			(ull)v->found.inside, (ull)v->found.outside);
	if (v->found.shared)
		sr_note("rank %s: %llu bytes entered through memory shared with other processes: no rank of "
			"the group is known to have stored these",
			sr_verdict_rank(v), (ull)v->found.shared);
	if (atomic_load(&c->mismatches) || v->found.nobody) {
		sr_verdict_mismatch(v, c);
		sr_verdict_say_unexplained(v);
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
	char how[SR_VERDICT_TEXT];

	v->how = SR_VERDICT_EXACT;
	if (v->image + 1 < v->images) {
		sr_note("rank %s: image %u replayed, %llu calls, exact; it executes the next one",
			sr_verdict_rank(v), v->image, (ull)sr_replay_calls(c));
		return 0;
	}
	say_uncompared(v, how, sizeof(how), "exact, up to where it executes a program that is not recorded", c);
	return end_line(v, c, how, SR_REPLAY_EXIT_CUT);
}

static int say_signal(struct sr_verdict *v, const struct sr_replay_control *c)
{
	int signo = WTERMSIG(v->wait_status);
	char how[SR_VERDICT_TEXT];
	bool as_recorded = v->killed && sr_replay_calls(c) == v->recorded_calls;

	sr_note("rank %s: the program was ended by signal %d (%s)%s", sr_verdict_rank(v), signo,
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
		sr_fail("rank %s: the tool did not start the program", sr_verdict_rank(v));
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
    [SR_REPLAY_CUT] = {sr_verdict_say_cut, "exact, up to the end of the trace", SR_REPLAY_EXIT_CUT,
		       .how = SR_VERDICT_CUT},
    [SR_REPLAY_THREAD_CUT] = {sr_verdict_say_cut, "exact, up to the end of the trace", SR_REPLAY_EXIT_CUT,
			      .how = SR_VERDICT_CUT},
    [SR_REPLAY_DIVERGED] = {sr_verdict_say_divergence, "stopped at the first", SR_REPLAY_EXIT_DIVERGED,
			    .threads = true, .processor = true},
    [SR_REPLAY_EARLY_EXIT] = {sr_verdict_say_early_exit, "the end is not the recorded one",
			      SR_REPLAY_EXIT_DIVERGED},
    [SR_REPLAY_LATE_CALL] = {sr_verdict_say_late_call, "the end is not the recorded one",
			     SR_REPLAY_EXIT_DIVERGED},
    [SR_REPLAY_UNSUPPORTED] = {sr_verdict_say_unsupported, "stopped there", SR_REPLAY_EXIT_CUT},
    [SR_REPLAY_BAD_RECORD] = {sr_verdict_say_bad_record, "stopped there", SR_REPLAY_EXIT_FAILED},
    [SR_REPLAY_PEER_EXITED] = {sr_verdict_say_peer_exited, "stopped there", SR_REPLAY_EXIT_DIVERGED},
    [SR_REPLAY_MISSED_LOAD] = {sr_verdict_say_missed_load, "stopped there", SR_REPLAY_EXIT_DIVERGED,
			       .threads = true},
    [SR_REPLAY_WAITS] = {sr_verdict_say_waits, "stopped there", SR_REPLAY_EXIT_DIVERGED, .threads = true},
    [SR_REPLAY_NO_EXPOSED] = {sr_verdict_say_no_exposed, "stopped there", SR_REPLAY_EXIT_FAILED},
    [SR_REPLAY_NOT_TRANSFERRED] = {sr_verdict_say_not_transferred, "stopped there", SR_REPLAY_EXIT_FAILED},
    [SR_REPLAY_NOT_PRODUCED] = {sr_verdict_say_not_produced, "stopped there", SR_REPLAY_EXIT_FAILED},
    [SR_REPLAY_CAUSES_END] = {sr_verdict_say_causes_end, "exact, up to what another rank's trace lacks",
			      SR_REPLAY_EXIT_CUT, .how = SR_VERDICT_CUT},
    [SR_REPLAY_OTHER_SENT] = {sr_verdict_say_other_sent, "stopped there", SR_REPLAY_EXIT_DIVERGED, .threads = true,
			      .processor = true},
    [SR_REPLAY_OTHER_RECEIVED] = {sr_verdict_say_other_received, "stopped there", SR_REPLAY_EXIT_DIVERGED},
    [SR_REPLAY_OTHER_PRODUCED] = {sr_verdict_say_other_produced, "stopped there", SR_REPLAY_EXIT_DIVERGED},
};

int sr_verdict_say(struct sr_verdict *v, const struct sr_replay_control *c)
{
	uint32_t number = atomic_load_explicit(&c->outcome, memory_order_acquire);
	const struct outcome *o = &outcomes[number];
	char how[SR_VERDICT_TEXT];

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
	if (o->how != SR_VERDICT_FAILED) {
		say_uncompared(v, how, sizeof(how), o->end, c);
		return end_line(v, c, how, o->status);
	}
	return end_line(v, c, o->end, o->status);
}
