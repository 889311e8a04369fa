/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/start/private.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay/print/say.h"

#define TRIES 50 /* processes that die with the command may still write */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	remove(path);
	return 0;
}

/* Terminal and pipes of the command stay open no longer than the command runs. */
static void __attribute__((noreturn)) remove_at_end(const char *path, int alive)
{
	sigset_t all;
	char c;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	setsid();
	dup2(alive, 0);
	syscall(SYS_close_range, 1, ~0u, 0);
	while (read(0, &c, 1) < 0 && errno == EINTR)
		;
	for (int i = 0; i < TRIES; i++) {
		nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
		if (access(path, F_OK))
			break;
		usleep(20000);
	}
	_exit(0);
}

static bool start_remover(struct sr_private *p)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return false;
	fflush(NULL);
	p->remover = fork();
	if (p->remover == 0) {
		close(ends[1]);
		remove_at_end(p->path, ends[0]);
	}
	close(ends[0]);
	p->alive = ends[1];
	if (p->remover > 0)
		return true;
	close(ends[1]);
	return false;
}

/* False with errno. */
static bool make_in(struct sr_private *p, const char *in)
{
	char real[PATH_MAX];

	errno = ENAMETOOLONG;
	if (!in || !realpath(in, real) || strlen(real) > PATH_MAX - 32)
		return false;
	snprintf(p->path, sizeof(p->path), "%s/.sreplay-XXXXXX", strcmp(real, "/") ? real : "");
	return mkdtemp(p->path);
}

bool sr_private_make(struct sr_private *p, const char *in)
{
	*p = (struct sr_private){.alive = -1};
	if (!(in ? make_in(p, in) : make_in(p, getenv("TMPDIR")) || make_in(p, "/tmp")))
		sr_fail("cannot make a directory for what the program writes in %s: %s%s",
			in ? in : "/tmp", strerror(errno),
			in ? "" : "; set TMPDIR to one that can be written");
	else if (start_remover(p))
		return true;
	else
		sr_fail("cannot fork: %s", strerror(errno));
	rmdir(p->path);
	p->path[0] = 0;
	return false;
}

void sr_private_remove(struct sr_private *p)
{
	if (!p->path[0])
		return;
	close(p->alive);
	while (waitpid(p->remover, NULL, 0) < 0 && errno == EINTR)
		;
	p->path[0] = 0;
}
