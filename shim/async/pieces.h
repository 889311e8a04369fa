/* SPDX-License-Identifier: BSD-2-Clause */
/* pieces.h: the memory of asynchronous reads and writes, of libaio and of io_uring. */
#ifndef SHIM_ASYNC_PIECES_H
#define SHIM_ASYNC_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* The program's list of `count` pieces.  *n: as many, or 0 if it cannot be read or the kernel takes no such list. */
const struct iovec *sr_pieces_list(const void *list, size_t count, size_t *n);

/* Is there memory in all of them? */
bool sr_pieces_are_readable(const struct iovec *pieces, size_t n);

/*
 * The kernel begins to write there.  What is not exposed as a whole is recorded when it has landed; loads from the rest are
 * recorded as they are made, and a replay of a group must not take what they find for another rank's.  In both runs.
 */
void sr_pieces_expect(const struct iovec *pieces, size_t n);

/* The first `bytes` of them have been filled: they are added to what this thread's call received. */
void sr_pieces_have_landed(const struct iovec *pieces, size_t n, uint64_t bytes);

/* Replay: writes the first `bytes` of them again; offset and flags as for sr_output_again() (files/outputs.h). */
void sr_pieces_write_again(int fd, const struct iovec *pieces, size_t n, size_t bytes, long offset, long flags);

#endif
