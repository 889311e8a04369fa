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

/* What the remover tells the command: an errno, or 0 and the directory. */
struct made {
	int error;
	char path[PATH_MAX];
};

static int make_in(struct made *m, const char *in)
{
	char real[PATH_MAX];

	errno = ENAMETOOLONG;
	if (!in || !realpath(in, real) || strlen(real) > PATH_MAX - 32)
		return errno;
	snprintf(m->path, sizeof(m->path), "%s/.sreplay-XXXXXX", strcmp(real, "/") ? real : "");
	return mkdtemp(m->path) ? 0 : errno;
}

static void make(struct made *m, const char *in)
{
	if (in) {
		m->error = make_in(m, in);
		return;
	}
	m->error = make_in(m, getenv("TMPDIR"));
	if (m->error)
		m->error = make_in(m, "/tmp");
}

/*
 * The process that removes the directory makes it, too, so that there is none without its remover, whenever the command
 * is killed.  Terminal and pipes of the command stay open no longer than the command runs.
 */
static void __attribute__((noreturn)) make_and_remove_at_end(const char *in, int alive, int told)
{
	struct made m = {0};
	ssize_t written __attribute__((unused));
	sigset_t all;
	char c;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	setsid();
	make(&m, in);
	/* It fails if the command has ended already, as will be seen below. */
	written = write(told, &m, sizeof(m));
	if (m.error)
		_exit(0);
	dup2(alive, 0);
	syscall(SYS_close_range, 1, ~0u, 0);
	while (read(0, &c, 1) < 0 && errno == EINTR)
		;
	for (int i = 0; i < TRIES; i++) {
		nftw(m.path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
		if (access(m.path, F_OK))
			break;
		usleep(20000);
	}
	_exit(0);
}

static bool read_all(int fd, void *to, size_t n)
{
	for (ssize_t got; n; to = (char *)to + got, n -= (size_t)got) {
		got = read(fd, to, n);
		if (got < 0 && errno == EINTR)
			got = 0;
		else if (got <= 0)
			return false;
	}
	return true;
}

/* An errno, or 0. */
static int start_remover(struct sr_private *p, const char *in)
{
	int alive[2], told[2];
	struct made m = {.error = EIO};

	if (pipe2(alive, O_CLOEXEC))
		return errno;
	if (pipe2(told, O_CLOEXEC)) {
		m.error = errno;
		close(alive[0]);
		close(alive[1]);
		return m.error;
	}
	fflush(NULL);
	p->remover = fork();
	if (p->remover == 0) {
		close(alive[1]);
		close(told[0]);
		make_and_remove_at_end(in, alive[0], told[1]);
	}
	if (p->remover < 0)
		m.error = errno;
	close(alive[0]);
	close(told[1]);
	if (p->remover > 0 && !read_all(told[0], &m, sizeof(m)))
		m.error = EIO;
	close(told[0]);
	p->alive = alive[1];
	memcpy(p->path, m.path, sizeof(p->path));
	return m.error;
}

bool sr_private_make(struct sr_private *p, const char *in)
{
	int error;

	*p = (struct sr_private){.alive = -1};
	error = start_remover(p, in);
	if (!error)
		return true;
	sr_fail("cannot make a directory for what the program writes in %s: %s%s", in ? in : "/tmp", strerror(error),
		in ? "" : "; set TMPDIR to one that can be written");
	sr_private_remove(p);
	return false;
}

void sr_private_remove(struct sr_private *p)
{
	if (p->alive < 0)
		return;
	close(p->alive);
	p->alive = -1;
	while (p->remover > 0 && waitpid(p->remover, NULL, 0) < 0 && errno == EINTR)
		;
	p->path[0] = 0;
}
