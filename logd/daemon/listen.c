/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/daemon/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "logd/ring/request.h"
#include "logd/service/handover.h"

#define LOCK_RETRY_MS 10

/* Makes dir and what is missing above it, for this user alone. */
static int make_directories(char *dir)
{
	char *slash;
	int ret;

	if (!mkdir(dir, 0700) || errno == EEXIST)
		return 0;
	slash = strrchr(dir, '/');
	if (errno != ENOENT || !slash || slash == dir)
		return -errno;
	*slash = 0;
	ret = make_directories(dir);
	*slash = '/';
	if (!ret && mkdir(dir, 0700) && errno != EEXIST)
		ret = -errno;
	return ret;
}

/* Users that a user namespace has no number for, root of the machine among them, all appear as this one; or -1: there is none. */
static int64_t unknown_user(void)
{
	unsigned int inside, outside, count, unknown = 65534;
	FILE *f = fopen("/proc/sys/kernel/overflowuid", "re");
	bool is_known;

	if (f) {
		if (fscanf(f, "%u", &unknown) != 1)
			unknown = 65534;
		fclose(f);
	}
	f = fopen("/proc/self/uid_map", "re");
	is_known = !f;
	while (!is_known && fscanf(f, "%u %u %u", &inside, &outside, &count) == 3)
		is_known = unknown >= inside && unknown - inside < count;
	if (f)
		fclose(f);
	return is_known ? -1 : (int64_t)unknown;
}

/* Directories that no user but root can have made, nor replace. */
static bool is_of_the_system(const char *dir)
{
	return !strchr(dir + 1, '/') || !strcmp(dir, "/dev/shm") || !strcmp(dir, "/var/tmp") || !strcmp(dir, "/run/user");
}

static bool has_safe_owner(const char *dir, uid_t owner)
{
	return owner == geteuid() || owner == 0 || (is_of_the_system(dir) && owner == unknown_user());
}

/* Is it impossible for another user to change what this name, and names in it, refer to? */
static bool is_safe(const char *dir)
{
	struct stat st;

	if (lstat(dir, &st) || !has_safe_owner(dir, st.st_uid))
		return false;
	/* In a sticky directory (/tmp) nobody else can replace our files. */
	return S_ISLNK(st.st_mode) ||
	       (S_ISDIR(st.st_mode) && (!(st.st_mode & 022) || (st.st_mode & S_ISVTX)));
}

/* Cuts dir to the first directory on its way that is not safe.  False: there is none. */
static bool find_unsafe(char *dir)
{
	for (char *slash = dir; (slash = strchr(slash + 1, '/'));) {
		*slash = 0;
		if (!is_safe(dir))
			return true;
		*slash = '/';
	}
	return !is_safe("/") || !is_safe(dir);
}

/*
 * No other user may be able to put a socket where ours is expected: not on the way of the path,
 * and, if that has symbolic links, not in the place that it leads to.
 */
static int check_directory(const char *dir, char *error, size_t size)
{
	char way[PATH_MAX], place[PATH_MAX];
	const char *unsafe = NULL;

	snprintf(way, sizeof(way), "%s", dir);
	if (!realpath(dir, place))
		return -errno;
	if (find_unsafe(place))
		unsafe = place;
	else if (find_unsafe(way))
		unsafe = way;
	if (!unsafe)
		return 0;
	snprintf(error, size,
		 "%s is not safe for a socket: it belongs to, or may be written by, "
		 "another user; name another place with --socket, or in SREPLAY_SOCKET",
		 unsafe);
	return -EPERM;
}

static int prepare_directory(const char *path, char *error, size_t size)
{
	char dir[PATH_MAX], *slash;
	int err;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (!slash || slash == dir)
		return 0;
	*slash = 0;
	err = make_directories(dir);
	if (err) {
		snprintf(error, size, "cannot make the directory %s: %s; name another place with --socket, or in SREPLAY_SOCKET", dir,
			 strerror(-err));
		return err;
	}
	return check_directory(dir, error, size);
}

/* Does a daemon answer there? */
static bool is_served(const char *path, int timeout_ms)
{
	int socket = sr_request_connect(path), ret;
	struct sr_message request, answer;

	if (socket < 0)
		return false;
	sr_message_init(&request, SR_MSG_STATUS);
	ret = sr_request(socket, &request, -1, &answer, NULL, timeout_ms);
	close(socket);
	return !ret;
}

/* 0; or -EALREADY: the other daemon answers, or keeps the lock for longer than HANDOVER_MS. */
static int wait_for_lock(int fd, const char *path)
{
	const struct timespec pause = sr_sys_ms(LOCK_RETRY_MS);
	int64_t left, end = sr_sys_now_ms() + HANDOVER_MS;

	while (flock(fd, LOCK_EX | LOCK_NB)) {
		left = end - sr_sys_now_ms();
		if (left <= 0 || is_served(path, (int)left))
			return -EALREADY;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* The lock is a file of its own, since the socket is removed and made anew. */
static int take_lock(const char *path, char *error, size_t size)
{
	char lock[PATH_MAX], pid[24] = "";
	int fd;

	snprintf(lock, sizeof(lock), "%s.lock", path);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		snprintf(error, size, "cannot open %s: %s", lock, strerror(errno));
		return -errno;
	}
	if (wait_for_lock(fd, path)) {
		if (pread(fd, pid, sizeof(pid) - 1, 0) < 0)
			pid[0] = 0;
		pid[strcspn(pid, "\n")] = 0;
		snprintf(error, size, "another sreplay-logd%s%s serves %s already",
			 pid[0] ? ", process " : "", pid, path);
		close(fd);
		return -EALREADY;
	}
	if (ftruncate(fd, 0) || dprintf(fd, "%d\n", (int)getpid()) < 0)
		return fd; /* the number serves the message above only */
	return fd;
}

static int bind_and_listen(const char *path, char *error, size_t size)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	unlink(path); /* of a daemon that was killed, since we have the lock */
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&address, sizeof(address)) &&
	    !chmod(path, 0600) && !listen(fd, SOMAXCONN))
		return fd;
	err = -errno;
	snprintf(error, size, "cannot listen on %s: %s", path, strerror(-err));
	if (fd >= 0)
		close(fd);
	return err;
}

int listen_open(const char *path, char *error, size_t error_size)
{
	int err, lock;

	if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
		snprintf(error, error_size, "the socket's path is too long: %s", path);
		return -ENAMETOOLONG;
	}
	err = prepare_directory(path, error, error_size);
	if (err)
		return err;
	lock = take_lock(path, error, error_size);
	return lock < 0 ? lock : bind_and_listen(path, error, error_size);
}
