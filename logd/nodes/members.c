/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/nodes/members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------- cells */

static uint32_t free_cell(const struct member_process *p)
{
	uint32_t i;

	for (i = 0; i < p->taken_words; i++)
		if (~p->taken[i])
			return i * 64 + (uint32_t)__builtin_ctzll(~p->taken[i]);
	return i * 64;
}

static int take_cell(struct member_process *p, uint32_t cell)
{
	while (cell / 64 >= p->taken_words) {
		uint32_t words = p->taken_words ? 2 * p->taken_words : 4;
		uint64_t *taken = realloc(p->taken, words * sizeof(*taken));

		if (!taken)
			return -ENOMEM;
		memset(taken + p->taken_words, 0, (words - p->taken_words) * sizeof(*taken));
		p->taken = taken;
		p->taken_words = words;
	}
	p->taken[cell / 64] |= 1ull << cell % 64;
	if (cell >= p->cells)
		p->cells = cell + 1;
	return 0;
}

static void free_cell_of(struct queue_pair *q)
{
	if (q->cell != SR_NO_CELL)
		q->process->taken[q->cell / 64] &= ~(1ull << q->cell % 64);
}

bool queue_pair_take_cell(struct queue_pair *q)
{
	uint32_t cell;

	if (q->cell != SR_NO_CELL)
		return false;
	cell = free_cell(q->process);
	if (take_cell(q->process, cell))
		return false;
	q->cell = cell;
	return true;
}

void queue_pair_restore_cell(struct queue_pair *q, uint64_t cell)
{
	if (cell < UINT16_MAX && !take_cell(q->process, (uint32_t)cell))
		q->cell = (uint32_t)cell;
}

/* ------------------------------------------------------------- queue pairs */

static uint32_t bucket(uint32_t number)
{
	return number * 2654435761u >> 20 & (MEMBERS_BUCKETS - 1);
}

static bool has_gid(const struct queue_pair *q, const uint8_t *gid)
{
	for (uint32_t i = 0; i < q->is.gids; i++)
		if (!memcmp(q->is.gid[i], gid, SR_GID_BYTES))
			return true;
	return false;
}

struct queue_pair *queue_pair_of_job(const struct members *m, const struct job *job,
				     const uint8_t *gid, uint32_t number)
{
	struct queue_pair *q;

	for (q = m->buckets[bucket(number)]; q; q = q->next)
		if (q->is.number == number && q->process->job == job && has_gid(q, gid))
			break;
	return q;
}

/* Numbers are a device's: one process may have the same number on two devices. */
struct queue_pair *queue_pair_of_process(const struct members *m, const struct member_process *p,
					 uint32_t number, const uint8_t *gid)
{
	struct queue_pair *q;

	for (q = m->buckets[bucket(number)]; q; q = q->next)
		if (q->is.number == number && q->process == p && (!gid || has_gid(q, gid)))
			break;
	return q;
}

int queue_pair_add(struct members *m, struct member_process *p, const struct sr_queue_pair *is)
{
	struct queue_pair *q, *old, **list = &m->buckets[bucket(is->number)];

	if (is->gids > SR_GIDS)
		return -EINVAL;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	old = is->gids ? queue_pair_of_job(m, p->job, is->gid[0], is->number) : NULL;
	if (old)
		queue_pair_remove(m, old);
	q->is = *is;
	q->process = p;
	q->cell = SR_NO_CELL;
	q->next = *list;
	*list = q;
	q->next_of_same = p->queue_pairs;
	p->queue_pairs = q;
	return 0;
}

void queue_pair_remove(struct members *m, struct queue_pair *q)
{
	struct queue_pair **at;

	for (at = &m->buckets[bucket(q->is.number)]; *at != q; at = &(*at)->next)
		;
	*at = q->next;
	for (at = &q->process->queue_pairs; *at != q; at = &(*at)->next_of_same)
		;
	*at = q->next_of_same;
	free_cell_of(q);
	free(q);
}

/*
 * An XRC target has no protection domain of its own: each request to it names a shared
 * receive queue, whose domain counts.  Finds such a queue of the same process in the same XRC
 * domain; NULL: there is none.
 */
static const struct queue_pair *shared_queue_of(const struct queue_pair *target)
{
	const struct queue_pair *q;

	if (!target->is.domain)
		return NULL;
	for (q = target->process->queue_pairs; q; q = q->next_of_same)
		if (q->is.number & SR_SHARED_QUEUE && q->is.domain == target->is.domain)
			break;
	return q;
}

void queue_pair_describe(const struct queue_pair *q, struct sr_found *found)
{
	const struct member_process *p = q->process;
	const struct queue_pair *shared = shared_queue_of(q);

	*found = (struct sr_found){
	    .rank = p->rank,
	    .member = p->member,
	    .region = p->region,
	    .rkey = shared ? shared->is.rkey : q->is.rkey,
	    .shared_queue = shared ? shared->is.number & ~SR_SHARED_QUEUE : 0,
	    .reads = q->is.reads,
	    .cell = q->cell,
	    .cells = p->cells,
	    .own_cell = SR_NO_CELL,
	};
}

/* --------------------------------------------------------------- processes */

struct member_process *member_find(const struct members *m, const uint8_t *id)
{
	struct member_process *p;

	for (p = m->processes; p && memcmp(p->id, id, sizeof(p->id)) != 0; p = p->next)
		;
	return p;
}

void member_add(struct members *m, struct member_process *p)
{
	p->next = m->processes;
	m->processes = p;
}

void member_remove(struct members *m, struct member_process *p)
{
	struct member_process **at = &m->processes;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	while (p->queue_pairs)
		queue_pair_remove(m, p->queue_pairs);
	free(p->taken);
	free(p);
}
