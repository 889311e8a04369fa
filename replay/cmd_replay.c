/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_replay.c: `sreplay replay`: starts one recorded process again, feeds it its
 * trace, and says how it went.  The process runs under the same library as when
 * it was recorded, which finds the control page (control.h) at a descriptor
 * and so knows that it is replayed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "logd/reader.h"
#include "replay/command.h"
#include "replay/control.h"
#include "replay/feeder.h"
#include "replay/recorded.h"
#include "replay/verdict.h"
#include "replay/visit.h"

#define DEFAULT_TIMEOUT 60
#define TICK_MS         100

struct options {
	struct sr_choice choice; /* no rank: the only one */
	long timeout;
};

static const struct argp_option option_list[] = {
    {"timeout", 't', "SECONDS", 0,
     "stop a replay that makes no recorded call for so long (default 60, 0: never)", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->choice;
		return 0;
	case 't':
		o->timeout = sr_parse_number("--timeout", arg);
		return o->timeout < 0 ? EINVAL : 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {{&sr_choice_argp, 0, NULL, 0}, {0}};

static const struct argp argp = {
    option_list,
    parse_option,
    NULL,
    "Run one recorded process again, alone, with what entered it taken from the trace. No RDMA "
    "device, and none of its peers, is needed. Exit status: the program's, if the replay was "
    "exact; 123 if the trace ends before the program; 124 if the program diverged from it; 125 if "
    "it could not be replayed. --rank may be left out where the trace has one rank only.",
    children,
    NULL,
    NULL,
};

/* ------------------------------------------------------------ preparation */

static bool choose_rank(const struct sr_trace *t, struct options *o)
{
	size_t n = sr_trace_ranks(t);

	if (!n) {
		sr_fail("%s holds no rank: nothing was recorded", o->choice.dir);
		return false;
	}
	if (o->choice.rank >= 0 && sr_trace_process(t, (int32_t)o->choice.rank))
		return true;
	if (o->choice.rank < 0 && n == 1) {
		o->choice.rank = sr_trace_rank_number(t, 0);
		return true;
	}
	if (o->choice.rank < 0)
		fprintf(stderr, "sreplay: %s holds %zu ranks; choose one with --rank:", o->choice.dir, n);
	else
		fprintf(stderr, "sreplay: %s has no rank %ld; it holds:", o->choice.dir, o->choice.rank);
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, " %d", sr_trace_rank_number(t, i));
	fputc('\n', stderr);
	return false;
}

static struct sr_replay_control *make_control(int *fd)
{
	struct sr_replay_control *c;

	*fd = memfd_create("sreplay-control", MFD_CLOEXEC);
	if (*fd < 0 || ftruncate(*fd, sizeof(*c)))
		return NULL;
	c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (c == MAP_FAILED)
		return NULL;
	c->magic = SR_REPLAY_MAGIC;
	c->version = SR_TRACE_VERSION;
	return c;
}

struct replay {
	struct sr_trace *trace;
	struct sr_recorded recorded;
	struct sr_replay_control *control;
	int control_fd;
	struct sr_feeder *feeders;
	size_t n_feeders;
	pid_t child;
};

static bool open_feeders(struct replay *r, const struct options *o)
{
	const uint32_t *threads;
	size_t n = sr_trace_threads(r->trace, (int32_t)o->choice.rank, &threads);
	struct sr_error err;

	r->feeders = calloc(n ? n : 1, sizeof(*r->feeders));
	for (uint32_t i = 0; i < SR_REPLAY_THREADS; i++)
		r->control->stream_fd[i] = -1;
	for (size_t i = 0; i < n && r->feeders; i++) {
		if (threads[i] >= SR_REPLAY_THREADS) {
			sr_fail("rank %ld has more than %d threads", o->choice.rank, SR_REPLAY_THREADS);
			return false;
		}
		if (sr_feeder_open(&r->feeders[i], r->trace, (int32_t)o->choice.rank, threads[i], &err)) {
			sr_fail("%s", err.text);
			return false;
		}
		r->n_feeders++;
		r->control->stream_fd[threads[i]] = r->feeders[i].ring.fd;
		if (threads[i] >= r->control->threads)
			r->control->threads = threads[i] + 1;
	}
	return r->feeders != NULL;
}

/* ---------------------------------------------------------- the child */

/*
 * The descriptors it needs at numbers that the program's own will not reach,
 * all others closed.
 */
static bool pass_descriptors(struct replay *r)
{
	struct sr_replay_control *c = r->control;

	for (uint32_t i = 0; i < c->threads; i++) {
		if (c->stream_fd[i] < 0)
			continue;
		c->stream_fd[i] = fcntl(c->stream_fd[i], F_DUPFD, SR_REPLAY_FD + 1);
		if (c->stream_fd[i] < 0)
			return false;
	}
	if (dup2(r->control_fd, SR_REPLAY_FD) < 0)
		return false;
	return !syscall(SYS_close_range, 3, SR_REPLAY_FD - 1, 0);
}

/* The kernel places mappings below the room that the stack may take. */
static void set_stack_limit(const struct sr_recorded *p)
{
	struct rlimit limit;

	if (!p->stack_limit || getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur == p->stack_limit)
		return;
	limit.rlim_cur = p->stack_limit;
	if (limit.rlim_max < limit.rlim_cur || setrlimit(RLIMIT_STACK, &limit))
		sr_note("the recorded limit on the stack, %llu bytes, cannot be set here: "
			"addresses may differ",
			p->stack_limit);
}

/* Does the path by which the program was executed still lead to it? */
static bool same_file(const char *path, const char *exe)
{
	struct stat a, b;

	return path && !stat(path, &a) && !stat(exe, &b) && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

static void __attribute__((noreturn)) become_recorded(struct replay *r)
{
	const struct sr_recorded *p = &r->recorded;
	sigset_t none;

	/* Nothing of it survives us: a replay whose feeder is gone would wait for ever. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (chdir(p->cwd))
		sr_note("%s, where the program ran, cannot be entered (%s): running here", p->cwd,
			strerror(errno));
	if (personality(ADDR_NO_RANDOMIZE) < 0)
		sr_note("cannot switch off address randomisation: %s", strerror(errno));
	set_stack_limit(p);
	if (!pass_descriptors(r))
		sr_fail("cannot pass descriptors on: %s; is the limit on open files under %d?",
			strerror(errno), SR_REPLAY_FD + SR_REPLAY_THREADS);
	else
		execve(same_file(p->executed_as, p->exe) ? p->executed_as : p->exe, p->argv,
		       p->env);
	sr_fail("cannot run %s: %s", p->exe, strerror(errno));
	_exit(SR_REPLAY_EXIT_FAILED);
}

static bool start_child(struct replay *r)
{
	r->child = fork();
	if (r->child < 0) {
		sr_fail("cannot fork: %s", strerror(errno));
		return false;
	}
	if (r->child == 0)
		become_recorded(r);
	for (size_t i = 0; i < r->n_feeders; i++)
		if (sr_feeder_start(&r->feeders[i]))
			return false;
	return true;
}

/* Waits for the end; a child that makes no progress for the timeout is killed.  true: it was. */
static bool wait_for_child(const struct replay *r, long timeout, int *status)
{
	int pidfd = (int)syscall(SYS_pidfd_open, r->child, 0);
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	uint64_t before = 0;
	long idle_ms = 0;
	bool stuck = false;

	while (!stuck && poll(&p, 1, TICK_MS) == 0) {
		uint64_t calls = atomic_load(&r->control->calls);

		idle_ms = calls == before ? idle_ms + TICK_MS : 0;
		before = calls;
		stuck = timeout && idle_ms >= timeout * 1000;
	}
	if (stuck)
		kill(r->child, SIGKILL);
	while (waitpid(r->child, status, 0) < 0 && errno == EINTR)
		;
	close(pidfd);
	return stuck;
}

/* ------------------------------------------------------------------- all */

static int run(struct replay *r, const struct options *o)
{
	struct sr_verdict v = {.rank = (int32_t)o->choice.rank, .dir = o->choice.dir, .timeout = o->timeout};
	const char *schema;
	size_t size;
	int status;

	r->control = make_control(&r->control_fd);
	if (!r->control)
		return sr_fail("cannot make the control page: %s", strerror(errno));
	r->control->stdout_line_buffered = r->recorded.stdout_line_buffered;
	if (!open_feeders(r, o))
		return SR_EXIT_FAILED;
	if (!start_child(r))
		return SR_EXIT_FAILED;
	v.stuck = wait_for_child(r, o->timeout, &v.wait_status);
	for (size_t i = 0; i < r->n_feeders; i++) {
		sr_feeder_stop(&r->feeders[i]);
		v.recorded_calls += r->feeders[i].calls;
		v.killed = v.killed || r->feeders[i].killed;
		if (r->feeders[i].warning[0])
			v.warning = r->feeders[i].warning;
	}
	schema = sr_trace_schema(r->trace, (int32_t)o->choice.rank, &size);
	v.schema = schema ? sr_schema_parse(schema, size) : NULL;
	status = sr_verdict_say(&v, r->control);
	sr_schema_free(v.schema);
	return status;
}

int sr_cmd_replay(int argc, char **argv)
{
	struct options o = {.choice = SR_CHOICE_INIT, .timeout = DEFAULT_TIMEOUT};
	struct replay r = {.control_fd = -1};
	struct sr_error err;
	int status = SR_EXIT_FAILED;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return SR_EXIT_FAILED;
	if (sr_trace_open(&r.trace, o.choice.dir, &err))
		return sr_fail("%s", err.text);
	if (choose_rank(r.trace, &o) &&
	    sr_recorded_load(&r.recorded, r.trace, (int32_t)o.choice.rank, o.choice.dir)) {
		if (r.recorded.from_open)
			sr_fail("rank %ld loaded libibverbs after it had started, and what it did "
				"before is not "
				"recorded: it cannot be replayed yet",
				o.choice.rank);
		else if (sr_recorded_check_files(&r.recorded))
			status = run(&r, &o);
		sr_recorded_free(&r.recorded);
	}
	free(r.feeders);
	sr_trace_close(r.trace);
	return status;
}
