/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loopback: queue pairs of one process talk to each other on the stand-in for
 * libibverbs (tests/lib/softdev), in ways that are hard on a recorder; prints what
 * it sees.  Its replay has to print the same.
 *
 *   loopback SEED [EPOCHS [FEATURES]]
 *   loopback threads | turns | turns-shared
 *   loopback forked ...    the same, in a process that this one forks
 *
 * An epoch makes pairs of connected queue pairs with properties taken by
 * chance, posts and polls at random, and ends them in one of several ways: all
 * done, flushed, reset, broken by an error while others go on, or destroyed with requests
 * outstanding and completions unpolled.  FEATURES restricts to what its letters
 * say (default: all): l long chains, m several sges, u unsignaled sends, f READs
 * and atomics, i inline data, s shared receive queues, x the builders of ibv_qp_ex,
 * e events, r re-used wr_ids, b broken ends, d unreliable connections, c extended completion queues,
 * p parent domains, device memory, memory windows, the extended way to make
 * shared receive queues.
 *
 * Printed are all fields of all completions, checksums of all bytes that
 * completions tell of, all refusals.  Not printed is what RDMA WRITEs leave in
 * exposed regions: nothing tells the program when it is there.
 *
 * "threads": several threads, each posting on a queue pair of its own, poll one
 * completion queue, and count what they see of each request: exactly one
 * completion for the receive and one for the send.
 */
#include "loopback/loopback.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void act(void)
{
	for (int n = 50 + (int)chance(100); n; n--) {
		struct end *e = &w.ends[chance((uint32_t)w.n_ends)];

		switch (chance(8)) {
		case 0:
		case 1:
			post_receives(e);
			break;
		case 2:
		case 3:
			post_sends(e);
			break;
		case 4:
			if (feature('e', 2))
				events();
			break;
		default:
			poll_some(w.cq[chance(2)], 1 + (int)chance(16));
			break;
		}
	}
}

/* A write that the other end does not allow. */
static void offend(struct end *e)
{
	struct ibv_sge sge = {(uintptr_t)e->source, 8, e->source_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 99,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE},
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)e->peer->region;
	wr.wr.rdma.rkey = 0xbad;
	printf("end %d: offends: %d\n", e->name, ibv_post_send(e->qp, &wr, &bad));
}

/* A refused bind must leave no request behind. */
static void bind_in_vain(struct end *e)
{
	struct ibv_mw *mw = check(ibv_alloc_mw(w.pd, IBV_MW_TYPE_1), "ibv_alloc_mw");
	struct ibv_mw_bind bind = {
	    .wr_id = 7,
	    .bind_info = {.mr = e->exposed_mr, .addr = (uintptr_t)e->region, .length = SLOT}};

	printf("bind: %d", ibv_bind_mw(e->qp, mw, &bind));
	printf(" freed: %d\n", ibv_dealloc_mw(mw));
}

static void forget_posts(void)
{
	for (int i = 0; i < w.n_ends; i++) {
		w.ends[i].sent.head = w.ends[i].sent.tail;
		w.ends[i].received.head = w.ends[i].received.tail;
	}
}

static void finish(void)
{
	struct end *e = &w.ends[chance((uint32_t)w.n_ends)];

	switch (feature('b', 1) ? chance(6) : 0) {
	case 0:
		printf("ends: drained\n");
		drain();
		break;
	case 1:
		printf("ends: flushed\n");
		printf("end %d to error: %d\n", e->name, to_state(e, IBV_QPS_ERR));
		post_sends(e);
		drain();
		break;
	case 2:
		printf("ends: reset\n");
		drain();
		for (int i = 0; i < w.n_ends; i++)
			printf("end %d to reset: %d\n", i, to_state(&w.ends[i], IBV_QPS_RESET));
		drain();
		forget_posts();
		connect_ends();
		act();
		drain();
		break;
	case 3:
		printf("ends: offended\n");
		drain();
		offend(e);
		drain();
		break;
	case 4:
		printf("ends: one broken, others go on\n");
		if (one_in(2))
			offend(e);
		else
			printf("end %d to error: %d\n", e->name, to_state(e, IBV_QPS_ERR));
		act();
		drain();
		break;
	default:
		printf("ends: destroyed\n");
		break;
	}
}

static struct ibv_srq *create_srq(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = DEPTH, .max_sge = MAX_SGE}};
	struct ibv_srq_init_attr_ex ex = {
	    .attr = attr.attr, .comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = w.pd};
	struct ibv_srq *srq;
	uint32_t number = 0;

	if (!feature('p', 2))
		return check(ibv_create_srq(w.pd, &attr), "ibv_create_srq");
	srq = check(ibv_create_srq_ex(w.context, &ex), "ibv_create_srq_ex");
	printf("srq number: %d", ibv_get_srq_num(srq, &number));
	printf(" %u\n", number);
	return srq;
}

static void epoch(void)
{
	w.sig_all = one_in(4);
	w.n_ends = 2 * (1 + (int)chance(MAX_PAIRS));
	w.reused_ids = feature('r', 2);
	memset(&w.srq_posted, 0, sizeof(w.srq_posted));
	if (feature('s', 2))
		w.srq = create_srq();
	printf("epoch: %d ends, wr_ids %s, %s, srq %d\n", w.n_ends,
	       w.reused_ids ? "re-used" : "unique",
	       w.sig_all ? "all signaled" : "signaled as asked", w.srq != NULL);
	for (int i = 0; i < w.n_ends; i++) {
		if (i % 2 == 0)
			w.ends[i].type = feature('d', 4) ? IBV_QPT_UC : IBV_QPT_RC;
		else
			w.ends[i].type = w.ends[i - 1].type;
		create_qp(&w.ends[i]);
	}
	for (int i = 0; i < w.n_ends; i++)
		w.ends[i].peer = &w.ends[i ^ 1];
	connect_ends();
	act();
	if (feature('p', 4)) {
		bind_in_vain(&w.ends[0]);
		act();
	}
	finish();
	for (int i = 0; i < w.n_ends; i++)
		destroy_qp(&w.ends[i]);
	if (w.srq) {
		printf("destroy srq %d\n", ibv_destroy_srq(w.srq));
		w.srq = NULL;
	}
	/* What was not polled may stay until the next epoch. */
	if (one_in(2))
		drain();
}

/* Objects that only have a name here: they must come and go. */
static struct ibv_pd *create_domain(struct ibv_pd *pd)
{
	struct ibv_td_init_attr td_attr = {};
	struct ibv_xrcd_init_attr xrcd_attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD |
							    IBV_XRCD_INIT_ATTR_OFLAGS,
					       .fd = -1,
					       .oflags = O_CREAT};
	struct ibv_td *td = check(ibv_alloc_td(w.context, &td_attr), "ibv_alloc_td");
	struct ibv_parent_domain_init_attr attr = {.pd = pd, .td = td};
	struct ibv_xrcd *xrcd = check(ibv_open_xrcd(w.context, &xrcd_attr), "ibv_open_xrcd");

	printf("xrcd closed: %d\n", ibv_close_xrcd(xrcd));
	pd = check(ibv_alloc_parent_domain(w.context, &attr), "ibv_alloc_parent_domain");
	printf("td freed: %d\n", ibv_dealloc_td(td));
	return pd;
}

static void use_device_memory(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 256};
	struct ibv_dm *dm = check(ibv_alloc_dm(w.context, &attr), "ibv_alloc_dm");
	char bytes[128], back[128] = "";

	fill(bytes, sizeof(bytes));
	printf("to dm: %d", ibv_memcpy_to_dm(dm, 100, bytes, sizeof(bytes)));
	printf(" from dm: %d", ibv_memcpy_from_dm(back, dm, 100, sizeof(back)));
	printf(" %s", memcmp(bytes, back, sizeof(bytes)) ? "differ" : "equal");
	printf(" beyond: %d", ibv_memcpy_from_dm(back, dm, 200, sizeof(back)));
	printf(" freed: %d\n", ibv_free_dm(dm));
}

static struct ibv_cq *create_cq(int i)
{
	struct ibv_cq_init_attr_ex attr = {
	    .cqe = 4096,
	    .cq_context = (void *)(intptr_t)(i + 1),
	    .channel = w.channel,
	    .wc_flags = w.cq_flags,
	};

	if (!w.cq_flags)
		return check(ibv_create_cq(w.context, 4096, attr.cq_context, w.channel, 0),
			     "ibv_create_cq");
	w.cq_ex[i] = check(ibv_create_cq_ex(w.context, &attr), "ibv_create_cq_ex");
	return ibv_cq_ex_to_cq(w.cq_ex[i]);
}

static int run(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int epochs = argc > 2 ? atoi(argv[2]) : 10;
	bool one_cq;

	random_state = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	w.features = argc > 3 ? argv[3] : NULL;
	w.context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	check(w.context, "no device: LD_LIBRARY_PATH=BUILD/tests/lib/softdev");
	ibv_free_device_list(list);
	w.pd = check(ibv_alloc_pd(w.context), "ibv_alloc_pd");
	if (feature('p', 2)) {
		w.pd = create_domain(w.pd);
		use_device_memory();
	}
	w.channel = check(ibv_create_comp_channel(w.context), "ibv_create_comp_channel");
	fcntl(w.channel->fd, F_SETFL, fcntl(w.channel->fd, F_GETFL) | O_NONBLOCK);
	one_cq = one_in(2);
	if (feature('c', 2))
		w.cq_flags = IBV_WC_EX_WITH_QP_NUM | chance(IBV_CREATE_CQ_SUP_WC_FLAGS + 1);
	for (int i = 0; i < 2; i++)
		w.cq[i] = i && one_cq ? w.cq[0] : create_cq(i);
	if (one_cq)
		w.cq_ex[1] = w.cq_ex[0];
	for (int i = 0; i < ENDS; i++)
		create_memory(&w.ends[i], i);
	if (argc > 1 && !strcmp(argv[1], "threads"))
		return poll_in_threads(false);
	if (argc > 1 && !strncmp(argv[1], "turns", 5)) {
		in_turns = true;
		requests = 500;
		return poll_in_threads(!strcmp(argv[1], "turns-shared"));
	}
	for (int i = 0; i < epochs; i++)
		epoch();
	drain();
	for (int i = 0; i < ENDS; i++)
		printf("end %d: dereg %d %d %d %d\n", i, ibv_dereg_mr(w.ends[i].source_mr),
		       ibv_dereg_mr(w.ends[i].sink_mr), ibv_dereg_mr(w.ends[i].fetched_mr),
		       ibv_dereg_mr(w.ends[i].exposed_mr));
	printf("destroy cq %d", ibv_destroy_cq(w.cq[0]));
	printf(" %d", one_cq ? 0 : ibv_destroy_cq(w.cq[1]));
	printf(" channel %d", ibv_destroy_comp_channel(w.channel));
	printf(" pd %d", ibv_dealloc_pd(w.pd));
	printf(" close %d\n", ibv_close_device(w.context));
	return 0;
}

int main(int argc, char **argv)
{
	bool forked = argc > 1 && !strcmp(argv[1], "forked");
	pid_t child = forked ? fork() : 0;
	int status;

	if (!child)
		return run(argc - forked, argv + forked);
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
