/* SPDX-License-Identifier: BSD-2-Clause */
/* iov.h: lists of pieces of memory, as readv(2) has them. */
#ifndef LOGD_BASE_IOV_H
#define LOGD_BASE_IOV_H

#include <stddef.h>
#include <sys/uio.h>

/* The bytes of n pieces together.  Any thread. */
static inline size_t sr_iov_bytes(const struct iovec *iov, size_t n)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

#endif
