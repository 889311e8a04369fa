/* SPDX-License-Identifier: BSD-2-Clause */
/* events.h: what log processing (process.h) reports: positions, orders, requests and values. */
#ifndef REPLAY_ANALYSIS_PROCESS_EVENTS_H
#define REPLAY_ANALYSIS_PROCESS_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/analysis/log/decode.h"
#include "replay/analysis/log/rank.h"
#include "replay/analysis/plan/records.h"

/* Ranks are indices among the trace's. */
#define SR_NO_RANK SIZE_MAX

struct sr_position {
	uint32_t thread;
	uint32_t fault; /* not 0: this fault of the thread after the call */
	uint32_t stop;  /* not 0: before the call, at this stop behind the one before it (sr_group_stop) */
	bool is_part;   /* somewhere in front of the call ... */
	uint32_t accesses; /* ... behind so many accesses to exposed memory; SR_LOG_NOT_COUNTED: that is not known */
	uint64_t sn;
	uint64_t step;    /* grows along the rank's calls */
	uint64_t entered; /* the step in which the call was entered */
};

/* What happened at a call of one rank came after the entry of another rank's call. */
struct sr_found_order {
	size_t rank, of_rank;
	struct sr_position at, of;
	uint32_t flags; /* enum sr_plan_flags */
};

/* A piece of memory that a request gathers or scatters. */
struct sr_posted_piece {
	uint64_t address, length;
	uint32_t key; /* of its registration */
};

/* A request was posted. */
struct sr_posted {
	uint64_t number; /* of all that were posted, from 1: names it */
	size_t rank;
	struct sr_position at;
	uint64_t site;
	uint16_t request;
	uint8_t opcode; /* enum ibv_wr_opcode */
	uint32_t qp_num;
	uint64_t length;
	uint64_t checksum; /* of all it sends; 0: not known */
	size_t to;         /* SR_NO_RANK: outside, or not known */
	uint64_t address;  /* where in the memory of `to`; one-sided requests */
	uint32_t key;      /* of the registration there */
	uint64_t queue;    /* address of the queue pair */
	size_t to_end;     /* the connection's other end, of struct sr_links; SR_NO_END: not known */
	uint32_t type;     /* enum ibv_qp_type */
	uint32_t flags;    /* IBV_SEND_* */
	uint64_t operand;  /* of an atomic: what is added, or put in place of what was there */
	uint64_t expected; /* of a compare-and-swap */
	const struct sr_posted_piece *pieces;
	size_t pieces_n;
	bool is_relaxed;  /* the memory there is registered with IBV_ACCESS_RELAXED_ORDERING */
	bool is_in_order; /* the program has asked, and the data of WRITEs comes in order */
};

/* Bytes entered a process. */
struct sr_value {
	size_t rank;
	struct sr_position at;
	uint64_t site;       /* of the call, or of the instruction that faulted */
	bool is_exposed;      /* written by a peer into memory that the program loads from */
	uint16_t completion; /* of the call */
	uint64_t address;
	uint32_t length;
	const uint8_t *data; /* NULL: the trace leaves the bytes out (record --order) */
	/* Of a completion: its origin, a message or fetched memory. */
	size_t from; /* SR_NO_RANK: not a recorded one */
	bool is_message;
	struct sr_position sent; /* of a message */
	uint64_t posted;         /* number of the request that fetched it, or sent it; 0: not known */
	uint64_t accessed;       /* address that the instruction accessed; 0: not known */
	uint32_t exposed_flags;  /* SR_EXPOSED_* */
	uint16_t request;
	uint64_t message_length, message_checksum;
	uint64_t remote; /* address of the first fetched byte in the memory of `from` */
	uint32_t flags;
	/* By rank: how far the others are known to have come; sn 0: nothing. */
	const struct sr_position *known;
};

/* A request that fetches has ended. */
struct sr_fetched {
	size_t rank;
	struct sr_position posted, completed;
	uint16_t request, completion;
	size_t from;
	uint32_t flags;
};

/* A request is over: with its own completion, or with that of a later one of its queue. */
struct sr_completed {
	size_t rank;
	uint64_t number; /* of struct sr_posted */
	struct sr_position posted, completed;
	uint64_t length;
	uint16_t request, completion;
	uint8_t opcode;
	const struct sr_position *known; /* of struct sr_value; it is kept up to date */
};

/* A receive has ended with a message whose sender is known. */
struct sr_message {
	size_t rank, from;
	uint64_t number; /* of struct sr_posted */
	struct sr_position received, sent;
	uint64_t length;
	uint16_t request, completion;
	uint32_t flags; /* enum sr_plan_flags */
};

/* A receive has ended successfully, whoever sent. */
struct sr_received {
	size_t rank, from;
	struct sr_position at;
	uint64_t number; /* of the message's struct sr_posted; 0: not known */
	uint64_t queue, wr_id;
	bool is_next;    /* the trace does not say its wr_id: it is the queue pair's next receive */
	uint64_t length; /* bytes that came into the receive's memory */
};

/* Receives were posted. */
struct sr_receives {
	size_t rank;
	struct sr_position at;
	uint64_t queue; /* address of the queue pair, or of the shared receive queue */
	uint64_t site, wr_id;
	const struct sr_posted_piece *pieces;
	size_t pieces_n;
	bool is_shared;
};

/* Memory is not registered any more. */
struct sr_released {
	size_t rank;
	struct sr_position at;
	uint64_t site, begin, end;
	uint32_t lkey, rkey;
};

/* The program said something of itself (sreplay/annotate.h). */
struct sr_annotated {
	size_t rank;
	struct sr_position at;
	struct sr_log_annotation a;
};

/* A call of librdmacm's that tells the other end something, or is told by it. */
enum sr_cm_what {
	SR_CM_CONNECTS, /* asks for the connection, or accepts it */
	SR_CM_REQUESTED,
	SR_CM_ESTABLISHED,
	SR_CM_DISCONNECTS,
	SR_CM_DISCONNECTED,
};

struct sr_cm_act {
	size_t rank;
	struct sr_position at;
	uint64_t id; /* librdmacm's */
	size_t end;  /* of struct sr_links; SR_NO_END: it is not connected yet */
	enum sr_cm_what what;
};

/* A queue pair takes no more requests from its other end. */
struct sr_closed {
	size_t rank;
	struct sr_position at;
	uint64_t queue;  /* its address */
	size_t end;      /* of struct sr_links: the connection that it had; SR_NO_END: not known */
	bool is_over;    /* nor does it access memory for its own requests */
};

/* An event of a rank's clock, or an order that was found at it, as it was recorded. */
struct sr_clocked {
	size_t rank;
	struct sr_position at;
	uint64_t event;  /* its own */
	size_t of_rank;  /* SR_NO_RANK: no order */
	uint64_t of;     /* the other's event */
	bool is_by_post; /* a post of the other's; else its CPU had come so far */
};

/* The completions of this poll do not say whose they are: of this queue. */
struct sr_picked {
	size_t rank;
	struct sr_position at;
	uint32_t qp_num; /* SR_PICK_LEFT_OUT: that, or what came, cannot be told, because the trace of `cut` ends early */
	bool receives;
	int32_t cut; /* number of a rank */
};

/* A call that was wanted. */
struct sr_passed {
	size_t rank;
	struct sr_position at;
};

struct sr_process_hooks {
	/* Each may be NULL; each returns 0, or -errno, which ends the pass. */
	int (*order)(void *argument, const struct sr_found_order *o);
	int (*posted)(void *argument, const struct sr_posted *p);
	int (*value)(void *argument, const struct sr_value *v);
	int (*fetched)(void *argument, const struct sr_fetched *f);
	int (*completed)(void *argument, const struct sr_completed *c);
	int (*message)(void *argument, const struct sr_message *m);
	int (*received)(void *argument, const struct sr_received *r);
	int (*receives)(void *argument, const struct sr_receives *r);
	int (*released)(void *argument, const struct sr_released *r);
	int (*closed)(void *argument, const struct sr_closed *c);
	int (*cm)(void *argument, const struct sr_cm_act *a);
	int (*annotated)(void *argument, const struct sr_annotated *a);
	int (*clocked)(void *argument, const struct sr_clocked *c);
	int (*picked)(void *argument, const struct sr_picked *p);
	/* Calls that log processing does not use otherwise, if they are wanted (log/rank.h). */
	enum sr_log_place (*wants)(void *argument, size_t rank, uint32_t thread, uint64_t sn);
	int (*passed)(void *argument, const struct sr_passed *c);
	/* Called now and then. */
	void (*progress)(void *argument, uint64_t done, uint64_t size);
	void *argument;
};

/* Totals, and what is not certain. */
struct sr_process_counts {
	uint64_t records, calls, values, bytes, orders, messages;
	uint64_t unmatched;  /* receives from recorded ranks without the send */
	uint64_t unexpected; /* completions without a request */
	uint64_t weakened;   /* orders whose exact position was dropped */
	uint64_t ambiguous_links;
	uint64_t holes; /* calls that the trace lacks */
	uint64_t cut;   /* threads whose end the trace does not have */
};

#endif
