/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DIR/out has the upper layers: DIR/out/d lies over the machine's directory /d.  DIR/root is where
 * everything is mounted; it becomes the root.
 */
#include "replay/host/start/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "replay/print/say.h"

/* ---- making ---- */

static bool is_empty(const char *dir)
{
	DIR *d = opendir(dir);
	int entries = 0;

	while (d && readdir(d))
		entries++;
	if (d)
		closedir(d);
	return entries == 2; /* . and .. */
}

bool sr_sandbox_make(const char *dir, char *path, size_t size)
{
	static const char *const parts[] = {"out", "work", "root"};
	char real[PATH_MAX], part[PATH_MAX + 8];

	if (mkdir(dir, 0755) && errno != EEXIST)
		return !sr_fail("cannot make the sandbox %s: %s", dir, strerror(errno));
	if (!is_empty(dir))
		return !sr_fail("the sandbox %s is not an empty directory: name another one", dir);
	if (!realpath(dir, real) || strlen(real) >= size)
		return !sr_fail("%s: the path is too long", dir);
	strcpy(path, real);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		snprintf(part, sizeof(part), "%s/%s", path, parts[i]);
		if (mkdir(part, 0755))
			return !sr_fail("cannot make %s: %s", part, strerror(errno));
	}
	return true;
}

/* ---- a name space of our own ---- */

static bool put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* Without root, mounts need a user name space; user and group stay the same in it. */
static bool make_name_space(void)
{
	uid_t user = geteuid();
	gid_t group = getegid();
	char map[64];

	if (unshare(CLONE_NEWNS | (user ? CLONE_NEWUSER : 0)))
		return false;
	if (user) {
		put("/proc/self/setgroups", "deny");
		snprintf(map, sizeof(map), "%u %u 1", user, user);
		if (!put("/proc/self/uid_map", map))
			return false;
		snprintf(map, sizeof(map), "%u %u 1", group, group);
		if (!put("/proc/self/gid_map", map))
			return false;
	}
	return !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* ---- the machine's mounts ---- */

struct mounts {
	char **paths;
	size_t n;
};

/* "\\040" and the like. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; to++) {
		unsigned int code;

		if (*from == '\\' && sscanf(from + 1, "%3o", &code) == 1) {
			*to = (char)code;
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = 0;
}

static bool read_mounts(struct mounts *m)
{
	FILE *table = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, path[PATH_MAX];
	size_t room = 0;

	*m = (struct mounts){0};
	while (table && getline(&line, &room, table) > 0) {
		char **paths = reallocarray(m->paths, m->n + 1, sizeof(*paths));

		if (!paths)
			break;
		m->paths = paths;
		if (sscanf(line, "%*s %*s %*s %*s %4095s", path) != 1)
			continue;
		unescape(path);
		if (strcmp(path, "/"))
			m->paths[m->n++] = strdup(path);
	}
	free(line);
	if (table)
		fclose(table);
	return table && m->paths;
}

static bool has_mounts_below(const struct mounts *m, const char *dir)
{
	size_t n = strlen(dir);

	for (size_t i = 0; i < m->n; i++)
		if (m->paths[i] && !strncmp(m->paths[i], dir, n) && m->paths[i][n] == '/')
			return true;
	return false;
}

/* Directories of the kernel: proc, devices, shared memory. */
static bool is_system(const char *path)
{
	return !strcmp(path, "/proc") || !strcmp(path, "/sys") || !strcmp(path, "/dev");
}

/* ---- one piece of the new root; in DIR, whose own path may hold any character ---- */

static bool overlay(const char *lower, const char *at, const char *upper)
{
	static int number;
	char work[32], options[2 * PATH_MAX + 100];

	if (strpbrk(lower, ":,\\"))
		return false;
	snprintf(work, sizeof(work), "work/%d", number++);
	snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%s,workdir=%s,index=off%s", lower,
		 upper, work, geteuid() ? ",userxattr" : "");
	return !mkdir(work, 0700) && !mount("sreplay", at, "overlay", 0, options);
}

static bool bind(const char *from, const char *at)
{
	return !mount(from, at, NULL, MS_BIND | MS_REC, NULL);
}

/* A remount in a user name space must keep these flags of the mount. */
static unsigned long flags_of(const char *at)
{
	static const unsigned long pairs[][2] = {
	    {ST_NOSUID, MS_NOSUID},   {ST_NODEV, MS_NODEV},           {ST_NOEXEC, MS_NOEXEC},
	    {ST_NOATIME, MS_NOATIME}, {ST_NODIRATIME, MS_NODIRATIME}, {ST_RELATIME, MS_RELATIME},
	};
	unsigned long flags = 0;
	struct statvfs st;

	if (statvfs(at, &st))
		return 0;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if (st.f_flag & pairs[i][0])
			flags |= pairs[i][1];
	return flags;
}

static bool show(const char *from, const char *at)
{
	if (!bind(from, at))
		return false;
	if (!mount(NULL, at, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | flags_of(at), NULL))
		return true;
	umount2(at, MNT_DETACH);
	return false;
}

static void own_as(int directory, const char *name, const struct stat *st)
{
	/* Only root may change owners, and only root needs to. */
	if (fchownat(directory, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW))
		return;
}

/* ---- putting it together ---- */

/*
 * The new root has the machine's directories down to those without a mount point below, which get
 * an overlay.  An overlay over a tree with mount points would not show what is mounted, and is not
 * allowed in a user name space.
 */
static void add_directory(const struct mounts *m, const char *path);

static void make_way(char *path)
{
	for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(path, 0755);
		*slash = '/';
	}
	mkdir(path, 0755);
}

static void add_tree(const char *path, const char *at, const struct stat *st)
{
	char upper[PATH_MAX + 8];
	struct stat there;

	snprintf(upper, sizeof(upper), "out%s", path);
	if (stat(upper, &there)) {
		make_way(upper);
		own_as(AT_FDCWD, upper, st);
		chmod(upper, st->st_mode & 07777);
	}
	if (overlay(path, at, upper))
		return;
	rmdir(upper);
	if (show(path, at))
		sr_note("%s cannot be written to in the sandbox", path);
	else
		sr_note("%s is not there in the sandbox: %s", path, strerror(errno));
}

static void add_link(const char *path, const char *at)
{
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);

	target[n > 0 ? n : 0] = 0;
	if (n < 0 || symlink(target, at))
		sr_note("%s is not there in the sandbox: %s", path, strerror(errno));
}

/*
 * The working directory, if it is in a directory without an overlay: the trace's own copy if there
 * is one.
 */
static void add_file(const char *path, const char *at)
{
	char mine[PATH_MAX + 8];
	int fd = open(at, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd >= 0)
		close(fd);
	snprintf(mine, sizeof(mine), "out%s", path);
	if (access(mine, F_OK) ? !show(path, at) : !bind(mine, at))
		sr_note("%s is not there in the sandbox: %s", path, strerror(errno));
}

static void add_entry(const struct mounts *m, const char *path)
{
	char at[PATH_MAX + 8];
	struct stat st;

	snprintf(at, sizeof(at), "root%s", path);
	if (lstat(path, &st))
		return;
	if (S_ISLNK(st.st_mode)) {
		add_link(path, at);
		return;
	}
	if (!S_ISDIR(st.st_mode)) {
		add_file(path, at);
		return;
	}
	if (mkdir(at, 0700))
		return;
	own_as(AT_FDCWD, at, &st);
	chmod(at, st.st_mode & 07777);
	if (is_system(path)) {
		if (!bind(path, at))
			sr_note("%s is not there in the sandbox: %s", path, strerror(errno));
	} else if (has_mounts_below(m, path)) {
		add_directory(m, path);
	} else {
		add_tree(path, at, &st);
	}
}

/* path: "" for the root. */
static void add_directory(const struct mounts *m, const char *path)
{
	DIR *d = opendir(path[0] ? path : "/");
	char entry[PATH_MAX];
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (snprintf(entry, sizeof(entry), "%s/%s", path, e->d_name) < (int)sizeof(entry))
			add_entry(m, entry);
	}
	if (d)
		closedir(d);
}

bool sr_sandbox_enter(const char *path)
{
	struct mounts m;

	if (!read_mounts(&m))
		return !sr_fail("cannot make a sandbox: cannot read /proc/self/mountinfo");
	if (!make_name_space())
		return !sr_fail("cannot make a sandbox: no mount name space for this user (%s)",
				strerror(errno));
	/* A mount of its own, in which the pieces are mounted; it becomes the root. */
	if (chdir(path) || !bind("root", "root"))
		return !sr_fail("cannot make a sandbox in %s: %s", path, strerror(errno));
	/* Enters the mount, not the directory below it. */
	if (chdir(path))
		return !sr_fail("cannot enter %s: %s", path, strerror(errno));
	add_directory(&m, "");
	if (chroot("root") || chdir("/"))
		return !sr_fail("cannot enter the sandbox %s: %s", path, strerror(errno));
	return true;
}

/* ---- the end ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	/* overlayfs's own directory, which the kernel leaves without permissions. */
	if (type == FTW_DNR && !chmod(path, 0700))
		return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	if (remove(path) && errno != ENOENT)
		sr_note("cannot remove %s: %s", path, strerror(errno));
	return 0;
}

static void remove_tree(const char *path, const char *part)
{
	char tree[PATH_MAX + 8];

	snprintf(tree, sizeof(tree), "%s/%s", path, part);
	nftw(tree, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Removes a layer into which nothing was written, and its empty parents up to out. */
static void remove_empty_way(char *layer, size_t out)
{
	while (strlen(layer) > out && !rmdir(layer))
		*strrchr(layer, '/') = 0;
}

static void remove_empty_layers(const char *out)
{
	DIR *d = opendir(out);
	char layer[2 * PATH_MAX + 16];
	struct dirent *e;
	struct mounts m;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	if (d)
		closedir(d);
	for (size_t i = read_mounts(&m) ? m.n : 0; i-- > 0;) {
		snprintf(layer, sizeof(layer), "%s%s", out, m.paths[i]);
		remove_empty_way(layer, strlen(out));
	}
}

void sr_sandbox_end(const char *path)
{
	char out[PATH_MAX + 8];

	snprintf(out, sizeof(out), "%s/out", path);
	remove_tree(path, "work");
	remove_tree(path, "root");
	remove_empty_layers(out);
	if (!is_empty(out))
		sr_note("the files that the program wrote are in %s", out);
}
