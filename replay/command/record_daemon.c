/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/record_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "logd/ring/client.h"
#include "logd/ring/request.h"
#include "replay/host/start/installed.h"
#include "replay/print/say.h"

/* A daemon that we started ends when nothing has needed it for so long. */
#define IDLE_EXIT_SECONDS "60"

/* How long one may take to answer, or to come; how often we ask, and start one, meanwhile. */
#define ANSWER_MS       5000
#define PAUSE_MS        20
#define PAUSES_PER_START 10
/* A daemon that does not answer at once is named after so long. */
#define SAY_MS          1000

static const char *describe(const char *socket_path, char *text, size_t size)
{
	int socket = sr_request_connect(socket_path);
	struct ucred daemon = {0};
	socklen_t length = sizeof(daemon);

	if (socket >= 0) {
		getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &daemon, &length);
		close(socket);
	}
	sr_client_describe_daemon(text, size, daemon.pid);
	return text;
}

/* 0, -ETIMEDOUT (one is there, but does not answer), or another -errno. */
static int ask_daemon(const char *socket_path, int64_t deadline)
{
	int64_t left = deadline - sr_sys_now_ms();
	int fd = sr_client_status(socket_path, left < SAY_MS ? (int)left : SAY_MS);
	char who[100];

	if (fd == -ETIMEDOUT && left > SAY_MS) {
		sr_note("waiting for %s, on %s", describe(socket_path, who, sizeof(who)),
			socket_path);
		fd = sr_client_status(socket_path, (int)(left - SAY_MS));
	}
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
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
	const struct timespec pause = sr_sys_ms(PAUSE_MS);
	int64_t deadline = sr_sys_now_ms() + ANSWER_MS;
	char path[PATH_MAX], who[100];
	int err = ask_daemon(socket_path, deadline);

	if (!err)
		return true;
	if (!sr_find_daemon(path, sizeof(path)))
		return false;
	for (int i = 0; err != -ETIMEDOUT && sr_sys_now_ms() < deadline; i++) {
		if (i % PAUSES_PER_START == 0 && !start_daemon(path, socket_path))
			return false;
		err = ask_daemon(socket_path, deadline);
		if (!err)
			return true;
		nanosleep(&pause, NULL);
	}
	if (err == -ETIMEDOUT)
		sr_fail("no answer for %d s from %s, on %s", ANSWER_MS / 1000,
			describe(socket_path, who, sizeof(who)), socket_path);
	else
		sr_fail("%s does not answer at %s; run it by hand to see why", path, socket_path);
	return false;
}
