/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/record_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "logd/ring/client.h"
#include "logd/ring/request.h"
#include "replay/host/start/installed.h"
#include "replay/print/say.h"

/* A daemon that we started ends when nothing has needed it for so long. */
#define IDLE_EXIT_SECONDS "60"

/* How often we ask until a daemon answers, and how often we start one meanwhile. */
#define TRIES             400
#define TRIES_PER_START   10
#define PAUSE_NS          20000000

static bool daemon_answers(const char *socket_path)
{
	int fd = sr_client_status(socket_path);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* Its messages are not shown: the usual one is that another daemon was faster. */
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
 * Several `sreplay record` may start at once, while one daemon still ends and the next does not
 * listen yet.  So each asks and starts in turn until a daemon answers.
 */
bool sr_daemon_ensure(const char *socket_path)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	char path[PATH_MAX];

	if (daemon_answers(socket_path))
		return true;
	if (!sr_find_daemon(path, sizeof(path)))
		return false;
	for (int i = 0; i < TRIES; i++) {
		if (i % TRIES_PER_START == 0 && !start_daemon(path, socket_path))
			return false;
		if (daemon_answers(socket_path))
			return true;
		nanosleep(&pause, NULL);
	}
	sr_fail("%s does not answer at %s; run it by hand to see why", path, socket_path);
	return false;
}
