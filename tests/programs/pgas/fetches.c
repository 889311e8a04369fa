/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fetches.c: small programs that synchronise by what they fetch into memory which peers can write, or by sockets of one
 * listener, for `sreplay races`.
 *
 *   fetches CASE [ROUNDS]
 *   fetches         lists the cases
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "pgas/internal.h"

#define BYTES 1024 /* more than are sent inline */
#define OWNER 2
#define SLOTS 16
#define SLOT  64

struct shared {
	char data[BYTES], mine[BYTES];
	uint64_t flag, fetched, polled, lock, port, taken, filled;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
};

static struct shared *shared;
static long rounds; /* 0: as many as the case has by itself */

static bool is(int rank)
{
	return pgas.rank == rank;
}

static void put(void)
{
	pgas_put(OWNER, shared->data, shared->mine, BYTES);
}

/* --------------------------------------------------------------- flags that READs poll */

/* A READ that finds the flag at once polls nothing: so the other one is awaited. */
static void raise_flag(void)
{
	pgas_wait_for(&shared->polled, 1);
	pgas_put(OWNER, &shared->flag, &(uint64_t){1}, 8);
}

static void poll_flag(void)
{
	bool told = false;

	for (;;) {
		pgas_get(OWNER, &shared->fetched, &shared->flag, 8);
		if (shared->fetched)
			return;
		if (!told)
			pgas_put(0, &shared->polled, &(uint64_t){1}, 8);
		told = true;
	}
}

static void read_flag(void)
{
	if (is(0)) {
		put();
		raise_flag();
	} else if (is(1)) {
		poll_flag();
		put();
	}
}

static void read_early_flag(void)
{
	if (is(0)) {
		raise_flag();
		put();
	} else if (is(1)) {
		poll_flag();
		put();
	}
}

/* ------------------------------------------------------------------------------- locks */

/* What it returned, in memory that peers can write. */
static uint64_t atomic(enum ibv_wr_opcode opcode, uint64_t *word, uint64_t compare_add, uint64_t swap)
{
	struct pgas_peer *peer = &pgas.peers[OWNER];
	struct ibv_sge sge = {.addr = (uintptr_t)&shared->fetched, .length = 8, .lkey = pgas.shared.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = OWNER,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.atomic = {.remote_addr = peer->base + (uint64_t)((char *)word - pgas.shared.base),
					       .rkey = peer->rkey,
					       .compare_add = compare_add,
					       .swap = swap}},
			   *bad;

	if (ibv_post_send(peer->qp, &wr, &bad))
		pgas_fail("cannot post");
	peer->posted++;
	pgas_quiet();
	return shared->fetched;
}

static uint64_t compare_and_swap(uint64_t expected, uint64_t wanted)
{
	return atomic(IBV_WR_ATOMIC_CMP_AND_SWP, &shared->lock, expected, wanted);
}

static void locked(void)
{
	if (is(OWNER))
		return;
	for (int i = 0; i < 20; i++) {
		while (compare_and_swap(0, 1 + (uint64_t)pgas.rank))
			;
		put();
		compare_and_swap(1 + (uint64_t)pgas.rank, 0);
	}
}

/* The lock is given back by a WRITE. */
static void locked_written(void)
{
	if (is(OWNER))
		return;
	for (int i = 0; i < 20; i++) {
		while (compare_and_swap(0, 1 + (uint64_t)pgas.rank))
			;
		put();
		pgas_put(OWNER, &shared->lock, &(uint64_t){0}, 8);
	}
}

/* -------------------------------------------------------------------------------- data */

/* What is fetched comes into memory that peers write, too, and a load finds it there. */
static void read_data(void)
{
	int from = (pgas.rank + 1) % pgas.ranks;
	uint64_t sum = 0;

	for (int round = 1; round <= (rounds ? rounds : 20); round++) {
		for (int i = 0; i < BYTES; i++)
			shared->mine[i] = (char)(i * round + pgas.rank);
		pgas_barrier();
		pgas_get(from, shared->data, shared->mine, BYTES);
		for (int i = 0; i < BYTES; i++)
			sum = sum * 31 + (uint8_t)shared->data[i];
		pgas_barrier();
	}
	printf("rank %d read %016llx\n", pgas.rank, (unsigned long long)sum);
}

/* Two READs into one place, of which the first is mostly polled when the second has landed over it. */
static void overlaid(void)
{
	int from = (pgas.rank + 1) % pgas.ranks;
	char *private = pgas_private(256);
	uint64_t sum = 0;

	for (int round = 1; round <= (rounds ? rounds : 20); round++) {
		char *into = round % 2 ? private : shared->data;

		for (int i = 0; i < 512; i++)
			shared->mine[i] = (char)(i * 7 + round * (i / 256 + 3) + pgas.rank);
		pgas_barrier();
		pgas_start_get(from, into, shared->mine, 256);
		pgas_start_get(from, into, shared->mine + 256, 256);
		pgas_quiet();
		for (int i = 0; i < 256; i++)
			sum = sum * 31 + (uint8_t)into[i];
		pgas_barrier();
	}
	printf("rank %d overlaid %016llx\n", pgas.rank, (unsigned long long)sum);
}

/* In turn, each rank fetches what the next one fetched before, changes some of it, and puts a part of it behind. */
static void relayed(void)
{
	int next = (pgas.rank + 1) % pgas.ranks;
	uint64_t sum = (uint64_t)pgas.rank;

	for (int round = 1; round <= (rounds ? rounds : 20); round++)
		for (int turn = 0; turn < pgas.ranks; turn++) {
			if (is(turn)) {
				pgas_get(next, shared->data, shared->data, BYTES);
				for (int i = 0; i < BYTES; i++)
					sum = sum * 31 + (uint8_t)shared->data[i];
				for (int i = 0; i < 40; i++)
					shared->data[(sum + (uint64_t)i * 8) % BYTES] = (char)(sum >> i);
				pgas_put(next, shared->mine, shared->data, 200);
				pgas_get(next, shared->data + 100, shared->mine + 50, 120);
			}
			pgas_barrier();
		}
	printf("rank %d relayed %016llx\n", pgas.rank, (unsigned long long)sum);
}

/* -------------------------------------------------------------------------- datagrams */

#define QKEY 0x1111
#define GRH 40

static struct ibv_qp *datagram_queue_pair(void)
{
	struct ibv_qp_init_attr a = {
	    .send_cq = pgas.cq, .recv_cq = ibv_create_cq(pgas.device, 16, NULL, NULL, 0), .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	struct ibv_qp *qp = ibv_create_qp(pgas.pd, &a);
	const struct ibv_qp_attr to[] = {{.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY},
					 {.qp_state = IBV_QPS_RTR},
					 {.qp_state = IBV_QPS_RTS}};
	const int mask[] = {IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY, IBV_QP_STATE,
			    IBV_QP_STATE | IBV_QP_SQ_PSN};

	for (int i = 0; qp && i < 3; i++)
		if (ibv_modify_qp(qp, (struct ibv_qp_attr *)&to[i], mask[i]))
			qp = NULL;
	if (!qp)
		pgas_fail("no queue pair for datagrams");
	return qp;
}

static void send_datagram(struct ibv_qp *qp, const char *bytes, uint32_t n, uint32_t to)
{
	struct ibv_ah_attr where = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 64}};
	struct ibv_sge sge = {(uintptr_t)bytes, n, pgas.shared.mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = (uint64_t)pgas.rank, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;

	ibv_query_gid(pgas.device, 1, 1, &where.grh.dgid);
	wr.wr.ud.ah = ibv_create_ah(pgas.pd, &where);
	wr.wr.ud.remote_qpn = to;
	wr.wr.ud.remote_qkey = QKEY;
	if (!wr.wr.ud.ah || ibv_post_send(qp, &wr, &bad))
		pgas_fail("cannot send a datagram");
	while (!ibv_poll_cq(pgas.cq, 1, &wc))
		;
}

/* Datagrams come into memory that peers write, too. */
static void datagrams(void)
{
	struct ibv_qp *qp = datagram_queue_pair();
	struct ibv_sge sge = {(uintptr_t)shared->data, 512, pgas.shared.mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};
	int next = (pgas.rank + 1) % pgas.ranks;
	uint64_t all[16], sum = 0;
	struct ibv_wc wc;

	pgas_gather(qp->qp_num, all);
	for (int round = 0; round < (rounds ? rounds : 10); round++) {
		if (ibv_post_recv(qp, &wr, &bad))
			pgas_fail("cannot receive");
		for (int i = 0; i < 256; i++)
			shared->mine[i] = (char)(i + round * pgas.rank);
		pgas_barrier();
		send_datagram(qp, shared->mine, 256, (uint32_t)all[next]);
		while (!ibv_poll_cq(qp->recv_cq, 1, &wc))
			;
		for (int i = 0; i < 256; i++)
			sum = sum * 31 + (uint8_t)shared->data[GRH + i];
		pgas_barrier();
	}
	printf("rank %d got %016llx\n", pgas.rank, (unsigned long long)sum);
}

/* The request itself lies in memory that peers write, and so does its list. */
static void put_by_shared_request(int rank, const void *from, uint32_t bytes)
{
	struct pgas_peer *peer = &pgas.peers[rank];
	struct ibv_send_wr *bad;

	shared->sge = (struct ibv_sge){.addr = (uintptr_t)from, .length = bytes, .lkey = pgas.shared.mr->lkey};
	shared->wr = (struct ibv_send_wr){
	    .wr_id = (uint64_t)rank,
	    .sg_list = &shared->sge,
	    .num_sge = 1,
	    .opcode = IBV_WR_RDMA_WRITE,
	    .send_flags = IBV_SEND_SIGNALED,
	    .wr.rdma = {.remote_addr = peer->base + (uint64_t)((char *)shared->data - pgas.shared.base), .rkey = peer->rkey},
	};
	if (ibv_post_send(peer->qp, &shared->wr, &bad))
		pgas_fail("cannot post");
	peer->posted++;
	pgas_quiet();
}

/*
 * Each rank's puts depend on all that entered it: times, what it added to, what it read, and what a load found.
 * A rank that has the CPU for long is through before the others begin, and finds nothing: now and then all meet.
 */
static void chain(void)
{
	int next = (pgas.rank + 1) % pgas.ranks;
	uint64_t *mine = (uint64_t *)shared->mine, *from = pgas_private(8), found;
	struct timespec now;

	for (int round = 0; round < (rounds ? rounds : 200); round++) {
		if (round % 20 == 0)
			pgas_barrier();
		clock_gettime(CLOCK_REALTIME, &now);
		*mine = *mine * 31 + (uint64_t)now.tv_nsec;
		*mine = *mine * 31 + pgas_fetch_add(OWNER, &shared->lock, 3);
		pgas_get(next, from, &shared->fetched, 8);
		memcpy(&found, shared->data, 8);
		*mine = *mine * 31 + *from + found;
		shared->fetched = *mine;
		put_by_shared_request(next, mine, 64);
	}
	pgas_barrier();
	printf("rank %d has %016llx\n", pgas.rank, (unsigned long long)*mine);
}

/* All ranks change two words of one rank by atomics and puts without an order, and READ both, and perhaps what is behind them. */
static void contended_by(int bytes)
{
	uint64_t *pair = pgas_private(bytes), sum = (uint64_t)pgas.rank * 0x9e3779b97f4a7c15ull + 1;

	for (int round = 0; round < (rounds ? rounds : 200); round++) {
		sum = sum * 31 + pgas_fetch_add(OWNER, &shared->lock, sum | 1ull << 63);
		pgas_put(OWNER, &shared->lock + 1, &sum, 8);
		pgas_get(OWNER, pair, &shared->lock, bytes);
		sum = sum * 31 + pair[0] + 7 * pair[1];
		if (is(OWNER))
			sum += pgas_load(&shared->lock) + pgas_load(&shared->lock + 1);
	}
	pgas_barrier();
	printf("rank %d has %016llx\n", pgas.rank, (unsigned long long)sum);
}

static void contended(void)
{
	contended_by(16);
}

static void contended_wide(void)
{
	contended_by(64);
}

/* All ranks claim the same slots of one rank by compare-swaps, without an order, and READ them. */
static void claimed(void)
{
	uint64_t *slots = (uint64_t *)shared->data, *slot = pgas_private(16), sum = (uint64_t)pgas.rank + 1;

	for (int i = 0; i < BYTES / 16; i++) {
		if (pgas_compare_swap(OWNER, &slots[2 * i], 0, sum | 1) == 0)
			pgas_put(OWNER, &slots[2 * i + 1], &sum, 8);
		pgas_get(OWNER, slot, &slots[2 * i], 16);
		sum = sum * 31 + slot[0] + 7 * slot[1];
	}
	pgas_barrier();
	printf("rank %d has %016llx\n", pgas.rank, (unsigned long long)sum);
}

/* All ranks put the same two words of one rank without an order, and READ both. */
static void overwritten(void)
{
	uint64_t *pair = pgas_private(16), sum[2] = {(uint64_t)pgas.rank + 1, 0};

	for (int round = 0; round < (rounds ? rounds : 200); round++) {
		sum[1] = sum[0] * 0x9e3779b97f4a7c15ull;
		pgas_put(OWNER, &shared->lock, sum, 16);
		pgas_get(OWNER, pair, &shared->lock, 16);
		sum[0] = sum[0] * 31 + pair[0] + 7 * pair[1];
	}
	pgas_barrier();
	printf("rank %d has %016llx\n", pgas.rank, (unsigned long long)sum[0]);
}

/* Each rank puts its own word of one rank's, and READs all of them, without an order. */
static void board(void)
{
	uint64_t *all = pgas_private(BYTES), *words = (uint64_t *)shared->data, sum = 1;

	for (int round = 0; round < (rounds ? rounds : 200); round++) {
		sum = sum * 31 + (uint64_t)round;
		pgas_put(OWNER, &words[pgas.rank], &sum, 8);
		pgas_get(OWNER, all, words, 256);
		for (int i = 0; i < pgas.ranks; i++)
			sum = sum * 31 + all[i];
	}
	pgas_barrier();
	printf("rank %d has %016llx\n", pgas.rank, (unsigned long long)sum);
}

/* Each rank fills memory that peers may write, so that its pages are passed through, and sends from there. */
static void stored(void)
{
	int next = (pgas.rank + 1) % pgas.ranks;
	uint64_t *area = pgas_shared(8192), sum = (uint64_t)pgas.rank;

	for (int round = 0; round < (rounds ? rounds : 30); round++) {
		for (uint64_t i = 0; i < 1024; i++)
			((volatile uint64_t *)area)[i] = sum * (i + 3);
		pgas_put(next, shared->data, area + 400, BYTES);
		pgas_barrier();
		for (int i = 0; i < BYTES; i++)
			sum = sum * 31 + (uint8_t)shared->data[i];
	}
	printf("rank %d has %016llx\n", pgas.rank, (unsigned long long)sum);
}

/* ----------------------------------------------------------------------------- sockets */

static int make_listener(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) || listen(fd, 2) ||
	    getsockname(fd, (struct sockaddr *)&at, &size))
		pgas_fail("cannot listen");
	for (int i = 1; i < pgas.ranks; i++)
		pgas_put(i, &shared->port, &(uint64_t){at.sin_port}, 8);
	return fd;
}

static void get(int fd, char *byte)
{
	if (read(fd, byte, 1) != 1)
		pgas_fail("cannot read");
}

static void give(int fd, char byte)
{
	if (write(fd, &byte, 1) != 1)
		pgas_fail("cannot write");
}

/* Rank 0 does not ask whose connections it accepts: they say so. */
static void listener(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = is(0) ? make_listener() : -1, of[3] = {0};
	char byte;

	pgas_barrier();
	if (is(0)) {
		for (int i = 0; i < 2; i++) {
			int next = accept(fd, NULL, NULL);

			get(next, &byte);
			of[(int)byte] = next;
		}
		get(of[1], &byte);
		give(of[OWNER], byte);
		return;
	}
	fd = socket(AF_INET, SOCK_STREAM, 0);
	at.sin_port = (in_port_t)shared->port;
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)))
		pgas_fail("cannot connect");
	give(fd, (char)pgas.rank);
	if (is(1)) {
		put();
		give(fd, 7);
	} else {
		get(fd, &byte);
		shared->mine[0] = shared->data[3];
	}
}

/* ------------------------------------------------------------------------ slots */

/* Rank 0 takes slots by one counter of the owner, and says by another one how many it has filled. */
static void fill_slots(void)
{
	for (uint64_t i = 0; i < SLOTS; i++) {
		const uint64_t slot = atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, &shared->taken, 1, 0);

		memset(shared->mine, 1 + (int)slot, SLOT);
		pgas_put(OWNER, shared->data + slot * SLOT, shared->mine, SLOT);
		atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, &shared->filled, 1, 0);
	}
}

static void read_slots(const uint64_t *counter)
{
	for (uint64_t i = 0; i < SLOTS; i++) {
		pgas_wait_for(counter, i + 1);
		shared->fetched += pgas_load((const uint64_t *)(shared->data + i * SLOT));
	}
}

static void slots(void)
{
	if (is(0))
		fill_slots();
	else if (is(OWNER))
		read_slots(&shared->filled);
}

/* The owner looks at what is taken. */
static void slots_early(void)
{
	if (is(0))
		fill_slots();
	else if (is(OWNER))
		read_slots(&shared->taken);
}

/* ------------------------------------------------------------------------ all */

static const struct pgas_case cases[] = {
    {"read-flag", read_flag}, {"read-early-flag", read_early_flag}, {"locked", locked},
    {"locked-written", locked_written}, {"read-data", read_data}, {"relayed", relayed}, {"overlaid", overlaid}, {"chain", chain}, {"contended", contended}, {"contended-wide", contended_wide}, {"claimed", claimed}, {"overwritten", overwritten}, {"board", board}, {"stored", stored},
    {"datagrams", datagrams}, {"listener", listener}, {"slots", slots}, {"slots-early", slots_early},
};

int main(int argc, char **argv)
{
	const struct pgas_case *chosen = pgas_case(argc, argv, cases, sizeof(cases) / sizeof(*cases));

	rounds = pgas_argument(argc, argv, 2, 0, 0, "fetches CASE [ROUNDS]");
	pgas_start(sizeof(*shared) + 65536, 65536);
	shared = pgas_shared(sizeof(*shared));
	memset(shared->mine, pgas.rank, BYTES);
	pgas_barrier();
	chosen->run();
	pgas_barrier();
	return pgas_end(pgas_result(true, "%s", argv[1]));
}
