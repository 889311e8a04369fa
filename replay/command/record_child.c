/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/record_child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "logd/ring/request.h"
#include "replay/command/record_daemon.h"
#include "replay/command/record_environment.h"
#include "replay/command/record_options.h"
#include "replay/print/say.h"
#include "shim/core/settings.h"

/* How often we look whether the child has ended, where the kernel cannot tell us. */
#define LOOK_MS  100
/* How often we try to reach a daemon while there is none. */
#define RETRY_MS 1000

static pid_t child_pid;

/* What cannot be seen from here: whether the daemon takes the process. */
static void insist(void)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", (int)getpid());
	setenv(SR_ENV_MUST_RECORD, number, 1);
}

static void __attribute__((noreturn)) execute(const struct sr_record_run *r)
{
	char **command = r->options->command;

	sr_record_set_environment(r);
	unsetenv(SR_ENV_MUST_RECORD);
	if (!sr_record_or_run(r->options))
		insist();
	/* So that addresses are the same in each recording; containers forbid it (shim/process/restart.c). */
	personality(ADDR_NO_RANDOMIZE);
	execvp(command[0], command);
	sr_fail("cannot run %s: %s", command[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

static void pass_on(int signal_number)
{
	kill(child_pid, signal_number);
}

/* The terminal sends Ctrl-C to the command as well; a signal to us alone is meant for the command.
 */
static void forward_signals(void)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, forward = {.sa_handler = pass_on};

	sigaction(SIGINT, &ignore, NULL);
	sigaction(SIGQUIT, &ignore, NULL);
	sigaction(SIGTERM, &forward, NULL);
	sigaction(SIGHUP, &forward, NULL);
}

static bool child_has_ended(void)
{
	siginfo_t info = {0};

	return !waitid(P_PID, (id_t)child_pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

static int reach_daemon(const char *socket_path)
{
	return sr_daemon_ensure(socket_path) ? sr_request_connect(socket_path) : -1;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/*
 * The connection hangs up when the daemon dies.  The recorded processes find the next daemon at the
 * same socket, and hand it the rings that the last one left.
 */
static void wait_for_end(const char *socket_path)
{
	struct pollfd p[] = {
	    {.fd = (int)syscall(SYS_pidfd_open, child_pid, 0), .events = POLLIN},
	    {.fd = sr_request_connect(socket_path), .events = POLLIN},
	};
	struct pollfd *child = &p[0], *daemon = &p[1];
	/* Old kernels and some sandboxes have no pidfd. */
	int wait_ms = child->fd < 0 ? LOOK_MS : -1;

	while (!child_has_ended()) {
		poll(p, 2, daemon->fd < 0 ? RETRY_MS : wait_ms);
		if (daemon->fd >= 0 && !daemon->revents)
			continue;
		if (daemon->fd >= 0) {
			close(daemon->fd);
			sr_note("sreplay-logd is gone; starting another");
		}
		daemon->fd = child_has_ended() ? -1 : reach_daemon(socket_path);
		daemon->revents = 0;
	}
	close_fd(child->fd);
	close_fd(daemon->fd);
}

int sr_record_child_run(const struct sr_record_run *r)
{
	int status;

	child_pid = fork();
	if (child_pid < 0)
		return sr_fail("cannot fork: %s", strerror(errno));
	if (child_pid == 0)
		execute(r);
	forward_signals();
	wait_for_end(r->socket_path);
	while (waitpid(child_pid, &status, 0) < 0)
		if (errno != EINTR)
			return sr_fail("cannot wait for %s: %s", r->options->command[0], strerror(errno));
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
