/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * process.c: makes a trace for bench/process: ranks in a ring that send to their
 * neighbour, write into its memory, read from it, and poll; with clocks.
 *
 *   process RECORDS RANKS DIR
 *
 * DIR must be there and empty.  Of ten records about two are posts, two polls
 * that find something, three clocks, and three other calls.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nicclock/order_code.h"
#include "trace_calls.h"

#define MOST 64

struct rank {
	struct sr_order_stream orders;
	uint64_t event, requests, received;
	uint64_t done; /* of its records */
};

static struct trace_maker *m;
static struct rank rank[MOST];
static int ranks;

static uint64_t qp_of(int i, bool to_next)
{
	return 0x100000000ull + (uint64_t)i * 0x10000 + (to_next ? 0 : 0x1000);
}

static uint32_t qp_number(int i, bool to_next)
{
	return (uint32_t)(100 + 2 * i + !to_next);
}

static int next(int i)
{
	return (i + 1) % ranks;
}

static int previous(int i)
{
	return (i + ranks - 1) % ranks;
}

static void clock_record(int i, const struct sr_order *order)
{
	uint8_t bytes[SR_ORDER_MAX_BYTES(1)];
	struct rank *r = &rank[i];

	trace_maker_record(m, i, 0, SR_REC_CLOCK, bytes,
			   sr_order_encode(&r->orders, ++r->event, order, order ? 1 : 0, bytes));
}

static void other_calls(int i, int n)
{
	uint64_t times[3] = {1, 2, 3};

	for (int k = 0; k < n; k++)
		trace_maker_call(m, i, 0, SR_CALL_clock_gettime, 0, times, 4, times, 17);
}

/* A round of one rank: 10 records. */
static void go_round(int i)
{
	static const uint8_t data[64] = {1, 2, 3};
	struct rank *r = &rank[i], *p = &rank[previous(i)];
	uint64_t wr_id = r->requests;
	const struct trace_request requests[2] = {
	    {.opcode = r->requests % 4 == 3 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
	     .wr_id = wr_id,
	     .address = 0x7000000 + wr_id % 512 * 64,
	     .remote = 0x9000000 + wr_id % 4096 * 64,
	     .length = 64,
	     .unsignaled = r->requests % 4 != 3},
	    {.opcode = IBV_WR_SEND, .wr_id = wr_id + 1, .address = 0x7000000, .length = 64}};

	clock_record(i, NULL);
	trace_post_send(m, i, 0, qp_of(i, true), requests, 2, 0);
	r->requests += 2;
	if (requests[0].opcode == IBV_WR_RDMA_READ) {
		const struct trace_completion fetched = {.wr_id = wr_id,
							 .opcode = IBV_WC_RDMA_READ,
							 .qp_num = qp_number(i, true),
							 .length = 64,
							 .address = requests[0].address,
							 .data = data};

		trace_poll_cq(m, i, 0, &fetched, 1, 0);
	} else {
		other_calls(i, 1);
	}
	other_calls(i, 2);
	/* What the rank before sent; all but the first round. */
	if (p->requests / 2 > r->received) {
		const struct sr_order order = {
		    .event = p->event, .member = (uint8_t)previous(i), .via = SR_ORDER_CELL};
		const struct trace_completion c[2] = {
		    {.wr_id = 7,
		     .opcode = IBV_WC_RECV,
		     .qp_num = qp_number(i, false),
		     .length = 64,
		     .address = 0x8000000 + r->received % 64 * 64,
		     .data = data},
		    {.wr_id = wr_id + 1, .opcode = IBV_WC_SEND, .qp_num = qp_number(i, true)}};

		r->received++;
		clock_record(i, &order);
		trace_poll_cq(m, i, 0, c, 2, 0);
	} else {
		const struct trace_completion sent = {
		    .wr_id = wr_id + 1, .opcode = IBV_WC_SEND, .qp_num = qp_number(i, true)};

		trace_poll_cq(m, i, 0, &sent, 1, 0);
		other_calls(i, 1);
	}
	other_calls(i, 3);
	r->done += 10;
}

int main(int argc, char **argv)
{
	uint64_t records = argc == 4 ? strtoull(argv[1], NULL, 0) : 0, done = 0;
	char extra[64];

	ranks = argc == 4 ? atoi(argv[2]) : 0;
	if (!records || ranks < 2 || ranks > MOST) {
		fprintf(stderr, "usage: process RECORDS RANKS DIR\n");
		return 2;
	}
	m = trace_maker_new(argv[3]);
	trace_maker_compress(m);
	for (int i = 0; i < ranks; i++) {
		snprintf(extra, sizeof(extra), "{\"member\": %d}", i);
		trace_maker_rank(m, i, extra);
		trace_qp(m, i, 0, qp_of(i, true), qp_number(i, true), qp_number(next(i), false), 1,
			 1);
		trace_qp(m, i, 0, qp_of(i, false), qp_number(i, false),
			 qp_number(previous(i), true), 1, 1);
	}
	for (; done < records; done += 10 * (uint64_t)ranks)
		for (int i = 0; i < ranks; i++)
			go_round(i);
	trace_maker_finish(m);
	return 0;
}
