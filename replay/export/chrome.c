/* SPDX-License-Identifier: BSD-2-Clause */
/* chrome.c: Chrome's JSON trace format: an object per event, times in microseconds. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "replay/export/export.h"
#include "replay/print/json_text.h"
#include "replay/print/progress.h"

struct writer {
	const struct sr_names *names;
	const struct sr_timeline *t;
	FILE *out;
	bool any;
	uint64_t slices; /* written */
};

static int32_t number_of(const struct writer *w, size_t track)
{
	return w->t->links.ranks[w->t->tracks[track].rank].number;
}

/* Begins an event, up to its time. */
static void begin(struct writer *w, const char *phase, int32_t rank, uint32_t thread)
{
	fprintf(w->out, "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%u", w->any ? "," : "", phase, rank,
		thread);
	w->any = true;
}

static void put_metadata(struct writer *w, const char *what, int32_t rank, uint32_t thread,
			 const char *name)
{
	begin(w, "M", rank, thread);
	fprintf(w->out, ",\"name\":\"%s\",\"args\":{\"name\":", what);
	sr_json_text(w->out, name);
	fputs("}}", w->out);
}

/* In microseconds: a unit of the causal axis, and tenths of it, or so many nanoseconds. */
static void put_time(struct writer *w, const char *key, uint64_t time, unsigned int tenths)
{
	if (w->t->began)
		fprintf(w->out, ",\"%s\":%" PRIu64 ".%03u", key, time / 1000, (unsigned int)(time % 1000));
	else if (tenths)
		fprintf(w->out, ",\"%s\":%" PRIu64 ".%u", key, time, tenths);
	else
		fprintf(w->out, ",\"%s\":%" PRIu64, key, time);
}

static void put_slice(struct writer *w, const struct sr_track *k, const struct sr_slice *s)
{
	const char *site = sr_names_site(w->names, k->rank, s->site);

	begin(w, "X", w->t->links.ranks[k->rank].number, k->thread);
	put_time(w, "ts", s->begin, 0);
	put_time(w, "dur", s->end - s->begin, 0);
	fputs(",\"cat\":\"call\",\"name\":", w->out);
	sr_json_text(w->out, sr_names_call(w->names, k->rank, s->kind));
	fprintf(w->out, ",\"args\":{\"SN\":%" PRIu64 ",\"calls\":%" PRIu64 ",\"bytes\":%u", s->sn,
		s->count, s->bytes);
	if (*site) {
		fputs(",\"site\":", w->out);
		sr_json_text(w->out, site);
	}
	fputs("}}", w->out);
}

/* An arrow binds to the slice around its time: the middle of the first, or the last, unit. */
static void put_flow(struct writer *w, const struct sr_flow *f)
{
	const char *name = f->kind == SR_FLOW_ORDER ? "order" : "message";
	const struct sr_slice *from = sr_timeline_slice(w->t, f->from);
	const struct sr_slice *to = sr_timeline_slice(w->t, f->to);
	uint64_t number = sr_arrow_number(w->t, f), last = f->is_before ? to->begin : to->end - 1;

	begin(w, "s", number_of(w, f->from.track), w->t->tracks[f->from.track].thread);
	put_time(w, "ts", from->begin, 2);
	fprintf(w->out, ",\"id\":%" PRIu64 ",\"cat\":\"%s\",\"name\":\"%s\"}", number, name, name);
	begin(w, "f", number_of(w, f->to.track), w->t->tracks[f->to.track].thread);
	put_time(w, "ts", last, 7);
	fprintf(w->out, ",\"id\":%" PRIu64 ",\"bp\":\"e\",\"cat\":\"%s\",\"name\":\"%s\"}", number, name,
		name);
}

static int put_counter(struct writer *w, size_t rank)
{
	size_t n;
	struct sr_step *steps = sr_timeline_outstanding(w->t, rank, &n);

	for (size_t i = 0; steps && i < n; i++) {
		begin(w, "C", w->t->links.ranks[rank].number, 0);
		put_time(w, "ts", steps[i].time, 0);
		fprintf(w->out, ",\"name\":\"outstanding requests\",\"args\":{\"requests\":%" PRId64 "}}",
			steps[i].count);
	}
	free(steps);
	return steps ? 0 : -ENOMEM;
}

static int put_rank(struct writer *w, size_t rank)
{
	int32_t number = w->t->links.ranks[rank].number;
	char *command = sr_names_command(w->names, rank), text[512];

	snprintf(text, sizeof(text), "rank %d: %s", number, command ? command : "");
	free(command);
	put_metadata(w, "process_name", number, 0, text);
	for (size_t i = w->t->first_track[rank]; i < w->t->first_track[rank + 1]; i++) {
		const struct sr_track *k = &w->t->tracks[i];

		snprintf(text, sizeof(text), "thread %u", k->thread);
		put_metadata(w, "thread_name", number, k->thread, text);
		for (size_t s = 0; s < k->n; s++) {
			put_slice(w, k, &k->slices[s]);
			sr_progress_count(++w->slices, w->t->slices_n);
		}
	}
	return put_counter(w, rank);
}

int sr_export_json(const struct sr_names *names, FILE *out)
{
	struct writer w = {.names = names, .t = names->t, .out = out};
	int err = 0;

	fprintf(out,
		"{\"displayTimeUnit\":\"ns\",\"otherData\":{\"writer\":\"sreplay " SREPLAY_VERSION
		"\",\"axis\":\"%s\"},\"traceEvents\":[",
		w.t->began ? "time" : "causal: a microsecond is a call");
	for (size_t rank = 0; rank < w.t->ranks_n && !err; rank++)
		err = put_rank(&w, rank);
	for (size_t i = 0; i < w.t->flows_n && !err; i++)
		if (sr_is_exported(&w.t->flows[i]))
			put_flow(&w, &w.t->flows[i]);
	fputs("\n]}\n", out);
	return err;
}
