/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/timeline/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/images.h"
#include "replay/analysis/log/stamps.h"
#include "shim/core/call.h"

/* The shares of the passes in the progress. */
#define STREAMS 0.3
#define LINKS   0.2

struct loading {
	struct sr_timeline *t;
	const struct sr_timeline_hooks *hooks;
	double from, share;
	bool *has; /* by rank: has it the image that is processed? */
};

static void say(struct loading *l, double done)
{
	if (l->hooks->progress)
		l->hooks->progress(l->hooks->argument, l->from + l->share * done);
}

static void pass_progress(void *argument, uint64_t done, uint64_t size)
{
	say(argument, (double)done / (double)(size ? size : 1));
}

/* ------------------------------------------------------------ the calls */

static uint64_t first_event(const struct sr_entry *e, const struct sr_call_head *head)
{
	uint64_t event = 0;

	if (head->orders && e->size >= sizeof(*head) + head->orders * sizeof(event))
		memcpy(&event, (const char *)e->payload + e->size - head->orders * sizeof(event),
		       sizeof(event));
	return event;
}

/* What a call takes at most, as only its end has a time. */
#define CALL_NS 1000

/* Until the axis is made, begin and end are the earliest that they can be. */
static void set_times(struct sr_slice *s, const struct sr_stamps *stamps, uint64_t before)
{
	uint64_t gap = stamps->time - before;

	if (!stamps->time)
		return;
	s->end = stamps->time;
	s->begin = s->end - (before && gap < CALL_NS ? gap : CALL_NS);
	if (stamps->is_coarse) {
		s->begin = stamps->time;
		s->end = s->begin + SR_COARSE_CALL_NS;
	}
}

static int take_call(struct sr_track *k, const struct sr_entry *e, const struct sr_stamps *stamps,
		     uint32_t image)
{
	struct sr_call_head head;
	struct sr_slice *s = sr_grow((void **)&k->slices, k->n, &k->room, sizeof(*s));

	if (!s)
		return -ENOMEM;
	if (k->n == UINT32_MAX || e->size < sizeof(head))
		return -EBADMSG;
	memcpy(&head, e->payload, sizeof(head));
	*s = (struct sr_slice){.sn = e->sn,
			       .count = e->count,
			       .stride = (uint16_t)e->stride,
			       .site = head.site | (uint64_t)image << SR_SITE_BITS,
			       .event = image ? 0 : first_event(e, &head),
			       .bytes = (uint32_t)e->size,
			       .kind = e->kind};
	set_times(s, stamps, k->n ? s[-1].end : 0);
	k->n++;
	return 0;
}

static int read_track(struct loading *l, struct sr_track *k, struct sr_error *err)
{
	struct sr_stamps stamps = {0};
	size_t before = k->n;
	struct sr_stream *s;
	struct sr_entry e;
	int ret =
		sr_stream_open(&s, l->t->trace, l->t->links.ranks[k->rank].number, k->thread, err),
	    got;

	if (ret)
		return ret;
	sr_stream_fold_cycles(s);
	while (!ret && (got = sr_stream_next(s, &e)) > 0) {
		sr_stamps_take(&stamps, &e);
		if (l->hooks->entry)
			ret = l->hooks->entry(l->hooks->argument, k->rank, &e);
		if (!ret && e.kind >= SR_REC_CALL)
			ret = take_call(k, &e, &stamps, l->t->image);
		else if (!ret && e.kind == SR_REC_REPEAT && k->n)
			k->slices[k->n - 1].count += e.count;
	}
	if (!ret && got < 0)
		ret = sr_error_set(err, got, "%s", sr_stream_warning(s));
	else if (ret)
		sr_error_set(err, ret, "rank %d thread %u SN %llu: %s",
			     l->t->links.ranks[k->rank].number, k->thread, (unsigned long long)e.sn,
			     ret == -ENOMEM ? "no memory left" : "a damaged record");
	sr_stream_close(s);
	l->t->is_coarse |= stamps.is_coarse;
	l->t->lacks_times |= k->n && !k->slices[0].end;
	l->t->slices_n += k->n - before;
	return ret;
}

/* The rank's track of this thread; it is made if an earlier image had none.  NULL: no memory. */
static struct sr_track *find_track(struct sr_timeline *t, size_t rank, uint32_t thread)
{
	struct sr_track *k;

	for (size_t i = t->first_track[rank]; i < t->tracks_n; i++)
		if (t->tracks[i].thread == thread)
			return &t->tracks[i];
	k = sr_grow((void **)&t->tracks, t->tracks_n, &t->tracks_room, sizeof(*k));
	if (!k)
		return NULL;
	*k = (struct sr_track){.rank = rank, .thread = thread};
	t->tracks_n++;
	return k;
}

/* The streams of the image that is chosen. */
static int read_image(struct loading *l, size_t rank, struct sr_error *err)
{
	const uint32_t *threads;
	size_t n = sr_trace_threads(l->t->trace, l->t->links.ranks[rank].number, &threads);
	int ret = 0;

	for (size_t i = 0; i < n && !ret; i++) {
		struct sr_track *k = find_track(l->t, rank, threads[i]);

		ret = k ? read_track(l, k, err) : sr_error_set(err, -ENOMEM, "no memory left");
	}
	return ret;
}

static int read_tracks(struct loading *l, struct sr_error *err)
{
	struct sr_timeline *t = l->t;
	int ret = 0;

	t->ranks_n = t->links.ranks_n;
	t->first_track = calloc(t->ranks_n + 1, sizeof(*t->first_track));
	t->tracks = calloc(1, sizeof(*t->tracks));
	if (!t->first_track || !t->tracks)
		return sr_error_set(err, -ENOMEM, "no memory left");
	t->tracks_room = 1;
	for (size_t i = 0; i < t->ranks_n && !ret; i++) {
		int32_t rank = t->links.ranks[i].number;
		uint32_t images = sr_trace_images(t->trace, rank);

		t->first_track[i] = t->tracks_n;
		for (uint32_t k = 0; k < images && !ret; k++) {
			t->image = images - 1 - k;
			ret = sr_trace_choose_image(t->trace, rank, k, err);
			if (!ret)
				ret = read_image(l, i, err);
		}
		t->first_track[i + 1] = t->tracks_n;
		say(l, (double)(i + 1) / (double)t->ranks_n);
	}
	return ret;
}

/* Times count from the first one.  Without times of all tracks there are none. */
static void begin_axis(struct sr_timeline *t)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < t->tracks_n; i++)
		if (t->tracks[i].n && t->tracks[i].slices[0].begin < first)
			first = t->tracks[i].slices[0].begin;
	for (size_t i = 0; i < t->tracks_n; i++)
		for (size_t s = 0; s < t->tracks[i].n; s++) {
			struct sr_slice *slice = &t->tracks[i].slices[s];

			slice->begin = t->lacks_times ? 0 : slice->begin - first;
			slice->end = t->lacks_times ? 0 : slice->end - first;
		}
	t->began = t->lacks_times || first == UINT64_MAX ? 0 : first;
}

/* Of calls that come again in turn, the slice found is the last one of the turn: which one has this SN? */
static size_t find_in_turn(const struct sr_track *k, size_t last, uint64_t sn)
{
	const struct sr_slice *s = &k->slices[last];
	const size_t over = (sn - s->sn) % s->stride, back = over ? s->stride - over : 0;

	return sn < s->sn + s->count * s->stride && back <= last ? last - back : last;
}

bool sr_timeline_find(const struct sr_timeline *t, size_t rank, uint32_t thread, uint64_t sn,
		      struct sr_place *place)
{
	for (size_t i = t->first_track[rank]; i < t->first_track[rank + 1]; i++) {
		const struct sr_track *k = &t->tracks[i];
		size_t low = 0, high = k->n;

		if (k->thread != thread)
			continue;
		/* The last slice that does not begin behind it. */
		while (low < high) {
			size_t middle = low + (high - low) / 2;

			if (k->slices[middle].sn <= sn)
				low = middle + 1;
			else
				high = middle;
		}
		if (!low)
			return false;
		*place = (struct sr_place){(uint32_t)i, (uint32_t)find_in_turn(k, low - 1, sn)};
		return true;
	}
	return false;
}

/* ----------------------------------------------------------- the arrows */

static int add_flow(struct sr_timeline *t, struct sr_flow f, size_t from_rank,
		    const struct sr_position *from, size_t to_rank, const struct sr_position *to)
{
	struct sr_flow *at;

	if (!sr_timeline_find(t, from_rank, from->thread, from->sn, &f.from) ||
	    !sr_timeline_find(t, to_rank, to->thread, to->sn, &f.to))
		return 0;
	at = sr_grow((void **)&t->flows, t->flows_n, &t->flows_room, sizeof(f));
	if (!at)
		return -ENOMEM;
	f.from_sn = from->sn;
	f.to_sn = to->sn;
	/* A fault after a call precedes the next one. */
	if (to->fault && f.to.slice + 1 < t->tracks[f.to.track].n) {
		f.to.slice++;
		f.is_before = true;
	}
	*at = f;
	t->flows_n++;
	return 0;
}

static int take_order(void *argument, const struct sr_found_order *o)
{
	struct loading *l = argument;

	/* A message has an arrow of its own. */
	if (o->flags & SR_PLAN_BY_MESSAGE || !l->has[o->rank] || !l->has[o->of_rank])
		return 0;
	return add_flow(l->t, (struct sr_flow){.kind = SR_FLOW_ORDER, .flags = o->flags},
			o->of_rank, &o->of, o->rank, &o->at);
}

static int take_message(void *argument, const struct sr_message *m)
{
	struct loading *l = argument;

	if (!l->has[m->rank])
		return 0;
	return add_flow(l->t,
			(struct sr_flow){.kind = SR_FLOW_MESSAGE,
					 .flags = m->flags,
					 .opcode = IBV_WR_SEND,
					 .length = m->length},
			m->from, &m->sent, m->rank, &m->received);
}

static int take_completed(void *argument, const struct sr_completed *c)
{
	struct loading *l = argument;

	if (c->opcode == IBV_WR_BIND_MW || !l->has[c->rank])
		return 0;
	return add_flow(
	    l->t,
	    (struct sr_flow){.kind = SR_FLOW_REQUEST, .opcode = c->opcode, .length = c->length},
	    c->rank, &c->posted, c->rank, &c->completed);
}

static int take_posted(void *argument, const struct sr_posted *p)
{
	const struct loading *l = argument;
	struct sr_timeline *t = l->t;
	struct sr_post post = {.to = p->to,
			       .sn = p->at.sn,
			       .length = p->length,
			       .address = p->address,
			       .qp_num = p->qp_num,
			       .request = p->request,
			       .opcode = p->opcode};
	struct sr_post *at;

	if (!l->has[p->rank] || !sr_timeline_find(t, p->rank, p->at.thread, p->at.sn, &post.at))
		return 0;
	at = sr_grow((void **)&t->posts, t->posts_n, &t->posts_room, sizeof(post));
	if (!at)
		return -ENOMEM;
	*at = post;
	t->posts_n++;
	return 0;
}

static int take_value(void *argument, const struct sr_value *v)
{
	const struct loading *l = argument;

	return l->hooks->value && !l->t->image ? l->hooks->value(l->hooks->argument, v) : 0;
}

/* The last of a rank's calls before this event, but for those of the track. */
static bool find_event_before(const struct sr_timeline *t, size_t track, uint64_t event,
			      struct sr_place *place)
{
	size_t rank = t->tracks[track].rank;
	uint64_t best = 0;

	for (size_t i = t->first_track[rank]; i < t->first_track[rank + 1]; i++) {
		const struct sr_track *k = &t->tracks[i];

		for (size_t s = 0; i != track && s < k->n && k->slices[s].event < event; s++)
			if (k->slices[s].event > best) {
				best = k->slices[s].event;
				*place = (struct sr_place){(uint32_t)i, (uint32_t)s};
			}
	}
	return best != 0;
}

/* A thread begins after the call of another one that has the event in front of its first. */
static int add_starts(struct sr_timeline *t)
{
	for (size_t i = 0; i < t->tracks_n; i++) {
		const struct sr_track *k = &t->tracks[i];
		struct sr_flow f = {
		    .kind = SR_FLOW_START, .is_before = true, .to = {(uint32_t)i, 0}};
		struct sr_flow *at;
		size_t s = 0;

		while (s < k->n && !k->slices[s].event)
			s++;
		if (!k->thread || s == k->n ||
		    !find_event_before(t, i, k->slices[s].event, &f.from))
			continue;
		at = sr_grow((void **)&t->flows, t->flows_n, &t->flows_room, sizeof(f));
		if (!at)
			return -ENOMEM;
		*at = f;
		t->flows_n++;
	}
	return 0;
}

/* Of the images that are chosen. */
static int find_arrows_of_image(struct loading *l, struct sr_error *err)
{
	struct sr_timeline *t = l->t;
	const struct sr_process_hooks hooks = {.order = take_order,
					       .posted = take_posted,
					       .completed = take_completed,
					       .message = take_message,
					       .value = take_value,
					       .progress = t->image ? NULL : pass_progress,
					       .argument = l};
	struct sr_process_counts counts;
	struct sr_links links;
	int ret;

	if (!t->image)
		return sr_process(t->trace, &t->links, l->has, &hooks, &t->counts, err);
	ret = sr_links_find(&links, t->trace, NULL, err);
	if (!ret)
		ret = sr_process(t->trace, &links, l->has, &hooks, &counts, err);
	sr_links_free(&links);
	return ret;
}

static int find_arrows(struct loading *l, struct sr_error *err)
{
	int ret = 0;

	l->has = calloc(l->t->ranks_n + 1, sizeof(*l->has));
	if (!l->has)
		return sr_error_set(err, -ENOMEM, "no memory left");
	for (uint32_t i = sr_images_most(l->t->trace); i-- && !ret;) {
		l->t->image = i;
		ret = sr_images_choose(l->t->trace, i, l->has, err);
		if (!ret)
			ret = find_arrows_of_image(l, err);
	}
	free(l->has);
	return ret;
}

int sr_timeline_load(struct sr_timeline *t, struct sr_trace *trace,
		     const struct sr_timeline_hooks *hooks, struct sr_error *err)
{
	static const struct sr_timeline_hooks none;
	struct loading l = {.t = t, .hooks = hooks ? hooks : &none, .share = LINKS};
	const struct sr_links_hooks links = {.progress = pass_progress, .argument = &l};
	int ret;

	*t = (struct sr_timeline){.trace = trace};
	ret = sr_links_find(&t->links, trace, &links, err);
	l.from += l.share;
	l.share = STREAMS;
	if (!ret)
		ret = read_tracks(&l, err);
	begin_axis(t);
	l.from += l.share;
	l.share = 1 - l.from;
	if (!ret)
		ret = find_arrows(&l, err);
	if (!ret && (add_starts(t) || sr_timeline_axis(t)))
		ret = sr_error_set(err, -ENOMEM, "no memory left");
	return ret;
}

void sr_timeline_free(struct sr_timeline *t)
{
	for (size_t i = 0; i < t->tracks_n; i++)
		free(t->tracks[i].slices);
	free(t->tracks);
	free(t->first_track);
	free(t->flows);
	free(t->posts);
	sr_links_free(&t->links);
	*t = (struct sr_timeline){0};
}
