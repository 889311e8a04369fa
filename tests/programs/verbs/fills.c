/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fills.c: a thread changes one page of exposed memory after the other, again and again, as sums of buffers do that are
 * received (accumulates of MPI).
 *
 *     fills           prints the names of its cases
 *     fills CASE
 *
 * Peers are queue pairs of the process itself (tests/lib/softdev).  What is printed depends on what each change found.
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
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "loopback_qp.h"

#define PAGE   4096
#define PAGES  48
#define WORDS  (PAGES * PAGE / sizeof(uint64_t))
#define ROUNDS 16
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static uint64_t *sums, *fetched, *source; /* in one region */
static struct ibv_mr *region;
static struct ibv_qp *qps[2];
static struct ibv_cq *cq;
static atomic_bool done;

static void transfer(enum ibv_wr_opcode opcode, const void *local, uint32_t length, const void *remote)
{
	struct ibv_sge sge = {.addr = (uintptr_t)local, .length = length, .lkey = region->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;
	int n;

	wr.wr.rdma.remote_addr = (uintptr_t)remote;
	wr.wr.rdma.rkey = region->rkey;
	CHECK(!ibv_post_send(qps[0], &wr, &bad));
	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS);
}

static void call(void)
{
	struct timeval now;

	gettimeofday(&now, NULL);
}

static void fill(uint64_t round)
{
	for (size_t i = 0; i < WORDS; i++)
		sums[i] = round + i;
	call();
}

static void change(uint64_t round)
{
	for (size_t i = 0; i < WORDS; i++)
		sums[i] = sums[i] * 31 + round;
	call();
}

static void add_fetched(uint64_t round)
{
	for (size_t i = 0; i < WORDS; i++)
		source[i] = i * round;
	transfer(IBV_WR_RDMA_READ, fetched, PAGES * PAGE, source);
	for (size_t i = 0; i < WORDS; i++)
		sums[i] += fetched[i];
	call();
}

/* Behind some walks a peer writes, to a page that was passed through until then. */
static void peer_between(uint64_t round)
{
	change(round);
	if (round % 5 == 4) {
		source[0] = round;
		transfer(IBV_WR_RDMA_WRITE, source, 64, sums + (round * 7 % PAGES) * PAGE / sizeof(*sums));
	}
}

static void *write_meanwhile(void *unused)
{
	for (uint64_t n = 0; !atomic_load(&done); n++) {
		source[0] = n;
		transfer(IBV_WR_RDMA_WRITE, source, 64, sums + (n * 7 % (PAGES / 8)) * 8 * PAGE / sizeof(*sums));
	}
	return NULL;
}

static struct ibv_pd *open_domain(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;

	CHECK(pd);
	return pd;
}

static void read_of_parent(void *to, const void *from, size_t size)
{
	struct iovec here = {to, size}, there = {(void *)(uintptr_t)from, size};

	CHECK(process_vm_readv(getppid(), &here, 1, &there, 1, 0) == (ssize_t)size);
}

/* A child that reads its parent's pages, as UCX's cma does, while these change between the two mappings. */
static pid_t start_reader(void)
{
	pid_t child = fork();
	bool ended = false;
	uint64_t word;

	if (child)
		return child;
	/* It takes part, too. */
	CHECK(ibv_reg_mr(open_domain(), aligned_alloc(PAGE, PAGE), PAGE, ACCESS));
	for (uint64_t n = 0; !ended; n++) {
		read_of_parent(&sums, &sums, sizeof(sums));
		if (sums)
			read_of_parent(&word, sums + n % PAGES * PAGE / sizeof(*sums), sizeof(word));
		read_of_parent(&ended, &done, sizeof(ended));
	}
	_exit(0);
}

static void end_reader(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
}

static const struct {
	const char *name;
	void (*round)(uint64_t);
	bool meanwhile; /* another thread has a peer write */
	bool read;      /* a child reads meanwhile */
} cases[] = {
    {"fill", fill, false, false},
    {"change", change, false, false},
    {"add-fetched", add_fetched, false, false},
    {"peer-between", peer_between, false, false},
    {"peer-meanwhile", change, true, false},
    {"child-reads", change, false, true},
};

static void set_up(void)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
	struct ibv_pd *pd = open_domain();

	CHECK(cq = ibv_create_cq(pd->context, 16, NULL, NULL, 0));
	CHECK(sums = aligned_alloc(PAGE, 3 * PAGES * PAGE));
	memset(sums, 0, 3 * PAGES * PAGE);
	fetched = sums + WORDS;
	source = fetched + WORDS;
	CHECK(region = ibv_reg_mr(pd, sums, 3 * PAGES * PAGE, ACCESS));
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {16, 16, 1, 1, 0}};

		CHECK(qps[i] = ibv_create_qp(pd, &attr));
	}
	for (int s = 0; s < 3; s++)
		for (int i = 0; i < 2; i++) {
			struct ibv_qp_attr attr = loopback_attr(states[s], qps[!i]->qp_num, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);

			CHECK(!ibv_modify_qp(qps[i], &attr, loopback_mask(states[s])));
		}
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t hash = 0;
		pthread_t writer;
		pid_t reader = 0;

		if (argc < 2)
			puts(cases[i].name);
		if (argc < 2 || strcmp(argv[1], cases[i].name))
			continue;
		/* A process that has opened a device has no children that are recorded. */
		CHECK(!cases[i].read || (reader = start_reader()) > 0);
		set_up();
		CHECK(!cases[i].meanwhile || !pthread_create(&writer, NULL, write_meanwhile, NULL));
		for (uint64_t round = 0; round < ROUNDS; round++)
			cases[i].round(round);
		atomic_store(&done, true);
		CHECK(!cases[i].meanwhile || !pthread_join(writer, NULL));
		if (reader)
			end_reader(reader);
		for (size_t word = 0; word < WORDS; word++)
			hash = (hash ^ sums[word]) * 0x9e3779b97f4a7c15ull + 1;
		printf("%s: %016lx\n", argv[1], hash);
	}
	return 0;
}
