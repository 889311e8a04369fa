/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kinds.h: which of a trace's calls log processing uses.
 *
 * A call's number is that of the version that recorded the trace.  The layout must be the one that
 * this version decodes; the schemas tell.
 */
#ifndef REPLAY_ANALYSIS_LOG_KINDS_H
#define REPLAY_ANALYSIS_LOG_KINDS_H

#include <stdint.h>

#include <sreplay/trace.h>

#include "logd/trace/reader.h"

enum sr_what {
	SR_WHAT_NOTHING,
	/* The data path. */
	SR_WHAT_POST_SEND,
	SR_WHAT_POST_RECV,
	SR_WHAT_POST_SRQ_RECV,
	SR_WHAT_POLL,
	SR_WHAT_POLL_EX, /* start_poll, next_poll */
	SR_WHAT_BATCH_START,
	SR_WHAT_BATCH_COMPLETE,
	SR_WHAT_BATCH_ABORT,
	SR_WHAT_BUILD_PLAIN,  /* a builder whose other arguments are ignored */
	SR_WHAT_BUILD_REMOTE, /* (rkey, remote_addr, ...) */
	SR_WHAT_SET_SGE,
	SR_WHAT_SET_SGE_LIST,
	SR_WHAT_SET_INLINE,
	SR_WHAT_SET_INLINE_LIST,
	SR_WHAT_SET_UD_ADDR,
	SR_WHAT_BIND_MW,
	SR_WHAT_DATA_PATH_END, /* up to here */
	SR_WHAT_CREATE_QP,
	SR_WHAT_CREATE_QP_EX,
	SR_WHAT_MODIFY_QP,
	SR_WHAT_DESTROY_QP,
	SR_WHAT_QUERY_IN_ORDER, /* ibv_query_qp_data_in_order */
	SR_WHAT_REG_MR,
	SR_WHAT_REG_MR_IOVA,
	SR_WHAT_REREG_MR,
	SR_WHAT_DEREG_MR,
	SR_WHAT_QUERY_GID,
	SR_WHAT_QUERY_GID_EX,
	SR_WHAT_CM_EVENT,
	SR_WHAT_CM_CREATE_QP,
	SR_WHAT_CM_CREATE_QP_EX,
	SR_WHAT_CM_CREATE_EP,
	SR_WHAT_CM_CONNECT, /* rdma_connect, rdma_accept: they may hold an event */
	SR_WHAT_CM_REQUEST,
	SR_WHAT_CM_DISCONNECT,
	SR_WHAT_CM_DESTROY, /* of an identifier's queue pair, perhaps with the identifier */
	SR_WHAT_CM_DESTROY_ID,
	SR_WHAT_ACCESSES,   /* of shim/access/access.h */
	SR_WHAT_ANNOTATION, /* of sreplay/annotate.h */
	SR_WHATS,
};

#define SR_LOG_CALLS 1024 /* at most, in a schema */

struct sr_log_kinds {
	uint8_t what[SR_LOG_CALLS];   /* by kind - SR_REC_CALL */
	uint8_t opcode[SR_LOG_CALLS]; /* of builders: enum ibv_wr_opcode */
};

/* 0, or -errno and a sentence. */
int sr_log_kinds_load(struct sr_log_kinds *k, const struct sr_trace *t, int32_t rank,
		      struct sr_error *err);

static inline enum sr_what sr_log_what(const struct sr_log_kinds *k, uint16_t kind)
{
	unsigned int n = (unsigned int)kind - SR_REC_CALL;

	return n < SR_LOG_CALLS ? (enum sr_what)k->what[n] : SR_WHAT_NOTHING;
}

#endif
