/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * storage.c: a storage server: what a rank puts into its peers' memory comes from a file, a socket or another process, by a system
 * call, io_uring or libaio, right into registered memory.
 *
 *   storage [CASE [ROUNDS]]
 *
 * In each round a rank reads BLOCKS blocks, half of them into memory that its peers can reach, and puts each into the next
 * rank's memory, and a number behind them.  It looks at what it has read, too.  What is read next depends on all that has come.
 */
#include <liburing.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pgas/pgas.h"

#define BLOCK	4096
#define BLOCKS	8
#define IN_FILE 64

struct inbox {
	uint8_t blocks[BLOCKS][BLOCK];
	uint64_t round;
};

static struct inbox *box;
static uint8_t *buffers[BLOCKS];
static uint64_t *number, hash = 1;
static int file, ends[2];
static struct io_uring ring;
static aio_context_t context;

#define CHECK(x)                                                          \
	do {                                                              \
		if (!(x))                                                 \
			pgas_fail("storage: line %d: %s", __LINE__, #x); \
	} while (0)

static long place(int i)
{
	uint64_t at = hash + (uint64_t)i;

	return (long)(pgas_random(&at) % (IN_FILE * BLOCK - BLOCK));
}

static void submit_and_wait(void)
{
	struct io_uring_cqe *cqe;

	CHECK(io_uring_submit(&ring) == BLOCKS);
	for (int i = 0; i < BLOCKS; i++) {
		CHECK(!io_uring_wait_cqe(&ring, &cqe) && cqe->res == BLOCK);
		io_uring_cqe_seen(&ring, cqe);
	}
}

static void by_read(void)
{
	for (int i = 0; i < BLOCKS; i++)
		io_uring_prep_read(io_uring_get_sqe(&ring), file, buffers[i], BLOCK, (uint64_t)place(i));
	submit_and_wait();
}

static void by_readv(void)
{
	struct iovec lists[BLOCKS][2];

	for (int i = 0; i < BLOCKS; i++) {
		lists[i][0] = (struct iovec){buffers[i], 1000};
		lists[i][1] = (struct iovec){buffers[i] + 1000, BLOCK - 1000};
		io_uring_prep_readv(io_uring_get_sqe(&ring), file, lists[i], 2, (uint64_t)place(i));
	}
	submit_and_wait();
}

static void by_read_fixed(void)
{
	for (int i = 0; i < BLOCKS; i++)
		io_uring_prep_read_fixed(io_uring_get_sqe(&ring), file, buffers[i], BLOCK, (uint64_t)place(i), i);
	submit_and_wait();
}

/* One after the other: a stream has one order only. */
static void by_recv(void)
{
	uint8_t bytes[BLOCK];
	struct io_uring_cqe *cqe;

	for (int i = 0; i < BLOCKS; i++) {
		CHECK(getrandom(bytes, BLOCK, 0) == BLOCK && write(ends[1], bytes, BLOCK) == BLOCK);
		io_uring_prep_recv(io_uring_get_sqe(&ring), ends[0], buffers[i], BLOCK, MSG_WAITALL);
		CHECK(io_uring_submit(&ring) == 1 && !io_uring_wait_cqe(&ring, &cqe) && cqe->res == BLOCK);
		io_uring_cqe_seen(&ring, cqe);
	}
}

static void by_aio(void)
{
	struct iocb requests[BLOCKS], *list[BLOCKS];
	struct io_event events[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		requests[i] = (struct iocb){.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = (uint32_t)file, .aio_buf = (uintptr_t)buffers[i],
					    .aio_nbytes = BLOCK, .aio_offset = place(i)};
		list[i] = &requests[i];
	}
	CHECK(syscall(SYS_io_submit, context, BLOCKS, list) == BLOCKS);
	CHECK(syscall(SYS_io_getevents, context, BLOCKS, BLOCKS, events, NULL) == BLOCKS);
	for (int i = 0; i < BLOCKS; i++)
		CHECK(events[i].res == BLOCK);
}

/* Half by half: the kernel gets both lists. */
static void by_preadv(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		struct iovec list[2] = {{buffers[i], 1000}, {buffers[i] + 1000, BLOCK - 1000}};

		CHECK(i % 2 ? pread(file, buffers[i], BLOCK, place(i)) == BLOCK : preadv(file, list, 2, place(i)) == BLOCK);
	}
}

static void by_recvmsg(void)
{
	uint8_t bytes[BLOCK];

	for (int i = 0; i < BLOCKS; i++) {
		struct iovec list[2] = {{buffers[i], 1000}, {buffers[i] + 1000, BLOCK - 1000}};
		struct msghdr message = {.msg_iov = list, .msg_iovlen = 2};

		CHECK(getrandom(bytes, BLOCK, 0) == BLOCK && write(ends[1], bytes, BLOCK) == BLOCK);
		CHECK(recvmsg(ends[0], &message, MSG_WAITALL) == BLOCK);
	}
}

/* From where another process may be, as a library's shared memory transport does. */
static void by_process_vm_readv(void)
{
	static uint8_t bytes[BLOCK];

	for (int i = 0; i < BLOCKS; i++) {
		struct iovec here = {buffers[i], BLOCK}, there = {bytes, BLOCK};

		CHECK(pread(file, bytes, BLOCK, place(i)) == BLOCK);
		CHECK(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == BLOCK);
	}
}

/* In a region so large that the recorder does not look at it beforehand: nobody but the program has written there. */
#define LARGE (65ul << 20)

static void by_store(void)
{
	uint8_t *unread = pgas_shared(2 * BLOCK);

	unread[BLOCK] = (uint8_t)hash;
	for (int i = 0; i < BLOCKS; i++)
		memset(buffers[i], unread[i] + unread[BLOCK + i] + i, BLOCK);
}

static void set_up(const struct pgas_case *of)
{
	uint8_t *exposed = pgas_shared(BLOCKS / 2 * BLOCK), *plain = pgas_private(BLOCKS / 2 * BLOCK);
	struct iovec list[BLOCKS];
	uint8_t bytes[BLOCK];

	for (int i = 0; i < BLOCKS; i++) {
		buffers[i] = (i % 2 ? exposed : plain) + i / 2 * BLOCK;
		list[i] = (struct iovec){buffers[i], BLOCK};
	}
	file = fileno(tmpfile());
	for (int i = 0; i < IN_FILE; i++)
		CHECK(getrandom(bytes, BLOCK, 0) == BLOCK && write(file, bytes, BLOCK) == BLOCK);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends) && !syscall(SYS_io_setup, BLOCKS, &context) && !io_uring_queue_init(16, &ring, 0));
	CHECK(of->run != by_read_fixed || !io_uring_register_buffers(&ring, list, BLOCKS));
}

static void see(const uint8_t *block)
{
	for (int k = 0; k < BLOCK; k++)
		hash = (hash ^ block[k]) * 0x100000001b3ull;
}

static void round_of(const struct pgas_case *of, uint64_t round)
{
	int next = (pgas_rank() + 1) % pgas_ranks();

	of->run();
	for (int i = 0; i < BLOCKS; i++)
		see(buffers[i]);
	for (int i = 0; i < BLOCKS; i++)
		pgas_start_put(next, box->blocks[i], buffers[i], BLOCK);
	*number = round;
	pgas_start_put(next, &box->round, number, sizeof(*number));
	pgas_wait_for(&box->round, round);
	for (int i = 0; i < BLOCKS; i++)
		see(box->blocks[i]);
	pgas_quiet();
	pgas_barrier();
}

static const struct pgas_case cases[] = {
    {"read", by_read}, {"readv", by_readv}, {"read_fixed", by_read_fixed}, {"recv", by_recv}, {"aio", by_aio},
    {"preadv", by_preadv}, {"recvmsg", by_recvmsg}, {"process_vm_readv", by_process_vm_readv}, {"large", by_store}};

int main(int argc, char **argv)
{
	const struct pgas_case *of = pgas_case(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
	long rounds = pgas_argument(argc, argv, 2, 10, 1, "storage [CASE [ROUNDS]]");

	pgas_start(of->run == by_store ? LARGE : 1 << 20, 1 << 20);
	box = pgas_shared(sizeof(*box));
	number = pgas_private(sizeof(*number));
	set_up(of);
	pgas_barrier();
	for (long round = 1; round <= rounds; round++)
		round_of(of, (uint64_t)round);
	return pgas_end(pgas_result(true, "%016llx after %ld rounds", (unsigned long long)hash, rounds));
}
