/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clock_posts.h: the shim's own requests around those of the program.  The caller holds the
 * queue's lock on posts.  See clocks.h for what these requests are.
 */
#ifndef SHIM_VERBS_CLOCK_POSTS_H
#define SHIM_VERBS_CLOCK_POSTS_H

#include <stdbool.h>

#include "shim/verbs/objects.h"

/* Does a request of this kind need a CLOCK in front of it? */
bool sr_clock_goes_before(enum ibv_wr_opcode opcode);

/*
 * Makes a CLOCK with the number of the last tick, or a READER that takes over the completion of
 * `fetch`.  NULL: no memory.
 */
struct sr_wqe *sr_clock_take_before(struct sr_qp *q, struct sr_wqe *program);
struct sr_wqe *sr_clock_take_behind(struct sr_qp *q, struct sr_wqe *fetch,
				    enum ibv_wr_opcode opcode);

/* The CLOCK that was filled or built last was not posted. */
void sr_clock_was_not_posted(struct sr_qp *q);

/* _fill_: for ibv_post_send; _build_: by the builders of ibv_qp_ex. */
void sr_clock_fill_before(struct sr_qp *q, struct sr_wqe *wqe, struct ibv_send_wr *wr);
void sr_clock_fill_behind(struct sr_qp *q, struct sr_wqe *wqe, struct ibv_send_wr *wr);
void sr_clock_build_before(struct sr_qp *q, struct sr_wqe *wqe, struct ibv_qp_ex *ex);
void sr_clock_build_behind(struct sr_qp *q, struct sr_wqe *wqe, struct ibv_qp_ex *ex);

#endif
