/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loopback.c: queue pairs of one process talk to each other on the stand-in for
 * libibverbs (tests/lib/device), in ways that are hard on a recorder; prints what
 * it sees.  Its replay has to print the same.
 *
 *   loopback SEED [EPOCHS [FEATURES]]
 *   loopback threads | turns | turns-shared
 *
 * An epoch makes pairs of connected queue pairs with properties taken by
 * chance, posts and polls at random, and ends them in one of several ways: all
 * done, flushed, reset, broken by an error, or destroyed with requests
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
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "check.h"
#include "loopback_qp.h"

#define DEPTH     24 /* of queues: small, so that they are full now and then */
#define CHAIN     40
#define SLOTS     64
#define SLOT      4096
#define MAX_SGE   4
#define INLINE    128
#define MAX_PAIRS 4
#define ENDS      (2 * MAX_PAIRS)

struct posted {
	uint64_t wr_id;
	bool signaled, fetches;
	int n;
	struct ibv_sge sge[MAX_SGE];
};

/* Requests in the order of their posts; slot n of a buffer belongs to the n-th modulo SLOTS. */
struct fifo {
	struct posted entries[SLOTS];
	unsigned int head, tail;
};

/* One end of a connection, and its memory. */
struct end {
	int name;
	enum ibv_qp_type type;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct end *peer;
	struct fifo sent, received;
	char *source, *sink, *fetched, *window;
	struct ibv_mr *source_mr, *sink_mr, *fetched_mr, *exposed_mr;
	uint64_t sink_iova;
};

static struct {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq[2]; /* sends, receives; or the same twice */
	/* The same as extended ones, or NULL, and what they offer. */
	struct ibv_cq_ex *cq_ex[2];
	uint64_t cq_flags;
	struct ibv_srq *srq; /* or NULL */
	struct fifo srq_posted;
	struct end ends[ENDS];
	int n_ends;
	bool reused_ids, sig_all;
	const char *features;
} w;

/* ------------------------------------------------------------------- tools */

static uint64_t random_state;

static uint32_t chance(uint32_t below)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(random_state >> 33) % below;
}

static bool one_in(uint32_t n)
{
	return chance(n) == 0;
}

/* Is this feature wanted, and is it its turn? */
static bool feature(char letter, uint32_t n)
{
	bool yes = one_in(n);

	return yes && (!w.features || strchr(w.features, letter));
}

static void fill(char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)chance(256);
}

static uint64_t sum(uint64_t h, const void *p, size_t n)
{
	const unsigned char *c = p;

	for (size_t i = 0; i < n; i++)
		h = (h ^ c[i]) * 0x100000001b3ull;
	return h;
}

/* Cuts `length` bytes from `base` into at most MAX_SGE pieces, with gaps. */
static int cut(struct ibv_sge *sge, uint64_t base, uint32_t length, uint32_t lkey)
{
	int n = feature('m', 2) ? 1 + (int)chance(MAX_SGE) : 1;
	uint32_t left = length;

	for (int i = 0; i < n; i++) {
		uint32_t bytes = i + 1 == n ? left : chance(left + 1);

		sge[i] = (struct ibv_sge){.addr = base, .length = bytes, .lkey = lkey};
		base += bytes;
		left -= bytes;
	}
	return n;
}

/* ------------------------------------------------------------- completions */

/* The first `length` bytes of a request's list, as the program sees them. */
static uint64_t sum_of(const struct posted *p, uint32_t length, const struct end *e)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (int i = 0; i < p->n && length; i++) {
		uint32_t n = p->sge[i].length < length ? p->sge[i].length : length;
		uint64_t addr = p->sge[i].addr;

		if (!p->fetches)
			addr = addr - e->sink_iova + (uintptr_t)e->sink;
		h = sum(h, (void *)(uintptr_t)addr, n);
		length -= n;
	}
	return h;
}

static struct end *end_of(uint32_t qp_num)
{
	for (int i = 0; i < w.n_ends; i++)
		if (w.ends[i].qp && w.ends[i].qp->qp_num == qp_num)
			return &w.ends[i];
	return NULL;
}

static void tell_fetched(const struct posted *p, const struct end *e)
{
	if (p->fetches)
		printf("  fetched %016llx\n", (unsigned long long)sum_of(p, UINT32_MAX, e));
}

/* A completion stands for all requests up to its own; which that is after an error, its wr_id says.
 */
static void sent(struct end *e, const struct ibv_wc *wc)
{
	while (e->sent.head != e->sent.tail) {
		struct posted *p = &e->sent.entries[e->sent.head++ % SLOTS];
		bool own = wc->status == IBV_WC_SUCCESS ? p->signaled : p->wr_id == wc->wr_id;

		if (wc->status == IBV_WC_SUCCESS || (!own && !w.reused_ids))
			tell_fetched(p, e);
		if (own)
			break;
	}
}

static bool knows_length(void)
{
	return !w.cq_ex[1] || w.cq_flags & IBV_WC_EX_WITH_BYTE_LEN;
}

static void received(struct end *e, const struct ibv_wc *wc)
{
	struct fifo *f = w.srq ? &w.srq_posted : &e->received;
	struct posted *p = &f->entries[f->head++ % SLOTS];

	/* A shared queue's buffers are the first end's; without a length all of it is looked at. */
	if (wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV)
		printf("  received %016llx\n",
		       (unsigned long long)sum_of(p, knows_length() ? wc->byte_len : UINT32_MAX,
						  w.srq ? &w.ends[0] : e));
}

static void show(const struct ibv_wc *wc)
{
	struct end *e = end_of(wc->qp_num);

	printf("wc %llu %s op %d vendor %u len %u imm %x qp %x src %x flags %x pkey %u slid %u sl "
	       "%u path %u\n",
	       (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status), wc->opcode,
	       wc->vendor_err, wc->byte_len, wc->imm_data, wc->qp_num, wc->src_qp, wc->wc_flags,
	       wc->pkey_index, wc->slid, wc->sl, wc->dlid_path_bits);
	if (!e)
		return;
	if (wc->opcode & IBV_WC_RECV)
		received(e, wc);
	else
		sent(e, wc);
}

static bool offers(uint64_t flag)
{
	return w.cq_flags & flag;
}

static void show_extras(struct ibv_cq_ex *cq)
{
	struct ibv_wc_tm_info tm = {0};

	if (offers(IBV_WC_EX_WITH_TM_INFO))
		ibv_wc_read_tm_info(cq, &tm);
	printf("  tag %llu %u", (unsigned long long)tm.tag, tm.priv);
	if (offers(IBV_WC_EX_WITH_CVLAN))
		printf(" cvlan %u", ibv_wc_read_cvlan(cq));
	if (offers(IBV_WC_EX_WITH_FLOW_TAG))
		printf(" flow %u", ibv_wc_read_flow_tag(cq));
	if (offers(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK))
		printf(" at %llu", (unsigned long long)ibv_wc_read_completion_wallclock_ns(cq));
	if (offers(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP))
		printf(" ts %llu", (unsigned long long)ibv_wc_read_completion_ts(cq));
	printf("\n");
}

/* In an order of chance, some twice. */
static void read_fields(struct ibv_cq_ex *cq, struct ibv_wc *wc)
{
	uint32_t from = chance(10);

	*wc = (struct ibv_wc){.wr_id = cq->wr_id, .status = cq->status};
	for (uint32_t i = from; i < from + 12; i++) {
		switch (i % 10) {
		case 0:
			wc->opcode = ibv_wc_read_opcode(cq);
			break;
		case 1:
			wc->vendor_err = ibv_wc_read_vendor_err(cq);
			break;
		case 2:
			wc->wc_flags = ibv_wc_read_wc_flags(cq);
			break;
		case 3:
			wc->qp_num = ibv_wc_read_qp_num(cq);
			break;
		case 4:
			if (offers(IBV_WC_EX_WITH_BYTE_LEN))
				wc->byte_len = ibv_wc_read_byte_len(cq);
			break;
		case 5:
			if (offers(IBV_WC_EX_WITH_IMM))
				wc->imm_data = ibv_wc_read_imm_data(cq);
			break;
		case 6:
			if (offers(IBV_WC_EX_WITH_SRC_QP))
				wc->src_qp = ibv_wc_read_src_qp(cq);
			break;
		case 7:
			if (offers(IBV_WC_EX_WITH_SLID))
				wc->slid = (uint16_t)ibv_wc_read_slid(cq);
			break;
		case 8:
			if (offers(IBV_WC_EX_WITH_SL))
				wc->sl = ibv_wc_read_sl(cq);
			break;
		default:
			if (offers(IBV_WC_EX_WITH_DLID_PATH_BITS))
				wc->dlid_path_bits = ibv_wc_read_dlid_path_bits(cq);
			break;
		}
	}
}

static int poll_extended(struct ibv_cq_ex *cq, int room)
{
	struct ibv_poll_cq_attr attr = {};
	struct ibv_wc wc;
	int n = 0, err;

	for (err = ibv_start_poll(cq, &attr); !err; err = ibv_next_poll(cq)) {
		read_fields(cq, &wc);
		show(&wc);
		show_extras(cq);
		if (++n == room)
			break;
	}
	if (n)
		ibv_end_poll(cq);
	else if (err != ENOENT)
		printf("start_poll: %d\n", err);
	return n;
}

static int poll_some(struct ibv_cq *cq, int room)
{
	struct ibv_wc wc[16];
	struct ibv_cq_ex *ex = cq == w.cq[0] ? w.cq_ex[0] : w.cq_ex[1];
	int n;

	/* The old way works on the new queues, too. */
	if (ex && !one_in(4))
		return poll_extended(ex, room);
	n = ibv_poll_cq(cq, room, wc);
	for (int i = 0; i < n; i++)
		show(&wc[i]);
	return n;
}

/* Until nothing comes any more; the stand-in may do nothing in a few polls in a row. */
static void drain(void)
{
	for (int idle = 0; idle < 50; idle++)
		for (int i = 0; i < 2; i++)
			while (poll_some(w.cq[i], 1 + (int)chance(16)) > 0)
				idle = 0;
}

static void events(void)
{
	struct ibv_cq *cq;
	void *context;
	int i = (int)chance(2), err = ibv_req_notify_cq(w.cq[i], (int)chance(2));

	printf("notify %d\n", err);
	while (!ibv_get_cq_event(w.channel, &cq, &context)) {
		printf("event of cq %d, context %p\n", cq == w.cq[0] ? 0 : 1, context);
		ibv_ack_cq_events(cq, 1);
	}
	printf("no event: %s\n", strerror(errno));
}

/* ------------------------------------------------------------------- posts */

static uint64_t new_id(void)
{
	static uint64_t last = 1000;

	return w.reused_ids ? chance(3) : ++last;
}

static bool has_room(const struct fifo *f, int n)
{
	return f->tail - f->head + (unsigned int)n <= SLOTS;
}

static int chain_length(void)
{
	return feature('l', 3) ? 1 + (int)chance(CHAIN) : 1 + (int)chance(3);
}

static void post_receives(struct end *e)
{
	struct fifo *f = w.srq ? &w.srq_posted : &e->received;
	struct ibv_recv_wr wr[CHAIN], *bad = NULL;
	struct end *owner = w.srq ? &w.ends[0] : e;
	int n = chain_length(), posted, err;

	if (!has_room(f, n))
		return;
	for (int i = 0; i < n; i++) {
		unsigned int slot = (f->tail + (unsigned int)i) % SLOTS;
		struct posted *p = &f->entries[slot];

		p->wr_id = new_id();
		p->fetches = false;
		p->n = cut(p->sge, owner->sink_iova + slot * SLOT, SLOT, owner->sink_mr->lkey);
		wr[i] = (struct ibv_recv_wr){.wr_id = p->wr_id, .sg_list = p->sge, .num_sge = p->n};
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	err = w.srq ? ibv_post_srq_recv(w.srq, wr, &bad) : ibv_post_recv(e->qp, wr, &bad);
	posted = err ? (int)(bad - wr) : n;
	f->tail += (unsigned int)posted;
	printf("end %d: %d receives: %d, %d posted\n", e->name, n, err, posted);
}

/* What the n-th request from now does, and how. */
static void choose(struct ibv_send_wr *wr, struct posted *p, struct end *e, unsigned int slot)
{
	static const enum ibv_wr_opcode opcodes[] = {
	    IBV_WR_SEND,
	    IBV_WR_SEND,
	    IBV_WR_SEND_WITH_IMM,
	    IBV_WR_RDMA_WRITE,
	    IBV_WR_RDMA_WRITE_WITH_IMM,
	    IBV_WR_RDMA_READ,
	    IBV_WR_ATOMIC_FETCH_AND_ADD,
	    IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	enum ibv_wr_opcode opcode =
	    opcodes[chance(e->type == IBV_QPT_RC && feature('f', 1) ? 8 : 5)];
	bool fetches = opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
		       opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	bool atomic = fetches && opcode != IBV_WR_RDMA_READ;
	bool inlined = !fetches && feature('i', 4);
	uint32_t length = atomic ? 8 : one_in(8) ? 0 : chance(inlined ? INLINE : SLOT) + 1;
	uint64_t remote = (uintptr_t)e->peer->window + chance(SLOT / 8) * 8;

	*p = (struct posted){
	    .wr_id = new_id(), .fetches = fetches, .signaled = !feature('u', 2) || w.sig_all};
	*wr = (struct ibv_send_wr){.wr_id = p->wr_id, .opcode = opcode, .sg_list = p->sge};
	wr->send_flags = (p->signaled ? IBV_SEND_SIGNALED : 0) | (inlined ? IBV_SEND_INLINE : 0) |
			 (one_in(4) ? IBV_SEND_SOLICITED : 0) | (one_in(8) ? IBV_SEND_FENCE : 0);
	wr->imm_data = chance(UINT32_MAX);
	if (atomic) {
		wr->wr.atomic.remote_addr = remote;
		wr->wr.atomic.rkey = e->peer->exposed_mr->rkey;
		wr->wr.atomic.compare_add = chance(3);
		wr->wr.atomic.swap = chance(3);
		p->sge[0] =
		    (struct ibv_sge){(uintptr_t)e->fetched + slot * SLOT, 8, e->fetched_mr->lkey};
		p->n = 1;
	} else {
		wr->wr.rdma.remote_addr = remote;
		wr->wr.rdma.rkey = e->peer->exposed_mr->rkey;
		p->n = cut(p->sge, (uintptr_t)(fetches ? e->fetched : e->source) + slot * SLOT,
			   length, fetches ? e->fetched_mr->lkey : e->source_mr->lkey);
	}
	if (!fetches)
		fill(e->source + slot * SLOT, length);
	if (one_in(16) && !length)
		p->n = 0;
	wr->num_sge = p->n;
}

static void build(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
	struct ibv_data_buf buffers[MAX_SGE];

	ex->wr_id = wr->wr_id;
	ex->wr_flags = wr->send_flags;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(ex);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(ex, wr->imm_data);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
		break;
	default:
		ibv_wr_atomic_cmp_swp(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		break;
	}
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		if (wr->num_sge == 1)
			ibv_wr_set_sge(ex, wr->sg_list->lkey, wr->sg_list->addr,
				       wr->sg_list->length);
		else
			ibv_wr_set_sge_list(ex, (size_t)wr->num_sge, wr->sg_list);
		return;
	}
	for (int i = 0; i < wr->num_sge; i++)
		buffers[i] = (struct ibv_data_buf){(void *)(uintptr_t)wr->sg_list[i].addr,
						   wr->sg_list[i].length};
	ibv_wr_set_inline_data_list(ex, (size_t)wr->num_sge, buffers);
}

/* A batch is posted as a whole or not at all. */
static int post_built(struct end *e, struct ibv_send_wr *wr, int *posted)
{
	int err = -1, n = 0;

	ibv_wr_start(e->ex);
	for (; wr; wr = wr->next, n++)
		build(e->ex, wr);
	if (one_in(8))
		ibv_wr_abort(e->ex);
	else
		err = ibv_wr_complete(e->ex);
	*posted = err ? 0 : n;
	return err;
}

static void post_sends(struct end *e)
{
	struct ibv_send_wr wr[CHAIN], *bad = NULL;
	int n = chain_length(), posted = n, err;

	if (!has_room(&e->sent, n))
		return;
	for (int i = 0; i < n; i++) {
		unsigned int slot = (e->sent.tail + (unsigned int)i) % SLOTS;

		choose(&wr[i], &e->sent.entries[slot], e, slot);
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	if (e->ex) {
		err = post_built(e, wr, &posted);
	} else {
		err = ibv_post_send(e->qp, wr, &bad);
		posted = err ? (int)(bad - wr) : n;
	}
	printf("end %d: %d sends: %d, %d posted\n", e->name, n, err, posted);
	/* Inline data was read: the buffer is the program's again. */
	for (int i = 0; i < posted; i++)
		if (wr[i].send_flags & IBV_SEND_INLINE)
			memset(e->source + (e->sent.tail + (unsigned int)i) % SLOTS * SLOT, 0,
			       INLINE);
	e->sent.tail += (unsigned int)posted;
}

/* ------------------------------------------------------------ queue pairs */

static int to_state(struct end *e, enum ibv_qp_state state)
{
	const unsigned int access =
	    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	const int of_rc = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT |
			  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	struct ibv_qp_attr attr =
	    loopback_attr(state, e->peer->qp ? e->peer->qp->qp_num : 0, access);
	int mask = loopback_mask(state);

	attr.min_rnr_timer = 12;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	return ibv_modify_qp(e->qp, &attr, e->type == IBV_QPT_RC ? mask : mask & ~of_rc);
}

/* What it was made with and what it was told: nothing that a recorder may have added. */
static void show_qp(const struct end *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err = ibv_query_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_CAP, &init);

	printf("end %d: query %d: state %d access %x reads %d %d sends %u sges %u inline %u "
	       "sig_all %d\n",
	       e->name, err, attr.qp_state, attr.qp_access_flags, attr.max_rd_atomic,
	       attr.max_dest_rd_atomic, init.cap.max_send_wr, init.cap.max_send_sge,
	       init.cap.max_inline_data, init.sq_sig_all);
}

static void connect_ends(void)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};

	for (int s = 0; s < 3; s++) {
		for (int i = 0; i < w.n_ends; i++)
			printf("end %d, qp %x, to state %d: %d\n", i, w.ends[i].qp->qp_num,
			       states[s], to_state(&w.ends[i], states[s]));
		/* Before they are connected receives may be posted, sends not. */
		if (states[s] == IBV_QPS_INIT && one_in(2))
			post_receives(&w.ends[chance((uint32_t)w.n_ends)]);
	}
	for (int i = 0; i < w.n_ends; i++)
		show_qp(&w.ends[i]);
}

static void create_qp(struct end *e)
{
	struct ibv_qp_init_attr_ex attr = {
	    .send_cq = w.cq[0],
	    .recv_cq = w.cq[1],
	    .srq = w.srq,
	    .cap = {DEPTH, DEPTH, MAX_SGE, MAX_SGE, INLINE},
	    .qp_type = e->type,
	    .sq_sig_all = w.sig_all,
	    .comp_mask = IBV_QP_INIT_ATTR_PD,
	    .pd = w.pd,
	};

	if (feature('x', 3)) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags =
		    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
		    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
		    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	}
	e->qp = check(ibv_create_qp_ex(w.context, &attr), "ibv_create_qp_ex");
	e->ex = attr.send_ops_flags ? check(ibv_qp_to_qp_ex(e->qp), "ibv_qp_to_qp_ex") : NULL;
}

static void destroy_qp(struct end *e)
{
	printf("end %d: destroy %d\n", e->name, ibv_destroy_qp(e->qp));
	e->qp = NULL;
	e->ex = NULL;
	memset(&e->sent, 0, sizeof(e->sent));
	memset(&e->received, 0, sizeof(e->received));
}

static void create_memory(struct end *e, int name)
{
	e->name = name;
	e->source = check(aligned_alloc(SLOT, SLOTS * SLOT), "memory");
	e->sink = check(aligned_alloc(SLOT, SLOTS * SLOT), "memory");
	e->fetched = check(aligned_alloc(SLOT, SLOTS * SLOT), "memory");
	e->window = check(aligned_alloc(SLOT, 2 * SLOT), "memory");
	memset(e->sink, 0, SLOTS * SLOT);
	memset(e->fetched, 0, SLOTS * SLOT);
	memset(e->window, name, 2 * SLOT);
	/* Every second end's buffers have addresses of their own on the device. */
	e->sink_iova = name % 2 ? (uintptr_t)e->sink : 0x10000000;
	e->source_mr = check(ibv_reg_mr(w.pd, e->source, SLOTS * SLOT, 0), "ibv_reg_mr");
	e->sink_mr = check(
	    ibv_reg_mr_iova(w.pd, e->sink, SLOTS * SLOT, e->sink_iova, IBV_ACCESS_LOCAL_WRITE),
	    "ibv_reg_mr_iova");
	e->fetched_mr =
	    check(ibv_reg_mr(w.pd, e->fetched, SLOTS * SLOT, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	e->exposed_mr = check(ibv_reg_mr(w.pd, e->window, 2 * SLOT,
					IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC),
			     "ibv_reg_mr");
}

/* ------------------------------------------------------------------ epochs */

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

	wr.wr.rdma.remote_addr = (uintptr_t)e->peer->window;
	wr.wr.rdma.rkey = 0xbad;
	printf("end %d: offends: %d\n", e->name, ibv_post_send(e->qp, &wr, &bad));
}

/* A refused bind must leave no request behind. */
static void bind_in_vain(struct end *e)
{
	struct ibv_mw *mw = check(ibv_alloc_mw(w.pd, IBV_MW_TYPE_1), "ibv_alloc_mw");
	struct ibv_mw_bind bind = {
	    .wr_id = 7,
	    .bind_info = {.mr = e->exposed_mr, .addr = (uintptr_t)e->window, .length = SLOT}};

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

	switch (feature('b', 1) ? chance(5) : 0) {
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

/* ----------------------------------------------------------------- threads */

#define THREADS  4
#define REQUESTS 20000

static _Atomic unsigned char seen[2][THREADS][REQUESTS];
static atomic_int seen_in_all;

/*
 * "threads" counts by plain atomics, and so cannot be replayed; "turns" counts
 * under a lock and prints who saw which completion, in their order.
 */
static bool in_turns;
static uint32_t requests = REQUESTS;
static pthread_mutex_t turns_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t order_seen;
static struct ibv_qp *shared_qp; /* NULL: each thread posts on its own */

static void note_order(uint32_t me, const struct ibv_wc *wc, int n)
{
	pthread_mutex_lock(&turns_lock);
	for (int i = 0; i < n; i++)
		order_seen = (order_seen ^ wc[i].wr_id ^ me) * 0x100000001b3u;
	seen_in_all += n;
	pthread_mutex_unlock(&turns_lock);
}

static bool all_seen(void)
{
	bool all;

	if (!in_turns)
		return seen_in_all >= 2 * THREADS * (int)requests;
	pthread_mutex_lock(&turns_lock);
	all = seen_in_all >= 2 * THREADS * (int)requests;
	pthread_mutex_unlock(&turns_lock);
	return all;
}

static void poll_counting(uint32_t me)
{
	struct ibv_wc wc[4];
	int n = ibv_poll_cq(w.cq[0], 4, wc);

	if (in_turns && n > 0)
		note_order(me, wc, n);

	for (int i = 0; i < n; i++) {
		uint32_t thread = (uint32_t)(wc[i].wr_id >> 32), k = (uint32_t)wc[i].wr_id;

		if (wc[i].status != IBV_WC_SUCCESS || thread >= THREADS || k >= REQUESTS)
			printf("wr_id %llx: %s\n", (unsigned long long)wc[i].wr_id,
			       ibv_wc_status_str(wc[i].status));
		else
			seen[wc[i].opcode & IBV_WC_RECV ? 1 : 0][thread][k]++;
		if (!in_turns)
			seen_in_all++;
	}
}

static void *post_and_poll(void *argument)
{
	struct end *e = argument;
	uint32_t me = (uint32_t)e->name;
	struct ibv_qp *qp = shared_qp ? shared_qp : e->qp;
	struct ibv_sge from = {(uintptr_t)e->source, 64, e->source_mr->lkey};
	struct ibv_sge to = {e->sink_iova, 64, e->sink_mr->lkey};

	for (uint32_t k = 0; k < requests; k++) {
		uint64_t wr_id = (uint64_t)e->name << 32 | k;
		struct ibv_recv_wr recv = {.wr_id = wr_id, .sg_list = &to, .num_sge = 1}, *bad_recv;
		struct ibv_send_wr send = {.wr_id = wr_id, .sg_list = &from, .num_sge = 1},
				   *bad_send;

		send.opcode = IBV_WR_SEND;
		send.send_flags = IBV_SEND_SIGNALED;
		while (ibv_post_recv(qp, &recv, &bad_recv))
			poll_counting(me);
		while (ibv_post_send(qp, &send, &bad_send))
			poll_counting(me);
		poll_counting(me);
	}
	while (!all_seen())
		poll_counting(me);
	return NULL;
}

static int poll_in_threads(bool shared)
{
	pthread_t threads[THREADS];
	int wrong = 0;

	w.cq[1] = w.cq[0];
	w.features = "-";
	for (w.n_ends = 0; w.n_ends < THREADS; w.n_ends++) {
		create_qp(&w.ends[w.n_ends]);
		w.ends[w.n_ends].peer = &w.ends[w.n_ends];
		to_state(&w.ends[w.n_ends], IBV_QPS_INIT);
		to_state(&w.ends[w.n_ends], IBV_QPS_RTR);
		to_state(&w.ends[w.n_ends], IBV_QPS_RTS);
	}
	if (shared)
		shared_qp = w.ends[0].qp;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, post_and_poll, &w.ends[i]))
			exit(1);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int kind = 0; kind < 2; kind++)
		for (int i = 0; i < THREADS; i++)
			for (uint32_t k = 0; k < requests; k++)
				wrong += seen[kind][i][k] != 1;
	if (in_turns)
		printf("order %016llx\n", (unsigned long long)order_seen);
	printf("%d requests did not complete exactly once\n", wrong);
	return wrong > 0;
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

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int epochs = argc > 2 ? atoi(argv[2]) : 10;
	bool one_cq;

	random_state = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	w.features = argc > 3 ? argv[3] : NULL;
	w.context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	check(w.context, "no device: LD_LIBRARY_PATH=BUILD/tests/lib/device");
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
