/* SPDX-License-Identifier: BSD-2-Clause */
/* outputs.h: what a replay does with what the program writes to a descriptor that is not captured. */
#ifndef SHIM_FILES_OUTPUTS_H
#define SHIM_FILES_OUTPUTS_H

#include <stddef.h>
#include <sys/uio.h>

/*
 * Writes the first n bytes of the pieces again, to wherever the descriptor leads now.  offset: ignored by what has no
 * position; -1: at the descriptor's.  flags: of pwritev2.
 */
void sr_output_again(int fd, const struct iovec *iov, size_t n, long offset, long flags);

#endif
