/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "nicclock/closure.h"
#include "nicclock/order_code.h"

/* Vector clocks, as the truth keeps them. */
struct vector {
	uint64_t of[SR_CLOCK_MEMBERS];
};

/*
 * Two truths. `reads`: orders from a write to a reader that saw it, and what follows from
 * them; all of these must be found. `full`: also from an access to the write that comes
 * after it; an order that is not even in this one is false.
 */
struct past {
	struct vector reads, full;
};

struct word {
	struct vector writes;        /* all writes so far: reads' truth */
	struct vector full_writes;   /* Algorithm 2's V^w ... */
	struct vector full_accesses; /* ... and V^a */
	int producer;                /* member of the last write; -1 none */
	uint64_t producer_event;
};

enum kind { CLOCK, WRITE, READ, ATOMIC, SEND, READ_CLOCKS };

struct request {
	struct request *next;
	enum kind kind;
	int x;
	uint64_t clock;
	uint32_t turn; /* of the cell's words */
	struct past past; /* of who posted it */
	/* What came back. */
	struct vector seen, seen_full;
	int producer;
	uint64_t producer_event;
	uint32_t cells;
	_Atomic uint64_t *words;
};

struct fifo {
	struct request *first, *last;
};

struct queue {
	int from, to;
	uint32_t cell;
	struct fifo sent, done;
	uint64_t clock;	 /* the last that it carried */
	uint32_t clocks; /* so many so far */
	bool is_writing; /* a word of the cell, half of which is there */
	uint32_t cells; /* that its READs ask for */
	struct sr_clock_view *view;
	uint32_t laziness; /* how rarely the network serves it */
};

struct process {
	int member; /* -1: outside */
	struct word *memory;
	struct sr_clock_region *region;
	struct sr_clock clock;
	struct sr_clock_view *view; /* of its own region */
	struct past past;
	struct fifo received;
	struct sr_order_stream stream;
	/* By event: the one before it on its queue pair, as far as it was a post. */
	uint64_t *before;
	size_t before_room;
};

/* At this event the member's true past was this. */
struct check {
	int member;
	uint64_t event;
	struct vector reads;
	int producer;
	uint64_t producer_event;
};

struct fabric {
	struct fabric_shape shape;
	uint64_t random;
	int processes, queues;
	struct process *process;
	struct queue *queue;
	struct sr_closure *closure;
	struct check *checks;
	size_t checks_count, checks_room;
	struct fabric_counts counts;
};

/* --------------------------------------------------------------- small parts */

static void *zeroed(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		abort();
	return p;
}

uint32_t fabric_random(struct fabric *f, uint32_t below)
{
	/* Marsaglia's xorshift64*. */
	f->random ^= f->random >> 12;
	f->random ^= f->random << 25;
	f->random ^= f->random >> 27;
	return (uint32_t)((f->random * 0x2545f4914f6cdd1dull) >> 32) % below;
}

static void join(struct vector *v, const struct vector *other)
{
	for (int i = 0; i < SR_CLOCK_MEMBERS; i++)
		if (other->of[i] > v->of[i])
			v->of[i] = other->of[i];
}

static void push(struct fifo *q, struct request *r)
{
	r->next = NULL;
	if (q->last)
		q->last->next = r;
	else
		q->first = r;
	q->last = r;
}

static struct request *pop(struct fifo *q)
{
	struct request *r = q->first;

	if (r) {
		q->first = r->next;
		if (!q->first)
			q->last = NULL;
	}
	return r;
}

static void drop(struct request *r)
{
	free(r->words);
	free(r);
}

static struct queue *queue_of(struct fabric *f, int from, int to, int lane)
{
	assert(from != to && lane < f->shape.lanes);
	return &f->queue[(from * f->processes + to) * f->shape.lanes + lane];
}

/* ------------------------------------------------------------------- a fabric */

/* Cells of one process: one for each queue pair of a member that leads to it. */
static uint32_t cells_of(const struct fabric *f)
{
	return (uint32_t)(f->shape.members * f->shape.lanes);
}

static void create_process(struct fabric *f, int i)
{
	struct process *p = &f->process[i];

	p->member = i < f->shape.members ? i : -1;
	p->memory = zeroed((size_t)f->shape.words * sizeof(*p->memory));
	for (int x = 0; x < f->shape.words; x++)
		p->memory[x].producer = -1;
	p->region = zeroed(sr_clock_region_bytes(cells_of(f)));
	p->view = zeroed(sr_clock_view_bytes(cells_of(f)));
	p->view->cells = cells_of(f);
	if (p->member >= 0)
		sr_clock_init(&p->clock, p->region, p->member, NULL);
}

static void create_queue(struct fabric *f, int from, int to, int lane)
{
	struct queue *q = queue_of(f, from, to, lane);

	*q = (struct queue){.from = from, .to = to};
	q->laziness = f->shape.fair || fabric_random(f, 4) ? 1 : 1 + fabric_random(f, 30);
	if (f->process[from].member < 0)
		return;
	q->cell = (uint32_t)(from * f->shape.lanes + lane);
	if (f->shape.spoil == SPOIL_ONE_CELL)
		q->cell = (uint32_t)from;
	sr_clock_region_use_cell(f->process[to].region, q->cell);
	q->view = zeroed(sr_clock_view_bytes(cells_of(f)));
	q->view->cells = cells_of(f);
}

struct fabric *fabric_create(const struct fabric_shape *shape)
{
	struct fabric *f = zeroed(sizeof(*f));

	f->shape = *shape;
	f->random = shape->seed * 0x9e3779b97f4a7c15ull + 1;
	f->processes = shape->members + shape->outsiders;
	f->queues = f->processes * f->processes * shape->lanes;
	f->process = zeroed((size_t)f->processes * sizeof(*f->process));
	f->queue = zeroed((size_t)f->queues * sizeof(*f->queue));
	f->closure = sr_closure_create(shape->members);
	for (int i = 0; i < f->processes; i++)
		create_process(f, i);
	for (int from = 0; from < f->processes; from++)
		for (int to = 0; to < f->processes; to++)
			for (int lane = 0; lane < shape->lanes && from != to; lane++)
				create_queue(f, from, to, lane);
	return f;
}

static void free_fifo(struct fifo *q)
{
	struct request *r;

	while ((r = pop(q)))
		drop(r);
}

void fabric_free(struct fabric *f)
{
	for (int i = 0; i < f->queues; i++) {
		free_fifo(&f->queue[i].sent);
		free_fifo(&f->queue[i].done);
		free(f->queue[i].view);
	}
	for (int i = 0; i < f->processes; i++) {
		free_fifo(&f->process[i].received);
		free(f->process[i].memory);
		free(f->process[i].region);
		free(f->process[i].view);
		free(f->process[i].before);
	}
	sr_closure_free(f->closure);
	free(f->checks);
	free(f->process);
	free(f->queue);
	free(f);
}

/* ----------------------------------------------- the recorder under test: posts */

static struct request *request(struct fabric *f, struct queue *q, enum kind kind, int x)
{
	struct request *r = zeroed(sizeof(*r));

	r->kind = kind;
	r->x = x;
	r->producer = -1;
	r->past = f->process[q->from].past;
	return r;
}

static void post(struct fabric *f, struct queue *q, enum kind kind, int x)
{
	push(&q->sent, request(f, q, kind, x));
}

static void note_before(struct process *p, uint64_t event, uint64_t before)
{
	size_t room = p->before_room;

	if (event >= room) {
		p->before_room = 2 * (size_t)event + 64;
		p->before = realloc(p->before, p->before_room * sizeof(*p->before));
		if (!p->before)
			abort();
		memset(p->before + room, 0, (p->before_room - room) * sizeof(*p->before));
	}
	p->before[event] = before;
}

/* An event without orders, which is but a flag of its call's record. */
static void tick(struct process *p)
{
	p->past.reads.of[p->member] = p->past.full.of[p->member] = sr_clock_tick(&p->clock);
	p->stream.event++;
}

static void post_with_clock(struct fabric *f, struct queue *q, enum kind kind, int x)
{
	struct process *p = &f->process[q->from];
	struct request *clock;

	if (p->member < 0) {
		post(f, q, kind, x);
		return;
	}
	f->counts.operations++;
	f->counts.wire_bytes += sizeof(struct sr_clock_pair);
	tick(p);
	note_before(p, sr_clock_now(&p->clock), q->clock);
	q->clock = sr_clock_now(&p->clock);
	clock = request(f, q, CLOCK, 0);
	clock->clock = sr_clock_cell_word(p->member, sr_clock_now(&p->clock), 0);
	clock->turn = f->shape.spoil == SPOIL_ONE_WORD ? 0 : q->clocks++ % SR_CLOCK_CELL_WORDS;
	if (f->shape.spoil == SPOIL_CLOCK_BEHIND) {
		post(f, q, kind, x);
		push(&q->sent, clock);
	} else {
		push(&q->sent, clock);
		post(f, q, kind, x);
	}
}

static void post_read_clocks(struct fabric *f, struct queue *q)
{
	struct request *r;

	if (f->process[q->from].member < 0)
		return;
	if (!q->cells)
		q->cells = (uint32_t)atomic_load(&f->process[q->to].region->cells);
	r = request(f, q, READ_CLOCKS, 0);
	r->cells = q->cells;
	f->counts.wire_bytes += sr_clock_read_bytes(r->cells);
	push(&q->sent, r);
}

void fabric_write(struct fabric *f, int from, int to, int lane, int x)
{
	post_with_clock(f, queue_of(f, from, to, lane), WRITE, x);
}

void fabric_send(struct fabric *f, int from, int to, int lane)
{
	post_with_clock(f, queue_of(f, from, to, lane), SEND, 0);
}

void fabric_atomic(struct fabric *f, int from, int to, int lane, int x)
{
	struct queue *q = queue_of(f, from, to, lane);

	post_with_clock(f, q, ATOMIC, x);
	post_read_clocks(f, q);
}

void fabric_read(struct fabric *f, int from, int to, int lane, int x)
{
	struct queue *q = queue_of(f, from, to, lane);

	f->counts.operations++;
	post(f, q, READ, x);
	post_read_clocks(f, q);
}

/* ---------------------------------------------- the recorder under test: orders */

/* What was looked at, and who made it. */
struct sight {
	int producer;
	uint64_t event;
};

/* What the order proves even if its event had only begun. */
static uint64_t landed(const struct fabric *f, const struct sr_order *o)
{
	const struct process *p = &f->process[o->member];

	if (o->via == SR_ORDER_OWN)
		return o->event ? o->event - 1 : 0;
	return o->event < p->before_room ? p->before[o->event] : 0;
}

static void count_false(struct fabric *f, const struct process *p, const struct sr_order *o,
			const struct sight *seen)
{
	uint64_t truth = p->past.full.of[o->member];
	bool exact = o->member == seen->producer && o->event >= seen->event;
	uint64_t settled = exact ? seen->event : landed(f, o);

	f->counts.exact += exact;
	f->counts.false_exact += exact && settled > truth;
	f->counts.false_settled += settled > truth;
	if (o->event <= truth)
		return;
	f->counts.false_orders++;
	f->counts.excess += o->event - truth;
}

static void count_orders(struct fabric *f, struct process *p, uint64_t event,
			 const struct sr_order *orders, uint32_t n, const struct sight *seen)
{
	uint8_t bytes[SR_ORDER_MAX_BYTES(SR_CLOCK_ORDERS)];

	f->counts.orders += n;
	f->counts.trace_bytes += sr_order_encode(&p->stream, event, orders, n, bytes);
	for (uint32_t i = 0; i < n; i++) {
		count_false(f, p, &orders[i], seen);
		if (sr_closure_add(f->closure, p->member, event, &orders[i]))
			abort();
	}
}

static void merge(struct fabric *f, struct process *p, struct sr_clock_view *v,
		  _Atomic uint64_t *words, uint32_t cells, const struct sight *seen)
{
	struct sr_order orders[SR_CLOCK_ORDERS];
	struct sr_clock_moment moment;
	uint32_t n;

	if (f->shape.spoil == SPOIL_OWN_IGNORED && words != &p->region->own)
		atomic_store(&words[0], 0);
	if (f->shape.spoil == SPOIL_NOTHING)
		assert(!sr_clock_is_short(words, cells));
	while (sr_clock_is_news(&p->clock, v, words, cells)) {
		n = sr_clock_merge(&p->clock, v, words, cells, orders, 3, &moment);
		for (uint32_t i = 0; i < n && f->shape.spoil == SPOIL_LANDED_ONLY; i++)
			orders[i].event -= orders[i].via == SR_ORDER_CELL;
		count_orders(f, p, moment.event, orders, n, seen);
	}
	p->past.reads.of[p->member] = p->past.full.of[p->member] = sr_clock_now(&p->clock);
}

static void merge_own_region(struct fabric *f, struct process *p, const struct sight *seen)
{
	merge(f, p, p->view, &p->region->own, (uint32_t)atomic_load(&p->region->cells), seen);
}

/* Now `p` has seen this; what it found is held against it in the end. */
static void expect(struct fabric *f, struct process *p, int producer, uint64_t producer_event)
{
	f->counts.reads++;
	if (f->checks_count == f->checks_room) {
		f->checks_room = f->checks_room ? f->checks_room * 2 : 64;
		f->checks = realloc(f->checks, f->checks_room * sizeof(*f->checks));
		if (!f->checks)
			abort();
	}
	f->checks[f->checks_count++] = (struct check){
	    .member = p->member,
	    .event = sr_clock_now(&p->clock),
	    .reads = p->past.reads,
	    .producer = producer == p->member ? -1 : producer,
	    .producer_event = producer_event,
	};
}

/* -------------------------------------------------------------- memory, in truth */

static void see(struct word *w, struct request *r)
{
	r->seen = w->writes;
	r->seen_full = w->full_writes;
	r->producer = w->producer;
	r->producer_event = w->producer_event;
	join(&w->full_accesses, &r->past.full);
}

static void change(struct word *w, struct request *r, int member)
{
	/* Known to the writer once it has the completion. */
	r->seen_full = w->full_accesses;
	w->producer = member;
	if (member < 0)
		return;
	w->producer_event = r->past.reads.of[member];
	join(&w->writes, &r->past.reads);
	join(&w->full_accesses, &r->past.full);
	w->full_writes = w->full_accesses;
}

void fabric_store(struct fabric *f, int process, int x)
{
	struct process *p = &f->process[process];
	struct request r;

	if (p->member >= 0 && (f->shape.stores_seen || fabric_random(f, 2)))
		tick(p);
	r = (struct request){.past = p->past};
	change(&p->memory[x], &r, p->member);
	join(&p->past.full, &r.seen_full);
}

void fabric_load(struct fabric *f, int process, int x)
{
	struct process *p = &f->process[process];
	struct request r = {.past = p->past};

	see(&p->memory[x], &r);
	if (p->member < 0)
		return;
	join(&p->past.reads, &r.seen);
	join(&p->past.full, &r.seen_full);
	/* Between the snapshot and the look at the cells. */
	for (uint32_t n = fabric_random(f, 3); n; n--)
		fabric_step(f);
	merge_own_region(f, p, &(struct sight){r.producer, r.producer_event});
	expect(f, p, r.producer, r.producer_event);
}

/* -------------------------------------------------------------------- the network */

static void read_clocks(struct fabric *f, struct queue *q, struct request *r)
{
	r->words = zeroed(sr_clock_read_bytes(r->cells));
	memcpy(r->words, &f->process[q->to].region->own, sr_clock_read_bytes(r->cells));
}

/* A device that does not keep READs in order: of a pair, it has served the second one only. */
static bool reorders(struct fabric *f, struct queue *q)
{
	struct request *a = q->sent.first, *b = a->next;

	if (f->shape.spoil != SPOIL_NO_FENCE || !b || a->kind != READ || b->kind != READ_CLOCKS ||
	    b->words || fabric_random(f, 2))
		return false;
	read_clocks(f, q, b);
	return true;
}

/*
 * A device that copies bytes: now and then half of a clock is there, and others come in between
 * before the rest is.  The halves are those of 64 bits, whatever they say.
 */
static bool tears(struct fabric *f, struct queue *q)
{
	struct request *r = q->sent.first;
	_Atomic uint64_t *word;
	uint64_t old;

	if (r->kind != CLOCK || q->is_writing || fabric_random(f, 3))
		return false;
	word = &f->process[q->to].region->cell[q->cell][r->turn].word;
	old = atomic_load(word);
	atomic_store(word, (old & ~0xffull) | (r->clock & 0xff));
	q->is_writing = true;
	return true;
}

static void execute(struct fabric *f, struct queue *q, struct request *r)
{
	struct process *target = &f->process[q->to];
	struct word *w = &target->memory[r->x];
	int member = f->process[q->from].member;

	switch (r->kind) {
	case CLOCK:
		atomic_store(&target->region->cell[q->cell][r->turn].word, r->clock);
		q->is_writing = false;
		break;
	case WRITE:
		change(w, r, member);
		break;
	case READ:
		see(w, r);
		break;
	case ATOMIC:
		see(w, r);
		change(w, r, member);
		break;
	case READ_CLOCKS:
		if (!r->words)
			read_clocks(f, q, r);
		break;
	case SEND:
		break;
	}
}

static void receive(struct fabric *f, struct queue *q, const struct request *r)
{
	struct request *copy = request(f, q, SEND, 0);

	copy->seen = r->past.reads;
	copy->seen_full = r->past.full;
	copy->producer = f->process[q->from].member;
	copy->producer_event = copy->producer < 0 ? 0 : r->past.reads.of[copy->producer];
	push(&f->process[q->to].received, copy);
}

static void serve(struct fabric *f, struct queue *q)
{
	struct request *r;

	if (reorders(f, q) || tears(f, q))
		return;
	r = pop(&q->sent);
	execute(f, q, r);
	if (r->kind == SEND)
		receive(f, q, r);
	if (r->kind == CLOCK || f->process[q->from].member < 0)
		drop(r);
	else
		push(&q->done, r);
}

bool fabric_step(struct fabric *f)
{
	uint32_t start = fabric_random(f, (uint32_t)f->queues);

	for (uint32_t i = 0; i < (uint32_t)f->queues; i++) {
		struct queue *q = &f->queue[(start + i) % (uint32_t)f->queues];

		if (q->sent.first && !fabric_random(f, q->laziness)) {
			serve(f, q);
			return true;
		}
	}
	for (int i = 0; i < f->queues; i++)
		if (f->queue[i].sent.first)
			return true; /* all too lazy this time */
	return false;
}

/* -------------------------------------------------------------------- completions */

static bool poll_received(struct fabric *f, struct process *p)
{
	struct request *r = pop(&p->received);

	if (!r)
		return false;
	if (p->member >= 0) {
		join(&p->past.reads, &r->seen);
		join(&p->past.full, &r->seen_full);
		merge_own_region(f, p, &(struct sight){r->producer, r->producer_event});
		expect(f, p, r->producer, r->producer_event);
	}
	drop(r);
	return true;
}

/* A READ or an atomic is complete once the READ behind it is. */
static bool poll_queue(struct fabric *f, struct queue *q)
{
	struct process *p = &f->process[q->from];
	struct request *r = q->done.first, *clocks;
	bool fetched;

	if (!r)
		return false;
	fetched = r->kind == READ || r->kind == ATOMIC;
	if (fetched && !r->next)
		return false;
	pop(&q->done);
	/* In truth, the member's event that follows; it has no number of its own unless something
	 * is found. */
	if (r->kind != SEND)
		join(&p->past.full, &r->seen_full);
	if (fetched) {
		clocks = pop(&q->done);
		join(&p->past.reads, &r->seen);
		merge(f, p, q->view, clocks->words, clocks->cells,
		      &(struct sight){r->producer, r->producer_event});
		expect(f, p, r->producer, r->producer_event);
		drop(clocks);
	}
	drop(r);
	return true;
}

bool fabric_poll(struct fabric *f, int process)
{
	uint32_t start = fabric_random(f, (uint32_t)f->queues);

	if (fabric_random(f, 2) && poll_received(f, &f->process[process]))
		return true;
	for (uint32_t i = 0; i < (uint32_t)f->queues; i++) {
		struct queue *q = &f->queue[(start + i) % (uint32_t)f->queues];

		if (q->from == process && q->to != process && poll_queue(f, q))
			return true;
	}
	return poll_received(f, &f->process[process]);
}

/* ------------------------------------------------------------------------- the end */

static void settle(struct fabric *f, const struct check *c)
{
	bool missed = false;

	for (int i = 0; i < f->shape.members; i++)
		missed |= sr_closure_at(f->closure, c->member, c->event, i) < c->reads.of[i];
	f->counts.missed += missed;
	if (c->producer < 0)
		return;
	f->counts.produced++;
	f->counts.producer_found +=
	    sr_closure_at(f->closure, c->member, c->event, c->producer) >= c->producer_event;
}

void fabric_finish(struct fabric *f, struct fabric_counts *counts)
{
	bool busy = true;

	while (busy) {
		busy = fabric_step(f);
		for (int i = 0; i < f->processes; i++)
			busy |= fabric_poll(f, i);
	}
	f->counts.cyclic = sr_closure_compute(f->closure) != 0;
	for (size_t i = 0; i < f->checks_count && !f->counts.cyclic; i++)
		settle(f, &f->checks[i]);
	*counts = f->counts;
}
