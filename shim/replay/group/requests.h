/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * requests.h: the program's queue pairs in the replay of a group, and their outstanding
 * requests.
 *
 *   requests.c     queue pairs from creation to destruction, and the effects of the calls
 *   posts.c        requests posted by ibv_post_send, ibv_bind_mw and the builders
 *   completions.c  completions: compares what entered with what the group produced
 *
 * logd/base/matching.h says which request a completion belongs to.  The caller holds
 * sr_group_lock.
 */
#ifndef SHIM_REPLAY_GROUP_REQUESTS_H
#define SHIM_REPLAY_GROUP_REQUESTS_H

#include "logd/base/matching.h"
#include "shim/replay/group/own.h"

/* A work request, from its post to its completion. */
struct sr_request {
	union { /* must be first: the queues point to it */
		struct sr_send_request send;
		struct sr_recv_request receive;
	};
	struct sr_request *built; /* the next one of the batch that is being built */
	enum ibv_wr_opcode opcode;
	bool fetched; /* the fetched bytes were compared */
	struct sr_group_origin origin;
	uint64_t remote_addr;
	uint64_t compare_add, swap;
	uint64_t change; /* atomic: its entry in the peer's history; 0: none */
	uint64_t fetch;  /* READ, atomic: its first element in fetches.c; receive: the latest end there when it was posted */
	uint32_t imm_data;
	uint32_t remote_qpn; /* of a datagram */
	struct sr_buf inlined; /* from the builders, which copy inline data at once */
	bool is_inline;
	struct ibv_sge *sge;
	uint32_t num_sge;
};

struct sr_request_qp {
	struct ibv_qp *qp;
	bool sig_all;
	int32_t peer;       /* member, or -1 */
	struct sr_group_channel *out, *in;
	uint64_t received; /* number of messages received from `in` */
	struct sr_send_queue sends;
	struct sr_recv_queue receives;
	struct sr_request *batch, *batch_last; /* requests built since wr_start */
	/* From before the last reset, as long as its completions may still be polled. */
	uint64_t reset_at; /* 0: it was not reset, or nothing of before can come */
	struct sr_group_channel *in_before;
	uint64_t received_before;
	struct sr_recv_queue receives_before;
};

/* ------------------------------------------------------------ requests.c */

/* NULL: no memory. */
struct sr_request_qp *sr_request_qp(struct ibv_qp *qp);
/*
 * Has the queue pair completions from before its last reset that the program may still poll?  No,
 * once a poll of its queue has found nothing more.
 */
bool sr_request_may_be_from_before(struct sr_request_qp *q);
void sr_request_forget_receives_before(struct sr_request_qp *q);
void sr_requests_each(void (*f)(struct sr_request_qp *q, void *argument), void *argument);
/* NULL if there is no such queue pair. */
struct sr_request_qp *sr_request_qp_numbered(struct ibv_context *context, uint32_t number);

/* The queue pair's receives, or those of its SRQ if it has one.  NULL: no memory. */
struct sr_recv_queue *sr_request_receives(struct sr_request_qp *q);
struct sr_recv_queue *sr_request_receives_of_shared(struct ibv_srq *srq);

/* Makes a request with a copy of the list.  NULL: no memory. */
struct sr_request *sr_request_new(const struct ibv_sge *sge, int num_sge);
bool sr_request_set_list(struct sr_request *r, const struct ibv_sge *sge, uint32_t num_sge);
void sr_request_free(struct sr_request *r);

/*
 * Does the proxy make the requests of this queue pair again on a device?  Only those of RC queue
 * pairs: the other types lose messages or have several peers.
 */
static inline bool sr_request_is_transferred(const struct sr_request_qp *q)
{
	return q->out && q->qp->qp_type == IBV_QPT_RC && sr_group_over_device();
}

/* --------------------------------------------------------------- posts.c */

void sr_request_post_send(struct sr_thread *t, const uint64_t *a, int result);
void sr_request_post_bind(struct sr_thread *t, const uint64_t *a);
void sr_request_post_receives(struct sr_thread *t, struct sr_recv_queue *to,
			      const struct ibv_recv_wr *wr, const struct ibv_recv_wr *bad);
/* Handles a builder of ibv_qp_ex; ignores other calls. */
void sr_request_build(enum sr_call_number n, const uint64_t *a);
void sr_request_post_batch(struct sr_thread *t, struct ibv_qp_ex *ex, int result);
void sr_request_drop_batch(struct sr_request_qp *q);

/* --------------------------------------------------------- completions.c */

void sr_request_completed(struct sr_thread *t, struct ibv_cq *cq, const struct ibv_wc *wc);

/*
 * Does the memory of the receive hold the bytes of the channel's message, as far as the program knows?  header: what comes
 * in front of the message there.
 */
bool sr_request_holds(const struct sr_request_qp *q, const struct sr_group_channel *in, const struct sr_request *r,
		      uint32_t header, const struct sr_group_message *m);

#endif
