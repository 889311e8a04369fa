/* SPDX-License-Identifier: BSD-2-Clause */
/* cq_ex.c: extended completion queues: one completion at a time, its fields by functions. */
#include <errno.h>

#include "local.h"

static int next_poll(struct ibv_cq_ex *ex)
{
	struct sd_local_cq *c = (struct sd_local_cq *)ex;

	if (!sd_poll_cq(&c->cq, 1, &c->current))
		return ENOENT;
	c->polled++;
	ex->wr_id = c->current.wr_id;
	ex->status = c->current.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	return attr->comp_mask ? EINVAL : next_poll(ex);
}

static void end_poll(struct ibv_cq_ex *ex)
{
}

#define READ_FIELD(type, name, field)                                                              \
	static type read_##name(struct ibv_cq_ex *ex)                                              \
	{                                                                                          \
		return ((struct sd_local_cq *)ex)->current.field;                                  \
	}

READ_FIELD(enum ibv_wc_opcode, opcode, opcode)
READ_FIELD(uint32_t, vendor_err, vendor_err)
READ_FIELD(uint32_t, byte_len, byte_len)
READ_FIELD(__be32, imm_data, imm_data)
READ_FIELD(uint32_t, qp_num, qp_num)
READ_FIELD(uint32_t, src_qp, src_qp)
READ_FIELD(unsigned int, wc_flags, wc_flags)
READ_FIELD(uint32_t, slid, slid)
READ_FIELD(uint8_t, sl, sl)
READ_FIELD(uint8_t, dlid_path_bits, dlid_path_bits)

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return 1000 * ((struct sd_local_cq *)ex)->polled;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	return 1000000000 + read_completion_ts(ex);
}

static uint16_t read_cvlan(struct ibv_cq_ex *ex)
{
	return (uint16_t)((struct sd_local_cq *)ex)->polled;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *ex)
{
	return ~(uint32_t)((struct sd_local_cq *)ex)->polled;
}

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info)
{
	*info = (struct ibv_wc_tm_info){.tag = read_completion_ts(ex), .priv = read_flow_tag(ex)};
}

void sd_cq_add_readers(struct sd_local_cq *c, uint64_t wc_flags)
{
	c->ex.start_poll = start_poll;
	c->ex.next_poll = next_poll;
	c->ex.end_poll = end_poll;
	c->ex.read_opcode = read_opcode;
	c->ex.read_vendor_err = read_vendor_err;
	c->ex.read_wc_flags = read_wc_flags;
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		c->ex.read_byte_len = read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		c->ex.read_imm_data = read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		c->ex.read_qp_num = read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		c->ex.read_src_qp = read_src_qp;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		c->ex.read_slid = read_slid;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		c->ex.read_sl = read_sl;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		c->ex.read_dlid_path_bits = read_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		c->ex.read_completion_ts = read_completion_ts;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		c->ex.read_completion_wallclock_ns = read_completion_wallclock_ns;
	if (wc_flags & IBV_WC_EX_WITH_CVLAN)
		c->ex.read_cvlan = read_cvlan;
	if (wc_flags & IBV_WC_EX_WITH_FLOW_TAG)
		c->ex.read_flow_tag = read_flow_tag;
	if (wc_flags & IBV_WC_EX_WITH_TM_INFO)
		c->ex.read_tm_info = read_tm_info;
}
