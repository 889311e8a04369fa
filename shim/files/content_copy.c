/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/content_copy.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "logd/base/rawsys.h"
#include "logd/base/zeros.h"
#include "shim/files/paths.h"
#include "shim/memory/heap.h"

/*
 * A database reserves more room than it fills, so zeros count little.  They are read, though, at some 5 GB/s: SEEK_DATA
 * would move the offset that the program reads from.
 */
#define DATA_MOST (256ull << 20)
#define READ_MOST (4ull << 30)
/* Of a file without data: the daemon and each replay hash its zeros. */
#define SIZE_MOST (64ull << 30)

#define PIECE (64u << 10)

static bool write_piece(int to, const char *p, size_t n, uint64_t at)
{
	long written;

	for (; n; n -= (size_t)written, p += written, at += (uint64_t)written) {
		written = sr_syscall(SYS_pwrite64, to, SR_ARG(p), (long)n, (long)at, 0, 0);
		if (written <= 0)
			return false;
	}
	return true;
}

/* Leaves holes where there are zeros.  Another process may make the file shorter meanwhile: then that is the content. */
static bool copy_pieces(int from, int to, uint64_t size, char *room)
{
	uint64_t at = 0, data = 0;
	long n = 1;

	for (; at < size && n > 0; at += (uint64_t)n) {
		n = sr_syscall(SYS_pread64, from, SR_ARG(room), size - at < PIECE ? (long)(size - at) : PIECE, (long)at, 0, 0);
		if (n < 0)
			return false;
		if (is_zeros(room, (size_t)n))
			continue;
		data += (uint64_t)n;
		if (data > DATA_MOST || !write_piece(to, room, (size_t)n, at))
			return false;
	}
	return !sr_sys_ftruncate(to, at);
}

static bool copy_file(int from, int to, uint64_t size)
{
	char *room = sr_alloc(PIECE);
	bool good = room && copy_pieces(from, to, size, room);

	sr_free(room);
	return good;
}

/*
 * Memory that processes share has its size before it has any data: ranks meet there (MPI's shared windows, of many GiB).
 * Other file systems than tmpfs may count blocks later than they take the data.
 */
static bool has_no_data(int fd)
{
	struct statfs fs;
	struct stat st;

	return !sr_syscall(SYS_fstatfs, fd, SR_ARG(&fs), 0, 0, 0, 0) && fs.f_type == TMPFS_MAGIC && !sr_sys_fstat(fd, &st) &&
	       !st.st_blocks;
}

static int make_copy(int fd, uint64_t size)
{
	const bool empty = has_no_data(fd);
	uint64_t limit[2] = {0};
	int copy;

	/* The kernel would kill the program for a copy that passes its limit. */
	sr_sys_getrlimit(RLIMIT_FSIZE, limit);
	if (size > (empty ? SIZE_MOST : READ_MOST) || size > limit[0])
		return -1;
	copy = (int)sr_sys_memfd_create("sreplay input", MFD_CLOEXEC);
	if (copy < 0 || (empty ? !sr_sys_ftruncate(copy, size) : copy_file(fd, copy, size)))
		return copy;
	sr_sys_close(copy);
	return -1;
}

/* A descriptor for writing only is opened once more; no other, since closing that drops the locks that the program has on the file. */
int sr_copy_content(int fd, uint64_t size)
{
	long flags = sr_sys_fcntl(fd, F_GETFL, 0);
	int again, copy;

	/* What is open with O_DIRECT is read in whole blocks only. */
	if (flags >= 0 && (flags & O_ACCMODE) != O_WRONLY && !(flags & O_DIRECT))
		return make_copy(fd, size);
	again = sr_open_again(fd, O_RDONLY);
	if (again < 0)
		return -1;
	copy = make_copy(again, size);
	sr_sys_close(again);
	return copy;
}
