/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * altered.c: requests are posted, and what they send is changed before they are over, or behind that.
 *
 *     altered          prints the names of its cases
 *     altered CASE     posts three WRITEs, and changes a word that the second one sends (never: of none)
 *
 *     chain       they are posted by one call; the first two have no completion of their own
 *     builders    ... by ibv_wr_start to ibv_wr_complete
 *     list        the second one has two pieces, and the second piece is changed
 *     exposed     they send memory that peers may write
 *     write       the word is changed by a WRITE of another queue pair
 *     same        what is stored is what was there
 *     inline      they are inline: that memory is the program's again at once
 *     completed   it is changed behind the completion
 *     atomics     the second one is an atomic, and its own result is stored
 */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loopback_qp.h"

#define WRITES 3
#define WORDS  32

static const char *const names[] = {"chain", "builders", "list", "exposed", "write", "same", "inline", "completed", "atomics"};

static const char *name;
static uint64_t own[WRITES][WORDS], open_to_peers[2 * WRITES][WORDS];
static struct ibv_mr *own_mr, *open_mr;
static struct ibv_cq *cqs[2];
static struct ibv_qp *ends[2];

static bool is(const char *what)
{
	return !strcmp(name, what);
}

static void check(bool is_fine, const char *what)
{
	if (is_fine)
		return;
	fprintf(stderr, "altered: %s\n", what);
	exit(1);
}

static void connect_ends(struct ibv_pd *pd, struct ibv_context *context)
{
	const int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr_ex init = {.send_cq = cqs[i],
						   .recv_cq = cqs[i],
						   .cap = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 256},
						   .qp_type = IBV_QPT_RC,
						   .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
						   .pd = pd,
						   .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};

		check((ends[i] = ibv_create_qp_ex(context, &init)), "no queue pair");
	}
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++)
		for (int i = 0; i < 2; i++) {
			struct ibv_qp_attr a = loopback_attr(s, ends[!i]->qp_num, access);

			check(!ibv_modify_qp(ends[i], &a, loopback_mask(s)), "a queue pair cannot be connected");
		}
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;

	check(pd, "no device");
	own_mr = ibv_reg_mr(pd, own, sizeof(own), IBV_ACCESS_LOCAL_WRITE);
	open_mr = ibv_reg_mr(pd, open_to_peers, sizeof(open_to_peers), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	for (int i = 0; i < 2; i++)
		check((cqs[i] = ibv_create_cq(context, 16, NULL, NULL, 0)), "no completion queue");
	check(own_mr && open_mr, "no memory region");
	connect_ends(pd, context);
}

static bool are_from_open(void)
{
	return is("exposed") || is("write");
}

static uint64_t *source(int i)
{
	return are_from_open() ? open_to_peers[WRITES + i] : own[i];
}

static void build(void)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(ends[0]);

	ibv_wr_start(ex);
	for (int i = 0; i < WRITES; i++) {
		ex->wr_id = (uint64_t)i;
		ex->wr_flags = i == WRITES - 1 ? IBV_SEND_SIGNALED : 0;
		ibv_wr_rdma_write(ex, open_mr->rkey, (uintptr_t)open_to_peers[i]);
		ibv_wr_set_sge(ex, own_mr->lkey, (uintptr_t)own[i], sizeof(own[i]));
	}
	check(!ibv_wr_complete(ex), "the WRITEs cannot be posted");
}

static void post(void)
{
	struct ibv_sge pieces[WRITES][2];
	struct ibv_send_wr wr[WRITES], *bad;
	const uint32_t lkey = are_from_open() ? open_mr->lkey : own_mr->lkey;

	for (int i = 0; i < WRITES; i++) {
		const bool has_two = is("list") && i == 1, is_atomic = is("atomics") && i == 1;
		const uint32_t half = sizeof(own[i]) / 2;

		pieces[i][0] = (struct ibv_sge){(uintptr_t)source(i), is_atomic ? 8 : has_two ? half : 2 * half, lkey};
		pieces[i][1] = (struct ibv_sge){(uintptr_t)source(i) + half, half, lkey};
		wr[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i,
					     .next = i + 1 < WRITES ? &wr[i + 1] : NULL,
					     .sg_list = pieces[i],
					     .num_sge = has_two ? 2 : 1,
					     .opcode = is_atomic ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_WRITE,
					     .send_flags = (i == WRITES - 1 ? IBV_SEND_SIGNALED : 0) | (is("inline") ? IBV_SEND_INLINE : 0)};
		if (is_atomic) {
			wr[i].wr.atomic.remote_addr = (uintptr_t)open_to_peers[i];
			wr[i].wr.atomic.rkey = open_mr->rkey;
			wr[i].wr.atomic.compare_add = 1;
		} else {
			wr[i].wr.rdma.remote_addr = (uintptr_t)open_to_peers[i];
			wr[i].wr.rdma.rkey = open_mr->rkey;
		}
	}
	check(!ibv_post_send(ends[0], wr, &bad), "the WRITEs cannot be posted");
}

static void wait_for_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	check(n == 1 && wc.status == IBV_WC_SUCCESS, "a WRITE failed");
}

/* By the other queue pair, which leads to the same memory. */
static void write_word(uint64_t *word)
{
	struct ibv_sge piece = {(uintptr_t)&own[0][0], sizeof(own[0][0]), own_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &piece,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)word, open_mr->rkey}},
			   *bad;

	own[0][0] = 99;
	check(!ibv_post_send(ends[1], &wr, &bad), "a WRITE cannot be posted");
	wait_for_completion(cqs[1]);
}

static void change(void)
{
	volatile uint64_t *word = &source(1)[WORDS - 2];

	if (is("write"))
		write_word((uint64_t *)word);
	else if (!is("atomics"))
		*word = is("same") ? *word : 99;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			puts(names[i]);
		return 0;
	}
	name = argv[1];
	open_device();
	if (is("builders"))
		build();
	else
		post();
	if (!is("completed"))
		change();
	wait_for_completion(cqs[0]);
	change();
	return 0;
}
