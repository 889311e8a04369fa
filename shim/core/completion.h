/* SPDX-License-Identifier: BSD-2-Clause */
/* completion.h: a completion of an extended queue, as calls.def records it. */
#ifndef SHIM_CORE_COMPLETION_H
#define SHIM_CORE_COMPLETION_H

#include <stdint.h>

#include <infiniband/verbs.h>

/* What the program may read of a completion between start_poll and end_poll. */
struct sr_completion {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t vendor_err;
	uint32_t byte_len;
	__be32 imm_data;
	uint32_t qp_num;
	uint32_t src_qp;
	unsigned int wc_flags;
	uint32_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
	uint64_t completion_ts;
	uint16_t cvlan;
	uint32_t flow_tag;
	struct ibv_wc_tm_info tm_info;
	uint64_t completion_wallclock_ns;
};

#endif
