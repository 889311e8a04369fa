/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lifetimes.c: small programs that end a registration while something may be under way there, or wait first, for
 * `sreplay races`.
 *
 *   lifetimes CASE
 *   lifetimes         lists the cases
 *
 * In the name of a case is what comes before the end; "racing" is nothing that orders it.  The other access is over by
 * then in this run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pgas/internal.h"

#define BYTES      1024 /* more than are sent inline */
#define OWNER      2
#define TIME_IT_TAKES 100000 /* us */

struct shared {
	char data[BYTES];
	uint64_t address, key, told, flag;
};

static struct shared *shared;
static struct ibv_mr *region;
static char *extra;

static bool is(int rank)
{
	return pgas.rank == rank;
}

static void register_extra(void)
{
	extra = aligned_alloc(4096, 4096);
	region = extra ? ibv_reg_mr(pgas.pd, extra, 4096,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)
		       : NULL;
	if (!region)
		pgas_fail("cannot register");
}

static void deregister(void)
{
	if (ibv_dereg_mr(region))
		pgas_fail("cannot deregister");
}

/* Between the extra region of this rank, or private memory, and that memory of the other. */
static void post(int rank, enum ibv_wr_opcode opcode, void *local, uint32_t lkey, uint64_t remote, uint32_t rkey)
{
	struct pgas_peer *peer = &pgas.peers[rank];
	struct ibv_sge sge = {.addr = (uintptr_t)local, .length = BYTES, .lkey = lkey};
	struct ibv_send_wr wr = {.wr_id = (uint64_t)rank,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = remote, .rkey = rkey}},
			   *bad;

	if (ibv_post_send(peer->qp, &wr, &bad))
		pgas_fail("cannot post");
	peer->posted++;
}

/* --------------------------------------------------- of the requester's own memory */

static void local(enum ibv_wr_opcode opcode, bool waits)
{
	if (!is(0))
		return;
	register_extra();
	post(OWNER, opcode, extra, region->lkey, pgas.peers[OWNER].base + (uint64_t)((char *)shared->data - pgas.shared.base),
	     pgas.peers[OWNER].rkey);
	if (waits)
		pgas_quiet();
	else
		usleep(TIME_IT_TAKES);
	deregister();
	pgas_quiet();
}

static void gather_racing(void)
{
	local(IBV_WR_RDMA_WRITE, false);
}

static void gather_completion(void)
{
	local(IBV_WR_RDMA_WRITE, true);
}

static void scatter_racing(void)
{
	local(IBV_WR_RDMA_READ, false);
}

static void scatter_completion(void)
{
	local(IBV_WR_RDMA_READ, true);
}

/* The queue pair is gone before the registration (pgas_end). */
static void gather_closed(void)
{
	char *mine = pgas_private(BYTES);

	if (is(0))
		pgas_start_put(OWNER, shared->data, mine, BYTES);
}

/* What is registered is gone: a replay that watches it must not read it. */
static void unmapped(void)
{
	char *place;

	if (!is(0))
		return;
	place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	region = ibv_reg_mr(pgas.pd, place, 4096, IBV_ACCESS_LOCAL_WRITE);
	if (!region)
		pgas_fail("cannot register");
	place[3] = 1;
	post(OWNER, IBV_WR_RDMA_WRITE, place, region->lkey,
	     pgas.peers[OWNER].base + (uint64_t)((char *)shared->data - pgas.shared.base), pgas.peers[OWNER].rkey);
	pgas_quiet();
	munmap(place, 4096);
	pgas_put(1, &shared->flag, &(uint64_t){1}, 8);
	deregister();
}

/* ------------------------------------------------------------ of the target's memory */

static void remote(enum ibv_wr_opcode opcode, bool waits)
{
	char *mine = pgas_private(BYTES);
	uint64_t one = 1;

	if (is(1)) {
		register_extra();
		pgas_put(0, &shared->address, &(uint64_t){(uintptr_t)extra}, 8);
		pgas_put(0, &shared->key, &(uint64_t){region->rkey}, 8);
		pgas_put(0, &shared->told, &one, 8);
		if (waits)
			pgas_wait_for(&shared->flag, 1);
		else
			usleep(TIME_IT_TAKES);
		deregister();
	} else if (is(0)) {
		pgas_wait_for(&shared->told, 1);
		post(1, opcode, mine, pgas.private.mr->lkey, shared->address, (uint32_t)shared->key);
		pgas_quiet();
		if (waits)
			pgas_put(1, &shared->flag, &one, 8);
	}
}

static void write_racing(void)
{
	remote(IBV_WR_RDMA_WRITE, false);
}

static void write_flag(void)
{
	remote(IBV_WR_RDMA_WRITE, true);
}

static void read_racing(void)
{
	remote(IBV_WR_RDMA_READ, false);
}

static void read_flag(void)
{
	remote(IBV_WR_RDMA_READ, true);
}

static void disconnect_from(int rank)
{
	if (ibv_destroy_qp(pgas.peers[rank].qp))
		pgas_fail("cannot destroy");
}

/* A WRITE that is never asked for; the connection ends at its target before the registration, or behind it. */
static void unpolled(const char *name, bool closed_first)
{
	char *mine = pgas_private(BYTES);

	if (is(1)) {
		register_extra();
		pgas_put(0, &shared->address, &(uint64_t){(uintptr_t)extra}, 8);
		pgas_put(0, &shared->key, &(uint64_t){region->rkey}, 8);
		pgas_put(0, &shared->told, &(uint64_t){1}, 8);
		usleep(TIME_IT_TAKES);
		if (closed_first)
			disconnect_from(0);
		deregister();
	} else if (is(0)) {
		pgas_wait_for(&shared->told, 1);
		post(1, IBV_WR_RDMA_WRITE, mine, pgas.private.mr->lkey, shared->address, (uint32_t)shared->key);
		usleep(2 * TIME_IT_TAKES);
	}
	/* Without the barrier of pgas_end(), which needs that connection, and would order the two. */
	pgas_result(true, "%s", name);
	exit(0);
}

static void write_closed(void)
{
	unpolled("write-closed", true);
}

static void write_unpolled(void)
{
	unpolled("write-unpolled", false);
}

/* free(), which finds the block's address wherever it has yet to store something on its stack. */
static void __attribute__((noinline)) free_with_stack(void *block)
{
	__asm__ volatile("mov %%rsp, %%rbx\n"
			 "and $-16, %%rsp\n"
			 "lea -128(%%rsp), %%rax\n"
			 "1: mov %%rdi, (%%rax)\n"
			 "add $8, %%rax\n"
			 "cmp %%rsp, %%rax\n"
			 "jb 1b\n"
			 "call free@PLT\n"
			 "mov %%rbx, %%rsp\n"
			 : "+D"(block)::"rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory");
}

/* free() looks at the heap's own word in front of the block, in registered memory, while the block's address is on top of its stack. */
static void freed(void)
{
	char *mine = pgas_private(BYTES), *block;
	uint64_t one = 1;

	if (is(1)) {
		block = malloc(BYTES);
		region = ibv_reg_mr(pgas.pd, block - 64, BYTES + 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		if (!region)
			pgas_fail("cannot register");
		pgas_put(0, &shared->address, &(uint64_t){(uintptr_t)block}, 8);
		pgas_put(0, &shared->key, &(uint64_t){region->rkey}, 8);
		pgas_put(0, &shared->told, &one, 8);
		pgas_wait_for(&shared->flag, 1);
		free_with_stack(block);
		deregister();
	} else if (is(0)) {
		pgas_wait_for(&shared->told, 1);
		post(1, IBV_WR_RDMA_WRITE, mine, pgas.private.mr->lkey, shared->address, (uint32_t)shared->key);
		pgas_quiet();
		pgas_put(1, &shared->flag, &one, 8);
	}
}

/* ------------------------------------------------------------------------ all */

static const struct pgas_case cases[] = {
    {"gather-racing", gather_racing},   {"gather-completion", gather_completion},
    {"scatter-racing", scatter_racing}, {"scatter-completion", scatter_completion},
    {"gather-closed", gather_closed},   {"write-racing", write_racing},
    {"write-flag", write_flag},         {"read-racing", read_racing},
    {"read-flag", read_flag},           {"unmapped", unmapped},
    {"freed", freed},			{"write-closed", write_closed},
    {"write-unpolled", write_unpolled},
};

int main(int argc, char **argv)
{
	const struct pgas_case *chosen = pgas_case(argc, argv, cases, sizeof(cases) / sizeof(*cases));

	pgas_start(sizeof(*shared) + 65536, 65536);
	shared = pgas_shared(sizeof(*shared));
	pgas_barrier();
	chosen->run();
	return pgas_end(pgas_result(true, "%s", argv[1]));
}
