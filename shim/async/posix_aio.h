/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * posix_aio.h: asynchronous reads and writes as POSIX has them: aio_read(3) and its like (<aio.h>).
 *
 * libc has threads of its own for them, past all wrappers.  Here they are threads that the wrappers know, made as a program
 * would make them, and they read, write and notify by the calls that a program would make.  These are recorded and replayed as
 * any others.  What a program sees of a request by a load, its state, is read by calls (aio_error, aio_return: calls.def), and
 * changes in a call (aio_ended), so that both have their place in the order of the process's threads.
 *
 * Everything here is on the program's side, not in a section of the shim, but for the function that aio_ended invokes.
 */
#ifndef SHIM_ASYNC_POSIX_AIO_H
#define SHIM_ASYNC_POSIX_AIO_H

#include <aio.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

/* What is done of a request: LIO_READ, LIO_WRITE, or one of these. */
enum sr_aio_sync {
	SR_AIO_SYNC = 100, /* fsync */
	SR_AIO_DSYNC,      /* fdatasync */
};

/* Requests of one lio_listio that says when the last of them has ended. */
struct sr_aio_list;

/* ------------------------------------------------------------------------ the queue (posix_aio_queue.c) */

/*
 * Locks the queue, with all signals blocked, since handlers may make requests; gives it back with the mask of before.  The
 * other functions of the queue are for its holder.
 */
void sr_aio_lock(sigset_t *before);
void sr_aio_unlock(const sigset_t *before);

/* 0, or an errno, which the request has as its state then. */
int sr_aio_begin(struct aiocb *request, int operation, struct sr_aio_list *list);

/* Ends a request that has not begun to be served, or with request NULL all such ones of this descriptor: what aio_cancel returns. */
int sr_aio_cancel_waiting(int fd, struct aiocb *request);

/* How many threads serve requests at most. */
void sr_aio_set_threads(int n);

/*
 * Waits until one of n requests has ended, or with `all` each of them.  NULL among them: none.  0, or the errno of what came
 * before that.  The queue is unlocked, and the mask that of `before`, while it waits.
 */
int sr_aio_wait(struct aiocb *const requests[], int n, bool all, const struct timespec *until, const sigset_t *before);

/* ------------------------------------------------------------ notifications (posix_aio_notify.c) */

/* Tells the program as the event says. */
void sr_aio_notify(const struct sigevent *event);

/* NULL: no memory.  The caller is counted as one request more, until sr_aio_list_ends(). */
struct sr_aio_list *sr_aio_list_new(const struct sigevent *event);
void sr_aio_list_grows(struct sr_aio_list *list);
/* One of its requests has ended; the last one notifies, and frees the list. */
void sr_aio_list_ends(struct sr_aio_list *list);

#endif
