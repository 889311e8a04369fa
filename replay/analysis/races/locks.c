/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/locks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "logd/base/checksum.h"
#include "logd/base/opcodes.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/races/annotations.h"
#include "replay/analysis/races/sections.h"

/* So many locks are held at once. */
#define NESTED_MOST 8

int sr_collect_lock_request(struct sr_collect *c, const struct sr_posted *p, bool has_result, uint64_t result)
{
	const bool is_atomic = p->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || p->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	const uint64_t word = sr_keymap_of_rank(p->address, p->to);
	struct sr_lock_request *at;
	uint64_t is;

	if (p->length != 8 || (!is_atomic && !(sr_op(p->opcode) & SR_OP_CHANGES)))
		return 0;
	/* Only such a word may be a lock; most are none.  The pass that finds results comes first, if there are any. */
	if (c->finds_results)
		return p->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? sr_keymap_put(&c->results->swapped, word, 1) : 0;
	if (!sr_keymap_get(&c->results->swapped, word, &is))
		return 0;
	at = sr_grow((void **)&c->lock_requests, c->lock_requests_n, &c->lock_requests_room, sizeof(*at));
	if (!at)
		return -ENOMEM;
	*at = (struct sr_lock_request){.request = p->number,
				       .address = p->address,
				       .expected = p->expected,
				       .operand = p->operand,
				       .result = result,
				       .checksum = p->checksum,
				       .owner = (uint32_t)p->to,
				       .rank = (uint32_t)p->rank,
				       .opcode = p->opcode,
				       .has_result = has_result};
	c->lock_requests_n++;
	return 0;
}

/* By word, rank, and the order of its posts. */
static int by_word(const void *a, const void *b)
{
	const struct sr_lock_request *x = a, *y = b;

	if (x->owner != y->owner)
		return x->owner < y->owner ? -1 : 1;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return (x->request > y->request) - (x->request < y->request);
}

static bool is_same_word(const struct sr_lock_request *a, const struct sr_lock_request *b)
{
	return a->owner == b->owner && a->address == b->address;
}

/* ------------------------------------------------------------ is it a lock */

enum change { CHANGES_NOTHING, TAKES, GIVES, SPOILS };

/* held: by the rank, which put this there; NULL: it has not got it. */
static enum change change_of(const struct sr_lock_request *q, uint64_t unlocked, const struct sr_lock_request *held)
{
	if (q->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return q->operand ? SPOILS : CHANGES_NOTHING;
	if (q->opcode != IBV_WR_ATOMIC_CMP_AND_SWP)
		return held && (!q->checksum || q->checksum == sr_checksum(&unlocked, sizeof(unlocked), 0)) ? GIVES : SPOILS;
	if (!q->has_result)
		return SPOILS;
	if (q->result != q->expected)
		return CHANGES_NOTHING;
	if (held)
		return q->expected == held->operand && q->operand == unlocked ? GIVES : SPOILS;
	return q->expected == unlocked && q->operand != unlocked ? TAKES : SPOILS;
}

/* The first one that takes it finds what it is when nobody has it. */
static bool find_unlocked(const struct sr_lock_request *q, size_t n, uint64_t *unlocked)
{
	for (size_t i = 0; i < n; i++)
		if (q[i].opcode == IBV_WR_ATOMIC_CMP_AND_SWP && q[i].has_result && q[i].result == q[i].expected) {
			*unlocked = q[i].expected;
			return true;
		}
	return false;
}

/* The sections of a word; -EINVAL: it is no lock. */
static int add_sections(struct sr_collect *c, struct sr_sections *s, const struct sr_lock_request *q, size_t n, uint32_t lock)
{
	const struct sr_lock_request *held = NULL;
	uint64_t unlocked;

	if (!find_unlocked(q, n, &unlocked))
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		enum change change;

		if (i && q[i].rank != q[i - 1].rank)
			held = NULL;
		change = change_of(&q[i], unlocked, held);
		if (change == SPOILS)
			return -EINVAL;
		if (change == GIVES && sr_section_add(s, c, held->request, q[i].request, lock))
			return -ENOMEM;
		if (change != CHANGES_NOTHING)
			held = change == TAKES ? &q[i] : NULL;
	}
	return 0;
}

static int find_locks(struct sr_collect *c, struct sr_sections *s)
{
	struct sr_lock_request *q = c->lock_requests;
	size_t n = c->lock_requests_n, end;
	uint32_t locks = 0;
	int annotated;

	if (n)
		qsort(q, n, sizeof(*q), by_word);
	for (size_t i = 0; i < n; i = end) {
		const size_t before = s->n;
		int err;

		for (end = i + 1; end < n && is_same_word(&q[i], &q[end]); end++)
			;
		err = add_sections(c, s, q + i, end - i, locks);
		if (err == -ENOMEM)
			return err;
		if (err)
			s->n = before;
		if (s->n == before)
			continue;
		locks++;
		for (size_t k = i; k < end && c->how->predict != SR_PREDICT_ORDER; k++)
			if (q[k].opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
				s->is_attempt[c->requests[q[k].request - 1].r.effect] = true;
	}
	annotated = sr_annotations_add_sections(&c->annotations, s, &locks);
	c->run->locks = locks;
	return annotated;
}

/* ------------------------------------------------------- what is held where */

/* Is the access over while the lock is held? */
static bool is_within(const struct sr_collect *c, const struct sr_section *s, const struct sr_access *a, uint32_t begin, uint32_t end)
{
	const struct sr_collected_request *rq = a->request ? &c->requests[a->request - 1] : NULL;
	const struct sr_collected_request *release = s->released ? &c->requests[s->released - 1] : NULL;
	const struct sr_access last = {.opcode = release ? release->opcode : 0, .fences = release ? release->r.fences : 0};

	if (begin < s->begin || begin > s->end || (!release && a->thread != s->thread))
		return false;
	if (end != SR_NO_MOMENT && end <= s->end)
		return true;
	return release && rq && rq->queue == release->queue && a->queue != SR_NO_QUEUE && rq->r.place < release->r.place &&
	       (a->kind == SR_ACCESS_WRITE || a->kind == SR_ACCESS_READ || a->kind == SR_ACCESS_ATOMIC) &&
	       sr_race_is_queue_ordered(a, &last);
}

static size_t find_held(const struct sr_collect *c, const struct sr_sections *s, const struct sr_access *a, uint32_t locks[NESTED_MOST])
{
	const struct sr_collected_request *rq = a->request ? &c->requests[a->request - 1] : NULL;
	const uint32_t begin = rq ? rq->r.post : a->from, end = rq ? rq->over : a->from;
	size_t n = 0, low = s->first[a->rank], high = s->first[a->rank + 1], looked = 0;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (s->all[middle].begin <= begin)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i-- > s->first[a->rank] && n < NESTED_MOST && looked++ < NESTED_MOST;)
		if (is_within(c, &s->all[i], a, begin, end))
			locks[n++] = s->all[i].lock;
	return n;
}

static int mark_accesses(struct sr_collect *c, const struct sr_sections *s)
{
	uint32_t last[NESTED_MOST], locks[NESTED_MOST];
	size_t last_n = 0;

	for (size_t i = 0; i < c->m->accesses_n; i++) {
		struct sr_access *a = &c->m->accesses[i];
		size_t n;

		if (a->kind == SR_ACCESS_RECV || a->kind == SR_ACCESS_RELEASE || a->from == SR_NO_MOMENT)
			continue;
		n = find_held(c, s, a, locks);
		if (n && (n != last_n || memcmp(last, locks, n * sizeof(*locks)))) {
			if (sr_model_hold(c->m, locks, n))
				return -ENOMEM;
			memcpy(last, locks, n * sizeof(*locks));
			last_n = n;
		}
		a->held = n ? (uint32_t)c->m->held_last : 0;
	}
	return 0;
}

int sr_collect_end_locks(struct sr_collect *c)
{
	struct sr_sections s = {0};
	int err;

	if ((!c->lock_requests_n && !c->annotations.locks_n) || c->m->is_full)
		return 0;
	s.is_attempt = calloc(c->m->moments_n + 1, sizeof(*s.is_attempt));
	err = s.is_attempt ? find_locks(c, &s) : -ENOMEM;
	if (!err)
		err = sr_sections_sort(&s, c->how->links->ranks_n);
	if (!err && s.n)
		err = mark_accesses(c, &s);
	if (!err && s.n && c->how->predict != SR_PREDICT_ORDER)
		err = sr_sections_reorder(c, &s);
	sr_sections_free(&s);
	return err;
}
