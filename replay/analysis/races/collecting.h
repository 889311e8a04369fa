/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * collecting.h: what the parts of collect.c know of a trace while it is read.
 *
 * positions.h gives the ranks' calls and loads moments, requests.h and receives.h add what was posted, values.h says
 * where bytes came from.
 */
#ifndef REPLAY_ANALYSIS_RACES_COLLECTING_H
#define REPLAY_ANALYSIS_RACES_COLLECTING_H

#include "replay/analysis/log/keymap.h"
#include "replay/analysis/races/kin.h"
#include "replay/analysis/races/producers.h"
#include "replay/analysis/races/run.h"
#include "replay/analysis/races/sockets.h"

/* A request of any rank. */
struct sr_collected_request {
	struct sr_race_request r;
	size_t rank, to;
	uint32_t queue, over;
	uint32_t first_access, accesses_n;
	uint64_t begin, end; /* in the memory of `to` */
	size_t to_end; /* the connection's end at `to`; SR_NO_END: not known */
	uint64_t site, sn;  /* of the call that posted it */
	uint32_t thread;
	uint8_t opcode;
	bool is_unknown; /* not all are known that can have left what it fetched */
	bool has_value;  /* the trace has it */
	bool is_stored;  /* a store of the memory's owner may have left it */
	bool is_written; /* a request may have */
	bool is_changed; /* its rank had fetched something else there before */
	bool is_altered; /* what it sends was not the same at its end as at its post (changed.h) */
	bool is_same;    /* its rank had fetched the same there before */
	bool is_repeat;  /* a READ: asks once more for what the one before it on its queue pair had fetched (polls.h) */
};

/* A receive that was posted. */
struct sr_collected_receive {
	struct sr_position at;
	uint64_t site, wr_id;
	size_t first_piece, pieces_n; /* in struct sr_collected_queue */
	uint32_t moment;
	bool is_over;
};

/* A queue pair, or a shared receive queue. */
struct sr_collected_queue {
	struct sr_race_queue q;
	uint64_t key; /* sr_collected_queue_key() */
	struct sr_collected_receive *receives;
	size_t first, receives_n, receives_room;
	struct sr_posted_piece *pieces;
	size_t pieces_n, pieces_room;
	bool is_shared;
	size_t rank;
	uint32_t arrivals; /* a lane: messages come to its receives; SR_NO_MOMENT: none has */
	size_t last_read; /* its access */
};

/* A queue pair ended: it accesses no memory for its own requests any more. */
struct sr_collected_closing {
	uint32_t moment;
	uint32_t before; /* of those of this queue pair, plus 1; 0: none */
};

/* struct sr_cm_act */
struct sr_collected_cm {
	uint64_t id;
	size_t end, rank;
	uint32_t moment;
	enum sr_cm_what what;
};

/* An event of a rank's clock. */
struct sr_collected_event {
	uint64_t number; /* events.c */
	uint32_t moment, before; /* before: the rank's moment before that one */
	uint32_t first_request;
};

/* An order on what a rank's CPU stored until the event after this one: known at the end. */
struct sr_stored_order {
	size_t of_rank;
	size_t event; /* in its events */
	uint32_t to;
	enum sr_surety surety;
	bool is_read;
};

/* A READ of bytes that the owner's CPU may have stored, until the event after this one: known at the end. */
struct sr_stored_read {
	uint64_t request;
	size_t owner, event;
	uint64_t begin, end;
};

/* A rank has read an owner's memory: unclocked.h. */
struct sr_unclocked_read {
	uint64_t begin, end;
	uint64_t by; /* number of the request that fetched it; 0: a load */
	size_t rank, owner;
	uint32_t moment;
};

/* What a call's requests gather came from there. */
struct sr_gathered {
	uint32_t from;
	enum sr_surety surety;
};

/* A READ or an atomic whose bytes may have come from several places. */
struct sr_fetched_bytes {
	uint64_t request;
};

/* What the clocks of another rank told with a fetch. */
struct sr_fetched_order {
	uint64_t request;
	size_t of_rank, event; /* in its events */
	uint32_t from, call;
	bool is_by_post;
	bool is_older; /* they told it before: only of what is known to be newer than what was fetched before */
};

/* What a rank found in others' clocks at its position. */
struct sr_clocked_order {
	size_t of_rank;
	uint64_t of;
	bool is_by_post;
};

/* Bytes that were read with others, from this moment's request: who loads them later has read them from there. */
struct sr_sampled {
	uint64_t begin, end;
	uint32_t from;
	bool is_skip; /* the first load of them has skipped these WRITEs */
	struct sr_race_skip skip;
};

/* An atomic, or a WRITE of a word: one of those that change locks (locks.h). */
struct sr_lock_request {
	uint64_t request, address, expected, operand, result, checksum;
	uint32_t owner, rank;
	uint8_t opcode;
	bool has_result;
};

/* A thread took a lock of which the program said so (annotations.h). */
struct sr_annotated_lock {
	uint64_t name;
	uint32_t begin, end; /* moments; end: SR_NO_MOMENT if it was not given back */
	uint32_t rank, thread;
};

struct sr_annotations {
	struct sr_annotated_lock *locks;
	size_t locks_n, locks_room;
	struct sr_keymap counts;   /* of a rank: how often it entered or left a barrier */
	struct sr_keymap barriers; /* moments */
};

#define SR_SAMPLED_MOST 64
/* Fetches of a rank whose bytes are to be found in its memory. */
#define SR_FETCHES_MOST 64

/* A queue pair, or a shared receive queue, as a key. */
static inline uint64_t sr_collected_queue_key(size_t rank, uint64_t address)
{
	return address ^ (uint64_t)(rank + 1) << 50;
}

struct sr_collected_rank {
	uint32_t lane;
	struct sr_position at;
	uint32_t moment; /* where the rank is; SR_NO_MOMENT: nothing has happened yet */
	uint32_t before; /* its moment before that one */
	bool is_load;    /* the moment is a load's, not a call's */
	/* Of the position: */
	uint32_t call, load; /* its moments */
	struct sr_clocked_order *clocked;
	size_t clocked_n, clocked_room;
	bool is_uncertain;    /* a load may have got what it found from several requests */
	bool has_unknown;     /* a message of an unknown sender */
	struct sr_fetched_bytes *fetched; /* that ended */
	size_t fetched_n, fetched_room;
	/* Of the requests that are posted next: */
	struct sr_gathered *gathered;
	size_t gathered_n, gathered_room;
	uint64_t gathered_sn;
	/* Of all: */
	uint64_t fetches[SR_FETCHES_MOST]; /* requests, the last one last; see fetches.h */
	size_t fetches_n;
	const struct sr_position *known; /* of struct sr_completed */
	struct sr_sampled *sampled; /* the last SR_SAMPLED_MOST, with watched loads */
	size_t sampled_n;
	struct sr_keymap blind; /* pages whose loads are not all seen */
	uint32_t *unseen; /* SR_SAMPLED_MOST: requests whose bytes of such pages were read with others since the last call */
	size_t unseen_n;
	struct sr_collected_event *events; /* events.h */
	struct sr_keymap late_events; /* places of those whose number is not above all before */
	size_t events_n, events_room;
	size_t *heard; /* by rank: the last of its events that this one has found in clocks, plus 1; 0: none */
	bool has_outside; /* a queue pair leads to a rank that was not recorded */
	bool has_loaded_in_flight; /* flight.h */
};

struct sr_collect {
	int (*take_value)(void *argument, const struct sr_value *v); /* values.h */
	struct sr_race_run *run;
	const struct sr_race_collecting *how;
	struct sr_race_model *m;
	struct sr_collected_rank *ranks;
	struct sr_collected_request *requests; /* by number - 1 */
	size_t requests_n, requests_room;
	struct sr_collected_queue **queues;
	size_t queues_n, queues_room;
	struct sr_keymap queue_places;
	struct sr_race_producers *producers;
	struct sr_race_sockets sockets;
	struct sr_race_kin kin;
	struct sr_stored_order *stored;
	size_t stored_n, stored_room;
	struct sr_stored_read *reads;
	size_t reads_n, reads_room;
	struct sr_unclocked_read *unclocked;
	size_t unclocked_n, unclocked_room;
	bool are_all_clocked; /* the children, too */
	struct sr_collected_closing *closings;
	size_t closings_n, closings_room;
	struct sr_keymap closing_places; /* of a queue pair: its last closing */
	struct sr_keymap end_closings;   /* of a connection's end: the moment of its first closing */
	struct sr_fetched_order *fetched; /* known at the end */
	size_t fetched_n, fetched_room;
	struct sr_keymap arrived; /* by rank and line of memory (arrived.c) */
	struct sr_keymap last_fetched; /* by rank and memory: a checksum of what it fetched there last */
	struct sr_race_results *results;
	bool finds_results; /* the pass is for that */
	bool lacks_results; /* the pass has ended, since it met an atomic, and `results` does not have what they returned */
	unsigned int pass, passes; /* over the trace */
	struct sr_lock_request *lock_requests;
	size_t lock_requests_n, lock_requests_room;
	struct sr_annotations annotations;
	struct sr_collected_cm *cm;
	size_t cm_n, cm_room;
	uint32_t changes; /* a loose lane; SR_NO_MOMENT: nothing was changed */
};


#endif
