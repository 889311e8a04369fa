/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/start/launch.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "logd/trace/reader.h"
#include "replay/print/say.h"
#include "replay/abi/control.h"
#include "replay/host/start/confine.h"
#include "replay/host/start/installed.h"
#include "replay/host/start/packed.h"

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

/* Descriptors above the limit stay open. */
static void set_open_files(unsigned long limit)
{
	struct rlimit now;

	if (!limit || getrlimit(RLIMIT_NOFILE, &now))
		return;
	now.rlim_cur = limit < now.rlim_max ? limit : now.rlim_max;
	setrlimit(RLIMIT_NOFILE, &now);
}

/* Where the recorded program died there may be its core file. */
static void leave_no_core(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_CORE, &limit))
		return;
	limit.rlim_cur = 0;
	setrlimit(RLIMIT_CORE, &limit);
}

/* Does the path that the program was executed by still lead to it? */
static bool same_file(const char *path, const char *exe)
{
	struct stat a, b;

	return path && !stat(path, &a) && !stat(exe, &b) && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* A program can query its signal dispositions and restore them. */
static void inherit_signals(const struct sr_recorded *p)
{
	for (int signo = 1; signo < NSIG; signo++)
		signal(signo, p->ignored >> (signo - 1) & 1 ? SIG_IGN : SIG_DFL);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &p->blocked, NULL, sizeof(p->blocked));
}

/* Sets all that the process inherits as recorded; the descriptors are in place already. */
static void __attribute__((noreturn)) become(const struct sr_launch *l)
{
	const struct sr_recorded *p = l->recorded;

	if (!sr_packed_enter(l->trace, p->json))
		_exit(SR_REPLAY_EXIT_FAILED);
	/* The process dies with us: without its feeder, a replay would wait for ever. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	inherit_signals(p);
	if (chdir(p->cwd))
		sr_note("%s, where the program ran, cannot be entered (%s): running here", p->cwd,
			strerror(errno));
	/* A parent that lays out the memory does without. */
	if (personality(ADDR_NO_RANDOMIZE) < 0 && !l->laid_out)
		sr_note("cannot switch off address randomisation (%s): addresses may be others than recorded",
			strerror(errno));
	set_stack_limit(p);
	set_open_files(l->open_files);
	if (l->files_fd >= 0)
		leave_no_core();
	if (l->laid_out)
		sr_layout_wait();
	/* Last: its filter refuses what was needed up to here. */
	if (l->confined && !sr_confine_enter(l->files_fd))
		_exit(SR_REPLAY_EXIT_FAILED);
	execve(same_file(p->executed_as, p->exe) ? p->executed_as : p->exe, p->argv, p->env);
	sr_fail("cannot run %s: %s", p->exe, strerror(errno));
	_exit(SR_REPLAY_EXIT_FAILED);
}

/* The words after the tool's own, which start the program. */
static const char *const start_words[] = {"replay-start", NULL};

/* path, replay-start, trace, rank, limit, lowest descriptor, sandbox, image */
#define START_WORDS 8

/* The last word: no sandbox, or one with this directory of private files. */
#define NO_SANDBOX "-"

static void put_start_words(char **argv, const struct sr_launch *l)
{
	static char trace[PATH_MAX], rank[16], limit[24], lowest[16], sandbox[16],
	    image[16];

	if (!realpath(l->trace, trace)) {
		sr_fail("cannot tell where %s is: %s", l->trace, strerror(errno));
		_exit(SR_REPLAY_EXIT_FAILED);
	}
	snprintf(rank, sizeof(rank), "%d", l->rank);
	snprintf(limit, sizeof(limit), "%lu", l->open_files);
	argv[0] = (char *)sr_installed_self();
	argv[1] = (char *)start_words[0];
	argv[2] = trace;
	argv[3] = rank;
	snprintf(sandbox, sizeof(sandbox), "%d", l->files_fd);
	argv[4] = limit;
	snprintf(lowest, sizeof(lowest), "%d", l->lowest_fd);
	argv[5] = lowest;
	argv[6] = l->confined ? sandbox : (char *)NO_SANDBOX;
	snprintf(image, sizeof(image), "%u", l->image);
	argv[7] = image;
	argv[8] = NULL;
}

static void __attribute__((noreturn)) run(char **argv)
{
	execvp(argv[0], argv);
	sr_fail("cannot run %s: %s", argv[0], strerror(errno));
	_exit(SR_REPLAY_EXIT_FAILED);
}

/* A shell splits the words and then executes the tool, with the program's start as arguments. */
static void __attribute__((noreturn)) run_command(const struct sr_launch *l)
{
	char script[PATH_MAX];
	char *argv[4 + START_WORDS + 1] = {"sh", "-c", script, "sreplay"};

	if (snprintf(script, sizeof(script), "exec %s \"$@\"", l->tool->command) >=
	    (int)sizeof(script)) {
		sr_fail("--exec %s: too long", l->tool->command);
		_exit(SR_REPLAY_EXIT_FAILED);
	}
	put_start_words(argv + 4, l);
	run(argv);
}

static size_t count(char **words)
{
	size_t n = 0;

	while (words && words[n])
		n++;
	return n;
}

/* The program, which waits for the debugger before any of its code runs. */
static pid_t start_debugged(const struct sr_launch *l)
{
	struct sr_launch program = *l;
	pid_t child = fork();

	if (child < 0) {
		sr_fail("cannot fork: %s", strerror(errno));
		_exit(SR_REPLAY_EXIT_FAILED);
	}
	if (!child) {
		/* As if gdb had started it: the terminal's Ctrl-C is for one of the two. */
		setpgid(0, 0);
		program.laid_out = l->recorded->layout.libraries_below;
		become(&program);
	}
	if (l->recorded->layout.libraries_below)
		sr_layout_apply(child, &l->recorded->layout, &l->recorded->processor, &l->layout_answer);
	return child;
}

static void __attribute__((noreturn)) run_gdb(const struct sr_launch *l)
{
	static char script[PATH_MAX], shown[PATH_MAX];
	char *const own[] = {"gdb", "-q", "-x", script};
	size_t n = count(l->tool->arguments), at = sizeof(own) / sizeof(own[0]);
	char **argv = calloc(at + n + 1, sizeof(*argv)), pid[16];

	if (!argv || !sr_find_gdb_commands(script, sizeof(script)))
		_exit(SR_REPLAY_EXIT_FAILED);
	memcpy(argv, own, sizeof(own));
	if (n)
		memcpy(argv + at, l->tool->arguments, n * sizeof(*argv));
	snprintf(pid, sizeof(pid), "%d", (int)start_debugged(l));
	/* For the gdb commands; the program gets the recorded environment. */
	setenv("SREPLAY_GDB_PROCESS", pid, 1);
	setenv("SREPLAY_GDB_COMMAND", sr_installed_self(), 1);
	setenv("SREPLAY_GDB_TRACE", realpath(l->shown_trace, shown) ? shown : l->shown_trace, 1);
	setenv("SREPLAY_GDB_RANK", l->shown_rank, 1);
	run(argv);
}

void sr_launch(const struct sr_launch *l)
{
	if (l->tool->kind == SR_TOOL_NONE)
		become(l);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (l->tool->kind == SR_TOOL_GDB)
		run_gdb(l);
	run_command(l);
}

int sr_cmd_replay_start(int argc, char **argv)
{
	static const struct sr_tool none;
	struct sr_launch l = {.tool = &none};
	struct sr_recorded recorded;
	struct sr_trace *t;
	struct sr_error err;

	if (argc != START_WORDS - 1)
		return sr_fail("replay-start is for `sreplay replay` to use");
	l.trace = argv[1];
	l.rank = (int32_t)strtol(argv[2], NULL, 10);
	l.open_files = strtoul(argv[3], NULL, 10);
	l.lowest_fd = (int)strtol(argv[4], NULL, 10);
	l.confined = strcmp(argv[5], NO_SANDBOX) != 0;
	l.files_fd = l.confined ? (int)strtol(argv[5], NULL, 10) : -1;
	if (sr_trace_open(&t, l.trace, &err))
		return sr_fail("%s", err.text);
	l.image = (uint32_t)strtoul(argv[6], NULL, 10);
	if (sr_trace_choose_image(t, l.rank, l.image, &err) || !sr_recorded_load(&recorded, t, l.rank, l.trace))
		return sr_fail("%s has no rank %d to start", l.trace, l.rank);
	l.recorded = &recorded;
	/* The program must not see the tool's descriptors. */
	syscall(SYS_close_range, 3, l.lowest_fd - 1, 0);
	become(&l);
}
