/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/process/executable.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "logd/base/rawsys.h"
#include "shim/core/variables.h"

/* Of the notes in a file so many bytes are looked at. */
#define MACHINE (sizeof(long) == 8 ? ELFCLASS64 : ELFCLASS32)

static long open_program(int directory, const char *path)
{
	long fd = sr_syscall(SYS_faccessat, directory, SR_ARG(path), X_OK, 0, 0, 0);

	return fd ? fd
		  : sr_syscall(SYS_openat, directory, SR_ARG(path),
			       O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0, 0, 0);
}

static long search_path(const char *name)
{
	const char *path = sr_variable("PATH"), *end;
	char file[PATH_MAX];
	size_t n = strlen(name);

	for (path = path ? path : "/bin:/usr/bin"; *path; path = *end ? end + 1 : end) {
		size_t directory;
		long fd;

		end = path + strcspn(path, ":");
		directory = (size_t)(end - path);
		if (directory + n + 2 > sizeof(file))
			continue;
		memcpy(file, path, directory);
		file[directory] = '/';
		memcpy(file + directory + (directory != 0), name, n + 1);
		fd = open_program(AT_FDCWD, file);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

static long read_at(int fd, void *to, size_t size, uint64_t at)
{
	return sr_syscall(SYS_pread64, fd, SR_ARG(to), (long)size, (long)at, 0, 0);
}

static bool is_static(int fd, const Elf64_Ehdr *e)
{
	Elf64_Phdr p;

	for (int i = 0; i < e->e_phnum; i++)
		if (read_at(fd, &p, sizeof(p), e->e_phoff + (uint64_t)i * sizeof(p)) != sizeof(p) ||
		    p.p_type == PT_INTERP)
			return false;
	return e->e_phnum > 0;
}

static uint64_t own_id(long call)
{
	return (uint64_t)sr_syscall(call, 0, 0, 0, 0, 0, 0);
}

/* The dynamic linker drops what the environment preloads. */
static bool gains_rights(int fd)
{
	struct stat st;

	if (sr_sys_fstat(fd, &st))
		return false;
	return (st.st_mode & S_ISUID && st.st_uid != own_id(SYS_getuid)) ||
	       ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
		st.st_gid != own_id(SYS_getgid)) ||
	       (own_id(SYS_getuid) &&
		sr_syscall(SYS_fgetxattr, fd, SR_ARG("security.capability"), 0, 0, 0, 0) > 0);
}

static const char *obstacle_of(int fd, bool is_interpreter);

/* "#! /path argument": the interpreter is what runs. */
static const char *obstacle_of_script(char *line)
{
	char *path = line + 2 + strspn(line + 2, " \t");
	const char *why = NULL;
	long fd;

	path[strcspn(path, " \t\n")] = 0;
	fd = open_program(AT_FDCWD, path);
	if (fd < 0)
		return NULL;
	why = obstacle_of((int)fd, true);
	sr_sys_close((int)fd);
	return why;
}

static const char *obstacle_of(int fd, bool is_interpreter)
{
	union {
		Elf64_Ehdr elf;
		char line[256];
	} head = {0};
	long n = read_at(fd, &head, sizeof(head) - 1, 0);

	if (n > 2 && !memcmp(head.line, "#!", 2))
		return is_interpreter ? NULL : obstacle_of_script(head.line);
	if (n < (long)sizeof(head.elf) || memcmp(head.elf.e_ident, ELFMAG, SELFMAG))
		return NULL;
	if (head.elf.e_ident[EI_CLASS] != MACHINE)
		return "of another architecture";
	if (head.elf.e_phentsize == sizeof(Elf64_Phdr) && is_static(fd, &head.elf))
		return "statically linked";
	return gains_rights(fd) ? "run with another user's rights" : NULL;
}

const char *sr_executable_obstacle(int directory, const char *path, bool search)
{
	bool is_open = directory >= 0 && !path[0];
	long fd = is_open				  ? directory
		  : search && path[0] && !strchr(path, '/') ? search_path(path)
						      : open_program(directory, path);
	const char *why;

	if (fd < 0)
		return NULL;
	why = obstacle_of((int)fd, false);
	if (!is_open)
		sr_sys_close((int)fd);
	return why;
}
