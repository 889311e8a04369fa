/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_record.c: `sreplay record`: sees to a daemon, sets the shim's environment
 * variables, runs the command and waits until the daemon has written all of it.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "logd/ring/client.h"
#include "logd/base/hex.h"
#include "logd/ring/socket_path.h"
#include "logd/ring/request.h"
#include "replay/command/command.h"
#include "replay/host/start/installed.h"
#include "shim/core/settings.h"

/* A daemon that we started goes when nobody has needed it for so long. */
#define IDLE_EXIT_SECONDS "60"
/* Of 20 ms each, until a daemon answers. */
#define START_TRIES       400
/* How long the end of the trace may take to be written. */
#define WRITTEN_MS        60000

struct options {
	const char *output;
	const char *rank;
	const char *group;
	const char *key;
	const char *hosts;
	const char *exposed, *patch, *tsc, *threads;
	bool lossy, record_files, allow_direct, clocks, no_syscall_trap, from_start;
	char **command;
};

static const struct argp_option option_list[] = {
    {"output", 'o', "DIR.srec", 0, "the trace directory (default: COMMAND.srec)", 0},
    {"rank", 'r', "N", 0, "this process's rank (default: the launcher's, else 0)", 0},
    {"group", 'g', "LIST", 0, "record these ranks only, e.g. 0,2-5 (default: all)", 0},
    {"key", 'k', "FILE", 0,
     "the key of a job on several nodes, whose daemons show it to each other; made if it is not "
     "there",
     0},
    {"hosts", 'H', "LIST", 0, "addresses of the job's nodes, where their GIDs are none", 0},
    {"clocks", 'C', NULL, 0, "find out which rank came before which (sreplay orders)", 0},
    {"exposed", 'x', "HOW", 0,
     "how memory that peers write is watched: protect (default), compare or off", 0},
    {"lossy", 'l', NULL, 0, "drop records rather than let the program wait for the daemon", 0},
    {"allow-direct", 'd', NULL, 0, "let direct verbs (mlx5dv_*, ...) through, unrecorded", 0},
    {"from-start", 's', NULL, 0,
     "COMMAND is the program itself, and loads libibverbs later on (Python, UCX): record it from "
     "its "
     "start",
     0},
    {"syscall-trap", 'n', "on|off", 0,
     "catch the system calls that are made past the wrappers (default: on)", 0},
    {"probes", 'p', "on|off", 0,
     "let the program's loads and stores that meet pages that peers write again and again go to "
     "the recorder by a jump in their place (default: on)",
     0},
    {"tsc", 't', "trap|native", 0,
     "record what the program reads from the time-stamp counter, by trapping (default: trap)", 0},
    {"threads", 'T', "parallel|serial", 0,
     "serial: a process's threads run its code one at a time, so that what they decide by plain "
     "atomics is replayed (default: parallel)",
     0},
    {"record-files", 'f', NULL, 0, "keep the content of the files that the program reads", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'o':
		o->output = arg;
		return 0;
	case 'r':
		if (sr_parse_number("--rank", arg) < 0)
			exit(SR_EXIT_FAILED);
		o->rank = arg;
		return 0;
	case 'g':
		o->group = arg;
		return 0;
	case 'l':
		o->lossy = true;
		return 0;
	case 'd':
		o->allow_direct = true;
		return 0;
	case 'k':
		o->key = arg;
		return 0;
	case 'H':
		o->hosts = arg;
		return 0;
	case 'x':
		if (strcmp(arg, "protect") && strcmp(arg, "compare") && strcmp(arg, "off"))
			argp_error(state, "--exposed=%s: expected protect, compare or off", arg);
		o->exposed = arg;
		return 0;
	case 'C':
		o->clocks = true;
		return 0;
	case 'f':
		o->record_files = true;
		return 0;
	case 's':
		o->from_start = true;
		return 0;
	case 't':
		o->tsc = arg;
		if (strcmp(arg, "trap") && strcmp(arg, "native"))
			argp_error(state, "--tsc=%s is neither trap nor native", arg);
		return 0;
	case 'T':
		o->threads = arg;
		if (strcmp(arg, "parallel") && strcmp(arg, "serial"))
			argp_error(state, "--threads=%s is neither parallel nor serial", arg);
		return 0;
	case 'n':
		o->no_syscall_trap = !strcmp(arg, "off");
		if (!o->no_syscall_trap && strcmp(arg, "on"))
			argp_error(state, "--syscall-trap=%s is neither on nor off", arg);
		return 0;
	case 'p':
		o->patch = strcmp(arg, "off") ? "1" : "0";
		if (strcmp(arg, "on") && strcmp(arg, "off"))
			argp_error(state, "--probes=%s is neither on nor off", arg);
		return 0;
	case ARGP_KEY_ARGS:
		o->command = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no command to record");
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
    option_list,
    parse_option,
    "-- COMMAND [ARGUMENT...]",
    "Run COMMAND and record what enters it. Several of these at the same time with the same "
    "--output and different ranks make one trace. The exit status is the command's "
    "(128+N if signal N ended it).",
    NULL,
    NULL,
    NULL,
};

/* ------------------------------------------------------------- the daemon */

static bool daemon_answers(const char *socket_path)
{
	int fd = sr_client_status(socket_path);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* Its own words are not shown: that another one was faster is no news. */
static bool start_daemon(const char *path, const char *socket_path)
{
	int status, null;
	pid_t child = fork();

	if (child == 0) {
		null = open("/dev/null", O_WRONLY);
		dup2(null, STDERR_FILENO);
		execl(path, path, "--daemonize", "--idle-exit", IDLE_EXIT_SECONDS, "--socket",
		      socket_path, NULL);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0) {
		sr_fail("cannot start %s: %s", path, strerror(errno));
		return false;
	}
	return true;
}

/*
 * Many `sreplay record` may start at once, with one daemon still ending and
 * another not yet listening: ask and start by turns until one answers.
 */
static bool see_to_daemon(const char *socket_path)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	char path[PATH_MAX];

	if (daemon_answers(socket_path))
		return true;
	if (!sr_find_daemon(path, sizeof(path)))
		return false;
	for (int i = 0; i < START_TRIES; i++) {
		if (i % 10 == 0 && !start_daemon(path, socket_path))
			return false;
		if (daemon_answers(socket_path))
			return true;
		nanosleep(&pause, NULL);
	}
	sr_fail("%s does not answer at %s; run it by hand to see why", path, socket_path);
	return false;
}

/* -------------------------------------------------------------- the child */

static void make_session(uint8_t session[SR_SESSION_BYTES])
{
	char text[2 * SR_SESSION_BYTES + 1];

	/* Not a secret: another one's would only make us wait for his processes too. */
	if (getrandom(session, SR_SESSION_BYTES, 0) != SR_SESSION_BYTES)
		memcpy(session, &(pid_t){getpid()}, sizeof(pid_t));
	sr_to_hex(text, session, SR_SESSION_BYTES);
	setenv(SR_ENV_SESSION, text, 1);
}

#define STATIC_TLS "glibc.rtld.optional_static_tls"

/*
 * An audited program's libraries get their thread-local variables from what glibc keeps
 * for those that are loaded late: too little for the shim's, and the program would not start.
 */
static void make_room_for_thread_locals(void)
{
	const char *audit = getenv("LD_AUDIT"), *old = getenv("GLIBC_TUNABLES");
	char tunables[PATH_MAX];

	if (!audit || !*audit || (old && strstr(old, STATIC_TLS)))
		return;
	snprintf(tunables, sizeof(tunables), "%s%s" STATIC_TLS "=8192", old ? old : "",
		 old && *old ? ":" : "");
	setenv("GLIBC_TUNABLES", tunables, 1);
}

static void set_environment(const struct options *o, const char *shim, const char *trace,
			    const char *socket_path)
{
	const char *old = getenv("LD_PRELOAD");
	char preload[2 * PATH_MAX];

	snprintf(preload, sizeof(preload), "%s%s%s", shim, old && *old ? ":" : "", old ? old : "");
	setenv("LD_PRELOAD", preload, 1);
	make_room_for_thread_locals();
	setenv(SR_ENV_TRACE, trace, 1);
	setenv(SR_ENV_SOCKET, socket_path, 1);
	if (o->rank)
		setenv(SR_ENV_RANK, o->rank, 1);
	if (o->group)
		setenv(SR_ENV_GROUP, o->group, 1);
	if (o->lossy)
		setenv(SR_ENV_LOSSY, "1", 1);
	if (o->allow_direct)
		setenv(SR_ENV_DIRECT, "1", 1);
	if (o->key)
		setenv(SR_ENV_KEY, o->key, 1);
	if (o->hosts)
		setenv(SR_ENV_HOSTS, o->hosts, 1);
	if (o->exposed)
		setenv(SR_ENV_EXPOSED, o->exposed, 1);
	if (o->clocks)
		setenv(SR_ENV_CLOCKS, "1", 1);
	if (o->record_files)
		setenv(SR_ENV_FILES, "1", 1);
	if (o->from_start)
		setenv(SR_ENV_START, "1", 1);
	if (o->tsc)
		setenv(SR_ENV_TSC, o->tsc, 1);
	if (o->threads)
		setenv(SR_ENV_THREADS, o->threads, 1);
	if (o->no_syscall_trap)
		setenv(SR_ENV_SYSCALL_TRAP, "0", 1);
	if (o->patch)
		setenv(SR_ENV_PROBES, o->patch, 1);
}

static void __attribute__((noreturn)) run(char **command)
{
	/* Addresses must be the same in the replay. */
	if (personality(ADDR_NO_RANDOMIZE) < 0)
		sr_note("cannot switch off address randomisation (%s): the replay may diverge",
			strerror(errno));
	execvp(command[0], command);
	sr_fail("cannot run %s: %s", command[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

static pid_t child_pid;

static void pass_on(int signal_number)
{
	kill(child_pid, signal_number);
}

/* Ctrl-C goes to the whole group anyway; a signal sent to us is meant for the command. */
static void forward_signals(void)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, forward = {.sa_handler = pass_on};

	sigaction(SIGINT, &ignore, NULL);
	sigaction(SIGQUIT, &ignore, NULL);
	sigaction(SIGTERM, &forward, NULL);
	sigaction(SIGHUP, &forward, NULL);
}

static int exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/*
 * Until the command ends.  A daemon that dies meanwhile (its end of the
 * connection hangs up) is replaced: the recorded processes find the new one at
 * the same place, and hand it the rings that the old one left.
 */
static bool child_has_ended(void)
{
	siginfo_t info = {0};

	return !waitid(P_PID, (id_t)child_pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

static void wait_for_end(const char *socket_path)
{
	struct pollfd p[] = {
	    {.fd = (int)syscall(SYS_pidfd_open, child_pid, 0), .events = POLLIN},
	    {.fd = sr_talk_connect(socket_path), .events = POLLIN},
	};
	/* Without a pidfd (old kernels, sandboxes) by looking again and again. */
	int look_every = p[0].fd < 0 ? 100 : -1;

	while (!child_has_ended()) {
		poll(p, 2, p[1].fd < 0 ? 1000 : look_every);
		if (p[1].fd >= 0 && !p[1].revents)
			continue;
		if (p[1].fd >= 0) {
			close(p[1].fd);
			sr_note("sreplay-logd is gone; starting another");
		}
		p[1].fd = !child_has_ended() && see_to_daemon(socket_path)
			      ? sr_talk_connect(socket_path)
			      : -1;
		p[1].revents = 0;
	}
	if (p[0].fd >= 0)
		close(p[0].fd);
	if (p[1].fd >= 0)
		close(p[1].fd);
}

static int run_and_wait(char **command, const char *socket_path)
{
	int status;

	child_pid = fork();
	if (child_pid < 0)
		return sr_fail("cannot fork: %s", strerror(errno));
	if (child_pid == 0)
		run(command);
	forward_signals();
	wait_for_end(socket_path);
	while (waitpid(child_pid, &status, 0) < 0)
		if (errno != EINTR)
			return sr_fail("cannot wait for %s: %s", command[0], strerror(errno));
	return exit_status(status);
}

/* -------------------------------------------------------------- the trace */

/* The directory's absolute path; it need not exist. */
static bool absolute(const char *path, char *out, size_t size)
{
	char cwd[PATH_MAX];

	if (path[0] == '/')
		return (size_t)snprintf(out, size, "%s", path) < size;
	if (!getcwd(cwd, sizeof(cwd)))
		return false;
	return (size_t)snprintf(out, size, "%s/%s", cwd, path) < size;
}

/*
 * Many may start at once, on a file system that they share: who is first makes
 * the key, and it appears whole.
 */
static bool see_to_key(const char *path)
{
	char draft[PATH_MAX];
	uint8_t key[32];
	int fd;

	if (!access(path, F_OK))
		return true;
	snprintf(draft, sizeof(draft), "%s.%ld.XXXXXX", path, (long)getpid());
	fd = mkstemp(draft); /* 0600: nobody else may read it */
	if (fd < 0) {
		sr_fail("cannot make the key %s: %s", path, strerror(errno));
		return false;
	}
	if (getrandom(key, sizeof(key), 0) != sizeof(key) ||
	    write(fd, key, sizeof(key)) != sizeof(key) || (link(draft, path) && errno != EEXIST)) {
		sr_fail("cannot make the key %s: %s", path, strerror(errno));
		close(fd);
		unlink(draft);
		return false;
	}
	close(fd);
	unlink(draft);
	return true;
}

/* Its absolute path, for daemon and program. */
static bool prepare_key(struct options *o, char *key, size_t size)
{
	if (!o->key)
		return true;
	if (!see_to_key(o->key))
		return false;
	if (!absolute(o->key, key, size)) {
		sr_fail("%s: the path is too long", o->key);
		return false;
	}
	o->key = key;
	return true;
}

static bool default_output(const char *command, char *out, size_t size)
{
	const char *name = strrchr(command, '/');
	struct stat st;

	snprintf(out, size, "%s.srec", name ? name + 1 : command);
	if (stat(out, &st))
		return true;
	sr_fail("%s exists; remove it, or name another trace with -o", out);
	return false;
}

int sr_cmd_record(int argc, char **argv)
{
	char name[NAME_MAX], trace[PATH_MAX], shim[PATH_MAX], key[PATH_MAX], socket_path[108];
	uint8_t session[SR_SESSION_BYTES] = {0};
	struct options o = {0};
	struct stat st;
	int status, err;

	/* Options after the command's name are the command's. */
	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o))
		return SR_EXIT_FAILED;
	if (!o.output && !default_output(o.command[0], name, sizeof(name)))
		return SR_EXIT_FAILED;
	if (!absolute(o.output ? o.output : name, trace, sizeof(trace)))
		return sr_fail("%s: the path is too long", o.output ? o.output : name);
	if (!prepare_key(&o, key, sizeof(key)))
		return SR_EXIT_FAILED;
	err = sr_socket_path(socket_path, sizeof(socket_path));
	if (err)
		return sr_fail("cannot make a place for the daemon's socket: %s", strerror(-err));
	if (!sr_find_shim(shim, sizeof(shim)) || !see_to_daemon(socket_path))
		return SR_EXIT_FAILED;
	set_environment(&o, shim, trace, socket_path);
	make_session(session);
	status = run_and_wait(o.command, socket_path);
	if (stat(trace, &st)) {
		sr_note("nothing was recorded: no process of %s uses libibverbs", o.command[0]);
		return status;
	}
	err = sr_client_wait_trace(socket_path, trace, session, WRITTEN_MS);
	if (err == -ETIMEDOUT)
		sr_note("%s: sreplay-logd is still writing", trace);
	else if (err)
		sr_note("%s: sreplay-logd is gone (%s); the trace ends where it was", trace,
			strerror(-err));
	return status;
}
