/* SPDX-License-Identifier: BSD-2-Clause */
/* posts.c: chooses requests, and posts them. */
#include "loopback/loopback.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void post_receives(struct end *e)
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
	uint64_t remote = (uintptr_t)e->peer->region + chance(SLOT / 8) * 8;

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

void post_sends(struct end *e)
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
