/* SPDX-License-Identifier: BSD-2-Clause */
/* file_io.h: all of a buffer, from a file or to it.  Any thread; not in recorded processes. */
#ifndef LOGD_TRACE_FILE_IO_H
#define LOGD_TRACE_FILE_IO_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* False: there are fewer bytes at offset, or they cannot be read. */
static inline bool read_fully(int fd, void *data, size_t size, uint64_t offset)
{
	return pread(fd, data, size, (off_t)offset) == (ssize_t)size;
}

/* 0, or -errno: some of it may have been written. */
static inline int write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

#endif
