/* SPDX-License-Identifier: BSD-2-Clause */
/* uring_requests.c: what requests do: which the shim knows, what they read and write, which are system calls. */
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "shim/async/pieces.h"
#include "shim/async/uring_ring.h"
#include "shim/kernel/readable.h"

static const uint8_t operations[] = {
    [SR_URING_OP_NOP] = SR_URING_GIVES,
    [SR_URING_OP_READV] = SR_URING_READS_LIST,
    [SR_URING_OP_WRITEV] = SR_URING_WRITES_LIST,
    [SR_URING_OP_FSYNC] = SR_URING_GIVES,
    [SR_URING_OP_READ_FIXED] = SR_URING_READS,
    [SR_URING_OP_WRITE_FIXED] = SR_URING_WRITES,
    [SR_URING_OP_POLL_ADD] = SR_URING_GIVES,
    [SR_URING_OP_POLL_REMOVE] = SR_URING_CANCELS,
    [SR_URING_OP_SYNC_FILE_RANGE] = SR_URING_GIVES,
    [SR_URING_OP_SENDMSG] = SR_URING_WRITES_MESSAGE,
    [SR_URING_OP_RECVMSG] = SR_URING_READS_MESSAGE,
    [SR_URING_OP_TIMEOUT] = SR_URING_GIVES,
    [SR_URING_OP_TIMEOUT_REMOVE] = SR_URING_CANCELS,
    [SR_URING_OP_ACCEPT] = SR_URING_ACCEPTS,
    [SR_URING_OP_ASYNC_CANCEL] = SR_URING_CANCELS,
    [SR_URING_OP_LINK_TIMEOUT] = SR_URING_GIVES,
    [SR_URING_OP_CONNECT] = SR_URING_GIVES,
    [SR_URING_OP_CLOSE] = SR_URING_CLOSES,
    [SR_URING_OP_READ] = SR_URING_READS,
    [SR_URING_OP_WRITE] = SR_URING_WRITES,
    [SR_URING_OP_FADVISE] = SR_URING_GIVES,
    [SR_URING_OP_SEND] = SR_URING_WRITES,
    [SR_URING_OP_SEND_ZC] = SR_URING_WRITES,
    [SR_URING_OP_SENDMSG_ZC] = SR_URING_WRITES_MESSAGE,
    [SR_URING_OP_RECV] = SR_URING_READS,
    [SR_URING_OP_EPOLL_CTL] = SR_URING_GIVES,
    [SR_URING_OP_SHUTDOWN] = SR_URING_GIVES,
    [SR_URING_OP_SOCKET] = SR_URING_OPENS,
    [SR_URING_OP_PROVIDE_BUFFERS] = SR_URING_PROVIDES,
    [SR_URING_OP_REMOVE_BUFFERS] = SR_URING_GIVES,
    [SR_URING_OP_FILES_UPDATE] = SR_URING_UPDATES,
    [SR_URING_OP_SPLICE] = SR_URING_MOVES_BYTES,
    [SR_URING_OP_TEE] = SR_URING_MOVES_BYTES,
    [SR_URING_OP_MSG_RING] = SR_URING_MESSAGES,
    [SR_URING_OP_OPENAT] = SR_URING_CALLS,
    [SR_URING_OP_OPENAT2] = SR_URING_CALLS,
    [SR_URING_OP_STATX] = SR_URING_CALLS,
    [SR_URING_OP_UNLINKAT] = SR_URING_CALLS,
    [SR_URING_OP_RENAMEAT] = SR_URING_CALLS,
    [SR_URING_OP_MKDIRAT] = SR_URING_CALLS,
    [SR_URING_OP_SYMLINKAT] = SR_URING_CALLS,
    [SR_URING_OP_LINKAT] = SR_URING_CALLS,
    [SR_URING_OP_FALLOCATE] = SR_URING_CALLS,
    [SR_URING_OP_MADVISE] = SR_URING_CALLS,
};

enum sr_uring_does sr_uring_does(unsigned int opcode)
{
	return opcode < sizeof(operations) ? operations[opcode] : SR_URING_UNKNOWN;
}

bool sr_uring_is_message(const struct sr_uring_sqe *r)
{
	switch (r->opcode) {
	case SR_URING_OP_SEND:
	case SR_URING_OP_RECV:
	case SR_URING_OP_SENDMSG:
	case SR_URING_OP_RECVMSG:
	case SR_URING_OP_SEND_ZC:
	case SR_URING_OP_SENDMSG_ZC:
		return true;
	default:
		return false;
	}
}

static bool is_open(const struct sr_uring_sqe *r)
{
	return r->opcode == SR_URING_OP_OPENAT || r->opcode == SR_URING_OP_OPENAT2;
}

static bool is_read(enum sr_uring_does what)
{
	return what == SR_URING_READS || what == SR_URING_READS_LIST || what == SR_URING_READS_MESSAGE;
}

/* Nothing says when a silent request has brought bytes, or a descriptor with a number. */
static bool can_be_silent(const struct sr_uring_sqe *r, enum sr_uring_does what)
{
	return !is_read(what) && ((what != SR_URING_ACCEPTS && what != SR_URING_OPENS) || r->file_index);
}

static bool is_call(const struct sr_uring_sqe *r)
{
	return sr_uring_does(r->opcode) == SR_URING_CALLS && !(is_open(r) && r->file_index);
}

bool sr_uring_is_known(const struct sr_uring_sqe *r)
{
	const uint16_t message_flags = SR_URING_RECVSEND_POLL_FIRST | SR_URING_RECV_MULTISHOT | SR_URING_RECVSEND_FIXED_BUF |
				       SR_URING_SEND_ZC_REPORT_USAGE;
	enum sr_uring_does what = sr_uring_does(r->opcode);

	if (what == SR_URING_UNKNOWN || (sr_uring_is_message(r) && r->ioprio & ~message_flags))
		return false;
	if (r->flags & SR_URING_SQE_CQE_SKIP_SUCCESS && !can_be_silent(r, what))
		return false;
	if (r->flags & SR_URING_SQE_BUFFER_SELECT && (!is_read(what) || r->opcode == SR_URING_OP_READ_FIXED))
		return false;
	if (r->personality)
		return false;
	if (is_call(r))
		return !(r->flags & SR_URING_SQE_FIXED_FILE);
	return r->opcode != SR_URING_OP_POLL_REMOVE || !r->len;
}

bool sr_uring_is_call(const struct sr_uring_sqe *r)
{
	return is_call(r) && sr_uring_is_known(r);
}

int sr_uring_file(const struct sr_uring *ring, const struct sr_uring_sqe *r)
{
	if (!(r->flags & SR_URING_SQE_FIXED_FILE))
		return r->fd;
	return (uint32_t)r->fd < ring->n_files ? ring->files[r->fd] : -1;
}

/* ----------------------------------------------------- requests that are system calls */

enum word { NONE, FD, ADDR, OFF, LEN, FLAGS };

/* The call that does the same, and which words of the request are its arguments. */
static const struct same_call {
	uint16_t nr;
	uint8_t arguments[6]; /* enum word */
} calls[] = {
    [SR_URING_OP_OPENAT] = {SYS_openat, {FD, ADDR, FLAGS, LEN}},
    [SR_URING_OP_OPENAT2] = {SYS_openat2, {FD, ADDR, OFF, LEN}},
    [SR_URING_OP_STATX] = {SYS_statx, {FD, ADDR, FLAGS, LEN, OFF}},
    [SR_URING_OP_UNLINKAT] = {SYS_unlinkat, {FD, ADDR, FLAGS}},
    [SR_URING_OP_RENAMEAT] = {SYS_renameat2, {FD, ADDR, LEN, OFF, FLAGS}},
    [SR_URING_OP_MKDIRAT] = {SYS_mkdirat, {FD, ADDR, LEN}},
    [SR_URING_OP_SYMLINKAT] = {SYS_symlinkat, {ADDR, FD, OFF}},
    [SR_URING_OP_LINKAT] = {SYS_linkat, {FD, ADDR, LEN, OFF, FLAGS}},
    [SR_URING_OP_FALLOCATE] = {SYS_fallocate, {FD, LEN, OFF, ADDR}},
    [SR_URING_OP_MADVISE] = {SYS_madvise, {ADDR, LEN, FLAGS}},
};

/* rw_flags: one of many names for the flags of the operation. */
static uint64_t word_of(const struct sr_uring_sqe *r, enum word word)
{
	const uint64_t words[] = {0, (uint64_t)r->fd, r->addr, r->off, r->len, (uint32_t)r->rw_flags};

	return words[word];
}

long sr_uring_call(const struct sr_uring_sqe *r, uint64_t a[6])
{
	if (!sr_uring_is_call(r))
		return -1;
	for (int i = 0; i < 6; i++)
		a[i] = word_of(r, calls[r->opcode].arguments[i]);
	return calls[r->opcode].nr;
}

/* ------------------------------------------------------------------- memory */

const struct msghdr *sr_uring_message(const struct sr_uring_sqe *r)
{
	const struct msghdr *m = (const struct msghdr *)r->addr;

	return sr_is_readable(m, sizeof(*m)) ? m : NULL;
}

/* The memory of a read or write. */
const struct iovec *sr_uring_pieces(const struct sr_uring_sqe *r, struct iovec *one, size_t *n)
{
	const struct msghdr *m;

	*n = 0;
	switch (sr_uring_does(r->opcode)) {
	case SR_URING_READS:
	case SR_URING_WRITES:
		*one = (struct iovec){(void *)r->addr, r->len};
		*n = 1;
		return one;
	case SR_URING_READS_LIST:
	case SR_URING_WRITES_LIST:
		return sr_pieces_list((const void *)r->addr, r->len, n);
	case SR_URING_READS_MESSAGE:
	case SR_URING_WRITES_MESSAGE:
		m = sr_uring_message(r);
		return m ? sr_pieces_list(m->msg_iov, m->msg_iovlen, n) : NULL;
	default:
		return NULL;
	}
}

bool sr_uring_writes(const struct sr_uring_sqe *r)
{
	enum sr_uring_does what = sr_uring_does(r->opcode);

	return what == SR_URING_WRITES || what == SR_URING_WRITES_LIST || what == SR_URING_WRITES_MESSAGE;
}

const struct iovec *sr_uring_written(const struct sr_uring_sqe *r, struct iovec *one, size_t *n)
{
	const struct iovec *pieces = sr_uring_pieces(r, one, n);

	if (!sr_uring_is_known(r) || !sr_uring_writes(r) || !sr_pieces_are_readable(pieces, *n))
		*n = 0;
	return pieces;
}
