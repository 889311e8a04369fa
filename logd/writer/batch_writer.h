/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * batch_writer.h: several writes to several files, in one system call where there is io_uring
 * (liburing at build time, and a kernel that grants it), else one after the other.
 *
 * One thread at a time for each batch writer.
 */
#ifndef LOGD_WRITER_BATCH_WRITER_H
#define LOGD_WRITER_BATCH_WRITER_H

#include <stdint.h>
#include <sys/uio.h>

struct batch_writer;

struct batch_write {
	int fd;
	uint64_t offset;
	struct iovec iov[2]; /* the writer changes them */
	int error;           /* afterwards: 0; or -errno, and a part may have been written */
};

/* NULL: there is no io_uring; batch_write takes NULL too.  depth: of the largest batch. */
struct batch_writer *batch_writer_new(unsigned int depth);
void batch_writer_free(struct batch_writer *b);

/* Returns when all n writes are done. */
void batch_write(struct batch_writer *b, struct batch_write *writes, unsigned int n);

#endif
