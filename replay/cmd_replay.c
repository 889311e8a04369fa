/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_replay.c: `sreplay replay`: starts one recorded process again, feeds it its
 * trace, and says how it went.  The process runs under the same library as when
 * it was recorded, which finds the control page (control.h) at a descriptor
 * and so knows that it is replayed.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
#include "replay/files.h"
#include "replay/recorded.h"
#include "replay/sandbox.h"
#include "replay/stuck.h"
#include "replay/verdict.h"
#include "replay/visit.h"

#define DEFAULT_TIMEOUT 60
#define TICK_MS         100

/* All rings are filled from the start: of many threads, most are over soon. */
#define RING            (4u << 20)
#define SMALL_RING      (256u << 10)
#define FEW_THREADS     64
#define SPARE_FDS       1024 /* besides those of the rings */

struct options {
	struct sr_choice choice; /* no rank: the only one */
	long timeout;
	const char *sandbox; /* NULL: none */
};

static const struct argp_option option_list[] = {
    {"timeout", 't', "SECONDS", 0,
     "stop a replay that makes no recorded call for so long (default 60, 0: never)", 0},
    {"sandbox", 's', "DIR", 0,
     "what the program writes to files goes into DIR/out, and files whose content the trace keeps "
     "(record --record-files) are those of the recording",
     0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->choice;
		return 0;
	case 's':
		o->sandbox = arg;
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
		fprintf(stderr,
			"sreplay: %s holds %zu ranks; choose one with --rank:", o->choice.dir, n);
	else
		fprintf(stderr, "sreplay: %s has no rank %ld; it holds:", o->choice.dir,
			o->choice.rank);
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
	char sandbox[PATH_MAX]; /* "": none */
	pid_t child;
};

/*
 * The limit on open descriptors, as far as the system lets us raise it: this
 * process and the replayed one have a ring for each thread.  The latter gets its
 * own limit back before it runs; what is open above it stays open.
 */
static struct rlimit own_limit;

static void raise_limit(size_t needed)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &own_limit) || own_limit.rlim_cur >= needed)
		return;
	limit = own_limit;
	limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void lower_limit(void)
{
	if (own_limit.rlim_max)
		setrlimit(RLIMIT_NOFILE, &own_limit);
}

static bool open_feeders(struct replay *r, const struct options *o)
{
	const uint32_t *threads;
	size_t n = sr_trace_threads(r->trace, (int32_t)o->choice.rank, &threads);
	struct sr_error err;

	raise_limit(3 * n + SPARE_FDS);
	r->feeders = calloc(n ? n : 1, sizeof(*r->feeders));
	for (uint32_t i = 0; i < SR_REPLAY_THREADS; i++)
		r->control->stream_fd[i] = -1;
	for (size_t i = 0; i < n && r->feeders; i++) {
		if (threads[i] >= SR_REPLAY_THREADS) {
			sr_fail("rank %ld has more than %d threads", o->choice.rank,
				SR_REPLAY_THREADS);
			return false;
		}
		if (sr_feeder_open(&r->feeders[i], r->trace, (int32_t)o->choice.rank, threads[i],
				   n > FEW_THREADS ? SMALL_RING : RING, &err)) {
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
	if (r->sandbox[0] && !sr_sandbox_enter(r->sandbox))
		_exit(SR_REPLAY_EXIT_FAILED);
	if (chdir(p->cwd))
		sr_note("%s, where the program ran, cannot be entered (%s): running here", p->cwd,
			strerror(errno));
	if (personality(ADDR_NO_RANDOMIZE) < 0)
		sr_note("cannot switch off address randomisation: %s", strerror(errno));
	set_stack_limit(p);
	if (!pass_descriptors(r)) {
		sr_fail("cannot pass descriptors on: %s; is the limit on open files under %u?",
			strerror(errno), SR_REPLAY_FD + r->control->threads);
	} else {
		lower_limit();
		execve(same_file(p->executed_as, p->exe) ? p->executed_as : p->exe, p->argv,
		       p->env);
	}
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

static bool child_has_ended(const struct replay *r)
{
	siginfo_t info = {0};

	usleep(TICK_MS * 1000);
	return !waitid(P_PID, (id_t)r->child, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

/* Until the child has ended, or has made no call for so many seconds (0: for ever): true. */
static bool is_stuck(const struct replay *r, long seconds)
{
	struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, r->child, 0), .events = POLLIN};
	uint64_t before = 0;
	long idle_ms = 0;
	bool stuck = false;

	/* Without a pidfd (old kernels, sandboxes) by its state. */
	while (!stuck && !(p.fd < 0 ? child_has_ended(r) : poll(&p, 1, TICK_MS) > 0)) {
		uint64_t calls = sr_replay_calls(r->control);

		idle_ms = calls == before ? idle_ms + TICK_MS : 0;
		before = calls;
		stuck = seconds && idle_ms >= seconds * 1000;
	}
	if (p.fd >= 0)
		close(p.fd);
	return stuck;
}

/* Waits for the end; a child that makes no progress is killed, after words about where it is. */
static void wait_for_child(const struct replay *r, const struct options *o, struct sr_verdict *v)
{
	const struct sr_stuck stuck = {
	    .trace = r->trace,
	    .rank = v->rank,
	    .seconds = o->timeout,
	    .process = r->child,
	    .control = r->control,
	    .with = &v->with,
	};

	v->stuck = is_stuck(r, o->timeout);
	if (v->stuck) {
		sr_stuck_say(&stuck);
		kill(r->child, SIGKILL);
	}
	while (waitpid(r->child, &v->wait_status, 0) < 0 && errno == EINTR)
		;
}

/* ------------------------------------------------------------------- all */

static void load_print(const struct replay *r, struct sr_verdict *v)
{
	size_t size;
	const char *schema = sr_trace_schema(r->trace, v->rank, &size);

	v->with.schema = schema ? sr_schema_parse(schema, size) : NULL;
	v->with.symbols = sr_symbols_new(json_object_get(r->recorded.json, "objects"));
}

/* The files that the program reads: said which have changed, or put where it will find them. */
static bool prepare_files(struct replay *r, const struct options *o)
{
	int32_t rank = (int32_t)o->choice.rank;
	char out[PATH_MAX + 4];

	if (o->sandbox) {
		if (!sr_sandbox_make(o->sandbox, r->sandbox, sizeof(r->sandbox)))
			return false;
		snprintf(out, sizeof(out), "%s/out", r->sandbox);
		if (!sr_files_restore(r->trace, rank, o->choice.dir, out))
			return false;
	}
	return sr_files_check(r->trace, rank, o->choice.dir, o->sandbox);
}

static int run(struct replay *r, const struct options *o)
{
	struct sr_verdict v = {.rank = (int32_t)o->choice.rank, .trace = r->trace};
	int status;

	r->control = make_control(&r->control_fd);
	if (!r->control)
		return sr_fail("cannot make the control page: %s", strerror(errno));
	r->control->stdout_line_buffered = r->recorded.stdout_line_buffered;
	r->control->main_stack = r->recorded.main_stack;
	if (!open_feeders(r, o))
		return SR_EXIT_FAILED;
	load_print(r, &v);
	if (!start_child(r))
		return SR_EXIT_FAILED;
	wait_for_child(r, o, &v);
	for (size_t i = 0; i < r->n_feeders; i++) {
		sr_feeder_stop(&r->feeders[i]);
		v.recorded_calls += r->feeders[i].calls;
		v.killed = v.killed || r->feeders[i].killed;
		if (r->feeders[i].warning[0])
			v.warning = r->feeders[i].warning;
	}
	if (r->sandbox[0])
		sr_sandbox_end(r->sandbox);
	status = sr_verdict_say(&v, r->control);
	sr_schema_free(v.with.schema);
	sr_symbols_free(v.with.symbols);
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
		else if (sr_recorded_check_files(&r.recorded) && prepare_files(&r, &o))
			status = run(&r, &o);
		sr_recorded_free(&r.recorded);
	}
	free(r.feeders);
	sr_trace_close(r.trace);
	return status;
}
