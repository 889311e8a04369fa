/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * blocked_beside.c: threads wait in calls that were given pieces of a page, while a peer writes into a region there and another
 * thread polls that region.
 *
 *     blocked_beside          prints the names of its cases
 *     blocked_beside CASE
 *
 * Each case comes with the region in the middle of the page, and with one that has all of it ("-whole").  In "posts" nobody
 * waits: what the library is given lies on that page.
 */
#include <emmintrin.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check.h"
#include "loopback_qp.h"

#define MOST_ROUNDS 400
#define PAGE   4096
#define WAITERS 3

/* What the waiting calls are given lies on both sides of the region. */
struct page {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	sem_t sem;
	char in[64];
	uint64_t turn; /* under the mutex */
	struct iovec list[4];
	struct msghdr message;
	/* Of the peer, which the library reads and writes while others poll. */
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_wc wc;
	volatile uint64_t region[64];
	char more[]; /* into the next page */
};

static struct page *page;
static uint64_t *source;
static struct ibv_qp *qp;
static struct ibv_mr *target_mr, *source_mr;
static int pair[2], echo[2];
static uint64_t rounds = 40;
static ssize_t received;
static uint64_t read_sum, polled_sum, waited_sum;

/* ------------------------------------------------------------- the peer: this process's own queue pair */

static void connect_to_itself(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_attr attr;

	qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){.send_cq = cq,
							  .recv_cq = cq,
							  .cap = {.max_send_wr = 16, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
							  .qp_type = IBV_QPT_RC});
	CHECK(qp);
	for (enum ibv_qp_state state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		attr = loopback_attr(state, qp->qp_num, IBV_ACCESS_REMOTE_WRITE);
		CHECK(!ibv_modify_qp(qp, &attr, loopback_mask(state)));
	}
}

static void open_device(bool whole)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	CHECK(devices && devices[0] && (context = ibv_open_device(devices[0])));
	CHECK(pd = ibv_alloc_pd(context));
	connect_to_itself(pd, ibv_create_cq(context, 64, NULL, NULL, 0));
	page = aligned_alloc(PAGE, 2 * PAGE);
	source = calloc(64, sizeof(*source));
	CHECK(page && source);
	memset(page, 0, 2 * PAGE);
	target_mr = whole ? ibv_reg_mr(pd, page, PAGE, access) : ibv_reg_mr(pd, (void *)page->region, sizeof(page->region), access);
	CHECK(target_mr);
	CHECK(source_mr = ibv_reg_mr(pd, source, 64 * sizeof(*source), IBV_ACCESS_LOCAL_WRITE));
}

static void write_word(uint32_t i, uint64_t value)
{
	struct ibv_send_wr *bad;
	int n;

	page->sge = (struct ibv_sge){(uintptr_t)&source[i], sizeof(*source), source_mr->lkey};
	page->wr = (struct ibv_send_wr){.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED,
					.sg_list = &page->sge,
					.num_sge = 1,
					.wr.rdma = {(uintptr_t)&page->region[i], target_mr->rkey}};
	source[i] = value;
	CHECK(!ibv_post_send(qp, &page->wr, &bad));
	while (!(n = ibv_poll_cq(qp->send_cq, 1, &page->wc)))
		;
	CHECK(n == 1 && page->wc.status == IBV_WC_SUCCESS);
}

/* ------------------------------------------------------------- those that wait */

/* Clears the word that the peer wrote, as one does with a mailbox. */
static void *poll_region(void *unused)
{
	for (uint64_t i = 1; i <= rounds; i++) {
		while (page->region[0] != i)
			;
		polled_sum = polled_sum * 31 + page->region[1] + page->region[8];
		page->region[8] = i;
		sem_post(&page->sem);
	}
	return unused;
}

static void *wait_for_turn(void *number)
{
	const uint64_t mine = (uintptr_t)number;

	for (uint64_t i = mine; i < rounds; i += WAITERS) {
		pthread_mutex_lock(&page->mutex);
		while (page->turn < i)
			pthread_cond_wait(&page->cond, &page->mutex);
		waited_sum = waited_sum * 31 + page->turn;
		pthread_mutex_unlock(&page->mutex);
	}
	return NULL;
}

static void note_input(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		read_sum = read_sum * 31 + (unsigned char)text[i];
}

static void note_both(void)
{
	note_input(page->in, 8);
	note_input(page->more, 8);
	received += 16;
}

static void by_readv(void)
{
	struct iovec pieces[2] = {{page->in, 8}, {page->more, 8}};

	CHECK(readv(pair[0], pieces, 2) == 16);
	note_both();
}

/* One of them goes on to the next page, which is not exposed. */
static void by_readv_over_border(void)
{
	char *border = (char *)page + PAGE;
	struct iovec pieces[2] = {{page->in, 8}, {border - 4, 8}};

	CHECK(readv(pair[0], pieces, 2) == 16);
	note_input(page->in, 8);
	note_input(border - 4, 8);
	received += 16;
}

/* The list itself lies there, too. */
static void by_readv_of_list(void)
{
	page->list[0] = (struct iovec){page->in, 8};
	page->list[1] = (struct iovec){page->more, 8};
	CHECK(readv(pair[0], page->list, 2) == 16);
	note_both();
}

static void by_recvmsg(void)
{
	struct iovec pieces[2] = {{page->in, 8}, {page->more, 8}};
	struct msghdr m = {.msg_iov = pieces, .msg_iovlen = 2};

	CHECK(recvmsg(pair[0], &m, 0) == 16);
	CHECK(!m.msg_flags && !m.msg_controllen);
	note_both();
}

static void by_recvmsg_of_message(void)
{
	page->list[0] = (struct iovec){page->in, 8};
	page->list[1] = (struct iovec){page->more, 8};
	page->message = (struct msghdr){.msg_iov = page->list, .msg_iovlen = 2};
	CHECK(recvmsg(pair[0], &page->message, MSG_WAITALL) == 16);
	note_both();
}

static void by_recvmmsg(void)
{
	struct iovec pieces[2] = {{page->in, 8}, {page->more, 8}};
	struct mmsghdr m = {.msg_hdr = {.msg_iov = pieces, .msg_iovlen = 2}};

	CHECK(recvmmsg(pair[0], &m, 1, 0, NULL) == 1 && m.msg_len == 16);
	note_both();
}

static void by_read(void)
{
	CHECK(read(pair[0], page->in, 8) == 8 && read(pair[0], page->more, 8) == 8);
	note_both();
}

/* Up to the next page, which is not exposed. */
static void by_long_read(void)
{
	const ssize_t n = read(pair[0], page->more, PAGE + 64 - offsetof(struct page, more));

	CHECK(n > 0);
	received += n;
	note_input(page->more, (size_t)n);
}

static void by_writev(void)
{
	struct iovec pieces[2] = {{page->in, 8}, {(void *)page->region, 8}}, copies[2] = {{page->more, 8}, {page->more + 8, 8}};

	CHECK(read(pair[0], page->in, 16) == 16);
	CHECK(writev(echo[1], pieces, 2) == 16);
	CHECK(readv(echo[0], copies, 2) == 16);
	note_both();
}

/* A path and a structure that begin on the page and end on the next one. */
static void by_status(void)
{
	char *border = (char *)page + PAGE, *path = border - 4;
	struct stat *status = (struct stat *)(border - 64);
	int fd;

	CHECK(read(pair[0], page->in, 16) == 16);
	strcpy(path, "/dev/zero");
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0 && !fstat(fd, status) && S_ISCHR(status->st_mode));
	CHECK(read(fd, border - 16, 32) == 32 && !close(fd));
	note_both();
}

/* Computes beside those who wait, for more than 65,536 accesses. */
static void by_computation(void)
{
	volatile uint64_t *numbers = (void *)page->more;

	CHECK(read(pair[0], page->in, 16) == 16);
	memcpy(page->more, page->in, 16);
	for (uint64_t i = 0; received < 5 * 16 && i < 20000; i++)
		numbers[i % 16] = numbers[(i + 5) % 16] + numbers[(i + 11) % 16] * 7 + i;
	note_both();
}

/* An instruction that the shim does not decode: its page is moved to the program's address meanwhile. */
static void by_masked_stores(void)
{
	__m128i bytes, mask = _mm_set1_epi16(0x00ff);

	CHECK(read(pair[0], &bytes, 16) == 16);
	for (int i = 0; i < 50; i++) {
		bytes = _mm_add_epi8(bytes, _mm_set1_epi8(1));
		_mm_maskmoveu_si128(bytes, mask, page->more + i);
		_mm_maskmoveu_si128(bytes, mask, page->in + i);
	}
	note_both();
}

static void (*receive)(void);

static void *receive_all(void *unused)
{
	while (received < (ssize_t)rounds * 16)
		receive();
	return unused;
}

/* ------------------------------------------------------------- the rounds */

static void take_turns(void)
{
	for (uint64_t i = 1; i <= rounds; i++) {
		char text[16];

		usleep(receive ? 200 : 20);
		write_word(1, i * 3);
		write_word(8, i * 5);
		write_word(0, i);
		while (sem_wait(&page->sem))
			;
		pthread_mutex_lock(&page->mutex);
		page->turn = i;
		pthread_cond_broadcast(&page->cond);
		pthread_mutex_unlock(&page->mutex);
		if (!receive)
			continue;
		memset(text, 'a' + (int)(i % 26), sizeof(text));
		CHECK(write(pair[1], text, sizeof(text)) == sizeof(text));
	}
}

static const struct {
	const char *name;
	void (*receive)(void);
} cases[] = {
    {"readv", by_readv},     {"readv-of-list", by_readv_of_list}, {"recvmsg", by_recvmsg}, {"recvmsg-of-message", by_recvmsg_of_message},
    {"recvmmsg", by_recvmmsg}, {"read", by_read},		  {"long-read", by_long_read},
    {"posts", NULL},	       {"writev", by_writev},     {"readv-over-border", by_readv_over_border}, {"status", by_status},	       {"computation", by_computation},	  {"masked-stores", by_masked_stores},
};

#define CASES (sizeof(cases) / sizeof(*cases))

static void begin_to_wait(pthread_t threads[WAITERS + 1])
{
	for (uintptr_t i = 0; i < WAITERS; i++)
		CHECK(!pthread_create(&threads[i], NULL, wait_for_turn, (void *)i));
	CHECK(!pthread_create(&threads[WAITERS], NULL, receive_all, NULL));
}

/* Without a way to receive nobody waits: one thread posts, and the other one polls. */
static void run(bool whole)
{
	pthread_t polling, waiting[WAITERS + 1];

	if (!receive)
		rounds = MOST_ROUNDS;
	open_device(whole);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && !socketpair(AF_UNIX, SOCK_STREAM, 0, echo));
	CHECK(!pthread_mutex_init(&page->mutex, NULL) && !pthread_cond_init(&page->cond, NULL) && !sem_init(&page->sem, 0, 0));
	if (receive)
		begin_to_wait(waiting);
	CHECK(!pthread_create(&polling, NULL, poll_region, NULL));
	take_turns();
	CHECK(!pthread_join(polling, NULL));
	for (int i = 0; receive && i < WAITERS + 1; i++)
		CHECK(!pthread_join(waiting[i], NULL));
	printf("read %lx, polled %lx, waited %lx\n", read_sum, polled_sum, waited_sum);
}

int main(int argc, char **argv)
{
	char name[64];

	for (size_t i = 0; i < CASES; i++) {
		if (argc < 2) {
			printf("%s\n%s-whole\n", cases[i].name, cases[i].name);
			continue;
		}
		snprintf(name, sizeof(name), "%s-whole", cases[i].name);
		receive = cases[i].receive;
		if (!strcmp(argv[1], cases[i].name))
			run(false);
		else if (!strcmp(argv[1], name))
			run(true);
	}
	return 0;
}
