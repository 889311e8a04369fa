/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * transfer.c: puts, gets and atomics as work requests, and their completions.
 *
 * Every request is signaled, and the completion queue has room for all pending requests. The
 * requests of a connection complete in order, so two counters per connection show which are done.
 */
#include <string.h>

#include "internal.h"

#define POLL_BATCH 16 /* completions taken at once */

static void poll_completions(void)
{
	struct ibv_wc wc[POLL_BATCH];
	int n = ibv_poll_cq(pgas.cq, POLL_BATCH, wc);

	if (n < 0)
		pgas_fail("cannot poll for completions");
	for (int i = 0; i < n; i++) {
		if (wc[i].wr_id >= (uint64_t)pgas.ranks)
			pgas_fail("a completion of the program's own request %d came to the runtime", (int)wc[i].wr_id);
		if (wc[i].status != IBV_WC_SUCCESS)
			pgas_fail("a transfer to rank %d failed: %s", (int)wc[i].wr_id,
				  ibv_wc_status_str(wc[i].status));
		pgas.peers[wc[i].wr_id].done++;
	}
}

/* Waits until at most `pending` of the peer's requests are pending. */
static void drain(struct pgas_peer *peer, uint64_t pending)
{
	struct pgas_patience patience = {0};

	while (peer->posted - peer->done > pending) {
		poll_completions();
		if (peer->posted - peer->done > pending)
			pgas_relax(&patience);
	}
}

static uint64_t remote_address(const struct pgas_peer *peer, const void *shared)
{
	if (!pgas_inside(&pgas.shared, shared))
		pgas_fail("%p is not shared", shared);
	return peer->base + (uint64_t)((const char *)shared - pgas.shared.base);
}

static uint32_t local_key(const void *local)
{
	if (pgas_inside(&pgas.private, local))
		return pgas.private.mr->lkey;
	if (pgas_inside(&pgas.shared, local))
		return pgas.shared.mr->lkey;
	pgas_fail("%p is neither shared nor private memory of the runtime", local);
}

static void post(int rank, struct ibv_send_wr *wr)
{
	struct pgas_peer *peer = &pgas.peers[rank];
	struct ibv_send_wr *bad;

	if (peer->posted - peer->done == PGAS_DEPTH)
		drain(peer, PGAS_DEPTH - 1);
	wr->wr_id = (uint64_t)rank;
	wr->send_flags |= IBV_SEND_SIGNALED;
	if (ibv_post_send(peer->qp, wr, &bad))
		pgas_fail("cannot post to rank %d", rank);
	peer->posted++;
}

static void post_put(int rank, void *shared, const void *local, size_t bytes, bool copied)
{
	struct ibv_sge sge = {.addr = (uintptr_t)local, .length = (uint32_t)bytes};
	struct ibv_send_wr wr = {
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = IBV_WR_RDMA_WRITE,
	    .send_flags = copied ? IBV_SEND_INLINE : 0,
	    .wr.rdma = {.remote_addr = remote_address(&pgas.peers[rank], shared),
			.rkey = pgas.peers[rank].rkey}};

	if (!copied)
		sge.lkey = local_key(local);
	post(rank, &wr);
	pgas.puts++;
	pgas.bytes += bytes;
}

static void post_get(int rank, void *local, const void *shared, size_t bytes)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)local, .length = (uint32_t)bytes, .lkey = local_key(local)};
	struct ibv_send_wr wr = {
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = IBV_WR_RDMA_READ,
	    .wr.rdma = {.remote_addr = remote_address(&pgas.peers[rank], shared),
			.rkey = pgas.peers[rank].rkey}};

	post(rank, &wr);
	pgas.gets++;
	pgas.bytes += bytes;
}

void pgas_start_put(int rank, void *shared, const void *local, size_t bytes)
{
	post_put(rank, shared, local, bytes, bytes <= pgas.max_inline);
}

void pgas_start_get(int rank, void *local, const void *shared, size_t bytes)
{
	post_get(rank, local, shared, bytes);
}

void pgas_quiet(void)
{
	for (int i = 0; i < pgas.ranks; i++)
		drain(&pgas.peers[i], 0);
}

static bool registered(const void *local)
{
	return pgas_inside(&pgas.private, local) || pgas_inside(&pgas.shared, local);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

void pgas_put(int rank, void *shared, const void *local, size_t bytes)
{
	const char *from = local;
	char *to = shared;
	size_t n;

	for (; bytes; bytes -= n, from += n, to += n) {
		if (bytes <= pgas.max_inline || registered(from)) {
			n = bytes;
			pgas_start_put(rank, to, from, n);
		} else {
			n = least(bytes, PGAS_STAGING);
			memcpy(pgas.staging, from, n);
			pgas_start_put(rank, to, pgas.staging, n);
		}
		drain(&pgas.peers[rank], 0);
	}
}

void pgas_get(int rank, void *local, const void *shared, size_t bytes)
{
	const char *from = shared;
	char *to = local;
	size_t n;

	for (; bytes; bytes -= n, from += n, to += n) {
		bool direct = registered(to);

		n = direct ? bytes : least(bytes, PGAS_STAGING);
		post_get(rank, direct ? to : pgas.staging, from, n);
		drain(&pgas.peers[rank], 0);
		if (!direct)
			memcpy(to, pgas.staging, n);
	}
}

static uint64_t atomic(int rank, uint64_t *shared, enum ibv_wr_opcode opcode, uint64_t compare_add,
		       uint64_t swap)
{
	struct ibv_sge sge = {.addr = (uintptr_t)pgas.atomic_result,
			      .length = sizeof(uint64_t),
			      .lkey = pgas.private.mr->lkey};
	struct ibv_send_wr wr = {
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = opcode,
	    .wr.atomic = {.remote_addr = remote_address(&pgas.peers[rank], shared),
			  .compare_add = compare_add,
			  .swap = swap,
			  .rkey = pgas.peers[rank].rkey}};

	post(rank, &wr);
	pgas.atomics++;
	drain(&pgas.peers[rank], 0);
	return pgas_load(pgas.atomic_result);
}

uint64_t pgas_fetch_add(int rank, uint64_t *shared, uint64_t number)
{
	return atomic(rank, shared, IBV_WR_ATOMIC_FETCH_AND_ADD, number, 0);
}

uint64_t pgas_compare_swap(int rank, uint64_t *shared, uint64_t expected, uint64_t desired)
{
	return atomic(rank, shared, IBV_WR_ATOMIC_CMP_AND_SWP, expected, desired);
}

void pgas_transfer(struct ibv_qp *qp, struct ibv_cq *cq, enum ibv_wr_opcode opcode, const struct ibv_sge *local, uint64_t remote,
		   uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = {.sg_list = (struct ibv_sge *)local, .num_sge = 1, .opcode = opcode, .send_flags = cq ? IBV_SEND_SIGNALED : 0};
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	if (ibv_post_send(qp, &wr, &bad))
		pgas_fail("cannot post a request: %m");
	while (cq && !ibv_poll_cq(cq, 1, &wc))
		;
	if (wc.status != IBV_WC_SUCCESS)
		pgas_fail("a request failed: %s", ibv_wc_status_str(wc.status));
}
