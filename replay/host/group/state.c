/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/group/state.h"

#include <stdio.h>

#include "replay/print/say.h"
#include "replay/print/print.h"

typedef unsigned long long ull;

#define THREADS_SHOWN 8

struct with {
	struct sr_trace *trace;
	int32_t rank;
	struct sr_schema *schema;
};

static const char *name_of(const struct with *with)
{
	return sr_trace_rank_name(with->trace, with->rank);
}

/* The name of call `sn` in the recording; "" if there is none. */
static const char *call_name(const struct with *with, uint32_t thread, uint64_t sn)
{
	struct sr_stream *s;
	struct sr_error err;
	struct sr_entry e;
	const char *name = "";

	if (!with->schema || sr_stream_open(&s, with->trace, with->rank, thread, &err))
		return name;
	if (!sr_stream_seek(s, sn))
		while (sr_stream_next(s, &e) > 0) {
			if (e.kind < SR_REC_CALL || e.sn + e.count <= sn)
				continue;
			name = sr_schema_name(with->schema, e.kind);
			break;
		}
	sr_stream_close(s);
	return name;
}

static void say_thread(const struct with *with, const struct sr_replay_control *c, uint32_t i)
{
	const struct sr_replay_thread *t = &c->thread[i];
	uint64_t sn = atomic_load(&t->calls) + 1;
	uint64_t waits_for = atomic_load(&t->waits_for_sn);
	const char *name = call_name(with, i, sn);

	fprintf(stderr, "sreplay:   rank %s thread %u SN %llu: ", name_of(with), i, (ull)sn);
	fprintf(stderr, "%s", name[0] ? name : "its last call is over");
	if (waits_for)
		fprintf(stderr, ", waits for rank %s thread %u SN %llu",
			sr_trace_rank_name(with->trace, atomic_load(&t->waits_for_rank)), atomic_load(&t->waits_for_thread),
			(ull)waits_for);
	else if (atomic_load(&t->waits_for))
		fprintf(stderr, ", waits for its turn");
	fputc('\n', stderr);
}

static void say_rank(struct with *with, const struct sr_group_rank *r)
{
	uint32_t shown = 0, more = 0;

	if (r->ended || atomic_load(&r->control->outcome) == SR_REPLAY_EXACT) {
		sr_note("  rank %s had ended as recorded, after %llu calls", name_of(with),
			(ull)sr_replay_calls(r->control));
		return;
	}
	for (uint32_t i = 0; i < r->control->threads; i++) {
		const struct sr_replay_thread *t = &r->control->thread[i];

		if (!atomic_load(&t->tid) || atomic_load(&t->over))
			continue;
		if (shown++ < THREADS_SHOWN)
			say_thread(with, r->control, i);
		else
			more++;
	}
	if (!shown)
		sr_note("  rank %s had made no call yet", name_of(with));
	if (more)
		sr_note("  ... and %u more threads of rank %s", more, name_of(with));
}

void sr_group_say_states(struct sr_trace *t, const struct sr_group_view *v)
{
	struct with with = {.trace = t};

	for (size_t i = 0; i < v->count; i++) {
		with.rank = v->rank[i].rank;
		with.schema = sr_schema_of(with.trace, with.rank, NULL);
		say_rank(&with, &v->rank[i]);
		sr_schema_free(with.schema);
	}
}
