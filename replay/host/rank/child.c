/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "logd/base/highfd.h"
#include "replay/host/rank/replayed.h"
#include "replay/host/start/launch.h"
#include "replay/host/layout/layout.h"
#include "replay/print/say.h"

/* So many are passed, at most. */
#define FEW_FDS 64

/* To a number from `from` on; where no more are left there, to a lower one. */
static bool pass(int32_t *fd, int from, int *lowest)
{
	int high = fcntl(*fd, F_DUPFD, from);

	for (; high < 0 && from > 5; from /= 2)
		high = fcntl(*fd, F_DUPFD, from / 2);
	if (high < 0)
		return false;
	/* It may have a high number already. */
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
static bool pass_descriptors(struct sr_replayed_rank *r, int *lowest)
{
	struct sr_replay_control *c = r->control;
	int floor = sr_fd_floor(), from = floor + 1;

	*lowest = floor;
	if (!open_up())
		return false;
	if (c->rings_fd >= 0 && !pass(&c->rings_fd, from, lowest))
		return false;
	if (c->group_fd >= 0 && !pass(&c->group_fd, from, lowest))
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
static unsigned long limit_for(const struct sr_replayed_rank *r, unsigned long before)
{
	unsigned long recorded = (unsigned long)r->recorded.descriptors_below;

	return recorded > before ? recorded : before;
}

/* Is this process the program's parent, which lays it out?  A tool's command starts the program itself. */
static bool is_parent(const struct sr_replayed_rank *r)
{
	return r->options->tool.kind == SR_TOOL_NONE && r->recorded.layout.libraries_below;
}

static void __attribute__((noreturn))
become_recorded(struct sr_replayed_rank *r, unsigned long limit, pid_t parent)
{
	struct sr_launch launch = {
	    .recorded = &r->recorded,
	    .tool = &r->options->tool,
	    .trace = r->forks.dir[0],
	    .rank = r->forks.rank[0],
	    .image = sr_trace_image(r->forks.trace[0], r->forks.rank[0]),
	    .shown_trace = r->options->dir,
	    .shown_rank = sr_trace_rank_name(r->trace, r->options->rank),
	    .open_files = limit_for(r, limit),
	    .laid_out = is_parent(r),
	    .layout_answer = {&r->control->traced, &r->control->cpuid_traced},
	    .confined = r->trust == SR_TRUST_CONFINED,
	};

	/* Init would become the tracer of a child whose parent has died already: see layout.c. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(SR_REPLAY_EXIT_FAILED);
	if (!pass_descriptors(r, &launch.lowest_fd)) {
		sr_fail("cannot pass descriptors on: %s; is the hard limit on open files (ulimit "
			"-Hn) under %u?",
			strerror(errno), FEW_FDS);
		_exit(SR_REPLAY_EXIT_FAILED);
	}
	launch.files_fd = r->control->files_fd;
	sr_launch(&launch);
}

bool sr_replayed_start(struct sr_replayed_rank *r, unsigned long limit)
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
	if (is_parent(r))
		sr_layout_apply(r->child, &r->recorded.layout, &r->recorded.processor,
				&(struct sr_layout_answer){&r->control->traced, &r->control->cpuid_traced});
	for (size_t i = 0; i < r->n_feeders; i++)
		if (sr_feeder_start(&r->feeders[i]))
			return false;
	return true;
}
