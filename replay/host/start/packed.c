/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/start/packed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/base/checksum.h"
#include "logd/trace/reader.h"
#include "logd/trace/safe_file.h"
#include "replay/analysis/log/objects.h"
#include "replay/host/start/mounts.h"
#include "replay/print/say.h"

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool sr_packed_may_be(const char *path)
{
	return path[0] == '/' && name_of(path) > path + 1 &&
	       strncmp(name_of(path), "libsreplay", 10);
}

void sr_packed_directory(const char *path, char *name, size_t size)
{
	size_t n = (size_t)(name_of(path) - path);

	snprintf(name, size, SR_PACKED "/%016llx", (unsigned long long)sr_checksum(path, n, 0));
}

#define TREE	  SR_PACKED "/tree"
#define TREE_MODE 0755 /* as the machine's directories, on which it may be laid; the trace itself is for this user only */

/* The directory of the path, below `packed/tree`. */
static int make_tree(int trace, const char *path)
{
	char name[2 * PATH_MAX];

	snprintf(name, sizeof(name), TREE "%.*s", (int)(name_of(path) - path), path);
	for (char *slash = name + strlen(SR_PACKED); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		if (mkdirat(trace, name, TREE_MODE) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return 0;
}

int sr_packed_make_directory(int trace, const char *path)
{
	char name[64];
	int fd, err;

	sr_packed_directory(path, name, sizeof(name));
	if ((mkdirat(trace, SR_PACKED, 0700) && errno != EEXIST) || (mkdirat(trace, name, 0700) && errno != EEXIST))
		return -errno;
	err = make_tree(trace, path);
	fd = err ? err : openat(trace, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd == -1 ? -errno : fd;
}

static bool is_as_recorded(int fd, const json_t *object)
{
	struct sr_object_identity id;
	bool same = fd >= 0 && sr_object_is_same_file(fd, object, &id);

	if (fd >= 0)
		close(fd);
	return same;
}

bool sr_packed_has(const char *trace, const json_t *object, const char *path)
{
	char directory[64], packed[PATH_MAX];

	if (!sr_packed_may_be(path))
		return false;
	sr_packed_directory(path, directory, sizeof(directory));
	return snprintf(packed, sizeof(packed), "%s/%s/%s", trace, directory, name_of(path)) <
		   (int)sizeof(packed) &&
	       is_as_recorded(sr_safe_open(packed), object);
}

/* A path of the object that is needed from the trace, the caller's to free; or NULL. */
static char *needed(const char *trace, const json_t *object)
{
	char *path = sr_trace_bytes(json_object_get(object, "path"), NULL);

	if (path && !is_as_recorded(sr_object_open(path), object) &&
	    sr_packed_has(trace, object, path))
		return path;
	free(path);
	return NULL;
}

/* Of a stranger's trace not more is read. */
#define LOADED_MOST (1 << 20)

json_t *sr_packed_loaded(const char *trace)
{
	char path[PATH_MAX];
	json_t *list = NULL;
	struct stat st;
	int fd;

	if (snprintf(path, sizeof(path), "%s/" SR_PACKED_LOADED, trace) < (int)sizeof(path) && (fd = sr_safe_open(path)) >= 0) {
		if (!fstat(fd, &st) && st.st_size <= LOADED_MOST)
			list = json_loadfd(fd, 0, NULL);
		close(fd);
	}
	if (json_is_array(list))
		return list;
	json_decref(list);
	return json_array();
}

/* Files that cannot be read are no files. */
static bool have_same_content(const char *one, const char *other)
{
	int a = open(one, O_RDONLY | O_CLOEXEC | O_NONBLOCK), b = sr_safe_open(other);
	char in_a[1 << 14], in_b[sizeof(in_a)];
	ssize_t n = a >= 0 && b >= 0 ? 1 : -1;

	while (n > 0) {
		n = read(a, in_a, sizeof(in_a));
		if (read(b, in_b, sizeof(in_b)) != n || (n > 0 && memcmp(in_a, in_b, (size_t)n)))
			n = -1;
	}
	if (a >= 0)
		close(a);
	if (b >= 0)
		close(b);
	return !n;
}

/* The same of a library that was loaded by dlopen. */
static char *needed_to_load(const char *trace, const json_t *object)
{
	char *path = sr_trace_bytes(json_object_get(object, "path"), NULL), directory[64], packed[PATH_MAX];

	if (!path || !sr_packed_may_be(path)) {
		free(path);
		return NULL;
	}
	sr_packed_directory(path, directory, sizeof(directory));
	if (snprintf(packed, sizeof(packed), "%s/%s/%s", trace, directory, name_of(path)) < (int)sizeof(packed) && !access(packed, R_OK) &&
	    !have_same_content(path, packed))
		return path;
	free(path);
	return NULL;
}

/* All paths that are needed: an array of them, ended by NULL, which free_paths() frees.  NULL: no memory. */
static char **needed_paths(const char *trace, const json_t *process)
{
	const json_t *objects = json_object_get(process, "objects"), *object;
	json_t *loaded = sr_packed_loaded(trace);
	char **paths = calloc(json_array_size(objects) + json_array_size(loaded) + 1, sizeof(*paths));
	size_t n = 0, i;

	json_array_foreach(objects, i, object)
	{
		if (paths && (paths[n] = needed(trace, object)))
			n++;
	}
	json_array_foreach(loaded, i, object)
	{
		if (paths && (paths[n] = needed_to_load(trace, object)))
			n++;
	}
	json_decref(loaded);
	return paths;
}

static void free_paths(char **paths)
{
	for (size_t i = 0; paths && paths[i]; i++)
		free(paths[i]);
	free(paths);
}

bool sr_packed_is_needed(const char *trace, const json_t *process)
{
	char **paths = needed_paths(trace, process);
	bool is = paths && paths[0];

	free_paths(paths);
	return is;
}

/* ------------------------------------------------------------ in its place */

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* With the same numbers of user and group as outside. */
static bool enter_user_namespace(void)
{
	char users[48], groups[48];

	snprintf(users, sizeof(users), "%u %u 1", geteuid(), geteuid());
	snprintf(groups, sizeof(groups), "%u %u 1", getegid(), getegid());
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

/* What is mounted in this namespace is seen in no other one. */
static bool make_mounts_private(void)
{
	return !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || (errno == EINVAL && make_all_private_from_above());
}

static bool enter_namespace(void)
{
	if ((unshare(CLONE_NEWNS) && !enter_user_namespace()) || !make_mounts_private())
		return !sr_fail("the packed files cannot be put in their places, which takes a mount "
				"namespace (%s): allow user namespaces, or install the recorded files",
				strerror(errno));
	/* The parent lays out this process as its tracer. */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	return true;
}

/* Names with colons and commas would be options, so the directories are given by descriptors. */
static bool lay_over(int packed, int directory, const char *path, const struct sr_mounts *mounts)
{
	char options[96];

	snprintf(options, sizeof(options), "lowerdir=/proc/self/fd/%d:/proc/self/fd/%d", packed,
		 directory);
	return !mount("sreplay", path, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, options) && sr_mounts_put_back(mounts, path);
}

/* The machine lacks the directory: what the trace has of it lies over the nearest one above that is there. */
static void make_missing(const char *trace, const char *path, const struct sr_mounts *mounts)
{
	char above[PATH_MAX], tree[2 * PATH_MAX];
	int from, at = -1;

	snprintf(above, sizeof(above), "%.*s", (int)(name_of(path) - path - 1), path);
	if (!access(above, F_OK))
		return;
	while (at < 0 && above[0]) {
		*strrchr(above, '/') = '\0';
		at = above[0] ? open(above, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	}
	snprintf(tree, sizeof(tree), "%s/" TREE "%s", trace, above);
	from = at < 0 ? -1 : open(tree, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* If it fails, the directory is missing: put_in_place() says so. */
	if (at >= 0 && from >= 0)
		lay_over(from, at, above, mounts);
	if (at >= 0)
		close(at);
	if (from >= 0)
		close(from);
}

/* at: the directory as it was, or -errno. */
static bool put_in_place(const char *trace, const char *path, int at, const struct sr_mounts *mounts)
{
	char name[64], packed[PATH_MAX], directory[PATH_MAX];
	int from;
	bool done;

	sr_packed_directory(path, name, sizeof(name));
	snprintf(packed, sizeof(packed), "%s/%s", trace, name);
	snprintf(directory, sizeof(directory), "%.*s", (int)(name_of(path) - path), path);
	if (at < 0)
		return !sr_fail("%s, where the recorded program had %s, cannot be entered (%s): make "
				"an empty directory there",
				directory, name_of(path), strerror(-at));
	from = open(packed, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	done = from >= 0 && lay_over(from, at, directory, mounts);
	if (!done)
		sr_fail("the packed files cannot be laid over %s: %s", directory, strerror(errno));
	if (from >= 0)
		close(from);
	return done;
}

static bool are_in_one_directory(const char *a, const char *b)
{
	size_t length = (size_t)(name_of(a) - a);

	return length == (size_t)(name_of(b) - b) && !strncmp(a, b, length);
}

static int compare_directories(const void *a, const void *b)
{
	const char *one = *(char *const *)a, *other = *(char *const *)b;

	return (int)(name_of(one) - one) - (int)(name_of(other) - other);
}

/* Keeps the first path of each directory, shorter ones before longer ones.  How many. */
static size_t keep_directories(char **paths)
{
	size_t n = 0;

	for (size_t i = 0; paths[i]; i++) {
		bool is_new = true;

		for (size_t k = 0; k < n; k++)
			is_new &= !are_in_one_directory(paths[k], paths[i]);
		if (is_new) {
			char *first = paths[n];

			paths[n++] = paths[i];
			paths[i] = first;
		}
	}
	qsort(paths, n, sizeof(*paths), compare_directories);
	return n;
}

static int open_directory(const char *path)
{
	char directory[PATH_MAX];
	int fd;

	snprintf(directory, sizeof(directory), "%.*s", (int)(name_of(path) - path), path);
	fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/*
 * What is laid over a directory hides what has been laid over those in it, so these come later.  All are opened before: overlays on
 * overlays may not be more than two.
 */
static bool put_all_in_place(const char *trace, char **paths)
{
	const size_t n = keep_directories(paths);
	struct sr_mounts *mounts = sr_mounts_open();
	int *at = mounts ? calloc(n + 1, sizeof(*at)) : NULL;
	bool done = at != NULL;

	if (!mounts)
		sr_fail("the packed files cannot be put in their places: /proc/self/mountinfo: %s", strerror(errno));
	for (size_t i = 0; i < n && at; i++)
		make_missing(trace, paths[i], mounts);
	for (size_t i = 0; i < n && at; i++)
		at[i] = open_directory(paths[i]);
	for (size_t i = 0; i < n && at; i++) {
		done = done && put_in_place(trace, paths[i], at[i], mounts);
		if (at[i] >= 0)
			close(at[i]);
	}
	free(at);
	sr_mounts_close(mounts);
	return done;
}

bool sr_packed_enter(const char *trace, const json_t *process)
{
	char **paths = needed_paths(trace, process);
	bool done = paths && (!paths[0] || (enter_namespace() && put_all_in_place(trace, paths)));

	free_paths(paths);
	return done;
}
