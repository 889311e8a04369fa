/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/rank/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay/host/output.h"
#include "replay/host/producers/found.h"
#include "replay/host/rank/replayed.h"
#include "replay/host/shared/memory.h"
#include "replay/host/start/packed.h"
#include "replay/host/verdict/json.h"
#include "replay/print/say.h"

static bool has_ended_as_recorded(const struct sr_replayed_rank *r, const struct sr_verdict *v)
{
	switch ((enum sr_replay_outcome)atomic_load(&r->control->outcome)) {
	case SR_REPLAY_EXACT:
	case SR_REPLAY_DIED:
	case SR_REPLAY_CUT:
	case SR_REPLAY_THREAD_CUT:
	case SR_REPLAY_EXECUTED:
	case SR_REPLAY_CAUSES_END:
		return true;
	case SR_REPLAY_RUNNING:
		return v->killed;
	default:
		return false; /* this rank ends the replay of the group */
	}
}

/* The rank was recorded with clocks if it has a member number in them. */
static bool has_clocks(const struct sr_replayed_rank *r)
{
	const json_t *member =
	    json_object_get(json_object_get(r->recorded.json, "extra"), "member");

	return json_is_integer(member) && json_integer_value(member) >= 0;
}

/* A killed process cannot report a request that the device did not repeat. */
static void find_not_transferred(struct sr_replayed_rank *r)
{
	const struct sr_work_items *e = &r->group->member[r->control->member].work_items;
	const uint64_t done = atomic_load(&e->done);
	const struct sr_group_call *call = &e->work_item[done % SR_GROUP_WORK_ITEMS].call;
	struct sr_replay_control *c = r->control;

	if (done == atomic_load(&e->asked))
		return;
	sr_report_call(&c->report, call);
	snprintf(c->not_transferred, sizeof(c->not_transferred), "%s",
		 atomic_load(&e->failed) ? e->text : "it was not done");
	atomic_store(&c->outcome, SR_REPLAY_NOT_TRANSFERRED);
}

/* The producers of all values are known once all members have ended. */
static bool save_found(struct sr_replayed_rank *r, struct sr_verdict *v, int group_fd)
{
	const struct sr_ended_group ended = {
	    .group = r->group,
	    .fd = group_fd,
	    .self = r->control->member,
	    .trace = r->trace,
	    .plan = r->plan,
	    .has_clocks = has_clocks(r),
	    .outsiders = r->options->outsiders,
	};
	struct sr_producers *p;
	bool saved;

	if (!r->plan)
		return true;
	/*
	 * Otherwise members that wait for it go on waiting until the replay is ended; their traces
	 * are not to blame.
	 */
	if (has_ended_as_recorded(r, v)) {
		sr_group_end_member(r->group, r->control->member);
		sr_group_await_end(r->group);
		find_not_transferred(r);
	}
	p = sr_producers_new(&ended);
	saved = sr_found_save(&ended, r->options->dir, r->plan, v->rank, p, &v->found);
	sr_producers_free(p);
	return saved;
}

static void fill_control(struct sr_replay_control *c, const struct sr_recorded *recorded,
			 uint64_t sns_before)
{
	c->sns_before = sns_before;
	for (int i = 0; sns_before && i < SR_REPLAY_THREADS; i++)
		atomic_store(&c->thread[i].calls, sns_before);
	c->stdout_line_buffered = recorded->stdout_line_buffered;
	memcpy(c->inherited, recorded->inherited, sizeof(c->inherited));
	c->main_stack = recorded->main_stack;
	c->trap = recorded->trap;
	c->tsc = recorded->tsc;
	c->descriptors_below = recorded->descriptors_below;
	c->huge_pages = recorded->huge_pages;
	c->serial = recorded->serial;
	c->pid = recorded->pid;
	c->processor = recorded->processor;
}

static void stop_feeders(struct sr_replayed_rank *r, struct sr_verdict *v)
{
	/* It ended before its first call: a thread's stream begins with that. */
	v->killed = !r->n_feeders;
	for (size_t i = 0; i < r->n_feeders; i++) {
		sr_feeder_stop(&r->feeders[i]);
		if (r->feeders[i].is_parents)
			continue;
		v->recorded_calls += r->feeders[i].calls;
		v->killed = v->killed || r->feeders[i].killed;
		v->writing = v->writing || r->feeders[i].writing;
		if (r->feeders[i].warning[0])
			v->warning = r->feeders[i].warning;
	}
}

/* The processes that this one has forked, and not those that these have. */
static uint32_t children_in_group(const struct sr_replayed_rank *r)
{
	const char *name = sr_trace_rank_name(r->trace, r->options->rank);
	const size_t n = strlen(name);
	uint32_t children = 0;

	for (uint32_t i = 0; r->group && i < r->group->members; i++) {
		const char *other = sr_trace_rank_name(r->trace, r->group->member[i].rank);

		children += !strncmp(other, name, n) && other[n] == '/' && !strchr(other + n + 1, '/');
	}
	return children;
}

static int run(struct sr_replayed_rank *r)
{
	struct sr_verdict v = {
	    .rank = r->options->rank,
	    .trace = r->trace,
	    .with_tool = r->options->tool.kind != SR_TOOL_NONE,
	    .debugged = r->options->tool.kind == SR_TOOL_GDB,
	    .image = sr_trace_image(r->trace, r->options->rank),
	    .images = sr_trace_images(r->trace, r->options->rank),
	    .calls_before = r->options->calls_before,
	    .children_before = r->options->children_before,
	    .children_in_group = children_in_group(r),
	};
	unsigned long limit;
	int status, group_fd;

	fill_control(r->control, &r->recorded, sr_trace_sns_before(r->forks.trace[0], r->forks.rank[0]));
	sr_forks_fill(&r->forks, r->control->fork);
	/* A tool that looks at the code or sets breakpoints finds it as it is in the file. */
	r->control->sums = sr_trace_has_sums(r->trace, v.rank);
	r->control->whole_job = r->group && r->group->members == sr_trace_ranks(r->trace);
	r->control->probes = r->options->tool.kind == SR_TOOL_NONE;
	atomic_store(&r->control->awaits_debugger, r->options->tool.kind == SR_TOOL_GDB);
	if (!sr_replayed_open_streams(r, &limit))
		return SR_EXIT_FAILED;
	group_fd = r->control->group_fd;
	if (!sr_replayed_start(r, limit))
		return SR_EXIT_FAILED;
	sr_replayed_await(r, &v);
	stop_feeders(r, &v);
	if (r->journal_fd >= 0)
		sr_output_keep(r->options->output, r->files_fd, r->journal_fd, r->recorded.cwd);
	if (!save_found(r, &v, group_fd))
		return SR_EXIT_FAILED;
	if (!v.stuck && !sr_replayed_is_exact(r))
		sr_replayed_load_print(r, &v);
	status = sr_verdict_say(&v, r->control);
	if (r->options->json >= 0)
		sr_verdict_write(r->options->json, &v, r->control, status);
	atomic_store(&r->control->verdict, v.how);
	sr_schema_free(v.with.schema);
	sr_symbols_free(v.with.symbols);
	return status;
}

/* The least trusted of its processes decides. */
static enum sr_trust trust_all(const struct sr_replayed_rank *r)
{
	enum sr_trust trust = SR_TRUST_FULLY;

	for (size_t i = 0; i < r->forks.n && trust == SR_TRUST_FULLY; i++)
		trust = sr_trust_of(r->forks.trace[i], r->forks.dir[i], r->forks.rank[i],
				    r->options->no_sandbox,
				    sr_packed_is_needed(r->forks.dir[0], r->recorded.json));
	return trust;
}

static bool may_run(struct sr_replayed_rank *r)
{
	const struct sr_rank_options *o = r->options;

	r->trust = trust_all(r);
	if (r->trust == SR_TRUST_CONFINED && !o->files)
		return !sr_fail("--live-files lets a program of a stranger's trace change files: "
				"give --no-sandbox as well if you trust who made it");
	return r->trust != SR_TRUST_REFUSED;
}

int sr_rank_replay(struct sr_trace *t, const struct sr_rank_options *o,
		   struct sr_replay_control *control, int control_fd, struct sr_group *group)
{
	struct sr_replayed_rank r = {
	    .trace = t,
	    .options = o,
	    .control = control,
	    .control_fd = control_fd,
	    .group = group,
	    .files_fd = -1,
	    .journal_fd = -1,
	    .rings.fd = -1,
	};
	int status = SR_EXIT_FAILED;

	if (!sr_forks_open(&r.forks, t, o->rank))
		return status;
	if (!sr_recorded_load(&r.recorded, r.forks.trace[0], r.forks.rank[0], r.forks.dir[0]))
		return status;
	if (r.recorded.from_open)
		sr_fail("rank %s loaded libibverbs after it had started, and what it did "
			"before is not recorded: to replay it, record it with --from-start",
			sr_trace_rank_name(t, o->rank));
	else if (sr_recorded_check_files(&r.recorded, r.forks.dir[0]) && sr_trust_check_environment(&r.recorded) &&
		 may_run(&r) && sr_replayed_open_files(&r))
		status = run(&r);
	sr_recorded_free(&r.recorded);
	if (r.rings.fd >= 0)
		close(r.rings.fd);
	free(r.feeders);
	free(r.orders);
	sr_plan_close(r.plan);
	sr_forks_close(&r.forks);
	return status;
}
