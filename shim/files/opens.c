/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opens.c: wrappers of the functions that open a file, and of fstat.
 *
 * Regular files are not captured: a replay reads them again, and inputs.h checks that they
 * are unchanged. A descriptor that librdmacm opens for itself is captured (fds.h). What
 * glibc opens internally does not pass through these wrappers.
 *
 * The system-call trap would make calls of calls.def of what these functions do.  That costs two
 * microseconds, so the wrappers make these calls themselves where they can.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/files/fds.h"
#include "shim/files/inputs.h"
#include "shim/files/write_order.h"
#include "shim/core/next.h"
#include "shim/core/engine.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"

/* The headers may define these names as macros. */
#undef open
#undef openat
#undef creat
#undef fopen
#undef fstat
#undef fstat64

SR_NEXT(next_open, "open");
SR_NEXT(next_open64, "open64");
SR_NEXT(next_open_2, "__open_2");
SR_NEXT(next_open64_2, "__open64_2");
SR_NEXT(next_openat, "openat");
SR_NEXT(next_openat64, "openat64");
SR_NEXT(next_fstat, "fstat");
SR_NEXT(next_fstat64, "fstat64");

/* Another preloaded library may have functions of these names, which do something else. */
static bool are_of_libc(void)
{
	struct sr_next_function *const all[] = {&next_open,   &next_open64,   &next_open_2, &next_open64_2,
						&next_openat, &next_openat64, &next_fstat,  &next_fstat64};
	Dl_info libc, found;

	if (!dladdr((void *)gnu_get_libc_version, &libc))
		return false;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!dladdr(sr_next(all[i]), &found) || found.dli_fbase != libc.dli_fbase)
			return false;
	return true;
}

/*
 * Would the trap catch what libc does?  A thread that another one may cancel needs libc's function, which
 * is a cancellation point.
 */
static inline bool is_trapped(const struct sr_thread *t)
{
	static enum { NOT_KNOWN, LIBC, OTHERS } are;

	if (!sr_engine || !t->armed || t->depth || sr_threaded)
		return false;
	if (__builtin_expect(are == NOT_KNOWN, 0))
		are = are_of_libc() ? LIBC : OTHERS;
	return are == LIBC;
}

static int open_trapped(int dirfd, const char *path, int flags, mode_t mode, void *site)
{
	uint64_t a[] = {(uint64_t)dirfd, (uintptr_t)path, (uint32_t)flags, mode};

	return (int)sr_call(SR_CALL_openat, a, site);
}

static int opened(int fd)
{
	struct sr_thread *t = &sr_self;
	struct sr_opened_file file;
	enum sr_heap before;
	int saved = errno;

	/* The system-call trap has noted the file. */
	if (fd < 0 || !sr_engine || (t->armed && !t->depth))
		return fd;
	if (t->depth) {
		if (t->inside_rdmacm)
			sr_fd_capture(fd);
		return fd;
	}
	before = sr_enter(t);
	sr_files_opened(fd, (int)sr_sys_fcntl(fd, F_GETFL, 0), &file);
	sr_files_release(t);
	sr_leave(t, before);
	errno = saved;
	return fd;
}

static FILE *opened_stream(FILE *file)
{
	if (file)
		opened(fileno_unlocked(file));
	return file;
}

/* The caller passes a mode only if the call may create a file. */
#define MODE_ARGUMENT(flags)                                                                       \
	mode_t mode = 0;                                                                           \
	va_list ap;                                                                                \
	va_start(ap, flags);                                                                       \
	if ((flags) & (O_CREAT | __O_TMPFILE))                                                     \
		mode = va_arg(ap, mode_t);                                                         \
	va_end(ap)

typedef int open_function(const char *path, int flags, ...);
typedef int openat_function(int dirfd, const char *path, int flags, ...);
typedef FILE *fopen_function(const char *path, const char *mode);

SR_EXPORT int open(const char *path, int flags, ...)
{
	MODE_ARGUMENT(flags);

	if (is_trapped(&sr_self))
		return open_trapped(AT_FDCWD, path, flags, mode, __builtin_return_address(0));
	return opened(((open_function *)sr_next(&next_open))(path, flags, mode));
}

SR_EXPORT int open64(const char *path, int flags, ...)
{
	MODE_ARGUMENT(flags);

	if (is_trapped(&sr_self))
		return open_trapped(AT_FDCWD, path, flags, mode, __builtin_return_address(0));
	return opened(((open_function *)sr_next(&next_open64))(path, flags, mode));
}

/* With -D_FORTIFY_SOURCE the compiler calls these for an open without a mode. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);

typedef int open_2_function(const char *path, int flags);

static int open_without_mode(const char *path, int flags, struct sr_next_function *next, void *site)
{
	/* With O_CREAT, libc ends the program. */
	if (!(flags & (O_CREAT | __O_TMPFILE)) && is_trapped(&sr_self))
		return open_trapped(AT_FDCWD, path, flags, 0, site);
	return opened(((open_2_function *)sr_next(next))(path, flags));
}

SR_EXPORT int __open_2(const char *path, int flags)
{
	return open_without_mode(path, flags, &next_open_2, __builtin_return_address(0));
}

SR_EXPORT int __open64_2(const char *path, int flags)
{
	return open_without_mode(path, flags, &next_open64_2, __builtin_return_address(0));
}

SR_EXPORT int openat(int dirfd, const char *path, int flags, ...)
{
	MODE_ARGUMENT(flags);

	if (is_trapped(&sr_self))
		return open_trapped(dirfd, path, flags, mode, __builtin_return_address(0));
	return opened(((openat_function *)sr_next(&next_openat))(dirfd, path, flags, mode));
}

SR_EXPORT int openat64(int dirfd, const char *path, int flags, ...)
{
	MODE_ARGUMENT(flags);

	if (is_trapped(&sr_self))
		return open_trapped(dirfd, path, flags, mode, __builtin_return_address(0));
	return opened(((openat_function *)sr_next(&next_openat64))(dirfd, path, flags, mode));
}

SR_EXPORT FILE *fopen(const char *path, const char *mode)
{
	SR_NEXT(next, "fopen");

	return opened_stream(((fopen_function *)sr_next(&next))(path, mode));
}

SR_EXPORT FILE *fopen64(const char *path, const char *mode)
{
	SR_NEXT(next, "fopen64");

	return opened_stream(((fopen_function *)sr_next(&next))(path, mode));
}

/* ------------------------------------------------------------------- fstat */

static int fstat_trapped(int fd, struct stat *st, void *site)
{
	/* As libc makes it. */
	uint64_t a[] = {(uint64_t)fd, (uintptr_t)"", (uintptr_t)st, AT_EMPTY_PATH};

	return (int)sr_call(SR_CALL_newfstatat, a, site);
}

SR_EXPORT int fstat(int fd, struct stat *st)
{
	if (fd >= 0 && is_trapped(&sr_self))
		return fstat_trapped(fd, st, __builtin_return_address(0));
	return ((int (*)(int, struct stat *))sr_next(&next_fstat))(fd, st);
}

SR_EXPORT int fstat64(int fd, struct stat64 *st)
{
	if (fd >= 0 && is_trapped(&sr_self))
		return fstat_trapped(fd, (struct stat *)st, __builtin_return_address(0));
	return ((int (*)(int, struct stat64 *))sr_next(&next_fstat64))(fd, st);
}
