/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * string_functions.c: libc's string functions read memory into which WRITEs come.
 *
 * What they make of it goes into a checksum, which it prints with how many copies were torn.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "loopback_qp.h"

#define BYTES	8192
#define PARTS	4 /* each is a WRITE of its own */
#define ROUNDS	160
#define LETTERS 20

static struct ibv_cq *cq;
static struct ibv_qp *qp[2];
static struct ibv_mr *from_mr, *to_mr;
static char *from, *to, copy[BYTES + 1];
static uint64_t sum;
static unsigned int torn;

static void mix(uint64_t value)
{
	sum = (sum ^ value) * 0x9e3779b97f4a7c15ull + 1;
}

static void mix_bytes(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		mix((uint8_t)p[i]);
}

static void mix_found(const char *p)
{
	mix(p ? (uint64_t)(p - to) : BYTES);
}

static void register_memory(struct ibv_pd *pd)
{
	from = aligned_alloc(4096, BYTES);
	to = aligned_alloc(4096, BYTES + 4096);
	CHECK(from && to);
	memset(to, 'a', BYTES);
	to[BYTES] = 0;
	from_mr = ibv_reg_mr(pd, from, BYTES, IBV_ACCESS_LOCAL_WRITE);
	to_mr = ibv_reg_mr(pd, to, BYTES + 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(from_mr && to_mr);
}

static void connect_queue_pairs(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr init = {.cap = {PARTS, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	cq = ibv_create_cq(context, PARTS, NULL, NULL, 0);
	CHECK(cq);
	init.send_cq = init.recv_cq = cq;
	for (int i = 0; i < 2; i++) {
		qp[i] = ibv_create_qp(pd, &init);
		CHECK(qp[i]);
	}
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++)
		for (int i = 0; i < 2; i++) {
			struct ibv_qp_attr attr = loopback_attr((enum ibv_qp_state)state, qp[!i]->qp_num, IBV_ACCESS_REMOTE_WRITE);

			CHECK(!ibv_modify_qp(qp[i], &attr, loopback_mask((enum ibv_qp_state)state)));
		}
}

static void write_part(size_t part)
{
	const size_t at = part * BYTES / PARTS;
	struct ibv_sge sge = {(uintptr_t)from + at, BYTES / PARTS, from_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)to + at, to_mr->rkey}},
			   *bad;

	CHECK(!ibv_post_send(qp[0], &wr, &bad));
}

/* All of them read from `at` on, n bytes or up to the letter or the 0 that ends it. */
static void read_with(unsigned int function, const char *at, size_t n, char letter)
{
	switch (function) {
	case 0:
		memcpy(copy, at, n);
		mix_bytes(copy, n);
		torn += memcmp(copy, at, n) != 0;
		break;
	case 1:
		memmove(copy + 1, at, n);
		mix_bytes(copy + 1, n);
		break;
	case 2:
		mix(strnlen(at, n));
		break;
	case 3:
		mix_found(memchr(at, letter, n));
		break;
	case 4:
		mix_found(memrchr(at, letter - 1, n));
		break;
	case 5:
		mix(memcmp(at, from + (at - to), n) == 0);
		break;
	case 6:
		mix_found(strchr(at, letter));
		break;
	case 7:
		mix_found(strstr(at, "xa"));
		break;
	}
}

static void run(unsigned int round)
{
	const char letter = (char)('c' + round % LETTERS);
	struct ibv_wc wc;
	int left = PARTS;

	memset(from, letter, BYTES);
	from[BYTES - 1] = round % 7 ? 'x' : 0;
	for (size_t part = 0; part < PARTS; part++)
		write_part(part);
	for (unsigned int polls = 0; left; polls++) {
		size_t at = (round * 13 + polls * 7) % 64;
		int n;

		read_with(round % 8, to + at, BYTES - at - round % 33, letter);
		n = ibv_poll_cq(cq, 1, &wc);
		CHECK(n >= 0 && (!n || wc.status == IBV_WC_SUCCESS));
		left -= n;
	}
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;

	CHECK(devices && devices[0]);
	context = ibv_open_device(devices[0]);
	pd = context ? ibv_alloc_pd(context) : NULL;
	CHECK(pd);
	register_memory(pd);
	connect_queue_pairs(context, pd);
	for (unsigned int round = 0; round < ROUNDS; round++)
		run(round);
	printf("%llx torn %u\n", (unsigned long long)sum, torn);
	return 0;
}
