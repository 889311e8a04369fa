/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * overhead.c: what intercepted calls cost.  bench/overhead runs it bare, under
 * the inert shim and recorded, with the stand-in for libibverbs, whose
 * operations do next to nothing.
 *
 *   overhead [ROUNDS [CALLS [PAUSE_US [CASE...]]]]
 *
 * Without a CASE, all but those of two threads, of exposed regions, and rdtsc: once there was a
 * second thread, no lock of the process is free any more, and once there was
 * memory that peers may write, every recorded call has to look after it.  The first times rdtsc is trapped.
 *
 * Prints "CASE NANOSECONDS": the median over the rounds of the time of one
 * iteration.  A round is CALLS iterations of each case; between rounds it sleeps
 * so that a recording's ring is empty again when the next one begins.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "rc.h"

/* Requests in flight at a time, where there is more than one. */
#define DEPTH      256
#define MAX_ROUNDS 1001

static struct {
	struct ibv_cq *idle_cq;
	struct ibv_cq *cq, *other_cq, *send_cq, *recv_cq;
	struct ibv_qp *qp, *other_qp; /* not connected: complete at once */
	struct ibv_qp *self;          /* connected to itself */
	struct ibv_pd *pd;
	struct ibv_mr *mr, *exposed_mr;
	char *buffer; /* DEPTH of 4 KiB */
	char *exposed; /* 8 KiB that peers may write */
} b;

/* ------------------------------------------------------------------ set-up */

static void connect_to_itself(struct ibv_qp *qp)
{
	bring_up(qp, (struct ibv_qp_attr){
			 .port_num = 1,
			 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
			 .dest_qp_num = qp->qp_num,
			 .ah_attr = {.is_global = 1,
				     .grh.dgid.raw = {[10] = 0xff, 0xff, 127, 0, 0, 1}},
		     });
}

static void set_up(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;

	if (!pd)
		die("no device: run it with LD_LIBRARY_PATH=BUILD/tests/lib/softdev");
	b.idle_cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	b.cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	b.other_cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	b.send_cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
	b.recv_cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
	b.buffer = aligned_alloc(4096, DEPTH * 4096);
	memset(b.buffer, 2, DEPTH * 4096);
	b.pd = pd;
	b.mr = ibv_reg_mr(pd, b.buffer, DEPTH * 4096, IBV_ACCESS_LOCAL_WRITE);
	if (!b.idle_cq || !b.cq || !b.other_cq || !b.send_cq || !b.recv_cq || !b.mr)
		die("set-up");
	b.qp = make_qp(pd, b.cq, b.cq, DEPTH);
	b.other_qp = make_qp(pd, b.other_cq, b.other_cq, DEPTH);
	b.self = make_qp(pd, b.send_cq, b.recv_cq, DEPTH);
	connect_to_itself(b.self);
}

static void have_exposed(void)
{
	if (b.exposed)
		return;
	b.exposed = aligned_alloc(4096, 2 * 4096);
	memset(b.exposed, 3, 2 * 4096);
	b.exposed_mr =
	    ibv_reg_mr(b.pd, b.exposed, 2 * 4096,
		       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!b.exposed_mr)
		die("ibv_reg_mr");
}

/* ------------------------------------------------------------------- cases */

/* All that is timed: `n` iterations; nanoseconds. */

static double clock_calls(int n, uint32_t bytes)
{
	struct timespec ts;
	double start = now();

	for (int i = 0; i < n; i++)
		clock_gettime(CLOCK_MONOTONIC, &ts);
	return now() - start;
}

static double counter_reads(int n, uint32_t bytes)
{
	double start = now();

	for (int i = 0; i < n; i++)
		__builtin_ia32_rdtsc();
	return now() - start;
}

static double idle_polls(int n, uint32_t bytes)
{
	struct ibv_wc wc;
	double start = now();

	for (int i = 0; i < n; i++)
		if (ibv_poll_cq(b.idle_cq, 1, &wc))
			die("a completion from nowhere");
	return now() - start;
}

static double notifications(int n, uint32_t bytes)
{
	double start = now();

	for (int i = 0; i < n; i++)
		ibv_req_notify_cq(b.idle_cq, 0);
	return now() - start;
}

/* A send that completes at once, and the poll that finds it. */
static double sends(struct ibv_qp *qp, int n, const char *from, const struct ibv_mr *mr,
		    uint32_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)from, .length = bytes, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;
	double start;

	wr.sg_list = &sge;
	wr.num_sge = bytes > 0;
	start = now();
	for (int i = 0; i < n; i++) {
		wr.wr_id = (uint64_t)i;
		if (ibv_post_send(qp, &wr, &bad) || ibv_poll_cq(qp->send_cq, 1, &wc) != 1)
			die("post_send and poll_cq");
	}
	return now() - start;
}

static double pairs_on(struct ibv_qp *qp, int n, uint32_t bytes)
{
	return sends(qp, n, b.buffer, b.mr, bytes);
}

static double pairs_of_exposed(int n, uint32_t bytes)
{
	have_exposed();
	return sends(b.qp, n, b.exposed, b.exposed_mr, bytes);
}

/* What a call without payload pays for exposed regions that it does not touch. */
static double pairs_beside_exposed(int n, uint32_t bytes)
{
	have_exposed();
	return pairs_on(b.qp, n, bytes);
}

/*
 * A WRITE or READ of 8 bytes that is carried out, after `extra` WRITEs like
 * that which carries a clock: what those cost without sreplay.
 */
static double transfers(int n, enum ibv_wr_opcode opcode, int extra)
{
	struct ibv_sge sge = {.addr = (uintptr_t)b.buffer, .length = 8, .lkey = b.mr->lkey};
	struct ibv_send_wr wr = {
	    .opcode = opcode,
	    .send_flags = IBV_SEND_SIGNALED,
	    .sg_list = &sge,
	    .num_sge = 1,
	    .wr.rdma = {.remote_addr = (uintptr_t)b.exposed, .rkey = b.exposed_mr->rkey}};
	struct ibv_send_wr clock = wr, *bad;
	struct ibv_wc wc;
	double start;

	clock.opcode = IBV_WR_RDMA_WRITE;
	clock.send_flags = IBV_SEND_INLINE;
	clock.next = &wr;
	start = now();
	for (int i = 0; i < n; i++) {
		wr.wr_id = (uint64_t)i;
		if (ibv_post_send(b.self, extra ? &clock : &wr, &bad) ||
		    ibv_poll_cq(b.send_cq, 1, &wc) != 1)
			die("a transfer");
	}
	return now() - start;
}

static double writes(int n, uint32_t bytes)
{
	have_exposed();
	return transfers(n, IBV_WR_RDMA_WRITE, 0);
}

static double writes_with_another(int n, uint32_t bytes)
{
	have_exposed();
	return transfers(n, IBV_WR_RDMA_WRITE, 1);
}

static double pairs(int n, uint32_t bytes)
{
	return pairs_on(b.qp, n, bytes);
}

static void post_receives(int n, uint32_t bytes)
{
	struct ibv_sge sge = {.length = bytes, .lkey = b.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = bytes > 0}, *bad;

	for (int i = 0; i < n; i++) {
		wr.wr_id = (uint64_t)i;
		sge.addr = (uintptr_t)b.buffer + (size_t)i * 4096;
		if (ibv_post_recv(b.self, &wr, &bad))
			die("ibv_post_recv");
	}
}

static void post_sends(int n, uint32_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)b.buffer, .length = bytes, .lkey = b.mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = bytes > 0},
			   *bad;

	for (int i = 0; i < n; i++) {
		wr.send_flags = i + 1 == n ? IBV_SEND_SIGNALED : 0;
		if (ibv_post_send(b.self, &wr, &bad))
			die("ibv_post_send");
	}
}

static void poll(struct ibv_cq *cq, int n)
{
	struct ibv_wc wc;

	for (int i = 0; i < n; i++)
		if (ibv_poll_cq(cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
			die("ibv_poll_cq");
}

/* Receives and the sends that fill them; timed: 0 the posts of receives, 1 of sends, 2 the polls.
 */
static double receive(int n, uint32_t bytes, int timed)
{
	double spent[4] = {0};

	for (int left = n; left > 0; left -= DEPTH) {
		int m = left < DEPTH ? left : DEPTH;
		double t[4];

		t[0] = now();
		post_receives(m, bytes);
		t[1] = now();
		post_sends(m, bytes);
		t[2] = now();
		poll(b.recv_cq, m);
		t[3] = now();
		poll(b.send_cq, 1);
		for (int i = 0; i < 3; i++)
			spent[i] += t[i + 1] - t[i];
	}
	return spent[timed];
}

static double receive_posts(int n, uint32_t bytes)
{
	return receive(n, bytes, 0);
}

static double receive_polls(int n, uint32_t bytes)
{
	return receive(n, bytes, 2);
}

/* ------------------------------------------------------------- two threads */

static void *sleep_on(void *unused)
{
	for (;;)
		pause();
	return NULL;
}

static void have_second_thread(void)
{
	static pthread_t sleeper;

	if (!sleeper && pthread_create(&sleeper, NULL, sleep_on, NULL))
		die("pthread_create");
}

static double pairs_beside_sleeper(int n, uint32_t bytes)
{
	have_second_thread();
	return pairs(n, bytes);
}

static double receive_posts_beside_sleeper(int n, uint32_t bytes)
{
	have_second_thread();
	return receive_posts(n, bytes);
}

static double receive_polls_beside_sleeper(int n, uint32_t bytes)
{
	have_second_thread();
	return receive_polls(n, bytes);
}

/* Half of the iterations in a thread, half here.  It is there all the time: its ring is not timed.
 */
static struct {
	pthread_t thread;
	sem_t begin, end;
	struct ibv_qp *qp;
	int n;
} helper;

static void *help(void *unused)
{
	for (;;) {
		sem_wait(&helper.begin);
		pairs_on(helper.qp, helper.n, 0);
		sem_post(&helper.end);
	}
	return NULL;
}

static void run_helper(struct ibv_qp *qp, int n)
{
	helper.qp = qp;
	helper.n = n;
	sem_post(&helper.begin);
}

static void have_helper(void)
{
	if (helper.thread)
		return;
	sem_init(&helper.begin, 0, 0);
	sem_init(&helper.end, 0, 0);
	if (pthread_create(&helper.thread, NULL, help, NULL))
		die("pthread_create");
	run_helper(b.other_qp, 1);
	sem_wait(&helper.end);
}

static double halves(struct ibv_qp *other, int n)
{
	double start;

	have_helper();
	start = now();
	run_helper(other, n / 2);
	pairs_on(b.qp, n - n / 2, 0);
	sem_wait(&helper.end);
	return now() - start;
}

static double two_queue_pairs(int n, uint32_t bytes)
{
	return halves(b.other_qp, n);
}

static double one_queue_pair(int n, uint32_t bytes)
{
	return halves(b.qp, n);
}

static const struct {
	const char *name;
	double (*run)(int n, uint32_t bytes);
	uint32_t bytes;
	int share; /* of CALLS: a recording with payload fills its ring sooner */
	bool apart;
} cases[] = {
    {"clock_gettime", clock_calls, 0, 1},
    {"poll_cq idle", idle_polls, 0, 1},
    {"rdtsc", counter_reads, 0, 1, true},
    {"req_notify_cq", notifications, 0, 1},
    {"post_send+poll_cq", pairs, 0, 1},
    {"post_send+poll_cq 64 B", pairs, 64, 1},
    {"post_send+poll_cq 4 KiB", pairs, 4096, 1},
    {"post_recv", receive_posts, 64, 1},
    {"poll_cq received 0 B", receive_polls, 0, 1},
    {"poll_cq received 64 B", receive_polls, 64, 1},
    {"poll_cq received 4 KiB", receive_polls, 4096, 16},
    {"post_send+poll_cq beside an exposed region", pairs_beside_exposed, 0, 1, true},
    {"post_send+poll_cq 64 B of an exposed region", pairs_of_exposed, 64, 1, true},
    {"post_send+poll_cq 4 KiB of an exposed region", pairs_of_exposed, 4096, 1, true},
    {"WRITE+poll_cq", writes, 0, 1, true},
    {"2 WRITEs+poll_cq", writes_with_another, 0, 1, true},
    {"post_send+poll_cq beside a thread", pairs_beside_sleeper, 0, 1, true},
    {"post_recv beside a thread", receive_posts_beside_sleeper, 64, 1, true},
    {"poll_cq received 0 B beside a thread", receive_polls_beside_sleeper, 0, 1, true},
    {"post_send+poll_cq in 2 threads", two_queue_pairs, 0, 1, true},
    {"post_send+poll_cq in 2 threads, 1 QP", one_queue_pair, 0, 1, true},
};

#define CASES (sizeof(cases) / sizeof(cases[0]))

static bool is_chosen(size_t number, int argc, char **argv)
{
	for (int i = 4; i < argc; i++)
		if (!strcmp(argv[i], cases[number].name))
			return true;
	return argc <= 4 && !cases[number].apart;
}

static int ascending(const void *a, const void *c)
{
	double x = *(const double *)a, y = *(const double *)c;

	return x < y ? -1 : x > y;
}

/*
 * A recorded call clears the stack below itself (shim/core/stack_below.h), which valgrind takes for an error where no
 * frame has been yet.
 */
static void use_stack(void)
{
	volatile char frame[64 << 10];

	for (size_t i = 0; i < sizeof(frame); i += 1024)
		frame[i] = 0;
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = use_stack;

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 21, calls = argc > 2 ? atoi(argv[2]) : 8192;
	useconds_t pause = argc > 3 ? (useconds_t)atoi(argv[3]) : 20000;
	static double ns[CASES][MAX_ROUNDS];

	if (rounds < 1 || rounds > MAX_ROUNDS || calls < 16) {
		fprintf(stderr, "usage: overhead [ROUNDS [CALLS [PAUSE_US [CASE...]]]]\n");
		return 2;
	}
	set_up();
	for (int round = 0; round < rounds; round++) {
		for (size_t i = 0; i < CASES; i++) {
			int n = calls / cases[i].share;

			if (!is_chosen(i, argc, argv))
				continue;
			if (pause)
				usleep(pause);
			ns[i][round] = cases[i].run(n, cases[i].bytes) / n;
		}
	}
	for (size_t i = 0; i < CASES; i++) {
		if (!is_chosen(i, argc, argv))
			continue;
		qsort(ns[i], (size_t)rounds, sizeof(double), ascending);
		printf("%s %.2f\n", cases[i].name, ns[i][rounds / 2]);
	}
	return 0;
}
