/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/start/packed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
	/* Where packages were installed, and all that is used has remained, it is no reason for a sandbox. */
	if (n == 1 && !strcmp(paths[0], SR_PACKED_CACHE)) {
		free(paths[0]);
		paths[0] = NULL;
	}
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

static bool enter_namespace(void)
{
	bool in_user_namespace;

	if (!sr_mounts_unshare(&in_user_namespace) || !sr_mounts_make_private())
		return !sr_fail("the packed files cannot be put in their places, which takes a mount "
				"namespace (%s): allow user namespaces, or install the recorded files",
				strerror(errno));
	/* The parent lays out this process as its tracer. */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	return true;
}

/* A directory that is laid over. */
struct place {
	char directory[PATH_MAX]; /* ends with a slash */
	bool has_packed;          /* files of its own; else only directories below it that this machine lacks */
	int at;                   /* as it was, or -1: this machine lacks it */
};

/*
 * All of them once, with room for what is added.  Shorter ones come before longer ones: what is laid over a directory hides what has
 * been laid over those in it.
 */
struct places {
	struct place *all;
	size_t n;
};

static bool add_place(struct places *p, const char *directory, size_t length, bool has_packed)
{
	struct place *new = &p->all[p->n];

	for (size_t i = 0; i < p->n; i++) {
		if (strlen(p->all[i].directory) == length && !strncmp(p->all[i].directory, directory, length)) {
			p->all[i].has_packed |= has_packed;
			return true;
		}
	}
	if (length >= sizeof(new->directory))
		return false;
	memcpy(new->directory, directory, length);
	new->directory[length] = '\0';
	new->has_packed = has_packed;
	new->at = open(new->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (new->at < 0 && errno != ENOENT)
		return !sr_fail("%s, where the recorded program had files, cannot be entered: %s", new->directory, strerror(errno));
	p->n++;
	return true;
}

/* The nearest directory above one that this machine lacks; 0: that is the root, over which nothing can be laid. */
static size_t find_above(const char *directory)
{
	char above[PATH_MAX];
	size_t length = strlen(directory);

	memcpy(above, directory, length + 1);
	while (length > 1 && access(above, F_OK)) {
		do
			length--;
		while (above[length - 1] != '/');
		above[length] = '\0';
	}
	return length > 1 ? length : 0;
}

static bool add_missing(struct places *p, const struct place *missing)
{
	size_t length = find_above(missing->directory);

	return length ? add_place(p, missing->directory, length, false)
		      : !sr_fail("%s, where the recorded program had files, is missing here: make an empty directory there", missing->directory);
}

static int compare_places(const void *a, const void *b)
{
	const struct place *one = a, *other = b;

	return (int)strlen(one->directory) - (int)strlen(other->directory);
}

static bool find_places(struct places *p, char **paths)
{
	size_t n = 0;
	bool done = true;

	while (paths[n])
		n++;
	p->n = 0;
	p->all = calloc(2 * n + 1, sizeof(*p->all));
	for (size_t i = 0; i < n && p->all && done; i++)
		done = add_place(p, paths[i], (size_t)(name_of(paths[i]) - paths[i]), true);
	n = p->n;
	for (size_t i = 0; i < n && done; i++)
		done = p->all[i].at >= 0 || add_missing(p, &p->all[i]);
	qsort(p->all, p->n, sizeof(*p->all), compare_places);
	return p->all && done;
}

static void close_places(struct places *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->all[i].at >= 0)
			close(p->all[i].at);
	free(p->all);
}

/* What the trace has: the files of the directory, or the tree of all directories. */
static int open_packed(const char *trace, const char *directory, bool tree)
{
	char name[64], path[2 * PATH_MAX + 64];

	sr_packed_directory(directory, name, sizeof(name));
	if (tree)
		snprintf(path, sizeof(path), "%s/" TREE "%.*s", trace, (int)strlen(directory) - 1, directory);
	else
		snprintf(path, sizeof(path), "%s/%s", trace, name);
	return open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/*
 * Names with colons and commas would be options, so the directories are given by descriptors.  None of them is an overlay of ours:
 * in a container one on one on another would be too many for the kernel.
 */
static bool mount_layers(const int layers[3], const char *directory)
{
	char options[128] = "lowerdir";
	size_t length = strlen(options);

	for (int i = 0; i < 3; i++)
		if (layers[i] >= 0)
			length += (size_t)snprintf(options + length, sizeof(options) - length, "%c/proc/self/fd/%d",
						   options[length - 1] == 'r' ? '=' : ':', layers[i]);
	return !mount("sreplay", directory, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, options);
}

static bool lay_over(const char *trace, const struct place *p, const struct sr_mounts *mounts, char *const *paths)
{
	int packed = p->has_packed ? open_packed(trace, p->directory, false) : -1, tree = open_packed(trace, p->directory, true);
	bool done = mount_layers((const int[]){packed, p->at, tree}, p->directory) && sr_mounts_put_back(mounts, p->directory, paths);

	if (!done)
		sr_fail("the packed files cannot be laid over %s: %s", p->directory, strerror(errno));
	if (packed >= 0)
		close(packed);
	if (tree >= 0)
		close(tree);
	return done;
}

/* All are opened before the first one is laid over, which may hide others. */
static bool put_all_in_place(const char *trace, char **paths)
{
	struct sr_mounts *mounts = sr_mounts_open();
	struct places p;
	bool done = find_places(&p, paths);

	if (!mounts)
		sr_fail("the packed files cannot be put in their places: /proc/self/mountinfo: %s", strerror(errno));
	for (size_t i = 0; i < p.n && mounts && done; i++)
		done = lay_over(trace, &p.all[i], mounts, paths);
	close_places(&p);
	sr_mounts_close(mounts);
	return done && mounts;
}

bool sr_packed_enter(const char *trace, const json_t *process)
{
	char **paths = needed_paths(trace, process);
	bool done = paths && (!paths[0] || (enter_namespace() && put_all_in_place(trace, paths)));

	free_paths(paths);
	return done;
}
