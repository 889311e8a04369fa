/* SPDX-License-Identifier: BSD-2-Clause */
/* landing.h: the memory that an asynchronous read fills: what it brings goes into the record of the call that says so. */
#ifndef SHIM_ASYNC_LANDING_H
#define SHIM_ASYNC_LANDING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/*
 * The kernel begins to write there.  What is not exposed as a whole is recorded when it has landed; loads from the rest are
 * recorded as they are made.
 */
void sr_landing_expect(const struct iovec *pieces, size_t n);

/* The first `bytes` of them have been filled: they are added to what this thread's call received. */
void sr_landing_ends(const struct iovec *pieces, size_t n, uint64_t bytes);

#endif
