/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_races.c: the search for races (replay/analysis/races) against a search by hand: of small random programs
 * all prefixes are tried.
 *
 *     test_races [COUNT [SEED]]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "logd/base/opcodes.h"
#include "replay/analysis/races/conflicts.h"
#include "replay/analysis/races/queues.h"
#include "replay/analysis/races/sweep.h"

#define EVENTS   12
#define RANKS    3
#define QUEUES   3
#define ACCESSES 32
#define FEW_SEEN 100

/* ------------------------------------------------------------ the program */

enum what { POST, EFFECT, LANDING, COMPLETION, RECEIPT, LOAD, STORE, RELEASE };

struct event {
	enum what what;
	int rank;    /* of POST, COMPLETION, RECEIPT, LOAD, STORE, RELEASE */
	int request; /* of POST, EFFECT, LANDING, RECEIPT; the last one of a COMPLETION */
	uint64_t address;
};

struct request {
	int queue, place;
	uint8_t opcode;
	bool has_fence;
	int post, effect, landing, completion, receipt; /* events; -1: none */
};

struct read_from {
	int from, to; /* events */
	int other;    /* or from there, which the search is to leave open; -1: no */
	enum sr_surety surety;
};

struct program {
	enum sr_memory_model model;
	struct event events[EVENTS];
	int events_n;
	struct request requests[EVENTS];
	int requests_n;
	int from[QUEUES], to[QUEUES]; /* ranks of a queue */
	struct read_from reads[EVENTS];
	int reads_n;
	uint32_t before[SR_SURETIES][EVENTS]; /* sets of events; without what was read */
};

static uint64_t state;

static unsigned int draw(unsigned int n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned int)(state >> 33) % n;
}

static int add_event(struct program *p, enum what what, int rank, int request)
{
	p->events[p->events_n] = (struct event){what, rank, request, 0};
	return p->events_n++;
}

static const uint8_t opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
				  IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND};

static void add_post(struct program *p)
{
	struct request *r = &p->requests[p->requests_n];
	int queue = (int)draw(QUEUES);

	*r = (struct request){.queue = queue,
			      .opcode = opcodes[draw(sizeof(opcodes))],
			      .has_fence = !draw(4),
			      .landing = -1,
			      .completion = -1,
			      .receipt = -1};
	for (int i = 0; i < p->requests_n; i++)
		r->place += p->requests[i].queue == queue;
	r->post = add_event(p, POST, p->from[queue], p->requests_n);
	r->effect = add_event(p, EFFECT, -1, p->requests_n);
	if (p->model == SR_MODEL_IBA && r->opcode == IBV_WR_RDMA_WRITE)
		r->landing = add_event(p, LANDING, -1, p->requests_n);
	p->requests_n++;
}

/* All requests of a queue up to this one have ended. */
static void add_completion(struct program *p)
{
	int last = (int)draw((unsigned int)p->requests_n), event;

	if (p->requests[last].completion >= 0)
		return;
	event = add_event(p, COMPLETION, p->from[p->requests[last].queue], last);
	for (int i = 0; i <= last; i++)
		if (p->requests[i].queue == p->requests[last].queue && p->requests[i].completion < 0)
			p->requests[i].completion = event;
}

static void add_receipt(struct program *p)
{
	for (int i = 0; i < p->requests_n; i++) {
		struct request *r = &p->requests[i];

		if (r->opcode != IBV_WR_SEND || r->receipt >= 0)
			continue;
		r->receipt = add_event(p, RECEIPT, p->to[r->queue], i);
		return;
	}
}

/* It returned what a WRITE or an atomic left there, or one of two, or nothing new. */
static void add_read(struct program *p, int reader, int rank)
{
	struct read_from *before = NULL;

	for (int i = 0; i < p->requests_n; i++) {
		const struct request *r = &p->requests[i];

		if (!(sr_op(r->opcode) & SR_OP_CHANGES) || p->to[r->queue] != rank || r->effect >= reader || draw(3))
			continue;
		if (before) {
			before->other = r->landing >= 0 ? r->landing : r->effect;
			before->surety = SR_SURE;
			return;
		}
		before = &p->reads[p->reads_n++];
		*before = (struct read_from){r->landing >= 0 ? r->landing : r->effect, reader, -1,
					     (enum sr_surety)draw(SR_SURETIES)};
		if (draw(2))
			return;
	}
}

static void add_some(struct program *p)
{
	int event, rank = (int)draw(RANKS);

	switch (draw(7)) {
	case 0:
	case 1:
		if (p->events_n + 3 <= EVENTS)
			add_post(p);
		break;
	case 2:
		if (p->requests_n)
			add_completion(p);
		break;
	case 3:
		add_receipt(p);
		break;
	case 4:
		if (!draw(3))
			add_event(p, RELEASE, rank, -1);
		break;
	default:
		event = add_event(p, draw(3) ? LOAD : STORE, rank, -1);
		if (p->events[event].what == LOAD)
			add_read(p, event, rank);
		break;
	}
}

static void make(struct program *p, enum sr_memory_model model)
{
	*p = (struct program){.model = model};
	for (int i = 0; i < QUEUES; i++) {
		p->from[i] = (int)draw(RANKS);
		p->to[i] = (int)draw(RANKS);
	}
	for (int tries = 0; p->events_n < EVENTS && tries < 40; tries++)
		add_some(p);
}

/* --------------------------------------------------- its orders, by the rules */

static bool is_read(const struct request *r)
{
	return r->opcode == IBV_WR_RDMA_READ;
}

static bool is_fetch(const struct request *r)
{
	return is_read(r) || r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* r and s are of one queue, r before s. */
static bool keeps_order(const struct program *p, const struct request *r, const struct request *s)
{
	if (!is_fetch(r) || is_read(s))
		return true;
	for (int i = 0; i < p->requests_n; i++) {
		const struct request *f = &p->requests[i];

		if (f->queue == r->queue && f->place > r->place && f->place <= s->place && f->has_fence)
			return true;
	}
	return false;
}

static int last_of(const struct request *r)
{
	return r->landing >= 0 ? r->landing : r->effect;
}

static bool is_thread(const struct event *e)
{
	return e->what != EFFECT && e->what != LANDING;
}

static bool requests_order(const struct program *p, const struct event *a, const struct event *b, int i)
{
	const struct request *r = &p->requests[a->request], *s = &p->requests[b->request];
	bool is_same = r->queue == s->queue && r->place < s->place;

	if (a->what == POST)
		return b->what == EFFECT && r == s;
	if (a->what != EFFECT && a->what != LANDING)
		return false;
	if (a->what == EFFECT && b->what == LANDING)
		return r == s;
	if (b->what == EFFECT && a->what == EFFECT)
		return is_same && keeps_order(p, r, s);
	if (b->what == EFFECT)
		return is_same && s->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	if (b->what == COMPLETION)
		return r->queue == s->queue && r->place <= s->place && i == last_of(r);
	if (b->what == RECEIPT)
		return a->what == LANDING ? is_same : r == s;
	return false;
}

static void find_orders(struct program *p)
{
	for (int i = 0; i < p->events_n; i++)
		for (int k = 0; k < p->events_n; k++) {
			const struct event *a = &p->events[i], *b = &p->events[k];
			bool follows = i != k && a->request >= 0 && b->request >= 0 && requests_order(p, a, b, i);

			follows |= i < k && is_thread(a) && is_thread(b) && a->rank == b->rank;
			for (int s = 0; follows && s < SR_SURETIES; s++)
				p->before[s][k] |= 1u << i;
		}
}

/* ------------------------------------------------------------ the accesses */

/* As the search gets them, and which events they begin and end with. */
struct access {
	struct sr_access a;
	int from, until, request;
};

struct accesses {
	struct access at[ACCESSES];
	int n;
};

static void add_access(struct accesses *all, const struct program *p, uint8_t kind, int owner, int from, int until,
		       int request)
{
	const struct request *r = request < 0 ? NULL : &p->requests[request];

	all->at[all->n] = (struct access){.a = {.begin = 64,
						.end = 72,
						.sn = (uint64_t)all->n, /* names it */
						.request = (uint64_t)(request + 1),
						.owner = (uint32_t)owner,
						.key = r || kind == SR_ACCESS_RELEASE ? 7 : 0,
						.closed = SR_NO_MOMENT,
						.queue = r ? (uint32_t)r->queue : SR_NO_QUEUE,
						.agent = r ? 100 + (uint32_t)r->queue : (uint32_t)owner,
						.place = r ? (uint32_t)r->place : 0,
						.opcode = r ? r->opcode : 0,
						.kind = kind},
					  .from = from,
					  .until = until,
					  .request = request};
	all->n++;
}

static void find_accesses(struct accesses *all, const struct program *p)
{
	all->n = 0;
	for (int i = 0; i < p->requests_n; i++) {
		const struct request *r = &p->requests[i];
		int from = p->from[r->queue], to = p->to[r->queue];

		if (r->opcode == IBV_WR_RDMA_WRITE)
			add_access(all, p, SR_ACCESS_WRITE, to, r->effect, last_of(r), i);
		else if (is_read(r))
			add_access(all, p, SR_ACCESS_READ, to, r->effect, r->effect, i);
		else if (is_fetch(r))
			add_access(all, p, SR_ACCESS_ATOMIC, to, r->effect, r->effect, i);
		add_access(all, p, is_fetch(r) ? SR_ACCESS_SCATTER : SR_ACCESS_GATHER, from, r->post, r->completion, i);
	}
	for (int i = 0; i < p->events_n; i++)
		if (p->events[i].what == LOAD || p->events[i].what == STORE || p->events[i].what == RELEASE)
			add_access(all, p,
				   p->events[i].what == LOAD    ? SR_ACCESS_LOAD
				   : p->events[i].what == STORE ? SR_ACCESS_STORE
								: SR_ACCESS_RELEASE,
				   p->events[i].rank, i, i, -1);
}

/* ----------------------------------------------- the search through all prefixes */

static bool is_under_way(const struct access *a, uint32_t prefix, const uint32_t before[])
{
	bool may_begin = prefix >> a->from & 1 || !(before[a->from] & ~prefix);

	return may_begin && (a->until < 0 || !(prefix >> a->until & 1));
}

static bool is_closed(uint32_t prefix, const uint32_t before[], int n)
{
	for (int i = 0; i < n; i++)
		if (prefix >> i & 1 && before[i] & ~prefix)
			return false;
	return true;
}

/* choices: bit i: read i is from its other event. */
static bool is_race_with(const struct program *p, const struct access *a, const struct access *b,
			 enum sr_surety surety, uint32_t choices)
{
	uint32_t before[EVENTS];

	if (!sr_accesses_conflict(&a->a, &b->a))
		return false;
	if (a->request >= 0 && b->request >= 0) {
		const struct request *r = &p->requests[a->request], *s = &p->requests[b->request];

		if (r->queue == s->queue && r->place < s->place && keeps_order(p, r, s))
			return false;
		if (r->queue == s->queue && r->place > s->place && keeps_order(p, s, r))
			return false;
	}
	memcpy(before, p->before[surety], sizeof(before));
	for (int i = 0; i < p->reads_n; i++) {
		const struct read_from *r = &p->reads[i];
		bool is_other = r->other >= 0 && choices >> i & 1;

		if (r->surety > surety || r->to == a->from || r->to == b->from)
			continue;
		if (!is_other || surety > SR_SURE)
			before[r->to] |= 1u << r->from;
		if (is_other || (r->other >= 0 && surety > SR_SURE))
			before[r->to] |= 1u << r->other;
	}
	for (uint32_t prefix = 0; prefix < 1u << p->events_n; prefix++)
		if (is_closed(prefix, before, p->events_n) && is_under_way(a, prefix, before) &&
		    is_under_way(b, prefix, before))
			return true;
	return false;
}

/* In one of the runs that the values leave open? */
static bool is_race(const struct program *p, const struct access *a, const struct access *b, enum sr_surety surety)
{
	for (uint32_t choices = 0; choices < 1u << p->reads_n; choices++)
		if ((surety == SR_SURE || !choices) && is_race_with(p, a, b, surety, choices))
			return true;
	return false;
}

/* ------------------------------------------------------- the search on trial */

struct found {
	int unordered[ACCESSES][ACCESSES]; /* surety + 1; 0: not found */
	const struct accesses *all;
	uint64_t order; /* in which they were found, as a number */
};

static int take_found(void *argument, const struct sr_access *a, const struct sr_access *b, enum sr_surety unordered,
		      uint16_t doubts)
{
	struct found *f = argument;

	f->unordered[a->sn][b->sn] = f->unordered[b->sn][a->sn] = (int)unordered + 1;
	f->order = f->order * 0x9e3779b97f4a7c15ull + a->sn * ACCESSES + b->sn + 1;
	return 0;
}

struct built {
	struct sr_race_model m;
	struct sr_race_queue queues[QUEUES];
	struct sr_race_request requests[EVENTS];
	uint32_t moments[EVENTS], threads[RANKS];
};

static void build_event(struct built *b, const struct program *p, int i)
{
	const struct event *e = &p->events[i];
	const struct request *r = e->request < 0 ? NULL : &p->requests[e->request];

	if (is_thread(e))
		b->moments[i] = sr_model_moment(&b->m, b->threads[e->rank]);
	if (e->what == POST) {
		b->requests[e->request] =
			sr_race_post(&b->queues[r->queue], &b->m, p->model, b->moments[i],
				     &(struct sr_race_posting){.opcode = r->opcode, .has_fence = r->has_fence});
		b->moments[r->effect] = b->requests[e->request].effect;
		if (r->landing >= 0)
			b->moments[r->landing] = b->requests[e->request].landing;
	} else if (e->what == COMPLETION) {
		for (int k = 0; k < p->requests_n; k++)
			if (p->requests[k].completion == i)
				sr_race_complete(&b->m, &b->requests[k], b->moments[i]);
	} else if (e->what == RECEIPT) {
		sr_race_receive(&b->m, &b->requests[e->request], b->moments[i]);
	}
}

static void build_read(struct built *b, const struct read_from *r)
{
	uint32_t choice;

	if (r->other < 0) {
		sr_model_order(&b->m, b->moments[r->from], b->moments[r->to], r->surety, true);
		return;
	}
	choice = sr_model_choice(&b->m);
	sr_model_choose(&b->m, choice, b->moments[r->from], b->moments[r->to]);
	sr_model_choose(&b->m, choice, b->moments[r->other], b->moments[r->to]);
}

static void build_accesses(struct built *b, const struct accesses *all)
{
	for (int i = 0; i < all->n; i++) {
		struct sr_access a = all->at[i].a;
		const struct access *from = &all->at[i];

		a.from = b->moments[from->from];
		a.until = from->until < 0 ? SR_NO_MOMENT : b->moments[from->until];
		a.over = a.gathered = SR_NO_MOMENT;
		if (from->request >= 0) {
			a.fences = b->requests[from->request].fences;
			a.queue = b->queues[a.queue].number;
		}
		sr_model_access(&b->m, a);
	}
}

/* Each is to be found. */
static uint64_t origin_of(void *argument, const struct sr_access *a)
{
	return a->sn;
}

/* One thread, and then several: they must find the same, in the same order. */
static int sweep_twice(struct found *f, const struct sr_race_model *m, unsigned int threads)
{
	struct sr_sweep alone = {.found = take_found, .origin = origin_of, .argument = f};
	struct sr_sweep sweep = {.found = take_found, .origin = origin_of, .argument = f, .threads = threads, .batch = 1 + threads % 3};
	int ret = sr_sweep(m, &alone);
	const uint64_t order = f->order;

	*f = (struct found){.all = f->all};
	if (!ret)
		ret = sr_sweep(m, &sweep);
	if (ret || (f->order == order && sweep.pairs == alone.pairs && sweep.dropped == alone.dropped))
		return ret;
	printf("# %u threads found something else, or in another order, than one\n", threads);
	return -1;
}

static int search(struct found *f, const struct program *p, const struct accesses *all)
{
	static struct built b;
	int ret;

	b = (struct built){0};
	*f = (struct found){.all = all};
	for (int i = 0; i < RANKS; i++)
		b.threads[i] = sr_model_lane(&b.m, false);
	for (int i = 0; i < QUEUES; i++)
		sr_race_queue_init(&b.queues[i], &b.m, true);
	for (int i = 0; i < p->events_n; i++)
		build_event(&b, p, i);
	for (int i = 0; i < p->reads_n; i++)
		build_read(&b, &p->reads[i]);
	build_accesses(&b, all);
	sr_model_sort(&b.m);
	ret = sweep_twice(f, &b.m, 2 + (unsigned int)p->events_n % 2);
	for (int i = 0; i < QUEUES; i++)
		sr_race_queue_free(&b.queues[i]);
	if (b.m.is_full)
		ret = -1;
	sr_model_free(&b.m);
	return ret;
}

/* -------------------------------------------------------------------- all */

static const char *const words[] = {"post", "effect", "landing", "completion", "receipt", "load", "store", "release"};

static void print(const struct program *p)
{
	for (int i = 0; i < p->events_n; i++) {
		const struct event *e = &p->events[i];

		printf("# %d: %s rank %d request %d", i, words[e->what], e->rank, e->request);
		if (e->what == POST)
			printf(" queue %d opcode %d%s", p->requests[e->request].queue, p->requests[e->request].opcode,
			       p->requests[e->request].has_fence ? " fence" : "");
		printf("\n");
	}
	for (int i = 0; i < p->reads_n; i++)
		printf("# %d reads from %d or %d, surety %d\n", p->reads[i].to, p->reads[i].from, p->reads[i].other,
		       p->reads[i].surety);
}

static bool agree(const struct program *p, uint64_t *races, uint64_t *none)
{
	static struct accesses all;
	static struct found f;
	bool right = true;

	find_accesses(&all, p);
	if (search(&f, p, &all)) {
		printf("# the search failed\n");
		return false;
	}
	for (int i = 0; i < all.n; i++)
		for (int k = 0; k < i; k++)
			for (int s = 0; s < SR_SURETIES; s++) {
				bool is = is_race(p, &all.at[i], &all.at[k], (enum sr_surety)s);
				bool was = f.unordered[i][k] > s;

				*(is ? races : none) += sr_accesses_conflict(&all.at[i].a, &all.at[k].a);
				if (is == was)
					continue;
				printf("# accesses from %d (kind %d) and %d (kind %d), surety %d: %s\n",
				       all.at[i].from, all.at[i].a.kind, all.at[k].from, all.at[k].a.kind, s,
				       is ? "not found" : "found, but it is none");
				right = false;
			}
	if (!right)
		print(p);
	return right;
}

static bool try_model(enum sr_memory_model model, const char *name, int count, uint64_t seed)
{
	static struct program p;
	uint64_t races = 0, none = 0;
	int wrong = 0;

	state = seed * 2654435761u + 88172645463325252u;
	for (int i = 0; i < count && wrong < 3; i++) {
		make(&p, model);
		find_orders(&p);
		wrong += !agree(&p, &races, &none);
	}
	printf("# %s: %d programs from seed %llu, %llu races, %llu conflicts in order\n", name, count,
	       (unsigned long long)seed, (unsigned long long)races, (unsigned long long)none);
	return !wrong && races > FEW_SEEN && none > FEW_SEEN;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 10000;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	bool device, iba;

	printf("1..2\n");
	device = try_model(SR_MODEL_DEVICE, "device", count, seed);
	printf("%sok 1 - random programs: as a search through all prefixes, model device\n", device ? "" : "not ");
	iba = try_model(SR_MODEL_IBA, "iba", count, seed);
	printf("%sok 2 - random programs: as a search through all prefixes, model iba\n", iba ? "" : "not ");
	return !(device && iba);
}
