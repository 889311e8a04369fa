/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/verdict/messages.h"

#include <stdio.h>

#include "replay/host/verdict/verdict.h"
#include "replay/host/verdict/words.h"
#include "replay/print/say.h"

typedef unsigned long long ull;

static const char *other(const struct sr_verdict *v, int32_t rank)
{
	return sr_trace_rank_name(v->trace, rank);
}

/* A peer sent other bytes than the trace says were received. */
void sr_verdict_mismatch(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	const struct sr_replay_mismatch *m = &c->mismatch;
	ull count = atomic_load(&c->mismatches);
	uint32_t shown = m->length - m->at;

	if (!count)
		return;
	if (shown > sizeof(m->recorded))
		shown = sizeof(m->recorded);
	fprintf(stderr,
		"sreplay: rank %s thread %u SN %llu: the %u bytes received at 0x%llx are not "
		"those that rank %s sends (thread %u SN %llu); from byte %u on:\n",
		sr_verdict_rank(v), m->thread, (ull)m->sn, m->length, (ull)m->addr, other(v, m->from), m->from_thread,
		(ull)m->from_sn, m->at);
	sr_verdict_bytes("recorded:", m->recorded, shown);
	sr_verdict_bytes("sent:    ", m->produced, shown);
	if (count > 1)
		sr_note("rank %s: %llu more values are not what their senders send", sr_verdict_rank(v),
			count - 1);
}

void sr_verdict_say_unexplained(const struct sr_verdict *v)
{
	const struct sr_found_bytes *b = &v->found;
	uint32_t shown = b->first.length < sizeof(b->first_bytes) ? b->first.length
								  : sizeof(b->first_bytes);

	if (!b->nobody)
		return;
	fprintf(stderr,
		"sreplay: rank %s thread %u SN %llu: no rank has written the %u bytes at 0x%llx, "
		"and nobody else can have:\n",
		sr_verdict_rank(v), b->first.thread, (ull)b->first.sn, b->first.length, (ull)b->first.addr);
	sr_verdict_bytes("recorded:", b->first_bytes, shown);
	if (b->nobody > b->first.length)
		sr_note("rank %s: nobody can have written %llu more bytes either", sr_verdict_rank(v),
			(ull)(b->nobody - b->first.length));
}

/* Neither the trace nor the program is to blame. */
void sr_verdict_say_not_transferred(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	sr_verdict_where(v, &c->report);
	fprintf(stderr, "the device did not do again what the call does: %s\n",
		c->not_transferred);
	sr_verdict_place(v, "recorded:", c->report.expected_site, 0, c->report.expected);
	sr_verdict_last_calls(v, &c->report);
	sr_note("--transport shm needs no device");
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

void sr_verdict_say_not_produced(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	sr_verdict_where(v, &c->report);
	fprintf(stderr, "what %s brought is not in the trace, which was recorded with --order: ", sr_verdict_name(v, c->report.found));
	if (c->whole_job)
		fputs("none of the ranks has produced it in this replay; record without --order\n", stderr);
	else
		fprintf(stderr,
			"replay all ranks together, not one alone and not with --transport none; or first make a detailed trace: sreplay "
			"replay --record-ranks %s -o DETAIL.srec\n",
			sr_verdict_rank(v));
	say_value(v, &c->report);
}

static void say_remedy(const struct sr_replay_control *c)
{
	fputs("; record without --order", stderr);
	if (c->report.contended_bytes)
		fprintf(stderr, ", or with --by-value 0x%llx+%llu", (ull)c->report.contended, (ull)c->report.contended_bytes);
	fputc('\n', stderr);
}

/* The writes of members did not come to what a load found: shim/replay/group/landed.c. */
static void say_others_landed(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	sr_verdict_where(v, &c->report);
	fputs("what a load found after it is left out of the trace (record --order), and cannot be put together from ",
	      stderr);
	if (c->report.sender == v->rank)
		fputs("what the program has stored there in this replay, and others write there: this rank goes another way, or one "
		      "of them does, or nothing orders their writes and its stores",
		      stderr);
	else if (c->report.sender >= 0)
		fprintf(stderr, "what rank %s, which alone writes there, sends in this replay: that rank goes another way, or "
				"changed it after its post",
			other(v, c->report.sender));
	else
		fputs("what the ranks write in this replay: several of them write there, and nothing orders their writes, or "
		      "a rank changed what it sends after its post",
		      stderr);
	say_remedy(c);
	say_value(v, &c->report);
}

/* Nor do they come to what a READ found: shim/replay/group/read_again.c. */
static void say_other_fetched(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	sr_verdict_where(v, &c->report);
	fprintf(stderr,
		"what a READ of %llu bytes at 0x%llx of rank %s found is left out of the trace (record --order), and cannot be put together "
		"from what the ranks write there in this replay: too many of them do without an order, or one goes another way, or "
		"changed what it sends after its post",
		(ull)c->report.contended_bytes, (ull)c->report.contended, other(v, c->report.sender));
	say_remedy(c);
}

void sr_verdict_say_other_produced(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	if (c->report.found == SR_REC_EXPOSED) {
		say_others_landed(v, c);
		return;
	}
	if (c->report.contended_bytes) {
		say_other_fetched(v, c);
		return;
	}
	sr_verdict_where(v, &c->report);
	fprintf(stderr,
		"what %s brought is not what its sender, rank %s, sends in this replay: that rank goes another way, or "
		"changed it after its post, or several receives share memory; record without --order\n",
		sr_verdict_name(v, c->report.found), other(v, c->report.sender));
}

static void say_sum(const struct sr_verdict *v, const struct sr_replay_control *c, const char *what)
{
	sr_verdict_where(v, &c->report);
	fprintf(stderr, "between SN %llu and this call %s: the trace has a sum of their checksums (record --order), "
			"and this replay comes to another one\n",
		(ull)c->report.since, what);
}

void sr_verdict_say_other_sent(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	say_sum(v, c, "the program sends other bytes than recorded");
}

void sr_verdict_say_other_received(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	say_sum(v, c, "it received other bytes from other ranks than recorded");
}

void sr_verdict_say_causes_end(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	sr_verdict_where(v, &c->report);
	fprintf(stderr,
		"%s needs what rank %s did, and that rank's trace ends before it\n",
		sr_verdict_name(v, c->report.found), other(v, c->report.sender));
}

void sr_verdict_say_peer_exited(const struct sr_verdict *v, const struct sr_replay_control *c)
{
	sr_verdict_where(v, &c->report);
	fprintf(stderr,
		"%s waits for a call of another rank, which ended before making it: the trace's "
		"orders are damaged\n",
		sr_verdict_name(v, c->report.found));
}
