/* SPDX-License-Identifier: BSD-2-Clause */
/* loopback_qp.h: what RC queue pairs are told that meet over the stand-in's loopback (tests/lib/softdev). */
#ifndef APPS_LOOPBACK_QP_H
#define APPS_LOOPBACK_QP_H

#include <infiniband/verbs.h>

/* To be in a state, connected to the queue pair of that number; access: for its peer. */
static inline struct ibv_qp_attr loopback_attr(enum ibv_qp_state state, uint32_t peer,
					       unsigned int access)
{
	return (struct ibv_qp_attr){
	    .qp_state = state,
	    .port_num = 1,
	    .qp_access_flags = access,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = peer,
	    /* 127.0.0.1, which the stand-in's port has. */
	    .ah_attr = {.is_global = 1,
			.grh.dgid.raw = {[10] = 0xff, 0xff, 127, 0, 0, 1},
			.port_num = 1},
	    .max_dest_rd_atomic = 1,
	    .max_rd_atomic = 1,
	    .rnr_retry = 7,
	};
}

/* Which of it a connected queue pair needs for that. */
static inline int loopback_mask(enum ibv_qp_state state)
{
	switch (state) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	case IBV_QPS_RTR:
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	case IBV_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	default:
		return IBV_QP_STATE;
	}
}

#endif
