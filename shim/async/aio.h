/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * aio.h: asynchronous reads and writes by the kernel: io_setup(2) and its like, on which libaio is built.
 *
 * The kernel maps a ring of events for each context; its address is the context's number.  Programs take
 * events out of this ring without a system call (libaio, fio, SPDK).  So the program is given another
 * number: the address of a ring of a kind that none of them knows, so that they ask the kernel.
 *
 * What a read brings is recorded with the call that returns its event: nothing proves earlier that it is
 * there.  What is written is compared at io_submit, and a replay writes it when the event comes, as far as it went.
 *
 * The engines call the functions (calls.def), from any thread.
 */
#ifndef SHIM_ASYNC_AIO_H
#define SHIM_ASYNC_AIO_H

#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* What the program has in place of the kernel's ring.  All zero: the kernel's has a number at magic. */
struct sr_aio_context {
	uint32_t id, size, head, tail, magic, others[11];
};

/* How many of these n requests, from the first one on, can be read: the kernel takes no others. */
size_t sr_aio_readable(struct iocb *const *list, long n);

bool sr_aio_reads(const struct iocb *request);
bool sr_aio_writes(const struct iocb *request);

/* Replay: writes what the program has not been given the events of.  Call before the process ends. */
void sr_aio_ends(void);

/* The memory that a read or write is about: `one`, or the program's own list.  *n: 0 if that cannot be read. */
const struct iovec *sr_aio_pieces(const struct iocb *request, struct iovec *one, size_t *n);

#endif
