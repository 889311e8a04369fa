/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pollers.c: threads that read messages out of exposed memory and make no call, as servers do whose clients write
 * requests by RDMA.
 *
 *     pollers           prints the names of its cases
 *     pollers CASE
 *
 * The main thread writes into two rings of its own process over the stand-in's loopback (tests/lib/softdev).  What is
 * printed depends on the order in which a poller found the messages of the two rings.
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"
#include "loopback_qp.h"

#define RINGS    2
#define SLOTS    32
#define MESSAGES 400 /* in each ring */
#define WORDS    16

struct slot {
	uint64_t words[WORDS];
	volatile uint64_t number;
	uint64_t unused[15]; /* 256 bytes in all */
};

static struct slot *rings[RINGS];
static struct slot *source;
static struct ibv_qp *qps[2];
static struct ibv_cq *cq;
static struct ibv_mr *target, *outgoing;
static _Atomic uint64_t taken[RINGS];

/* Messages on their way from the poller to the worker: a stack without locks. */
struct node {
	struct node *next;
	uint64_t value;
};
static struct node *_Atomic handed_over;
static atomic_bool finished;

/* With alarms a handler interrupts the poller, which makes no call, while nothing comes. */
#define RARE	  12     /* first messages ... */
#define RARE_US	  20000  /* ... that come so long after the one before */
#define ALARM_US  1000
static bool alarms;
static volatile uint64_t alarms_n;

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 0x9e3779b97f4a7c15ull + 1;
}

static uint64_t read_message(const struct slot *s, uint64_t hash)
{
	for (int i = 0; i < WORDS; i++)
		hash = mix(hash, s->words[i]);
	return hash;
}

static void hand_over(uint64_t value)
{
	struct node *n = malloc(sizeof(*n));

	n->value = value;
	n->next = atomic_load(&handed_over);
	while (!atomic_compare_exchange_weak(&handed_over, &n->next, n))
		;
}

/* Reads all rings in turn until it has every message; no call in between. */
static uint64_t poll_rings(bool with_worker)
{
	uint64_t next[RINGS] = {1, 1}, hash = 0, got = 0;

	while (got < RINGS * MESSAGES)
		for (int r = 0; r < RINGS; r++) {
			const struct slot *s = &rings[r][next[r] % SLOTS];

			if (s->number != next[r])
				continue;
			atomic_thread_fence(memory_order_acquire);
			hash = mix(read_message(s, hash), alarms_n);
			if (with_worker)
				hand_over(mix(s->words[0], (uint64_t)r));
			next[r]++;
			got++;
			atomic_store(&taken[r], next[r] - 1);
		}
	return hash;
}

static void *run_poller(void *with_worker)
{
	static uint64_t hash;

	hash = poll_rings(with_worker);
	atomic_store(&finished, true);
	return &hash;
}

static void *run_worker(void *unused)
{
	static uint64_t hash;

	for (;;) {
		bool last = atomic_load(&finished);
		struct node *n = atomic_exchange(&handed_over, NULL), *next;

		for (; n; n = next) {
			next = n->next;
			hash = mix(hash, n->value);
			free(n);
		}
		if (last && !atomic_load(&handed_over))
			return &hash;
		sched_yield();
	}
}

static void write_message(int ring, uint64_t number)
{
	struct ibv_sge sge = {.addr = (uintptr_t)source, .length = offsetof(struct slot, unused), .lkey = outgoing->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc = {0};
	int n;

	for (int i = 0; i < WORDS; i++)
		source->words[i] = number * 1000 + (uint64_t)(ring * WORDS + i);
	source->number = number;
	wr.wr.rdma.remote_addr = (uintptr_t)&rings[ring][number % SLOTS];
	wr.wr.rdma.rkey = target->rkey;
	CHECK(!ibv_post_send(qps[0], &wr, &bad));
	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS);
}

static void count_alarm(int signo)
{
	alarms_n++;
}

/* They come to the one thread that does not block them. */
static void begin_alarms(void)
{
	const struct itimerval often = {{0, ALARM_US}, {0, ALARM_US}};
	sigset_t set;

	signal(SIGALRM, count_alarm);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}

static void write_all(void)
{
	for (uint64_t number = 1; number <= MESSAGES; number++) {
		if (alarms && number <= RARE)
			usleep(RARE_US);
		for (int r = 0; r < RINGS; r++) {
			while (number > atomic_load(&taken[r]) + SLOTS / 2)
				sched_yield();
			write_message(r, number);
		}
	}
}

static void connect_pair(void)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};

	for (int s = 0; s < 3; s++)
		for (int i = 0; i < 2; i++) {
			struct ibv_qp_attr attr = loopback_attr(states[s], qps[!i]->qp_num, IBV_ACCESS_REMOTE_WRITE);

			CHECK(!ibv_modify_qp(qps[i], &attr, loopback_mask(states[s])));
		}
}

static void set_up(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	size_t bytes = RINGS * SLOTS * sizeof(struct slot);
	struct slot *all = aligned_alloc(4096, bytes);

	CHECK(pd && all);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	memset(all, 0, bytes);
	for (int r = 0; r < RINGS; r++)
		rings[r] = all + r * SLOTS;
	source = calloc(1, sizeof(*source));
	target = ibv_reg_mr(pd, all, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	outgoing = ibv_reg_mr(pd, source, sizeof(*source), IBV_ACCESS_LOCAL_WRITE);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {16, 16, 1, 1, 0}};

		qps[i] = ibv_create_qp(pd, &attr);
		CHECK(qps[i]);
	}
	CHECK(cq && target && outgoing);
	connect_pair();
}

static void run(bool with_worker)
{
	pthread_t poller, worker;
	void *polled = NULL, *worked = NULL;

	set_up();
	CHECK(!pthread_create(&poller, NULL, run_poller, with_worker ? &poller : NULL));
	if (with_worker)
		CHECK(!pthread_create(&worker, NULL, run_worker, NULL));
	if (alarms)
		begin_alarms();
	write_all();
	CHECK(!pthread_join(poller, &polled));
	if (with_worker)
		CHECK(!pthread_join(worker, &worked));
	printf("polled %016lx, worked %016lx\n", *(uint64_t *)polled, worked ? *(uint64_t *)worked : 0);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return puts("poller\npoller-and-worker\nalarms") < 0;
	alarms = !strcmp(argv[1], "alarms");
	run(!strcmp(argv[1], "poller-and-worker"));
	return 0;
}
