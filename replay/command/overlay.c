/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * overlay.c: each file system that holds ordinary files gets an overlay, whose upper layer is in
 * memory.
 *
 * A mount does not show what is mounted below it, so that each one is done by itself, from the root
 * down.  The root directory cannot be mounted over from within; its subdirectories are, one by one.
 */
#include "replay/command/overlay.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/command/command.h"
#include "replay/command/overlay_copy.h"
#include "replay/host/start/mounts.h"

#define PLACES 512
/* Of all files that are copied to memory. */
#define COPIES_MOST (256ul << 20)

struct overlay {
	char *places[PLACES]; /* to be mounted over */
	int fds[PLACES];      /* what was there */
	int n;
	int covered;
	bool is_user;  /* in a user namespace */
	uint64_t room; /* for copies, which are made where there can be no overlay */
	int upper;    /* a file system in memory: covered itself, it has no name */
};

static bool refuse(const char *what)
{
	sr_fail("the run's files cannot be kept private (%s: %s): %s--live-files lets it read and "
		"change the files of this machine",
		what, strerror(errno),
		errno == EPERM ? "that takes root, user namespaces, or a container with --cap-add=SYS_ADMIN; " : "");
	return false;
}

/* File systems with ordinary files that are kept. */
static bool is_ordinary(const char *type)
{
	static const char *const types[] = {"ext2", "ext3",     "ext4",       "xfs",    "btrfs",
					    "f2fs", "zfs",      "overlay",    "tmpfs",  "nfs",
					    "nfs4", "lustre",   "gpfs",       "beegfs", "ceph",
					    "9p",   "virtiofs", "fuse.sshfs", "vfat",   "erofs"};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(type, types[i]))
			return true;
	return false;
}

static bool is_below(const char *path, const char *directory)
{
	size_t n = strlen(directory);

	return !strncmp(path, directory, n) && (!path[n] || path[n] == '/');
}

static bool is_place(const struct overlay *o, const char *path)
{
	for (int i = 0; i < o->n; i++)
		if (!strcmp(o->places[i], path))
			return true;
	return false;
}

/* What the kernel, devices and running services show there is no copy of. */
static bool is_left_alone(const char *path)
{
	return is_below(path, "/proc") || is_below(path, "/sys") || is_below(path, "/dev") ||
	       is_below(path, "/run");
}

static void add(struct overlay *o, const char *place)
{
	if (o->n == PLACES || is_left_alone(place))
		return;
	o->fds[o->n] = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (o->fds[o->n] < 0)
		return;
	o->places[o->n++] = strdup(place);
}

static void add_root(struct overlay *o)
{
	DIR *root = opendir("/");
	struct dirent *e;
	struct stat st;
	char path[PATH_MAX];

	while (root && (e = readdir(root))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		snprintf(path, sizeof(path), "/%s", e->d_name);
		if (!lstat(path, &st) && S_ISDIR(st.st_mode))
			add(o, path);
	}
	if (root)
		closedir(root);
}

static void add_ordinary(void *overlay, const char *place, const char *type)
{
	if (strcmp(place, "/") && is_ordinary(type))
		add(overlay, place);
}

static bool find_places(struct overlay *o)
{
	add_root(o);
	return sr_mounts_each(add_ordinary, o);
}

static bool make_upper(struct overlay *o, const char *upper)
{
	if ((mkdir(upper, 0700) && errno != EEXIST) ||
	    mount("none", upper, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700"))
		return false;
	o->upper = open(upper, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return o->upper >= 0;
}

static bool cover(struct overlay *o, int fd, const char *place)
{
	char options[256], upper[64], work[64];
	struct stat st;

	snprintf(upper, sizeof(upper), "/proc/self/fd/%d/upper-%d", o->upper, o->covered);
	snprintf(work, sizeof(work), "/proc/self/fd/%d/work-%d", o->upper, o->covered++);
	if (mkdir(upper, 0755) || mkdir(work, 0755))
		return false;
	/* The directory itself keeps its rights. */
	if (!fstat(fd, &st)) {
		chmod(upper, st.st_mode & 07777);
		if (chown(upper, st.st_uid, st.st_gid))
			errno = 0;
	}
	snprintf(options, sizeof(options), "lowerdir=/proc/self/fd/%d,upperdir=%s,workdir=%s%s", fd,
		 upper, work, o->is_user ? ",userxattr" : "");
	return !mount("overlay", place, "overlay", 0, options);
}

static bool cover_tree(struct overlay *o, int fd, const char *place);

/* What is there stays as it is. */
static bool show(int fd, const char *place)
{
	char there[64];

	snprintf(there, sizeof(there), "/proc/self/fd/%d", fd);
	return !mount(there, place, NULL, MS_BIND | MS_REC, NULL);
}

/*
 * The subdirectories of the directory as it was; those that are mounts of files have their turn by themselves.  copied: the other
 * mounts, and what is neither file nor directory, have to be shown in the copy.
 */
static bool cover_children(struct overlay *o, int at, const char *place, bool copied)
{
	DIR *directory = opendir(place);
	char path[PATH_MAX];
	struct stat whole, st;
	struct dirent *e;
	bool fine = !fstat(at, &whole);
	int fd;

	while (fine && directory && (e = readdir(directory))) {
		snprintf(path, sizeof(path), "%s/%s", place, e->d_name);
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || is_place(o, path) ||
		    (fd = openat(at, e->d_name, O_PATH | O_NOFOLLOW | O_CLOEXEC)) < 0)
			continue;
		if (fstat(fd, &st) || S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
			fine = true; /* the directory's own */
		else if (!S_ISDIR(st.st_mode) || st.st_dev != whole.st_dev)
			fine = !copied || show(fd, path) || refuse(path);
		else
			fine = cover_tree(o, fd, path);
		close(fd);
	}
	if (directory)
		closedir(directory);
	return fine;
}

/* A copy in place of an overlay. */
static bool copy_tree(struct overlay *o, int fd, const char *place)
{
	char copy[64];
	struct stat st;
	int to = -1;

	snprintf(copy, sizeof(copy), "/proc/self/fd/%d/copy-%d", o->upper, o->covered++);
	if (!fstat(fd, &st) && !mkdir(copy, st.st_mode & 07777))
		to = open(copy, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (to < 0 || !sr_overlay_copy(fd, to, &o->room) || mount(copy, place, NULL, MS_BIND, NULL))
		return refuse(place);
	close(to);
	return cover_children(o, fd, place, true);
}

/*
 * In a user namespace the kernel gives no copy of a directory below which something else is
 * mounted, as in the /etc of a container.  One that the user cannot write to needs none itself.  Nor does one that nobody can reach any more:
 * what it was on (the /sys of a chroot) is no ordinary file system, and is hidden by the copy of what that was on.
 */
static bool cover_tree(struct overlay *o, int fd, const char *place)
{
	if (cover(o, fd, place) || access(place, F_OK))
		return true;
	if (errno != EINVAL || !o->is_user)
		return refuse(place);
	return access(place, W_OK) ? cover_children(o, fd, place, false) : copy_tree(o, fd, place);
}

/* What is live is what it was, at its place. */
static bool uncover(const struct sr_live *live, const int fds[])
{
	char there[64];

	for (size_t i = 0; i < live->n; i++) {
		snprintf(there, sizeof(there), "/proc/self/fd/%d", fds[i]);
		if (mount(there, live->paths[i], NULL, MS_BIND, NULL))
			return refuse(live->paths[i]);
	}
	return true;
}

static bool cover_all(struct overlay *o, const char *upper, const char *directory)
{
	if (!sr_mounts_make_private())
		return refuse("mount");
	if (!find_places(o))
		return refuse("/proc/self/mountinfo");
	/*
	 * In a user namespace a directory of another group cannot be copied.  The current one need
	 * not be, if it is covered itself.
	 */
	if (o->is_user && !is_place(o, directory))
		add(o, directory);
	if (!make_upper(o, upper))
		return refuse("mount of a tmpfs");
	for (int i = 0; i < o->n; i++)
		if (!cover_tree(o, o->fds[i], o->places[i]))
			return false;
	return true;
}

bool sr_overlay_enter(const struct sr_live *live, const char *upper)
{
	struct overlay o = {.room = COPIES_MOST};
	char directory[PATH_MAX];
	int fds[SR_LIVE_PATHS];

	if (!getcwd(directory, sizeof(directory)))
		return refuse("the current directory");
	if (!sr_mounts_unshare(&o.is_user))
		return refuse("unshare");
	for (size_t i = 0; i < live->n; i++)
		if ((fds[i] = open(live->paths[i], O_PATH | O_CLOEXEC)) < 0)
			return refuse(live->paths[i]);
	if (!cover_all(&o, upper, directory) || !uncover(live, fds))
		return false;
	/* By its name, which now means another file system. */
	return !chdir(directory) || refuse(directory);
}
