/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cq_ex.c: extended completion queues, which a program reads field by field.
 *
 * A program may read any fields of a completion, in any order.  So the shim reads all fields
 * that the queue offers when start_poll or next_poll has found a completion.  The record of that
 * call has them, and the read_* functions return them from there in both runs.  Reading fields
 * that the program does not want has no effect: providers only read the completion entry.
 *
 * Between start_poll and end_poll the queue belongs to one thread.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "shim/core/call.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/memory/heap.h"
#include "shim/memory/map.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/ops.h"
#include "shim/verbs/picks.h"

struct sr_cq_ex {
	struct sr_completion current;
	const struct sr_thread *_Atomic poller; /* from start_poll on; NULL: none */
};

static struct sr_map extended;
static atomic_bool has_any; /* nearly always false, which saves each poll a look into the map */

static struct sr_cq_ex *find(const struct ibv_cq *cq)
{
	return atomic_load_explicit(&has_any, memory_order_relaxed) ? sr_map_get(&extended, (uintptr_t)cq) : NULL;
}

struct sr_completion *sr_cq_current(const struct ibv_cq_ex *cq)
{
	struct sr_cq_ex *c = find((const struct ibv_cq *)cq);

	return c ? &c->current : NULL;
}

bool sr_cq_is_extended(const struct ibv_cq *cq)
{
	return find(cq);
}

bool sr_cq_is_taken(const struct ibv_cq *cq)
{
	const struct sr_cq_ex *c = find(cq);
	const struct sr_thread *poller = c ? c->poller : NULL;

	return poller && poller != &sr_self;
}

struct sr_cq_ex *sr_cq_ex_take(struct ibv_cq *cq)
{
	return sr_map_take(&extended, (uintptr_t)cq);
}

void sr_cq_ex_put_back(struct ibv_cq *cq, struct sr_cq_ex *c)
{
	void *old;

	if (c && sr_map_put(&extended, (uintptr_t)cq, c, &old))
		sr_free(c);
}

/* Without memory the queue stays unknown, like one created by direct verbs. */
static bool add(struct ibv_cq *cq)
{
	struct sr_cq_ex *c = sr_alloc_zeroed(sizeof(*c));

	has_any = true;
	sr_cq_ex_put_back(cq, c);
	return c;
}

/* --------------------------------------------------------- create, destroy */

/* The program's struct may come from an older header and be shorter. */
static struct ibv_cq_init_attr_ex copy_of(const struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_init_attr_ex copy = {};

	memcpy(&copy, attr, offsetof(struct ibv_cq_init_attr_ex, flags));
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS)
		copy.flags = attr->flags;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		copy.parent_domain = attr->parent_domain;
	return copy;
}

/*
 * The shim needs the length of each receive to find its bytes, and the queue pair of each completion to know its peer, so it
 * asks for both even if the program did not.
 */
#define NEEDED (IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM)

static void hide_needed(struct ibv_cq_ex *cq, uint64_t asked)
{
	if (!(asked & IBV_WC_EX_WITH_BYTE_LEN))
		cq->read_byte_len = NULL;
	if (!(asked & IBV_WC_EX_WITH_QP_NUM))
		cq->read_qp_num = NULL;
}

uint64_t sr_invoke_create_cq_ex(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_cq_init_attr_ex *asked = (void *)a[1], attr = copy_of(asked);
	struct ibv_cq_ex *cq;

	attr.wc_flags |= NEEDED;
	attr.cqe = (uint32_t)sr_cq_depth((int)attr.cqe);
	cq = (void *)sr_real(d, (uint64_t[]){a[0], (uintptr_t)&attr});
	if (!cq && attr.cqe != asked->cqe) {
		attr.cqe = asked->cqe;
		cq = (void *)sr_real(d, (uint64_t[]){a[0], (uintptr_t)&attr});
	}
	if (!cq)
		return 0;
	if (!add(ibv_cq_ex_to_cq(cq)))
		return (uintptr_t)cq;
	sr_cq_add(ibv_cq_ex_to_cq(cq));
	sr_ops_patch(cq, SR_SOURCE_CQ);
	hide_needed(cq, asked->wc_flags);
	return (uintptr_t)cq;
}

void sr_replayed_create_cq_ex(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if (result)
		add((struct ibv_cq *)result);
}

void sr_replayed_destroy_cq(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if ((int)result == 0)
		sr_free(sr_cq_ex_take((struct ibv_cq *)a[0]));
}

/* ------------------------------------------------------------------ polling */

static void read_fields(struct ibv_cq_ex *cq, const struct ibv_cq_ex *ops, struct sr_completion *c)
{
	*c = (struct sr_completion){.wr_id = cq->wr_id, .status = cq->status};
#define READ(field)                                                                                \
	if (ops->read_##field)                                                                     \
	c->field = ops->read_##field(cq)
	READ(opcode);
	READ(vendor_err);
	READ(byte_len);
	READ(imm_data);
	READ(qp_num);
	READ(src_qp);
	READ(wc_flags);
	READ(slid);
	READ(sl);
	READ(dlid_path_bits);
	READ(completion_ts);
	READ(cvlan);
	READ(flow_tag);
	READ(completion_wallclock_ns);
#undef READ
	if (ops->read_tm_info)
		ops->read_tm_info(cq, &c->tm_info);
}

/* Returns false if the completion is one of the shim's own. */
static bool found(struct ibv_cq_ex *cq, struct sr_completion *c, struct sr_received *received)
{
	struct ibv_wc wc;

	read_fields(cq, sr_ops_saved(cq), c);
	wc = (struct ibv_wc){.wr_id = c->wr_id,
			     .status = c->status,
			     .opcode = c->opcode,
			     .vendor_err = c->vendor_err,
			     .byte_len = c->byte_len,
			     .qp_num = c->qp_num};
	if (!sr_wq_complete(&wc, 1, received))
		return false;
	cq->wr_id = c->wr_id = wc.wr_id;
	cq->status = c->status = wc.status;
	c->opcode = wc.opcode;
	c->vendor_err = wc.vendor_err;
	c->byte_len = wc.byte_len;
	return true;
}

/* For start_poll and next_poll. */
uint64_t sr_invoke_start_poll(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_cq_ex *cq = (void *)a[0];
	struct sr_received *received = (void *)a[d->nargs];
	struct sr_cq_ex *c = find(ibv_cq_ex_to_cq(cq));
	struct sr_wq *retired = sr_cq_retired(ibv_cq_ex_to_cq(cq));
	int err = (int)sr_real(d, a);
	bool started = !err && d == &sr_calls[SR_CALL_start_poll];

	sr_picks_stop(); /* not each of these completions says whose it is */
	sr_received_none(received);
	while (!err && c && !found(cq, &c->current, received))
		err = (int)sr_real(&sr_calls[SR_CALL_next_poll], a);
	/* The program does not call end_poll if it got no completion. */
	if (err && started)
		sr_real(&sr_calls[SR_CALL_end_poll], a);
	else if (started && c)
		c->poller = &sr_self;
	sr_clocks_sample();
	if (err == ENOENT && retired)
		sr_cq_drained(ibv_cq_ex_to_cq(cq), retired);
	return (uint64_t)(int64_t)err;
}

uint64_t sr_invoke_end_poll(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_cq_ex *c = find((const struct ibv_cq *)a[0]);
	uint64_t result = sr_real(d, a);

	if (c)
		c->poller = NULL;
	return result;
}

void sr_replayed_poll(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	struct ibv_cq_ex *cq = (void *)a[0];
	const struct sr_completion *c = sr_cq_current(cq);

	if ((int)result != 0 || !c)
		return;
	cq->wr_id = c->wr_id;
	cq->status = c->status;
}
