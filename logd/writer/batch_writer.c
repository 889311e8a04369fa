/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/batch_writer.h"

#include <errno.h>
#include <stdlib.h>
#ifdef HAVE_LIBURING
#include <liburing.h>
#endif

static void advance(struct batch_write *w, size_t done)
{
	w->offset += done;
	for (int i = 0; i < 2; i++) {
		size_t part = done < w->iov[i].iov_len ? done : w->iov[i].iov_len;

		w->iov[i].iov_base = (char *)w->iov[i].iov_base + part;
		w->iov[i].iov_len -= part;
		done -= part;
	}
}

/* Writes what is left of it, without io_uring. */
static void write_plainly(struct batch_write *w)
{
	w->error = 0;
	while (w->iov[0].iov_len + w->iov[1].iov_len) {
		ssize_t done = pwritev(w->fd, w->iov, 2, (off_t)w->offset);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			w->error = done ? -errno : -EIO;
			return;
		}
		advance(w, (size_t)done);
	}
}

#ifdef HAVE_LIBURING

struct batch_writer {
	struct io_uring ring;
};

struct batch_writer *batch_writer_new(unsigned int depth)
{
	struct batch_writer *b = calloc(1, sizeof(*b));

	if (b && io_uring_queue_init(depth, &b->ring, 0)) {
		free(b);
		return NULL;
	}
	return b;
}

void batch_writer_free(struct batch_writer *b)
{
	if (b)
		io_uring_queue_exit(&b->ring);
	free(b);
}

static unsigned int prepare(struct batch_writer *b, struct batch_write *writes, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&b->ring);

		if (!sqe) /* impossible: the queue is as deep as the largest batch */
			break;
		io_uring_prep_writev(sqe, writes[i].fd, writes[i].iov, 2, writes[i].offset);
		io_uring_sqe_set_data(sqe, &writes[i]);
		writes[i].error = -EINPROGRESS;
	}
	return i;
}

/* A short write is no error yet: writing the rest without io_uring shows the error, if any. */
static void complete(struct batch_write *w, int result)
{
	if (result < 0 && result != -EAGAIN && result != -EINTR) {
		w->error = result;
		return;
	}
	if (result > 0)
		advance(w, (size_t)result);
	write_plainly(w);
}

static int wait_for_one(struct batch_writer *b)
{
	struct io_uring_cqe *cqe;
	int ret;

	do
		ret = io_uring_wait_cqe(&b->ring, &cqe);
	while (ret == -EINTR || ret == -EAGAIN);
	if (ret)
		return ret;
	complete(io_uring_cqe_get_data(cqe), cqe->res);
	io_uring_cqe_seen(&b->ring, cqe);
	return 0;
}

static void write_batch(struct batch_writer *b, struct batch_write *writes, unsigned int n)
{
	unsigned int prepared = prepare(b, writes, n), submitted = 0;

	while (submitted < prepared) {
		int ret = io_uring_submit(&b->ring);

		if (ret > 0)
			submitted += (unsigned int)ret;
		/* Interrupted or short of memory for a moment; the entries stay queued. */
		else if (ret != -EINTR && ret != -EAGAIN && ret != -EBUSY)
			abort(); /* requests under way cannot be taken back, so there is no way on
				  */
	}
	for (unsigned int i = 0; i < submitted; i++) {
		if (wait_for_one(b))
			abort();
	}
	for (unsigned int i = prepared; i < n; i++)
		write_plainly(&writes[i]);
}

#else

struct batch_writer *batch_writer_new(unsigned int depth)
{
	return NULL;
}

void batch_writer_free(struct batch_writer *b)
{
}

static void write_batch(struct batch_writer *b, struct batch_write *writes, unsigned int n)
{
}

#endif

void batch_write(struct batch_writer *b, struct batch_write *writes, unsigned int n)
{
	/* A single write is one system call either way, and pwritev is the cheaper one. */
	if (b && n > 1) {
		write_batch(b, writes, n);
		return;
	}
	for (unsigned int i = 0; i < n; i++)
		write_plainly(&writes[i]);
}
