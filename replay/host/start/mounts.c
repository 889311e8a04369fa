/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/start/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 1024

struct sr_mounts {
	char *places[MOST];
	int fds[MOST]; /* of what is there; -1: another mount hides it, or this user may not go there */
	int n;
};

/* The kernel writes space, tab, newline and backslash as \ and three octal digits. */
static void unescape(char *text)
{
	char *to = text;
	unsigned int c;

	for (const char *from = text; *from;) {
		if (from[0] == '\\' && sscanf(from + 1, "%3o", &c) == 1) {
			*to++ = (char)c;
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
}

bool sr_mounts_each(void (*take)(void *argument, const char *place, const char *type), void *argument)
{
	char *line = NULL, place[PATH_MAX], type[64], *rest;
	FILE *f = fopen("/proc/self/mountinfo", "re");
	size_t room = 0, n = 0;

	if (!f)
		return false;
	while (getline(&line, &room, f) >= 0) {
		rest = strstr(line, " - ");
		if (!rest || sscanf(line, "%*s %*s %*s %*s %4095s", place) != 1 || sscanf(rest, " - %63s", type) != 1)
			continue;
		unescape(place);
		take(argument, place, type);
		n++;
	}
	free(line);
	fclose(f);
	if (!n)
		errno = ENODATA;
	return n;
}

static void add(void *mounts, const char *place, const char *type)
{
	struct sr_mounts *m = mounts;

	(void)type;
	if (m->n == MOST || !(m->places[m->n] = strdup(place)))
		return;
	m->fds[m->n++] = open(place, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

struct sr_mounts *sr_mounts_open(void)
{
	struct sr_mounts *m = calloc(1, sizeof(*m));

	if (m && sr_mounts_each(add, m))
		return m;
	free(m);
	return NULL;
}

void sr_mounts_close(struct sr_mounts *m)
{
	for (int i = 0; m && i < m->n; i++) {
		if (m->fds[i] >= 0)
			close(m->fds[i]);
		free(m->places[i]);
	}
	free(m);
}

static bool is_below(const char *path, const char *directory)
{
	size_t n = strlen(directory);

	while (n && directory[n - 1] == '/')
		n--;
	return !strncmp(path, directory, n) && path[n] == '/' && path[n + 1];
}

/* One that comes back with another one, which it is on. */
static bool is_on_another(const struct sr_mounts *m, int i, const char *directory)
{
	for (int k = 0; k < i; k++)
		if (is_below(m->places[k], directory) && is_below(m->places[i], m->places[k]))
			return true;
	return false;
}

static bool is_one_of(char *const *paths, const char *path)
{
	for (; *paths; paths++)
		if (!strcmp(*paths, path))
			return true;
	return false;
}

/* With all that is on it: in a user namespace the kernel gives no copy of a mount alone that has others on it. */
bool sr_mounts_put_back(const struct sr_mounts *m, const char *directory, char *const *except)
{
	char there[64];

	for (int i = 0; i < m->n; i++) {
		if (m->fds[i] < 0 || !is_below(m->places[i], directory) || is_on_another(m, i, directory) || is_one_of(except, m->places[i]))
			continue;
		snprintf(there, sizeof(there), "/proc/self/fd/%d", m->fds[i]);
		if (mount(there, m->places[i], NULL, MS_BIND | MS_REC, NULL))
			return false;
	}
	return true;
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

bool sr_mounts_unshare(bool *in_user_namespace)
{
	const unsigned int user = geteuid(), group = getegid();
	char users[64], groups[64];

	*in_user_namespace = unshare(CLONE_NEWNS) != 0;
	if (!*in_user_namespace)
		return true;
	snprintf(users, sizeof(users), "%u %u 1", user, user);
	snprintf(groups, sizeof(groups), "%u %u 1", group, group);
	return !unshare(CLONE_NEWUSER | CLONE_NEWNS) && write_text("/proc/self/setgroups", "deny") &&
	       write_text("/proc/self/uid_map", users) && write_text("/proc/self/gid_map", groups);
}

/* Goes to the root of the mount namespace, from below another one. */
static bool leave_root(int root)
{
	struct stat here, above;

	if (chroot("/proc") || fchdir(root))
		return false;
	do
		if (stat(".", &here) || chdir("..") || stat(".", &above))
			return false;
	while (here.st_ino != above.st_ino || here.st_dev != above.st_dev);
	return !chroot(".");
}

/* In a chroot, whose root need not be a mount. */
static bool make_all_private_from_above(void)
{
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), error;
	bool done = root >= 0 && here >= 0 && leave_root(root) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);

	error = errno;
	done = root >= 0 && here >= 0 && !fchdir(root) && !chroot(".") && !fchdir(here) && done;
	if (root >= 0)
		close(root);
	if (here >= 0)
		close(here);
	errno = error;
	return done;
}

bool sr_mounts_make_private(void)
{
	return !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || (errno == EINVAL && make_all_private_from_above());
}
