/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/group/conduct.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay/host/shared/control.h"
#include "replay/analysis/log/sizes.h"
#include "replay/print/progress.h"
#include "replay/print/say.h"
#include "replay/print/terminal.h"
#include "replay/host/shared/memory.h"
#include "replay/host/group/relay.h"
#include "replay/host/group/state.h"
#include "replay/host/group/transport.h"
#include "replay/host/rank/images.h"
#include "replay/host/verdict/verdict.h"

struct worker {
	int32_t rank;
	pid_t pid; /* 0: not started, or reaped */
	struct sr_replay_control *control;
	int control_fd;
	struct sr_relay out, err;
	bool has_terminal; /* a debugger's: nothing is relayed */
	bool ended;
	int status; /* what sr_rank_replay returned, once ended */
};

struct conductor {
	const struct sr_conduct *c;
	struct sr_transport *transport; /* the caller's */
	struct worker *workers;
	int signals;                 /* a signalfd */
	int by;                      /* the signal that is to end all; 0: none */
	const struct worker *failed; /* it did not do what was recorded, and ended the others */
};

/* ---------------------------------------------------------------- starting */

static const char *name_of(const struct conductor *d, const struct worker *w)
{
	return sr_trace_rank_name(d->c->trace, w->rank);
}

/* DIR/rank-3, or DIR/rank-3.child-1 of rank 3/1; and the suffix. */
static void output_path(const struct conductor *d, const struct worker *w, const char *suffix, char path[PATH_MAX])
{
	const char *name = name_of(d, w);
	size_t n = (size_t)snprintf(path, PATH_MAX / 2, "%s/rank-", d->c->output ? d->c->output : "");

	for (; *name && n < PATH_MAX / 2; name++)
		n += (size_t)snprintf(path + n, PATH_MAX - n, *name == '/' ? ".child-" : "%c", *name);
	snprintf(path + n, PATH_MAX - n, "%s", suffix);
}

static bool open_relays(const struct conductor *d, struct worker *w)
{
	const char *name = name_of(d, w);
	char out[PATH_MAX], err[PATH_MAX];
	bool kept = d->c->output;

	output_path(d, w, ".out", out);
	output_path(d, w, ".err", err);
	if (!sr_relay_open(&w->out, name, stdout, kept ? out : NULL) &&
	    !sr_relay_open(&w->err, name, sr_terminal_raw_error(), kept ? err : NULL))
		return true;
	return !sr_fail("cannot pass on what rank %s prints: %s", name, strerror(errno));
}

/*
 * The worker has a process group of its own: Ctrl-C reaches only us, and we can find processes
 * that the program left.  A debugger keeps the terminal's group.
 */
static void __attribute__((noreturn))
work(const struct conductor *d, struct worker *w, pid_t conductor)
{
	struct sr_rank_options o = {
	    .dir = d->c->dir,
	    .rank = w->rank,
	    .timeout = d->c->timeout,
	    .files = d->c->files,
	    .no_sandbox = d->c->no_sandbox,
	    .outsiders = d->c->outsiders,
	    .last_image = -1,
	    .json = d->c->json,
	};
	char output[PATH_MAX];
	sigset_t none;
	int status;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != conductor)
		_exit(SR_EXIT_FAILED);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (!w->has_terminal) {
		int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

		setpgid(0, 0);
		dup2(null, 0);
		dup2(w->out.write_fd, 1);
		dup2(w->err.write_fd, 2);
	}
	if (d->c->tool_rank == w->rank)
		o.tool = d->c->tool;
	if (d->c->output && d->c->files) {
		output_path(d, w, "", output);
		o.output = output;
	}
	status = sr_images_replay(d->c->trace, &o, w->control, w->control_fd, d->transport->group);
	fflush(NULL);
	/* Skips the exit handlers of this process's libraries, which belong to the parent. */
	_exit(status);
}

static bool start_worker(struct conductor *d, struct worker *w)
{
	pid_t self = getpid();

	w->control = sr_control_make(&w->control_fd);
	if (!w->control) {
		sr_fail("cannot make the control page of rank %s: %s", name_of(d, w), strerror(errno));
		return false;
	}
	if (d->transport->group) {
		w->control->group_fd = d->transport->group_fd;
		w->control->member = (uint32_t)(w - d->workers);
	}
	if (d->c->produced)
		w->control->produced_fd = d->c->produced[w - d->workers].fd;
	if (!w->has_terminal && !open_relays(d, w))
		return false;
	fflush(NULL);
	w->pid = fork();
	if (w->pid < 0) {
		sr_fail("cannot fork: %s", strerror(errno));
		w->pid = 0;
		return false;
	}
	if (!w->pid)
		work(d, w, self);
	if (!w->has_terminal) {
		setpgid(w->pid, w->pid);
		sr_relay_started(&w->out);
		sr_relay_started(&w->err);
	}
	return true;
}

/* ----------------------------------------------------------------- the end */

/* Kills all workers that still run; their processes die with them. */
static void end_all(const struct conductor *d)
{
	for (size_t i = 0; i < d->c->count; i++) {
		struct worker *w = &d->workers[i];

		if (w->pid && !w->ended)
			kill(w->has_terminal ? w->pid : -w->pid, SIGKILL);
	}
}

/* As the worker reports it: an exit status may be the program's. */
static enum sr_verdict_kind how(const struct worker *w)
{
	return (enum sr_verdict_kind)atomic_load(&w->control->verdict);
}

/*
 * A rank that did not do what was recorded ends the replay.  Its message comes first, then where
 * the others are.
 */
static void fail(struct conductor *d, struct worker *failed)
{
	struct sr_group_view view = {.count = 0};

	if (d->failed || d->by)
		return;
	d->failed = failed;
	for (size_t i = 0; i < d->c->count && view.count < SR_GROUP_MEMBERS; i++) {
		const struct worker *w = &d->workers[i];

		if (w != failed)
			view.rank[view.count++] = (struct sr_group_rank){
			    .rank = w->rank, .control = w->control, .ended = w->ended};
	}
	sr_note("rank %s ends the replay; the others:", name_of(d, failed));
	sr_group_say_states(d->c->trace, &view);
	end_all(d);
}

static void take_end(struct conductor *d, struct worker *w, int wait_status)
{
	w->ended = true;
	w->status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : SR_EXIT_FAILED;
	/* A rank that is ended because another one failed has nothing to report. */
	if (d->transport->group && how(w) != SR_VERDICT_FAILED)
		sr_group_end_member(d->transport->group, (uint32_t)(w - d->workers));
	/* Processes that the program left behind are not part of the replay. */
	if (!w->has_terminal) {
		kill(-w->pid, SIGKILL);
		sr_relay_close(&w->out);
		sr_relay_close(&w->err);
	}
	if (!WIFEXITED(wait_status) && !d->by && !d->failed)
		sr_fail("rank %s: the process that replays it was ended by signal %d (%s)", name_of(d, w),
			WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
	if (how(w) == SR_VERDICT_FAILED)
		fail(d, w);
}

static void reap(struct conductor *d)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (sr_transport_lost(d->transport, pid))
			continue;
		for (size_t i = 0; i < d->c->count; i++)
			if (d->workers[i].pid == pid)
				take_end(d, &d->workers[i], status);
	}
}

/* --------------------------------------------------------------- in between */

#define PROGRESS_MS 200

static size_t running(const struct conductor *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->c->count; i++)
		n += d->workers[i].pid && !d->workers[i].ended;
	return n;
}

static void take_signals(struct conductor *d)
{
	struct signalfd_siginfo info;

	while (read(d->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD) {
			reap(d);
			continue;
		}
		/* With a debugger, Ctrl-C is for the debugger. */
		if (info.ssi_signo == SIGINT && d->c->tool.kind == SR_TOOL_GDB)
			continue;
		d->by = (int)info.ssi_signo;
		end_all(d);
	}
}

static sr_progress begin_progress(const struct conductor *d)
{
	uint64_t size = 0;

	for (size_t i = 0; i < d->c->count; i++)
		size += sr_stream_bytes_of_image(d->c->trace, d->workers[i].rank);
	return sr_progress_begin("replaying", size, !d->c->bar);
}

static void show_progress(const struct conductor *d, sr_progress bar)
{
	uint64_t read = 0, size = 0;

	for (size_t i = 0; i < d->c->count; i++) {
		read += atomic_load(&d->workers[i].control->trace_read);
		size += atomic_load(&d->workers[i].control->trace_size);
	}
	bar((double)read / (double)size);
}

static void conduct(struct conductor *d)
{
	size_t n = 1 + 2 * d->c->count;
	struct pollfd *polled = calloc(n, sizeof(*polled));
	sr_progress bar = begin_progress(d);

	while (polled && running(d)) {
		polled[0] = (struct pollfd){.fd = d->signals, .events = POLLIN};
		for (size_t i = 0; i < d->c->count; i++) {
			polled[1 + 2 * i] =
			    (struct pollfd){.fd = d->workers[i].out.fd, .events = POLLIN};
			polled[2 + 2 * i] =
			    (struct pollfd){.fd = d->workers[i].err.fd, .events = POLLIN};
		}
		if (poll(polled, n, bar ? PROGRESS_MS : -1) < 0 && errno != EINTR)
			break;
		if (bar)
			show_progress(d, bar);
		for (size_t i = 0; i < d->c->count; i++) {
			sr_relay_move(&d->workers[i].out);
			sr_relay_move(&d->workers[i].err);
		}
		take_signals(d);
	}
	sr_progress_end();
	free(polled);
}

static void block_signals(struct conductor *d)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	d->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int verdict(const struct conductor *d)
{
	size_t exact = 0;

	if (d->by) {
		sr_note("ended by signal %d (%s)", d->by, strsignal(d->by));
		return 128 + d->by;
	}
	if (d->failed)
		return d->failed->status ? d->failed->status : SR_REPLAY_EXIT_DIVERGED;
	for (size_t i = 0; i < d->c->count; i++)
		exact += how(&d->workers[i]) == SR_VERDICT_EXACT;
	if (exact < d->c->count) {
		sr_note("%zu of %zu ranks ended as recorded, the others where their traces do%s",
			exact, d->c->count, d->c->has_no_plan ? "; each alone: what they did to each other was neither done again nor compared" : "");
		return SR_REPLAY_EXIT_CUT;
	}
	if (d->c->has_no_plan)
		sr_note("all %zu ranks ended as recorded, each alone: what they did to each other was neither done again nor compared", exact);
	else
		sr_note("all %zu ranks ended as recorded", exact);
	return 0;
}

static void report_produced(const struct conductor *d)
{
	for (size_t i = 0; d->c->produced && i < d->c->count; i++) {
		const struct worker *w = &d->workers[i];

		d->c->produced[i].error = atomic_load(&w->control->produced_error);
		d->c->produced[i].ended_as_recorded = how(w) != SR_VERDICT_FAILED;
	}
}

int sr_conduct(const struct sr_conduct *c)
{
	struct conductor d = {.c = c, .transport = c->transport};
	bool started = true;
	int status = SR_EXIT_FAILED;

	d.workers = calloc(c->count, sizeof(*d.workers));
	if (!d.workers)
		return sr_fail("no memory left");
	block_signals(&d);
	for (size_t i = 0; i < c->count; i++) {
		d.workers[i] = (struct worker){
		    .rank = c->ranks[i],
		    .has_terminal = c->tool.kind == SR_TOOL_GDB && c->tool_rank == c->ranks[i],
		    .out.fd = -1,
		    .err.fd = -1,
		};
		d.workers[i].out.write_fd = d.workers[i].err.write_fd = -1;
	}
	for (size_t i = 0; i < c->count && started; i++)
		started = start_worker(&d, &d.workers[i]);
	if (started) {
		conduct(&d);
		sr_transport_close(d.transport);
		status = verdict(&d);
		report_produced(&d);
	} else {
		end_all(&d);
		sr_transport_close(d.transport);
	}
	free(d.workers);
	return status;
}
