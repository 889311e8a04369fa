/* SPDX-License-Identifier: BSD-2-Clause */
/* uring_requests.c: what requests read and write, and what the kernel is given in their place. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "logd/base/iov.h"
#include "shim/async/landing.h"
#include "shim/async/uring_ring.h"
#include "shim/files/fds.h"
#include "shim/kernel/readable.h"
#include "shim/memory/heap.h"
#include "shim/verbs/regions.h"

/* As many pieces as the kernel takes in one request. */
#define PIECES_MOST 1024
/* None of the kernel's operations: it answers with EINVAL, as an older kernel does. */
#define UNKNOWN_OPERATION 255

/* What a request does with memory. */
enum does {
	UNKNOWN,
	NOTHING,     /* it gives a result only */
	READS,	     /* `len` bytes to `addr` */
	READS_LIST,  /* to `len` pieces at `addr` */
	READS_MESSAGE,
	WRITES,	     /* the same, from there */
	WRITES_LIST,
	WRITES_MESSAGE,
	ACCEPTS,     /* a new socket, and the peer's address to `addr`, with its length at `addr2` */
	OPENS,	     /* a new socket */
	CLOSES,
	CANCELS,     /* the request whose user_data is `addr` */
	CALLS,	     /* what a system call does, too, which the shim makes when the request is submitted */
};

static const uint8_t operations[] = {
    [IORING_OP_NOP] = NOTHING,
    [IORING_OP_READV] = READS_LIST,
    [IORING_OP_WRITEV] = WRITES_LIST,
    [IORING_OP_FSYNC] = NOTHING,
    [IORING_OP_READ_FIXED] = READS,
    [IORING_OP_WRITE_FIXED] = WRITES,
    [IORING_OP_POLL_ADD] = NOTHING,
    [IORING_OP_POLL_REMOVE] = CANCELS,
    [IORING_OP_SYNC_FILE_RANGE] = NOTHING,
    [IORING_OP_SENDMSG] = WRITES_MESSAGE,
    [IORING_OP_RECVMSG] = READS_MESSAGE,
    [IORING_OP_TIMEOUT] = NOTHING,
    [IORING_OP_TIMEOUT_REMOVE] = CANCELS,
    [IORING_OP_ACCEPT] = ACCEPTS,
    [IORING_OP_ASYNC_CANCEL] = CANCELS,
    [IORING_OP_LINK_TIMEOUT] = NOTHING,
    [IORING_OP_CONNECT] = NOTHING,
    [IORING_OP_CLOSE] = CLOSES,
    [IORING_OP_READ] = READS,
    [IORING_OP_WRITE] = WRITES,
    [IORING_OP_FADVISE] = NOTHING,
    [IORING_OP_SEND] = WRITES,
    [IORING_OP_RECV] = READS,
    [IORING_OP_EPOLL_CTL] = NOTHING,
    [IORING_OP_SHUTDOWN] = NOTHING,
    [IORING_OP_SOCKET] = OPENS,
    [IORING_OP_OPENAT] = CALLS,
    [IORING_OP_OPENAT2] = CALLS,
    [IORING_OP_STATX] = CALLS,
    [IORING_OP_UNLINKAT] = CALLS,
    [IORING_OP_RENAMEAT] = CALLS,
    [IORING_OP_MKDIRAT] = CALLS,
    [IORING_OP_SYMLINKAT] = CALLS,
    [IORING_OP_LINKAT] = CALLS,
    [IORING_OP_FALLOCATE] = CALLS,
    [IORING_OP_MADVISE] = CALLS,
};

static enum does does(unsigned int opcode)
{
	return opcode < sizeof(operations) ? operations[opcode] : UNKNOWN;
}

bool sr_uring_knows(unsigned int opcode)
{
	return does(opcode) != UNKNOWN;
}

/* Buffers that the kernel chooses, completions left out, and descriptors without a number are of later kernels. */
static bool is_known(const struct io_uring_sqe *r)
{
	enum does what = does(r->opcode);

	if (what == UNKNOWN || r->personality || r->flags & (IOSQE_BUFFER_SELECT | IOSQE_CQE_SKIP_SUCCESS))
		return false;
	if (what == ACCEPTS || what == OPENS || what == CLOSES || r->opcode == IORING_OP_OPENAT || r->opcode == IORING_OP_OPENAT2)
		return !r->file_index;
	if (what == CALLS)
		return !(r->flags & IOSQE_FIXED_FILE);
	return r->opcode != IORING_OP_POLL_REMOVE || !r->len;
}

int sr_uring_file(const struct sr_uring *ring, const struct io_uring_sqe *r)
{
	if (!(r->flags & IOSQE_FIXED_FILE))
		return r->fd;
	return (uint32_t)r->fd < ring->n_files ? ring->files[r->fd] : -1;
}

long sr_uring_call(const struct io_uring_sqe *r, uint64_t a[6])
{
	const uint64_t fd = (uint64_t)r->fd;

	if (!is_known(r))
		return -1;
	switch (r->opcode) {
	case IORING_OP_OPENAT:
		memcpy(a, (uint64_t[]){fd, r->addr, r->open_flags, r->len, 0, 0}, 6 * sizeof(*a));
		return SYS_openat;
	case IORING_OP_OPENAT2:
		memcpy(a, (uint64_t[]){fd, r->addr, r->off, r->len, 0, 0}, 6 * sizeof(*a));
		return SYS_openat2;
	case IORING_OP_STATX:
		memcpy(a, (uint64_t[]){fd, r->addr, r->statx_flags, r->len, r->off, 0}, 6 * sizeof(*a));
		return SYS_statx;
	case IORING_OP_UNLINKAT:
		memcpy(a, (uint64_t[]){fd, r->addr, r->unlink_flags, 0, 0, 0}, 6 * sizeof(*a));
		return SYS_unlinkat;
	case IORING_OP_RENAMEAT:
		memcpy(a, (uint64_t[]){fd, r->addr, r->len, r->off, r->rename_flags, 0}, 6 * sizeof(*a));
		return SYS_renameat2;
	case IORING_OP_MKDIRAT:
		memcpy(a, (uint64_t[]){fd, r->addr, r->len, 0, 0, 0}, 6 * sizeof(*a));
		return SYS_mkdirat;
	case IORING_OP_SYMLINKAT:
		memcpy(a, (uint64_t[]){r->addr, fd, r->off, 0, 0, 0}, 6 * sizeof(*a));
		return SYS_symlinkat;
	case IORING_OP_LINKAT:
		memcpy(a, (uint64_t[]){fd, r->addr, r->len, r->off, r->hardlink_flags, 0}, 6 * sizeof(*a));
		return SYS_linkat;
	case IORING_OP_FALLOCATE:
		memcpy(a, (uint64_t[]){fd, r->len, r->off, r->addr, 0, 0}, 6 * sizeof(*a));
		return SYS_fallocate;
	case IORING_OP_MADVISE:
		memcpy(a, (uint64_t[]){r->addr, r->len, r->fadvise_advice, 0, 0, 0}, 6 * sizeof(*a));
		return SYS_madvise;
	default:
		return -1;
	}
}

/* ------------------------------------------------------------------- memory */

static const struct msghdr *message_of(const struct io_uring_sqe *r)
{
	const struct msghdr *m = (const struct msghdr *)r->addr;

	return sr_is_readable(m, sizeof(*m)) ? m : NULL;
}

static const struct iovec *list_of(const void *list, size_t count, size_t *n)
{
	*n = count <= PIECES_MOST && sr_is_readable(list, count * sizeof(struct iovec)) ? count : 0;
	return list;
}

/* The memory of a read or write. */
static const struct iovec *pieces_of(const struct io_uring_sqe *r, struct iovec *one, size_t *n)
{
	const struct msghdr *m;

	*n = 0;
	switch (does(r->opcode)) {
	case READS:
	case WRITES:
		*one = (struct iovec){(void *)r->addr, r->len};
		*n = 1;
		return one;
	case READS_LIST:
	case WRITES_LIST:
		return list_of((const void *)r->addr, r->len, n);
	case READS_MESSAGE:
	case WRITES_MESSAGE:
		m = message_of(r);
		return m ? list_of(m->msg_iov, m->msg_iovlen, n) : NULL;
	default:
		return NULL;
	}
}

static bool writes(const struct io_uring_sqe *r)
{
	enum does what = does(r->opcode);

	return what == WRITES || what == WRITES_LIST || what == WRITES_MESSAGE;
}

static bool are_readable(const struct iovec *pieces, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!sr_is_readable(pieces[i].iov_base, pieces[i].iov_len))
			return false;
	return true;
}

const struct iovec *sr_uring_written(const struct io_uring_sqe *r, struct iovec *one, size_t *n)
{
	const struct iovec *pieces = pieces_of(r, one, n);

	if (!is_known(r) || !writes(r) || !are_readable(pieces, *n))
		*n = 0;
	return pieces;
}

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

/* ------------------------------------------------------------------- flights */

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

	if (!are_readable(f->pieces, f->n))
		return true; /* the kernel says so */
	f->copy = sr_alloc(list + sizeof(struct iovec) + sizeof(struct msghdr));
	if (!f->copy)
		return false;
	gather(f);
	one = (struct iovec *)(f->copy + list);
	*one = (struct iovec){f->copy, bytes};
	switch (does(r->opcode)) {
	case READS:
	case WRITES:
		kernels->addr = (uintptr_t)f->copy;
		break;
	case READS_LIST:
	case WRITES_LIST:
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
	switch (does(r->opcode)) {
	case ACCEPTS:
	case OPENS:
		return SR_URING_OPENED;
	case CLOSES:
		return SR_URING_CLOSED;
	case READS:
	case READS_LIST:
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
	const struct iovec *pieces = pieces_of(r, &one, &n);
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
	if (does(r->opcode) == READS_MESSAGE && message_of(r))
		add_of_message(f, (struct msghdr *)r->addr);
	else if (does(r->opcode) == ACCEPTS)
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

struct sr_uring_flight *sr_uring_take_off(struct sr_uring *ring, const struct io_uring_sqe *r, struct io_uring_sqe *kernels)
{
	struct sr_uring_flight *f;

	*kernels = *r;
	if (does(r->opcode) == CANCELS)
		kernels->addr = flight_of(ring, r->addr);
	if (!is_known(r))
		*kernels = instead(r, UNKNOWN_OPERATION);
	else if (does(r->opcode) == CALLS)
		*kernels = instead(r, IORING_OP_NOP);
	f = new_flight(ring, kernels);
	if (!f)
		return NULL;
	f->user_data = r->user_data;
	if (r->opcode != IORING_OP_READ_FIXED && r->opcode != IORING_OP_WRITE_FIXED && needs_copy(f) && !give_copy(f, r, kernels)) {
		sr_free(f);
		return NULL;
	}
	if (!writes(r))
		sr_landing_expect(f->pieces, f->n);
	else
		f->n = 0;
	kernels->user_data = (uintptr_t)f;
	join(ring, f);
	return f;
}

void sr_uring_note(struct sr_uring *ring, const struct io_uring_sqe *r, uint32_t number)
{
	bool to_file = r->opcode == IORING_OP_WRITE || r->opcode == IORING_OP_WRITEV || r->opcode == IORING_OP_WRITE_FIXED;
	struct sr_uring_flight *f = to_file && is_known(r) ? new_flight(ring, r) : NULL;

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
	sr_landing_ends(f->pieces, f->n, (uint64_t)result);
	sr_landing_ends(f->pieces + f->n, f->beside, UINT64_MAX);
}

void sr_uring_forget(struct sr_uring_flight *f)
{
	*f->at = f->next;
	if (f->next)
		f->next->at = f->at;
	sr_free(f->copy);
	sr_free(f);
}
