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
#include "replay/print/say.h"

/* Directories of one program's files. */
#define MOST_DIRECTORIES 64

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

bool sr_packed_is_needed(const char *trace, const json_t *process)
{
	const json_t *object;
	size_t i;

	json_array_foreach(json_object_get(process, "objects"), i, object)
	{
		char *path = needed(trace, object);

		free(path);
		if (path)
			return true;
	}
	return false;
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
static bool lay_over(int packed, int directory, const char *path)
{
	char options[96];

	snprintf(options, sizeof(options), "lowerdir=/proc/self/fd/%d:/proc/self/fd/%d", packed,
		 directory);
	return !mount("sreplay", path, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, options);
}

static bool put_in_place(const char *trace, const char *path)
{
	char name[64], packed[PATH_MAX], directory[PATH_MAX];
	int from, at;
	bool done;

	sr_packed_directory(path, name, sizeof(name));
	snprintf(packed, sizeof(packed), "%s/%s", trace, name);
	snprintf(directory, sizeof(directory), "%.*s", (int)(name_of(path) - path), path);
	from = open(packed, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	at = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return !sr_fail("%s, where the recorded program had %s, cannot be entered (%s): make "
				"an empty directory there",
				directory, name_of(path), strerror(errno));
	done = from >= 0 && lay_over(from, at, directory);
	if (!done)
		sr_fail("the packed files cannot be laid over %s: %s", directory, strerror(errno));
	close(at);
	if (from >= 0)
		close(from);
	return done;
}

/* The first needed path of each directory. */
static int needed_directories(const char *trace, const json_t *process,
			      char *paths[MOST_DIRECTORIES])
{
	const json_t *object;
	int n = 0;
	size_t i;

	json_array_foreach(json_object_get(process, "objects"), i, object)
	{
		char *path = n < MOST_DIRECTORIES ? needed(trace, object) : NULL;
		bool is_new = path != NULL;

		for (int k = 0; k < n && is_new; k++) {
			size_t length = (size_t)(name_of(path) - path);

			is_new = length != (size_t)(name_of(paths[k]) - paths[k]) ||
				 strncmp(path, paths[k], length);
		}
		if (is_new)
			paths[n++] = path;
		else
			free(path);
	}
	return n;
}

bool sr_packed_enter(const char *trace, const json_t *process)
{
	char *paths[MOST_DIRECTORIES];
	int n = needed_directories(trace, process, paths);
	bool done = !n || enter_namespace();

	for (int i = 0; i < n; i++) {
		done = done && put_in_place(trace, paths[i]);
		free(paths[i]);
	}
	return done;
}
