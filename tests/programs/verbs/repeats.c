/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repeats.c: sends messages to itself, many of which bring the same bytes again, and checks each.
 *
 *   repeats
 *
 * For some sizes, and for each of the patterns: "same", all messages are equal; "turns", three messages
 * in turn; "byte", each differs from the one before by a byte; "new", all are different.  The buffer is
 * cleared in between.  Prints a line for each of them.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "loopback_qp.h"

#define MOST   1500000u
#define ROUNDS 5u

enum pattern { SAME, TURNS, BYTE, NEW, PATTERNS };

static const char *const names[PATTERNS] = {"same", "turns", "byte", "new"};

static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static unsigned char memory[2 * MOST];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void set_up(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_qp_init_attr attr = {
	    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	};
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;

	cq = pd ? ibv_create_cq(context, 8, NULL, NULL, 0) : NULL;
	mr = cq ? ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE) : NULL;
	attr.send_cq = attr.recv_cq = cq;
	qp = mr ? ibv_create_qp(pd, &attr) : NULL;
	if (!qp)
		die("no device");
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr to = loopback_attr(s, qp->qp_num, 0);

		if (ibv_modify_qp(qp, &to, loopback_mask(s)))
			die("ibv_modify_qp");
	}
}

static void send_to_itself(uint32_t size)
{
	struct ibv_sge from = {(uintptr_t)memory, size, mr->lkey};
	struct ibv_sge to = {(uintptr_t)(memory + MOST), size, mr->lkey};
	struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1}, *bad_receive;
	struct ibv_send_wr send = {
	    .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad_send;
	struct ibv_wc wc;
	int left = 2;

	if (ibv_post_recv(qp, &receive, &bad_receive) || ibv_post_send(qp, &send, &bad_send))
		die("post");
	while (left) {
		int n = ibv_poll_cq(cq, 1, &wc);

		if (n < 0 || (n && wc.status))
			die("ibv_poll_cq");
		left -= n;
	}
}

static void fill(uint32_t size, uint64_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + size;

	for (uint32_t i = 0; i < size; i++) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		memory[i] = (unsigned char)(x >> 56);
	}
}

static void make(enum pattern p, uint32_t size, uint32_t round)
{
	if (p == SAME || (p == BYTE && !round))
		fill(size, 1 + (uint64_t)p);
	else if (p == TURNS)
		fill(size, 10 + round % 3);
	else if (p == NEW)
		fill(size, 100 + round);
	else
		memory[round * 7919 % size]++;
}

static void run(enum pattern p, uint32_t size)
{
	uint64_t sum = 0;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		make(p, size, round);
		memset(memory + MOST, (int)round, size);
		send_to_itself(size);
		if (memcmp(memory, memory + MOST, size)) {
			printf("%s: wrong\n", names[p]);
			exit(1);
		}
		for (uint32_t i = 0; i < size; i++)
			sum = sum * 31 + memory[MOST + i];
	}
	printf("%s, %u bytes: %016llx\n", names[p], size, (unsigned long long)sum);
}

int main(void)
{
	static const uint32_t sizes[] = {1000, 1024, 5000, 65536, 200000, MOST};

	set_up();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (enum pattern p = 0; p < PATTERNS; p++)
			run(p, sizes[i]);
	return 0;
}
