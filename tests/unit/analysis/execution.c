/* SPDX-License-Identifier: BSD-2-Clause */
#include "execution.h"

#include <stdio.h>

uint32_t chance(struct run *r, uint32_t n)
{
	r->seed = r->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(r->seed >> 33) % n;
}

int entry_of(int rank, int call)
{
	return (rank * CALLS + call) * 2;
}

int return_of(int rank, int call)
{
	return entry_of(rank, call) + 1;
}

uint64_t qp_address(int rank, int peer)
{
	return 0x100000000ull + (uint64_t)(rank * RANKS + peer) * 0x1000;
}

/* On several nodes all count alike: sequence numbers must tell them apart. */
uint32_t qp_number(const struct run *r, int rank, int peer)
{
	return r->same_numbers ? (uint32_t)(17 + (peer - rank + r->ranks) % r->ranks)
			       : (uint32_t)(100 + rank * RANKS + peer);
}

static uint32_t psn(int rank, int peer)
{
	return (uint32_t)(5000 + rank * RANKS + peer);
}

void execution_begin(struct run *r, const char *dir)
{
	char extra[96];

	r->m = trace_maker_new(dir);
	for (int i = 0; i < r->ranks; i++) {
		snprintf(extra, sizeof(extra), "{\"member\": %d, \"places\": %s}", r->clocks ? i : -1,
			 r->places ? "true" : "false");
		trace_maker_rank(r->m, i, extra);
		for (int k = 0; k < r->ranks; k++)
			if (k != i)
				trace_qp(r->m, i, 0, qp_address(i, k), qp_number(r, i, k),
					 qp_number(r, k, i), psn(i, k), psn(k, i));
	}
}

uint64_t tick(struct run *r, int i, uint32_t thread, const struct sr_order *orders,
		     uint32_t n)
{
	struct rank *k = &r->rank[i];
	uint8_t bytes[SR_ORDER_MAX_BYTES(SR_CLOCK_ORDERS)];
	uint64_t event = ++k->event;

	k->call_of_event[event] = k->calls;
	if (n && r->places && r->threads > 1)
		trace_maker_record(r->m, i, thread, SR_REC_BEHIND, &r->numbered, sizeof(r->numbered));
	trace_maker_record(r->m, i, thread, SR_REC_CLOCK, bytes,
			   sr_order_encode(&k->streams[thread], event, orders, n, bytes));
	return event;
}

static void edge(struct run *r, int from, int to)
{
	put_before(r->before, from, to);
}

void called(struct run *r, int i, uint32_t thread, uint64_t sn)
{
	struct rank *k = &r->rank[i];

	edge(r, entry_of(i, k->calls), return_of(i, k->calls));
	if (k->calls)
		edge(r, return_of(i, k->calls - 1), entry_of(i, k->calls));
	k->sn[k->calls] = sn;
	k->thread[k->calls] = thread;
	k->calls++;
}

static uint64_t number(struct run *r)
{
	return r->threads > 1 ? ++r->numbered : 0;
}

static void post(struct run *r, int i, uint32_t thread)
{
	struct rank *k = &r->rank[i];
	struct trace_request requests[3];
	uint32_t n = 1 + chance(r, 3);
	int to = (i + 1 + (int)chance(r, (uint32_t)r->ranks - 1)) % r->ranks;
	uint64_t event = r->clocks ? tick(r, i, thread, NULL, 0) : 0;

	for (uint32_t q = 0; q < n; q++) {
		bool sends = chance(r, 2);

		requests[q] =
		    (struct trace_request){.opcode = sends ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
					   .wr_id = k->requests++,
					   .length = 8,
					   .address = 0x7000,
					   .remote = 0x9000};
		if (sends)
			k->channel[to][k->sent[to]++] = (struct message){k->calls, event};
	}
	called(r, i, thread,
	       trace_post_send(r->m, i, thread, qp_address(i, to), requests, n, number(r)));
}

static void poll_some(struct run *r, int i, uint32_t thread)
{
	static const uint64_t data = 42;
	struct trace_completion found[4];
	struct sr_order orders[4];
	uint32_t n = 0, orders_n = 0, want = chance(r, 5);

	for (uint32_t t = 0; t < want && n < 4; t++) {
		int from = (int)chance(r, (uint32_t)r->ranks);
		struct rank *f = &r->rank[from];
		const struct message *m = &f->channel[i][f->received[i]];

		if (from == i || f->received[i] == f->sent[i])
			continue;
		f->received[i]++;
		edge(r, entry_of(from, m->call), return_of(i, r->rank[i].calls));
		found[n++] = (struct trace_completion){.wr_id = 1,
						       .opcode = IBV_WC_RECV,
						       .qp_num = qp_number(r, i, from),
						       .length = 8,
						       .address = 0x8000 + 8 * t,
						       .data = &data};
		if (r->clocks)
			orders[orders_n++] = (struct sr_order){
			    .event = m->event, .member = (uint8_t)from, .via = SR_ORDER_CELL};
	}
	if (orders_n)
		tick(r, i, thread, orders, orders_n);
	called(r, i, thread, trace_poll_cq(r->m, i, thread, found, n, number(r)));
}

/* Sees what others' CPUs did: all that they had found out by then happened before. */
static void look(struct run *r, int i, uint32_t thread)
{
	int other = (i + 1 + (int)chance(r, (uint32_t)r->ranks - 1)) % r->ranks;
	struct rank *k = &r->rank[other];
	struct sr_order order = {.event = k->event, .member = (uint8_t)other, .via = SR_ORDER_OWN};
	int call;

	if (!r->clocks || !k->event)
		return;
	call = k->call_of_event[k->event];
	edge(r, entry_of(other, call), return_of(i, r->rank[i].calls));
	/* The event was the last thing in that call: what came into it is before as well. */
	for (int a = 0; a < NODES; a++)
		if (is_before(r->before, a, return_of(other, call)))
			edge(r, a, return_of(i, r->rank[i].calls));
	tick(r, i, thread, &order, 1);
	called(r, i, thread, trace_poll_cq(r->m, i, thread, NULL, 0, number(r)));
}

void execution_at_random(struct run *r, const char *dir)
{
	execution_begin(r, dir);
	for (int s = 0; s < STEPS; s++) {
		int i = (int)chance(r, (uint32_t)r->ranks);
		uint32_t thread = chance(r, (uint32_t)r->threads);

		switch (chance(r, 5)) {
		case 0:
		case 1:
			post(r, i, thread);
			break;
		case 2:
		case 3:
			poll_some(r, i, thread);
			break;
		default:
			look(r, i, thread);
			break;
		}
	}
	trace_maker_finish(r->m);
}
