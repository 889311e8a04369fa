/* SPDX-License-Identifier: BSD-2-Clause */
/* uring.c: requests that io_uring_enter submits, and completions that a call brings. */
#include "logd/base/iov.h"
#include "shim/calls/codec/custom.h"

/* The content belongs to the arguments, as that of struct aio_request does (aio.c). */
static void put_content(struct sr_buf *b, const struct sr_uring_sqe *r)
{
	struct iovec one;
	size_t n, bytes;
	const struct iovec *pieces = sr_uring_written(r, &one, &n);

	bytes = sr_iov_bytes(pieces, n);
	sr_put_gathered_output(b, pieces, n, n && bytes <= INT32_MAX ? (ssize_t)bytes : 0);
}

/* struct uring_request of calls.def */
static void put_request(struct sr_buf *b, const struct sr_uring_sqe *r)
{
	sr_put_u32(b, r->opcode);
	sr_put_u32(b, r->flags);
	sr_put_u32(b, (uint32_t)r->fd);
	sr_put_u64(b, r->off);
	sr_put_u64(b, r->addr);
	sr_put_u32(b, r->len);
	sr_put_u32(b, r->rw_flags);
	sr_put_u64(b, r->user_data);
	put_content(b, r);
}

void sr_put_uring_requests(struct sr_buf *b, int fd, unsigned int n)
{
	const struct sr_uring *ring = sr_uring_of(fd);
	uint32_t count = ring ? sr_uring_pending(ring, n) : 0;

	sr_put_u32(b, count);
	for (uint32_t i = 0; i < count; i++)
		put_request(b, sr_uring_request(ring, i));
}

void sr_put_uring_completions(struct sr_buf *b, const struct sr_uring_arrivals *arrivals)
{
	sr_put_u32(b, arrivals->n);
	for (uint32_t i = 0; i < arrivals->n; i++)
		sr_put_uring_completion(b, &arrivals->list[i]);
}

/* The call's replayed function gives them to the program. */
void sr_deliver_uring_completions(struct sr_cursor *c, struct sr_uring_arrivals *arrivals)
{
	arrivals->n = 0;
	for (uint32_t n = sr_get_u32(c); n && !c->bad; n--) {
		struct sr_uring_completion *v = sr_uring_new_arrival();

		if (!v)
			c->bad = true;
		else
			sr_get_uring_completion(c, v);
	}
}
