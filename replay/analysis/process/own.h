/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own.h: shared by the parts of log processing (process.h): ranks, their queue pairs, and what is
 * in flight.
 *
 * process.c: which rank advances; clocks and exposed regions before its calls
 * queues.c: queue pairs and their connections
 * datagrams.c: which datagram a completion brought
 * registrations.c: memory regions
 * posts.c: requests (post_send, ibv_bind_mw, the builders)
 * polls.c: completions, and the values that they brought
 * picks.c: whose completions are that do not say it
 */
#ifndef REPLAY_ANALYSIS_PROCESS_OWN_H
#define REPLAY_ANALYSIS_PROCESS_OWN_H

#include "logd/base/matching.h"
#include "nicclock/picks.h"
#include "replay/analysis/log/decode.h"
#include "replay/analysis/log/keymap.h"
#include "replay/analysis/log/links.h"
#include "replay/analysis/process/events.h"
#include "replay/analysis/process/knowledge.h"

/* Messages in flight on one queue pair, before the receiver gets to advance first. */
#define MANY_MESSAGES 65536

/* ------------------------------------------------------------- queue pairs */

/* A queue that grows. */
struct ring {
	void *p;
	size_t first, used, room; /* a power of two */
};

/* A request in a send queue. */
struct request {
	struct sr_send_request send; /* first: matching.h hands it back */
	struct sr_position at;
	uint64_t posted; /* number of struct sr_posted */
	uint64_t length, remote, first_sge;
	uint16_t number;
	uint16_t pieces; /* of its list */
	uint8_t opcode;
	bool fetches, fetched;
};

/* What else is reported of a request. */
struct details {
	struct sr_posted_piece *pieces;
	size_t pieces_n, pieces_room;
	uint64_t operand, expected;
	uint32_t flags; /* IBV_SEND_* */
	uint32_t remote_qpn; /* of a datagram */
};

/* One of a batch that is being built. */
struct built {
	struct request rq;
	struct details details; /* its list is used again by the next batch */
	uint64_t checksum;
	uint32_t rkey;
};

/* A message that the other end has not received yet. */
struct message {
	struct sr_position at;
	uint64_t posted;
	uint64_t length, checksum;
	uint16_t number;
	uint8_t opcode;
};

#define DATAGRAM_PIECES 4

struct datagram {
	size_t rank; /* its sender */
	struct message message;
	uint32_t pieces[DATAGRAM_PIECES]; /* their lengths; its checksum depends on them */
	uint32_t pieces_n; /* 0: one */
};

/* What a completion says of the datagram that it brought. */
struct arriving {
	uint32_t from_qp, to_qp;
	uint32_t length;      /* without the GRH */
	const uint8_t *bytes; /* NULL: not known */
	bool by_length; /* the bytes are not to be relied on */
};

struct qp {
	uint64_t address;
	uint32_t qp_num, type;
	bool sig_all;
	bool broken; /* after an error: completions may be of none of its requests */
	bool is_in_order; /* the program was told that the data of WRITEs comes in order */
	bool deaf;   /* what it receives cannot be matched: it is not tried any more */
	bool by_length; /* of datagrams: what came cannot be told by its bytes */
	size_t end;
	struct sr_send_queue sends; /* of struct request */
	struct sr_send_request *spare; /* requests to use again */
	struct ring messages; /* struct message: sent, not received */
	struct built *batch;
	size_t batch_n, batch_room;
};

static inline void *sr_log_at(const struct ring *r, size_t i, size_t bytes)
{
	return (char *)r->p + ((r->first + i) & (r->room - 1)) * bytes;
}

static inline void sr_log_pop(struct ring *r)
{
	r->first++;
	r->used--;
}

/* Room for one more, behind the others; NULL: no memory. */
void *sr_log_push(struct ring *r, size_t bytes);

#define MESSAGE_AT(q, i) ((struct message *)sr_log_at(&(q)->messages, i, sizeof(struct message)))

/* ------------------------------------------------------------------- ranks */

enum blocked {
	NOT_BLOCKED,
	BY_EVENT,   /* an order names an event that its rank has not reached */
	BY_MESSAGE, /* a receive without the send */
	BY_DATAGRAM, /* the same, of a datagram */
	BY_PICK,    /* a completion that does not say whose it is, and none that it can be has come */
	BY_MANY,    /* the receiver of what it sends is far behind */
};

/* How many were sent there when it began to wait. */
struct awaited_datagram {
	uint32_t from_qp, to_qp;
	uint64_t sent;
};

struct registration {
	uint64_t begin, end;
	uint32_t lkey, rkey;
};

/* A send or receive queue of which some completions do not say that they are its own. */
struct script {
	uint64_t cq;
	uint32_t qp_num;
	bool receives;
	struct sr_pick_script s;
	size_t room;
	size_t other; /* place of one with the same number and another completion queue; SIZE_MAX: none */
};

struct rank {
	struct sr_log_rank *log;
	struct sr_log_call call;
	bool has_call, entered, over;
	bool lacks_sent;  /* its trace leaves out what other ranks sent (record --order) */
	size_t ended_for; /* it ends early because this rank's trace does, which may be its own; SR_NO_RANK: it does not */
	size_t clocks, regions; /* of those before the call, how many are taken */
	bool there;             /* knowledge has the rank's position */
	size_t completion, segment; /* progress within a poll */
	enum blocked blocked;
	size_t blocked_on;
	uint64_t blocked_event; /* BY_PICK: address of the completion queue */
	bool blocked_receive;   /* BY_PICK */
	struct qp *blocked_qp; /* it waits for its messages, or has too many of them */
	struct awaited_datagram awaited;
	bool in_vain; /* the datagram at hand has no sender */
	struct qp **qps;
	size_t qps_n, qps_room;
	struct sr_keymap by_address, by_number; /* to the place in qps */
	struct sr_keymap cm_qps; /* librdmacm's identifier to the address of its queue pair */
	struct script *scripts;
	size_t scripts_n, scripts_room;
	struct sr_keymap script_of; /* number of a queue pair, and which of its queues, to the last such place in scripts */
	struct registration *registrations;
	size_t registrations_n, registrations_room;
	struct sr_keymap by_mr; /* to the place in registrations */
};

struct process {
	const struct sr_links *links;
	const struct sr_process_hooks *hooks;
	struct sr_process_counts *counts;
	struct sr_error *err;
	struct sr_knowledge *knowledge;
	struct rank *ranks;
	size_t n;
	size_t of_member[SR_CLOCK_MEMBERS]; /* rank of a member of the clocks */
	struct qp **qp_of_end;
	uint64_t size, posted;
	struct details details; /* of the request that is being posted */
	struct datagram_flow *flows;
	size_t flows_n, flows_room;
	struct sr_keymap flow_of; /* the two numbers to the place in flows */
};

/*
 * The rank ends at its call, because the trace of `cut` ends before it has what the call needs.  1, as if the call waited for
 * that; or -errno.
 */
int sr_log_end_early(struct process *p, size_t rank, size_t cut);

/* ------------------------------------------------------------- queue pairs */

void sr_log_free_qp(struct qp *q);

/* Puts a copy of the request into the queue; -ENOMEM. */
int sr_log_add_request(struct qp *q, const struct request *rq);
/* It has left the queue: its memory is used again. */
void sr_log_drop_request(struct qp *q, struct sr_send_request *r);

/* NULL if it is not known. */
struct qp *sr_log_qp_at(const struct rank *r, uint64_t address);
struct qp *sr_log_qp_numbered(const struct rank *r, uint32_t qp_num);
/* A queue pair that the trace does not mention (librdmacm made it). */
struct qp *sr_log_qp_at_or_new(struct rank *r, uint64_t address);

/* The rank at the other end, or SR_NO_RANK. */
size_t sr_log_peer_of(const struct process *p, const struct qp *q);
/* The queue pair there, if its rank has come so far. */
struct qp *sr_log_other_end(const struct process *p, const struct qp *q);
/* Its number, of struct sr_links; SR_NO_END: not known. */
size_t sr_log_peer_end(const struct process *p, const struct qp *q);
/* enum sr_plan_flags */
uint32_t sr_log_link_flags(const struct process *p, const struct qp *q);

/* The address in a rank's memory that a key and an iova refer to. */
uint64_t sr_log_address_of(const struct sr_keymap *keys, uint32_t key, uint64_t iova);

/* --------------------------------------------------------------------- picks */

/* From what was found in the first pass: 0 or -ENOMEM. */
int sr_log_read_picks(struct process *p, size_t rank);
void sr_log_free_picks(struct rank *r);
/* Whose the completion queue's next completion is, a receive's or another one; NULL: that has not come yet. */
struct qp *sr_log_find_pick(struct process *p, size_t rank, uint64_t cq, bool receives);
/* Of the send queue's next completion. */
uint64_t sr_log_next_wr_id(const struct qp *q);
/* A completion was taken.  False: it cannot be that queue's. */
bool sr_log_take_pick(struct rank *r, uint64_t cq, uint32_t qp_num, bool receives, bool is_traced);

/* ----------------------------------------------------------------- datagrams */

/* A datagram was posted: 0 or -ENOMEM. */
int sr_log_datagram_sent(struct process *p, const struct qp *q, const struct details *d, const struct datagram *sent);
/* Stores the datagram that came.  False: its sender has not come so far, or is not recorded. */
bool sr_log_datagram_received(struct process *p, const struct arriving *a, struct datagram *d);
/* The rank waits for its sender.  False: nobody can send it any more. */
bool sr_log_datagram_await(struct process *p, size_t rank, const struct arriving *a);
bool sr_log_datagram_is_awaited(const struct process *p, size_t rank);
void sr_log_free_datagrams(struct process *p);

/* --------------------------------------------------------------- registrations */

/* Calls that register memory, or end that: 0 or -errno. */
int sr_log_registration(struct process *p, size_t rank, const struct sr_log_call *c);
void sr_log_free_registrations(struct rank *r);

/* ------------------------------------------- the calls: 0, 1 (blocked) or -errno */

int sr_log_control(struct process *p, size_t rank, const struct sr_log_call *c);
int sr_log_post_send(struct process *p, size_t rank);
int sr_log_bind_mw(struct process *p, size_t rank);
int sr_log_post_recv(struct process *p, size_t rank);
int sr_log_batch(struct process *p, size_t rank);
int sr_log_poll_cq(struct process *p, size_t rank);

#endif
