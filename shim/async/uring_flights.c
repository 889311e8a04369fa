/* SPDX-License-Identifier: BSD-2-Clause */
/* uring_flights.c: requests under way: what the kernel is given, and what it has brought. */
#include <string.h>
#include <sys/socket.h>

#include "logd/base/iov.h"
#include "shim/async/pieces.h"
#include "shim/async/uring_ring.h"
#include "shim/kernel/readable.h"
#include "shim/memory/heap.h"
#include "shim/verbs/regions.h"

/* None of the kernel's operations: it answers with EINVAL, as an older kernel does. */
#define UNKNOWN_OPERATION 255

/* ---------------------------------------------------------- what comes beside the data */

#define BESIDE_MOST 4

static void add(struct sr_uring_flight *f, void *addr, size_t length)
{
	if (addr && length)
		f->pieces[f->n + f->beside++] = (struct iovec){addr, length};
}

/* The sender's address, control messages, and how long they are. */
static void add_of_message(struct sr_uring_flight *f, struct msghdr *m)
{
	add(f, m->msg_name, m->msg_namelen);
	add(f, m->msg_control, m->msg_controllen);
	add(f, &m->msg_namelen, sizeof(m->msg_namelen));
	add(f, &m->msg_controllen, sizeof(m->msg_controllen) + sizeof(m->msg_flags));
}

static void add_of_accept(struct sr_uring_flight *f, const struct io_uring_sqe *r)
{
	socklen_t *length = (socklen_t *)r->addr2;

	if (!r->addr || !sr_is_readable(length, sizeof(*length)))
		return;
	add(f, (void *)r->addr, *length);
	add(f, length, sizeof(*length));
}

/* Exposed memory is protected from the kernel, and the request may wait for long: so it is given a copy. */
static bool needs_copy(const struct sr_uring_flight *f)
{
	for (size_t i = 0; sr_regions_on && i < f->n; i++)
		if (sr_exposed_touches(f->pieces[i].iov_base, f->pieces[i].iov_len))
			return true;
	return false;
}

static void gather(const struct sr_uring_flight *f)
{
	char *to = f->copy;

	for (size_t i = 0; i < f->n; to += f->pieces[i++].iov_len)
		sr_exposed_copy(f->pieces[i].iov_base, to, f->pieces[i].iov_len);
}

/* bytes: that have come. */
static void scatter(const struct sr_uring_flight *f, size_t bytes)
{
	const char *from = f->copy;

	for (size_t i = 0, n; i < f->n && bytes; i++, from += n, bytes -= n) {
		n = f->pieces[i].iov_len < bytes ? f->pieces[i].iov_len : bytes;
		sr_exposed_pin(f->pieces[i].iov_base, n);
		memcpy(f->pieces[i].iov_base, from, n);
		sr_exposed_unpin(f->pieces[i].iov_base, n);
	}
}

/* The kernel is given one piece, the copy, whatever the program's request has. */
static bool give_copy(struct sr_uring_flight *f, const struct io_uring_sqe *r, struct io_uring_sqe *kernels)
{
	size_t bytes = sr_iov_bytes(f->pieces, f->n);
	/* Behind the copy there is what lists it. */
	size_t list = (bytes + 15) & ~15ul;
	struct iovec *one;

	if (!sr_pieces_are_readable(f->pieces, f->n))
		return true; /* the kernel says so */
	f->copy = sr_alloc(list + sizeof(struct iovec) + sizeof(struct msghdr));
	if (!f->copy)
		return false;
	gather(f);
	one = (struct iovec *)(f->copy + list);
	*one = (struct iovec){f->copy, bytes};
	switch (sr_uring_does(r->opcode)) {
	case SR_URING_READS:
	case SR_URING_WRITES:
		kernels->addr = (uintptr_t)f->copy;
		break;
	case SR_URING_READS_LIST:
	case SR_URING_WRITES_LIST:
		kernels->addr = (uintptr_t)one;
		kernels->len = 1;
		break;
	default:
		f->message = (struct msghdr *)(one + 1);
		f->of_program = (struct msghdr *)r->addr;
		*f->message = *f->of_program;
		f->message->msg_iov = one;
		f->message->msg_iovlen = 1;
		kernels->addr = (uintptr_t)f->message;
	}
	return true;
}

/* One that the kernel does not find, if the program has none of this name. */
static uint64_t flight_of(const struct sr_uring *ring, uint64_t user_data)
{
	const struct sr_uring_flight *f = ring->flights;

	while (f && f->user_data != user_data)
		f = f->next;
	return (uintptr_t)f;
}

static enum sr_uring_effect effect_of(const struct io_uring_sqe *r)
{
	switch (sr_uring_does(r->opcode)) {
	case SR_URING_ACCEPTS:
	case SR_URING_OPENS:
		return SR_URING_OPENED;
	case SR_URING_CLOSES:
		return SR_URING_CLOSED;
	case SR_URING_READS:
	case SR_URING_READS_LIST:
		return r->off == (uint64_t)-1 ? SR_URING_MOVED : SR_URING_NOTHING;
	default:
		return SR_URING_NOTHING;
	}
}

/* The program may use the request and its lists again as soon as the kernel has taken it. */
static struct sr_uring_flight *new_flight(const struct sr_uring *ring, const struct io_uring_sqe *r)
{
	struct iovec one;
	size_t n;
	const struct iovec *pieces = sr_uring_pieces(r, &one, &n);
	struct sr_uring_flight *f = sr_alloc_zeroed(sizeof(*f) + (n + BESIDE_MOST) * sizeof(one));

	if (!f)
		return NULL;
	f->user_data = r->user_data;
	f->effect = effect_of(r);
	f->fd = sr_uring_file(ring, r);
	f->pieces = (struct iovec *)(f + 1);
	f->n = n;
	if (n)
		memcpy(f->pieces, pieces, n * sizeof(one));
	if (sr_uring_does(r->opcode) == SR_URING_READS_MESSAGE && sr_uring_message(r))
		add_of_message(f, (struct msghdr *)r->addr);
	else if (sr_uring_does(r->opcode) == SR_URING_ACCEPTS)
		add_of_accept(f, r);
	return f;
}

static void join(struct sr_uring *ring, struct sr_uring_flight *f)
{
	f->next = ring->flights;
	f->at = &ring->flights;
	if (f->next)
		f->next->at = &f->next;
	ring->flights = f;
}

static struct io_uring_sqe instead(const struct io_uring_sqe *r, uint8_t opcode)
{
	return (struct io_uring_sqe){.opcode = opcode, .flags = r->flags & (IOSQE_IO_DRAIN | IOSQE_IO_LINK | IOSQE_IO_HARDLINK)};
}

struct sr_uring_flight *sr_uring_take_off(struct sr_uring *ring, const struct io_uring_sqe *r, int32_t result, struct io_uring_sqe *kernels)
{
	const bool is_call = sr_uring_is_known(r) && sr_uring_does(r->opcode) == SR_URING_CALLS;
	struct sr_uring_flight *f;

	*kernels = *r;
	if (sr_uring_does(r->opcode) == SR_URING_CANCELS)
		kernels->addr = flight_of(ring, r->addr);
	/* One that fails ends the requests that are linked with it. */
	if (!sr_uring_is_known(r) || (is_call && result < 0))
		*kernels = instead(r, UNKNOWN_OPERATION);
	else if (is_call)
		*kernels = instead(r, IORING_OP_NOP);
	f = new_flight(ring, kernels);
	if (!f)
		return NULL;
	f->user_data = r->user_data;
	f->is_call = is_call;
	f->result = result;
	if (r->opcode != IORING_OP_READ_FIXED && r->opcode != IORING_OP_WRITE_FIXED && needs_copy(f) && !give_copy(f, r, kernels)) {
		sr_free(f);
		return NULL;
	}
	if (!sr_uring_writes(r))
		sr_pieces_expect(f->pieces, f->n);
	else
		f->n = 0;
	kernels->user_data = (uintptr_t)f;
	join(ring, f);
	return f;
}

void sr_uring_note(struct sr_uring *ring, const struct io_uring_sqe *r, uint32_t number)
{
	bool to_file = r->opcode == IORING_OP_WRITE || r->opcode == IORING_OP_WRITEV || r->opcode == IORING_OP_WRITE_FIXED;
	struct sr_uring_flight *f = to_file && sr_uring_is_known(r) ? new_flight(ring, r) : NULL;

	if (!f)
		return;
	f->number = number;
	f->offset = (long)r->off;
	f->output_flags = r->rw_flags & RWF_APPEND;
	join(ring, f);
}

/* What the kernel has written into its message that the program's is to have. */
static void end_message(const struct sr_uring_flight *f)
{
	f->of_program->msg_namelen = f->message->msg_namelen;
	f->of_program->msg_controllen = f->message->msg_controllen;
	f->of_program->msg_flags = f->message->msg_flags;
}

void sr_uring_land(struct sr_uring_flight *f, int32_t result)
{
	if (result < 0)
		return;
	if (f->message && f->beside)
		end_message(f);
	if (f->copy && f->n)
		scatter(f, (size_t)result);
	sr_pieces_have_landed(f->pieces, f->n, (uint64_t)result);
	sr_pieces_have_landed(f->pieces + f->n, f->beside, UINT64_MAX);
}

void sr_uring_forget(struct sr_uring_flight *f)
{
	*f->at = f->next;
	if (f->next)
		f->next->at = f->at;
	sr_free(f->copy);
	sr_free(f);
}
