/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * softdev.c: runs a command, or several ranks of it, with the software device; ci/softdev calls it.
 *
 * It makes the fabric, is its driver process while the command runs, and removes it in the end.
 */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

struct options {
	int ranks;
	bool many; /* -n was given */
	const char *time, *seed, *link, *libraries, *preload;
	bool report;
	char **command;
};

static const struct argp_option option_table[] = {
    {"ranks", 'n', "N", 0,
     "start the command N times; %r in its arguments is the rank, also in SOFTDEV_RANK", 0},
    {"time", 't', "LATENCY,BANDWIDTH", 0,
     "of the device, in ns one way and bytes per us (default: 1500,12000), or `none`: all requests "
     "are executed at once",
     0},
    {"seed", 's', "N", 0, "execute requests in random order, with random pauses", 0},
    {"link", 'l', "LINK", 0, "infiniband, whose ports have addresses of their own (LIDs), or ethernet (default)", 0},
    {"report", 'v', NULL, 0, "say at the end what the driver process did, and its CPU time", 0},
    {"libraries", 'L', "DIR", 0, "where our libibverbs.so.1 is", 0},
    {"preload", 'P', "FILE", 0, "a library to preload", 0},
    {0},
};

static error_t take_option(int key, char *value, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'n':
		o->ranks = atoi(value);
		o->many = true;
		if (o->ranks < 1)
			argp_error(state, "-n %s: there has to be one rank at least", value);
		return 0;
	case 't':
		o->time = value;
		return 0;
	case 's':
		o->seed = value;
		return 0;
	case 'l':
		if (strcmp(value, SD_INFINIBAND) && strcmp(value, "ethernet"))
			argp_error(state, "-l %s: the link is infiniband or ethernet", value);
		o->link = strcmp(value, SD_INFINIBAND) ? NULL : value;
		return 0;
	case 'v':
		o->report = true;
		return 0;
	case 'L':
		o->libraries = value;
		return 0;
	case 'P':
		o->preload = value;
		return 0;
	case ARGP_KEY_ARGS:
		o->command = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void prepend(const char *variable, const char *value, char separator)
{
	const char *old = getenv(variable);
	char *both;

	if (!value || asprintf(&both, old && *old ? "%s%c%s" : "%s", value, separator, old) < 0)
		return;
	setenv(variable, both, 1);
	free(both);
}

static char *with_rank(const char *argument, int rank)
{
	const char *at = strstr(argument, "%r");
	char *text;

	if (!at || asprintf(&text, "%.*s%d%s", (int)(at - argument), argument, rank, at + 2) < 0)
		return (char *)argument;
	return with_rank(text, rank);
}

static pid_t start(const struct options *o, int rank, const sigset_t *mask)
{
	char number[16];
	pid_t pid = fork();

	if (pid)
		return pid;
	sigprocmask(SIG_SETMASK, mask, NULL);
	snprintf(number, sizeof(number), "%d", rank);
	setenv("SOFTDEV_RANK", number, 1);
	snprintf(number, sizeof(number), "%d", o->ranks);
	setenv("SOFTDEV_SIZE", number, 1);
	for (char **a = o->command; o->many && *a; a++)
		*a = with_rank(*a, rank);
	prepend("LD_LIBRARY_PATH", o->libraries, ':');
	prepend("LD_PRELOAD", o->preload, ':');
	execvp(o->command[0], o->command);
	fprintf(stderr, "softdev: %s: %s\n", o->command[0], strerror(errno));
	_exit(127);
}

/* The first of the failures is the result, as a shell would say it. */
static int reap(pid_t *children, int n, int *left, int result)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (int i = 0; i < n; i++) {
			if (children[i] != pid)
				continue;
			children[i] = 0;
			--*left;
			if (!result)
				result = WIFEXITED(status) ? WEXITSTATUS(status)
							   : 128 + WTERMSIG(status);
		}
	}
	return result;
}

static int drive(const struct options *o, int signals, const sigset_t *mask)
{
	pid_t *children = calloc((size_t)o->ranks, sizeof(*children));
	int left = o->ranks, result = 0;

	for (int i = 0; i < o->ranks; i++)
		children[i] = start(o, i, mask);
	while (left) {
		struct signalfd_siginfo info;

		sd_driver_run(signals);
		if (read(signals, &info, sizeof(info)) != sizeof(info))
			continue;
		if (info.ssi_signo == SIGCHLD)
			result = reap(children, o->ranks, &left, result);
		else
			for (int i = 0; i < o->ranks; i++)
				if (children[i] > 0)
					kill(children[i], (int)info.ssi_signo);
	}
	free(children);
	return result;
}

static int run(const struct options *o, const char *directory)
{
	sigset_t signals, mask;
	int fd, err, result;

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, &mask);
	fd = signalfd(-1, &signals, SFD_CLOEXEC);
	setenv("SOFTDEV_TIME", o->time, 1);
	if (o->seed)
		setenv("SOFTDEV_SEED", o->seed, 1);
	if (o->link)
		setenv("SOFTDEV_LINK", o->link, 1);
	setenv("SOFTDEV_FABRIC", directory, 1);
	err = sd_driver_begin(directory);
	if (err) {
		fprintf(stderr, "softdev: %s: %s\n", directory, strerror(-err));
		return 1;
	}
	result = drive(o, fd, &mask);
	if (o->report) {
		struct sd_driver_report r = sd_driver_report();

		fprintf(stderr,
			"softdev: %llu requests, %llu of them executed by the driver, which used "
			"%.3f s of CPU\n",
			(unsigned long long)r.executed, (unsigned long long)r.driven,
			r.cpu_seconds);
	}
	return result;
}

static void remove_all(const char *directory)
{
	char *command;

	if (asprintf(&command, "rm -rf '%s'", directory) >= 0 && system(command))
		fprintf(stderr, "softdev: %s is left\n", directory);
	free(command);
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
	    .options = option_table,
	    .parser = take_option,
	    .args_doc = "COMMAND...",
	    .doc =
		"Runs COMMAND with the software device: its processes see a network card, soft0.",
	};
	struct options o = {.ranks = 1, .time = "1500,12000"};
	char directory[] = "/dev/shm/softdev-XXXXXX";
	int result;

	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o);
	if (!mkdtemp(directory)) {
		fprintf(stderr, "softdev: %s: %s\n", directory, strerror(errno));
		return 1;
	}
	result = run(&o, directory);
	remove_all(directory);
	return result;
}
