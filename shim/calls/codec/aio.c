/* SPDX-License-Identifier: BSD-2-Clause */
/* aio.c: requests of io_submit, and the events of those that have ended. */
#include "logd/base/iov.h"
#include "shim/async/pieces.h"
#include "shim/calls/codec/custom.h"

/*
 * The content belongs to the arguments: once the call has begun, another thread may have the request's event and use its
 * memory again.
 */
static void put_content(struct sr_buf *b, const struct iocb *r)
{
	struct iovec one;
	size_t n, bytes;
	const struct iovec *pieces = sr_aio_pieces(r, &one, &n);

	bytes = sr_iov_bytes(pieces, n);
	if (sr_aio_writes(r) && bytes <= INT32_MAX && sr_pieces_are_readable(pieces, n)) {
		sr_put_gathered_output(b, pieces, n, (ssize_t)bytes);
		return;
	}
	/* struct gathered_output of calls.def */
	sr_put_u64(b, n ? bytes : r->aio_nbytes);
	sr_put_u32(b, 0);
	sr_put_u32(b, 0);
}

/* struct aio_request of calls.def */
static void put_request(struct sr_buf *b, const struct iocb *r)
{
	sr_put_u64(b, (uintptr_t)r);
	sr_put_u64(b, r->aio_data);
	sr_put_u32(b, r->aio_lio_opcode);
	sr_put_u32(b, r->aio_fildes);
	sr_put_u64(b, (uint64_t)r->aio_offset);
	sr_put_u32(b, r->aio_flags);
	sr_put_u32(b, r->aio_flags & IOCB_FLAG_RESFD ? r->aio_resfd : 0);
	sr_put_u32(b, (uint32_t)r->aio_rw_flags);
	put_content(b, r);
}

void sr_put_aio_requests(struct sr_buf *b, struct iocb *const *list, long n)
{
	size_t count = sr_aio_readable(list, n);

	sr_put_u32(b, (uint32_t)count);
	for (size_t i = 0; i < count; i++)
		put_request(b, list[i]);
}

void sr_put_aio_events(struct sr_buf *b, const struct io_event *events, long n)
{
	sr_put_u32(b, (uint32_t)n);
	for (long i = 0; i < n; i++)
		sr_put_aio_event(b, &events[i]);
}

void sr_deliver_aio_events(struct sr_cursor *c, struct io_event *events, long n)
{
	if (sr_get_u32(c) != (uint32_t)n) {
		c->bad = true;
		return;
	}
	for (long i = 0; i < n; i++)
		sr_get_aio_event(c, &events[i]);
}
