/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queues.h: the order that verbs keep among the requests of a queue pair, as moments of a model.
 *
 * A request has a post, an effect, and mostly a completion.  What the effects of one reliable connection are
 * ordered by is here and nowhere else:
 *  - they come in the order of the posts, but for a READ or an atomic, which a later WRITE, SEND or atomic
 *    overtakes unless it, or a request between them, has a fence;
 *  - a completion follows its request and all before it on the queue;
 *  - the completion of a receive follows its message, and all whose effect comes before that.
 * With SR_MODEL_IBA a WRITE lands after its effect, and only a completion, a received message and a later
 * atomic prove that it has.  In any model so does a WRITE into memory that is registered with
 * IBV_ACCESS_RELAXED_ORDERING, and another WRITE of the queue may come before it; a queue pair whose data comes in
 * order (ibv_query_qp_data_in_order) has the device's model.
 */
#ifndef REPLAY_ANALYSIS_RACES_QUEUES_H
#define REPLAY_ANALYSIS_RACES_QUEUES_H

#include "replay/analysis/races/model.h"

enum sr_memory_model {
	SR_MODEL_DEVICE, /* who sees a WRITE sees those before it on its queue pair, as devices do */
	SR_MODEL_IBA,    /* as the InfiniBand specification promises */
};

/* Moments in a small list that grows. */
struct sr_moments {
	uint32_t *at;
	size_t n, room;
};

struct sr_race_queue {
	uint32_t number, posts, fences;
	bool is_ordered; /* a reliable connection */
	uint32_t lane;    /* effects of WRITEs and SENDs, and fences: each follows the one before */
	uint32_t loose;   /* effects of READs and atomics, landings */
	uint32_t proofs;  /* moments at which all that is before has landed */
	uint32_t last_read;
	struct sr_moments fetches;  /* effects of READs and atomics since the last fence */
	struct sr_moments atomics;  /* since the last READ */
	struct sr_moments landings; /* that no proof follows */
};

/* A request in the model. */
struct sr_race_request {
	uint32_t post, effect;
	uint32_t landing; /* the effect, if that is the same */
	uint32_t proof;   /* of a message: what its receive follows besides the effect */
	uint32_t place, fences;
};

void sr_race_queue_init(struct sr_race_queue *q, struct sr_race_model *m, bool is_ordered);
void sr_race_queue_free(struct sr_race_queue *q);

/* What is posted, and where to. */
struct sr_race_posting {
	uint8_t opcode;
	bool has_fence;
	bool is_relaxed;  /* into memory of IBV_ACCESS_RELAXED_ORDERING */
	bool is_in_order; /* over a queue pair whose data comes in order */
};

/* A request is posted at a moment of a thread. */
struct sr_race_request sr_race_post(struct sr_race_queue *q, struct sr_race_model *m, enum sr_memory_model model,
				    uint32_t post, const struct sr_race_posting *p);

/* It is known to be over at a moment of a thread. */
void sr_race_complete(struct sr_race_model *m, const struct sr_race_request *r, uint32_t at);

/* The message that it is was received at a moment of a thread. */
void sr_race_receive(struct sr_race_model *m, const struct sr_race_request *r, uint32_t at);

/* Does b, posted later on the queue of a, take effect after it in every run?  (Of a fetch: its local side too.) */
bool sr_race_is_queue_ordered(const struct sr_access *a, const struct sr_access *b);

#endif
