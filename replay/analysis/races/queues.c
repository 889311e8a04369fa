/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/queues.h"

#include <stdlib.h>

#include "logd/base/opcodes.h"
#include "replay/analysis/log/grow.h"

static void keep(struct sr_race_model *m, struct sr_moments *list, uint32_t moment)
{
	uint32_t *at = sr_grow((void **)&list->at, list->n, &list->room, sizeof(*at));

	if (!at) {
		m->is_full = true;
		return;
	}
	*at = moment;
	list->n++;
}

static void follow_all(struct sr_race_model *m, struct sr_moments *list, uint32_t moment)
{
	for (size_t i = 0; i < list->n; i++)
		sr_model_order(m, list->at[i], moment, SR_SURE, false);
	list->n = 0;
}

void sr_race_queue_init(struct sr_race_queue *q, struct sr_race_model *m, bool is_ordered)
{
	*q = (struct sr_race_queue){.is_ordered = is_ordered, .last_read = SR_NO_MOMENT};
	q->lane = sr_model_lane(m, !is_ordered);
	q->loose = sr_model_lane(m, true);
	q->proofs = sr_model_lane(m, false);
	q->number = q->lane;
}

void sr_race_queue_free(struct sr_race_queue *q)
{
	free(q->fetches.at);
	free(q->atomics.at);
	free(q->landings.at);
}

static uint32_t last_of(const struct sr_race_queue *q, const struct sr_race_model *m)
{
	return q->is_ordered && q->lane != SR_NO_MOMENT ? m->lanes[q->lane].last : SR_NO_MOMENT;
}

/* The request waits for all READs and atomics before it, and so do those behind it. */
static void fence(struct sr_race_queue *q, struct sr_race_model *m, uint32_t post)
{
	uint32_t at = sr_model_moment(m, q->lane);

	sr_model_order(m, post, at, SR_SURE, false);
	follow_all(m, &q->fetches, at);
	q->atomics.n = 0;
	q->fences++;
}

/* All that was posted before has landed. */
static uint32_t prove(struct sr_race_queue *q, struct sr_race_model *m)
{
	uint32_t at = sr_model_moment(m, q->proofs);

	follow_all(m, &q->landings, at);
	return at;
}

/* The last moment at which all had landed; SR_NO_MOMENT: nothing lands late. */
static uint32_t last_proof(const struct sr_race_queue *q, const struct sr_race_model *m)
{
	return q->proofs != SR_NO_MOMENT ? m->lanes[q->proofs].last : SR_NO_MOMENT;
}

static bool needs_proof(const struct sr_race_queue *q, const struct sr_race_model *m)
{
	return q->landings.n || last_proof(q, m) != SR_NO_MOMENT;
}

/* A READ or an atomic. */
static uint32_t fetch(struct sr_race_queue *q, struct sr_race_model *m, bool is_atomic)
{
	uint32_t before = last_of(q, m), at = sr_model_moment(m, q->loose);

	if (!q->is_ordered)
		return at;
	sr_model_order(m, before, at, SR_SURE, false);
	if (is_atomic && needs_proof(q, m))
		sr_model_order(m, prove(q, m), at, SR_SURE, false);
	if (!is_atomic) {
		sr_model_order(m, q->last_read, at, SR_SURE, false);
		follow_all(m, &q->atomics, at);
		q->last_read = at;
	} else {
		keep(m, &q->atomics, at);
	}
	keep(m, &q->fetches, at);
	return at;
}

static void land(struct sr_race_queue *q, struct sr_race_model *m, struct sr_race_request *r)
{
	r->landing = sr_model_moment(m, q->loose);
	sr_model_order(m, r->effect, r->landing, SR_SURE, false);
	if (q->is_ordered)
		keep(m, &q->landings, r->landing);
}

/* It lands after its effect. */
static bool is_late(enum sr_memory_model model, const struct sr_race_posting *p)
{
	const unsigned int does = sr_op(p->opcode);

	if (!(does & SR_OP_CHANGES) || does & SR_OP_ATOMIC)
		return false;
	return p->is_relaxed || (model == SR_MODEL_IBA && !p->is_in_order);
}

struct sr_race_request sr_race_post(struct sr_race_queue *q, struct sr_race_model *m, enum sr_memory_model model,
				    uint32_t post, const struct sr_race_posting *p)
{
	unsigned int does = sr_op(p->opcode);
	struct sr_race_request r = {.post = post, .proof = SR_NO_MOMENT, .place = q->posts++};

	if (p->has_fence && q->is_ordered)
		fence(q, m, post);
	r.fences = q->fences;
	if (does & SR_OP_SCATTERS)
		r.effect = fetch(q, m, does & SR_OP_ATOMIC);
	else
		r.effect = sr_model_moment(m, q->lane);
	sr_model_order(m, post, r.effect, SR_SURE, false);
	r.landing = r.effect;
	if (is_late(model, p))
		land(q, m, &r);
	if (needs_proof(q, m) && does & SR_OP_RECEIVED && q->is_ordered)
		r.proof = prove(q, m);
	return r;
}

void sr_race_complete(struct sr_race_model *m, const struct sr_race_request *r, uint32_t at)
{
	sr_model_order(m, r->landing, at, SR_SURE, false);
}

void sr_race_receive(struct sr_race_model *m, const struct sr_race_request *r, uint32_t at)
{
	sr_model_order(m, r->landing, at, SR_SURE, false);
	sr_model_order(m, r->proof, at, SR_SURE, false);
}

bool sr_race_is_queue_ordered(const struct sr_access *a, const struct sr_access *b)
{
	unsigned int first = sr_op(a->opcode), second = sr_op(b->opcode);

	if (a->is_relaxed && a->kind == SR_ACCESS_WRITE && b->kind == SR_ACCESS_WRITE)
		return false;
	if (!(first & SR_OP_SCATTERS))
		return true;
	return (second & SR_OP_SCATTERS && !(second & SR_OP_ATOMIC)) || b->fences > a->fences;
}
