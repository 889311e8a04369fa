/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * decode.h: arguments and results of the calls that log processing uses, decoded.
 *
 * The getters come from calls.def; kinds.h has made sure that the trace has the same layout. Each
 * function returns false if the bytes do not fit.
 */
#ifndef REPLAY_ANALYSIS_LOG_DECODE_H
#define REPLAY_ANALYSIS_LOG_DECODE_H

#include "replay/analysis/log/rank.h"
#include "shim/core/codec.h"

struct sr_log_create_qp {
	uint64_t qp; /* 0: it failed */
	uint32_t qp_num, type;
	bool sig_all;
};
bool sr_log_get_create_qp(const struct sr_log_call *c, struct sr_log_create_qp *v);

struct sr_log_modify_qp {
	uint64_t qp;
	uint32_t mask;
	struct ibv_qp_attr attr;
};
/* False also if the call failed. */
bool sr_log_get_modify_qp(const struct sr_log_call *c, struct sr_log_modify_qp *v);

/* iova - address, of a registration's keys. */
struct sr_log_reg_mr {
	uint32_t lkey, rkey;
	uint64_t addr, length, iova;
	bool is_relaxed; /* IBV_ACCESS_RELAXED_ORDERING */
};
bool sr_log_get_reg_mr(const struct sr_log_call *c, struct sr_log_reg_mr *v);

/* The same of ibv_rereg_mr.  *mr: the region, whose keys may be others now; it keeps its memory if addr is 0. */
bool sr_log_get_rereg_mr(const struct sr_log_call *c, uint64_t *mr, struct sr_log_reg_mr *v);

/* ibv_query_qp_data_in_order: the queue pair, if whole WRITEs come in order to it; else 0. */
uint64_t sr_log_get_in_order(const struct sr_log_call *c);

/* What a program said of itself (sreplay/annotate.h). */
struct sr_log_annotation {
	uint32_t what;        /* enum sreplay_annotation */
	uint64_t name, bytes; /* of a lock or a barrier its name, of memory its address */
};
bool sr_log_get_annotation(const struct sr_log_call *c, struct sr_log_annotation *v);

/* The argument of a call that destroys: a region, a queue pair, or librdmacm's identifier; 0: it failed. */
uint64_t sr_log_destroyed(const struct sr_log_call *c);

struct sr_log_gid {
	uint32_t index;
	uint8_t gid[16];
};
bool sr_log_get_gid(const struct sr_log_call *c, struct sr_log_gid *v);

/* What a call of librdmacm reveals of identifiers and events. */
struct sr_log_cm {
	uint64_t id; /* 0: nothing to be seen */
	uint64_t qp; /* 0: it has none yet */
	uint32_t qp_num, qp_type;
	uint32_t peer_qp_num; /* 0: no event had it */
	int sig_all;          /* -1: not known from this call */
	int event;            /* enum rdma_cm_event_type; -1: none was returned */
};
bool sr_log_get_cm(const struct sr_log_call *c, struct sr_log_cm *v);

/* What a poll has found: completions, then segments of bytes that have arrived. */
struct sr_log_polled {
	struct sr_cursor completions, segments; /* at the first of each */
	size_t n, segments_n;
	bool extended; /* by start_poll or next_poll: one completion, of struct sr_completion */
};
/* False also if it found nothing. */
bool sr_log_get_polled(const struct sr_log_call *c, struct sr_log_polled *v);
/* The same of a record as it is in the trace.  False also if it is none of such a call. */
bool sr_log_get_polled_of(const struct sr_log_kinds *k, const struct sr_entry *e, struct sr_log_polled *v);

/* What hooks in the program have seen: struct sr_hooked_access (shim/access/access.h), and for each of them a u32. */
struct sr_log_accesses {
	uint32_t n;
	const uint8_t *list, *faults; /* of no alignment */
};
/* Of a record as it is in the trace.  False also if it is none of such a call. */
bool sr_log_get_accesses_of(const struct sr_log_kinds *k, const struct sr_entry *e, struct sr_log_accesses *v);

/* Is it one whose bytes the trace leaves out (logd/trace/left_out.h)?  *length: of these. */
bool sr_log_is_left_out(uint64_t address, const void *data, size_t size, uint32_t *length);

#endif
