/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_picks.c: which picks are traced (nicclock/picks.h), over a simulated fabric that knows the truth.
 *
 *   test_picks RUNS
 *
 * Members post messages and WRITEs to each other, and take completions of both ends from their completion queues, all at random; messages
 * and their clocks take their time.  Each run is recorded with the code under test.  Then
 *
 *   - full vectors of all that came before what (program order, orders found, messages taken) say which picks race: each of
 *     these must be traced, and not many others;
 *   - readers go through the traces, the members in any order that keeps the orders found: each pick that is not traced must be
 *     the recorded one, and the only one possible.
 *
 * Recorders and readers that are broken on purpose show that the test would notice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nicclock/picks.h"

#define MEMBERS	 6
#define LANES	 2
#define CQS	 2
#define CHANNELS (MEMBERS * MEMBERS * LANES)
#define QUEUES	 (2 * CHANNELS) /* a channel's receive queue, and its send queue */
#define STEPS	 160		/* of a member */
#define FLIGHT	 (2 * STEPS)

enum spoil {
	SPOIL_NOTHING,
	SPOIL_TAG,     /* what a later clock says counts, too */
	SPOIL_EVENT,   /* what was known one completion before suffices */
	SPOIL_SCRIPT,  /* the reader takes no notice of entries */
	SPOIL_UNKNOWN, /* orders that count as known are not in the trace */
	SPOILS,
};

struct vector {
	uint32_t of[MEMBERS]; /* steps */
};

enum what { POST, POLL };

/* What a trace has of a step. */
struct step {
	enum what what;
	int channel; /* POST */
	bool is_message, is_signaled;
	uint64_t event; /* POST, or at which orders were found */
	int cq;		/* POLL; the true queue, -1: it found nothing */
	int queue;
	bool is_traced;
	struct sr_order orders[SR_CLOCK_ORDERS];
	uint32_t n;
};

/* On its way. */
struct request {
	bool has_clock, has_landed, is_message, is_signaled;
	uint64_t word, known, event;
	uint32_t turn, step; /* of its sender */
	struct vector past;
};

struct channel {
	int from, to, receives_in, sends_in; /* completion queues */
	struct request sent[FLIGHT];
	int posted, landed, acknowledged; /* of sent */
	uint32_t clocks, messages, received;
};

struct completion {
	int queue, request;
};

struct cq {
	struct completion list[2 * FLIGHT * MEMBERS * LANES];
	int n, taken;
	struct sr_picks picks, picks_before;
	uint32_t last_step; /* of its last completion, and its queue */
	int last_queue;
};

struct member {
	struct sr_clock clock;
	struct sr_clock_region *region;
	struct sr_clock_view *view;
	struct vector past;
	struct vector at_event[2 * STEPS + 1]; /* what came before an event */
	uint32_t step;
	uint32_t credit; /* messages that it may post now, where members answer */
	int asked_by;
	struct cq cq[CQS];
	struct step trace[STEPS];
	int at; /* reading */
	uint64_t event;
};

static struct {
	int members, lanes, cqs;
	bool answers; /* who takes a message posts one, often to its sender; else anybody posts at any time */
	enum spoil spoil;
	uint64_t random;
	struct member member[MEMBERS];
	struct channel channel[CHANNELS];
	struct sr_pick_counts counts[QUEUES];
	struct sr_pick_script script[QUEUES];
	struct sr_pick_counts entries[QUEUES][2 * STEPS];
	/* reading */
	int posted[CHANNELS], signaled[CHANNELS], taken[QUEUES];
} sim;

static struct {
	uint64_t completions, switches, racing, traced, untraced_races, wrong, ambiguous, stuck, bad;
} sum;

static uint32_t below(uint32_t n)
{
	sim.random ^= sim.random >> 12;
	sim.random ^= sim.random << 25;
	sim.random ^= sim.random >> 27;
	return (uint32_t)((sim.random * 0x2545f4914f6cdd1dull) >> 32) % n;
}

/* ------------------------------------------------------------------- set up */

static int channel_of(int from, int to, int lane)
{
	return (from * sim.members + to) * sim.lanes + lane;
}

static int channels(void)
{
	return sim.members * sim.members * sim.lanes;
}

static void set_up_member(int i)
{
	struct member *m = &sim.member[i];
	uint32_t cells = (uint32_t)channels();
	struct sr_clock_region *region = m->region ? m->region : malloc(sr_clock_region_bytes(CHANNELS));
	struct sr_clock_view *view = m->view ? m->view : malloc(sr_clock_view_bytes(CHANNELS));

	*m = (struct member){.region = region, .view = view};
	memset(region, 0, sr_clock_region_bytes(cells));
	memset(view, 0, sr_clock_view_bytes(cells));
	view->cells = cells;
	sr_clock_region_use_cell(region, cells - 1);
	sr_clock_init(&m->clock, region, i, NULL);
}

static void set_up(uint64_t seed, enum spoil spoil)
{
	sim.random = seed * 0x9e3779b97f4a7c15ull + 1;
	sim.spoil = spoil;
	sim.members = 2 + (int)below(MEMBERS - 1);
	sim.lanes = 1 + (int)below(LANES);
	sim.cqs = 1 + (int)below(CQS);
	sim.answers = below(3);
	memset(sim.counts, 0, sizeof(sim.counts));
	memset(sim.script, 0, sizeof(sim.script));
	memset(sim.posted, 0, sizeof(sim.posted));
	memset(sim.signaled, 0, sizeof(sim.signaled));
	memset(sim.taken, 0, sizeof(sim.taken));
	for (int i = 0; i < sim.members; i++)
		set_up_member(i);
	for (uint32_t i = 0, messages = 1 + below((uint32_t)sim.members); i < messages; i++)
		sim.member[below((uint32_t)sim.members)].credit++;
	for (int i = 0; i < channels(); i++) {
		struct channel *c = &sim.channel[i];
		const uint32_t cqs = (uint32_t)sim.cqs;

		c->from = i / sim.lanes / sim.members;
		c->to = i / sim.lanes % sim.members;
		c->posted = c->landed = c->acknowledged = 0;
		c->clocks = c->messages = c->received = 0;
		c->receives_in = (int)below(cqs);
		c->sends_in = (int)below(cqs);
	}
	for (int i = 0; i < QUEUES; i++)
		sim.script[i].entries = sim.entries[i];
}

/* ---------------------------------------------------------------- recording */

static void join(struct vector *v, const struct vector *other)
{
	for (int i = 0; i < sim.members; i++)
		v->of[i] = other->of[i] > v->of[i] ? other->of[i] : v->of[i];
}

static struct step *next_step(struct member *m, enum what what)
{
	struct step *s = &m->trace[m->step++];

	s->what = what;
	s->n = 0;
	s->event = 0;
	m->past.of[m - sim.member] = m->step;
	return s;
}

/* A message or a WRITE; those of a chain have one clock. */
static void post(struct member *m, int at, bool has_clock, bool is_message)
{
	struct channel *c = &sim.channel[at];
	struct request *r = &c->sent[c->posted++];
	struct step *s = next_step(m, POST);
	const int self = (int)(m - sim.member);

	s->channel = at;
	*r = (struct request){.is_message = is_message, .step = m->step, .past = m->past};
	r->is_signaled = s->is_signaled = below(3);
	s->is_message = is_message;
	if (has_clock) {
		r->has_clock = true;
		s->event = r->event = sr_clock_tick(&m->clock);
		m->at_event[r->event] = m->past;
		r->known = sr_known_word(atomic_load(&m->clock.known[c->to]), c->messages);
		r->word = sr_clock_cell_word(self, r->event, r->known);
		r->turn = c->clocks++ % SR_CLOCK_CELL_WORDS;
	} else {
		r->event = sr_clock_now(&m->clock);
	}
	c->messages += is_message;
}

static void post_chain(struct member *m)
{
	const int self = (int)(m - sim.member);
	int to = (int)below((uint32_t)sim.members), n = 1 + (int)(below(4) ? 0 : below(3)), at;
	bool is_message = !sim.answers || m->credit;

	if (sim.answers && m->credit && below(2))
		to = m->asked_by;
	if (sim.answers && m->credit)
		m->credit--;
	to = to == self ? (to + 1) % sim.members : to;
	at = channel_of(self, to, (int)below((uint32_t)sim.lanes));
	for (int i = 0; i < n && m->step < STEPS; i++)
		post(m, at, !i, is_message && (sim.answers ? i == n - 1 : below(4)));
}

static void add_entry(int queue, const struct sr_pick_counts *entry)
{
	struct sr_pick_script *s = &sim.script[queue];

	s->entries[s->n++] = *entry;
}

static void find_orders(struct member *m, struct step *s)
{
	struct sr_clock_moment moment;

	if (!sr_clock_is_news(&m->clock, m->view, &m->region->own, (uint32_t)channels()))
		return;
	s->n = sr_clock_merge(&m->clock, m->view, &m->region->own, (uint32_t)channels(), s->orders, SR_CLOCK_ORDERS, &moment);
	s->event = s->n ? moment.event : 0;
	for (uint32_t i = 0; i < s->n; i++)
		join(&m->past, &sim.member[s->orders[i].member].at_event[s->orders[i].event]);
	if (s->n)
		m->at_event[moment.event] = m->past;
	if (sim.spoil == SPOIL_UNKNOWN && !below(3))
		s->n = 0;
}

static uint64_t known_of(struct channel *c, int at, bool receives, const struct request *r)
{
	const struct sr_clock_pair *cell = sim.member[c->to].region->cell[at];

	if (!receives)
		return r->event;
	return sr_known_before(cell, c->from, sim.spoil == SPOIL_TAG ? c->received++ + 2 : c->received++);
}

static void take(struct member *m, struct step *s, struct cq *cq)
{
	const struct completion *k = &cq->list[cq->taken++];
	const bool receives = k->queue < CHANNELS;
	const int at = k->queue % CHANNELS;
	struct channel *c = &sim.channel[at];
	const struct request *r = &c->sent[k->request];
	const bool is_switch = cq->last_step && cq->last_queue != k->queue;
	const struct sr_picks *picks = sim.spoil == SPOIL_EVENT ? &cq->picks_before : &cq->picks;
	struct sr_pick_counts entry;
	bool races;

	s->queue = k->queue;
	s->is_traced = (sim.spoil == SPOIL_EVENT && !cq->picks.any ? false : true) &&
		       sr_pick_races(&(struct sr_picks){cq->picks.any, cq->picks.queue, picks->event}, (uint64_t)k->queue,
				     known_of(c, at, receives, r));
	if (sr_pick_count(&sim.counts[k->queue], s->is_traced, &entry))
		add_entry(k->queue, &entry);
	cq->picks_before = cq->picks;
	sr_pick_was(&cq->picks, (uint64_t)k->queue, sr_clock_now(&m->clock));
	if (receives) {
		join(&m->past, &r->past);
		m->credit++;
		m->asked_by = c->from;
	}
	races = is_switch && (receives ? r->past.of[c->to] : r->step) < cq->last_step;
	sum.completions++;
	sum.switches += is_switch;
	sum.racing += races;
	sum.traced += s->is_traced;
	sum.untraced_races += races && !s->is_traced;
	cq->last_step = m->step;
	cq->last_queue = k->queue;
}

static void poll(struct member *m)
{
	struct step *s = next_step(m, POLL);
	struct cq *cq;

	s->cq = (int)below((uint32_t)sim.cqs);
	s->queue = -1;
	cq = &m->cq[s->cq];
	find_orders(m, s);
	if (cq->taken < cq->n)
		take(m, s, cq);
}

static void complete(struct member *m, int cq, int queue, int request)
{
	struct cq *q = &m->cq[cq];

	q->list[q->n++] = (struct completion){queue, request};
}

static void deliver(int at)
{
	struct channel *c = &sim.channel[at];
	struct request *r = &c->sent[c->landed];

	if (c->landed == c->posted)
		return;
	if (r->has_clock && !r->has_landed) {
		struct sr_clock_pair *w = &sim.member[c->to].region->cell[at][r->turn];

		atomic_store(&w->word, r->word);
		atomic_store(&w->known, r->known);
		r->has_landed = true;
		return;
	}
	if (r->is_message)
		complete(&sim.member[c->to], c->receives_in, at, c->landed);
	c->landed++;
}

static void acknowledge(int at)
{
	struct channel *c = &sim.channel[at];

	if (c->acknowledged == c->landed)
		return;
	if (c->sent[c->acknowledged].is_signaled)
		complete(&sim.member[c->from], c->sends_in, at + CHANNELS, c->acknowledged);
	c->acknowledged++;
}

/* A member waits now and then until something has come, so that answers follow questions. */
static void act(struct member *m)
{
	bool waits = below(2);

	if (m->step >= STEPS)
		return;
	for (int i = 0; waits && i < sim.cqs; i++)
		waits = m->cq[i].taken == m->cq[i].n;
	if (!below(sim.answers && !m->credit ? 60 : 3))
		post_chain(m);
	else if (!waits)
		poll(m);
}

static void end_interval(void)
{
	struct sr_pick_counts entry;

	for (int i = 0; i < QUEUES; i++)
		if (sr_pick_entry(&sim.counts[i], &entry))
			add_entry(i, &entry);
}

static void record(void)
{
	const uint32_t speed = 1 + below(12), n = 100 + below(STEPS * 6);

	for (uint32_t i = 0; i < n; i++) {
		act(&sim.member[below((uint32_t)sim.members)]);
		for (uint32_t k = below(2 * speed); k; k--)
			deliver((int)below((uint32_t)channels()));
		for (uint32_t k = below(2 * speed); k; k--)
			acknowledge((int)below((uint32_t)channels()));
		if (!below(100))
			end_interval();
	}
	end_interval();
}

/* ------------------------------------------------------------------ reading */

static bool is_there(int queue)
{
	const int at = queue % CHANNELS;

	return sim.taken[queue] < (queue < CHANNELS ? sim.posted[at] : sim.signaled[at]);
}

static bool is_in(int queue, int member, int cq)
{
	const struct channel *c = &sim.channel[queue % CHANNELS];

	return queue < CHANNELS ? c->to == member && c->receives_in == cq : c->from == member && c->sends_in == cq;
}

static bool may_come(int queue)
{
	return sim.spoil == SPOIL_SCRIPT || sr_pick_may_come(&sim.script[queue]);
}

/* -1: none yet. */
static int find_pick(int member, int cq)
{
	int found = -1;

	for (int i = 0; i < channels(); i++)
		for (int queue = i; queue < QUEUES; queue += CHANNELS) {
			if (!is_in(queue, member, cq) || !is_there(queue) || !may_come(queue))
				continue;
			sum.ambiguous += found >= 0;
			found = queue;
		}
	return found;
}

/* False: it has to wait for others. */
static bool read_poll(struct member *m, const struct step *s)
{
	int queue = s->queue;

	for (uint32_t i = 0; i < s->n; i++)
		if (sim.member[s->orders[i].member].event < s->orders[i].event)
			return false;
	if (queue >= 0 && !s->is_traced)
		queue = find_pick((int)(m - sim.member), s->cq);
	if (s->queue >= 0 && (queue < 0 || !is_there(queue)))
		return false;
	sum.wrong += queue != s->queue;
	if (queue >= 0) {
		sum.bad += !sr_pick_take(&sim.script[queue], s->is_traced);
		sim.taken[queue]++;
	}
	return true;
}

static bool read_step(struct member *m)
{
	const struct step *s = &m->trace[m->at];

	if (m->at == (int)m->step || (s->what == POLL && !read_poll(m, s)))
		return false;
	if (s->what == POST) {
		sim.posted[s->channel] += s->is_message;
		sim.signaled[s->channel] += s->is_signaled;
	}
	m->event = s->event ? s->event : m->event;
	m->at++;
	return true;
}

static bool is_over(void)
{
	for (int i = 0; i < sim.members; i++)
		if (sim.member[i].at < (int)sim.member[i].step)
			return false;
	return true;
}

/* Some members far in front of the others, as far as that goes. */
static void read_all(void)
{
	uint32_t vain = 0;

	while (!is_over() && vain < 200) {
		int i = (int)below((uint32_t)sim.members);
		uint32_t most = 1 + (below(2) ? below(STEPS) : 0), n = 0;

		while (n < most && read_step(&sim.member[i]))
			n++;
		vain = n ? 0 : vain + 1;
	}
	sum.stuck += !is_over();
}

/* ---------------------------------------------------------------------- main */

static void run(uint64_t seed, enum spoil spoil)
{
	set_up(seed, spoil);
	record();
	read_all();
}

static void run_all(uint64_t runs, enum spoil spoil)
{
	memset(&sum, 0, sizeof(sum));
	for (uint64_t seed = 1; seed <= runs; seed++)
		run(seed, spoil);
}

static int number;

static void result(bool good, const char *what)
{
	printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, what);
}

static bool is_noticed(void)
{
	return sum.untraced_races || sum.wrong || sum.ambiguous || sum.stuck || sum.bad;
}

int main(int argc, char **argv)
{
	static const char *const spoilt[SPOILS] = {
	    [SPOIL_TAG] = "what a later clock says is not taken for what was known",
	    [SPOIL_EVENT] = "knowledge of an earlier completion does not suffice",
	    [SPOIL_SCRIPT] = "without entries a reader cannot do",
	    [SPOIL_UNKNOWN] = "what the trace does not have cannot count as known",
	};
	uint64_t runs = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000;
	typedef unsigned long long ull;

	run_all(runs, SPOIL_NOTHING);
	printf("# %llu completions, %llu of another queue; %llu race by full vectors, %llu are traced (%.2f)\n", (ull)sum.completions,
	       (ull)sum.switches, (ull)sum.racing, (ull)sum.traced, (double)sum.traced / (double)sum.racing);
	result(sum.racing && !sum.untraced_races, "no race is untraced");
	result(sum.traced * 2 <= sum.racing * 3, "not more than 1.5 times what full vectors trace");
	result(!sum.wrong && !sum.ambiguous && !sum.bad, "a reader finds each pick that is not traced, and no other one is possible");
	result(!sum.stuck, "a reader comes to the end");
	for (enum spoil spoil = SPOIL_TAG; spoil < SPOILS; spoil++) {
		run_all(runs < 500 ? runs : 500, spoil);
		result(is_noticed(), spoilt[spoil]);
	}
	printf("1..%d\n", number);
	return 0;
}
