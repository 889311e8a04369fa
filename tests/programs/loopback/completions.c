/* SPDX-License-Identifier: BSD-2-Clause */
/* completions.c: takes completions, and prints all of them. */
#include "loopback/loopback.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

int poll_some(struct ibv_cq *cq, int room)
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
void drain(void)
{
	for (int idle = 0; idle < 50; idle++)
		for (int i = 0; i < 2; i++)
			while (poll_some(w.cq[i], 1 + (int)chance(16)) > 0)
				idle = 0;
}

void events(void)
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
