/* SPDX-License-Identifier: BSD-2-Clause */
/* test_process_cases.c: plans of short traces, one for each thing that log processing has to get right. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execution.h"
#include "replay/analysis/plan_make.h"

static int test_number, failures;

static void result(bool ok, const char *name)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", ++test_number, name);
	failures += !ok;
}

static struct run run;

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
	execution_begin(&run, dir);
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
		execution_begin(&run, dir);
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

int main(void)
{
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
	result(nonsense_is_survived(240, 1),
	       "records of nonsense are no more than an error");
	printf("1..%d\n", test_number);
	return failures != 0;
}
