/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/confirm_run.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "logd/ring/socket_path.h"
#include "replay/command/command.h"
#include "replay/command/overlay.h"
#include "replay/command/record_daemon.h"
#include "replay/host/start/installed.h"
#include "shim/core/setting.h"

bool sr_confirming_begin(struct sr_confirming *x)
{
	char *place = NULL;
	bool fine = asprintf(&place, "%s/races", x->dir) > 0;

	if (fine && mkdir(place, 0777) && errno != EEXIST)
		fine = !sr_fail("cannot make %s: %s", place, strerror(errno));
	else if (fine && access(place, W_OK))
		fine = !sr_fail("cannot write to %s: %s", place, strerror(errno));
	free(place);
	if (fine && sr_socket_path(x->socket_path, sizeof(x->socket_path)))
		fine = !sr_fail("cannot make a place for the daemon's socket");
	/* Before the files are private: the daemon serves others too. */
	return fine && sr_daemon_ensure(x->socket_path);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	remove(path);
	return 0;
}

void sr_confirm_forget(const struct sr_confirming *x, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/races/%s.srec", x->dir, name);
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	snprintf(path, sizeof(path), "%s/races/%s.out", x->dir, name);
	unlink(path);
}

/* The file that the ranks share. */
static struct sr_confirm *share(const struct sr_confirm *wanted, const char *path)
{
	struct sr_confirm *c = MAP_FAILED;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	if (fd >= 0 && !ftruncate(fd, sizeof(*c)))
		c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (c == MAP_FAILED)
		sr_fail("cannot make %s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (c == MAP_FAILED)
		return NULL;
	*c = *wanted;
	return c;
}

/* The trace is written to, and the daemon answers. */
static bool hide_files(const struct sr_confirming *x)
{
	struct sr_live live = {.paths = {x->dir}, .n = 1};
	char upper[PATH_MAX];

	snprintf(upper, sizeof(upper), "%s/races/overlay", x->dir);
	if (!access(x->socket_path, F_OK))
		live.paths[live.n++] = x->socket_path;
	return sr_overlay_enter(&live, upper);
}

static void __attribute__((noreturn))
execute(const struct sr_confirming *x, const struct sr_confirm_outcome *o, const char *control)
{
	char *words[32] = {"sreplay",   "record",           "--quiet", "--clocks",
			   "-o",        (char *)o->trace,   "--group", x->ranks,
			   "--threads", (char *)x->threads, "--"};
	int n = 11, command = 0, out = open(o->output, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	char **all;

	while (x->command[command])
		command++;
	all = calloc((size_t)(n + command + 1), sizeof(*all));
	if (out < 0 || !all || (!x->live_files && !hide_files(x)))
		_exit(SR_EXIT_FAILED);
	memcpy(all, words, (size_t)n * sizeof(*all));
	memcpy(all + n, x->command, (size_t)command * sizeof(*all));
	setenv(sr_setting_variable(SR_SETTING_CONFIRM), control, 1);
	setenv(sr_setting_variable(SR_SETTING_TRACE), o->trace, 1);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	execv(sr_installed_self(), all);
	_exit(SR_EXIT_FAILED);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool run(const struct sr_confirming *x, struct sr_confirm_outcome *o, const char *control)
{
	uint64_t began = now_ns();
	struct stat st;
	pid_t child;
	int status;

	fflush(NULL);
	child = fork();
	if (child < 0)
		return !sr_fail("cannot fork: %s", strerror(errno));
	if (!child)
		execute(x, o, control);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return !sr_fail("cannot wait for %s: %s", x->command[0], strerror(errno));
	o->ns = now_ns() - began;
	o->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	if (stat(o->trace, &st))
		return !sr_fail("the run of %s recorded nothing (its exit status is %d; it has to be the line that "
				"starts the job): %s has what it printed",
				x->command[0], o->status, o->output);
	return true;
}

bool sr_confirm_run(const struct sr_confirming *x, const struct sr_confirm *wanted,
		    const char *name, struct sr_confirm_outcome *o)
{
	char control[PATH_MAX];
	struct sr_confirm *c;
	bool fine;

	snprintf(control, sizeof(control), "%s/races/%s.control", x->dir, name);
	snprintf(o->trace, sizeof(o->trace), "%s/races/%s.srec", x->dir, name);
	snprintf(o->output, sizeof(o->output), "%s/races/%s.out", x->dir, name);
	sr_confirm_forget(x, name);
	c = share(wanted, control);
	if (!c)
		return false;
	fine = run(x, o, control);
	o->c = *c;
	munmap(c, sizeof(*c));
	unlink(control);
	snprintf(control, sizeof(control), "%s/races/overlay", x->dir);
	rmdir(control);
	return fine;
}
