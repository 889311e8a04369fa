/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * between.c: what a network card does between two processes, case by case; run by `ci/softdev -n 2
 * -- between CASE`.
 *
 * Rank 0 makes the requests, rank 1's memory is read and written.  What the two tell each other
 * goes through a file of the fabric.  Prints "right", or what is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define BYTES (1u << 20)
#define PAGE  4096u
#define DEPTH 64

struct board {
	struct {
		uint32_t qpn, rkey;
		uint64_t addr;
	} of[2];
	_Atomic int steps[2];
};

static struct board *board;
static int rank;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static char *memory;

static void wrong(const char *format, ...)
{
	va_list a;

	va_start(a, format);
	printf("rank %d: ", rank);
	vprintf(format, a);
	printf("\n");
	va_end(a);
	exit(1);
}

#define CHECK(condition, ...)                                                                      \
	do {                                                                                       \
		if (!(condition))                                                                  \
			wrong(__VA_ARGS__);                                                        \
	} while (0)

/* Until the other rank has come as far. */
static void meet(void)
{
	int step = ++board->steps[rank];

	while (board->steps[!rank] < step)
		sched_yield();
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ------------------------------------------------------------------ set-up */

static void open_board(void)
{
	char path[256];
	int fd;

	rank = atoi(getenv("SOFTDEV_RANK"));
	snprintf(path, sizeof(path), "%s/board", getenv("SOFTDEV_FABRIC"));
	fd = open(path, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0 && !ftruncate(fd, sizeof(*board)), "%s: %m", path);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	context = ibv_open_device(list[0]);
	CHECK(context, "no device: %m");
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, 1024, NULL, channel, 0);
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(memory, '0' + rank, BYTES);
	mr = ibv_reg_mr(pd, memory, BYTES, 0xf | IBV_ACCESS_MW_BIND);
	CHECK(pd && channel && cq && mr, "objects: %m");
}

static void to_state(enum ibv_qp_state state, uint8_t rnr_retry)
{
	struct ibv_qp_attr a = {
	    .qp_state = state,
	    .port_num = 1,
	    .qp_access_flags = 0xf,
	    .qkey = 0x1111,
	    .path_mtu = IBV_MTU_4096,
	    .dest_qp_num = board->of[!rank].qpn,
	    .max_dest_rd_atomic = 16,
	    .max_rd_atomic = 16,
	    .min_rnr_timer = 1,
	    .timeout = 8, /* 1 ms */
	    .retry_cnt = 2,
	    .rnr_retry = rnr_retry,
	    .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1}}};
	bool datagram = qp->qp_type == IBV_QPT_UD;
	int mask = IBV_QP_STATE;

	ibv_query_gid(context, 1, 1, &a.ah_attr.grh.dgid);
	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PORT | IBV_QP_PKEY_INDEX |
			(datagram ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	if (state == IBV_QPS_RTR && !datagram)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (state == IBV_QPS_RTS)
		mask |= IBV_QP_SQ_PSN | (datagram ? 0
						  : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
							IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	CHECK(!ibv_modify_qp(qp, &a, mask), "state %d: %m", state);
}

static void connect_ranks(enum ibv_qp_type type, uint8_t rnr_retry)
{
	struct ibv_qp_init_attr a = {
	    .send_cq = cq, .recv_cq = cq, .cap = {DEPTH, DEPTH, 4, 4, 64}, .qp_type = type};

	qp = ibv_create_qp(pd, &a);
	CHECK(qp, "queue pair: %m");
	board->of[rank].qpn = qp->qp_num;
	board->of[rank].rkey = mr->rkey;
	board->of[rank].addr = (uintptr_t)memory;
	to_state(IBV_QPS_INIT, rnr_retry);
	meet();
	to_state(IBV_QPS_RTR, rnr_retry);
	to_state(IBV_QPS_RTS, rnr_retry);
	meet();
}

/* ---------------------------------------------------------------- requests */

static void post(enum ibv_wr_opcode opcode, uint32_t offset, uint32_t length, unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)memory + offset, length, mr->lkey};
	struct ibv_send_wr *bad,
	    wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags};
	bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	wr.wr.rdma.remote_addr = board->of[!rank].addr + offset;
	wr.wr.rdma.rkey = board->of[!rank].rkey;
	if (atomic) {
		wr.wr.atomic.remote_addr = board->of[!rank].addr;
		wr.wr.atomic.rkey = board->of[!rank].rkey;
		wr.wr.atomic.compare_add = 1;
	}
	CHECK(!ibv_post_send(qp, &wr, &bad), "post: %m");
}

static void post_receive(uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)memory + offset, length, mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	CHECK(!ibv_post_recv(qp, &wr, &bad), "receive: %m");
}

static struct ibv_wc completion(void)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 1, &wc))
		;
	return wc;
}

static void expect(enum ibv_wc_status status)
{
	struct ibv_wc wc = completion();

	CHECK(wc.status == status, "%s instead of %s", ibv_wc_status_str(wc.status),
	      ibv_wc_status_str(status));
}

/* ------------------------------------------------------------------- cases */

/* Pages stay with the region: moved, protected or unmapped. */
static void moved(void)
{
	char *there = memory;

	connect_ranks(IBV_QPT_RC, 7);
	if (rank) {
		there = mremap(memory, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
			       memory + 64 * PAGE);
		CHECK(there != MAP_FAILED && !mprotect(there, PAGE, PROT_NONE), "mremap: %m");
		munmap(memory + PAGE, PAGE);
	}
	meet();
	if (!rank) {
		post(IBV_WR_RDMA_WRITE, 0, 2 * PAGE, IBV_SEND_SIGNALED);
		expect(IBV_WC_SUCCESS);
	}
	meet();
	if (rank) {
		mprotect(there, PAGE, PROT_READ);
		CHECK(there[0] == '0' && there[PAGE - 1] == '0', "the moved page has %c", there[0]);
	}
}

/* Words arrive whole, and in ascending order. */
static void words(void)
{
	volatile uint64_t *w = (uint64_t *)memory;
	const uint64_t n = 512, rounds = 3000;

	memset(memory, 0, n * 8);
	connect_ranks(IBV_QPT_RC, 7);
	for (uint64_t k = 1; !rank && k <= rounds; k++) {
		for (uint64_t i = 0; i < n; i++)
			w[i] = k << 32 | k;
		post(IBV_WR_RDMA_WRITE, 0, n * 8, IBV_SEND_SIGNALED);
		expect(IBV_WC_SUCCESS);
	}
	while (rank && w[n - 1] >> 32 < rounds) {
		uint64_t last = w[n - 1], at = (uint64_t)rand() % n, word;

		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		word = w[at];
		CHECK(word >= last, "word %llu is older than the last one", (unsigned long long)at);
		CHECK(word >> 32 == (uint32_t)word, "half a word: %llx", (unsigned long long)word);
	}
	meet();
}

/* Nothing is there before the time that the model gives it: 1.5 us one way, 12 GB/s. */
static void times(void)
{
	connect_ranks(IBV_QPT_RC, 7);
	for (uint32_t size = 8; !rank && size <= BYTES; size *= 8) {
		uint64_t least = SIZE_MAX;

		for (int i = 0; i < 50; i++) {
			uint64_t begin = now();

			post(IBV_WR_RDMA_WRITE, 0, size, IBV_SEND_SIGNALED);
			expect(IBV_WC_SUCCESS);
			least = now() - begin < least ? now() - begin : least;
		}
		CHECK(least >= 3000 + size / 12, "%u bytes in %llu ns", size,
		      (unsigned long long)least);
	}
	meet();
}

/* A request has its effect while neither process makes a call. */
static void silent(void)
{
	uint64_t begin;

	connect_ranks(IBV_QPT_RC, 7);
	if (!rank) {
		post(IBV_WR_RDMA_WRITE, 0, 8, 0);
	} else {
		begin = now();
		while (*(volatile char *)memory != '0')
			CHECK(now() - begin < 5000000000u, "nothing arrived for 5 s");
	}
	meet();
}

static void rnr(void)
{
	connect_ranks(IBV_QPT_RC, 1);
	if (!rank) {
		post(IBV_WR_SEND, 0, 8, IBV_SEND_SIGNALED);
		expect(IBV_WC_RNR_RETRY_EXC_ERR);
	}
	meet();
}

/* A receive that is posted too late, but within the retries. */
static void late(void)
{
	connect_ranks(IBV_QPT_RC, 7);
	if (!rank) {
		post(IBV_WR_SEND, 0, 8, IBV_SEND_SIGNALED);
	} else {
		usleep(20000);
		post_receive(0, 64);
	}
	expect(IBV_WC_SUCCESS);
	meet();
}

/* A killed process answers no more. */
static void gone(void)
{
	connect_ranks(IBV_QPT_RC, 7);
	if (rank)
		raise(SIGKILL);
	usleep(50000);
	post(IBV_WR_RDMA_WRITE, 0, 8, IBV_SEND_SIGNALED);
	expect(IBV_WC_RETRY_EXC_ERR);
}

/* Memory windows of type 2: bound by a request, and invalid afterwards. */
static void window(void)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_mw *mw;

	connect_ranks(IBV_QPT_RC, 7);
	if (rank) {
		mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
		CHECK(mw, "window: %m");
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info =
		    (struct ibv_mw_bind_info){mr, (uintptr_t)memory, 64, IBV_ACCESS_REMOTE_WRITE};
		CHECK(!ibv_post_send(qp, &wr, &bad), "bind: %m");
		expect(IBV_WC_SUCCESS);
		board->of[1].rkey = wr.bind_mw.rkey;
	}
	meet();
	if (!rank) {
		post(IBV_WR_RDMA_WRITE, 0, 64, IBV_SEND_SIGNALED);
		expect(IBV_WC_SUCCESS);
	}
	meet();
	if (rank) {
		CHECK(memory[63] == '0' && memory[64] == '1', "the window's bytes: %c%c",
		      memory[63], memory[64]);
		wr = (struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV,
					  .send_flags = IBV_SEND_SIGNALED,
					  .invalidate_rkey = board->of[1].rkey};
		CHECK(!ibv_post_send(qp, &wr, &bad), "invalidate: %m");
		expect(IBV_WC_SUCCESS);
	}
	meet();
	if (!rank) {
		post(IBV_WR_RDMA_WRITE, 0, 64, IBV_SEND_SIGNALED);
		expect(IBV_WC_REM_ACCESS_ERR);
	}
	meet();
}

/* Both add to rank 1's first word, itself by its own card. */
static void atomics(void)
{
	const int n = 5000;

	memset(memory, 0, 64);
	connect_ranks(IBV_QPT_RC, 7);
	for (int i = 0; !rank && i < n; i++) {
		post(IBV_WR_ATOMIC_FETCH_AND_ADD, 64, 8, IBV_SEND_SIGNALED);
		expect(IBV_WC_SUCCESS);
		CHECK(*(uint64_t *)(memory + 64) == (uint64_t)i, "found %llu after %d",
		      *(unsigned long long *)(memory + 64), i);
	}
	meet();
	CHECK(!rank || *(uint64_t *)memory == (uint64_t)n, "the sum is %llu",
	      *(unsigned long long *)memory);
}

/* A child's memory is its own. */
static void forked(void)
{
	int status;

	connect_ranks(IBV_QPT_RC, 7);
	if (rank && !fork()) {
		memset(memory, 'c', BYTES);
		_exit(0);
	}
	CHECK(!rank || (wait(&status) > 0 && !status), "the child failed");
	CHECK(memory[0] == '0' + rank, "the child's %c is here", memory[0]);
	meet();
	if (!rank) {
		post(IBV_WR_RDMA_WRITE, 0, 8, IBV_SEND_SIGNALED);
		expect(IBV_WC_SUCCESS);
	}
	meet();
	CHECK(memory[0] == '0', "%c is here", memory[0]);
}

/* What a child allocates, while it still has its parent's pages, is not in the parent's heap. */
static void heap_forked(void)
{
	struct ibv_mr *of_heap = ibv_reg_mr(pd, malloc(4000), 4000, IBV_ACCESS_LOCAL_WRITE);
	int status;

	CHECK(of_heap, "the heap cannot be registered");
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();

		if (!child)
			_exit(!malloc(200000));
		CHECK(malloc(1000), "no memory");
		CHECK(waitpid(child, &status, 0) == child && !status, "the child failed");
	}
}

static __thread char of_thread[8192];
static int registering;

static void *register_own(void *unused)
{
	for (int i = 0; i < 60; i++) {
		struct ibv_mr *own = ibv_reg_mr(pd, of_thread, sizeof(of_thread), IBV_ACCESS_LOCAL_WRITE);

		CHECK(own && !ibv_dereg_mr(own), "thread-local memory cannot be registered");
		sched_yield();
	}
	__atomic_sub_fetch(&registering, 1, __ATOMIC_SEQ_CST);
	return unused;
}

/*
 * A thread registers the pages where the kernel notes on which processor it runs.  Who joins it meanwhile would wait at a page
 * that the device replaces, and is not woken.
 */
static void thread_local(void)
{
	pthread_t threads[2];

	registering = 2;
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, register_own, NULL);
	while (__atomic_load_n(&registering, __ATOMIC_SEQ_CST))
		usleep(1000);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

/* Rank 1 has a receive, and asks for an event when it completes. */
static void await_message(void)
{
	if (rank) {
		post_receive(0, 64);
		ibv_req_notify_cq(cq, 0);
	}
	meet();
}

/* A sleeping process is woken by the channel's descriptor. */
static void woken(void)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};
	struct ibv_cq *which;
	void *its_context;

	connect_ranks(IBV_QPT_RC, 7);
	for (int i = 0; i < 20; i++) {
		await_message();
		if (!rank) {
			post(IBV_WR_SEND, 0, 8, IBV_SEND_SIGNALED);
		} else {
			CHECK(poll(&p, 1, 5000) == 1, "no event within 5 s");
			CHECK(!ibv_get_cq_event(channel, &which, &its_context) && which == cq,
			      "event: %m");
			ibv_ack_cq_events(cq, 1);
			CHECK(!poll(&p, 1, 0), "an event that nobody sent");
		}
		expect(IBV_WC_SUCCESS);
	}
	meet();
}

/* A completion that came after the last poll and before the queue was armed is reported, as cards of Mellanox do. */
static void missed(void)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};
	struct ibv_cq *which;
	void *its_context;

	connect_ranks(IBV_QPT_RC, 7);
	if (rank)
		post_receive(0, 64);
	meet();
	if (!rank) {
		post(IBV_WR_SEND, 0, 8, IBV_SEND_SIGNALED);
		expect(IBV_WC_SUCCESS);
	}
	meet();
	if (rank) {
		ibv_req_notify_cq(cq, 0);
		CHECK(poll(&p, 1, 5000) == 1, "no event within 5 s");
		CHECK(!ibv_get_cq_event(channel, &which, &its_context), "event: %m");
		ibv_ack_cq_events(cq, 1);
		expect(IBV_WC_SUCCESS);
		ibv_req_notify_cq(cq, 0);
		CHECK(!poll(&p, 1, 0), "an event for what has been polled");
	}
	meet();
}

/* The device alone wakes a process: the other one makes no call either. */
static void asleep(void)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};

	connect_ranks(IBV_QPT_RC, 7);
	await_message();
	if (!rank) {
		post(IBV_WR_SEND, 0, 8, IBV_SEND_SIGNALED);
		sleep(1);
	} else {
		CHECK(poll(&p, 1, 5000) == 1, "no event within 5 s");
	}
	expect(IBV_WC_SUCCESS);
	meet();
}

static void datagram(void)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1}};
	struct ibv_sge sge = {(uintptr_t)memory, 100, mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;

	ibv_query_gid(context, 1, 1, &a.grh.dgid);
	connect_ranks(IBV_QPT_UD, 7);
	if (rank)
		post_receive(0, 200);
	meet();
	if (!rank) {
		wr.wr.ud.ah = ibv_create_ah(pd, &a);
		wr.wr.ud.remote_qpn = board->of[1].qpn;
		for (wr.wr.ud.remote_qkey = 0x2222; wr.wr.ud.remote_qkey;
		     wr.wr.ud.remote_qkey = wr.wr.ud.remote_qkey == 0x2222 ? 0x1111 : 0) {
			CHECK(!ibv_post_send(qp, &wr, &bad), "post: %m");
			expect(IBV_WC_SUCCESS);
		}
	} else {
		wc = completion();
		CHECK(wc.byte_len == 140 && wc.wc_flags & IBV_WC_GRH &&
			  wc.src_qp == board->of[0].qpn && memory[40] == '0',
		      "%u bytes from %u", wc.byte_len, wc.src_qp);
	}
	meet();
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
    {"moved", moved},       {"words", words},   {"times", times}, {"silent", silent},
    {"rnr", rnr},           {"late", late},     {"gone", gone},   {"window", window},
    {"atomics", atomics},   {"forked", forked}, {"woken", woken}, {"asleep", asleep},
    {"missed", missed},
    {"datagram", datagram}, {"heap_forked", heap_forked}, {"thread_local", thread_local},
};

int main(int argc, char **argv)
{
	if (argc != 2) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
			printf("%s\n", cases[i].name);
		return 0;
	}
	open_board();
	open_device();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(cases[i].name, argv[1]))
			cases[i].run();
	if (!rank)
		printf("right\n");
	return 0;
}
