/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * edges.c: queue pairs of one process on a real device, at the edges: prints what
 * a program can see of errors, flushes, resets, chains that are given up, READs in
 * excess of max_rd_atomic, queue pairs that go while READs are under way.  With
 * clocks it has to print the same as without a recorder.
 *
 *   edges DEVICE GID_INDEX
 *
 * What it prints does not depend on time: it waits for as many completions as there have to be.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

#define PAGE_BYTES 4096
#define DEPTH      31
#define WAIT_S     10

static struct {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	union ibv_gid gid;
	uint8_t gid_index;
	struct ibv_mr *mr;
	uint64_t *memory;
	struct ibv_qp *qp[2];
	uint64_t next_id;
} w;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* ------------------------------------------------------------------ queue pairs */

struct shape {
	bool sig_all, builds;
	enum ibv_qp_type type;
	uint8_t reads;
};

static struct ibv_qp *make_qp(const struct shape *s)
{
	struct ibv_qp_init_attr_ex attr = {
	    .send_cq = w.cq,
	    .recv_cq = w.cq,
	    .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = s->type,
	    .sq_sig_all = s->sig_all,
	    .comp_mask = IBV_QP_INIT_ATTR_PD | (s->builds ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
	    .pd = w.pd,
	    .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND |
			      IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(w.context, &attr);

	if (!qp)
		die("ibv_create_qp_ex");
	return qp;
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int err = ibv_modify_qp(qp, attr, mask | IBV_QP_STATE);

	if (err) {
		errno = err;
		die("ibv_modify_qp");
	}
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *to, const struct shape *s)
{
	bool reliable = s->type == IBV_QPT_RC;
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = 1,
	    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
			       (reliable ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC : 0),
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = to->qp_num,
	    .max_dest_rd_atomic = s->reads,
	    .max_rd_atomic = s->reads,
	    .min_rnr_timer = 1,
	    .timeout = 14,
	    .retry_cnt = 7,
	    .rnr_retry = 7,
	    .ah_attr = {.is_global = 1,
			.port_num = 1,
			.grh = {.dgid = w.gid, .sgid_index = w.gid_index, .hop_limit = 1}},
	};

	modify(qp, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	modify(qp, &attr,
	       IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	attr.qp_state = IBV_QPS_RTS;
	modify(qp, &attr,
	       IBV_QP_SQ_PSN |
		   (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC
			     : 0));
}

static void make_pair(const struct shape *s)
{
	for (int i = 0; i < 2; i++)
		w.qp[i] = make_qp(s);
	for (int i = 0; i < 2; i++)
		connect_to(w.qp[i], w.qp[!i], s);
}

static void end_pair(void)
{
	for (int i = 0; i < 2; i++)
		if (w.qp[i] && ibv_destroy_qp(w.qp[i]))
			die("ibv_destroy_qp");
}

/* -------------------------------------------------------------------- requests */

/* `rkey` 0: the right one. */
static struct ibv_send_wr request(enum ibv_wr_opcode opcode, bool signaled, uint32_t rkey,
				  struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {.wr_id = ++w.next_id,
				 .sg_list = sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = signaled ? IBV_SEND_SIGNALED : 0};
	uint64_t to = (uintptr_t)&w.memory[64];

	*sge = (struct ibv_sge){(uintptr_t)&w.memory[0], 8, w.mr->lkey};
	if (!rkey)
		rkey = w.mr->rkey;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = to;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = to;
		wr.wr.rdma.rkey = rkey;
	}
	return wr;
}

static void post(struct ibv_send_wr *wr, int n)
{
	struct ibv_send_wr *bad = NULL;
	int err;

	for (int i = 0; i < n; i++)
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	err = ibv_post_send(w.qp[0], wr, &bad);
	if (err)
		printf("refused: error %d at %d\n", err, bad ? (int)(bad - wr) : -1);
}

static void receive(struct ibv_qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)&w.memory[128], 8, w.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = ++w.next_id, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(qp, &wr, &bad))
		die("ibv_post_recv");
}

static void print_completion(const struct ibv_wc *wc)
{
	printf("%llu: %s", (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status));
	if (wc->status == IBV_WC_SUCCESS)
		printf(", opcode %d", wc->opcode);
	if (wc->status == IBV_WC_SUCCESS && wc->opcode & IBV_WC_RECV)
		printf(", %u bytes", wc->byte_len);
	printf("\n");
}

/* So many have to come; and after them none. */
static void completions(int n)
{
	struct timespec moment = {.tv_nsec = 20000000};
	time_t end = time(NULL) + WAIT_S;
	struct ibv_wc wc;
	int got = 0;

	while (got < n && time(NULL) < end)
		if (ibv_poll_cq(w.cq, 1, &wc) == 1) {
			print_completion(&wc);
			got++;
		}
	nanosleep(&moment, NULL);
	while (ibv_poll_cq(w.cq, 1, &wc) == 1) {
		printf("one more than there should be: ");
		print_completion(&wc);
	}
	if (got < n)
		printf("only %d of %d\n", got, n);
}

static void print_state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(w.qp[0], &attr,
			 IBV_QP_STATE | IBV_QP_CAP | IBV_QP_ACCESS_FLAGS | IBV_QP_MAX_QP_RD_ATOMIC |
			     IBV_QP_MAX_DEST_RD_ATOMIC,
			 &init))
		die("ibv_query_qp");
	printf("state %d, %u requests, access %x, reads %u and %u, signals all: %d\n",
	       attr.qp_state, init.cap.max_send_wr, attr.qp_access_flags, attr.max_rd_atomic,
	       attr.max_dest_rd_atomic, init.sq_sig_all);
}

/* ----------------------------------------------------------------------- cases */

static const enum ibv_wr_opcode kinds[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
					   IBV_WR_ATOMIC_FETCH_AND_ADD};

/* A chain of all kinds, signaled or not, some of them behind a fence. */
static void chain(const struct shape *s, unsigned int signaled)
{
	struct ibv_send_wr wr[9];
	struct ibv_sge sge[9];
	int n = 0, expected = 0;

	for (int i = 0; i < 9; i++) {
		bool tells = signaled >> i & 1;

		wr[n] = request(kinds[i % 3], tells, 0, &sge[i]);
		if (i % 4 == 3)
			wr[n].send_flags |= IBV_SEND_FENCE;
		expected += tells || s->sig_all;
		n++;
	}
	post(wr, n);
	completions(expected);
}

/* One in the middle asks for what it may not have; all behind it are flushed. */
static void broken(const struct shape *s, enum ibv_wr_opcode kind, bool before, bool tells)
{
	struct ibv_send_wr wr[5];
	struct ibv_sge sge[5];
	int n = 0;

	make_pair(s);
	wr[n] = request(IBV_WR_ATOMIC_FETCH_AND_ADD, true, 0, &sge[n]);
	n++;
	if (before) {
		wr[n] = request(IBV_WR_RDMA_WRITE, false, 0, &sge[n]);
		n++;
	}
	wr[n] = request(kind, tells, w.mr->rkey + 0x1700, &sge[n]);
	n++;
	wr[n] = request(IBV_WR_RDMA_READ, true, 0, &sge[n]);
	n++;
	wr[n] = request(IBV_WR_RDMA_WRITE, true, 0, &sge[n]);
	n++;
	post(wr, n);
	completions(before && s->sig_all ? 5 : 4);
	/* It is broken now: what is posted comes back at once. */
	for (int i = 0; i < 3; i++) {
		wr[0] = request(kinds[i], true, 0, &sge[0]);
		post(wr, 1);
	}
	completions(3);
	print_state();
	end_pair();
}

/* Many more READs than may be under way. */
static void many_reads(const struct shape *s)
{
	struct ibv_send_wr wr[24];
	struct ibv_sge sge[24];

	make_pair(s);
	print_state();
	for (int i = 0; i < 24; i++)
		wr[i] = request(i % 3 == 2 ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_READ, true, 0,
				&sge[i]);
	post(wr, 24);
	completions(24);
	end_pair();
}

static void batch(struct ibv_qp_ex *ex, unsigned int n)
{
	ibv_wr_start(ex);
	for (unsigned int i = 0; i < n; i++) {
		ex->wr_id = ++w.next_id;
		ex->wr_flags = i % 2 ? IBV_SEND_SIGNALED : 0;
		if (i % 3 == 0)
			ibv_wr_rdma_write(ex, w.mr->rkey, (uintptr_t)&w.memory[64]);
		else if (i % 3 == 1)
			ibv_wr_rdma_read(ex, w.mr->rkey, (uintptr_t)&w.memory[64]);
		else
			ibv_wr_atomic_fetch_add(ex, w.mr->rkey, (uintptr_t)&w.memory[64], 1);
		ibv_wr_set_sge(ex, w.mr->lkey, (uintptr_t)&w.memory[0], 8);
	}
}

/* Begun and given up; then one that is posted, and nothing of the first is seen. */
static void given_up(void)
{
	struct shape s = {.builds = true, .type = IBV_QPT_RC, .reads = 4};
	struct ibv_qp_ex *ex;

	make_pair(&s);
	ex = ibv_qp_to_qp_ex(w.qp[0]);
	for (unsigned int n = 1; n < 8; n++) {
		batch(ex, n);
		ibv_wr_abort(ex);
		completions(0);
		batch(ex, n);
		printf("complete: %d\n", ibv_wr_complete(ex));
		completions((int)n / 2);
	}
	end_pair();
}

/* The queue pair goes, or is reset and used again, with READs under way. */
static void gone(const struct shape *s, bool reset)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_send_wr wr[8];
	struct ibv_sge sge[8];
	struct ibv_wc wc;

	for (int round = 0; round < 20; round++) {
		make_pair(s);
		for (int i = 0; i < 8; i++)
			wr[i] = request(i % 2 ? IBV_WR_RDMA_READ : IBV_WR_ATOMIC_FETCH_AND_ADD, true,
					0, &sge[i]);
		post(wr, 8);
		if (!reset) {
			end_pair();
			while (ibv_poll_cq(w.cq, 1, &wc) == 1)
				;
			continue;
		}
		for (int i = 0; i < 2; i++)
			modify(w.qp[i], &attr, 0);
		while (ibv_poll_cq(w.cq, 1, &wc) == 1)
			;
		for (int i = 0; i < 2; i++)
			connect_to(w.qp[i], w.qp[!i], s);
		chain(s, 0x1ff);
		end_pair();
	}
}

/* Messages, and the receiver's queue flushed. */
static void messages(const struct shape *s)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_send_wr wr[3];
	struct ibv_sge sge[3];

	make_pair(s);
	for (int i = 0; i < 4; i++)
		receive(w.qp[1]);
	for (int i = 0; i < 3; i++) {
		wr[i] = request(IBV_WR_SEND, false, 0, &sge[i]);
		post(&wr[i], 1);
		completions(1 + s->sig_all);
	}
	modify(w.qp[1], &attr, 0);
	completions(1);
	end_pair();
}

static void set_up(const char *device, int gid_index)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (; list && *list && strcmp(ibv_get_device_name(*list), device) != 0; list++)
		;
	w.context = list && *list ? ibv_open_device(*list) : NULL;
	w.pd = w.context ? ibv_alloc_pd(w.context) : NULL;
	w.gid_index = (uint8_t)gid_index;
	if (!w.pd || ibv_query_gid(w.context, 1, gid_index, &w.gid))
		die(device);
	w.cq = ibv_create_cq(w.context, 4 * DEPTH, NULL, NULL, 0);
	w.memory = aligned_alloc(PAGE_BYTES, PAGE_BYTES);
	memset(w.memory, 0, PAGE_BYTES);
	w.mr = ibv_reg_mr(w.pd, w.memory, PAGE_BYTES,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (!w.cq || !w.mr)
		die("set-up");
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: edges DEVICE GID_INDEX\n");
		return 2;
	}
	set_up(argv[1], atoi(argv[2]));
	for (int sig_all = 0; sig_all < 2; sig_all++) {
		struct shape s = {.sig_all = sig_all, .type = IBV_QPT_RC, .reads = 4};
		struct shape one = {.sig_all = sig_all, .type = IBV_QPT_RC, .reads = 1};
		struct shape uc = {.sig_all = sig_all, .type = IBV_QPT_UC};

		printf("-- chains\n");
		make_pair(&s);
		for (unsigned int signaled = 0; signaled < 0x200; signaled += 0x1d)
			chain(&s, signaled | 0x100);
		end_pair();
		printf("-- broken\n");
		for (int i = 0; i < 3; i++)
			for (int how = 0; how < 4; how++)
				broken(&s, kinds[i], how & 1, how & 2);
		printf("-- many reads\n");
		many_reads(&s);
		many_reads(&one);
		printf("-- reset\n");
		gone(&one, true);
		printf("-- destroyed\n");
		gone(&s, false);
		printf("-- messages\n");
		messages(&s);
		messages(&uc);
	}
	printf("-- given up\n");
	given_up();
	if (ibv_dereg_mr(w.mr) || ibv_destroy_cq(w.cq) || ibv_dealloc_pd(w.pd) ||
	    ibv_close_device(w.context))
		die("the end");
	printf("-- all gone\n");
	return 0;
}
