/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * output.c: makes a tree of the journal's entries, one after the other, as the file system did in
 * the recording.  Names that the program did not write (an input that it renamed) are not in the
 * tree, so an entry may have nothing to do.
 */
#include "replay/host/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/print/say.h"

#define ARGUMENTS 6
#define MAX_FD    65536
#define NAME_SIZE 24

/* What a descriptor of the program leads to; "": not known. */
struct place {
	char *path;
	char file[NAME_SIZE]; /* the private file */
};

struct tree {
	int root, files;
	char *cwd;
	struct place *places; /* by descriptor */
	mode_t hidden;        /* the bits that new files do not get */
	size_t made;          /* names of files */
	int error;            /* the first */
};

/* ------------------------------------------------------------------- names */

/* Removes ".", ".." and empty parts. */
static void simplify(char *path)
{
	char *to = path;

	for (char *part = path; part;) {
		char *next = strchr(part + 1, '/');
		size_t n = next ? (size_t)(next - part) : strlen(part);

		if (n == 3 && !memcmp(part, "/..", 3)) {
			while (to > path && *--to != '/')
				;
		} else if (n > 1 && !(n == 2 && part[1] == '.')) {
			memmove(to, part, n);
			to += n;
		}
		part = next;
	}
	*to = 0;
}

static const char *place_of(const struct tree *t, long fd)
{
	if (fd == AT_FDCWD)
		return t->cwd;
	return fd >= 0 && fd < MAX_FD && t->places[fd].path ? t->places[fd].path : "";
}

/* The full path; false if it is too long. */
static bool resolve(const struct tree *t, const char *dirfd, const char *path, char full[PATH_MAX])
{
	const char *base = path[0] == '/' ? "" : place_of(t, strtol(dirfd, NULL, 10));

	if (snprintf(full, PATH_MAX, "%s/%s", base, path) >= PATH_MAX)
		return false;
	simplify(full);
	return full[0];
}

static void set_place(struct tree *t, long fd, const char *path, const char *file)
{
	struct place *p;

	if (fd < 0 || fd >= MAX_FD)
		return;
	p = &t->places[fd];
	free(p->path);
	p->path = strdup(path);
	snprintf(p->file, sizeof(p->file), "%s", file);
}

/* -------------------------------------------------------------------- tree */

/*
 * The directory that has the path's last part, which *name then is.  make: with what is missing on
 * the way.  A descriptor or -errno; links of the program are not followed.
 */
static int parent_of(const struct tree *t, char *path, bool make, const char **name)
{
	int fd = fcntl(t->root, F_DUPFD_CLOEXEC, 0), next;
	char *slash;

	for (char *part = path + 1; fd >= 0 && (slash = strchr(part, '/')); part = slash + 1) {
		*slash = 0;
		if (make)
			mkdirat(fd, part, 0777);
		next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			next = -errno;
		*slash = '/';
		close(fd);
		fd = next;
	}
	*name = strrchr(path, '/') + 1;
	return fd;
}

static void fail(struct tree *t, int error)
{
	if (!t->error)
		t->error = error;
}

/* What the program never had in the tree (an input) is missing there: that is no error. */
static void check(struct tree *t, int result)
{
	if (result && errno != ENOENT)
		fail(t, errno);
}

/* Gives a file one more name, instead of what has that name; false if there is no such file. */
static bool link_over(struct tree *t, int from_fd, const char *from, int to_fd, const char *to)
{
	int err = linkat(from_fd, from, to_fd, to, 0);

	if (err && errno == EEXIST && !unlinkat(to_fd, to, 0))
		err = linkat(from_fd, from, to_fd, to, 0);
	check(t, err);
	return !err;
}

/* Gives a private file a name. */
static void add_name(struct tree *t, const char *file, char *path)
{
	const char *name;
	int fd = parent_of(t, path, true, &name);

	if (fd < 0) {
		fail(t, -fd);
		return;
	}
	t->made += link_over(t, t->files, file, fd, name);
	close(fd);
}

static void move(struct tree *t, char *from, char *to)
{
	const char *old, *new;
	int from_fd = parent_of(t, from, false, &old), to_fd;
	struct stat st;

	if (from_fd < 0)
		return;
	if (!fstatat(from_fd, old, &st, AT_SYMLINK_NOFOLLOW)) {
		to_fd = parent_of(t, to, true, &new);
		if (to_fd < 0 || renameat(from_fd, old, to_fd, new))
			fail(t, to_fd < 0 ? -to_fd : errno);
		if (to_fd >= 0)
			close(to_fd);
	}
	close(from_fd);
}

static void drop(struct tree *t, char *path, int flags)
{
	const char *name;
	int fd = parent_of(t, path, false, &name);

	if (fd < 0)
		return;
	unlinkat(fd, name, flags);
	close(fd);
}

/* ----------------------------------------------------------------- entries */

static void opened(struct tree *t, const char *const *a)
{
	static const char gone[] = " (deleted)";
	char file[NAME_SIZE], path[PATH_MAX];
	size_t n = strlen(a[3]);
	long mode = strtol(a[2], NULL, 10);

	snprintf(file, sizeof(file), "%016llx", (unsigned long long)strtoll(a[1], NULL, 10));
	set_place(t, strtol(a[0], NULL, 10), a[3], file);
	check(t, fchmodat(t->files, file, (mode < 0 ? 0666 : (mode_t)mode & 0777) & ~t->hidden, 0));
	if (n >= sizeof(gone) && !strcmp(a[3] + n - strlen(gone), gone))
		return;
	if (resolve(t, "", a[3], path))
		add_name(t, file, path);
}

static void directory(struct tree *t, const char *const *a)
{
	set_place(t, strtol(a[0], NULL, 10), a[1], "");
}

static void duplicate(struct tree *t, const char *const *a)
{
	long from = strtol(a[0], NULL, 10);

	if (from >= 0 && from < MAX_FD && t->places[from].path)
		set_place(t, strtol(a[1], NULL, 10), t->places[from].path, t->places[from].file);
}

static void go(struct tree *t, const char *path)
{
	free(t->cwd);
	t->cwd = strdup(path);
}

static void change_directory(struct tree *t, const char *const *a)
{
	char path[PATH_MAX];

	if (resolve(t, "-100", a[0], path))
		go(t, path);
}

static void change_to_directory(struct tree *t, const char *const *a)
{
	go(t, place_of(t, strtol(a[0], NULL, 10)));
}

static void unlink_at(struct tree *t, const char *const *a)
{
	char path[PATH_MAX];

	if (resolve(t, a[0], a[1], path))
		drop(t, path, (int)strtol(a[2], NULL, 10) & AT_REMOVEDIR);
}

static void remove_directory(struct tree *t, const char *const *a)
{
	unlink_at(t, (const char *const[]){"-100", a[0], "512"}); /* AT_FDCWD, AT_REMOVEDIR */
}

static void make_directory(struct tree *t, const char *const *a)
{
	char path[PATH_MAX];
	const char *name;
	int fd;

	if (!resolve(t, a[0], a[1], path))
		return;
	fd = parent_of(t, path, true, &name);
	if (fd < 0)
		return;
	mkdirat(fd, name, 0777);
	close(fd);
}

static void rename_at(struct tree *t, const char *const *a)
{
	char from[PATH_MAX], to[PATH_MAX];

	if (resolve(t, a[0], a[1], from) && resolve(t, a[2], a[3], to))
		move(t, from, to);
}

static void rename_here(struct tree *t, const char *const *a)
{
	rename_at(t, (const char *const[]){"-100", a[0], "-100", a[1]});
}

/* The private file that a path of linkat leads to without a name: "", or /proc/self/fd/N. */
static const char *file_of(const struct tree *t, const char *dirfd, const char *path)
{
	long fd = -1;

	if (!path[0])
		fd = strtol(dirfd, NULL, 10);
	else if (sscanf(path, "/proc/self/fd/%ld", &fd) != 1)
		sscanf(path, "/dev/fd/%ld", &fd);
	return fd >= 0 && fd < MAX_FD ? t->places[fd].file : "";
}

static void link_at(struct tree *t, const char *const *a)
{
	const char *file = file_of(t, a[0], a[1]), *name, *new_name;
	char from[PATH_MAX], to[PATH_MAX];
	int from_fd, to_fd;

	if (!resolve(t, a[2], a[3], to))
		return;
	if (file[0]) {
		add_name(t, file, to);
		return;
	}
	if (!resolve(t, a[0], a[1], from) || (from_fd = parent_of(t, from, false, &name)) < 0)
		return;
	to_fd = faccessat(from_fd, name, F_OK, AT_SYMLINK_NOFOLLOW)
		    ? -1
		    : parent_of(t, to, true, &new_name);
	if (to_fd >= 0) {
		link_over(t, from_fd, name, to_fd, new_name);
		close(to_fd);
	}
	close(from_fd);
}

static void link_here(struct tree *t, const char *const *a)
{
	link_at(t, (const char *const[]){"-100", a[0], "-100", a[1]});
}

static void symlink_at(struct tree *t, const char *const *a)
{
	char path[PATH_MAX];
	const char *name;
	int fd;

	if (!resolve(t, a[1], a[2], path) || (fd = parent_of(t, path, true, &name)) < 0)
		return;
	t->made += !symlinkat(a[0], fd, name);
	close(fd);
}

static void symlink_here(struct tree *t, const char *const *a)
{
	symlink_at(t, (const char *const[]){a[0], "-100", a[1]});
}

static void change_mode(struct tree *t, const char *const *a)
{
	long fd = strtol(a[0], NULL, 10);

	if (fd >= 0 && fd < MAX_FD && t->places[fd].file[0])
		check(t, fchmodat(t->files, t->places[fd].file, (mode_t)strtol(a[1], NULL, 10) & 0777, 0));
}

static void change_mode_at(struct tree *t, const char *const *a)
{
	char path[PATH_MAX];
	const char *name;
	struct stat st;
	int fd;

	if (!resolve(t, a[0], a[1], path) || (fd = parent_of(t, path, false, &name)) < 0)
		return;
	if (!fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) && !S_ISLNK(st.st_mode))
		check(t, fchmodat(fd, name, (mode_t)strtol(a[2], NULL, 10) & 0777, 0));
	close(fd);
}

static void nothing(struct tree *t, const char *const *a)
{
}

static const struct {
	const char *name;
	int arguments;
	void (*apply)(struct tree *t, const char *const *a);
} entries[] = {
    {"opened", 4, opened},
    {"directory", 2, directory},
    {"duplicate", 2, duplicate},
    {"chdir", 1, change_directory},
    {"fchdir", 1, change_to_directory},
    {"unlinkat", 3, unlink_at},
    {"rmdir", 1, remove_directory},
    {"mkdirat", 3, make_directory},
    {"rename", 2, rename_here},
    {"renameat", 4, rename_at},
    {"renameat2", 5, rename_at},
    {"link", 2, link_here},
    {"linkat", 5, link_at},
    {"symlink", 2, symlink_here},
    {"symlinkat", 3, symlink_at},
    {"fchmod", 2, change_mode},
    {"fchmodat", 3, change_mode_at},
    /* Owners, times, extended attributes and special files are not kept. */
    {"mknodat", 4, nothing},
    {"fchown", 3, nothing},
    {"fchownat", 5, nothing},
    {"chown", 3, nothing},
    {"lchown", 3, nothing},
    {"utimensat", 4, nothing},
    {"futimesat", 3, nothing},
    {"utimes", 2, nothing},
    {"utime", 2, nothing},
    {"setxattr", 5, nothing},
    {"lsetxattr", 5, nothing},
    {"fsetxattr", 5, nothing},
    {"removexattr", 2, nothing},
    {"lremovexattr", 2, nothing},
    {"fremovexattr", 2, nothing},
};

/* ----------------------------------------------------------------- journal */

/* Reads up to the next zero byte; false at the end. */
static bool read_text(FILE *from, char text[PATH_MAX])
{
	size_t n = 0;
	int c;

	while ((c = getc(from)) > 0 && n < PATH_MAX - 1)
		text[n++] = (char)c;
	text[n] = 0;
	return c == 0;
}

static bool apply_next(struct tree *t, FILE *from)
{
	static char name[PATH_MAX], texts[ARGUMENTS][PATH_MAX];
	const char *a[ARGUMENTS];
	size_t i = 0;

	if (!read_text(from, name))
		return false;
	while (i < sizeof(entries) / sizeof(entries[0]) && strcmp(entries[i].name, name))
		i++;
	if (i == sizeof(entries) / sizeof(entries[0])) {
		fail(t, EBADMSG);
		return false;
	}
	for (int n = 0; n < entries[i].arguments; n++) {
		a[n] = texts[n];
		if (!read_text(from, texts[n]))
			return false;
	}
	entries[i].apply(t, a);
	return true;
}

static void apply_all(struct tree *t, int journal)
{
	int fd = fcntl(journal, F_DUPFD_CLOEXEC, 0);
	FILE *from = fd < 0 ? NULL : fdopen(fd, "r");

	if (!from) {
		fail(t, errno);
		return;
	}
	rewind(from);
	while (apply_next(t, from))
		;
	fclose(from);
}

/* --------------------------------------------------------------------- all */

static bool is_empty(const char *dir)
{
	DIR *d = opendir(dir);
	int entries_there = 0;

	while (d && readdir(d))
		entries_there++;
	if (d)
		closedir(d);
	return entries_there == 2; /* . and .. */
}

bool sr_output_make(const char *dir)
{
	if (mkdir(dir, 0777) && errno != EEXIST)
		return !sr_fail("cannot make %s: %s", dir, strerror(errno));
	if (!is_empty(dir))
		return !sr_fail("%s is not an empty directory: name another one for what the "
				"program writes",
				dir);
	return true;
}

void sr_output_keep(const char *dir, int files, int journal, const char *cwd)
{
	struct tree t = {
	    .root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
	    .files = files,
	    .cwd = strdup(cwd),
	    .places = calloc(MAX_FD, sizeof(*t.places)),
	};

	umask(t.hidden = umask(0));
	if (t.root < 0 || !t.cwd || !t.places)
		fail(&t, errno);
	else
		apply_all(&t, journal);
	if (t.error)
		sr_note("not all that the program wrote is in %s: %s", dir, strerror(t.error));
	else if (t.made)
		sr_note("what the program wrote is in %s", dir);
	for (long fd = 0; t.places && fd < MAX_FD; fd++)
		free(t.places[fd].path);
	free(t.places);
	free(t.cwd);
	if (t.root >= 0)
		close(t.root);
}
