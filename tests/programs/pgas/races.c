/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * races.c: small programs, each with a race or without, for `sreplay races`.
 *
 *   races CASE
 *   races             lists the cases
 *
 * Ranks 0 and 1 access the memory of rank 2, or each other's.  In the name of a case is what comes between the two
 * accesses: "racing" is nothing that orders them.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pgas/internal.h"

#define WORDS 128 /* more than are sent inline */
#define BYTES (WORDS * sizeof(uint64_t))
#define OWNER 2

struct shared {
	uint64_t data[WORDS];
	uint64_t flag, counter, port;
	struct pgas_lock lock;
};

static struct shared *shared;
static uint64_t *mine, *other; /* private: WORDS each */
static uint64_t one = 1;

static void fill(uint64_t *words, uint64_t value)
{
	for (int i = 0; i < WORDS; i++)
		words[i] = value;
}

static void put(int rank)
{
	pgas_put(rank, shared->data, mine, BYTES);
}

static void get(int rank)
{
	pgas_get(rank, mine, shared->data, BYTES);
}

/* Tells rank 1 that rank 0 has come here. */
static void raise_flag(void)
{
	pgas_put(1, &shared->flag, &one, sizeof(one));
}

static bool is(int rank)
{
	return pgas.rank == rank;
}

/* ---------------------------------------------------------------- two writes */

static void write_write_racing(void)
{
	if (is(0) || is(1))
		put(OWNER);
}

static void write_write_barrier(void)
{
	if (is(0))
		put(OWNER);
	pgas_barrier();
	if (is(1))
		put(OWNER);
}

static void write_write_flag(void)
{
	if (is(0)) {
		put(OWNER);
		raise_flag();
	} else if (is(1)) {
		pgas_wait_for(&shared->flag, 1);
		put(OWNER);
	}
}

/* The flag goes to another rank than the data, whose completion nobody awaits. */
static void write_write_early_flag(void)
{
	if (is(0)) {
		pgas_start_put(OWNER, shared->data, mine, BYTES);
		raise_flag();
	} else if (is(1)) {
		pgas_wait_for(&shared->flag, 1);
		put(OWNER);
	}
	pgas_quiet();
}

static void write_write_counter(void)
{
	if (is(0)) {
		put(OWNER);
		pgas_fetch_add(OWNER, &shared->counter, 1);
	} else if (is(1)) {
		while (!pgas_fetch_add(OWNER, &shared->counter, 0))
			;
		put(OWNER);
	}
}

static void write_write_late_counter(void)
{
	if (is(0)) {
		pgas_fetch_add(OWNER, &shared->counter, 1);
		put(OWNER);
	} else if (is(1)) {
		while (!pgas_fetch_add(OWNER, &shared->counter, 0))
			;
		put(OWNER);
	}
}

static void write_write_lock(void)
{
	if (is(OWNER))
		return;
	pgas_lock(OWNER, &shared->lock);
	put(OWNER);
	pgas_unlock(OWNER, &shared->lock);
}

/* Only who had the lock first puts the two in order. */
static void write_write_beside_locks(void)
{
	if (is(0))
		put(OWNER);
	if (is(1))
		usleep(50000);
	if (!is(OWNER)) {
		pgas_lock(OWNER, &shared->lock);
		pgas_unlock(OWNER, &shared->lock);
	}
	if (is(1))
		put(OWNER);
}

/* Rank 1 goes on when rank 0 has had the lock, which it finds in what the lock protects. */
static void write_write_lock_value(void)
{
	uint64_t found = 0;

	if (is(0)) {
		pgas_lock(OWNER, &shared->lock);
		pgas_put(OWNER, &shared->counter, &one, sizeof(one));
		put(OWNER);
		pgas_unlock(OWNER, &shared->lock);
	}
	while (is(1) && !found) {
		pgas_lock(OWNER, &shared->lock);
		pgas_get(OWNER, &found, &shared->counter, sizeof(found));
		pgas_unlock(OWNER, &shared->lock);
	}
	if (is(1))
		put(OWNER);
}

static void write_write_same_value(void)
{
	fill(mine, 7);
	if (is(0) || is(1))
		put(OWNER);
}

static void write_write_other_words(void)
{
	if (is(0) || is(1))
		pgas_put(OWNER, &shared->data[pgas.rank * WORDS / 2], mine, BYTES / 2);
}

static void write_write_pipelined(void)
{
	if (is(0)) {
		pgas_start_put(OWNER, shared->data, mine, BYTES);
		pgas_start_put(OWNER, shared->data, other, BYTES);
	}
	pgas_quiet();
}

/* ------------------------------------------------------------------- sockets */

static int make_listener(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	uint64_t port;

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)&at, &size))
		pgas_fail("cannot listen");
	port = at.sin_port;
	pgas_put(0, &shared->port, &port, sizeof(port));
	return fd;
}

/* A connection between ranks 0 and 1; -1 in the others. */
static int meet(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = is(1) ? make_listener() : -1, fd = -1;

	pgas_barrier();
	if (is(0)) {
		at.sin_port = (in_port_t)pgas_load(&shared->port);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)))
			pgas_fail("cannot connect");
	} else if (is(1)) {
		fd = accept(listener, NULL, NULL);
	}
	pgas_barrier();
	return fd;
}

static void write_write_socket(void)
{
	char byte = 1;
	int fd = meet();

	if (is(0)) {
		put(OWNER);
		if (write(fd, &byte, 1) != 1)
			pgas_fail("cannot write");
	} else if (is(1)) {
		if (read(fd, &byte, 1) != 1)
			pgas_fail("cannot read");
		put(OWNER);
	}
}

static void write_write_early_socket(void)
{
	char byte = 1;
	int fd = meet();

	if (is(0)) {
		if (write(fd, &byte, 1) != 1)
			pgas_fail("cannot write");
		put(OWNER);
	} else if (is(1)) {
		if (read(fd, &byte, 1) != 1)
			pgas_fail("cannot read");
		put(OWNER);
	}
}

/* ---------------------------------------------------------- a write and a read */

static void write_read_racing(void)
{
	if (is(0))
		put(OWNER);
	else if (is(1))
		get(OWNER);
}

static void write_read_barrier(void)
{
	write_read_racing();
	pgas_barrier();
	if (is(0))
		get(OWNER);
}

static void write_read_ordered(void)
{
	if (is(0))
		put(OWNER);
	pgas_barrier();
	if (is(1))
		get(OWNER);
}

static void read_read(void)
{
	if (is(0) || is(1))
		get(OWNER);
}

/* -------------------------------------------------------------------- atomics */

static void atomic_atomic(void)
{
	pgas_fetch_add(OWNER, &shared->counter, 1);
}

static void atomic_write(void)
{
	if (is(0))
		pgas_fetch_add(OWNER, &shared->counter, 1);
	else if (is(1))
		pgas_put(OWNER, &shared->counter, &one, sizeof(one));
}

static void atomic_read_ordered(void)
{
	uint64_t value;

	if (is(0))
		pgas_fetch_add(OWNER, &shared->counter, 1);
	pgas_barrier();
	if (is(1))
		pgas_get(OWNER, &value, &shared->counter, sizeof(value));
}

/* ---------------------------------------------------------------------- loads */

/* So that the load finds something new: it waits for the data's last word only. */
static void load_racing(void)
{
	struct pgas_patience patience = {0};

	if (is(0))
		put(OWNER);
	/* Not the last word, which may be a flag. */
	while (is(OWNER) && !pgas_load(&shared->data[WORDS / 2]))
		pgas_relax(&patience);
}

static void load_barrier(void)
{
	if (is(0))
		put(OWNER);
	pgas_barrier();
	if (is(OWNER) && !pgas_load(&shared->data[0]))
		pgas_fail("it is not there");
}

static void load_flag(void)
{
	if (is(0)) {
		pgas_start_put(OWNER, shared->data, mine, BYTES);
		pgas_start_put(OWNER, &shared->flag, &one, sizeof(one));
	} else if (is(OWNER)) {
		pgas_wait_for(&shared->flag, 1);
		if (!pgas_load(&shared->data[0]))
			pgas_fail("it is not there");
	}
	pgas_quiet();
}

/* One put, and the owner waits for this word of it. */
static void load_word(size_t waits_for)
{
	usleep(is(0) ? 20000 : 0);
	if (is(0)) {
		put(OWNER);
	} else if (is(OWNER)) {
		pgas_wait_for(&shared->data[waits_for], 1);
		other[0] = pgas_load(&shared->data[WORDS / 2]);
	}
}

/* Data comes in ascending order: who sees its end sees all of it. */
static void load_tail_flag(void)
{
	load_word(WORDS - 1);
}

static void load_head_flag(void)
{
	load_word(0);
}

/* The load comes first: it finds nothing new, and no recording has it. */
static void load_early_racing(void)
{
	volatile uint64_t *words = shared->data;

	if (is(OWNER) && words[5] + words[WORDS - 1])
		pgas_fail("it was there");
	usleep(20000);
	if (is(0))
		put(OWNER);
}

/* A word that nobody waits for, loaded in two places: that the first load orders the second one does not make it a flag. */
static void load_twice_racing(void)
{
	volatile uint64_t *word = &shared->flag;
	uint64_t sum;

	if (is(0))
		pgas_put(OWNER, &shared->flag, &one, sizeof(one));
	if (!is(OWNER))
		return;
	usleep(20000);
	sum = *word;
	sum += *word;
	if (sum > 2)
		pgas_fail("nobody has written that");
}

/* The same, with a message after it. */
static void load_early_flag(void)
{
	volatile uint64_t *words = shared->data;

	if (is(OWNER)) {
		if (words[5] + words[WORDS - 1])
			pgas_fail("it was there");
		pgas_put(0, &shared->flag, &one, sizeof(one));
	} else if (is(0)) {
		pgas_wait_for(&shared->flag, 1);
		put(OWNER);
	}
}

/* Many loads of one page, which is shown as a snapshot: a flag that came with it, and what it promises. */
static void load_snapshot_flag(void)
{
	volatile uint64_t *words = shared->data;
	uint64_t sum = 0;

	if (is(0)) {
		pgas_start_put(OWNER, shared->data, mine, BYTES);
		pgas_start_put(OWNER, &shared->flag, &one, sizeof(one));
	}
	pgas_quiet();
	pgas_barrier();
	for (int i = 0; is(OWNER) && pgas_load(&shared->flag) && i < WORDS; i++)
		sum += words[i];
	if (is(OWNER) && sum != WORDS)
		pgas_fail("it is not there");
}

/* ------------------------------------------------------------- one queue pair */

static void post(enum ibv_wr_opcode opcode, uint64_t *local, unsigned int flags)
{
	struct pgas_peer *peer = &pgas.peers[OWNER];
	struct ibv_sge sge = {.addr = (uintptr_t)local, .length = BYTES, .lkey = pgas.private.mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = OWNER,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = opcode,
				       .send_flags = IBV_SEND_SIGNALED | flags,
				       .wr.rdma = {.remote_addr = peer->base + (uint64_t)((char *)shared->data -
											   pgas.shared.base),
						   .rkey = peer->rkey}};

	if (ibv_post_send(peer->qp, &wr, &bad))
		pgas_fail("cannot post");
	peer->posted++;
}

static void read_then_write(unsigned int flags, bool waits)
{
	if (is(0)) {
		post(IBV_WR_RDMA_READ, mine, 0);
		if (waits)
			pgas_quiet();
		post(IBV_WR_RDMA_WRITE, other, flags);
	}
	pgas_quiet();
}

static void fence_missing(void)
{
	read_then_write(0, false);
}

static void fence_there(void)
{
	read_then_write(IBV_SEND_FENCE, false);
}

static void fence_completion(void)
{
	read_then_write(0, true);
}

/* ------------------------------------------------------------ requests' buffers */

static void gather_racing(void)
{
	if (is(0)) {
		pgas_start_put(OWNER, shared->data, mine, BYTES);
		pgas_start_get(1, mine, shared->data, BYTES);
	}
	pgas_quiet();
}

static void gather_completion(void)
{
	if (is(0)) {
		put(OWNER);
		get(1);
	}
}

static void scatter_racing(void)
{
	if (is(0)) {
		pgas_start_get(1, mine, shared->data, BYTES);
		pgas_start_get(OWNER, mine, shared->data, BYTES);
	}
	pgas_quiet();
}

static void scatter_completion(void)
{
	if (is(0)) {
		get(1);
		get(OWNER);
	}
}

/* Instructions that load and compute at once. */
static void add_up(void)
{
	const double *numbers = (const double *)shared->data;
	volatile double sum;
	double all = 0;

	for (int i = 0; i < WORDS; i++)
		all += numbers[i];
	sum = all;
	(void)sum;
}

static void load_sum_racing(void)
{
	if (is(0))
		pgas_put(1, &shared->data[WORDS / 2], mine, BYTES / 2);
	else if (is(1))
		add_up();
}

static void load_sum_barrier(void)
{
	if (is(0))
		pgas_put(1, &shared->data[WORDS / 2], mine, BYTES / 2);
	pgas_barrier();
	if (is(1))
		add_up();
}

/* A peer writes to what is being sent on. */
static void gather_write(void)
{
	if (is(0))
		put(1);
	else if (is(1))
		pgas_start_put(OWNER, shared->data, shared->data, BYTES);
	pgas_quiet();
}

/* What is sent inline is read when it is posted: a load of a word that a peer writes, and no request is under way. */
static void inline_write(void)
{
	if (is(0))
		pgas_put(1, shared->data, mine, sizeof(uint64_t));
	else if (is(1))
		pgas_start_put(OWNER, &shared->data[1], shared->data, sizeof(uint64_t));
	pgas_quiet();
}

/* --------------------------------------------------------------------- stores */

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

/* The owner's flag is read now and then, with other READs in between: that it orders what follows tells that it is one. */
static void store_read_once(void)
{
	volatile uint64_t *words = shared->data;
	uint64_t raised = 0, nothing;

	if (is(OWNER)) {
		if (words[5] + words[WORDS - 1])
			pgas_fail("it was there");
		usleep(20000);
		pgas_store(&shared->counter, 1);
	} else if (is(0)) {
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

/* The wr_id of requests of this program; those of the runtime have their peer's number. */
#define OWN_REQUEST 1000u

/* Until this program's own request has completed; the runtime counts the completions of its own. */
static void await_own(void)
{
	struct ibv_wc wc;

	for (;;) {
		if (!ibv_poll_cq(pgas.cq, 1, &wc))
			continue;
		if (wc.wr_id == OWN_REQUEST)
			return;
		pgas.peers[wc.wr_id].done++;
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

/* ------------------------------------------- a write, a sign, and what waits for it */

static void wait_for_counter(void)
{
	while (!pgas_fetch_add(OWNER, &shared->counter, 0))
		;
}

static void write_read_flag(void)
{
	if (is(0)) {
		put(OWNER);
		raise_flag();
	} else if (is(1)) {
		pgas_wait_for(&shared->flag, 1);
		get(OWNER);
	}
}

static void write_read_early_flag(void)
{
	if (is(0)) {
		pgas_start_put(OWNER, shared->data, mine, BYTES);
		raise_flag();
	} else if (is(1)) {
		pgas_wait_for(&shared->flag, 1);
		get(OWNER);
	}
	pgas_quiet();
}

static void write_read_counter(void)
{
	if (is(0)) {
		put(OWNER);
		pgas_fetch_add(OWNER, &shared->counter, 1);
	} else if (is(1)) {
		wait_for_counter();
		get(OWNER);
	}
}

static void write_read_late_counter(void)
{
	if (is(0)) {
		pgas_fetch_add(OWNER, &shared->counter, 1);
		put(OWNER);
	} else if (is(1)) {
		wait_for_counter();
		get(OWNER);
	}
}

static void write_read_lock(void)
{
	if (is(OWNER))
		return;
	pgas_lock(OWNER, &shared->lock);
	if (is(0))
		put(OWNER);
	else
		get(OWNER);
	pgas_unlock(OWNER, &shared->lock);
}

static void atomic_write_barrier(void)
{
	if (is(0))
		pgas_fetch_add(OWNER, &shared->counter, 1);
	pgas_barrier();
	if (is(1))
		pgas_put(OWNER, &shared->counter, &one, sizeof(one));
}

static void atomic_write_flag(void)
{
	if (is(0)) {
		pgas_fetch_add(OWNER, &shared->counter, 1);
		raise_flag();
	} else if (is(1)) {
		pgas_wait_for(&shared->flag, 1);
		pgas_put(OWNER, &shared->counter, &one, sizeof(one));
	}
}

static void load_counter(void)
{
	if (is(0)) {
		put(OWNER);
		pgas_fetch_add(OWNER, &shared->counter, 1);
	} else if (is(OWNER)) {
		wait_for_counter();
		if (!pgas_load(&shared->data[0]))
			pgas_fail("it is not there");
	}
}

/* The counter has its value when it is looked at: no load of it waits. */
static void load_late_counter(void)
{
	if (is(0)) {
		pgas_fetch_add(OWNER, &shared->counter, 1);
	} else if (is(OWNER)) {
		usleep(50000);
		while (!pgas_load(&shared->counter))
			;
	}
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

/* Rank 1 loads from its own memory. */
static void load_socket(void)
{
	char byte = 1;
	int fd = meet();

	if (is(0)) {
		put(1);
		if (write(fd, &byte, 1) != 1)
			pgas_fail("cannot write");
	} else if (is(1)) {
		if (read(fd, &byte, 1) != 1)
			pgas_fail("cannot read");
		if (!pgas_load(&shared->data[0]))
			pgas_fail("it is not there");
	}
}

static void load_early_socket(void)
{
	char byte = 1;
	int fd = meet();

	if (is(0)) {
		if (write(fd, &byte, 1) != 1)
			pgas_fail("cannot write");
		put(1);
	} else if (is(1)) {
		if (read(fd, &byte, 1) != 1)
			pgas_fail("cannot read");
		other[0] = pgas_load(&shared->data[0]);
	}
}

static void write_read_socket(void)
{
	char byte = 1;
	int fd = meet();

	if (is(0)) {
		put(OWNER);
		if (write(fd, &byte, 1) != 1)
			pgas_fail("cannot write");
	} else if (is(1)) {
		if (read(fd, &byte, 1) != 1)
			pgas_fail("cannot read");
		get(OWNER);
	}
}

static void write_read_early_socket(void)
{
	char byte = 1;
	int fd = meet();

	if (is(0)) {
		if (write(fd, &byte, 1) != 1)
			pgas_fail("cannot write");
		put(OWNER);
	} else if (is(1)) {
		if (read(fd, &byte, 1) != 1)
			pgas_fail("cannot read");
		get(OWNER);
	}
}

/* ------------------------------------------------------------------------ all */

static const struct pgas_case cases[] = {
    {"write-write-racing", write_write_racing},
    {"write-write-barrier", write_write_barrier},
    {"write-write-flag", write_write_flag},
    {"write-write-early-flag", write_write_early_flag},
    {"write-write-counter", write_write_counter},
    {"write-write-late-counter", write_write_late_counter},
    {"write-write-lock", write_write_lock},
    {"load-sum-racing", load_sum_racing},
    {"load-sum-barrier", load_sum_barrier},
    {"write-write-beside-locks", write_write_beside_locks},
    {"write-write-lock-value", write_write_lock_value},
    {"write-write-same-value", write_write_same_value},
    {"write-write-other-words", write_write_other_words},
    {"write-write-pipelined", write_write_pipelined},
    {"write-write-socket", write_write_socket},
    {"write-write-early-socket", write_write_early_socket},
    {"write-read-racing", write_read_racing},
    {"write-read-barrier", write_read_barrier},
    {"write-read-ordered", write_read_ordered},
    {"read-read", read_read},
    {"atomic-atomic", atomic_atomic},
    {"atomic-write", atomic_write},
    {"atomic-read-ordered", atomic_read_ordered},
    {"load-racing", load_racing},
    {"load-barrier", load_barrier},
    {"load-flag", load_flag},
    {"load-tail-flag", load_tail_flag},
    {"load-head-flag", load_head_flag},
    {"load-early-racing", load_early_racing},
    {"load-twice-racing", load_twice_racing},
    {"load-early-flag", load_early_flag},
    {"load-snapshot-flag", load_snapshot_flag},
    {"fence-missing", fence_missing},
    {"fence-there", fence_there},
    {"fence-completion", fence_completion},
    {"gather-racing", gather_racing},
    {"gather-completion", gather_completion},
    {"gather-write", gather_write},
    {"inline-write", inline_write},
    {"scatter-racing", scatter_racing},
    {"scatter-completion", scatter_completion},
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
    {"write-read-flag", write_read_flag},
    {"write-read-early-flag", write_read_early_flag},
    {"write-read-counter", write_read_counter},
    {"write-read-late-counter", write_read_late_counter},
    {"write-read-lock", write_read_lock},
    {"atomic-write-barrier", atomic_write_barrier},
    {"atomic-write-flag", atomic_write_flag},
    {"load-counter", load_counter},
    {"load-late-counter", load_late_counter},
    {"store-write-barrier", store_write_barrier},
    {"store-read-flag", store_read_flag},
    {"load-socket", load_socket},
    {"load-early-socket", load_early_socket},
    {"write-read-socket", write_read_socket},
    {"write-read-early-socket", write_read_early_socket},
};

int main(int argc, char **argv)
{
	const struct pgas_case *chosen = pgas_case(argc, argv, cases, sizeof(cases) / sizeof(*cases));

	pgas_start(sizeof(*shared) + 65536, 65536);
	shared = pgas_shared(sizeof(*shared));
	mine = pgas_private(BYTES);
	other = pgas_private(BYTES);
	fill(mine, 1 + (uint64_t)pgas.rank);
	fill(other, 100 + (uint64_t)pgas.rank);
	pgas_barrier();
	chosen->run();
	pgas_barrier();
	return pgas_end(pgas_result(true, "%s", argv[1]));
}
