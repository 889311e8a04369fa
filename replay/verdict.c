/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/verdict.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "replay/command.h"

typedef unsigned long long ull;

static const char *name_of(const struct sr_verdict *v, uint16_t kind)
{
	return v->schema ? sr_schema_name(v->schema, kind) : "a call";
}

/* "rank 0 thread 0 SN 42: " */
static void where(const struct sr_verdict *v, const struct sr_replay_report *r)
{
	fprintf(stderr, "sreplay: rank %d thread %u SN %llu: ", v->rank, r->thread, (ull)r->sn);
}

static void say_arguments(const struct sr_verdict *v, const char *what, uint16_t kind,
			  uint64_t site, const uint8_t *in, uint32_t size)
{
	json_t *json = NULL;

	fprintf(stderr, "sreplay:   %s %s(", what, name_of(v, kind));
	if (v->schema && size <= SR_REPLAY_BYTES)
		json = sr_schema_decode_in(v->schema, kind, in, size);
	if (json)
		sr_schema_print(stderr, json);
	else
		fprintf(stderr, "%u bytes", size);
	fprintf(stderr, ") @0x%llx\n", (ull)site);
	json_decref(json);
}

static void say_divergence(const struct sr_verdict *v, const struct sr_replay_report *r)
{
	where(v, r);
	if (r->expected != r->found) {
		fprintf(stderr,
			"the program called %s @0x%llx where the recording has %s @0x%llx\n",
			name_of(v, r->found), (ull)r->found_site, name_of(v, r->expected),
			(ull)r->expected_site);
		return;
	}
	fprintf(stderr, "%s with other arguments than recorded\n", name_of(v, r->found));
	say_arguments(v, "recorded:", r->expected, r->expected_site, r->expected_in,
		      r->expected_size);
	say_arguments(v, "now:     ", r->found, r->found_site, r->found_in, r->found_size);
}

static void say_early_exit(const struct sr_verdict *v, const struct sr_replay_report *r)
{
	where(v, r);
	if (r->expected)
		fprintf(stderr, "the program ended with status %d where the recording has %s\n",
			r->found_status, name_of(v, r->expected));
	else
		fprintf(stderr, "the program ended with status %d, recorded was %d\n",
			r->found_status, r->expected_status);
}

static void say_cut(const struct sr_verdict *v, const struct sr_replay_report *r)
{
	where(v, r);
	fprintf(stderr, "the trace ends here, before the program does (next would be %s)\n",
		name_of(v, r->found));
	if (v->warning)
		sr_note("%s", v->warning);
}

static int end_line(const struct sr_verdict *v, const struct sr_replay_control *c, const char *how,
		    int status)
{
	sr_note("rank %d: %llu calls replayed, %d divergences: %s", v->rank,
		(ull)atomic_load(&c->calls), status == SR_REPLAY_EXIT_DIVERGED, how);
	return status;
}

static int say_unfinished(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	if (v->stuck) {
		sr_note("rank %d made no recorded call for %ld s: stopped (--timeout changes that)",
			v->rank, v->timeout);
		return end_line(v, c, "stuck", SR_REPLAY_EXIT_DIVERGED);
	}
	if (WIFSIGNALED(v->wait_status) && v->killed &&
	    atomic_load(&c->calls) == v->recorded_calls) {
		sr_note("rank %d: the program was ended by signal %d (%s), where the recording "
			"ends too",
			v->rank, WTERMSIG(v->wait_status), strsignal(WTERMSIG(v->wait_status)));
		return end_line(v, c, "exact", 128 + WTERMSIG(v->wait_status));
	}
	if (WIFSIGNALED(v->wait_status)) {
		sr_note("rank %d: the program was ended by signal %d (%s)", v->rank,
			WTERMSIG(v->wait_status), strsignal(WTERMSIG(v->wait_status)));
		return end_line(v, c, "the program died", SR_REPLAY_EXIT_DIVERGED);
	}
	if (WEXITSTATUS(v->wait_status) == SR_REPLAY_EXIT_FAILED)
		return SR_REPLAY_EXIT_FAILED; /* the child has said why */
	return end_line(v, c, "the program ended without a word to sreplay",
			SR_REPLAY_EXIT_DIVERGED);
}

int sr_verdict_say(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_report *r = &c->report;

	switch ((enum sr_replay_outcome)atomic_load_explicit(&c->outcome, memory_order_acquire)) {
	case SR_REPLAY_EXACT:
		return end_line(v, c, "exact", r->expected_status & 0xff);
	case SR_REPLAY_DIED:
		end_line(v, c, "exact, up to where the recorded program was killed", 0);
		return SR_REPLAY_EXIT_CUT;
	case SR_REPLAY_CUT:
		say_cut(v, r);
		return end_line(v, c, "exact, up to the end of the trace", SR_REPLAY_EXIT_CUT);
	case SR_REPLAY_DIVERGED:
		say_divergence(v, r);
		return end_line(v, c, "stopped at the first", SR_REPLAY_EXIT_DIVERGED);
	case SR_REPLAY_EARLY_EXIT:
		say_early_exit(v, r);
		return end_line(v, c, "the end is not the recorded one", SR_REPLAY_EXIT_DIVERGED);
	case SR_REPLAY_LATE_CALL:
		where(v, r);
		fprintf(stderr, "the program called %s where the recording ends with status %d\n",
			name_of(v, r->found), r->expected_status);
		return end_line(v, c, "the end is not the recorded one", SR_REPLAY_EXIT_DIVERGED);
	case SR_REPLAY_UNSUPPORTED:
		where(v, r);
		fprintf(stderr, "%s cannot be replayed yet\n", name_of(v, r->found));
		return end_line(v, c, "stopped there", SR_REPLAY_EXIT_CUT);
	case SR_REPLAY_BAD_RECORD:
		where(v, r);
		fprintf(stderr, "the record of %s is damaged, or of another version of sreplay\n",
			name_of(v, r->expected));
		return end_line(v, c, "stopped there", SR_REPLAY_EXIT_FAILED);
	case SR_REPLAY_RUNNING:
		break;
	}
	return say_unfinished(v, c);
}
