/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/collect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/opcodes.h"
#include "logd/trace/read_trace.h"
#include "replay/analysis/log/large.h"
#include "replay/analysis/process/process.h"
#include "replay/analysis/races/annotations.h"
#include "replay/analysis/races/borders.h"
#include "replay/analysis/races/connections.h"
#include "replay/analysis/races/lifetimes.h"
#include "replay/analysis/races/locks.h"
#include "replay/analysis/races/positions.h"
#include "replay/analysis/races/receives.h"
#include "replay/analysis/races/requests.h"
#include "replay/analysis/races/unclocked.h"
#include "replay/analysis/races/values.h"

static void take_progress(void *argument, uint64_t done, uint64_t size)
{
	const struct sr_collect *c = argument;

	if (c->how->progress)
		c->how->progress(c->how->argument, done + c->pass * size, size * c->passes);
}

/* The first moment of a child; of the parent's other end is known what kin.h says. */
static int begin_children(struct sr_collect *c)
{
	for (size_t i = 0; i < c->kin.n; i++) {
		struct sr_race_child *k = &c->kin.children[i];
		const uint32_t first = sr_model_moment(c->m, c->ranks[k->rank].lane);

		if (k->parent == SR_NO_PARENT && sr_collect_border(c, first, k->rank, true, false))
			return -ENOMEM;
		k->first = first;
	}
	return c->m->is_full ? -ENOMEM : 0;
}

/* Nobody knows who was told that it has ended, nor when: its parent, from the fork on. */
static int end_unseen(struct sr_collect *c, const struct sr_race_child *k, uint32_t last)
{
	int err = sr_collect_border(c, last, k->rank, false, false);

	if (!err && k->forked != SR_NO_MOMENT)
		err = sr_collect_unseen_end(c, k->forked, k->parent, last);
	return err;
}

static void end_children(struct sr_collect *c)
{
	for (size_t i = 0; i < c->kin.n; i++) {
		const struct sr_race_child *k = &c->kin.children[i];
		const uint32_t last = c->m->lanes[c->ranks[k->rank].lane].last;

		sr_model_order(c->m, k->forked, k->first, SR_SURE, false);
		sr_model_order(c->m, last, k->waited, SR_SURE, false);
		if (k->waited == SR_NO_MOMENT && end_unseen(c, k, last))
			c->m->is_full = true;
	}
}

static int begin(struct sr_collect *c)
{
	const struct sr_links *links = c->how->links;

	c->producers = sr_race_producers_new();
	c->changes = SR_NO_MOMENT;
	c->ranks = calloc(links->ranks_n + 1, sizeof(*c->ranks));
	if (!c->producers || !c->ranks)
		return -ENOMEM;
	c->run->has_clocks = c->are_all_clocked = true;
	for (size_t i = 0; i < links->ranks_n; i++) {
		struct sr_collected_rank *r = &c->ranks[i];

		r->lane = sr_model_lane(c->m, false);
		r->moment = r->call = r->load = SR_NO_MOMENT;
		r->sampled = malloc(SR_SAMPLED_MOST * sizeof(*r->sampled));
		r->unseen = malloc(SR_SAMPLED_MOST * sizeof(*r->unseen));
		r->heard = calloc(links->ranks_n + 1, sizeof(*r->heard));
		if (!r->sampled || !r->unseen || !r->heard)
			return -ENOMEM;
		if (links->ranks[i].member < 0 && links->ranks[i].number < SR_FIRST_ADOPTED)
			c->run->has_clocks = false;
		else if (links->ranks[i].member < 0)
			c->are_all_clocked = false;
	}
	for (size_t i = 0; i < links->ends_n; i++)
		if (links->ends[i].peer == SR_NO_END)
			c->ranks[links->ends[i].rank].has_outside = true;
	return c->m->is_full ? -ENOMEM : begin_children(c);
}

static void end(struct sr_collect *c)
{
	sr_collect_end_positions(c);
	sr_collect_end_requests(c);
	sr_race_sockets_link(&c->sockets, c->m);
	end_children(c);
	sr_collect_follow_cm(c);
	c->run->shares_memory = c->sockets.shares_memory && !c->how->shared_is_seen;
	if (sr_collect_end_locks(c) || sr_collect_end_unclocked(c))
		c->m->is_full = true;
}

static void release(struct sr_collect *c)
{
	for (size_t i = 0; c->ranks && i < c->how->links->ranks_n; i++) {
		free(c->ranks[i].sampled);
		free(c->ranks[i].unseen);
		free(c->ranks[i].heard);
		free(c->ranks[i].clocked);
		free(c->ranks[i].gathered);
		free(c->ranks[i].fetched);
		sr_large_free(c->ranks[i].events, c->ranks[i].events_room, sizeof(*c->ranks[i].events));
		sr_keymap_free(&c->ranks[i].late_events);
		sr_keymap_free(&c->ranks[i].blind);
	}
	for (size_t i = 0; i < c->queues_n; i++) {
		sr_race_queue_free(&c->queues[i]->q);
		free(c->queues[i]->receives);
		free(c->queues[i]->pieces);
		free(c->queues[i]);
	}
	free(c->queues);
	free(c->ranks);
	sr_large_free(c->requests, c->requests_room, sizeof(*c->requests));
	sr_keymap_free(&c->queue_places);
	sr_race_producers_free(c->producers);
	sr_keymap_free(&c->arrived);
	sr_keymap_free(&c->last_fetched);
	sr_keymap_free(&c->closing_places);
	sr_keymap_free(&c->end_closings);
	free(c->closings);
	free(c->unclocked);
	sr_annotations_free(&c->annotations);
	free(c->cm);
	free(c->lock_requests);
	sr_large_free(c->fetched, c->fetched_room, sizeof(*c->fetched));
	sr_large_free(c->stored, c->stored_room, sizeof(*c->stored));
	sr_large_free(c->reads, c->reads_room, sizeof(*c->reads));
}

static int collect(struct sr_collect *c, const bool *all, struct sr_error *err)
{
	const struct sr_process_hooks hooks = {.posted = sr_collect_posted,
					       .value = sr_collect_value,
					       .completed = sr_collect_completed,
					       .received = sr_collect_received,
					       .receives = sr_collect_receives,
					       .released = sr_collect_released,
					       .closed = sr_collect_closed,
					       .annotated = sr_collect_annotated,
					       .cm = sr_collect_cm,
					       .clocked = sr_collect_clocked,
					       .wants = sr_collect_wants,
					       .passed = sr_collect_passed,
					       .progress = take_progress,
					       .argument = c};
	int ret;

	*c->run = (struct sr_race_run){0};
	ret = begin(c) ? sr_error_set(err, -ENOMEM, "no memory left")
		       : sr_process(c->how->trace, c->how->links, all, &hooks, &c->run->counts, err);
	if (ret)
		return ret;
	end(c);
	return c->run->model.is_full ? sr_error_set(err, -ENOMEM, "no memory left") : 0;
}

static void count_lacking(struct sr_collect *c)
{
	uint64_t value;

	c->results->lacking = 0;
	for (size_t i = 0; i < c->requests_n; i++)
		c->results->lacking += sr_op(c->requests[i].opcode) & SR_OP_ATOMIC && c->requests[i].over != SR_NO_MOMENT &&
				       !sr_keymap_get(&c->results->values, i + 1, &value);
}

/* What went through sockets is read once. */
static void release_pass(struct sr_collect *c, const struct sr_collect *fresh)
{
	struct sr_race_sockets sockets = c->sockets;
	struct sr_race_kin kin = c->kin;

	release(c);
	sr_race_run_free(c->run);
	if (c->how->watches)
		sr_race_watches_restart(c->how->watches);
	sr_race_sockets_restart(&sockets);
	sr_race_kin_restart(&kin);
	*c = *fresh;
	c->sockets = sockets;
	c->kin = kin;
	c->passes = 2;
}

/* A whole pass: where a request fetched into memory that others write, only a later load tells what it was. */
static int find_results(struct sr_collect *c, const bool *all, struct sr_error *err)
{
	int ret;

	c->finds_results = true;
	ret = collect(c, all, err);
	count_lacking(c);
	c->results->are_all = !ret;
	c->results->were_watched = c->how->watches;
	return ret;
}

static int take_passes(struct sr_collect *c, const struct sr_collect *fresh, const bool *all, struct sr_error *err)
{
	int ret = c->lacks_results ? 0 : collect(c, all, err);

	if (!c->lacks_results)
		return ret;
	release_pass(c, fresh);
	ret = find_results(c, all, err);
	if (ret)
		return ret;
	release_pass(c, fresh);
	c->pass = 1;
	return collect(c, all, err);
}

int sr_race_collect(struct sr_race_run *run, const struct sr_race_collecting *how, struct sr_error *err)
{
	struct sr_race_results own = {0}, *results = how->results ? how->results : &own;
	const struct sr_collect fresh = {.run = run, .how = how, .m = &run->model, .take_value = sr_collect_value,
					 .results = results, .passes = 1};
	struct sr_collect c = fresh;
	bool *all = malloc(how->links->ranks_n + 1);
	int ret;

	if (!all)
		return sr_error_set(err, -ENOMEM, "no memory left");
	memset(all, true, how->links->ranks_n + 1);
	/* Loads that were watched may tell what is lacking. */
	c.lacks_results = results->lacking && how->watches && !results->were_watched;
	ret = sr_race_kin_load(&c.kin, how->trace, err);
	if (!ret)
		ret = sr_race_sockets_load(&c.sockets, how->trace, &c.kin, err);
	if (!ret)
		ret = take_passes(&c, &fresh, all, err);
	/* None, if none were lacking. */
	if (!ret)
		results->are_all = true;
	release(&c);
	sr_race_sockets_free(&c.sockets);
	sr_race_kin_free(&c.kin);
	sr_race_results_free(&own);
	free(all);
	return ret;
}

void sr_race_results_free(struct sr_race_results *r)
{
	sr_keymap_free(&r->values);
	sr_keymap_free(&r->swapped);
}

void sr_race_run_free(struct sr_race_run *r)
{
	sr_model_free(&r->model);
	free(r->borders);
	sr_large_free(r->calls, r->calls_room, sizeof(*r->calls));
	free(r->benign);
	free(r->findings);
	free(r->skips);
	free(r->skipped);
}
