/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/record_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "logd/ring/client.h"
#include "logd/ring/request.h"
#include "replay/host/start/installed.h"
#include "replay/print/say.h"
#include "shim/core/setting.h"

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

/* Of a daemon that did not start: its own last words. */
struct reason {
	char text[512]; /* "": none */
};

static void take_last_line(int fd, struct reason *why)
{
	char text[sizeof(why->text)], *line;
	struct stat st;
	off_t from = fstat(fd, &st) || st.st_size < (off_t)sizeof(text)
			 ? 0
			 : st.st_size - (off_t)sizeof(text) + 1;
	ssize_t n = pread(fd, text, sizeof(text) - 1, from);

	text[n > 0 ? n : 0] = 0;
	for (; n > 0 && text[n - 1] == '\n'; n--)
		text[n - 1] = 0;
	line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	if (!strncmp(line, "sreplay-logd: ", 14))
		line += 14;
	snprintf(why->text, sizeof(why->text), "%s", line);
}

/* True: it has started, or another one is faster. */
static bool start_daemon(const char *path, const char *socket_path, struct reason *why)
{
	int status = 0, said = memfd_create("sreplay-logd", MFD_CLOEXEC);
	pid_t child = fork();

	if (child == 0) {
		dup2(said, STDERR_FILENO);
		/* It is not the program that is recorded. */
		unsetenv(sr_setting_variable(SR_SETTING_TRACE));
		execl(path, path, "--daemonize", "--idle-exit", IDLE_EXIT_SECONDS, "--socket",
		      socket_path, NULL);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0) {
		snprintf(why->text, sizeof(why->text), "%.300s: %s", path, strerror(errno));
		status = -1;
	} else if (status) {
		take_last_line(said, why);
	}
	if (said >= 0)
		close(said);
	return !status || !why->text[0] || strstr(why->text, " already");
}

/*
 * Of all that miss a daemon at once (hundreds of `sreplay record`, when one daemon was killed), one
 * starts the next: it holds this lock until that is ready.  -1: another one does.
 */
static int take_turn(const char *socket_path)
{
	char name[PATH_MAX];
	int fd;

	snprintf(name, sizeof(name), "%s.start", socket_path);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	/* Where the daemon has yet to make the directory, all may start one. */
	if (fd < 0)
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return fd;
	close(fd);
	return -1;
}

/* True: a daemon has started, or may be about to. */
static bool start_in_turn(const char *path, const char *socket_path, struct reason *why)
{
	int turn = take_turn(socket_path);
	/* Another one may have started it since it was asked. */
	bool fine = turn < 0 || !ask_daemon(socket_path, sr_sys_now_ms() + SAY_MS) ||
		    start_daemon(path, socket_path, why);

	if (turn >= 0)
		close(turn);
	return fine;
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
	struct reason why = {""};
	int err = ask_daemon(socket_path, deadline);

	if (!err)
		return true;
	if (!sr_find_daemon(path, sizeof(path)))
		return false;
	for (int i = 0; err != -ETIMEDOUT && sr_sys_now_ms() < deadline; i++) {
		if (i % PAUSES_PER_START == 0 && !start_in_turn(path, socket_path, &why))
			break;
		err = ask_daemon(socket_path, deadline);
		if (!err)
			return true;
		nanosleep(&pause, NULL);
	}
	if (err == -ETIMEDOUT)
		sr_fail("no answer for %d s from %s, on %s", ANSWER_MS / 1000,
			describe(socket_path, who, sizeof(who)), socket_path);
	else
		sr_fail("sreplay-logd cannot be started on %s: %s", socket_path,
			why.text[0] ? why.text : "it does not answer");
	return false;
}
