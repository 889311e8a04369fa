/* SPDX-License-Identifier: BSD-2-Clause */
/* matching.c: send queues whose requests are found by wr_id, and receive queues. */
#include "logd/base/matching.h"

/* ------------------------------------------------------------- send queues */

void sr_send_queue_init(struct sr_send_queue *q)
{
	*q = (struct sr_send_queue){0};
	sr_sends_init(&q->tail, &q->head, &q->stub);
}

void sr_send_queue_post(struct sr_send_queue *q, struct sr_send_request *r)
{
	r->generation = q->generation;
	r->passed = r->reported = false;
	sr_sends_append(&q->tail, r);
	q->count++;
}

struct sr_send_request *sr_send_queue_next(const struct sr_send_queue *q,
					   const struct sr_send_request *r)
{
	/* Behind the overtaken ones come those of the list. */
	if (!r && q->overtaken)
		return q->overtaken;
	if (!r || r == q->overtaken_last)
		return sr_sends_first(&q->head);
	return r->next;
}

struct sr_send_request *sr_send_queue_next_signaled(const struct sr_send_queue *q, const struct sr_send_request *r)
{
	struct sr_send_request *next = sr_send_queue_next(q, r);

	while (next && (!next->signaled || next->reported))
		next = sr_send_queue_next(q, next);
	return next;
}

/* The first request behind `behind` (NULL: of all) that such a completion can be of. */
static struct sr_send_request *find_behind(const struct sr_send_queue *q,
					   const struct sr_send_request *behind, uint64_t wr_id,
					   enum ibv_wc_status status)
{
	struct sr_send_request *r = sr_send_queue_next(q, behind);

	while (r && (r->wr_id != wr_id || (status == IBV_WC_SUCCESS && !r->signaled)))
		r = sr_send_queue_next(q, r);
	return r;
}

/*
 * Between two resets the requests succeed in their order: a success is the first that is
 * signaled, of those from before a reset or of those from after it.
 */
static struct sr_send_request *find_next(const struct sr_send_queue *q, uint64_t wr_id,
					 enum ibv_wc_opcode opcode)
{
	struct sr_send_request *r = sr_sends_first(&q->head);
	const struct sr_send_request *last = NULL;

	for (; r; r = r->next) {
		if (!r->signaled || (last && last->generation == r->generation))
			continue;
		if (r->wr_id == wr_id && r->completes_as == opcode)
			return r;
		last = r;
	}
	return NULL;
}

struct sr_send_request *sr_send_queue_find(const struct sr_send_queue *q, uint64_t wr_id,
					   enum ibv_wc_status status, enum ibv_wc_opcode opcode)
{
	struct sr_send_request *first = find_behind(q, NULL, wr_id, status), *r = NULL;

	if (!first || status != IBV_WC_SUCCESS)
		return first;
	if (sr_send_queue_is_stale(q, first) && !first->passed)
		r = find_next(q, wr_id, opcode);
	if (r)
		return r;
	/* A device may report another opcode than expected, so that it only decides between several. */
	for (r = first; r && r->completes_as != opcode;)
		r = find_behind(q, r, wr_id, status);
	return r ? r : first;
}

static void overtake(struct sr_send_queue *q, struct sr_send_request *r)
{
	r->next = NULL;
	if (q->overtaken_last)
		q->overtaken_last->next = r;
	else
		q->overtaken = r;
	q->overtaken_last = r;
}

static void remove_overtaken(struct sr_send_queue *q, struct sr_send_request *r)
{
	struct sr_send_request *before = NULL;

	for (struct sr_send_request *at = q->overtaken; at != r; at = at->next)
		before = at;
	if (before)
		before->next = r->next;
	else
		q->overtaken = r->next;
	if (q->overtaken_last == r)
		q->overtaken_last = before;
}

/* No poster is at the other end: a request that is done need not stay in the list. */
static void put_stub_first(struct sr_send_queue *q)
{
	struct sr_send_request *passed = q->head.passed;

	q->stub.next = passed->next;
	q->head.passed = &q->stub;
	if (passed->next)
		passed->next->previous = &q->stub;
	else
		q->tail.last = &q->stub;
}

void sr_send_queue_remove(struct sr_send_queue *q, struct sr_send_request *r)
{
	q->count--;
	if (r->passed) {
		remove_overtaken(q, r);
		return;
	}
	r->previous->next = r->next;
	if (r->next)
		r->next->previous = r->previous;
	else
		q->tail.last = r->previous;
}

void sr_send_queue_doubt(struct sr_send_queue *q)
{
	q->head.failed = true;
}

struct sr_send_request *sr_send_queue_pop(struct sr_send_queue *q)
{
	struct sr_send_request *r = sr_send_queue_next(q, NULL);

	if (r)
		sr_send_queue_remove(q, r);
	return r;
}

/* A completion under way, for the events below. */
struct completing {
	struct sr_send_queue *q;
	const struct sr_send_events *events;
	void *owner;
};

static void passed(void *argument, struct sr_send_request *r)
{
	const struct completing *c = argument;

	if (c->events->passed)
		c->events->passed(c->owner, r);
}

static void ended(void *argument, struct sr_send_request *r, bool succeeded)
{
	const struct completing *c = argument;

	c->events->ended(c->owner, r, succeeded);
}

static void left(void *argument, struct sr_send_request *r)
{
	const struct completing *c = argument;

	if (r == &c->q->stub)
		return;
	if (!r->reported) {
		overtake(c->q, r);
		return;
	}
	c->q->count--;
	c->events->left(c->owner, r);
}

static const struct sr_send_events by_id = {passed, ended, left};

/* Nothing from before the reset completes any more: completions come in order. */
static void drop_stale(struct completing *c, uint32_t generation)
{
	struct sr_send_queue *q = c->q;
	struct sr_send_request *r;

	while ((r = sr_send_queue_next(q, NULL)) && r->generation != generation)
		c->events->left(c->owner, sr_send_queue_pop(q));
	q->completing = generation;
	q->head.failed = false;
}

void sr_send_queue_complete(struct sr_send_queue *q, struct sr_send_request *done,
			    enum ibv_wc_status status, const struct sr_send_events *events,
			    void *owner)
{
	struct completing c = {q, events, owner};
	/* Of a failure the wr_id is all there is: it may be of a later one with the same. */
	bool is_uncertain =
	    status != IBV_WC_SUCCESS && find_behind(q, done, done->wr_id, status);

	if (done->generation != q->completing)
		drop_stale(&c, done->generation);
	if (done->passed)
		remove_overtaken(q, done);
	sr_sends_complete(&q->head, done, status, &by_id, &c);
	/* Then the requests up to that one cannot be vouched for by what follows. */
	if (is_uncertain)
		sr_send_queue_doubt(q);
	if (q->head.passed != &q->stub) {
		struct sr_send_request *last = q->head.passed;

		put_stub_first(q);
		left(&c, last);
	}
	while (q->count > SR_SEND_QUEUE_MAX)
		events->left(owner, sr_send_queue_pop(q));
}

void sr_send_queue_reset(struct sr_send_queue *q)
{
	q->generation++;
}

/* ---------------------------------------------------------------- receives */

static uint32_t hash(uint64_t wr_id)
{
	return (uint32_t)(wr_id * 0x9e3779b97f4a7c15ull >> 40) % SR_RECV_HASHES;
}

static void count(struct sr_recv_queue *q, const struct sr_recv_request *r, int by)
{
	if (q->hashes)
		q->hashes[hash(r->wr_id)] = (uint16_t)(q->hashes[hash(r->wr_id)] + by);
}

void sr_recv_queue_post(struct sr_recv_queue *q, struct sr_recv_request *r)
{
	count(q, r, 1);
	r->next = NULL;
	if (q->last)
		q->last->next = r;
	else
		q->first = r;
	q->last = r;
}

struct sr_recv_request *sr_recv_find(struct sr_recv_request *r, uint64_t wr_id)
{
	while (r && r->wr_id != wr_id)
		r = r->next;
	return r;
}

struct sr_recv_request *sr_recv_queue_match(const struct sr_recv_queue *q, bool is_shared,
					    uint64_t wr_id)
{
	return is_shared ? sr_recv_find(q->first, wr_id) : q->first;
}

bool sr_recv_queue_is_last(const struct sr_recv_queue *q, const struct sr_recv_request *r)
{
	if (q->hashes && q->hashes[hash(r->wr_id)] == 1)
		return true;
	return !sr_recv_find(r->next, r->wr_id);
}

void sr_recv_queue_remove(struct sr_recv_queue *q, struct sr_recv_request *r)
{
	struct sr_recv_request *before = NULL;

	count(q, r, -1);
	for (struct sr_recv_request *at = q->first; at != r; at = at->next)
		before = at;
	if (before)
		before->next = r->next;
	else
		q->first = r->next;
	if (q->last == r)
		q->last = before;
}

struct sr_recv_request *sr_recv_queue_pop(struct sr_recv_queue *q)
{
	struct sr_recv_request *r = q->first;

	if (r)
		sr_recv_queue_remove(q, r);
	return r;
}
