/* SPDX-License-Identifier: BSD-2-Clause */
/* requests.c: two requests of one queue pair, and the buffers of requests that are under way. */
#include "races.h"

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

const struct pgas_case requests_cases[] = {
    {"fence-missing", fence_missing},
    {"fence-there", fence_there},
    {"fence-completion", fence_completion},
    {"gather-racing", gather_racing},
    {"gather-completion", gather_completion},
    {"gather-write", gather_write},
    {"inline-write", inline_write},
    {"scatter-racing", scatter_racing},
    {"scatter-completion", scatter_completion},
    {0},
};
