/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_consistency.c: observed violations of sequential consistency (replay/analysis/races/violations.c): litmus tests, in runs
 * that are made by hand, since no device here loses it when it is to.
 */
#include <stdio.h>

#include <infiniband/verbs.h>

#include "replay/analysis/races/consistency.h"
#include "replay/analysis/races/queues.h"

#define RANKS    4
#define OWNER    4 /* whose memory the requests access, where it is no rank's of those */
#define QUEUES   8
#define REQUESTS 16

/* Words in memory. */
enum { X = 64, Y = 128 };

struct run {
	struct sr_race_run r;
	struct sr_race_finding findings[REQUESTS];
	uint32_t lanes[RANKS];
	struct sr_race_queue queues[QUEUES];
	struct sr_race_request requests[REQUESTS + 1];
	uint32_t owners[REQUESTS + 1];
	uint64_t requests_n;
};

static void begin(struct run *t)
{
	*t = (struct run){0};
	t->r.findings = t->findings;
	for (int i = 0; i < RANKS; i++)
		t->lanes[i] = sr_model_lane(&t->r.model, false);
	for (int i = 0; i < QUEUES; i++)
		sr_race_queue_init(&t->queues[i], &t->r.model, true);
}

static struct sr_access access_of(const struct run *t, uint32_t rank, uint32_t owner, uint64_t word)
{
	return (struct sr_access){.begin = word, .end = word + 8, .rank = rank, .owner = owner, .over = SR_NO_MOMENT, .gathered = SR_NO_MOMENT,
				  .closed = SR_NO_MOMENT, .sn = t->r.model.accesses_n, .queue = SR_NO_QUEUE};
}

static uint64_t post(struct run *t, uint32_t rank, int queue, uint8_t opcode, uint32_t owner, uint64_t word)
{
	struct sr_race_model *m = &t->r.model;
	const uint32_t moment = sr_model_moment(m, t->lanes[rank]);
	const uint64_t number = ++t->requests_n;
	struct sr_access a = access_of(t, rank, owner, word);

	t->requests[number] = sr_race_post(&t->queues[queue], m, SR_MODEL_DEVICE, moment, &(struct sr_race_posting){.opcode = opcode});
	t->owners[number] = owner;
	a.kind = opcode == IBV_WR_RDMA_READ ? SR_ACCESS_READ : SR_ACCESS_WRITE;
	a.opcode = opcode;
	a.request = number;
	a.post = moment;
	a.from = a.until = t->requests[number].effect;
	a.queue = t->queues[queue].number;
	a.place = t->requests[number].place;
	sr_model_access(m, a);
	return number;
}

static uint64_t put(struct run *t, uint32_t rank, int queue, uint32_t owner, uint64_t word)
{
	return post(t, rank, queue, IBV_WR_RDMA_WRITE, owner, word);
}

static void find(struct run *t, struct sr_race_finding f)
{
	t->findings[t->r.findings_n++] = f;
}

/* A READ that found what a WRITE left there; 0: nothing new. */
static void get(struct run *t, uint32_t rank, int queue, uint32_t owner, uint64_t word, uint64_t from)
{
	const uint64_t number = post(t, rank, queue, IBV_WR_RDMA_READ, owner, word);

	if (from)
		sr_model_order(&t->r.model, t->requests[from].landing, t->requests[number].effect, SR_SURE, true);
	else
		find(t, (struct sr_race_finding){word, word + 8, number, 0, owner, t->requests[number].effect});
}

/* A load of the CPU's own memory. */
static void load(struct run *t, uint32_t rank, uint64_t word, uint64_t from)
{
	struct sr_access a = access_of(t, rank, rank, word);

	a.from = a.until = a.over = sr_model_moment(&t->r.model, t->lanes[rank]);
	a.kind = SR_ACCESS_LOAD;
	if (from) {
		sr_model_order(&t->r.model, t->requests[from].landing, a.from, SR_SURE, true);
		find(t, (struct sr_race_finding){word, word + 1, 0, from, rank, a.from});
	}
	sr_model_access(&t->r.model, a);
}

static uint64_t origin_of(void *argument, const struct sr_access *a)
{
	(void)argument;
	return a->sn;
}

/* How many observed cycles there are, of which the first one has so many accesses. */
static bool has(struct run *t, size_t cycles, uint32_t length)
{
	struct sr_consistency s = {0};
	bool right;

	sr_model_sort(&t->r.model);
	right = !sr_consistency_observed(&s, &t->r, origin_of, NULL) && s.n == cycles && (!cycles || s.cycles[0].n == length);
	if (!right)
		printf("# %zu cycles, the first one of %u\n", s.n, s.n ? s.cycles[0].n : 0);
	sr_consistency_free(&s);
	for (int i = 0; i < QUEUES; i++)
		sr_race_queue_free(&t->queues[i]);
	sr_model_free(&t->r.model);
	return right;
}

/* ------------------------------------------------------------------- litmus tests */

/* Both write to the other one, and load: found: does rank 1 see what rank 0 wrote? */
static bool store_buffer(bool found)
{
	struct run t;
	uint64_t x, y;

	begin(&t);
	x = put(&t, 0, 0, 1, X);
	y = put(&t, 1, 1, 0, Y);
	load(&t, 0, Y, 0);
	load(&t, 1, X, found ? x : 0);
	load(&t, 0, Y, y);
	load(&t, 1, X, x);
	return has(&t, !found, 4);
}

/* Data and a flag; the flag is there. */
static bool message(bool found)
{
	struct run t;
	uint64_t data, flag;

	begin(&t);
	data = put(&t, 0, 0, 1, X);
	flag = put(&t, 0, 1, 1, Y);
	load(&t, 1, Y, flag);
	load(&t, 1, X, found ? data : 0);
	load(&t, 1, X, data);
	return has(&t, !found, 4);
}

/* Two that fetch what two others write, and see the WRITEs in different orders. */
static bool independent(bool found)
{
	struct run t;
	uint64_t x, y;

	begin(&t);
	x = put(&t, 0, 0, OWNER, X);
	y = put(&t, 1, 1, OWNER, Y);
	get(&t, 2, 2, OWNER, X, x);
	get(&t, 2, 2, OWNER, Y, 0);
	get(&t, 3, 3, OWNER, Y, y);
	get(&t, 3, 3, OWNER, X, found ? x : 0);
	return has(&t, !found, 6);
}

/* Who fetches twice finds the second WRITE, and then the first one. */
static bool backwards(bool is)
{
	struct run t;
	uint64_t first, second;

	begin(&t);
	first = put(&t, 0, 0, OWNER, X);
	second = put(&t, 0, 0, OWNER, X);
	get(&t, 1, 1, OWNER, X, is ? second : first);
	get(&t, 1, 1, OWNER, X, is ? first : second);
	return has(&t, is, 3);
}

/* A READ that a later WRITE of its thread has overtaken. */
static bool overtaken(void)
{
	struct run t;

	begin(&t);
	post(&t, 0, 0, IBV_WR_RDMA_READ, OWNER, X);
	put(&t, 0, 0, OWNER, X);
	sr_model_order(&t.r.model, t.requests[2].landing, t.requests[1].effect, SR_SURE, true);
	return has(&t, 1, 2);
}

/* What two WRITEs of one word, one after the other, tell the CPU that waits for them. */
static bool rounds(void)
{
	struct run t;

	begin(&t);
	for (int i = 0; i < 3; i++) {
		uint64_t to = put(&t, 0, 0, 1, X), back;

		load(&t, 1, X, 0);
		load(&t, 1, X, to);
		back = put(&t, 1, 1, 0, Y);
		load(&t, 0, Y, 0);
		load(&t, 0, Y, back);
	}
	return has(&t, 0, 0);
}

int main(void)
{
	const struct {
		bool right;
		const char *name;
	} all[] = {
	    {store_buffer(false), "store buffering, lost"}, {store_buffer(true), "store buffering, kept"},
	    {message(false), "message passing, lost"},	    {message(true), "message passing, kept"},
	    {independent(false), "independent reads of independent writes, lost"},
	    {independent(true), "independent reads of independent writes, kept"},
	    {backwards(true), "one word backwards"},	    {backwards(false), "one word forwards"},
	    {rounds(), "flags to and fro"},		    {overtaken(), "a READ and a later WRITE"},
	};
	const size_t n = sizeof(all) / sizeof(all[0]);
	int failed = 0;

	printf("1..%zu\n", n);
	for (size_t i = 0; i < n; i++) {
		printf("%sok %zu - %s\n", all[i].right ? "" : "not ", i + 1, all[i].name);
		failed += !all[i].right;
	}
	return failed != 0;
}
