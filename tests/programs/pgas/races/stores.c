/* SPDX-License-Identifier: BSD-2-Clause */
/* stores.c: what the CPU stores, and what requests, messages and other ranks do with that memory. */
#include <unistd.h>

#include "races.h"

static void store_read_racing(void)
{
	if (is(OWNER))
		fill(shared->data, 5);
	else if (is(0))
		get(OWNER);
}

/* An atomic instruction that changes nothing, as libraries carry out a peer's atomic fetch, is a load. */
static void add_nothing_read(void)
{
	if (is(OWNER))
		for (int i = 0; i < 8; i++)
			__atomic_fetch_add(&shared->data[i], 0, __ATOMIC_SEQ_CST);
	else if (is(0))
		get(OWNER);
}

static void add_read_racing(void)
{
	if (is(OWNER))
		for (int i = 0; i < 8; i++)
			__atomic_fetch_add(&shared->data[i], 1, __ATOMIC_SEQ_CST);
	else if (is(0))
		get(OWNER);
}

static void store_read_barrier(void)
{
	if (is(OWNER))
		fill(shared->data, 5);
	pgas_barrier();
	if (is(0))
		get(OWNER);
}

/* The owner raises a flag in its own memory, which rank 0 polls, and waits for the answer without a call. */
static void store_read_polled(void)
{
	uint64_t raised = 0;

	if (is(OWNER)) {
		usleep(20000);
		fill(shared->data, 5);
		pgas_store(&shared->counter, 1);
		pgas_wait_for(&shared->flag, 1);
	} else if (is(0)) {
		while (!raised)
			pgas_get(OWNER, &raised, &shared->counter, sizeof(raised));
		get(OWNER);
		pgas_put(OWNER, &shared->flag, &one, sizeof(one));
	}
}

/*
 * The owner's flag is read now and then, with other READs in between: that it orders what follows tells that it is one.  It was
 * read in vain before the owner raises it: of a single READ nobody could tell.
 */
static void store_read_once(void)
{
	volatile uint64_t *words = shared->data;
	uint64_t raised = 0, nothing;

	if (is(OWNER)) {
		if (words[5] + words[WORDS - 1])
			pgas_fail("it was there");
		pgas_wait_for(&shared->flag, 1);
		pgas_store(&shared->counter, 1);
	} else if (is(0)) {
		pgas_get(OWNER, &nothing, &shared->counter, sizeof(nothing));
		pgas_put(OWNER, &shared->flag, &one, sizeof(one));
		while (!raised) {
			pgas_get(OWNER, &nothing, &shared->port, sizeof(nothing));
			pgas_get(OWNER, &raised, &shared->counter, sizeof(raised));
		}
		put(OWNER);
	}
}

/* The pause makes it likely that the store comes first: then the trace does not suggest that it waits for the put. */
static void store_write_racing(void)
{
	if (is(OWNER))
		fill(shared->data, 5);
	usleep(20000);
	if (is(0))
		put(OWNER);
}

static void store_write_flag(void)
{
	if (is(0)) {
		put(OWNER);
		pgas_put(OWNER, &shared->flag, &one, sizeof(one));
	} else if (is(OWNER)) {
		pgas_wait_for(&shared->flag, 1);
		fill(shared->data, 5);
	}
}

static void gather_store_racing(void)
{
	if (is(0)) {
		pgas_start_put(OWNER, shared->data, mine, BYTES);
		mine[3] = 99;
	}
	pgas_quiet();
}

static void gather_store_completion(void)
{
	if (is(0)) {
		put(OWNER);
		mine[3] = 99;
	}
}

/* A message from rank 0 comes into a buffer to which rank 1 stores. */
static void receive(bool store_early)
{
	struct ibv_sge sge = {.addr = (uintptr_t)mine, .length = BYTES, .lkey = pgas.private.mr->lkey};
	struct ibv_recv_wr *bad_receive, receive = {.wr_id = OWN_REQUEST, .sg_list = &sge, .num_sge = 1};
	struct ibv_send_wr *bad_send, send = {
	    .wr_id = OWN_REQUEST, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	if (is(0)) {
		pgas_wait_for(&shared->flag, 1);
		if (ibv_post_send(pgas.peers[1].qp, &send, &bad_send))
			pgas_fail("cannot send");
		await_own();
	} else if (is(1)) {
		if (ibv_post_recv(pgas.peers[0].qp, &receive, &bad_receive))
			pgas_fail("cannot post a receive");
		/* Not pgas_put(): the message may complete before the WRITE, and the runtime would take its completion. */
		pgas_start_put(0, &shared->flag, &one, sizeof(one));
		if (store_early)
			mine[3] = 99;
		await_own();
		if (!store_early)
			mine[3] = 99;
	}
}

/* The message was sent long before: it waits for the receive. */
static void receive_store_posted(void)
{
	struct ibv_sge sge = {.addr = (uintptr_t)mine, .length = BYTES, .lkey = pgas.private.mr->lkey};
	struct ibv_recv_wr *bad_receive, receive = {.wr_id = OWN_REQUEST, .sg_list = &sge, .num_sge = 1};
	struct ibv_send_wr *bad_send, send = {
	    .wr_id = OWN_REQUEST, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	if (is(0) && ibv_post_send(pgas.peers[1].qp, &send, &bad_send))
		pgas_fail("cannot send");
	if (is(1)) {
		usleep(20000);
		mine[3] = 99;
		if (ibv_post_recv(pgas.peers[0].qp, &receive, &bad_receive))
			pgas_fail("cannot post a receive");
	}
	if (!is(OWNER))
		await_own();
}

static void receive_store_racing(void)
{
	receive(true);
}

static void receive_store_completion(void)
{
	receive(false);
}

static void scatter_store_racing(void)
{
	if (is(0)) {
		pgas_start_get(1, mine, shared->data, BYTES);
		mine[3] = 99;
	}
	pgas_quiet();
}

static void scatter_store_completion(void)
{
	if (is(0)) {
		get(1);
		mine[3] = 99;
	}
}

/* A load of what a READ is bringing. */
static void scatter_load(bool waits)
{
	volatile uint64_t *words = mine;
	uint64_t sum = 0;

	if (is(0)) {
		pgas_start_get(1, mine, shared->data, BYTES);
		if (waits)
			pgas_quiet();
		for (int i = 0; i < WORDS; i++)
			sum += words[i];
		other[0] = sum;
	}
	pgas_quiet();
}

static void scatter_load_racing(void)
{
	scatter_load(false);
}

static void scatter_load_completion(void)
{
	scatter_load(true);
}

/* A store that changes nothing is one all the same. */
static void gather_same_store_racing(void)
{
	volatile uint64_t *words = mine;

	if (is(0)) {
		pgas_start_put(OWNER, shared->data, mine, BYTES);
		words[3] = 1;
	}
	pgas_quiet();
}

static void store_write_barrier(void)
{
	if (is(OWNER))
		fill(shared->data, 5);
	pgas_barrier();
	if (is(0))
		put(OWNER);
}

static void store_read_flag(void)
{
	if (is(OWNER)) {
		fill(shared->data, 5);
		pgas_put(0, &shared->flag, &one, sizeof(one));
	} else if (is(0)) {
		pgas_wait_for(&shared->flag, 1);
		get(OWNER);
	}
}

const struct pgas_case stores_cases[] = {
    {"store-read-racing", store_read_racing},
    {"add-nothing-read", add_nothing_read},
    {"add-read-racing", add_read_racing},
    {"store-read-barrier", store_read_barrier},
    {"store-read-polled", store_read_polled},
    {"store-read-once", store_read_once},
    {"store-write-racing", store_write_racing},
    {"store-write-flag", store_write_flag},
    {"gather-store-racing", gather_store_racing},
    {"gather-store-completion", gather_store_completion},
    {"receive-store-racing", receive_store_racing},
    {"receive-store-completion", receive_store_completion},
    {"receive-store-posted", receive_store_posted},
    {"scatter-store-racing", scatter_store_racing},
    {"scatter-store-completion", scatter_store_completion},
    {"scatter-load-racing", scatter_load_racing},
    {"scatter-load-completion", scatter_load_completion},
    {"gather-same-store-racing", gather_same_store_racing},
    {"store-write-barrier", store_write_barrier},
    {"store-read-flag", store_read_flag},
    {0},
};
