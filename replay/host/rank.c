/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/rank.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "logd/base/highfd.h"
#include "replay/host/start/packed.h"
#include "replay/analysis/log/sizes.h"
#include "replay/print/progress.h"
#include "replay/print/say.h"
#include "replay/host/feeder.h"
#include "replay/host/files.h"
#include "replay/host/forks.h"
#include "replay/host/producers/found.h"
#include "replay/host/shared/memory.h"
#include "replay/host/orders.h"
#include "replay/host/output.h"
#include "replay/host/start/recorded.h"
#include "replay/host/start/trust.h"
#include "replay/host/streams.h"
#include "replay/host/stuck.h"
#include "replay/host/verdict_json.h"

#define TICK_MS     100

/* All rings are filled from the start; with many threads, most streams are short. */
#define RING        (4u << 20)
#define SMALL_RING  (256u << 10)
#define FEW_THREADS 64
#define SPARE_FDS   1024 /* besides those of the rings */

struct replay {
	struct sr_trace *trace;
	struct sr_forks forks; /* the first one's process is started */
	const struct sr_rank_options *options;
	struct sr_recorded recorded;
	struct sr_replay_control *control;
	int control_fd;
	struct sr_group *group; /* NULL: alone */
	struct sr_plan *plan;   /* in a group */
	struct sr_orders *orders;
	struct sr_feeder *feeders;
	size_t n_feeders;
	enum sr_trust trust;
	int files_fd, journal_fd; /* as in the control page, which the process changes */
	pid_t child;            /* the program, or the tool that runs it */
};

/* ------------------------------------------------------------ preparation */

/*
 * Raises the limit on open descriptors as far as the system allows: this process and the replayed
 * one have a ring for each thread.  Returns the old limit, which the replayed process gets back
 * before it runs; 0: not known.
 */
static unsigned long raise_limit(size_t needed)
{
	struct rlimit limit;
	unsigned long before;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	before = limit.rlim_cur;
	if (limit.rlim_cur < needed) {
		limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	return before;
}

static bool open_orders(struct replay *r, size_t i, uint32_t thread)
{
	struct sr_error err;

	if (sr_orders_open(&r->orders[i], r->plan, r->group, r->options->rank, thread, &err)) {
		sr_fail("%s", err.text);
		return false;
	}
	r->feeders[i].orders = &r->orders[i];
	return true;
}

static bool open_plan(struct replay *r)
{
	struct sr_error err;
	const uint32_t *threads;
	size_t n = sr_trace_threads(r->trace, r->options->rank, &threads);

	if (!r->group)
		return true;
	if (sr_plan_open(&r->plan, r->trace, &err)) {
		sr_fail("%s", err.text);
		return false;
	}
	r->orders = calloc(n ? n : 1, sizeof(*r->orders));
	r->control->found_fd = sr_found_open();
	return r->orders && r->control->found_fd >= 0;
}

static bool open_listed(struct replay *r, const bool *listed, size_t n)
{
	size_t ring_bytes = n > FEW_THREADS ? SMALL_RING : RING;

	for (uint32_t thread = 0; thread < SR_REPLAY_THREADS; thread++) {
		size_t i = r->n_feeders;

		if (!listed[thread])
			continue;
		if (!sr_streams_open(&r->feeders[i], &r->forks, r->control->fork, r->options->rank, thread,
				     ring_bytes))
			return false;
		r->n_feeders++;
		if (r->plan && !open_orders(r, i, thread))
			return false;
		r->control->stream_fd[thread] = r->feeders[i].ring.fd;
		r->control->threads = thread + 1;
	}
	return true;
}

static bool open_feeders(struct replay *r, unsigned long *limit)
{
	size_t n;
	bool *listed = sr_streams_list(&r->forks, r->options->rank, &n), done;

	if (!listed)
		return false;
	*limit = raise_limit(3 * n + SPARE_FDS);
	r->feeders = calloc(n ? n : 1, sizeof(*r->feeders));
	for (uint32_t i = 0; i < SR_REPLAY_THREADS; i++)
		r->control->stream_fd[i] = -1;
	done = r->feeders && open_listed(r, listed, n);
	free(listed);
	return done;
}

/*
 * The directory of this rank's private files (shim/files/private.c), which its images share: what one
 * has written, the next one reads.
 */
static int make_private(const char *files, int32_t rank, uint32_t image)
{
	char dir[PATH_MAX], before[32];
	int fd;

	snprintf(dir, sizeof(dir), "%s/rank-%d", files, rank);
	if (mkdir(dir, 0700) && (!image || errno != EEXIST))
		return -1;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || (mkdirat(fd, "empty", 0700) && (!image || errno != EEXIST)))
		return -1;
	/* Each image has its own. */
	snprintf(before, sizeof(before), "before-%u", image);
	if (image && (renameat(fd, "kept", fd, before) || (unlinkat(fd, "journal", 0) && errno != ENOENT)) &&
	    errno != ENOENT)
		return -1;
	return mkdirat(fd, "kept", 0700) ? -1 : fd;
}

static bool open_journal(struct replay *r)
{
	r->journal_fd = openat(r->files_fd, "journal", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	r->control->journal_fd = r->journal_fd;
	if (r->journal_fd >= 0 && (!mkdir(r->options->output, 0777) || errno == EEXIST))
		return true;
	return !sr_fail("cannot make %s: %s", r->options->output, strerror(errno));
}

/*
 * The last first, because a number that two of the processes have used is the child's: the parent's
 * is a file that it read after the fork.
 */
static bool link_kept(const struct replay *r)
{
	int kept = openat(r->files_fd, "kept", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool linked = kept >= 0;

	for (size_t i = r->forks.n; linked && i--;)
		linked = sr_files_link(r->forks.trace[i], r->options->rank, r->forks.dir[i], kept);
	close(kept);
	return linked;
}

static bool check_files(const struct replay *r, bool kept)
{
	bool good = true;

	for (size_t i = 0; good && i < r->forks.n; i++)
		good = sr_files_check(r->forks.trace[i], r->options->rank, kept);
	return good;
}

/* Prepares the private files, and prints which of the program's inputs have changed. */
static bool prepare_files(struct replay *r)
{
	const struct sr_rank_options *o = r->options;

	if (!o->files)
		return check_files(r, false);
	if (!r->recorded.trap)
		return !sr_fail("rank %d was recorded without the system-call trap, so a replay cannot "
				"keep apart what it writes: --live-files lets it write to the "
				"files of this machine",
				o->rank);
	r->files_fd = r->control->files_fd = make_private(o->files, o->rank, sr_trace_image(r->trace, o->rank));
	if (r->files_fd < 0)
		return !sr_fail("cannot make %s/rank-%d: %s", o->files, o->rank, strerror(errno));
	if (o->output && !open_journal(r))
		return false;
	return link_kept(r) && check_files(r, true);
}

/* ---------------------------------------------------------- the child */

/* To a number from `from` on; where no more are left there, to a lower one. */
static bool pass(int32_t *fd, int from, int *lowest)
{
	int high = fcntl(*fd, F_DUPFD, from);

	for (; high < 0 && from > 5; from /= 2)
		high = fcntl(*fd, F_DUPFD, from / 2);
	if (high < 0)
		return false;
	/* Rings have high numbers themselves. */
	close(*fd);
	*fd = high;
	*lowest = high < *lowest ? high : *lowest;
	return true;
}

/* The limit on open files as far up as it goes. */
static bool open_up(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return false;
	limit.rlim_cur = limit.rlim_max;
	return !setrlimit(RLIMIT_NOFILE, &limit);
}

/*
 * Moves the descriptors that the process needs to numbers that the program's own do not reach, and
 * closes all others.  *lowest: of them.
 */
static bool pass_descriptors(struct replay *r, int *lowest)
{
	struct sr_replay_control *c = r->control;
	int floor = sr_fd_floor(), from = floor + 1;

	*lowest = floor;
	if (!open_up())
		return false;
	for (uint32_t i = 0; i < c->threads; i++) {
		if (c->stream_fd[i] >= 0 && !pass(&c->stream_fd[i], from, lowest))
			return false;
	}
	if (c->group_fd >= 0 && (!pass(&c->group_fd, from, lowest) || !pass(&c->found_fd, from, lowest)))
		return false;
	if (c->files_fd >= 0 && !pass(&c->files_fd, from, lowest))
		return false;
	if (c->journal_fd >= 0 && !pass(&c->journal_fd, from, lowest))
		return false;
	if (c->watch_fd >= 0 && !pass(&c->watch_fd, from, lowest))
		return false;
	if (c->stacks_fd >= 0 && !pass(&c->stacks_fd, from, lowest))
		return false;
	if (c->produced_fd >= 0 && !pass(&c->produced_fd, from, lowest))
		return false;
	if (dup2(r->control_fd, floor) < 0)
		return false;
	return !syscall(SYS_close_range, 3, *lowest - 1, 0);
}

/* The program gets the descriptors that it had, whatever the limit was or is. */
static unsigned long limit_for(const struct replay *r, unsigned long before)
{
	unsigned long recorded = (unsigned long)r->recorded.descriptors_below;

	return recorded > before ? recorded : before;
}

/* A tool starts the program itself. */
static bool is_laid_out(const struct replay *r)
{
	return r->options->tool.kind == SR_TOOL_NONE && r->recorded.layout.libraries_below;
}

static void __attribute__((noreturn))
become_recorded(struct replay *r, unsigned long limit, pid_t parent)
{
	struct sr_launch launch = {
	    .recorded = &r->recorded,
	    .tool = &r->options->tool,
	    .trace = r->forks.dir[0],
	    .rank = r->options->rank,
	    .image = sr_trace_image(r->forks.trace[0], r->options->rank),
	    .open_files = limit_for(r, limit),
	    .laid_out = is_laid_out(r),
	    .confined = r->trust == SR_TRUST_CONFINED,
	};

	/* Init would become the tracer of a child whose parent has died already: see layout.c. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(SR_REPLAY_EXIT_FAILED);
	if (!pass_descriptors(r, &launch.lowest_fd)) {
		sr_fail("cannot pass descriptors on: %s; is the hard limit on open files (ulimit "
			"-Hn) under %u?",
			strerror(errno), r->control->threads + 64);
		_exit(SR_REPLAY_EXIT_FAILED);
	}
	launch.files_fd = r->control->files_fd;
	sr_launch(&launch);
}

static bool start_child(struct replay *r, unsigned long limit)
{
	pid_t self = getpid();

	/* A replayed process that goes on as its child leaves that to this one. */
	if (r->forks.n > 1)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	r->child = fork();
	if (r->child < 0) {
		sr_fail("cannot fork: %s", strerror(errno));
		return false;
	}
	if (r->child == 0)
		become_recorded(r, limit, self);
	if (is_laid_out(r))
		sr_layout_apply(r->child, &r->recorded.layout, &r->recorded.processor,
				&r->control->cpuid_traced);
	for (size_t i = 0; i < r->n_feeders; i++)
		if (sr_feeder_start(&r->feeders[i]))
			return false;
	return true;
}

/* ------------------------------------------------------------- watching it */

static bool child_has_ended(const struct replay *r)
{
	siginfo_t info = {0};

	usleep(TICK_MS * 1000);
	return !waitid(P_PID, (id_t)r->child, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

/* A thread that waits for another rank makes progress if that rank does. */
static bool waits_for_group(const struct replay *r)
{
	for (uint32_t i = 0; i < r->control->threads; i++)
		if (atomic_load(&r->control->thread[i].waits_for_sn))
			return true;
	return atomic_load(&r->group->member[r->control->member].waiting) > 0;
}

static uint64_t progress(const struct replay *r)
{
	uint64_t calls = sr_replay_calls(r->control);

	if (!r->group || !waits_for_group(r))
		return calls;
	for (uint32_t m = 0; m < r->group->members; m++)
		for (uint32_t i = 0; i < SR_REPLAY_THREADS; i++)
			calls += atomic_load(&r->group->member[m].entered[i]);
	return calls;
}

static bool is_exact(const struct replay *r)
{
	return atomic_load(&r->control->outcome) == SR_REPLAY_EXACT;
}

static bool is_over(const struct replay *r)
{
	return r->group && is_exact(r);
}

/* A replay computes as fast as the recording, or a little slower. */
#define SPARE_MS 2000

/* Nobody knows how long the recorded process went on behind the end of a trace that was cut short. */
#define CUT_SPARE_MS 5000

/*
 * The recorded process was killed, or its trace cut short, the replayed one has made all its calls, and has computed
 * for longer since than the recorded one had: it does not end by itself.
 */
static bool is_where_trace_ends(const struct replay *r, long idle_ms)
{
	uint64_t calls = 0, quiet_ms = 0;
	bool killed = false, cut = false;

	for (size_t i = 0; i < r->n_feeders; i++) {
		const struct sr_feeder *f = &r->feeders[i];

		if (f->is_parents)
			continue;
		if (!atomic_load(&f->all_sent))
			return false;
		killed = killed || f->killed;
		cut = cut || f->cut;
		calls += f->calls;
		quiet_ms = i && f->quiet_ms > quiet_ms ? quiet_ms : f->quiet_ms;
	}
	return (killed || cut) && calls == sr_replay_calls(r->control) &&
	       (uint64_t)idle_ms >= quiet_ms + quiet_ms / 2 + (cut ? CUT_SPARE_MS : SPARE_MS);
}

static void end_where_trace_ends(const struct replay *r)
{
	struct sr_replay_control *c = r->control;

	atomic_store(&c->outcome, SR_REPLAY_DIED);
	for (uint32_t i = 0; i < r->n_feeders; i++) {
		if (!r->feeders[i].cut)
			continue;
		c->report.thread = i;
		c->report.sn = atomic_load(&c->thread[i].calls) + 1;
		atomic_store(&c->outcome, SR_REPLAY_CUT);
	}
	kill(r->child, SIGKILL);
}

enum waited { ENDED, STUCK, WHERE_TRACE_ENDS };

static void show_progress(const struct replay *r, sr_progress bar)
{
	struct sr_replay_control *c = r->control;
	uint64_t read = 0;

	for (size_t i = 0; i < r->n_feeders; i++)
		read += atomic_load_explicit(&r->feeders[i].read, memory_order_relaxed);
	atomic_store(&c->trace_read, read);
	if (bar)
		bar((double)read / (double)atomic_load(&c->trace_size));
}

/* Waits until the child has ended, or has made no call for so many seconds (0: no limit). */
static enum waited await_child(const struct replay *r, long seconds)
{
	struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, r->child, 0), .events = POLLIN};
	uint64_t before = 0;
	long idle_ms = 0;
	enum waited end = ENDED;
	sr_progress bar;

	atomic_store(&r->control->trace_size, sr_stream_bytes_of_image(r->trace, r->options->rank));
	bar = sr_progress_begin("replaying", atomic_load(&r->control->trace_size), !r->options->bar);
	/* Without pidfds (old kernels, sandboxes) it asks for the child's state. */
	while (end == ENDED && !(p.fd < 0 ? child_has_ended(r) : poll(&p, 1, TICK_MS) > 0)) {
		uint64_t calls = progress(r);

		idle_ms = calls == before ? idle_ms + TICK_MS : 0;
		before = calls;
		show_progress(r, bar);
		if (seconds && !is_over(r) && is_where_trace_ends(r, idle_ms))
			end = WHERE_TRACE_ENDS;
		else if (seconds && idle_ms >= seconds * 1000 && !is_over(r))
			end = STUCK;
	}
	sr_progress_end();
	if (p.fd >= 0)
		close(p.fd);
	return end;
}

/* Loaded only for messages about calls: reading the schema takes longer than many a replay. */
static void load_print(const struct replay *r, struct sr_verdict *v)
{
	v->with.schema = sr_schema_of(r->trace, v->rank, NULL);
	v->with.symbols = sr_symbols_new(json_object_get(r->recorded.json, "objects"));
}

/* The process has forked, and its child is watched in its place.  A tool follows by itself. */
static bool goes_on_as_child(struct replay *r)
{
	pid_t child = atomic_exchange(&r->control->continued_as, 0);

	if (!child || r->options->tool.kind != SR_TOOL_NONE)
		return false;
	while (waitpid(r->child, NULL, 0) < 0 && errno == EINTR)
		;
	r->child = child;
	return true;
}

/* Waits for the end.  Kills a child that makes no progress, after printing where it is. */
static void wait_for_child(struct replay *r, struct sr_verdict *v)
{
	struct sr_stuck stuck = {
	    .trace = r->trace,
	    .rank = v->rank,
	    .seconds = r->options->timeout,
	    .process = r->child,
	    .control = r->control,
	    .with = &v->with,
	};

	enum waited how = await_child(r, r->options->timeout);

	while (how == ENDED && goes_on_as_child(r))
		how = await_child(r, r->options->timeout);

	v->stuck = how == STUCK;
	if (how == WHERE_TRACE_ENDS)
		end_where_trace_ends(r);
	if (v->stuck) {
		load_print(r, v);
		/* With a tool, the child is the tool. */
		if (atomic_load(&r->control->process))
			stuck.process = atomic_load(&r->control->process);
		sr_stuck_say(&stuck);
		kill(r->child, SIGKILL);
	}
	while (waitpid(r->child, &v->wait_status, 0) < 0 && errno == EINTR)
		;
}

/* ------------------------------------------------------------------- all */

static bool has_ended_as_recorded(const struct replay *r, const struct sr_verdict *v)
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
static bool has_clocks(const struct replay *r)
{
	const json_t *member =
	    json_object_get(json_object_get(r->recorded.json, "extra"), "member");

	return json_is_integer(member) && json_integer_value(member) >= 0;
}

/* A killed process cannot report a request that the device did not repeat. */
static void find_not_transferred(struct replay *r)
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
static bool save_found(struct replay *r, struct sr_verdict *v, int found, int group_fd)
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
	saved = sr_found_save(found, r->options->dir, r->plan, v->rank, p, &v->found);
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
	c->serial = recorded->serial;
	c->pid = recorded->pid;
	c->processor = recorded->processor;
}

static void stop_feeders(struct replay *r, struct sr_verdict *v)
{
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

static int run(struct replay *r)
{
	struct sr_verdict v = {
	    .rank = r->options->rank,
	    .trace = r->trace,
	    .with_tool = r->options->tool.kind != SR_TOOL_NONE,
	    .debugged = r->options->tool.kind == SR_TOOL_GDB,
	    .image = sr_trace_image(r->trace, r->options->rank),
	    .images = sr_trace_images(r->trace, r->options->rank),
	    .calls_before = r->options->calls_before,
	};
	unsigned long limit;
	int status, found, group_fd;

	fill_control(r->control, &r->recorded, sr_trace_sns_before(r->forks.trace[0], v.rank));
	sr_forks_fill(&r->forks, v.rank, r->control->fork);
	/* A tool that looks at the code or sets breakpoints finds it as it is in the file. */
	r->control->sums = sr_trace_has_sums(r->trace, v.rank);
	r->control->whole_job = r->group && r->group->members == sr_trace_ranks(r->trace);
	r->control->probes = r->options->tool.kind == SR_TOOL_NONE;
	if (!open_plan(r) || !open_feeders(r, &limit))
		return SR_EXIT_FAILED;
	found = r->control->found_fd;
	group_fd = r->control->group_fd;
	if (!start_child(r, limit))
		return SR_EXIT_FAILED;
	wait_for_child(r, &v);
	stop_feeders(r, &v);
	if (r->journal_fd >= 0)
		sr_output_keep(r->options->output, r->files_fd, r->journal_fd, r->recorded.cwd);
	if (!save_found(r, &v, found, group_fd))
		return SR_EXIT_FAILED;
	if (!v.stuck && !is_exact(r))
		load_print(r, &v);
	status = sr_verdict_say(&v, r->control);
	if (r->options->json >= 0)
		sr_verdict_write(r->options->json, &v, r->control, status);
	atomic_store(&r->control->verdict, v.how);
	sr_schema_free(v.with.schema);
	sr_symbols_free(v.with.symbols);
	return status;
}

/* The least trusted of its processes decides. */
static enum sr_trust trust_all(const struct replay *r)
{
	enum sr_trust trust = SR_TRUST_FULLY;

	for (size_t i = 0; i < r->forks.n && trust == SR_TRUST_FULLY; i++)
		trust = sr_trust_of(r->forks.trace[i], r->forks.dir[i], r->options->rank,
				    r->options->no_sandbox,
				    sr_packed_is_needed(r->forks.dir[0], r->recorded.json));
	return trust;
}

static bool may_run(struct replay *r)
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
	struct replay r = {
	    .trace = t,
	    .options = o,
	    .control = control,
	    .control_fd = control_fd,
	    .group = group,
	    .files_fd = -1,
	    .journal_fd = -1,
	};
	int status = SR_EXIT_FAILED;

	if (!sr_forks_open(&r.forks, t, o->dir, o->rank))
		return status;
	if (r.forks.n > 1 && group)
		return sr_fail("rank %d of %s is a child, which is replayed alone", o->rank, o->dir);
	if (!sr_recorded_load(&r.recorded, r.forks.trace[0], o->rank, r.forks.dir[0]))
		return status;
	if (r.recorded.from_open)
		sr_fail("rank %d loaded libibverbs after it had started, and what it did "
			"before is not recorded: to replay it, record it with --from-start",
			o->rank);
	else if (sr_recorded_check_files(&r.recorded, r.forks.dir[0]) && sr_trust_check_environment(&r.recorded) &&
		 may_run(&r) && prepare_files(&r))
		status = run(&r);
	sr_recorded_free(&r.recorded);
	free(r.feeders);
	free(r.orders);
	sr_plan_close(r.plan);
	sr_forks_close(&r.forks);
	return status;
}
