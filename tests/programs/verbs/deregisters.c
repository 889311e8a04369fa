/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deregisters.c: a thread reads memory that another one registers, has written by a peer, and deregisters again, as a
 * server's completion thread does that prints what a client wrote while the main thread takes down the connection.
 *
 *     deregisters       prints the names of its cases: what the region has of the memory's page, and what else is there
 *     deregisters CASE
 *
 * Of a page with a queue, threads wait beside the region until the other thread gives them something.
 *
 * The queue pair is connected to itself, over the stand-in's loopback (tests/lib/softdev).  Prints a number that depends
 * on what each of the reader's loads found.
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "check.h"
#include "loopback_qp.h"

#define CLIENTS 300
#define WORDS   64
#define PAGE    4096
#define WORKERS 4
#define ACCESS  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static volatile uint64_t *memory;
static size_t bytes;
static uint64_t *source;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *outgoing;
static atomic_bool finished;

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 0x9e3779b97f4a7c15ull + 1;
}

/* As an executor has it: its words lie beside the region. */
static struct queue {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint64_t pushed, popped, last;
	bool closed;
	char note[24];
} *queue;

/* Less than a vector: the C library's memset stores it by one masked instruction where the processor has them (AVX-512). */
static void clear_note(void)
{
	void *(*volatile set)(void *, int, size_t) = memset;

	set(queue->note, 0, sizeof(queue->note));
}

static void push(uint64_t value)
{
	pthread_mutex_lock(&queue->mutex);
	queue->last = value;
	queue->pushed++;
	pthread_cond_signal(&queue->cond);
	pthread_mutex_unlock(&queue->mutex);
}

static bool pop(uint64_t *value)
{
	bool is_there;

	pthread_mutex_lock(&queue->mutex);
	while (queue->popped == queue->pushed && !queue->closed)
		pthread_cond_wait(&queue->cond, &queue->mutex);
	is_there = queue->popped < queue->pushed;
	queue->popped += is_there;
	*value = queue->last;
	pthread_mutex_unlock(&queue->mutex);
	return is_there;
}

static void *work(void *unused)
{
	uint64_t value, *hash = calloc(1, sizeof(*hash));

	CHECK(hash);
	while (pop(&value))
		*hash = mix(*hash, value + memory[0]);
	return hash;
}

static uint64_t close_queue(const pthread_t workers[], int n)
{
	uint64_t sum = 0;
	void *hash;

	pthread_mutex_lock(&queue->mutex);
	queue->closed = true;
	pthread_cond_broadcast(&queue->cond);
	pthread_mutex_unlock(&queue->mutex);
	for (int i = 0; i < n; i++) {
		CHECK(!pthread_join(workers[i], &hash));
		sum = mix(sum, *(uint64_t *)hash);
	}
	return sum;
}

/* Between calls, so that it runs whenever the other thread is in one. */
static void *read_all(void *unused)
{
	static uint64_t hash;
	struct timeval now;

	while (!atomic_load(&finished)) {
		for (int i = 0; i < WORDS; i += 8)
			hash = mix(hash, memory[i]);
		CHECK(!gettimeofday(&now, NULL));
	}
	return &hash;
}

static void connect_to_itself(void)
{
	for (enum ibv_qp_state state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		struct ibv_qp_attr attr = loopback_attr(state, qp->qp_num, IBV_ACCESS_REMOTE_WRITE);

		CHECK(!ibv_modify_qp(qp, &attr, loopback_mask(state)));
	}
}

static void write_there(const struct ibv_mr *target)
{
	struct ibv_sge sge = {.addr = (uintptr_t)source, .length = WORDS * sizeof(*source), .lkey = outgoing->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;
	int n;

	wr.wr.rdma.remote_addr = (uintptr_t)memory;
	wr.wr.rdma.rkey = target->rkey;
	CHECK(!ibv_post_send(qp, &wr, &bad));
	do
		n = ibv_poll_cq(cq, 1, &wc);
	while (!n);
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS);
}

static void serve(uint64_t client)
{
	struct ibv_mr *target = ibv_reg_mr(pd, (void *)memory, bytes, ACCESS);

	CHECK(target);
	for (int i = 0; i < WORDS; i++)
		source[i] = client * WORDS + (uint64_t)i;
	write_there(target);
	CHECK(!ibv_dereg_mr(target));
	if (queue) {
		clear_note();
		push(client);
	}
}

static void make_queue(void)
{
	queue = aligned_alloc(PAGE, PAGE);
	CHECK(queue && !pthread_mutex_init(&queue->mutex, NULL) && !pthread_cond_init(&queue->cond, NULL));
	queue->pushed = queue->popped = queue->last = queue->closed = 0;
	memory = (uint64_t *)(queue + 1);
}

static void set_up(bool whole, bool with_queue)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {16, 16, 1, 1, 0}};

	pd = context ? ibv_alloc_pd(context) : NULL;
	CHECK(pd);
	bytes = whole ? PAGE : WORDS * sizeof(*memory);
	if (with_queue)
		make_queue();
	else
		memory = whole ? aligned_alloc(PAGE, PAGE) : malloc(bytes);
	source = calloc(WORDS, sizeof(*source));
	CHECK(memory && source);
	memset((void *)memory, 0, bytes);
	outgoing = ibv_reg_mr(pd, source, WORDS * sizeof(*source), IBV_ACCESS_LOCAL_WRITE);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = cq;
	qp = ibv_create_qp(pd, &attr);
	CHECK(outgoing && cq && qp);
	connect_to_itself();
}

int main(int argc, char **argv)
{
	pthread_t reader, workers[WORKERS];
	void *hash;

	if (argc < 2)
		return puts("part-of-page\nwhole-page\nqueue-on-page") < 0;
	set_up(!strcmp(argv[1], "whole-page"), !strcmp(argv[1], "queue-on-page"));
	for (int i = 0; queue && i < WORKERS; i++)
		CHECK(!pthread_create(&workers[i], NULL, work, NULL));
	CHECK(!pthread_create(&reader, NULL, read_all, NULL));
	for (uint64_t client = 1; client <= CLIENTS; client++)
		serve(client);
	atomic_store(&finished, true);
	CHECK(!pthread_join(reader, &hash));
	printf("read %016lx\n", *(uint64_t *)hash);
	if (queue)
		printf("worked %016lx\n", close_queue(workers, WORKERS));
	return 0;
}
