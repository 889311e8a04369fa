/* SPDX-License-Identifier: BSD-2-Clause */
/* axis.c: the causal axis: the length of the longest chain of calls that leads to each call. */
#include <errno.h>
#include <stdlib.h>

#include "replay/analysis/timeline/timeline.h"

struct cursor {
	size_t slice;     /* the next one to be placed */
	bool has_begun;   /* its begin is known */
	size_t flow, end; /* the arrows that end at this track and are not taken yet */
};

struct axis {
	struct sr_timeline *t;
	const struct sr_flow **flows; /* by their targets */
	struct cursor *cursors;
	uint64_t shortest; /* call */
};

static int by_target(const void *a, const void *b)
{
	const struct sr_flow *x = *(const struct sr_flow *const *)a;
	const struct sr_flow *y = *(const struct sr_flow *const *)b;

	if (x->to.track != y->to.track)
		return x->to.track < y->to.track ? -1 : 1;
	if (x->to.slice != y->to.slice)
		return x->to.slice < y->to.slice ? -1 : 1;
	return (int)y->is_before - (int)x->is_before;
}

static bool has_begun(const struct axis *a, struct sr_place p)
{
	const struct cursor *c = &a->cursors[p.track];

	return p.slice < c->slice || (p.slice == c->slice && c->has_begun);
}

/*
 * Takes the arrows to the begin or the end of the track's next slice, into *time.  False: one comes
 * from a call that has no time yet; `force` leaves that one out.
 */
static bool take_arrows(struct axis *a, size_t track, bool is_before, uint64_t *time, bool force)
{
	struct cursor *c = &a->cursors[track];

	for (; c->flow < c->end; c->flow++) {
		const struct sr_flow *f = a->flows[c->flow];
		uint64_t after;

		if (f->to.slice != c->slice || f->is_before != is_before)
			break;
		if (!has_begun(a, f->from)) {
			if (!force)
				return false;
			force = false;
			a->t->contradictions++;
			continue;
		}
		after = sr_timeline_slice(a->t, f->from)->begin + 1;
		if (after > *time)
			*time = after;
	}
	return true;
}

/* True: the track's next slice was placed. */
static bool place_slice(struct axis *a, size_t track, bool force)
{
	struct cursor *c = &a->cursors[track];
	const struct sr_track *k = &a->t->tracks[track];
	struct sr_slice *s = &k->slices[c->slice];

	if (!c->has_begun) {
		uint64_t begin = c->slice ? k->slices[c->slice - 1].end : 0;

		if (begin > s->begin)
			s->begin = begin;
		if (!take_arrows(a, track, true, &s->begin, force))
			return false;
		c->has_begun = true;
		if (s->end < s->begin + a->shortest)
			s->end = s->begin + a->shortest;
	}
	if (!take_arrows(a, track, false, &s->end, force))
		return false;
	if (s->end > a->t->length)
		a->t->length = s->end;
	c->slice++;
	c->has_begun = false;
	return true;
}

/* True: something was placed.  *is_over: there is nothing left. */
static bool round_of_all(struct axis *a, bool force, bool *is_over)
{
	bool any = false;

	*is_over = true;
	for (size_t i = 0; i < a->t->tracks_n; i++) {
		while (a->cursors[i].slice < a->t->tracks[i].n) {
			bool begun = a->cursors[i].has_begun;

			if (!place_slice(a, i, force)) {
				any |= a->cursors[i].has_begun != begun;
				*is_over = false;
				break;
			}
			any = true;
			force = false;
		}
	}
	return any;
}

static int prepare(struct axis *a)
{
	struct sr_timeline *t = a->t;

	a->flows = calloc(t->flows_n + 1, sizeof(*a->flows));
	a->cursors = calloc(t->tracks_n + 1, sizeof(*a->cursors));
	if (!a->flows || !a->cursors)
		return -ENOMEM;
	for (size_t i = 0; i < t->flows_n; i++)
		a->flows[i] = &t->flows[i];
	qsort(a->flows, t->flows_n, sizeof(*a->flows), by_target);
	for (size_t i = 0, f = 0; i < t->tracks_n; i++) {
		a->cursors[i].flow = f;
		while (f < t->flows_n && a->flows[f]->to.track == i)
			f++;
		a->cursors[i].end = f;
	}
	return 0;
}

int sr_timeline_axis(struct sr_timeline *t)
{
	struct axis a = {.t = t, .shortest = t->began && t->is_coarse ? SR_COARSE_CALL_NS : 1};
	int err = prepare(&a);
	bool is_over = false, any = true;

	while (!err && !is_over)
		any = round_of_all(&a, !any, &is_over);
	free(a.flows);
	free(a.cursors);
	return err;
}

static int by_time(const void *a, const void *b)
{
	const struct sr_step *x = a, *y = b;

	return x->time < y->time ? -1 : x->time > y->time;
}

struct sr_step *sr_timeline_outstanding(const struct sr_timeline *t, size_t rank, size_t *n)
{
	struct sr_step *steps = calloc(t->posts_n + t->flows_n + 1, sizeof(*steps));
	size_t count = 0, kept = 0;
	int64_t now = 0;

	*n = 0;
	for (size_t i = 0; steps && i < t->posts_n; i++)
		if (t->tracks[t->posts[i].at.track].rank == rank)
			steps[count++] =
			    (struct sr_step){sr_timeline_slice(t, t->posts[i].at)->begin, 1};
	for (size_t i = 0; steps && i < t->flows_n; i++)
		if (t->flows[i].kind == SR_FLOW_REQUEST &&
		    t->tracks[t->flows[i].to.track].rank == rank)
			steps[count++] =
			    (struct sr_step){sr_timeline_slice(t, t->flows[i].to)->end, -1};
	if (!steps)
		return NULL;
	qsort(steps, count, sizeof(*steps), by_time);
	for (size_t i = 0; i < count; i++) {
		now += steps[i].count;
		if (i + 1 < count && steps[i + 1].time == steps[i].time)
			continue;
		steps[kept++] = (struct sr_step){steps[i].time, now};
	}
	*n = kept;
	return steps;
}
