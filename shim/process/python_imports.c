/* SPDX-License-Identifier: BSD-2-Clause */
/* python_imports.c: finds the modules that a Python script imports from its own folder, by the lines that say so. */
#include "shim/process/python_imports.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "logd/base/rawsys.h"

/* An argument may also be a file of data, as large as a disk. */
#define LOOK_AT (16ul << 20)

/* A program's modules: so many are looked at, each once, and so deep. */
#define FILES_MAX 128
#define DEPTH_MAX 8

struct search {
	bool (*is)(const void *text, size_t size);
	char root[PATH_MAX / 2]; /* the script's folder, where Python looks first */
	ino_t seen[FILES_MAX];
	unsigned n_seen;
};

/* A file that is being looked at: relative imports start in its folder. */
struct file {
	struct search *search;
	const char *path;
	unsigned depth;
};

static bool module_file_is(struct search *s, const char *path, unsigned depth);

/* To open a pipe or a device may have an effect: only regular files are opened. */
bool sr_look_into_file(const char *path, bool (*look)(const void *text, size_t size, void *context), void *context)
{
	struct stat st;
	size_t size;
	bool found;
	void *text;
	int fd;

	if (sr_syscall(SYS_newfstatat, AT_FDCWD, SR_ARG(path), SR_ARG(&st), 0, 0, 0) || !S_ISREG(st.st_mode) || !st.st_size)
		return false;
	fd = (int)sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(path), O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return false;
	size = (size_t)st.st_size < LOOK_AT ? (size_t)st.st_size : LOOK_AT;
	text = sr_sys_mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	sr_sys_close(fd);
	if (sr_sys_is_error(text))
		return false;
	found = look(text, size, context);
	sr_sys_munmap(text, size);
	return found;
}

/* The part of `path` in front of its last slash; "." if it has none.  False: too long. */
static bool put_folder(char *folder, size_t size, const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 1;

	if (n + 1 > size)
		return false;
	memcpy(folder, slash ? path : ".", n);
	folder[n] = 0;
	return true;
}

/* Appends to a path.  False: too long. */
static bool append(char *path, size_t size, const char *text, size_t n)
{
	size_t length = strlen(path);

	if (length + n + 1 > size)
		return false;
	memcpy(path + length, text, n);
	path[length + n] = 0;
	return true;
}

/* PATH.py and PATH/__init__.py: a module, or a package. */
static bool module_at_is(const struct file *of, char *path, size_t size)
{
	static const char *const endings[] = {".py", "/__init__.py"};
	const size_t length = strlen(path);
	bool found = false;

	for (size_t i = 0; !found && i < sizeof(endings) / sizeof(endings[0]); i++) {
		found = append(path, size, endings[i], strlen(endings[i])) && module_file_is(of->search, path, of->depth + 1);
		path[length] = 0;
	}
	return found;
}

/* One name, such as a.b, .a or ..a.b; of its packages, too.  `path` becomes its path without an ending. */
static bool name_is(const struct file *of, const char *name, const char *end, char *path, size_t size)
{
	bool relative = name < end && *name == '.';

	if (relative ? !put_folder(path, size, of->path) : (*path = 0, !append(path, size, of->search->root, strlen(of->search->root))))
		return false;
	for (name += relative; name < end && *name == '.'; name++)
		if (!append(path, size, "/..", 3))
			return false;
	while (name < end) {
		const char *dot = memchr(name, '.', (size_t)(end - name));
		const char *stop = dot ? dot : end;

		if (!append(path, size, "/", 1) || !append(path, size, name, (size_t)(stop - name)))
			return false;
		if (module_at_is(of, path, size))
			return true;
		name = dot ? dot + 1 : end;
	}
	return false;
}

static bool is_in_name(char c)
{
	return c == '_' || c == '.' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static const char *name_end(const char *p, const char *end)
{
	while (p < end && is_in_name(*p))
		p++;
	return p;
}

static const char *skip(const char *p, const char *end, const char *these)
{
	while (p < end && *p && strchr(these, *p))
		p++;
	return p;
}

/* import a.b as c, d */
static bool import_is(const struct file *of, const char *p, const char *end)
{
	char path[PATH_MAX / 2];

	while ((p = skip(p, end, " \t,")) < end) {
		const char *stop = name_end(p, end);

		if (stop == p)
			return false;
		if (name_is(of, p, stop, path, sizeof(path)))
			return true;
		p = memchr(stop, ',', (size_t)(end - stop));
		if (!p)
			return false;
	}
	return false;
}

/* from a.b import c, d: these may be modules of the package a.b. */
static bool from_is(const struct file *of, const char *p, const char *end)
{
	static const char import[] = "import";
	char path[PATH_MAX / 2];
	const char *stop;
	size_t length;

	p = skip(p, end, " \t");
	stop = name_end(p, end);
	if (stop == p)
		return false;
	if (name_is(of, p, stop, path, sizeof(path)))
		return true;
	length = strlen(path);
	p = skip(stop, end, " \t");
	if ((size_t)(end - p) < sizeof(import) || memcmp(p, import, sizeof(import) - 1))
		return false;
	for (p += sizeof(import) - 1; (p = skip(p, end, " \t,(")) < end; p = stop) {
		stop = name_end(p, end);
		if (stop == p)
			return false;
		if (append(path, sizeof(path), "/", 1) && append(path, sizeof(path), p, (size_t)(stop - p)) &&
		    module_at_is(of, path, sizeof(path)))
			return true;
		path[length] = 0;
	}
	return false;
}

static bool line_is(const struct file *of, const char *p, const char *end)
{
	p = skip(p, end, " \t");
	if (end - p > 7 && !memcmp(p, "import ", 7))
		return import_is(of, p + 7, end);
	return end - p > 5 && !memcmp(p, "from ", 5) && from_is(of, p + 5, end);
}

static bool text_is(const void *text, size_t size, void *context)
{
	const struct file *of = context;
	const char *p = text, *end = p + size;

	if (of->search->is(text, size))
		return true;
	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		const char *stop = newline ? newline : end;

		if (line_is(of, p, stop))
			return true;
		p = newline ? newline + 1 : end;
	}
	return false;
}

static bool has_seen(struct search *s, const char *path)
{
	struct stat st;

	if (sr_syscall(SYS_newfstatat, AT_FDCWD, SR_ARG(path), SR_ARG(&st), 0, 0, 0) || s->n_seen == FILES_MAX)
		return true; /* or it is none of the files to look at */
	for (unsigned i = 0; i < s->n_seen; i++)
		if (s->seen[i] == st.st_ino)
			return true;
	s->seen[s->n_seen++] = st.st_ino;
	return false;
}

static bool module_file_is(struct search *s, const char *path, unsigned depth)
{
	struct file file = {.search = s, .path = path, .depth = depth};

	return depth <= DEPTH_MAX && !has_seen(s, path) && sr_look_into_file(path, text_is, &file);
}

bool sr_script_imports(const char *path, bool (*is)(const void *text, size_t size))
{
	struct search s = {.is = is};

	return put_folder(s.root, sizeof(s.root), path) && module_file_is(&s, path, 0);
}

bool sr_module_imports(const char *name, bool (*is)(const void *text, size_t size))
{
	struct search s = {.is = is, .root = "."};
	struct file none = {.search = &s, .path = "./"};
	char path[PATH_MAX / 2];

	if (name_is(&none, name, name + strlen(name), path, sizeof(path)))
		return true;
	return append(path, sizeof(path), "/__main__.py", 12) && module_file_is(&s, path, 0);
}
