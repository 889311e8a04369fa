/* SPDX-License-Identifier: BSD-2-Clause */
/* rc.h: RC queue pairs of one process, and the time, for the benchmarks' programs. */
#ifndef BENCH_RC_H
#define BENCH_RC_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <infiniband/verbs.h>

static inline void die(const char *what)
{
	perror(what);
	exit(1);
}

/* Nanoseconds. */
static inline double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static inline struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *send_cq,
				     struct ibv_cq *recv_cq, uint32_t depth)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = send_cq,
	    .recv_cq = recv_cq,
	    .cap = {.max_send_wr = depth,
		    .max_recv_wr = depth,
		    .max_send_sge = 1,
		    .max_recv_sge = 1,
		    .max_inline_data = 8},
	    .qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	if (!qp)
		die("ibv_create_qp");
	return qp;
}

/* Up to RTS; attr: all but the states, and the retries of a receiver that is not ready. */
static inline void bring_up(struct ibv_qp *qp, struct ibv_qp_attr attr)
{
	int err;

	attr.qp_state = IBV_QPS_INIT;
	err = ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	err |= ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	attr.rnr_retry = 7;
	err |= ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (err)
		die("ibv_modify_qp");
}

#endif
