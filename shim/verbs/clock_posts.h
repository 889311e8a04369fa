/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clock_posts.h: the shim's own requests around those of the program, made for
 * queues.c with the queue's lock on posts held.  See clocks.h for what they are.
 */
#ifndef SHIM_VERBS_CLOCK_POSTS_H
#define SHIM_VERBS_CLOCK_POSTS_H

#include <stdbool.h>

#include "shim/verbs/objects.h"

/* Does a request of this kind need a CLOCK in front of it? */
bool sr_clock_goes_before(enum ibv_wr_opcode opcode);

/* A CLOCK with the last tick's number, or a READER that takes over the completion; NULL: none. */
struct sr_wqe *sr_clock_take_before(struct sr_qp *q, struct sr_wqe *program);
struct sr_wqe *sr_clock_take_behind(struct sr_qp *q, struct sr_wqe *fetch,
				    enum ibv_wr_opcode opcode);

/* A CLOCK that was filled or built was not posted. */
void sr_clock_was_not_posted(struct sr_qp *q);

/* For ibv_post_send, or as a builder of ibv_qp_ex posts it. */
void sr_clock_fill_before(struct sr_qp *q, struct sr_wqe *wqe, struct ibv_send_wr *wr);
void sr_clock_fill_behind(struct sr_qp *q, struct sr_wqe *wqe, struct ibv_send_wr *wr);
void sr_clock_build_before(struct sr_qp *q, struct sr_wqe *wqe, struct ibv_qp_ex *ex);
void sr_clock_build_behind(struct sr_qp *q, struct sr_wqe *wqe, struct ibv_qp_ex *ex);

#endif
