/* SPDX-License-Identifier: BSD-2-Clause */
/* elsewhere.c: a preloaded library whose open() leads to another file, as those of sandboxes and build tools do. */
#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>

typedef int open_function(const char *path, int flags, ...);

static int elsewhere(const char *name, const char *path, int flags, va_list more)
{
	open_function *next = (open_function *)(long)dlsym(RTLD_NEXT, name);

	return next(strcmp(path, "/etc/hostname") ? path : "/proc/sys/kernel/ostype", flags, va_arg(more, int));
}

#define OPEN(name)                                           \
	int name(const char *path, int flags, ...);          \
	int name(const char *path, int flags, ...)           \
	{                                                    \
		va_list more;                                \
		int fd;                                      \
                                                             \
		va_start(more, flags);                       \
		fd = elsewhere(#name, path, flags, more);    \
		va_end(more);                                \
		return fd;                                   \
	}

OPEN(open)
OPEN(open64)
