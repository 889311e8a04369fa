/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/async/posix_aio.h"

#include <errno.h>
#include <fcntl.h>

#include "logd/base/compiler.h"
#include "shim/core/engine.h"
#include "shim/core/next.h"
#include "shim/core/thread.h"

/* A recording that has begun late leaves to libc what it has begun with. */
static bool is_libcs(void)
{
	return !sr_engine_is_active() || sr_self.depth || !sr_self.armed;
}

static int failed(int error)
{
	errno = error;
	return -1;
}

static int begin(struct aiocb *request, int operation)
{
	sigset_t before;
	int error;

	sr_aio_lock(&before);
	error = sr_aio_begin(request, operation, NULL);
	sr_aio_unlock(&before);
	return error ? failed(error) : 0;
}

SR_EXPORT int aio_read(struct aiocb *request)
{
	SR_NEXT(next, "aio_read");

	return is_libcs() ? ((int (*)(struct aiocb *))sr_next(&next))(request) : begin(request, LIO_READ);
}

SR_EXPORT int aio_write(struct aiocb *request)
{
	SR_NEXT(next, "aio_write");

	return is_libcs() ? ((int (*)(struct aiocb *))sr_next(&next))(request) : begin(request, LIO_WRITE);
}

SR_EXPORT int aio_fsync(int how, struct aiocb *request)
{
	SR_NEXT(next, "aio_fsync");

	if (is_libcs())
		return ((int (*)(int, struct aiocb *))sr_next(&next))(how, request);
	if (how != O_SYNC && how != O_DSYNC)
		return failed(EINVAL);
	if (fcntl(request->aio_fildes, F_GETFL) < 0)
		return failed(EBADF);
	return begin(request, how == O_SYNC ? SR_AIO_SYNC : SR_AIO_DSYNC);
}

SR_EXPORT int aio_cancel(int fd, struct aiocb *request)
{
	SR_NEXT(next, "aio_cancel");
	sigset_t before;
	int result;

	if (is_libcs())
		return ((int (*)(int, struct aiocb *))sr_next(&next))(fd, request);
	if (fcntl(fd, F_GETFL) < 0)
		return failed(EBADF);
	if (request && request->aio_fildes != fd)
		return failed(EINVAL);
	sr_aio_lock(&before);
	result = sr_aio_cancel_waiting(fd, request);
	sr_aio_unlock(&before);
	return result;
}

static void add(struct timespec *time, const struct timespec *more)
{
	time->tv_sec += more->tv_sec;
	time->tv_nsec += more->tv_nsec;
	if (time->tv_nsec >= 1000000000) {
		time->tv_sec++;
		time->tv_nsec -= 1000000000;
	}
}

SR_EXPORT int aio_suspend(const struct aiocb *const requests[], int n, const struct timespec *timeout)
{
	SR_NEXT(next, "aio_suspend");
	struct timespec until;
	sigset_t before;
	int error;

	if (is_libcs())
		return ((int (*)(const struct aiocb *const[], int, const struct timespec *))sr_next(&next))(requests, n, timeout);
	if (n < 0 || (timeout && (timeout->tv_nsec < 0 || timeout->tv_nsec >= 1000000000)))
		return failed(EINVAL);
	if (timeout) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		add(&until, timeout);
	}
	sr_aio_lock(&before);
	error = sr_aio_wait((struct aiocb *const *)requests, n, false, timeout ? &until : NULL, &before);
	sr_aio_unlock(&before);
	return error ? failed(error) : 0;
}

/* How many of them could not begin. */
static int begin_all(struct aiocb *const requests[], int n, struct sr_aio_list *list)
{
	int refused = 0;

	for (int i = 0; i < n; i++) {
		if (!requests[i] || requests[i]->aio_lio_opcode == LIO_NOP)
			continue;
		/* As libc does: only the list notifies. */
		requests[i]->aio_sigevent.sigev_notify = SIGEV_NONE;
		refused += sr_aio_begin(requests[i], requests[i]->aio_lio_opcode, list) != 0;
	}
	return refused;
}

static bool has_one_failed(struct aiocb *const requests[], int n)
{
	for (int i = 0; i < n; i++)
		if (requests[i] && requests[i]->aio_lio_opcode != LIO_NOP && requests[i]->__error_code)
			return true;
	return false;
}

SR_EXPORT int lio_listio(int mode, struct aiocb *const requests[], int n, struct sigevent *event)
{
	SR_NEXT(next, "lio_listio");
	struct sr_aio_list *list = NULL;
	sigset_t before;
	int error = 0;

	if (is_libcs())
		return ((int (*)(int, struct aiocb *const[], int, struct sigevent *))sr_next(&next))(mode, requests, n, event);
	if ((mode != LIO_WAIT && mode != LIO_NOWAIT) || n < 0)
		return failed(EINVAL);
	sr_aio_lock(&before);
	if (mode == LIO_NOWAIT && event && !(list = sr_aio_list_new(event)))
		error = EAGAIN;
	else if (begin_all(requests, n, list))
		error = EIO;
	if (list)
		sr_aio_list_ends(list);
	if (mode == LIO_WAIT) {
		const int broken = sr_aio_wait(requests, n, true, NULL, &before);

		error = broken ? broken : has_one_failed(requests, n) ? EIO : 0;
	}
	sr_aio_unlock(&before);
	return error ? failed(error) : 0;
}

SR_EXPORT void aio_init(const struct aioinit *how)
{
	SR_NEXT(next, "aio_init");

	if (is_libcs())
		((void (*)(const struct aioinit *))sr_next(&next))(how);
	else
		sr_aio_set_threads(how->aio_threads);
}

SR_EXPORT int aio_read64(struct aiocb64 *request) __attribute__((alias("aio_read")));
SR_EXPORT int aio_write64(struct aiocb64 *request) __attribute__((alias("aio_write")));
SR_EXPORT int aio_fsync64(int how, struct aiocb64 *request) __attribute__((alias("aio_fsync")));
SR_EXPORT int aio_cancel64(int fd, struct aiocb64 *request) __attribute__((alias("aio_cancel")));
SR_EXPORT int aio_suspend64(const struct aiocb64 *const requests[], int n, const struct timespec *timeout)
    __attribute__((alias("aio_suspend")));
SR_EXPORT int lio_listio64(int mode, struct aiocb64 *const requests[], int n, struct sigevent *event)
    __attribute__((alias("lio_listio")));
