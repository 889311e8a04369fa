/* SPDX-License-Identifier: BSD-2-Clause */
/* trace_calls.h: writes the verbs calls of invented processes, for trace_maker.h. */
#ifndef TESTS_PROCESS_TRACE_CALLS_H
#define TESTS_PROCESS_TRACE_CALLS_H

#include <infiniband/verbs.h>

#include "trace_maker.h"

/* Orders: numbers of the call's event, if the process has threads (0: none). */

/* A queue pair, created and connected to another one by number: INIT, RTR, RTS. */
void trace_qp(struct trace_maker *m, int rank, uint32_t thread, uint64_t qp, uint32_t qp_num,
	      uint32_t peer_qp_num, uint32_t psn, uint32_t peer_psn);

struct trace_request {
	enum ibv_wr_opcode opcode;
	uint64_t wr_id, address, remote;
	uint32_t length;
	bool unsignaled;
};

/* Returns the call's SN. */
uint64_t trace_post_send(struct trace_maker *m, int rank, uint32_t thread, uint64_t qp,
			 const struct trace_request *requests, uint32_t n, uint64_t order);

/* ibv_bind_mw, signaled. */
void trace_bind_mw(struct trace_maker *m, int rank, uint32_t thread, uint64_t qp, uint64_t wr_id,
		   int result);

struct trace_completion {
	uint64_t wr_id;
	enum ibv_wc_opcode opcode;
	enum ibv_wc_status status;
	uint32_t qp_num, length;
	uint64_t address; /* of what arrived; 0: nothing */
	const void *data;
};

uint64_t trace_poll_cq(struct trace_maker *m, int rank, uint32_t thread,
		       const struct trace_completion *completions, uint32_t n, uint64_t order);

#endif
