/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_process.c: checks plans of random executions against a brute-force oracle.
 *
 * An invented run of some ranks makes steps: it posts, polls and samples clocks. A matrix
 * says, call by call (entry and return), what happened before what. The plan's waits must
 * say the same: not less, not more, and no wait that the others imply.
 *
 *     test_process [RUNS [FIRST_SEED]]
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nicclock/order_code.h"
#include "replay/analysis/plan_make.h"
#include "trace_calls.h"

#define RANKS   4
#define STEPS   160
#define CALLS   (STEPS + 16)
#define NODES   (RANKS * CALLS * 2)
#define THREADS 2

static int test_number, failures;

static void result(bool ok, const char *name)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", ++test_number, name);
	failures += !ok;
}

/* ---------------------------------------------------------------- an execution */

struct message {
	int call; /* of the sender's */
	uint64_t event;
};

struct rank {
	int calls;          /* in the order in which they took effect */
	uint64_t sn[CALLS]; /* of a call */
	uint32_t thread[CALLS];
	uint64_t event; /* of its clock */
	int call_of_event[4 * CALLS];
	struct sr_order_stream streams[THREADS];
	struct message channel[RANKS][STEPS]; /* to each: sent, not received */
	int sent[RANKS], received[RANKS];
	uint64_t requests;
};

struct run {
	struct trace_maker *m;
	uint64_t seed;
	int ranks, threads;
	bool clocks, same_numbers, places;
	struct rank rank[RANKS];
	uint64_t numbered;
	/* before[a][b]: node a happened before node b. */
	uint8_t before[NODES][NODES];
};

static uint32_t chance(struct run *r, uint32_t n)
{
	r->seed = r->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(r->seed >> 33) % n;
}

static int entry_of(int rank, int call)
{
	return (rank * CALLS + call) * 2;
}

static int return_of(int rank, int call)
{
	return entry_of(rank, call) + 1;
}

static uint64_t qp_address(int rank, int peer)
{
	return 0x100000000ull + (uint64_t)(rank * RANKS + peer) * 0x1000;
}

/* On several nodes all count alike: sequence numbers must tell them apart. */
static uint32_t qp_number(const struct run *r, int rank, int peer)
{
	return r->same_numbers ? (uint32_t)(17 + (peer - rank + r->ranks) % r->ranks)
			       : (uint32_t)(100 + rank * RANKS + peer);
}

static uint32_t psn(int rank, int peer)
{
	return (uint32_t)(5000 + rank * RANKS + peer);
}

static void begin(struct run *r, const char *dir)
{
	char extra[96];

	r->m = trace_maker_new(dir);
	for (int i = 0; i < r->ranks; i++) {
		snprintf(extra, sizeof(extra), "{\"member\": %d, \"places\": %s}", r->clocks ? i : -1,
			 r->places ? "true" : "false");
		trace_maker_rank(r->m, i, extra);
		for (int k = 0; k < r->ranks; k++)
			if (k != i)
				trace_qp(r->m, i, 0, qp_address(i, k), qp_number(r, i, k),
					 qp_number(r, k, i), psn(i, k), psn(k, i));
	}
}

/* An event of the rank's clock, in the call that comes next. */
static uint64_t tick(struct run *r, int i, uint32_t thread, const struct sr_order *orders,
		     uint32_t n)
{
	struct rank *k = &r->rank[i];
	uint8_t bytes[SR_ORDER_MAX_BYTES(SR_CLOCK_ORDERS)];
	uint64_t event = ++k->event;

	k->call_of_event[event] = k->calls;
	if (n && r->places && r->threads > 1)
		trace_maker_record(r->m, i, thread, SR_REC_BEHIND, &r->numbered, sizeof(r->numbered));
	trace_maker_record(r->m, i, thread, SR_REC_CLOCK, bytes,
			   sr_order_encode(&k->streams[thread], event, orders, n, bytes));
	return event;
}

static void edge(struct run *r, int from, int to)
{
	r->before[from][to] = 1;
}

/* The next call of the rank has happened. */
static void called(struct run *r, int i, uint32_t thread, uint64_t sn)
{
	struct rank *k = &r->rank[i];

	edge(r, entry_of(i, k->calls), return_of(i, k->calls));
	if (k->calls)
		edge(r, return_of(i, k->calls - 1), entry_of(i, k->calls));
	k->sn[k->calls] = sn;
	k->thread[k->calls] = thread;
	k->calls++;
}

static uint64_t number(struct run *r)
{
	return r->threads > 1 ? ++r->numbered : 0;
}

static void post(struct run *r, int i, uint32_t thread)
{
	struct rank *k = &r->rank[i];
	struct trace_request requests[3];
	uint32_t n = 1 + chance(r, 3);
	int to = (i + 1 + (int)chance(r, (uint32_t)r->ranks - 1)) % r->ranks;
	uint64_t event = r->clocks ? tick(r, i, thread, NULL, 0) : 0;

	for (uint32_t q = 0; q < n; q++) {
		bool sends = chance(r, 2);

		requests[q] =
		    (struct trace_request){.opcode = sends ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
					   .wr_id = k->requests++,
					   .length = 8,
					   .address = 0x7000,
					   .remote = 0x9000};
		if (sends)
			k->channel[to][k->sent[to]++] = (struct message){k->calls, event};
	}
	called(r, i, thread,
	       trace_post_send(r->m, i, thread, qp_address(i, to), requests, n, number(r)));
}

static void poll_some(struct run *r, int i, uint32_t thread)
{
	static const uint64_t data = 42;
	struct trace_completion found[4];
	struct sr_order orders[4];
	uint32_t n = 0, orders_n = 0, want = chance(r, 5);

	for (uint32_t t = 0; t < want && n < 4; t++) {
		int from = (int)chance(r, (uint32_t)r->ranks);
		struct rank *f = &r->rank[from];
		const struct message *m = &f->channel[i][f->received[i]];

		if (from == i || f->received[i] == f->sent[i])
			continue;
		f->received[i]++;
		edge(r, entry_of(from, m->call), return_of(i, r->rank[i].calls));
		found[n++] = (struct trace_completion){.wr_id = 1,
						       .opcode = IBV_WC_RECV,
						       .qp_num = qp_number(r, i, from),
						       .length = 8,
						       .address = 0x8000 + 8 * t,
						       .data = &data};
		if (r->clocks)
			orders[orders_n++] = (struct sr_order){
			    .event = m->event, .member = (uint8_t)from, .via = SR_ORDER_CELL};
	}
	if (orders_n)
		tick(r, i, thread, orders, orders_n);
	called(r, i, thread, trace_poll_cq(r->m, i, thread, found, n, number(r)));
}

/* Sees what others' CPUs did: all that they had found out by then happened before. */
static void look(struct run *r, int i, uint32_t thread)
{
	int other = (i + 1 + (int)chance(r, (uint32_t)r->ranks - 1)) % r->ranks;
	struct rank *k = &r->rank[other];
	struct sr_order order = {.event = k->event, .member = (uint8_t)other, .via = SR_ORDER_OWN};
	int call;

	if (!r->clocks || !k->event)
		return;
	call = k->call_of_event[k->event];
	edge(r, entry_of(other, call), return_of(i, r->rank[i].calls));
	/* The event was the last thing in that call: what came into it is before as well. */
	for (int a = 0; a < NODES; a++)
		if (r->before[a][return_of(other, call)])
			edge(r, a, return_of(i, r->rank[i].calls));
	tick(r, i, thread, &order, 1);
	called(r, i, thread, trace_poll_cq(r->m, i, thread, NULL, 0, number(r)));
}

static void go(struct run *r, const char *dir)
{
	begin(r, dir);
	for (int s = 0; s < STEPS; s++) {
		int i = (int)chance(r, (uint32_t)r->ranks);
		uint32_t thread = chance(r, (uint32_t)r->threads);

		switch (chance(r, 5)) {
		case 0:
		case 1:
			post(r, i, thread);
			break;
		case 2:
		case 3:
			poll_some(r, i, thread);
			break;
		default:
			look(r, i, thread);
			break;
		}
	}
	trace_maker_finish(r->m);
}

/* ------------------------------------------------------------------- the oracle */

static void close_over(uint8_t (*before)[NODES])
{
	for (int k = 0; k < NODES; k++)
		for (int a = 0; a < NODES; a++)
			if (before[a][k])
				for (int b = 0; b < NODES; b++)
					before[a][b] |= before[k][b];
}

static int call_at(const struct rank *k, uint32_t thread, uint64_t sn)
{
	for (int c = 0; c < k->calls; c++)
		if (k->thread[c] == thread && k->sn[c] == sn)
			return c;
	return -1;
}

struct wait_edge {
	int from, to;
};

static uint8_t implied[NODES][NODES];

static void program_order(const struct run *r, uint8_t (*before)[NODES])
{
	memset(before, 0, NODES * NODES);
	for (int i = 0; i < r->ranks; i++)
		for (int c = 0; c < r->rank[i].calls; c++) {
			before[entry_of(i, c)][return_of(i, c)] = 1;
			if (c)
				before[return_of(i, c - 1)][entry_of(i, c)] = 1;
		}
}

static size_t read_waits(const struct run *r, struct sr_plan *p, struct wait_edge *edges,
			 size_t room)
{
	struct sr_error err;
	const void *records;
	size_t n, all = 0;

	for (int i = 0; i < r->ranks; i++)
		for (uint32_t t = 0; t < THREADS; t++) {
			const struct sr_plan_wait *w;

			if (sr_plan_records(p, SR_PLAN_WAIT, i, t, &records, &n, &err))
				return SIZE_MAX;
			w = records;
			for (size_t k = 0; k < n && all < room; k++) {
				int call = call_at(&r->rank[i], t, w[k].sn);
				int of =
				    call_at(&r->rank[w[k].for_rank], w[k].for_thread, w[k].for_sn);

				if (call < 0 || of < 0)
					return SIZE_MAX;
				edges[all++] = (struct wait_edge){entry_of(w[k].for_rank, of),
								  return_of(i, call)};
			}
		}
	return all;
}

enum verdict { EXACT, UNREADABLE, MISSING, FALSE_ORDER, REDUNDANT };

/* Is an edge implied by the others?  Search, since there are many edges to try. */
static bool reaches(const struct run *r, const struct wait_edge *edges, size_t n, size_t without,
		    int from, int to)
{
	static uint8_t seen[NODES];
	static int stack[NODES];
	int depth = 0;

	memset(seen, 0, sizeof(seen));
	stack[depth++] = from;
	seen[from] = 1;
	while (depth) {
		int a = stack[--depth], next = a + 1;

		if (a == to)
			return true;
		/* An entry leads to its return, a return to the next call's entry. */
		if ((a & 1 ? (next / 2) % CALLS : 1) && !seen[next] &&
		    (next / 2) % CALLS < r->rank[next / 2 / CALLS].calls) {
			seen[next] = 1;
			stack[depth++] = next;
		}
		for (size_t i = 0; i < n; i++)
			if (i != without && edges[i].from == a && !seen[edges[i].to]) {
				seen[edges[i].to] = 1;
				stack[depth++] = edges[i].to;
			}
	}
	return false;
}

static enum verdict judge(struct run *r, struct sr_plan *p)
{
	static struct wait_edge edges[RANKS * CALLS * RANKS];
	size_t n = read_waits(r, p, edges, RANKS * CALLS * RANKS);

	if (n == SIZE_MAX)
		return UNREADABLE;
	close_over(r->before);
	program_order(r, implied);
	for (size_t i = 0; i < n; i++)
		implied[edges[i].from][edges[i].to] = 1;
	close_over(implied);
	for (int a = 0; a < NODES; a++)
		for (int b = 0; b < NODES; b++) {
			if (r->before[a][b] && !implied[a][b])
				return MISSING;
			if (implied[a][b] && !r->before[a][b])
				return FALSE_ORDER;
		}
	for (size_t i = 0; i < n; i++)
		if (reaches(r, edges, n, i, edges[i].from, edges[i].to))
			return REDUNDANT;
	return EXACT;
}

/* ----------------------------------------------------------------------- tests */

static struct run run;

static enum verdict one(uint64_t seed, int threads, bool clocks, bool same_numbers)
{
	char dir[] = "/tmp/sreplay-process.XXXXXX", command[64];
	struct sr_process_counts counts;
	enum verdict v = UNREADABLE;
	struct sr_error err = {""};
	struct sr_trace *t = NULL;
	struct sr_plan *p = NULL;

	if (!mkdtemp(dir))
		return UNREADABLE;
	memset(&run, 0, sizeof(run));
	run.seed = seed * 2654435761u + 1;
	run.ranks = 2 + (int)(seed % (RANKS - 1));
	run.threads = threads;
	run.clocks = clocks;
	run.same_numbers = same_numbers;
	run.places = seed % 4; /* traces of older builds have none */
	go(&run, dir);
	if (!sr_trace_open(&t, dir, &err) && !sr_plan_make(t, NULL, 0, NULL, &counts, &err) &&
	    !sr_plan_open(&p, t, &err) && !counts.unmatched && !counts.weakened &&
	    !counts.ambiguous_links)
		v = judge(&run, p);
	else
		printf("# seed %llu: %s\n", (unsigned long long)seed, err.text);
	sr_plan_close(p);
	sr_trace_close(t);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command) ? UNREADABLE : v;
}

static bool all_exact(uint64_t first, int runs, int threads, bool clocks, bool same_numbers)
{
	static const char *const words[] = {"exact", "unreadable", "an order is missing",
					    "an order that was not", "a wait that others imply"};
	bool ok = true;

	for (int i = 0; i < runs; i++) {
		enum verdict v = one(first + (uint64_t)i, threads, clocks, same_numbers);

		if (v != EXACT)
			printf("# seed %llu: %s\n", (unsigned long long)first + (unsigned)i,
			       words[v]);
		ok &= v == EXACT;
	}
	return ok;
}

/* ------------------------------------------------------- what is not at random */

static int make_plan(const char *dir, struct sr_plan **p, struct sr_trace **t, struct sr_error *err)
{
	struct sr_process_counts counts;
	int ret = sr_trace_open(t, dir, err);

	if (!ret)
		ret = sr_plan_make(*t, NULL, 0, NULL, &counts, err);
	return ret ? ret : sr_plan_open(p, *t, err);
}

static bool remove_all(const char *dir)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return !system(command);
}

/* A trace of two ranks with clocks, in a directory that is made from this template. */
static bool begin_pair(char *dir)
{
	if (!mkdtemp(dir))
		return false;
	memset(&run, 0, sizeof(run));
	run.ranks = 2;
	run.clocks = run.places = true;
	begin(&run, dir);
	return true;
}

/* Makes its plan, and forgets it: 0, or why not. */
static int plan_of_pair(const char *dir, struct sr_error *err)
{
	struct sr_trace *t = NULL;
	struct sr_plan *p = NULL;
	int ret;

	trace_maker_finish(run.m);
	ret = make_plan(dir, &p, &t, err);
	sr_plan_close(p);
	sr_trace_close(t);
	return ret;
}

/* Each of two ranks has found the other's later event: no run does that. */
static bool contradiction_is_noticed(void)
{
	char dir[] = "/tmp/sreplay-process.XXXXXX";
	struct sr_order later = {.event = 2, .via = SR_ORDER_CELL};
	struct sr_error err = {""};
	int ret;

	if (!begin_pair(dir))
		return false;
	for (int i = 0; i < 2; i++) {
		later.member = (uint8_t)!i;
		tick(&run, i, 0, &later, 1);
		called(&run, i, 0, trace_poll_cq(run.m, i, 0, NULL, 0, 0));
		tick(&run, i, 0, NULL, 0);
		called(&run, i, 0, trace_poll_cq(run.m, i, 0, NULL, 0, 0));
	}
	ret = plan_of_pair(dir, &err);
	return ret == -ELOOP && strstr(err.text, "contradict") && remove_all(dir);
}

/* Between two calls rank 0 stores what rank 1 sees and answers, and sees the answer. */
static bool ranks_talk_between_calls(void)
{
	char dir[] = "/tmp/sreplay-process.XXXXXX";
	struct sr_order seen = {.member = 0, .event = 1, .via = SR_ORDER_OWN};
	struct sr_order answered = {.member = 1, .event = 2, .via = SR_ORDER_CELL};
	struct sr_error err = {""};
	int ret;

	if (!begin_pair(dir))
		return false;
	tick(&run, 0, 0, NULL, 0);
	tick(&run, 0, 0, &answered, 1);
	called(&run, 0, 0, trace_poll_cq(run.m, 0, 0, NULL, 0, 0));
	tick(&run, 1, 0, &seen, 1);
	tick(&run, 1, 0, NULL, 0);
	called(&run, 1, 0, trace_poll_cq(run.m, 1, 0, NULL, 0, 0));
	ret = plan_of_pair(dir, &err);
	return !ret && remove_all(dir);
}

/* A call that only has numbers: log processing does not use it. */
static void pass(int rank, uint32_t thread, uint64_t order)
{
	static const uint64_t lock = 0x1000;

	trace_maker_call_ordered(run.m, rank, thread, SR_CALL_pthread_mutex_unlock, 0, &lock, sizeof(lock), NULL, 0,
				 &order, 1);
}

static struct sr_order of_rank(uint8_t member, uint64_t event, uint8_t via)
{
	return (struct sr_order){.member = member, .event = event, .via = via};
}

static void poll_at(int rank, uint32_t thread, uint64_t number)
{
	called(&run, rank, thread, trace_poll_cq(run.m, rank, thread, NULL, 0, number));
}

/* Rank 1 has found rank 0's first event. */
static void answer(uint8_t via)
{
	struct sr_order found = of_rank(0, 1, via);

	tick(&run, 1, 0, &found, 1);
	poll_at(1, 0, 0);
}

/* Thread 1 finds, in a poll without a number, what follows from thread 0's post: its calls in between had numbers. */
static bool idle_poll_has_its_place(void)
{
	char dir[] = "/tmp/sreplay-process.XXXXXX";
	struct trace_request write = {.opcode = IBV_WR_RDMA_WRITE, .length = 8, .remote = 0x9000};
	struct sr_order found = of_rank(1, 1, SR_ORDER_CELL);
	struct sr_error err = {""};

	if (!begin_pair(dir))
		return false;
	poll_at(0, 1, 1);
	tick(&run, 0, 0, NULL, 0);
	called(&run, 0, 0, trace_post_send(run.m, 0, 0, qp_address(0, 1), &write, 1, 2));
	pass(0, 1, 3);
	answer(SR_ORDER_CELL);
	tick(&run, 0, 1, &found, 1);
	poll_at(0, 1, 0);
	return !plan_of_pair(dir, &err) && remove_all(dir);
}

/*
 * Rank 1 reads that rank 0 has found something, and answers.  Thread 1 of rank 0 finds the answer, while thread 0, which had
 * found the first, has not made its next call.  told: a record says when that was.
 */
static bool orders_have_their_place(bool told)
{
	char dir[] = "/tmp/sreplay-process.XXXXXX";
	struct sr_order first = of_rank(1, 1, SR_ORDER_CELL), second = of_rank(1, 2, SR_ORDER_CELL);
	const uint64_t behind = 1;
	struct sr_error err = {""};

	if (!begin_pair(dir))
		return false;
	if (told) {
		pass(0, 1, 1);
		trace_maker_record(run.m, 0, 0, SR_REC_BEHIND, &behind, sizeof(behind));
	} else {
		pass(0, 0, 1);
	}
	tick(&run, 0, 0, &first, 1);
	tick(&run, 1, 0, NULL, 0);
	poll_at(1, 0, 0);
	answer(SR_ORDER_OWN);
	pass(0, 1, 2);
	tick(&run, 0, 1, &second, 1);
	poll_at(0, 1, 3);
	poll_at(0, 0, 4);
	return !plan_of_pair(dir, &err) && remove_all(dir);
}

static void stop_of(int rank, uint32_t thread, uint64_t goes_on)
{
	const struct sr_token_payload yields = {.what = SR_RUN_TOKEN_YIELDED, .other = 31};
	const struct sr_token_payload acquired = {.what = SR_RUN_TOKEN_ACQUIRED, .event = goes_on};

	trace_maker_record(run.m, rank, thread, SR_REC_RUN_TOKEN, &yields, sizeof(yields));
	trace_maker_record(run.m, rank, thread, SR_REC_RUN_TOKEN, &acquired, sizeof(acquired));
}

/*
 * Thread 0 of rank 0 computes, and stops twice to let thread 1 go on.  Rank 1 has seen its event between these stops, and thread 1
 * finds the answer before thread 0 makes its next call: rank 1 waits for the second stop.
 */
static bool events_have_their_place(void)
{
	char dir[] = "/tmp/sreplay-process.XXXXXX";
	struct sr_order answered = of_rank(1, 1, SR_ORDER_CELL);
	const struct sr_plan_wait *w;
	const void *waits = NULL;
	struct sr_error err = {""};
	struct sr_trace *t = NULL;
	struct sr_plan *p = NULL;
	uint64_t behind;
	size_t n = 0;
	bool ok;

	if (!begin_pair(dir))
		return false;
	pass(0, 0, 1);
	behind = trace_maker_sn(run.m, 0, 0);
	stop_of(0, 0, 3);
	tick(&run, 0, 0, NULL, 0);
	stop_of(0, 0, 6);
	pass(0, 1, 2);
	pass(0, 1, 4);
	answer(SR_ORDER_OWN);
	tick(&run, 0, 1, &answered, 1);
	poll_at(0, 1, 5);
	poll_at(0, 0, 7);
	trace_maker_finish(run.m);
	ok = !make_plan(dir, &p, &t, &err) && !sr_plan_records(p, SR_PLAN_WAIT, 1, 0, &waits, &n, &err);
	w = waits;
	ok = ok && n == 1 && w->for_thread == 0 && w->for_sn == behind && w->for_stop == 2;
	sr_plan_close(p);
	sr_trace_close(t);
	return remove_all(dir) && ok;
}

/* A value that a fault finds, with the order before it: rank 1 loads what rank 0 wrote. */
static bool faults_wait(void)
{
	char dir[] = "/tmp/sreplay-process.XXXXXX";
	struct trace_request write = {.opcode = IBV_WR_RDMA_WRITE, .length = 8, .remote = 0x9000};
	struct {
		struct sr_exposed_payload head;
		struct sr_exposed_value_head value;
		uint64_t bytes;
	} found = {{.fault = 3, .values = 1}, {.addr = 0x9000, .length = 8}, 42};
	struct sr_order order = {.event = 1, .via = SR_ORDER_CELL};
	const void *waits = NULL, *checks = NULL;
	struct sr_error err = {""};
	struct sr_trace *t = NULL;
	struct sr_plan *p = NULL;
	uint64_t posted, behind;
	size_t waits_n = 0, checks_n = 0;
	bool ok;

	if (!begin_pair(dir))
		return false;
	tick(&run, 0, 0, NULL, 0);
	posted = trace_post_send(run.m, 0, 0, qp_address(0, 1), &write, 1, 0);
	behind = trace_poll_cq(run.m, 1, 0, NULL, 0, 0);
	tick(&run, 1, 0, &order, 1);
	trace_maker_record(run.m, 1, 0, SR_REC_EXPOSED, &found, sizeof(found));
	trace_poll_cq(run.m, 1, 0, NULL, 0, 0);
	trace_maker_finish(run.m);
	ok = !make_plan(dir, &p, &t, &err) &&
	     !sr_plan_records(p, SR_PLAN_WAIT, 1, 0, &waits, &waits_n, &err) &&
	     !sr_plan_records(p, SR_PLAN_CHECK, 0, 0, &checks, &checks_n, &err);
	if (ok && waits_n == 1 && checks_n == 1) {
		const struct sr_plan_wait *w = waits;
		const struct sr_plan_check *c = checks;

		ok = w->sn == behind && w->fault == 3 && w->for_sn == posted && w->for_rank == 0 &&
		     c->sn == posted && c->their_sn == behind && c->their_fault == 3 &&
		     c->their_rank == 1;
	} else {
		printf("# %zu waits, %zu checks; %s\n", waits_n, checks_n, err.text);
		ok = false;
	}
	sr_plan_close(p);
	sr_trace_close(t);
	return remove_all(dir) && ok;
}

/* ibv_bind_mw posts a request: its completion is expected, and ends the requests in front of it. */
static bool binding_completes(void)
{
	char dir[] = "/tmp/sreplay-process.XXXXXX";
	struct trace_completion bound = {.wr_id = 7, .opcode = IBV_WC_BIND_MW};
	struct sr_process_counts counts;
	struct sr_error err = {""};
	struct sr_trace *t = NULL;
	bool ok;

	if (!begin_pair(dir))
		return false;
	bound.qp_num = qp_number(&run, 0, 1);
	trace_bind_mw(run.m, 0, 0, qp_address(0, 1), bound.wr_id, 0);
	trace_bind_mw(run.m, 0, 0, qp_address(0, 1), bound.wr_id, ENOMEM); /* posts nothing */
	trace_poll_cq(run.m, 0, 0, &bound, 1, 0);
	trace_poll_cq(run.m, 0, 0, &bound, 1, 0);
	trace_maker_finish(run.m);
	ok = !sr_trace_open(&t, dir, &err) && !sr_plan_make(t, NULL, 0, NULL, &counts, &err) &&
	     counts.unexpected == 1;
	sr_trace_close(t);
	return remove_all(dir) && ok;
}

/* Posts and polls that are like the ones before them are in the trace as a number. */
static bool repeats_count(void)
{
	char dir[] = "/tmp/sreplay-process.XXXXXX";
	struct trace_request send = {.opcode = IBV_WR_SEND, .wr_id = 5, .length = 8};
	struct trace_completion sent = {.wr_id = 5, .opcode = IBV_WC_SEND},
				received = {.wr_id = 6, .opcode = IBV_WC_RECV, .length = 8};
	const struct sr_repeat_payload twice_more = {.count = 2}, many = {.count = 1000};
	struct sr_process_counts counts;
	struct sr_error err = {""};
	struct sr_trace *t = NULL;
	bool ok;

	if (!begin_pair(dir))
		return false;
	sent.qp_num = qp_number(&run, 0, 1);
	received.qp_num = qp_number(&run, 1, 0);
	trace_post_send(run.m, 0, 0, qp_address(0, 1), &send, 1, 0);
	trace_maker_record(run.m, 0, 0, SR_REC_REPEAT, &twice_more, sizeof(twice_more));
	trace_poll_cq(run.m, 0, 0, NULL, 0, 0);
	trace_maker_record(run.m, 0, 0, SR_REC_REPEAT, &many, sizeof(many));
	trace_poll_cq(run.m, 0, 0, &sent, 1, 0);
	trace_maker_record(run.m, 0, 0, SR_REC_REPEAT, &twice_more, sizeof(twice_more));
	trace_poll_cq(run.m, 1, 0, &received, 1, 0);
	trace_maker_record(run.m, 1, 0, SR_REC_REPEAT, &twice_more, sizeof(twice_more));
	trace_maker_finish(run.m);
	ok = !sr_trace_open(&t, dir, &err) && !sr_plan_make(t, NULL, 0, NULL, &counts, &err) &&
	     !counts.unexpected && !counts.unmatched && counts.messages == 3;
	if (!ok)
		printf("# %llu unexpected, %llu unmatched, %llu messages; %s\n",
		       (unsigned long long)counts.unexpected, (unsigned long long)counts.unmatched,
		       (unsigned long long)counts.messages, err.text);
	sr_trace_close(t);
	return remove_all(dir) && ok;
}

/* Malformed records of the calls that matter: they may cause an error but nothing worse. */
static void put_nonsense(struct run *r, struct trace_maker *m)
{
	static const uint16_t kinds[] = {
	    SR_REC_CLOCK,
	    SR_REC_EXPOSED,
	    SR_REC_CALL + SR_CALL_post_send,
	    SR_REC_CALL + SR_CALL_poll_cq,
	    SR_REC_CALL + SR_CALL_start_poll,
	    SR_REC_CALL + SR_CALL_ibv_create_qp,
	    SR_REC_CALL + SR_CALL_ibv_modify_qp,
	    SR_REC_CALL + SR_CALL_ibv_reg_mr,
	    SR_REC_CALL + SR_CALL_wr_start,
	    SR_REC_CALL + SR_CALL_wr_rdma_read,
	    SR_REC_CALL + SR_CALL_wr_set_sge_list,
	    SR_REC_CALL + SR_CALL_wr_complete,
	    SR_REC_CALL + SR_CALL_rdma_get_cm_event,
	    SR_REC_CALL + SR_CALL_rdma_create_qp,
	    SR_REC_CALL + SR_CALL_rdma_get_request,
	};
	uint8_t payload[512];
	struct sr_call_head head = {.result = chance(r, 2)};
	uint32_t size = chance(r, sizeof(payload));
	uint16_t kind = kinds[chance(r, sizeof(kinds) / sizeof(kinds[0]))];

	/* Small numbers get further than large ones. */
	for (uint32_t i = 0; i < size; i++)
		payload[i] = (uint8_t)(chance(r, 3) ? 0 : chance(r, chance(r, 2) ? 4 : 256));
	if (kind >= SR_REC_CALL && size >= sizeof(head)) {
		head.in_size = chance(r, size - (uint32_t)sizeof(head) + 1) & 0x3fffffff;
		memcpy(payload, &head, sizeof(head));
	}
	trace_maker_record(m, 0, 0, kind, payload, size);
}

static bool nonsense_is_survived(int runs, uint64_t first)
{
	bool ok = true;

	for (int i = 0; i < runs && ok; i++) {
		char dir[] = "/tmp/sreplay-process.XXXXXX";
		struct sr_error err = {""};
		struct sr_trace *t = NULL;
		struct sr_plan *p = NULL;
		int ret;

		if (!mkdtemp(dir))
			return false;
		memset(&run, 0, sizeof(run));
		run.seed = first + (uint64_t)i;
		run.ranks = 2;
		run.clocks = true;
		begin(&run, dir);
		for (uint32_t n = 1 + chance(&run, 30); n; n--)
			put_nonsense(&run, run.m);
		trace_maker_finish(run.m);
		ret = make_plan(dir, &p, &t, &err);
		ok = !ret || err.text[0];
		sr_plan_close(p);
		sr_trace_close(t);
		ok &= remove_all(dir);
	}
	return ok;
}

int main(int argc, char **argv)
{
	int runs = argc > 1 ? atoi(argv[1]) : 12;
	uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;

	result(all_exact(first, runs, 1, false, false),
	       "messages: each receive waits for its send, and nothing else");
	result(all_exact(first, runs, 1, false, true),
	       "messages: queue pairs with equal numbers are told apart by sequence numbers");
	result(
	    all_exact(first, runs, 1, true, false),
	    "clocks: the waits are the orders that were found, none is missing, false or implied");
	result(all_exact(first, runs, THREADS, true, false), "clocks: the same with threads");
	result(contradiction_is_noticed(),
	       "orders that contradict each other are refused, in words");
	result(ranks_talk_between_calls(), "orders between two calls of a rank, both ways");
	result(idle_poll_has_its_place(), "what a poll without a number finds is behind the thread's last number");
	result(orders_have_their_place(false) && orders_have_their_place(true),
	       "what a thread found long before its next call is found where it was");
	result(events_have_their_place(), "what a thread does between two stops is waited for at the next stop, not at its next call");
	result(faults_wait(),
	       "exposed memory: a load waits for the write that it saw, and is to be compared with it");
	result(binding_completes(), "a memory window that ibv_bind_mw binds has its completion");
	result(repeats_count(), "posts and polls that are only counted in the trace");
	result(nonsense_is_survived(20 * runs, first),
	       "records of nonsense are no more than an error");
	printf("1..%d\n", test_number);
	return failures != 0;
}
