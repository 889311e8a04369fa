/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "replay/analysis/log/sizes.h"
#include "replay/host/rank/replayed.h"
#include "replay/host/stuck.h"
#include "replay/print/progress.h"

#define TICK_MS     100

static bool child_has_ended(const struct sr_replayed_rank *r)
{
	siginfo_t info = {0};

	usleep(TICK_MS * 1000);
	return !waitid(P_PID, (id_t)r->child, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

/* A thread that waits for another rank makes progress if that rank does. */
static bool waits_for_group(const struct sr_replayed_rank *r)
{
	for (uint32_t i = 0; i < r->control->threads; i++)
		if (atomic_load(&r->control->thread[i].waits_for_sn))
			return true;
	return atomic_load(&r->group->member[r->control->member].waiting) > 0;
}

/* What was recorded, and has been done: calls, and stops between them. */
static uint64_t progress(const struct sr_replayed_rank *r)
{
	uint64_t done = sr_replay_calls(r->control);

	for (uint32_t i = 0; i < r->control->threads; i++)
		done += atomic_load(&r->control->thread[i].places) + atomic_load(&r->control->thread[i].accesses_seen);
	if (!r->group || !waits_for_group(r))
		return done;
	for (uint32_t m = 0; m < r->group->members; m++)
		done += atomic_load(&r->group->member[m].moves);
	return done;
}

static uint64_t seen_on_way(const struct sr_replay_control *c)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < c->threads; i++)
		n += atomic_load(&c->thread[i].seen_on_way);
	return n;
}

bool sr_replayed_is_exact(const struct sr_replayed_rank *r)
{
	return atomic_load(&r->control->outcome) == SR_REPLAY_EXACT;
}

static bool is_over(const struct sr_replayed_rank *r)
{
	return r->group && sr_replayed_is_exact(r);
}

/* A replay computes as fast as the recording, or a little slower. */
#define SPARE_MS 2000

/* Nobody knows how long the recorded process went on behind the end of a trace that was cut short. */
#define CUT_SPARE_MS 5000

/* So many calls are in the trace; UINT64_MAX: the process has not got all of its records yet. */
static uint64_t recorded_calls(const struct sr_replayed_rank *r)
{
	uint64_t calls = 0;

	for (size_t i = 0; i < r->n_feeders; i++) {
		const struct sr_feeder *f = &r->feeders[i];

		if (f->is_parents)
			continue;
		if (!atomic_load(&f->all_sent))
			return UINT64_MAX;
		calls += f->calls;
	}
	return calls;
}

#define STILL_MS 1000

/* What the kernel says of a thread: R, where it runs, or waits for a processor, which may take seconds on a busy machine. */
static bool is_asleep(pid_t process, const char *thread)
{
	char path[64], text[256], *state;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", process, thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return true; /* it has ended */
	text[n] = 0;
	state = strrchr(text, ')'); /* behind the thread's name, which may hold anything */
	return state && state[1] && strchr("SZX", state[2]);
}

static bool all_are_asleep(pid_t process)
{
	char path[64];
	const struct dirent *e;
	bool asleep = true;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", process);
	tasks = opendir(path);
	while (tasks && asleep && (e = readdir(tasks)))
		asleep = e->d_name[0] == '.' || is_asleep(process, e->d_name);
	if (tasks)
		closedir(tasks);
	return asleep;
}

/*
 * Either all calls are made, or all threads of the process wait, and not for another rank: for what a thread would do
 * whose trace ends before.  Called at each tick.
 */
static bool nothing_comes(const struct sr_replayed_rank *r, long idle_ms, long *still_ms)
{
	const uint64_t recorded = recorded_calls(r);

	if (!idle_ms || recorded == UINT64_MAX || (r->group && waits_for_group(r)) || !all_are_asleep(r->child))
		*still_ms = 0;
	else
		*still_ms += TICK_MS;
	return recorded == sr_replay_calls(r->control) || *still_ms >= STILL_MS;
}

/*
 * The recorded process was killed, or its trace cut short, the replayed one has made all its calls, and has computed
 * for longer since than the recorded one had, or for as long as a replay may (is_too_long): it does not end by itself.
 */
static bool is_where_trace_ends(const struct sr_replayed_rank *r, long idle_ms, bool is_too_long)
{
	uint64_t quiet_ms = 0;
	bool killed = false, cut = false;

	if (recorded_calls(r) != sr_replay_calls(r->control))
		return false;
	for (size_t i = 0; i < r->n_feeders; i++) {
		const struct sr_feeder *f = &r->feeders[i];

		if (f->is_parents)
			continue;
		killed = killed || f->killed;
		cut = cut || f->cut;
		quiet_ms = i && f->quiet_ms > quiet_ms ? quiet_ms : f->quiet_ms;
	}
	return (killed || cut) && (is_too_long || (uint64_t)idle_ms >= quiet_ms + quiet_ms / 2 + (cut ? CUT_SPARE_MS : SPARE_MS));
}

static void end_where_trace_ends(const struct sr_replayed_rank *r)
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

static void show_progress(const struct sr_replayed_rank *r, sr_progress bar)
{
	struct sr_replay_control *c = r->control;
	uint64_t read = 0;

	for (size_t i = 0; i < r->n_feeders; i++)
		read += atomic_load_explicit(&r->feeders[i].read, memory_order_relaxed);
	atomic_store(&c->trace_read, read);
	if (bar)
		bar((double)read / (double)atomic_load(&c->trace_size));
}

/*
 * A thread on its way to the place where it was stopped compares in each turn of its loop, which takes far longer than the turn.
 * So much more time has it: one that missed its place may turn for ever.
 */
#define TIMES_ON_WAY 10

struct idle {
	uint64_t done, seen;  /* at the last tick */
	int64_t cpu_ms;       /* at the last tick: of the process */
	long ms, standing_ms; /* since something was done; since that, or a thread was seen on its way */
};

/* Processor time that it has used so far; 0: it has ended. */
static int64_t cpu_ms(pid_t process)
{
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(process, &clock) || clock_gettime(clock, &used))
		return 0;
	return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

/*
 * How much of a tick counts.  On a busy machine a process that computes may get a processor for a small part of it, and only that can
 * have brought it further.  One that sleeps has had all of it.
 */
static long share_of_tick(const struct sr_replayed_rank *r, struct idle *idle)
{
	const int64_t before = idle->cpu_ms;

	idle->cpu_ms = cpu_ms(r->child);
	if (all_are_asleep(r->child) || idle->cpu_ms - before >= TICK_MS)
		return TICK_MS;
	return idle->cpu_ms > before ? (long)(idle->cpu_ms - before) : 1;
}

static void tick(const struct sr_replayed_rank *r, struct idle *idle)
{
	uint64_t done = progress(r), seen = seen_on_way(r->control);
	const long ms = share_of_tick(r, idle);

	idle->ms = done == idle->done ? idle->ms + ms : 0;
	idle->standing_ms = !idle->ms || seen != idle->seen ? 0 : idle->standing_ms + ms;
	idle->done = done;
	idle->seen = seen;
}

static bool is_too_long(const struct idle *idle, long seconds)
{
	return idle->standing_ms >= seconds * 1000 || idle->ms >= TIMES_ON_WAY * seconds * 1000;
}

/* Waits until the child has ended, or has done nothing of what was recorded for so many seconds (0: no limit). */
static enum waited await_child(const struct sr_replayed_rank *r, long seconds, struct idle *idle)
{
	struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, r->child, 0), .events = POLLIN};
	long still_ms = 0;
	enum waited end = ENDED;
	sr_progress bar;

	*idle = (struct idle){0};
	atomic_store(&r->control->trace_size, sr_stream_bytes_of_image(r->trace, r->options->rank));
	bar = sr_progress_begin("replaying", atomic_load(&r->control->trace_size), !r->options->bar);
	/* Without pidfds (old kernels, sandboxes) it asks for the child's state. */
	while (end == ENDED && !(p.fd < 0 ? child_has_ended(r) : poll(&p, 1, TICK_MS) > 0)) {
		tick(r, idle);
		show_progress(r, bar);
		atomic_store(&r->control->nothing_comes, nothing_comes(r, idle->ms, &still_ms));
		if (!seconds || is_over(r))
			continue;
		if (is_where_trace_ends(r, idle->ms, is_too_long(idle, seconds)))
			end = WHERE_TRACE_ENDS;
		else if (is_too_long(idle, seconds))
			end = STUCK;
	}
	sr_progress_end();
	if (p.fd >= 0)
		close(p.fd);
	return end;
}

void sr_replayed_load_print(const struct sr_replayed_rank *r, struct sr_verdict *v)
{
	v->with.schema = sr_schema_of(r->trace, v->rank, NULL);
	v->with.symbols = sr_symbols_new(json_object_get(r->recorded.json, "objects"));
}

/* The process has forked, and its child is watched in its place.  A tool follows by itself. */
static bool goes_on_as_child(struct sr_replayed_rank *r)
{
	pid_t child = atomic_exchange(&r->control->continued_as, 0);

	if (!child || r->options->tool.kind != SR_TOOL_NONE)
		return false;
	while (waitpid(r->child, NULL, 0) < 0 && errno == EINTR)
		;
	r->child = child;
	return true;
}

void sr_replayed_await(struct sr_replayed_rank *r, struct sr_verdict *v)
{
	struct idle idle = {0};
	struct sr_stuck stuck = {
	    .trace = r->trace,
	    .rank = v->rank,
	    .process = r->child,
	    .control = r->control,
	    .with = &v->with,
	};

	enum waited how = await_child(r, r->options->timeout, &idle);

	while (how == ENDED && goes_on_as_child(r))
		how = await_child(r, r->options->timeout, &idle);

	v->stuck = how == STUCK;
	if (how == WHERE_TRACE_ENDS)
		end_where_trace_ends(r);
	if (v->stuck) {
		sr_replayed_load_print(r, v);
		/* With a tool, the child is the tool. */
		stuck.seconds = idle.ms / 1000;
		if (atomic_load(&r->control->process))
			stuck.process = atomic_load(&r->control->process);
		sr_stuck_say(&stuck);
		kill(r->child, SIGKILL);
	}
	while (waitpid(r->child, &v->wait_status, 0) < 0 && errno == EINTR)
		;
}
