/* SPDX-License-Identifier: BSD-2-Clause */
/* builders.c: the builders of ibv_qp_ex, which post without a struct ibv_send_wr. */
#include <errno.h>
#include <string.h>

#include "local.h"

static struct sd_local_qp *local_of(struct ibv_qp_ex *ex)
{
	return (struct sd_local_qp *)ex;
}

/*
 * A batch fills slots behind sq_tail; the first error makes the whole batch fail. As on a device,
 * no other thread posts to the queue until the batch is complete. The program may do anything else
 * in between.
 */
static void wr_start(struct ibv_qp_ex *ex)
{
	struct sd_local_qp *local = local_of(ex);

	sd_posting_begins(local);
	local->built = 0;
	local->build_error = 0;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct sd_local_qp *local = local_of(ex);

	local->built = 0; /* an ibv_post_send that comes next counts them, too */
	local->build_error = 0;
	sd_posting_ends(local);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct sd_local_qp *local = local_of(ex);
	struct sd_qp *qp = local->shared;
	uint64_t now = sd_now();
	int err;

	sd_lock();
	err = local->build_error ? local->build_error : sd_takes_sends(qp) ? 0 : EINVAL;
	for (uint32_t n = err ? 0 : local->built; n; n--)
		sd_append(qp, now);
	local->built = 0;
	if (qp->connected)
		sd_progress(now);
	sd_unlock();
	sd_posting_ends(local);
	return err;
}

/* The request being built; after an error, one that is never executed. */
static struct sd_send *building(struct sd_local_qp *local)
{
	return sd_send(local->shared, local->shared->sq_tail + local->built - 1);
}

static struct sd_send *build(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	static struct sd_send nobody;
	struct sd_local_qp *local = local_of(ex);
	struct sd_send *s;

	if (local->build_error || sd_sq_is_full(local)) {
		local->build_error = local->build_error ? local->build_error : ENOMEM;
		return &nobody;
	}
	local->built++;
	s = building(local);
	s->wr_id = ex->wr_id;
	s->flags = ex->wr_flags;
	s->opcode = opcode;
	s->num_sge = s->inline_length = 0;
	return s;
}

static void note_build_error(struct sd_local_qp *local, int err)
{
	if (!local->build_error)
		local->build_error = err;
}

static void build_remote(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
			 uint64_t addr)
{
	struct sd_send *s = build(ex, opcode);

	s->rkey = rkey;
	s->remote_addr = addr;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	build(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	build(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm_data;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	build(ex, IBV_WR_SEND_WITH_INV)->imm_data = rkey;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	build(ex, IBV_WR_LOCAL_INV)->imm_data = rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	sd_copy_bind(build(ex, IBV_WR_BIND_MW), mw->rkey >> 8 == rkey >> 8 ? rkey : 0, info);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	build_remote(ex, IBV_WR_RDMA_WRITE, rkey, addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm_data)
{
	struct sd_send *s = build(ex, IBV_WR_RDMA_WRITE_WITH_IMM);

	s->rkey = rkey;
	s->remote_addr = addr;
	s->imm_data = imm_data;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	build_remote(ex, IBV_WR_RDMA_READ, rkey, addr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
			      uint64_t swap)
{
	struct sd_send *s = build(ex, IBV_WR_ATOMIC_CMP_AND_SWP);

	s->rkey = rkey;
	s->remote_addr = addr;
	s->compare_add = compare;
	s->swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	struct sd_send *s = build(ex, IBV_WR_ATOMIC_FETCH_AND_ADD);

	s->rkey = rkey;
	s->remote_addr = addr;
	s->compare_add = add;
}

#ifdef SR_HAS_WR_ATOMIC_WRITE
/* The word goes along with the request. */
static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, const void *word)
{
	struct sd_local_qp *local = local_of(ex);

	build_remote(ex, SD_WR_ATOMIC_WRITE, rkey, addr);
	if (local->build_error)
		return;
	building(local)->flags |= IBV_SEND_INLINE;
	note_build_error(local,
			 sd_append_inline(local->shared, building(local), word, sizeof(uint64_t)));
}
#endif

#ifdef SR_HAS_WR_FLUSH
static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, size_t length, uint8_t type, uint8_t level)
{
	struct sd_send *s = build(ex, SD_WR_FLUSH);

	s->rkey = rkey;
	s->remote_addr = addr;
	s->flush_length = level == IBV_FLUSH_RANGE ? length : 0;
	s->flush_access = type & IBV_FLUSH_PERSISTENT ? SD_ACCESS_FLUSH_PERSISTENT : SD_ACCESS_FLUSH_GLOBAL;
}
#endif

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct sd_local_qp *local = local_of(ex);
	const struct sd_ah *to = (struct sd_ah *)ah;

	if (local->build_error)
		return;
	building(local)->remote_qpn = qpn;
	building(local)->remote_qkey = qkey;
	sd_address(building(local), to);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	struct sd_local_qp *local = local_of(ex);

	if (!local->build_error)
		building(local)->remote_srqn = srqn;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct sd_local_qp *local = local_of(ex);

	if (!local->build_error)
		note_build_error(local,
				 sd_append_inline(local->shared, building(local), addr, length));
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	for (size_t i = 0; i < n; i++)
		wr_set_inline_data(ex, list[i].addr, list[i].length);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sge)
{
	struct sd_local_qp *local = local_of(ex);

	if (!local->build_error)
		note_build_error(local, sd_take_list(local->shared, building(local), sge, n));
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	wr_set_sge_list(ex, 1, &(struct ibv_sge){.lkey = lkey, .addr = addr, .length = length});
}

void sd_qp_add_builders(struct sd_local_qp *local)
{
	uint64_t wanted = local->init.send_ops_flags;
	struct ibv_qp_ex *ex = &local->ex;

	local->has_builders = true;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	if (local->qp.qp_type == IBV_QPT_UD)
		ex->wr_set_ud_addr = wr_set_ud_addr;
	if (local->qp.qp_type == IBV_QPT_XRC_SEND)
		ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	if (wanted & IBV_QP_EX_WITH_SEND)
		ex->wr_send = wr_send;
	if (wanted & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = wr_send_imm;
	if (wanted & IBV_QP_EX_WITH_SEND_WITH_INV)
		ex->wr_send_inv = wr_send_inv;
	if (wanted & IBV_QP_EX_WITH_LOCAL_INV)
		ex->wr_local_inv = wr_local_inv;
	if (wanted & IBV_QP_EX_WITH_BIND_MW)
		ex->wr_bind_mw = wr_bind_mw;
	if (wanted & IBV_QP_EX_WITH_RDMA_WRITE)
		ex->wr_rdma_write = wr_rdma_write;
	if (wanted & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex->wr_rdma_write_imm = wr_rdma_write_imm;
	if (wanted & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = wr_rdma_read;
	if (wanted & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
#ifdef SR_HAS_WR_ATOMIC_WRITE
	if (wanted & SD_EX_WITH_ATOMIC_WRITE)
		ex->wr_atomic_write = wr_atomic_write;
#endif
#ifdef SR_HAS_WR_FLUSH
	if (wanted & IBV_QP_EX_WITH_FLUSH)
		ex->wr_flush = wr_flush;
#endif
	if (wanted & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
}
