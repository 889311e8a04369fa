/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * batch_writer.h: several writes to several files, in one system call where
 * io_uring is to be had (liburing at build time, a kernel that lets us at run
 * time), else one after the other.
 */
#ifndef LOGD_WRITER_BATCH_WRITER_H
#define LOGD_WRITER_BATCH_WRITER_H

#include <stdint.h>
#include <sys/uio.h>

struct batch_writer;

struct batch_write {
	int fd;
	uint64_t offset;
	struct iovec iov[2]; /* used up */
	int error;           /* afterwards: 0, or -errno: some of it may have been written */
};

/* NULL: no io_uring here; batch_write takes NULL too. */
struct batch_writer *batch_writer_new(unsigned int depth);
void batch_writer_free(struct batch_writer *b);

/* Returns when all are done; n is at most depth. */
void batch_write(struct batch_writer *b, struct batch_write *writes, unsigned int n);

#endif
