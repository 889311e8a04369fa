/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deque.c: work stealing, after the locked distributed queues of UTS.
 *
 * The shared part of a rank is a ring of task slots under a lock. The owner adds tasks at
 * the tail with plain stores; thieves and the owner take tasks at the head. Thieves also
 * read `available` without the lock, to find out where stealing is worth trying.
 *
 * The end: a rank without work counts itself idle on rank 0. It counts itself busy again
 * before it steals. It gives up tasks only by running or sharing them, and takes back all
 * shared tasks before it becomes idle. So when all ranks are idle at once there is no work
 * left, and the rank that completed the count notifies the others.
 */
#include <stdlib.h>
#include <string.h>

#include "deque.h"

#define SHARE_BYTES (PGAS_DEQUE_BYTES - 4096)
/* How often a rank checks the end flag for each check of another rank. */
#define LOOKS       32

/*
 * Head and tail count tasks from the beginning; the slot is the count modulo the number of slots.
 */
struct ends {
	uint64_t head, tail;
};

struct shared_part {
	struct pgas_lock lock;
	struct ends ends;
	uint64_t available;
	uint64_t idle; /* of rank 0: how many are */
	uint64_t all_done;
	char slots[];
};

struct pgas_deque {
	size_t task_bytes;
	unsigned int chunk;
	uint64_t n_slots;
	struct shared_part *part;
	char *own; /* the stack */
	size_t depth, room;
	char *loot;
	uint64_t random;
};

struct pgas_deque *pgas_make_deque(size_t task_bytes, unsigned int chunk)
{
	struct pgas_deque *d = calloc(1, sizeof(*d));

	if (!d)
		pgas_fail("no memory for tasks");
	d->task_bytes = task_bytes;
	d->chunk = chunk;
	d->part = pgas_shared(sizeof(*d->part) + SHARE_BYTES);
	d->n_slots = SHARE_BYTES / task_bytes;
	d->loot = malloc(chunk * task_bytes);
	if (!d->loot)
		pgas_fail("no memory for tasks");
	d->random = (uint64_t)pgas_rank() + 1;
	return d;
}

static char *slot(struct pgas_deque *d, uint64_t count)
{
	return d->part->slots + count % d->n_slots * d->task_bytes;
}

/* ------------------------------------------------------------- the own stack */

void pgas_push(struct pgas_deque *d, const void *task)
{
	if (d->depth == d->room) {
		d->room = d->room ? 2 * d->room : 1024;
		d->own = realloc(d->own, d->room * d->task_bytes);
		if (!d->own)
			pgas_fail("no memory for tasks");
	}
	memcpy(d->own + d->depth++ * d->task_bytes, task, d->task_bytes);
}

/* The oldest tasks are the largest: those are shared. */
static void drop_oldest(struct pgas_deque *d, unsigned int n)
{
	d->depth -= n;
	memmove(d->own, d->own + n * d->task_bytes, d->depth * d->task_bytes);
}

/* ---------------------------------------------------------- the shared part */

/* Shares tasks if others find none here and there are plenty. */
static void share(struct pgas_deque *d)
{
	struct shared_part *p = d->part;

	if (pgas_ranks() == 1 || d->depth < 2 * d->chunk || pgas_load(&p->available))
		return;
	pgas_lock(pgas_rank(), &p->lock);
	for (unsigned int i = 0; i < d->chunk; i++)
		memcpy(slot(d, p->ends.tail + i), d->own + i * d->task_bytes, d->task_bytes);
	p->ends.tail += d->chunk;
	pgas_store(&p->available, p->ends.tail - p->ends.head);
	pgas_unlock(pgas_rank(), &p->lock);
	drop_oldest(d, d->chunk);
}

/* Takes back the tasks that nobody took; false if there are none. */
static bool take_back(struct pgas_deque *d)
{
	struct shared_part *p = d->part;
	bool any;

	if (pgas_ranks() == 1)
		return false;
	pgas_lock(pgas_rank(), &p->lock);
	any = p->ends.head < p->ends.tail;
	for (; p->ends.head < p->ends.tail; p->ends.tail--)
		pgas_push(d, slot(d, p->ends.tail - 1));
	pgas_store(&p->available, 0);
	pgas_unlock(pgas_rank(), &p->lock);
	return any;
}

static void get_slots(struct pgas_deque *d, int victim, uint64_t from, uint64_t n)
{
	uint64_t until_wrap = d->n_slots - from % d->n_slots;
	uint64_t first = n < until_wrap ? n : until_wrap;

	pgas_get(victim, d->loot, slot(d, from), first * d->task_bytes);
	if (first < n)
		pgas_get(victim, d->loot + first * d->task_bytes, slot(d, from + first),
			 (n - first) * d->task_bytes);
}

static bool steal(struct pgas_deque *d, int victim)
{
	struct shared_part *p = d->part;
	struct ends ends;
	uint64_t n, left;

	if (!pgas_try_lock(victim, &p->lock))
		return false;
	pgas_get(victim, &ends, &p->ends, sizeof(ends));
	n = ends.tail - ends.head < d->chunk ? ends.tail - ends.head : d->chunk;
	if (n) {
		get_slots(d, victim, ends.head, n);
		ends.head += n;
		left = ends.tail - ends.head;
		pgas_put(victim, &p->ends.head, &ends.head, sizeof(ends.head));
		pgas_put(victim, &p->available, &left, sizeof(left));
	}
	pgas_unlock(victim, &p->lock);
	for (uint64_t i = 0; i < n; i++)
		pgas_push(d, d->loot + i * d->task_bytes);
	return n > 0;
}

/* ------------------------------------------------------------------ the end */

/* True if all ranks are idle now; they have been notified. */
static bool become_idle(struct pgas_deque *d)
{
	static const uint64_t yes = 1;

	if (pgas_fetch_add(0, &d->part->idle, 1) + 1 < (uint64_t)pgas_ranks())
		return false;
	for (int i = 0; i < pgas_ranks(); i++)
		pgas_put(i, &d->part->all_done, &yes, sizeof(yes));
	return true;
}

static int some_victim(struct pgas_deque *d)
{
	int other = (int)(pgas_random(&d->random) % (uint64_t)(pgas_ranks() - 1));

	return other + (other >= pgas_rank());
}

/* Waits for work: true if there is some, false if there is none anywhere. */
static bool find_work(struct pgas_deque *d)
{
	struct pgas_patience patience = {0};
	uint64_t available;
	int victim;

	if (become_idle(d))
		return false;
	for (;;) {
		for (int i = 0; i < LOOKS; i++) {
			if (pgas_load(&d->part->all_done))
				return false;
			pgas_relax(&patience);
		}
		victim = some_victim(d);
		pgas_get(victim, &available, &d->part->available, sizeof(available));
		if (!available)
			continue;
		pgas_fetch_add(0, &d->part->idle, (uint64_t)-1);
		if (steal(d, victim))
			return true;
		if (become_idle(d))
			return false;
	}
}

void pgas_run_tasks(struct pgas_deque *d, void (*run)(struct pgas_deque *, const void *))
{
	char *task = malloc(d->task_bytes);

	if (!task)
		pgas_fail("no memory for a task");
	do {
		while (d->depth) {
			memcpy(task, d->own + --d->depth * d->task_bytes, d->task_bytes);
			run(d, task);
			share(d);
		}
	} while (take_back(d) || find_work(d));
	free(task);
	pgas_barrier();
}
